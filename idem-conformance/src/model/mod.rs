//! Random scripts against the decision table: the store and [`transition`](idem_core::transition) in lockstep.

mod blur;
mod lockstep;
mod script;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use crate::env::Env;
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict};
use crate::runner::RUNTIME;
use lockstep::World;
pub(crate) use script::Reach;
use script::{Script, scripts};

/// How many random scripts are run.
const SCRIPTS: u32 = 64;
/// The most steps of one.
const STEPS_MAX: usize = 60;
/// How often a script that fails is tried again to find a shorter one.
const SHRINKS_MAX: u32 = 1_000;

/// Runs random scripts on the scenario's site until one fails; then finds a short one that fails, and prints it.
pub(crate) fn explore(env: &Env, reach: Reach) -> Verdict {
    let config = Config {
        cases: SCRIPTS,
        max_shrink_iters: SHRINKS_MAX,
        failure_persistence: None,
        ..Config::default()
    };
    let mut seed = [0; 32];
    for (byte, value) in seed.iter_mut().zip(env.seed().to_le_bytes().into_iter().cycle()) {
        *byte = value;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    // The runner is synchronous and calls back; this thread is inside the runtime and must not block in it again.
    std::thread::scope(|scope| {
        let runner = scope.spawn(|| run(env, reach, TestRunner::new_with_rng(config, rng)));
        runner.join().unwrap_or_else(|_| Err(Failure::new("the model panicked")))
    })
}

fn run(env: &Env, reach: Reach, mut runner: TestRunner) -> Verdict {
    let world = std::cell::RefCell::new(None);
    let steps = scripts(reach, STEPS_MAX).prop_map(Script);
    let result = runner.run(&steps, |script| {
        let mut kept = world.borrow_mut();
        let verdict = RUNTIME.handle().block_on(async {
            if kept.is_none() {
                *kept = Some(World::new(env, reach).await?);
            }
            let Some(world) = kept.as_mut() else { return Err(Failure::new("no world")) };
            world.play(&script).await
        });
        env.saw(Fact::Scripts, 1);
        verdict.map_err(|failure| {
            // What the store and the model think has parted; the next script starts on a site of its own.
            *kept = None;
            TestCaseError::fail(failure.message().to_owned())
        })
    });
    result.map_err(|error| match error {
        TestError::Fail(reason, script) => Failure::new(format!("{reason}\n  shortest script:\n{script}")),
        TestError::Abort(reason) => Failure::new(format!("the exploration gave up: {reason}")),
    })
}
