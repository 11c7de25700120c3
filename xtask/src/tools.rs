//! Jobs that need a tool which cargo does not bring. A tool that is not there is a skip with the line that
//! installs it, never a pass.

use crate::process::{self, cargo};
use crate::report::{Outcome, Report};
use crate::rules::CORE;
use crate::workspace::{self, Workspace};

/// Where the decision table lives: one file or a folder of them, whichever the core has.
const TRANSITION: &[&str] = &["idem-core/src/transition.rs", "idem-core/src/transition"];

/// Licences, bans and sources. Advisories are a job of their own, because they need a database from outside.
pub(crate) fn deny(_workspace: &Workspace, report: &mut Report) {
    report.step("deny", || {
        if let Some(skip) = absent("deny") {
            return Ok(skip);
        }
        process::run(cargo().args(["deny", "--all-features", "check", "bans", "licenses", "sources"]))?;
        Ok(Outcome::Passed)
    });
}

pub(crate) fn advisories(_workspace: &Workspace, report: &mut Report) {
    report.step("advisories", || {
        if let Some(skip) = absent("deny") {
            return Ok(skip);
        }
        process::run(cargo().args(["deny", "--all-features", "check", "advisories"]))?;
        Ok(Outcome::Passed)
    });
}

/// Mutation tests of the transition module with the core's own tests.
pub(crate) fn mutants(workspace: &Workspace, report: &mut Report) {
    report.step("mutants", || {
        if !TRANSITION.iter().any(|path| workspace::root().join(path).exists()) {
            return Ok(Outcome::Skipped(format!("{CORE} has no transition module")));
        }
        if let Some(skip) = absent("mutants") {
            return Ok(skip);
        }
        let mut command = cargo();
        command.args(["mutants", "--package", CORE]);
        command.args(["--file", "idem-core/src/transition.rs", "--file", "idem-core/src/transition/**/*.rs"]);
        command.arg("--output").arg(&workspace.target_directory);
        // The unit tests catch every mutant by themselves; the explorations would take a minute for each.
        command.args(["--", "--lib"]);
        process::run(&mut command)?;
        Ok(Outcome::Passed)
    });
}

/// The skip for a cargo subcommand that is not installed.
fn absent(subcommand: &str) -> Option<Outcome> {
    let missing = !process::answers(cargo().args([subcommand, "--version"]));
    let line = format!("cargo install --locked cargo-{subcommand}");
    missing.then(|| Outcome::Skipped(format!("cargo-{subcommand} is not installed; install with: {line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_not_there_is_a_skip_with_its_install_line() {
        let Some(Outcome::Skipped(reason)) = absent("no-such-subcommand") else { panic!("no skip") };
        assert!(reason.ends_with("cargo install --locked cargo-no-such-subcommand"), "{reason}");
        // One that is always there.
        assert_eq!(absent("tree"), None);
    }
}
