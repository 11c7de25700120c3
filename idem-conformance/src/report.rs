//! What is printed about skips and failures.

use std::collections::BTreeMap;

use crate::evidence::Evidence;
use crate::failure::Failure;
use crate::program::Program;
use crate::registry::Scenario;

/// Everything that is needed to understand one failure and to see it again.
pub(crate) fn failed(
    program: Program,
    backend: &str,
    scenario: &Scenario,
    run_seed: u64,
    failure: &Failure,
    evidence: &Evidence,
) -> String {
    format!(
        "{id} on {backend} breaks {rules}\n    {failure}\n  shows:    {shows}\n  evidence: {evidence}\n  rerun:    \
         IDEM_SEED={run_seed} cargo test -p {package} --test {target} -- {backend}::{id}",
        id = scenario.id(),
        rules = scenario.rules().join(", "),
        shows = scenario.shows(),
        package = program.package,
        target = program.target,
    )
}

/// Tells on stderr what is skipped, by reason.
pub(crate) fn print_skips(skips: &[(String, String)]) {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, reason) in skips {
        by_reason.entry(reason).or_default().push(name);
    }
    for (reason, names) in by_reason {
        eprintln!("skipped ({}): {reason}", names.len());
        for name in names {
            eprintln!("    {name}");
        }
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
