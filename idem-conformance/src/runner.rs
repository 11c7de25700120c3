//! Runs scenarios: one at a time for tests of the suite, all of them as a test program.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

use idem_core::clock::{Clock, SystemClock};
use tokio::runtime::Runtime;

use crate::env::Env;
use crate::evidence::Evidence;
use crate::failure::Failure;
use crate::harness::Harness;
use crate::registry::Scenario;

/// One runtime for the whole process: pools and connections that a harness keeps outlive the scenario that made them.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "without a runtime there is nothing to run")]
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("the system gives threads for a runtime")
});

/// How one scenario ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ended {
    /// Why it failed; `None` when it passed.
    pub failure: Option<Failure>,
    /// What it saw.
    pub evidence: Evidence,
    /// How long it took.
    pub took: Duration,
    /// With which seed it ran.
    pub seed: u64,
}

/// How a scenario is run.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Options {
    /// Makes the random choices of the scenario.
    pub seed: u64,
    /// After so long it counts as hung.
    pub deadline: Duration,
    /// Do what is costly less often: for tests of the suite itself, which run it on many stores.
    pub brief: bool,
}

impl Options {
    /// In full, for two minutes at most.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, deadline: Duration::from_secs(120), brief: false }
    }
}

/// Runs one scenario on one backend, on a thread of its own.
#[must_use]
pub fn run(harness: &Arc<dyn Harness>, scenario: &Scenario, options: Options) -> Ended {
    let started = SystemClock.elapsed();
    let (ended, end) = mpsc::channel();
    let harness = harness.clone();
    let scenario = *scenario;
    let thread = std::thread::Builder::new().name(scenario.id().to_owned()).spawn(move || {
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| attempt(harness, &scenario, options)));
        // Nobody listens any more after the deadline.
        let _ = ended.send(result.unwrap_or_else(|panic| (Some(panicked(&*panic)), Evidence::default())));
    });
    let (failure, evidence) = match thread {
        Err(error) => (Some(Failure::new(format!("no thread: {error}"))), Evidence::default()),
        Ok(_detached) => end.recv_timeout(options.deadline).unwrap_or_else(|_| {
            let message = format!("hung: no end within {} s", options.deadline.as_secs());
            (Some(Failure::new(message)), Evidence::default())
        }),
    };
    Ended { failure, evidence, took: SystemClock.elapsed().saturating_sub(started), seed: options.seed }
}

fn attempt(harness: Arc<dyn Harness>, scenario: &Scenario, options: Options) -> (Option<Failure>, Evidence) {
    let env = match Env::new(harness, options.seed, scenario.steps_time(), options.brief) {
        Ok(env) => env,
        Err(failure) => return (Some(failure), Evidence::default()),
    };
    RUNTIME.block_on(async {
        let verdict = (scenario.body())(&env).await;
        env.tear_down().await;
        let evidence = env.evidence();
        let failure = match verdict {
            Err(failure) => Some(failure),
            Ok(()) => evidence.missing(scenario.minimum()).map(Failure::new),
        };
        (failure, evidence)
    })
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    Failure::new(format!("panicked: {text}"))
}

/// The seed of one scenario in a run: different for every scenario, the same in every run with the same seed.
#[must_use]
pub fn scenario_seed(run_seed: u64, id: &str) -> u64 {
    id.bytes().fold(run_seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_have_different_seeds() {
        assert_ne!(scenario_seed(1, "CC-001"), scenario_seed(1, "CC-002"));
        assert_ne!(scenario_seed(1, "CC-001"), scenario_seed(2, "CC-001"));
        assert_eq!(scenario_seed(1, "CC-001"), scenario_seed(1, "CC-001"));
    }
}
