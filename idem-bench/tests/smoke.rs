//! The program, tiny: every cell is there, nothing is lost, and table and JSON have their shape. Nothing here asks how
//! long anything took.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "the helpers of a test may fail it")]

use std::process::{Command, Output};

use serde_json::Value;

const ROUNDS: usize = 2;
const KEYS: u64 = 30;
const CLIENTS: [u64; 2] = [1, 3];

fn run(arguments: &[&str]) -> (Output, Value) {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("report.json");
    let output = Command::new(env!("CARGO_BIN_EXE_idem-bench"))
        .args(["run", "--clients", "1,3", "--rounds", "2", "--keys", "30"])
        .args(["--memory-keys", "50", "--checkpoint-keys", "40"])
        .arg("--json")
        .arg(&json)
        .arg("--dir")
        .arg(directory.path())
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.stderr.starts_with(b"idem-bench: "), "{output:?}");
    let report = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "only the report is left: {left:?}");
    (output, report)
}

fn list<'r>(report: &'r Value, name: &str) -> &'r [Value] {
    report[name].as_array().unwrap()
}

/// The cells of a store are exactly these subjects, each at every number of clients in every round, and each did all
/// of its work.
fn assert_cells(report: &Value, store: &str, subjects: &[&str]) {
    let mut expected = Vec::new();
    for round in 0..ROUNDS as u64 {
        for clients in CLIENTS {
            expected.extend(subjects.iter().map(|subject| (round, clients, (*subject).to_owned())));
        }
    }
    let cells: Vec<_> = list(report, "cells").iter().filter(|cell| cell["store"] == store).collect();
    for cell in &cells {
        for kind in ["claims", "completes", "replays"] {
            assert_eq!(cell[kind], KEYS, "{cell}");
        }
        for kind in ["all", "claim", "complete", "replay"] {
            for figure in ["p50_us", "p99_us", "p999_us", "max_us"] {
                assert!(cell[kind][figure].as_f64().unwrap() > 0.0, "{cell}");
            }
        }
        assert!(cell["ops_per_s"].as_f64().unwrap() > 0.0);
    }
    let of = |cell: &&Value| {
        let number = |name: &str| cell[name].as_u64().unwrap();
        (number("round"), number("clients"), cell["subject"].as_str().unwrap().to_owned())
    };
    let mut found: Vec<_> = cells.iter().map(of).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let summaries = list(report, "summary").iter().filter(|summary| summary["store"] == store);
    assert_eq!(summaries.clone().count(), subjects.len() * CLIENTS.len());
    for summary in summaries {
        assert_eq!(summary["rounds"], ROUNDS);
        let is_floor = summary["subject"] == "floor";
        assert_eq!(summary["of_floor"].is_null(), is_floor, "{summary}");
        assert_eq!(summary["p99_of_floor"].is_null(), is_floor, "{summary}");
    }
}

#[test]
fn every_cell_does_all_of_its_work() {
    let (output, report) = run(&["--store", "memory", "--store", "sqlite", "--check"]);
    assert_cells(&report, "memory", &["floor", "Store", "Ledger"]);
    assert_cells(&report, "sqlite", &["floor", "commit per request", "Store", "Ledger"]);
    let points: Vec<_> =
        list(&report, "points").iter().map(|point| point["subject"].as_str().unwrap()).collect();
    assert_eq!(points, ["Store", "Ledger", "Ledger, detached"]);
    assert_eq!(list(&report, "batches").len(), ROUNDS * CLIENTS.len());
    assert!(report["record_bytes"]["completed"].as_u64().unwrap() > 256, "the record holds the result");
    let long: Vec<_> =
        list(&report, "checkpoints").iter().map(|cell| (&cell["subject"], &cell["replays"])).collect();
    assert_eq!(
        format!("{long:?}"),
        r#"[(String("floor"), Number(40)), (String("Store"), Number(40)), (String("Ledger"), Number(40))]"#
    );
    assert_eq!(report["fingerprint"]["value_bytes"], 100);

    let table = String::from_utf8(output.stdout).unwrap();
    let titles =
        ["memory, one task", "memory, allocations", "memory, 3 clients", "sqlite, 1 clients", "target"];
    for title in titles {
        assert!(table.lines().any(|line| line.trim_start().starts_with(title)), "{title} in\n{table}");
    }
    // The exit says what the table says, whatever that is here.
    let missed = list(&report, "targets").iter().any(|target| target["verdict"] == "miss");
    assert_eq!(table.lines().any(|line| line.ends_with("MISS")), missed, "{table}");
    assert_eq!(output.status.code(), Some(i32::from(missed)), "{table}");
}

#[test]
fn allocations_do_not_depend_on_the_machine() {
    let (output, report) = run(&["--store", "memory"]);
    assert!(output.status.success(), "without --check a miss is only printed");
    assert!(list(&report, "cells").iter().all(|cell| cell["store"] == "memory"));
    let counted = |target: &&Value| target["name"].as_str().unwrap().contains("allocations");
    let targets: Vec<_> = list(&report, "targets").iter().filter(counted).collect();
    assert_eq!(targets.len(), 4);
    for target in targets {
        assert_eq!(target["verdict"], "pass", "{target}");
    }
}
