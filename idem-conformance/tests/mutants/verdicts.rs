//! Runs every mutant and compares what fails with what was said to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_conformance::{Capability, Harness, Options, run, scenario, scenario_seed, scenarios};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::ground::Ground;
use crate::table::{Covered, Mutant, PENDING, ROWS, mutants, variants};

/// All mutants run with one seed, so that what they do with random scripts is always the same.
const SEED: u64 = 1;

pub(crate) fn main() -> ExitCode {
    let mut trials = vec![
        Trial::test("coverage::every_scenario_kills_a_mutant", every_scenario_kills_a_mutant),
        Trial::test("coverage::every_broken_store_is_here_or_pending", every_row_is_covered),
        Trial::test("coverage::a_scenario_without_body_fails", a_hollow_scenario_fails),
    ];
    for mutant in mutants() {
        trials.push(Trial::test(format!("mutant::{}", mutant.name), move || judge(mutant)));
    }
    for variant in variants() {
        trials.push(Trial::test(format!("variant::{}", variant.name), move || judge(variant)));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The scenarios that a mutant is run against.
fn scenarios_of(mutant: &Mutant) -> impl Iterator<Item = &'static idem_conformance::Scenario> {
    let declared = mutant.harness().capabilities();
    let outlives = [Capability::Reopen, Capability::Process];
    let folder = mutant.ground == Ground::Folder;
    scenarios().filter(move |scenario| {
        let needs = scenario.capabilities();
        declared.lacks(needs).is_none() && (!folder || needs.iter().any(|need| outlives.contains(need)))
    })
}

fn judge(mutant: &'static Mutant) -> Result<(), Failed> {
    let mut failed = BTreeMap::new();
    for scenario in scenarios_of(mutant) {
        let mut options = Options::new(scenario_seed(SEED, scenario.id()));
        options.deadline = Duration::from_secs(60);
        options.brief = true;
        if let Some(failure) = run(&mutant.harness(), scenario, options).failure {
            failed.insert(scenario.id(), failure.message().to_owned());
        }
    }
    let mut complaints = String::new();
    for id in mutant.must.iter().filter(|id| !failed.contains_key(*id)) {
        complaints += &format!("    {id} passed, and must fail\n");
    }
    for (id, message) in &failed {
        if !mutant.must.contains(id) && !mutant.chance.contains(id) {
            complaints += &format!("    {id} failed, and must pass: {message}\n");
        }
    }
    let (id, text) = mutant.says;
    if let Some(message) = failed.get(id).filter(|message| !message.contains(text)) {
        complaints += &format!("    {id} was to say {text:?}, and said: {message}\n");
    }
    if complaints.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} ({})\n{complaints}  rerun: IDEM_MUTANT={} cargo test -p idem-conformance --test mutants",
        mutant.name, mutant.breaks, mutant.name
    )
    .into())
}

fn every_scenario_kills_a_mutant() -> Result<(), Failed> {
    let killers: BTreeSet<_> = mutants().flat_map(|mutant| mutant.must.iter().copied()).collect();
    let pending: BTreeMap<_, _> = PENDING.iter().copied().collect();
    let mut complaints = Vec::new();
    for scenario in scenarios() {
        match (killers.contains(scenario.id()), pending.contains_key(scenario.id())) {
            (false, false) => complaints.push(format!("{} kills no mutant", scenario.id())),
            (true, true) => complaints.push(format!("{} kills a mutant and is still pending", scenario.id())),
            _ => {}
        }
    }
    let named = mutants().flat_map(|mutant| mutant.must.iter().chain(mutant.chance)).copied();
    for id in named.chain(pending.keys().copied()) {
        if scenario(id).is_none() {
            complaints.push(format!("there is no scenario {id}"));
        }
    }
    for mutant in mutants() {
        let runs: BTreeSet<_> = scenarios_of(mutant).map(|scenario| scenario.id()).collect();
        for id in mutant.must.iter().chain(mutant.chance).filter(|id| !runs.contains(*id)) {
            complaints.push(format!("{} is not run against {id}", mutant.name));
        }
        if mutant.must.is_empty() {
            complaints.push(format!("{} need not fail anywhere", mutant.name));
        }
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n").into()) }
}

fn every_row_is_covered() -> Result<(), Failed> {
    let names: BTreeSet<_> = mutants().map(|mutant| mutant.name).collect();
    let mut complaints = Vec::new();
    for (row, covered) in ROWS {
        match covered {
            Covered::By(mutants) => {
                let unknown = mutants.iter().filter(|name| !names.contains(*name));
                complaints.extend(unknown.map(|name| format!("{row}: there is no mutant {name}")));
            }
            Covered::Pending("") => complaints.push(format!("{row}: no reason")),
            Covered::Pending(_) => {}
        }
    }
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n").into()) }
}

/// A scenario whose body does nothing has no evidence, and fails.
fn a_hollow_scenario_fails() -> Result<(), Failed> {
    let plain = variants().next().ok_or("no variants")?;
    let harness: Arc<dyn Harness> = plain.harness();
    for scenario in scenarios() {
        let options = Options::new(SEED);
        let Some(failure) = run(&harness, &scenario.hollow(), options).failure else {
            return Err(format!("{} passes without a body", scenario.id()).into());
        };
        if !failure.message().starts_with("not enough evidence") {
            return Err(format!("{} without a body: {failure}", scenario.id()).into());
        }
    }
    Ok(())
}
