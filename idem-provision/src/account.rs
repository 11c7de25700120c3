//! As whom a server runs: as the caller, or, for root, as an account without privileges.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;

/// Tried in this order: the one that the package of PostgreSQL brings, and the one that every system has.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// An account of this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    gid: u32,
    /// Whether a command has to change to it.
    change: bool,
}

impl Account {
    /// PostgreSQL refuses to run as root, and nothing that a test starts needs to.
    pub(crate) fn of_servers() -> Result<Self, Error> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        if !uid.is_root() {
            return Ok(Self { uid: uid.as_raw(), gid: gid.as_raw(), change: false });
        }
        let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        UNPRIVILEGED.iter().find_map(|name| parse(&accounts, name)).ok_or_else(|| Error::Unavailable {
            reason: format!(
                "no server is started as root, and there is no account {}",
                UNPRIVILEGED.join(" or ")
            ),
            fix: "useradd --system postgres".to_owned(),
        })
    }

    /// A command in `folder` as this account, apart from the caller's terminal and environment: variables such as
    /// `PGOPTIONS` must not change what is started.
    pub(crate) fn command(&self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder).stdin(Stdio::null()).process_group(0);
        // Messages are read here, so they have to be in one language.
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
        if self.change {
            // Supplementary groups are dropped with it.
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    /// Gives a new file or folder to this account.
    pub(crate) fn own(&self, path: &Path) -> Result<(), Error> {
        if !self.change {
            return Ok(());
        }
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid))
            .map_err(|error| Error::broken(path.display(), error))
    }
}

/// `NAME:PASSWORD:UID:GID:…`
fn parse(accounts: &str, name: &str) -> Option<Account> {
    let rest = accounts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut fields = rest.split(':').skip(1);
    let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (uid != 0).then_some(Account { uid, gid, change: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name_and_is_never_root() {
        let accounts = "root:x:0:0::/:/bin/sh\npostgres2:x:7:7::/:\npostgres:x:101:104:,,,:/var:/bin/sh\n";
        assert_eq!(parse(accounts, "postgres"), Some(Account { uid: 101, gid: 104, change: true }));
        assert_eq!(parse(accounts, "nobody"), None);
        assert_eq!(parse(accounts, "root"), None);
    }
}
