//! Developer commands of the workspace: `cargo xtask test`, `cargo xtask ci JOB`.
//!
//! What a developer runs, what `.ci/run` runs and what the hosted workflow runs is the same code, so a
//! green run in one place means a green run in the others. Crates of the workspace are found through
//! `cargo metadata`; adding one needs no change here.

mod descendants;
#[cfg(test)]
mod documents;
mod jobs;
mod needs;
mod process;
mod report;
mod rules;
mod servers;
mod summary;
mod test;
mod tools;
mod tree;
#[cfg(test)]
mod workflow;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::report::Report;
use crate::workspace::Workspace;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the command named by the arguments. An `Err` means that nothing was run: bad usage, or a workspace
/// that cargo cannot read. Failed steps are reported by the exit code instead.
fn dispatch(arguments: &[String]) -> Result<ExitCode> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => run_jobs(&["test"]),
        // One process for all, so that one table and one closing line end the run.
        ["test", "--after", names @ ..] if !names.is_empty() => run_jobs(&[names, &["test"]].concat()),
        ["ci", names @ ..] if !names.is_empty() => run_jobs(names),
        ["up", words @ ..] if !words.is_empty() => servers::up(words),
        [] | ["help" | "--help" | "-h"] => {
            println!("{}", usage());
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("unknown command `{}`\n\n{}", words.join(" "), usage()),
    }
}

fn run_jobs(names: &[&str]) -> Result<ExitCode> {
    // Names are resolved before anything runs: a misspelt last job must not cost the run of the first.
    let jobs = jobs::resolve(names)?;
    let workspace = Workspace::load()?;
    let mut report = Report::default();
    for job in jobs {
        (job.run)(&workspace, &mut report);
    }
    Ok(report.finish())
}

fn usage() -> String {
    let mut text = String::from(
        "usage: cargo xtask COMMAND\n\n  \
         test                  every test of the workspace; installs what is missing when run as root\n  \
         test --after JOB...   the same, with other jobs of the gate before it\n  \
         ci JOB...             one or more jobs of the gate\n  \
         up SERVER...          starts servers (postgres, redis), prints their URLs, stops them at ^C\n  \
         up SERVER... -- CMD   the same for one command, which finds the URLs in its environment\n\njobs:\n",
    );
    for job in jobs::JOBS {
        text.push_str(&format!("  {:<13} {}\n", job.name, job.about));
    }
    text.push_str(&format!("  {:<13} {}\n", "all", jobs::ALL.join(", ")));
    text.trim_end().to_owned()
}
