//! A report as text: failures, skips, and what can be told from a filter.

use std::collections::BTreeMap;
use std::fmt;

use super::{ScenarioReport, State, StoreReport};

impl ScenarioReport {
    /// Everything that is needed to understand how it ended on `backend`, and to see it again.
    #[must_use]
    pub fn told<'r>(&'r self, backend: &'r str) -> impl fmt::Display + 'r {
        Told { scenario: self, backend }
    }

    /// What it saw, in words.
    #[must_use]
    pub fn seen(&self) -> String {
        let facts: Vec<_> = self.evidence.iter().map(|(fact, count)| format!("{count} {fact}")).collect();
        if facts.is_empty() { "none".to_owned() } else { facts.join(", ") }
    }
}

struct Told<'r> {
    scenario: &'r ScenarioReport,
    backend: &'r str,
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScenarioReport { id, rules, state, shows, .. } = self.scenario;
        let verb = match state {
            State::Passed => "keeps",
            State::Failed => "breaks",
            State::Skipped | State::Unknown => "says nothing about",
        };
        write!(f, "{id} on {} {verb} {}", self.backend, rules.join(", "))?;
        if let Some(reason) = &self.scenario.reason {
            write!(f, "\n    {reason}")?;
        }
        if let Some(timeline) = &self.scenario.timeline {
            write!(f, "\n{timeline}")?;
        }
        write!(f, "\n  shows:    {shows}\n  evidence: {}", self.scenario.seen())?;
        self.scenario.rerun.as_ref().map_or(Ok(()), |rerun| write!(f, "\n  rerun:    {rerun}"))
    }
}

/// The skipped scenarios of a backend by their reasons: the ids of each.
#[must_use]
pub fn skips_by_reason(store: &StoreReport) -> BTreeMap<&str, Vec<&str>> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for scenario in store.scenarios.iter().filter(|scenario| scenario.state == State::Skipped) {
        by_reason.entry(scenario.reason.as_deref().unwrap_or_default()).or_default().push(&scenario.id);
    }
    by_reason
}

/// Tells on stderr what is skipped, by reason.
pub(crate) fn print_skips(store: &StoreReport) {
    for (reason, ids) in skips_by_reason(store) {
        eprintln!("skipped on {} ({}): {reason}\n    {}", store.name, ids.len(), ids.join(", "));
    }
}

/// Whether a filter can only mean scenarios: it has `::` in it, or begins like an id.
pub(crate) fn looks_like_a_scenario(filter: &str) -> bool {
    let mut letters = filter.bytes();
    let mut two = || letters.next().is_some_and(|byte| byte.is_ascii_uppercase());
    let begins_like_an_id = two() && two() && letters.next() == Some(b'-');
    filter.contains("::") || begins_like_an_id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_name_scenarios_are_told_from_others() {
        for filter in ["CC-001", "memory::", "ID-"] {
            assert!(looks_like_a_scenario(filter), "{filter}");
        }
        for filter in ["", "codec", "C", "cc-001", "CAP"] {
            assert!(!looks_like_a_scenario(filter), "{filter}");
        }
    }
}
