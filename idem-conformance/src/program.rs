//! The test program that [`main!`](crate::main!) makes: libtest's arguments, output and exit code.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

use crate::harness::Harness;
use crate::probe;
use crate::registry::{Scenario, scenarios};
use crate::report;
use crate::runner::{self, Options, RUNTIME};

/// Names backends, separated by commas, that must be available: one that is not fails instead of being skipped.
const REQUIRE: &str = "IDEM_REQUIRE";
/// The seed of the run, as a decimal number.
const SEED: &str = "IDEM_SEED";

/// Which test program this is, for the line that runs a failed scenario again.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Program {
    pub(crate) package: &'static str,
    pub(crate) target: &'static str,
}

impl Program {
    /// The test target `target` of the package `package`.
    #[must_use]
    pub const fn new(package: &'static str, target: &'static str) -> Self {
        Self { package, target }
    }
}

/// Runs every scenario on every harness, by the arguments of the process. [`main!`](crate::main!) calls this.
///
/// A skipped or required backend, zero executed scenarios and a bad seed are told on stderr.
#[must_use]
pub fn main(program: Program, harnesses: Vec<Arc<dyn Harness>>) -> ExitCode {
    if let Some(ended) = crate::dispatch(&harnesses) {
        return ended;
    }
    let arguments = Arguments::from_args();
    let seed = match run_seed() {
        Ok(seed) => seed,
        Err(complaint) => return refuse(&complaint),
    };
    let required = required();
    let mut trials = Vec::new();
    let mut skips = Vec::new();
    let mut reachable = false;
    let executed = Arc::new(AtomicU64::new(0));
    for harness in harnesses {
        let availability = RUNTIME.block_on(harness.available());
        reachable |= availability.is_ok();
        let must = required.contains(harness.name());
        let plan = Plan {
            program,
            harness,
            seed,
            unavailable: availability.err(),
            must,
            executed: executed.clone(),
        };
        plan.add_to(&mut trials, &mut skips);
    }
    if !arguments.list && !arguments.exact {
        report::print_skips(&skips);
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if arguments.list {
        ExitCode::SUCCESS
    } else {
        verdict(&arguments, &conclusion, reachable, executed.load(Ordering::Relaxed))
    }
}

/// One backend in this run.
struct Plan {
    program: Program,
    harness: Arc<dyn Harness>,
    seed: u64,
    unavailable: Option<String>,
    must: bool,
    /// Scenarios that ran, over all backends.
    executed: Arc<AtomicU64>,
}

impl Plan {
    fn add_to(self, trials: &mut Vec<Trial>, skips: &mut Vec<(String, String)>) {
        let declared = self.harness.capabilities();
        let backend = self.harness.name();
        let plan = Arc::new(self);
        let mut add = |name: String,
                       lack: Option<String>,
                       body: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
            let skip = match (&plan.unavailable, plan.must) {
                (Some(reason), true) => {
                    let message = format!("{backend} is required by {REQUIRE} and not available: {reason}");
                    trials.push(Trial::test(name, move || Err(message.into())));
                    return;
                }
                (Some(reason), false) => Some(format!("{backend} is not available: {reason}")),
                (None, _) => lack,
            };
            trials.push(match skip {
                // A skip is never a pass, also when it is asked for with `--ignored`.
                Some(reason) => {
                    skips.push((name.clone(), reason.clone()));
                    Trial::ignorable_test(name, move || Ok(Completion::ignored_with(reason)))
                        .with_ignored_flag(true)
                }
                None => Trial::test(name, body),
            });
        };
        let probed = plan.clone();
        add(
            format!("{backend}::CAP::what_is_declared_is_there"),
            None,
            Box::new(move || probe::probe(&probed.harness).map_err(Failed::from)),
        );
        for scenario in scenarios() {
            let plan = plan.clone();
            add(
                scenario.name(backend),
                declared.lacks(scenario.capabilities()),
                Box::new(move || plan.run(scenario)),
            );
        }
    }

    fn run(&self, scenario: &'static Scenario) -> Result<(), Failed> {
        let seed = runner::scenario_seed(self.seed, scenario.id());
        self.executed.fetch_add(1, Ordering::Relaxed);
        let ended = runner::run(&self.harness, scenario, Options::new(seed));
        match ended.failure {
            None => Ok(()),
            Some(failure) => Err(report::failed(
                self.program,
                self.harness.name(),
                scenario,
                self.seed,
                &failure,
                &ended.evidence,
            )
            .into()),
        }
    }
}

/// Nothing executed is a failure, unless the filter named nothing of this program (as in `cargo test some_unit`) or no
/// backend could be reached and none is required.
fn verdict(arguments: &Arguments, conclusion: &Conclusion, reachable: bool, executed: u64) -> ExitCode {
    let matched = conclusion.num_passed + conclusion.num_failed + conclusion.num_ignored;
    let names_a_scenario =
        arguments.exact || arguments.filter.as_deref().is_some_and(report::looks_like_a_scenario);
    // A program that was asked for its probe alone did run what it was asked for.
    let probed = arguments.filter.as_deref().is_some_and(|filter| filter.contains("CAP"));
    if executed == 0 && !probed && ((matched > 0 && reachable) || (matched == 0 && names_a_scenario)) {
        return refuse("no scenario was executed");
    }
    conclusion.exit_code()
}

fn refuse(complaint: &str) -> ExitCode {
    eprintln!("error: {complaint}");
    ExitCode::from(101)
}

fn required() -> BTreeSet<String> {
    let list = std::env::var(REQUIRE).unwrap_or_default();
    list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn run_seed() -> Result<u64, String> {
    match std::env::var(SEED) {
        Ok(text) => text.parse().map_err(|_| format!("{SEED} is not a decimal number: {text:?}")),
        Err(_) => Ok(fastrand::u64(..)),
    }
}
