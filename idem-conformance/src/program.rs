//! The test program that [`main!`](crate::main!) makes: libtest's arguments, output and exit code.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idem_core::clock::{Clock, SystemClock};
use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial};

use crate::backend::Backend;
use crate::harness::Harness;
use crate::registry::{Scenario, scenarios};
use crate::report::{self, Report, ScenarioReport, State, StoreReport};
use crate::runner::{self, Options};

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

    fn rerun(self, backend: &str, id: &str, seed: u64) -> String {
        let Self { package, target } = self;
        format!("{SEED}={seed} cargo test -p {package} --test {target} -- {backend}::{id}")
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
    let began = SystemClock.elapsed();
    let required = required();
    let mut report = Report::new(Some(seed), SystemClock.now().as_millis());
    let mut trials = Vec::new();
    let mut parts = Vec::new();
    for harness in harnesses {
        let backend = Backend::new(harness);
        let must = required.contains(backend.name());
        let part =
            Arc::new(Part { program, seed, must, told: Mutex::new(StoreReport::new(&backend)), backend });
        part.add_to(&mut trials);
        parts.push(part);
    }
    if !arguments.list && !arguments.exact {
        parts.iter().for_each(|part| report::print_skips(&part.told()));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    report.took_ms =
        u64::try_from(SystemClock.elapsed().saturating_sub(began).as_millis()).unwrap_or(u64::MAX);
    report.stores = parts.iter().map(|part| part.told().clone()).collect();
    if let Err(complaint) = report::write_shard(&report) {
        return refuse(&complaint);
    }
    if arguments.list {
        return ExitCode::SUCCESS;
    }
    let reachable = parts.iter().any(|part| part.backend.unavailable().is_none());
    verdict(&arguments, &conclusion, reachable, report.counts().executed())
}

/// One backend in this run.
struct Part {
    program: Program,
    backend: Backend,
    seed: u64,
    must: bool,
    /// What it did so far.
    told: Mutex<StoreReport>,
}

impl Part {
    fn told(&self) -> MutexGuard<'_, StoreReport> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_to(self: &Arc<Self>, trials: &mut Vec<Trial>) {
        let name = self.backend.name();
        let probed = self.clone();
        let probe = format!("{name}::CAP::what_is_declared_is_there");
        trials.push(match self.backend.unavailable() {
            Some(reason) if !self.must => skip(probe, format!("{name} is not available: {reason}")),
            _ => Trial::test(probe, move || probed.probe()),
        });
        for scenario in scenarios() {
            let full_name = scenario.name(name);
            let part = self.clone();
            trials.push(match self.backend.skips(scenario) {
                Some(reason) if !self.must || self.backend.unavailable().is_none() => {
                    self.told().scenarios.push(ScenarioReport::new(scenario).skipped(reason.clone()));
                    skip(full_name, reason)
                }
                _ => Trial::test(full_name, move || part.run(scenario)),
            });
        }
    }

    /// Fails where the backend is required and not there.
    fn reached(&self) -> Result<(), Failed> {
        let name = self.backend.name();
        self.backend.unavailable().map_or(Ok(()), |reason| {
            Err(format!("{name} is required by {REQUIRE} and not available: {reason}").into())
        })
    }

    fn probe(&self) -> Result<(), Failed> {
        self.reached()?;
        let probed = self.backend.probe();
        self.told().probed(&probed);
        for capability in &probed.under_claimed {
            eprintln!("under-claimed: {}: {capability} is declined, and it works", self.backend.name());
        }
        probed.failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn run(&self, scenario: &'static Scenario) -> Result<(), Failed> {
        self.reached()?;
        let name = self.backend.name();
        let seed = runner::scenario_seed(self.seed, scenario.id());
        let ended = runner::run(self.backend.harness(), scenario, Options::new(seed));
        let rerun = self.program.rerun(name, scenario.id(), self.seed);
        let report = ScenarioReport::new(scenario).ended(ended, rerun);
        let told = report.told(name).to_string();
        let passed = report.state == State::Passed;
        self.told().scenarios.push(report);
        if passed { Ok(()) } else { Err(told.into()) }
    }
}

/// A skip is never a pass, also when it is asked for with `--ignored`.
fn skip(name: String, reason: String) -> Trial {
    Trial::ignorable_test(name, move || Ok(Completion::ignored_with(reason))).with_ignored_flag(true)
}

/// Nothing executed is a failure, unless the filter named nothing of this program (as in `cargo test some_unit`) or no
/// backend could be reached and none is required.
fn verdict(arguments: &Arguments, conclusion: &Conclusion, reachable: bool, executed: usize) -> ExitCode {
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
        // Short enough to be typed.
        Err(_) => Ok(fastrand::u32(..).into()),
    }
}
