//! The README's examples, as a user would type them.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails says where")]

mod common;

use std::path::Path;
use std::process::Command;

use common::Place;

const README: &str = include_str!("../README.md");

/// The lines of all `console` blocks.
fn console_lines() -> Vec<&'static str> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in README.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            line if inside => lines.push(line),
            _ => {}
        }
    }
    lines
}

/// Whether `line` is what the README shows; `…` stands for anything.
fn shown_as(line: &str, shown: &str) -> bool {
    match shown.split_once('…') {
        Some((start, end)) => line.starts_with(start) && line.ends_with(end),
        None => line == shown,
    }
}

#[test]
fn every_example_does_what_it_shows() {
    let place = Place::new();
    let folder = Path::new(env!("CARGO_BIN_EXE_idem")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let lines = console_lines();
    let mut commands = 0;
    let mut next = 0;
    while next < lines.len() {
        let command = lines[next].strip_prefix("$ ").expect("a block begins with a command");
        let shown = lines[next + 1..].iter().take_while(|line| !line.starts_with("$ "));
        let shown: Vec<_> = shown.copied().collect();
        let out = Command::new("sh")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .current_dir(place.path(""))
            .env("PATH", &path)
            .env("IDEM_STORE", "ledger.db")
            .output()
            .unwrap();
        let out = String::from_utf8(out.stdout).unwrap();
        let printed: Vec<_> = out.lines().collect();
        assert_eq!(printed.len(), shown.len(), "{command}: {out}");
        for (line, shown) in printed.iter().zip(&shown) {
            assert!(shown_as(line, shown), "{command}:\n{line}\n{shown}");
        }
        commands += 1;
        next += 1 + shown.len();
    }
    assert!(commands >= 12, "{commands} examples were found");
}

#[test]
fn the_exit_table_is_the_one_that_the_command_prints() {
    let place = Place::new();
    let printed = place.idem(["help", "exit-codes"]).stdout;
    // Cells wrap in the printed table, so only words are compared.
    let words: Vec<_> = printed.split_whitespace().collect();
    let text = words.join(" ");
    let mut tables = README.split("| exit | meaning |").skip(1).map(|after| {
        let rows = after.lines().skip(2).take_while(|line| line.starts_with('|'));
        rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    });
    let (of_run, of_others) = (tables.next().unwrap(), tables.next().unwrap());
    assert_eq!((of_run.len(), of_others.len(), tables.next()), (12, 12, None));
    for cells in of_run {
        let beginning: Vec<_> = cells[1].split_whitespace().take(4).collect();
        let part = format!("{} {}", cells[0], beginning.join(" "));
        assert!(text.contains(&part), "{part}");
    }
    for cells in of_others {
        assert!(text.contains(&cells.join(" ")), "{cells:?}");
    }
}
