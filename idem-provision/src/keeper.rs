//! The process that starts one server, stops it, and removes its folder once nobody uses it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::error::Error;
use crate::home::{Home, Noted, join};
use crate::wait::until;

const SCRIPT: &str = include_str!("keeper.sh");
/// More than any of its steps takes on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much of a log is told.
const LOG_TAIL_BYTES: usize = 2000;

/// What a keeper is to keep.
#[derive(Debug)]
pub(crate) struct Charge {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// The signal that ends it at last, when its data are thrown away.
    pub(crate) last_signal: &'static str,
    /// How long it is kept after the last user.
    pub(crate) linger_s: u32,
}

/// The end of the pipe that gives orders. Dropping it ends the use.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    process: Child,
    users: File,
    orders: u32,
}

impl Keeper {
    /// Begins to keep what is in `folder`; nothing runs yet.
    pub(crate) fn begin(home: &Home, folder: &Path, charge: &Charge) -> Result<Self, Error> {
        let mut command = home.account.command(Path::new("/bin/sh"), folder);
        command.args(["-c", SCRIPT, "keeper.sh"]).arg(folder).arg(charge.linger_s.to_string());
        command.arg(charge.last_signal).arg(&charge.program).args(&charge.arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(|error| Error::broken("/bin/sh", error))?;
        let users = until(PATIENCE, || match join(folder) {
            Ok(None) => {
                process.try_wait().ok().flatten().map(|status| Err(format!("it ended with {status}")))
            }
            Ok(Some(users)) => Some(Ok(users)),
            Err(error) => Some(Err(error.to_string())),
        });
        match users {
            Some(Ok(users)) => Ok(Self { folder: folder.to_owned(), process, users, orders: 0 }),
            Some(Err(error)) => Err(Error::broken(format_args!("the keeper of {}", folder.display()), error)),
            None => Err(Error::Broken(format!("the keeper of {} did not begin", folder.display()))),
        }
    }

    /// Starts the server. That it runs does not say that it answers.
    pub(crate) fn start(&mut self) -> Result<u32, Error> {
        self.order("start", "-")?;
        let pid = self.pid().ok_or_else(|| self.failed("the server's process id is not known"))?;
        if let Some(noted) = Noted::running(pid) {
            noted.write(&self.folder).map_err(|error| Error::broken(self.folder.display(), error))?;
        }
        Ok(pid)
    }

    /// Stops it with a signal, and waits for its end.
    pub(crate) fn stop(&mut self, signal: &str) -> Result<(), Error> {
        self.order("stop", signal)
    }

    /// The server's process id, until the next start.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.read("pid")?.trim().parse().ok()
    }

    /// The exit status of the server that was started last.
    pub(crate) fn ended(&self) -> Option<String> {
        self.read("exit").map(|status| status.trim().to_owned())
    }

    /// An error with the end of the server's log.
    pub(crate) fn failed(&self, what: &str) -> Error {
        let log = self.read("log").unwrap_or_default();
        let mut from = log.len().saturating_sub(LOG_TAIL_BYTES);
        while !log.is_char_boundary(from) {
            from = from.saturating_add(1);
        }
        Error::Broken(format!("{what}; its log ends:\n{}", log.get(from..).unwrap_or_default()))
    }

    /// Ends the use and waits until the server is stopped and the folder removed, if there is no other user.
    pub(crate) fn end(self) -> bool {
        let Self { mut process, users, .. } = self;
        drop(users);
        until(PATIENCE, || process.try_wait().ok().flatten()).is_some()
    }

    /// The use, without the right to give orders.
    pub(crate) fn into_users(self) -> File {
        self.users
    }

    fn order(&mut self, verb: &str, argument: &str) -> Result<(), Error> {
        self.orders = self.orders.saturating_add(1);
        let order = self.orders.to_string();
        let sent = self.users.write_all(format!("{order} {verb} {argument}\n").as_bytes());
        sent.map_err(|error| Error::broken("the keeper is gone", error))?;
        let done = until(PATIENCE, || {
            if self.read("done").is_some_and(|done| done.trim() == order) {
                return Some(true);
            }
            // A keeper that is gone does nothing any more.
            matches!(self.process.try_wait(), Ok(Some(_))).then_some(false)
        });
        if done == Some(true) {
            Ok(())
        } else {
            Err(self.failed(&format!("`{verb} {argument}` was not done")))
        }
    }

    fn read(&self, file: &str) -> Option<String> {
        let bytes = std::fs::read(self.folder.join(file)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
