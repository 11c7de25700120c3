//! `run`: the suite on several stores, and the verdict.

use std::collections::{BTreeSet, VecDeque};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use idem_conformance::report::{Counts, Report, ScenarioReport, StoreReport, skips_by_reason};
use idem_conformance::{Backend, Harness, Options, Scenario, scenario_seed};
use idem_core::clock::{Clock, SystemClock};

use crate::arguments::Run;
use crate::matrix::matrix;
use crate::progress::Progress;
use crate::stores;

/// One scenario to be run on one store.
#[derive(Debug, Clone, Copy)]
struct Due {
    store: usize,
    scenario: &'static Scenario,
}

pub(crate) fn run(arguments: &Run) -> Result<ExitCode, String> {
    let harnesses = harnesses(arguments)?;
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u32(..).into());
    let began = SystemClock.elapsed();
    let mut report = Report::new(Some(seed), SystemClock.now().as_millis());
    let backends: Vec<_> = harnesses.into_iter().map(Backend::new).collect();
    report.stores = backends.iter().map(StoreReport::new).collect();
    let selected = arguments.selection.scenarios();
    println!(
        "idem-conformance {}: {} scenarios on {}, seed {seed}\n",
        report.suite,
        selected.len(),
        backends.iter().map(Backend::name).collect::<Vec<_>>().join(", "),
    );
    for (backend, store) in backends.iter().zip(&mut report.stores) {
        if backend.unavailable().is_none() {
            store.probed(&backend.probe());
        }
    }
    run_all(&backends, &selected, seed, &mut report.stores);
    report.took_ms =
        u64::try_from(SystemClock.elapsed().saturating_sub(began).as_millis()).unwrap_or(u64::MAX);
    if let Some(file) = &arguments.json {
        let json = serde_json::to_vec_pretty(&report).map_err(|error| error.to_string())?;
        std::fs::write(file, json).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let complaints = complaints(&report, &arguments.require);
    print!("{}", told(&report, &complaints));
    Ok(if complaints.is_empty() && report.counts().clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn harnesses(arguments: &Run) -> Result<Vec<Arc<dyn Harness>>, String> {
    let mut harnesses = if arguments.stores.is_empty() {
        stores::all()?
    } else {
        arguments.stores.iter().map(|spec| stores::named(spec)).collect::<Result<Vec<_>, _>>()?
    };
    for name in &arguments.require {
        if !harnesses.iter().any(|harness| harness.name() == name) {
            harnesses.push(stores::named(name)?);
        }
    }
    let mut seen = BTreeSet::new();
    match harnesses.iter().find(|harness| !seen.insert(harness.name())) {
        Some(twice) => Err(format!("{} is named twice", twice.name())),
        None => Ok(harnesses),
    }
}

/// Runs what is to be run, as many scenarios at once as the machine has cores.
fn run_all(backends: &[Backend], selected: &[&'static Scenario], seed: u64, stores: &mut [StoreReport]) {
    let mut due = VecDeque::new();
    let mut progress = Progress::new();
    for index in 0..backends.len() {
        selected.iter().for_each(|scenario| progress.expect(index, scenario.family()));
    }
    for (index, (backend, store)) in backends.iter().zip(stores.iter_mut()).enumerate() {
        for scenario in selected {
            match backend.skips(scenario) {
                Some(reason) => {
                    let skipped = ScenarioReport::new(scenario).skipped(reason);
                    progress.ended(index, backend.name(), scenario.family(), &skipped);
                    store.scenarios.push(skipped);
                }
                None => due.push_back(Due { store: index, scenario }),
            }
        }
    }
    let due = Mutex::new(due);
    let shared = Mutex::new((progress, stores));
    let work = || {
        let next = || due.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(Due { store, scenario }) = next() {
            let Some(backend) = backends.get(store) else { continue };
            let ended = one(backend, scenario, seed);
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            shared.0.ended(store, backend.name(), scenario.family(), &ended);
            if let Some(store) = shared.1.get_mut(store) {
                store.scenarios.push(ended);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let stores = shared.into_inner().unwrap_or_else(PoisonError::into_inner).1;
    stores.iter_mut().for_each(StoreReport::sort);
}

fn one(backend: &Backend, scenario: &Scenario, seed: u64) -> ScenarioReport {
    let options = Options::new(scenario_seed(seed, scenario.id()));
    let ended = idem_conformance::run(backend.harness(), scenario, options);
    let rerun = format!(
        "cargo run --release -p idem-conformance -- run --store {} --id {} --seed {seed}",
        backend.name(),
        scenario.id()
    );
    ScenarioReport::new(scenario).ended(ended, rerun)
}

/// What is wrong with a run although its scenarios may have passed.
fn complaints(report: &Report, required: &[String]) -> Vec<String> {
    let mut complaints = Vec::new();
    for store in &report.stores {
        if let Some(misdeclared) = &store.misdeclared {
            complaints.push(format!("{}: {misdeclared}", store.name));
        }
        if let (true, Some(reason)) = (required.contains(&store.name), &store.unavailable) {
            complaints.push(format!("{} is required and not available: {reason}", store.name));
        }
    }
    if report.counts().executed() == 0 {
        complaints.push("no scenario was executed".to_owned());
    }
    complaints
}

/// What is printed at the end: skips, matrix, complaints and, last, the line with the sums.
fn told(report: &Report, complaints: &[String]) -> String {
    let mut text = String::new();
    for store in &report.stores {
        for (reason, ids) in skips_by_reason(store) {
            text += &format!("\nskipped on {} ({}): {reason}", store.name, ids.len());
        }
        if !store.under_claimed.is_empty() {
            text += &format!("\nunder-claimed: {} declines {} and it works", store.name, store.under_claimed);
        }
    }
    text += &format!("\n\n{}\n", matrix(report));
    for complaint in complaints {
        text += &format!("error: {complaint}\n");
    }
    let Counts { passed, failed, skipped, unknown, .. } = report.counts();
    let verdict = if complaints.is_empty() && report.counts().clean() { "ok" } else { "FAILED" };
    let (seconds, millis) = (report.took_ms / 1_000, report.took_ms % 1_000);
    // The form of the test programs, with what is unknown among the failures.
    text + &format!(
        "test result: {verdict}. {passed} passed; {} failed; {skipped} ignored; 0 measured; 0 filtered out; finished \
         in {seconds}.{millis:03} s\n",
        failed + unknown
    )
}
