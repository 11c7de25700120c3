//! The jobs of the gate, one row each.

use anyhow::{Result, anyhow};

use crate::process::{self, cargo};
use crate::report::{Outcome, Report};
use crate::workspace::Workspace;
use crate::{test, tools, tree};

/// One job: what `cargo xtask ci NAME` runs.
pub(crate) struct Job {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&Workspace, &mut Report),
}

/// Every job that can be named. The hosted workflow may name these and nothing else.
pub(crate) const JOBS: &[Job] = &[
    Job { name: "fmt", about: "formatting, checked and not changed", run: fmt },
    Job { name: "clippy", about: "lints on all targets, warnings denied", run: clippy },
    Job { name: "doc", about: "documentation of the workspace, warnings denied", run: doc },
    Job { name: "tree", about: "which crate may depend on which", run: tree::run },
    Job { name: "test", about: "the same as `cargo xtask test`", run: test::run },
    Job { name: "deny", about: "licences, bans and sources, with cargo-deny", run: tools::deny },
    Job {
        name: "advisories",
        about: "known vulnerabilities; needs the advisory database",
        run: tools::advisories,
    },
    Job {
        name: "mutants",
        about: "mutation tests of the transition module, with cargo-mutants",
        run: tools::mutants,
    },
];

/// What `all` stands for, in this order: the cheap answers first, the tests last, so that their closing line
/// is the last line of the whole run.
pub(crate) const ALL: &[&str] = &["fmt", "clippy", "doc", "tree", "test"];

/// Turns names into jobs; `all` becomes its members.
pub(crate) fn resolve(names: &[&str]) -> Result<Vec<&'static Job>> {
    let expanded =
        names.iter().flat_map(|name| if *name == "all" { ALL } else { std::slice::from_ref(name) });
    expanded
        .map(|name| {
            JOBS.iter()
                .find(|job| job.name == *name)
                .ok_or_else(|| anyhow!("no job is called `{name}`; `cargo xtask help` lists them"))
        })
        .collect()
}

fn fmt(_workspace: &Workspace, report: &mut Report) {
    report.step("fmt", || {
        process::run(cargo().args(["fmt", "--all", "--", "--check"]))?;
        Ok(Outcome::Passed)
    });
}

fn clippy(_workspace: &Workspace, report: &mut Report) {
    report.step("clippy", || {
        // What is not built by default is linted too, and what is built by default is linted as it is.
        for features in [&[][..], &["--all-features"]] {
            let mut command = cargo();
            command.args(["clippy", "--workspace", "--all-targets"]).args(features);
            process::run(command.args(["--", "-D", "warnings"]))?;
        }
        Ok(Outcome::Passed)
    });
}

fn doc(_workspace: &Workspace, report: &mut Report) {
    report.step("doc", || {
        let flags = process::with_flags("RUSTDOCFLAGS", "-D warnings");
        process::run(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", flags))?;
        Ok(Outcome::Passed)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_expanded_in_order_and_ends_with_the_tests() {
        let names: Vec<&str> = resolve(&["all"]).unwrap().iter().map(|job| job.name).collect();
        assert_eq!(names, ALL);
        assert_eq!(names.last(), Some(&"test"));
    }

    #[test]
    fn an_unknown_job_is_refused_before_anything_runs() {
        assert!(resolve(&["fmt", "tset"]).is_err());
    }
}
