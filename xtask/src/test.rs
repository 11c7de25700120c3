//! `cargo xtask test`: every test of the workspace.
//!
//! Unit tests, integration and conformance targets, the command as a process and the examples are all targets
//! of the workspace and run together; documentation tests and the loom models need runs of their own.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::needs;
use crate::process::{self, cargo};
use crate::report::{Outcome, Report};
use crate::servers::{self, Servers};
use crate::summary::Tally;
use crate::workspace::Workspace;

/// Every kind of target but benchmarks, which measure and prove nothing.
const TARGETS: &[&str] = &["--lib", "--bins", "--tests", "--examples"];

/// A store that is built in only when asked for has its tests of the command too.
const EVERYTHING: &str = "--all-features";

/// The integration test that holds a package's loom models.
const LOOM_TEST: &str = "loom";

pub(crate) fn run(workspace: &Workspace, report: &mut Report) {
    // Without this a run in which every step failed early would end without a closing line.
    report.count(Default::default());
    needs::prepare(workspace, report);
    let servers = servers::start_for(workspace, report);
    let mut programs = 0;
    let built = report.step("build tests", || {
        programs = build()?;
        println!("{programs} test programs");
        Ok(Outcome::Passed)
    });
    if built == Outcome::Passed {
        watched_step(report, "tests", |tally| run_built(programs, &servers, tally));
    } else {
        report.step("tests", || Ok(Outcome::Skipped("they do not build".to_owned())));
    }
    watched_step(report, "doc tests", |tally| {
        let mut command = cargo();
        command.args(["test", "--workspace", EVERYTHING, "--doc", "--no-fail-fast"]);
        process::run_watched(&mut command, |line| tally.see(line))
    });
    loom(workspace, report);
}

/// A step whose output is searched for closing lines. They count whether or not the step passes.
fn watched_step(report: &mut Report, name: &str, body: impl FnOnce(&mut Tally) -> Result<()>) {
    let mut tally = Tally::default();
    report.step(name, || {
        let ended = body(&mut tally);
        if let Some(line) = tally.unreadable.first() {
            bail!("a closing line cannot be read: {line}");
        }
        ended.map(|()| Outcome::Passed)
    });
    report.count(tally.counts);
}

/// Builds the test programs and says how many there are.
fn build() -> Result<usize> {
    // The target kinds below build an example as a test program; tests that drive one as a process need the program.
    process::run(cargo().args(["build", "--workspace", "--examples", EVERYTHING]))?;
    let mut command = cargo();
    command.args(["test", "--workspace", EVERYTHING, "--no-run"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    command.args(TARGETS);
    process::announce(&command);
    count_test_programs(&process::capture(&mut command)?)
}

/// Counts the test programs that cargo reports as built, one JSON message a line.
fn count_test_programs(messages: &str) -> Result<usize> {
    let mut count: usize = 0;
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Value = serde_json::from_str(line).context("a message of cargo is no JSON")?;
        let is_test = message.pointer("/profile/test").and_then(Value::as_bool) == Some(true);
        let is_program = message.get("executable").is_some_and(Value::is_string);
        if is_test && is_program {
            count = count.saturating_add(1);
        }
    }
    Ok(count)
}

fn run_built(programs: usize, servers: &Servers, tally: &mut Tally) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--workspace", EVERYTHING, "--no-fail-fast"]).args(TARGETS);
    // One server for all programs; without this each would start its own.
    command.envs(servers.urls());
    process::run_watched(&mut command, |line| tally.see(line))?;
    // A test program with a `main` of its own can end with status 0 without having run anything.
    ensure!(
        tally.closed >= programs,
        "{programs} test programs were built and {} closed with a `test result:` line",
        tally.closed
    );
    Ok(())
}

/// Runs the loom models of every package that has some.
fn loom(workspace: &Workspace, report: &mut Report) {
    let with_models =
        workspace.packages.iter().filter(|package| package.tests.iter().any(|test| test == LOOM_TEST));
    let names: Vec<&str> = with_models.map(|package| package.name.as_str()).collect();
    if names.is_empty() {
        let reason = format!("no package has a test target `{LOOM_TEST}`");
        report.step("loom", || Ok(Outcome::Skipped(reason)));
    }
    for name in names {
        watched_step(report, &format!("loom {name}"), |tally| {
            let mut command = cargo();
            command.args(["test", "--package", name, "--release", "--test", LOOM_TEST, "--no-fail-fast"]);
            // The flag changes every crate of the build; a folder of its own keeps the ordinary build warm.
            command.arg("--target-dir").arg(workspace.target_directory.join("loom"));
            command.env("RUSTFLAGS", process::with_flags("RUSTFLAGS", "--cfg idem_loom"));
            process::run_watched(&mut command, |line| tally.see(line))?;
            // With the flag lost on the way the same program passes with no test in it.
            ensure!(tally.counts.executed() > 0, "no loom model was executed");
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_built_test_programs_are_counted() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","profile":{"test":true},"executable":"/t/a"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","profile":{"test":false},"executable":"/t/example"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","profile":{"test":true},"executable":null}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
            "\nnot a message\n",
        );
        assert_eq!(count_test_programs(messages).unwrap(), 1);
        assert!(count_test_programs("{broken").is_err());
    }

    #[test]
    fn a_failing_step_keeps_what_it_counted() {
        let mut report = Report::default();
        let line = "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        watched_step(&mut report, "tests", |tally| {
            tally.see(line);
            bail!("exit status 101")
        });
        let mut unreadable = Report::default();
        watched_step(&mut unreadable, "tests", |tally| {
            tally.see("test result: who knows");
            Ok(())
        });
        assert_eq!(report.finish(), std::process::ExitCode::FAILURE);
        assert_eq!(unreadable.finish(), std::process::ExitCode::FAILURE);
    }
}
