//! Reports of several processes: each writes what it did, and somebody puts it together.

use std::collections::BTreeMap;
use std::path::Path;

use idem_core::clock::{Clock, SystemClock};

use super::{Report, SCHEMA, ScenarioReport, State, StoreReport};
use crate::registry::{Scenario, scenarios};

/// The environment variable that names the folder into which every test program writes what it did. One process does not
/// know what the others did: cargo-nextest starts one for each scenario.
pub const REPORT_DIR: &str = "IDEM_REPORT_DIR";

/// Writes what this process did into the folder that the environment names, if it names one.
pub(crate) fn write_shard(report: &Report) -> Result<(), String> {
    let Some(dir) = std::env::var_os(REPORT_DIR) else { return Ok(()) };
    let names: Vec<_> = report.stores.iter().map(|store| store.name.as_str()).collect();
    let random = fastrand::u64(..);
    let path = Path::new(&dir).join(format!("{}-{}-{random:016x}.json", names.join("+"), std::process::id()));
    let json = serde_json::to_vec(report).map_err(|error| error.to_string());
    let written = std::fs::create_dir_all(&dir).map_err(|error| error.to_string());
    written
        .and(json)
        .and_then(|json| std::fs::write(&path, json).map_err(|error| error.to_string()))
        .map_err(|error| format!("the report {} cannot be written: {error}", path.display()))
}

/// Reads one report, or all of a folder.
///
/// # Errors
///
/// What cannot be read, and where there is nothing.
pub fn read_shards(path: &Path) -> Result<Vec<Report>, String> {
    let broken = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut files = Vec::new();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).map_err(|error| broken(path, &error))? {
            files.push(entry.map_err(|error| broken(path, &error))?.path());
        }
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    let read = |file: &Path| -> Result<Report, String> {
        let text = std::fs::read(file).map_err(|error| broken(file, &error))?;
        serde_json::from_slice(&text).map_err(|error| broken(file, &error))
    };
    let reports: Vec<_> = files.iter().map(|file| read(file)).collect::<Result<_, _>>()?;
    if reports.is_empty() {
        Err(format!("{}: there is no report in it", path.display()))
    } else {
        Ok(reports)
    }
}

/// Puts the reports of several processes together. What no report tells of and no declaration excuses is unknown.
///
/// # Errors
///
/// Where the reports are not of this suite.
pub fn merge(reports: Vec<Report>) -> Result<Report, String> {
    let suite = env!("CARGO_PKG_VERSION");
    let seeds: Vec<_> = reports.iter().map(|report| report.seed).collect();
    let seed =
        seeds.first().copied().flatten().filter(|seed| seeds.iter().all(|other| *other == Some(*seed)));
    let mut merged = Report::new(seed, SystemClock.now().as_millis());
    let mut ended_at_ms = 0;
    for report in reports {
        if report.schema != SCHEMA || report.suite != suite {
            return Err(format!(
                "a report has form {} of suite {}; this is form {SCHEMA} of suite {suite}",
                report.schema, report.suite
            ));
        }
        merged.revision = merged.revision.or(report.revision);
        merged.began_at_ms = merged.began_at_ms.min(report.began_at_ms);
        ended_at_ms = ended_at_ms.max(report.began_at_ms.saturating_add(report.took_ms));
        for store in report.stores {
            match merged.stores.iter_mut().find(|known| known.name == store.name) {
                Some(known) => known.take(store),
                None => merged.stores.push(store),
            }
        }
    }
    merged.took_ms = ended_at_ms.saturating_sub(merged.began_at_ms);
    merged.stores.iter_mut().for_each(StoreReport::complete);
    Ok(merged)
}

impl StoreReport {
    /// Takes over what another process did with the same backend.
    fn take(&mut self, other: Self) {
        self.misdeclared = self.misdeclared.take().or(other.misdeclared);
        if self.under_claimed.is_empty() {
            self.under_claimed = other.under_claimed;
        }
        // Reached by one process is reached.
        self.unavailable = self.unavailable.take().and(other.unavailable);
        for scenario in other.scenarios {
            match self.scenarios.iter_mut().find(|known| known.id == scenario.id) {
                Some(known) if weight(scenario.state) > weight(known.state) => *known = scenario,
                Some(_) => {}
                None => self.scenarios.push(scenario),
            }
        }
    }

