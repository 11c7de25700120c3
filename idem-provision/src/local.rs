//! A server of this machine: made ready in a folder of its own, started, and proved to be the one that was started.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::account::Account;
use crate::error::Error;
use crate::find::find_program;
use crate::home::{Home, join, random_hex};
use crate::keeper::{Charge, Keeper};
use crate::software::Software;
use crate::wait::until;
use crate::{postgres, redis};

/// How long a server may take until it answers, recovery after a kill included.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a shared server outlives its last user: the next test of a run that gives each its own process joins it.
const LINGER_S: u32 = 2;
/// Starts with another port, when somebody took the one that was free a moment before.
const PORTS_TRIED: u32 = 5;
/// Below the range from which systems take the ports of outgoing connections: a client that keeps trying to reach a
/// server that is down could otherwise be given the server's own port, connect to itself, and keep it.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// What a kind of server has of its own.
pub(crate) trait Kind: Send + Sync + std::fmt::Debug {
    /// Makes the folder ready, once.
    fn prepare(&self, account: &Account, folder: &Path) -> Result<(), Error>;

    /// Writes the configuration for this port; again when it is taken.
    fn configure(&self, account: &Account, folder: &Path, port: u16) -> Result<(), Error>;

    /// The command.
    fn charge(&self, folder: &Path) -> Charge;

    /// Whether the process `pid` answers on `port`, and it is this process that does.
    fn answers(&self, folder: &Path, port: u16, pid: u32) -> bool;

    /// Signals for an end in good order, and for one at once in which what was not flushed may be lost.
    fn signals(&self) -> (&'static str, &'static str);

    fn url(&self, port: u16) -> String;
}

/// A server that answers.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) keeper: Keeper,
    pub(crate) folder: PathBuf,
    pub(crate) port: u16,
    pub(crate) kind: Box<dyn Kind>,
}

/// Starts a new one in a folder whose name begins with `prefix`.
pub(crate) fn start(
    home: &Home,
    prefix: &str,
    software: Software,
    settings: &[(String, String)],
    linger_s: u32,
) -> Result<Started, Error> {
    let kind = kind(software, settings)?;
    let (folder, mut keeper) = {
        let _lock = home.lock("keepers")?;
        home.sweep();
        let folder = home.new_folder(prefix)?;
        let charge = Charge { linger_s, ..kind.charge(&folder) };
        let keeper = Keeper::begin(home, &folder, &charge)?;
        (folder, keeper)
    };
    kind.prepare(&home.account, &folder)?;
    for attempt in 1..=PORTS_TRIED {
        let port = free_port()?;
        kind.configure(&home.account, &folder, port)?;
        match start_on(kind.as_ref(), &mut keeper, &folder, port) {
            Ok(()) => return Ok(Started { keeper, folder, port, kind }),
            Err(Error::Broken(reason)) if attempt < PORTS_TRIED && port_was_taken(&reason) => {
                keeper.stop("KILL")?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::Broken(format!("{PORTS_TRIED} ports were taken while {} started", software.name())))
}

/// Starts what is configured, and waits until it answers.
pub(crate) fn start_on(kind: &dyn Kind, keeper: &mut Keeper, folder: &Path, port: u16) -> Result<(), Error> {
    let pid = keeper.start()?;
    let answered = until(READY_WITHIN, || match keeper.ended() {
        Some(status) => Some(Err(status)),
        None => kind.answers(folder, port, pid).then_some(Ok(())),
    });
    match answered {
        Some(Ok(())) => Ok(()),
        Some(Err(status)) => Err(keeper.failed(&format!("the server ended with status {status}"))),
        None => Err(keeper.failed("the server does not answer")),
    }
}

/// The URL of a server that all processes of one build share, and the file that keeps it.
pub(crate) fn shared(software: Software, settings: &[(String, String)]) -> Result<(String, File), Error> {
    let home = Home::open()?;
    let prefix = format!("{}-{:016x}", software.name(), build_of(settings));
    // Whoever comes while one is being started waits for it.
    let _lock = home.lock(&prefix)?;
    for folder in home.folders(&prefix) {
        let joined = join(&folder).map_err(|error| Error::broken(folder.display(), error))?;
        // Read after joining: a keeper that is about to stop takes the file away first.
        let url = std::fs::read_to_string(folder.join("state"));
        if let (Some(users), Ok(url)) = (joined, url) {
            return Ok((url, users));
        }
    }
    let started = start(&home, &prefix, software, settings, LINGER_S)?;
    let url = started.kind.url(started.port);
    write(&home.account, &started.folder.join("state"), &url)?;
    Ok((url, started.keeper.into_users()))
}

/// What processes have in common that share a server: the folder of their programs, and the settings that they ask for.
fn build_of(settings: &[(String, String)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::env::current_exe().unwrap_or_default().parent().hash(&mut hasher);
    settings.hash(&mut hasher);
    hasher.finish()
}

fn kind(software: Software, settings: &[(String, String)]) -> Result<Box<dyn Kind>, Error> {
    let program = find_program(software.program())
        .ok_or_else(|| Error::Broken(format!("`{}` is gone", software.program())))?;
    let (password, settings) = (random_hex(16)?, settings.to_vec());
    Ok(match software {
        Software::Postgres => Box::new(postgres::Cluster { program, password, settings }),
        Software::Redis => Box::new(redis::Single { program, password, settings }),
    })
}

fn free_port() -> Result<u16, Error> {
    let mut tried = 0;
    while tried < 1000_u32 {
        tried = tried.saturating_add(1);
        let offset =
            u16::from_str_radix(&random_hex(2)?, 16).unwrap_or(0) % PORTS.end.saturating_sub(PORTS.start);
        let port = PORTS.start.saturating_add(offset);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::Broken("no port of the loopback interface is free".to_owned()))
}

fn port_was_taken(reason: &str) -> bool {
    reason.contains("Address already in use")
}

/// Writes a file for the server's account alone.
pub(crate) fn write(account: &Account, path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|error| Error::broken(path.display(), error))?;
    account.own(path)
}
