//! What idem costs above the same statements without it.
//!
//! A run measures, per store and number of clients, a floor without library code, the `Store` and the `Ledger`, taking
//! turns, so that a machine that slows down slows all of them. What counts are the ratios within one run.
//! `docs/performance.md` says how to read them.

mod args;
mod floor;
mod keys;
mod latency;
mod library;
mod machine;
mod mix;
mod point;
mod report;
mod run;
mod summary;
mod table;
mod targets;
mod timing;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Command, CommandLine};

fn main() -> anyhow::Result<ExitCode> {
    let Command::Run(options) = CommandLine::parse().command;
    if cfg!(debug_assertions) {
        eprintln!("idem-bench: a debug build: its figures mean nothing, build with --release");
    }
    let report = run::run(&options)?;
    println!("{}", table::text(&report));
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_vec_pretty(&report)?)?;
    }
    let missed = options.check && targets::any_missed(&report.targets);
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
