//! Servers for the tests, and by hand: `cargo xtask up postgres`.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow, bail};
use idem_provision::{Provision, Server, Software};

use crate::process;
use crate::report::{Outcome, Report};
use crate::workspace::Workspace;

/// Servers that run as long as this does.
#[derive(Debug, Default)]
pub(crate) struct Servers(Vec<Server>);

impl Servers {
    /// The variables by which what is started with them finds the servers. Without those that are in the environment
    /// already: commands are shown with their variables, and somebody's own URL may hold a password that counts.
    pub(crate) fn urls(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0
            .iter()
            .filter(|server| server.is_local())
            .map(|server| (server.software().url_variable(), server.url()))
    }
}

/// Starts what the members of the workspace test against. What cannot be had here is skipped with its reason; its tests
/// skip themselves too.
pub(crate) fn start_for(workspace: &Workspace, report: &mut Report) -> Servers {
    let mut servers = Servers::default();
    let tested = Software::ALL.into_iter().filter(|software| workspace.has(member(*software)));
    for software in tested {
        report.step(&format!("start {}", software.name()), || match Provision::of(software).start() {
            Ok(server) => {
                servers.0.push(server);
                Ok(Outcome::Passed)
            }
            Err(error) if error.is_unavailable() && !idem_provision::required(software) => {
                Ok(Outcome::Skipped(error.to_string()))
            }
            Err(error) => Err(error.into()),
        });
    }
    servers
}

/// The member whose tests need it.
fn member(software: Software) -> &'static str {
    match software {
        Software::Postgres => "idem-postgres",
        Software::Redis => "idem-redis",
        _ => "",
    }
}

/// `up SERVER...` and `up SERVER... -- COMMAND`.
pub(crate) fn up(words: &[&str]) -> Result<ExitCode> {
    let mut parts = words.splitn(2, |word| *word == "--");
    let (names, command) = (parts.next().unwrap_or_default(), parts.next());
    if names.is_empty() || command.is_some_and(<[&str]>::is_empty) {
        bail!("`up` needs a server, and `--` a command");
    }
    let known = Software::ALL.map(Software::name).join(", ");
    let named = |name: &&str| {
        Software::named(name).ok_or_else(|| anyhow!("no server is called `{name}`; there are: {known}"))
    };
    let wanted = names.iter().map(named).collect::<Result<Vec<_>>>()?;
    let started = wanted.into_iter().map(|software| Ok(Provision::of(software).start()?));
    let servers = Servers(started.collect::<Result<Vec<_>>>()?);
    match command {
        Some(command) => run(command, &servers),
        None => wait(&servers),
    }
}

fn run(words: &[&str], servers: &Servers) -> Result<ExitCode> {
    let [program, arguments @ ..] = words else { bail!("no command") };
    let status = Command::new(program).args(arguments).envs(servers.urls()).status();
    let status = status.with_context(|| format!("cannot start `{program}`"))?;
    // As a shell would say it: a command that was ended by a signal has no status of its own.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Until ^C: what was started ends with this process, however that ends.
fn wait(servers: &Servers) -> Result<ExitCode> {
    for server in &servers.0 {
        println!("export {}='{}'", server.software().url_variable(), server.url());
        if !server.is_local() {
            println!("# named by the environment; nothing was started");
        }
    }
    println!("# stopped at ^C");
    process::flush();
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_server_starts_nothing() {
        for words in [&["postgers"][..], &["--", "true"], &["redis", "--"], &["redis", "x"]] {
            assert!(up(words).is_err(), "{words:?}");
        }
    }
}
