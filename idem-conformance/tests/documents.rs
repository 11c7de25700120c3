//! The suite, the contract and the documents say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use idem_conformance::{Family, Proof, RULES, scenarios};

fn document(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

#[test]
fn the_rules_are_those_of_the_guarantees() {
    let text = std::fs::read_to_string(document("guarantees.md")).unwrap();
    let written: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("- **G-")?.split_once("**"))
        .map(|(number, _)| format!("G-{}", number.split_whitespace().next().unwrap()))
        .collect();
    let known: Vec<_> = RULES.iter().map(|rule| rule.id.to_owned()).collect();
    assert_eq!(known, written);
}

#[test]
fn every_rule_has_a_scenario_or_a_reason() {
    let cited: BTreeSet<_> = scenarios().flat_map(|scenario| scenario.rules().iter().copied()).collect();
    for rule in RULES {
        match rule.proof {
            Proof::Suite => assert!(cited.contains(rule.id), "no scenario cites {}", rule.id),
            Proof::Elsewhere(reason) => assert!(reason.len() > 10, "{} needs a reason", rule.id),
            _ => panic!("an unknown proof"),
        }
    }
    assert!(cited.iter().all(|id| RULES.iter().any(|rule| rule.id == *id)));
}

#[test]
fn the_readme_shows_code_that_runs() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let walk = std::fs::read_to_string(root.join("tests/walk.rs")).unwrap();
    let shown: Vec<_> =
        readme.split("```rs\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(shown.len(), 3);
    for block in shown {
        assert!(walk.contains(block.trim_end()), "not in tests/walk.rs:\n{block}");
    }
}

/// What `docs/testing.md` says; `IDEM_BLESS=1` writes it.
#[test]
fn the_testing_page_is_up_to_date() {
    let expected = testing_page();
    if std::env::var_os("IDEM_BLESS").is_some() {
        std::fs::write(document("testing.md"), &expected).unwrap();
    }
    let written = std::fs::read_to_string(document("testing.md")).unwrap_or_default();
    assert!(
        written == expected,
        "docs/testing.md is out of date: IDEM_BLESS=1 cargo test -p idem-conformance --test documents"
    );
}

fn testing_page() -> String {
    let mut page = String::from(
        "# Which scenario proves which rule\n\n\
         Generated from the registry of the conformance suite, and checked by a test. To write it anew:\n\
         `IDEM_BLESS=1 cargo test -p idem-conformance --test documents`.\n\n\
         How to run the suite on a store, and what its letters mean: `idem-conformance/README.md`.\n\n\
         ## By rule\n\n| rule | about | scenarios |\n|---|---|---|\n",
    );
    let mut by_rule: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for scenario in scenarios() {
        for rule in scenario.rules() {
            by_rule.entry(rule).or_default().push(scenario.id());
        }
    }
    for rule in RULES {
        let proof = match rule.proof {
            Proof::Elsewhere(reason) => reason.to_owned(),
            _ => by_rule.get(rule.id).map(|ids| ids.join(", ")).unwrap_or_default(),
        };
        page += &format!("| {} | {} | {proof} |\n", rule.id, rule.title);
    }
    page += "\n## By family\n";
    for family in Family::ALL {
        let members: Vec<_> = scenarios().filter(|scenario| scenario.family() == family).collect();
        if members.is_empty() {
            continue;
        }
        page += &format!("\n### {}\n\n| id | needs | rules | shows |\n|---|---|---|---|\n", family.name());
        for scenario in members {
            let needs: String = scenario.capabilities().iter().map(|need| need.letter()).collect();
            let rules = scenario.rules().join(", ");
            page += &format!("| {} | {needs} | {rules} | {} |\n", scenario.id(), scenario.shows());
        }
    }
    page
}