    /// Adds the scenarios that nobody told of.
    fn complete(&mut self) {
        let told: BTreeMap<_, _> = self.scenarios.iter().map(|one| (one.id.clone(), ())).collect();
        for scenario in scenarios().filter(|scenario| !told.contains_key(scenario.id())) {
            let report = ScenarioReport::new(scenario);
            self.scenarios.push(match self.excuse(scenario) {
                Some(reason) => report.skipped(reason),
                None => report,
            });
        }
        self.sort();
    }

    /// Why nobody had to run `scenario`.
    fn excuse(&self, scenario: &Scenario) -> Option<String> {
        if let Some(reason) = &self.unavailable {
            return Some(format!("{} is not available: {reason}", self.name));
        }
        scenario.capabilities().iter().find_map(|need| {
            let said = self.capabilities.iter().find(|said| said.letter == need.letter())?;
            said.declined.as_ref().map(|reason| format!("needs {need}, declined: {reason}"))
        })
    }
}

/// What is believed where two processes tell different things: a failure before a pass, a run before a skip.
const fn weight(state: State) -> u8 {
    match state {
        State::Failed => 3,
        State::Passed => 2,
        State::Skipped => 1,
        State::Unknown => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::scenario;

    fn store(capabilities: &[(char, Option<&str>)], ids: &[(&str, State)]) -> Report {
        let mut report = Report::new(Some(7), 1_000);
        let scenarios = ids.iter().map(|(id, state)| {
            let mut report = ScenarioReport::new(scenario(id).unwrap());
            report.state = *state;
            report
        });
        report.stores.push(StoreReport {
            name: "mine".to_owned(),
            unavailable: None,
            capabilities: capabilities
                .iter()
                .map(|(letter, declined)| super::super::CapabilityReport {
                    letter: *letter,
                    name: "x".to_owned(),
                    declined: declined.map(str::to_owned),
                })
                .collect(),
            misdeclared: None,
            under_claimed: String::new(),
            scenarios: scenarios.collect(),
        });
        report
    }

    fn state(report: &Report, id: &str) -> State {
        let found = report.stores[0].scenarios.iter().find(|one| one.id == id);
        found.unwrap().state
    }

    #[test]
    fn what_no_process_tells_of_is_unknown_unless_it_is_declined() {
        let declared = [('K', Some("no clock")), ('W', None)];
        let merged = merge(vec![
            store(&declared, &[("ID-001", State::Passed)]),
            store(&declared, &[("CC-001", State::Failed), ("ID-001", State::Skipped)]),
        ])
        .unwrap();
        assert_eq!(state(&merged, "ID-001"), State::Passed);
        assert_eq!(state(&merged, "CC-001"), State::Failed);
        assert_eq!(state(&merged, "LS-002"), State::Skipped);
        assert_eq!(state(&merged, "CC-004"), State::Unknown, "W is supported, and nobody ran it");
        assert_eq!(merged.counts().all(), scenarios().count());
        assert!(!merged.counts().clean());
        assert_eq!(merged.seed, Some(7));
        let ids: Vec<_> = merged.stores[0].scenarios.iter().map(|one| one.id.as_str()).collect();
        let catalogue: Vec<_> = scenarios().map(Scenario::id).collect();
        assert_eq!(ids, catalogue);
    }

    #[test]
    fn a_failure_in_one_process_is_not_hidden_by_a_pass_in_another() {
        for order in [[State::Failed, State::Passed], [State::Passed, State::Failed]] {
            let shards = order.map(|state| store(&[], &[("ID-001", state)]));
            assert_eq!(state(&merge(shards.to_vec()).unwrap(), "ID-001"), State::Failed);
        }
    }

    #[test]
    fn reports_of_another_suite_are_refused() {
        let mut other = store(&[], &[]);
        other.suite = "0.0.0".to_owned();
        assert!(merge(vec![other]).unwrap_err().contains("suite 0.0.0"));
        let mut other = store(&[], &[]);
        other.schema += 1;
        assert!(merge(vec![other]).is_err());
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let report = store(&[('K', None)], &[("ID-001", State::Passed)]);
        std::fs::write(dir.path().join("a.json"), serde_json::to_vec(&report).unwrap()).unwrap();
        std::fs::write(dir.path().join("a.txt"), "something else").unwrap();
        assert_eq!(read_shards(dir.path()).unwrap(), std::slice::from_ref(&report));
        assert_eq!(read_shards(&dir.path().join("a.json")).unwrap(), [report]);
        let empty = tempfile::tempdir().unwrap();
        assert!(read_shards(empty.path()).unwrap_err().contains("there is no report"));
        std::fs::write(dir.path().join("b.json"), "{}").unwrap();
        assert!(read_shards(dir.path()).unwrap_err().contains("b.json"));
    }
}
