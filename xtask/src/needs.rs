//! Programs that the tests need beside the Rust toolchain, and how to get them.

use std::process::Command;

use anyhow::{Context, Result, bail};
use idem_provision::find_program;

use crate::process;
use crate::report::{Outcome, Report};
use crate::workspace::Workspace;

/// One program; adding one is one row of [`NEEDS`].
struct Need {
    /// Looked for on `PATH` and in the folders where Debian keeps servers.
    program: &'static str,
    /// The Debian packages that bring it.
    packages: &'static [&'static str],
    /// Asked for only when the workspace has this member.
    member: &'static str,
    without: Without,
}

/// What its absence means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    /// Nothing can be built.
    Fail,
    /// The tests of one store skip themselves with a reason, so a developer without the server can still work.
    Skip,
}

const NEEDS: &[Need] = &[
    // SQLite is compiled from source into idem-sqlite.
    Need { program: "cc", packages: &["gcc", "libc6-dev"], member: "idem-sqlite", without: Without::Fail },
    Need { program: "postgres", packages: &["postgresql"], member: "idem-postgres", without: Without::Skip },
    Need {
        program: "redis-server",
        packages: &["redis-server"],
        member: "idem-redis",
        without: Without::Skip,
    },
];

/// Installs what is missing when run as root on Debian; otherwise prints the one line that would.
pub(crate) fn prepare(workspace: &Workspace, report: &mut Report) {
    report.step("needs", || {
        let absent = |need: &&Need| workspace.has(need.member) && find_program(need.program).is_none();
        let missing: Vec<&Need> = NEEDS.iter().filter(absent).collect();
        if missing.is_empty() {
            println!("nothing is missing");
            return Ok(Outcome::Passed);
        }
        let install = install_line(&missing);
        if process::is_root() && find_program("apt-get").is_some() {
            install_packages(&missing)?;
            if let Some(need) = missing.iter().find(|need| find_program(need.program).is_none()) {
                bail!("`{}` is still missing after `{install}`", need.program);
            }
            return Ok(Outcome::Passed);
        }
        verdict(&missing, &install)
    });
}

/// What to say when nothing can be installed from here.
fn verdict(missing: &[&Need], install: &str) -> Result<Outcome> {
    let programs = missing.iter().map(|need| need.program).collect::<Vec<_>>().join(", ");
    let reason = format!("missing: {programs}; install with: {install}");
    if missing.iter().any(|need| need.without == Without::Fail) {
        bail!(reason);
    }
    Ok(Outcome::Skipped(reason))
}

fn install_line(missing: &[&Need]) -> String {
    format!("apt-get install --yes {}", packages(missing).join(" "))
}

fn packages(missing: &[&Need]) -> Vec<&'static str> {
    missing.iter().flat_map(|need| need.packages).copied().collect()
}

fn install_packages(missing: &[&Need]) -> Result<()> {
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    // A new machine has no package lists, and an old one may name versions that are gone.
    process::run(apt().args(["update", "--quiet"])).context("apt-get update")?;
    let mut install = apt();
    install.args(["install", "--yes", "--quiet", "--no-install-recommends"]).args(packages(missing));
    process::run(&mut install).context("apt-get install")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_compiler_fails_and_a_missing_server_skips_both_with_the_line_to_type() {
        let compiler = NEEDS.iter().find(|need| need.program == "cc").unwrap();
        let server = NEEDS.iter().find(|need| need.program == "redis-server").unwrap();

        let both = [compiler, server];
        let error = verdict(&both, &install_line(&both)).unwrap_err().to_string();
        assert!(error.ends_with("apt-get install --yes gcc libc6-dev redis-server"), "{error}");

        let one = [server];
        let Ok(Outcome::Skipped(reason)) = verdict(&one, &install_line(&one)) else { panic!("no skip") };
        assert!(reason.contains("missing: redis-server;"), "{reason}");
    }
}
