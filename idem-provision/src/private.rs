//! A server of one's own, to be stopped and started again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
use crate::home::Home;
use crate::local::{self, Started};
use crate::software::Software;
use crate::wait::until;

/// How long a start is repeated: processes of a killed server may still hold its memory or its port.
const AGAIN_WITHIN: Duration = Duration::from_secs(30);

/// How a server is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// In good order: connections are ended, what is in memory is written.
    Orderly,
    /// At once: PostgreSQL's immediate shutdown, whose next start recovers. Redis has none: it is killed.
    Immediate,
    /// By `SIGKILL`.
    Kill,
}

/// A local server that nobody else uses. Dropped, it is stopped and its folder removed before the drop returns.
pub struct Private {
    /// `None` only while dropped.
    started: Option<Started>,
    software: Software,
    folder: PathBuf,
    url: String,
    running: bool,
}

impl Private {
    pub(crate) fn start_new(software: Software, settings: &[(String, String)]) -> Result<Self, Error> {
        let home = Home::open()?;
        let started = local::start(&home, &format!("{}-private", software.name()), software, settings, 0)?;
        let (folder, url) = (started.folder.clone(), started.kind.url(started.port));
        Ok(Self { started: Some(started), software, folder, url, running: true })
    }

    /// Where it is, with user and password; the same after a restart.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Which kind it is.
    #[must_use]
    pub fn software(&self) -> Software {
        self.software
    }

    /// The folder of its data: the cluster of PostgreSQL, the working folder of Redis.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Its process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.started.as_ref().filter(|_| self.running).and_then(|started| started.keeper.pid())
    }

    /// Ends it and waits until its process is gone. Nothing happens when it does not run.
    ///
    /// # Errors
    ///
    /// [`Error::Broken`] when it does not end.
    pub fn stop(&mut self, ending: Ending) -> Result<(), Error> {
        let Some(started) = self.started.as_mut().filter(|_| self.running) else { return Ok(()) };
        let (orderly, immediate) = started.kind.signals();
        started.keeper.stop(match ending {
            Ending::Orderly => orderly,
            Ending::Immediate => immediate,
            Ending::Kill => "KILL",
        })?;
        self.running = false;
        Ok(())
    }

    /// Starts it again, on the same port and the same data, and waits until it answers. Nothing happens when it runs.
    ///
    /// # Errors
    ///
    /// [`Error::Broken`] when it does not answer.
    pub fn start(&mut self) -> Result<(), Error> {
        let Some(started) = self.started.as_mut().filter(|_| !self.running) else { return Ok(()) };
        let mut last = Error::Broken("it was not started".to_owned());
        let port = started.port;
        let again = until(AGAIN_WITHIN, || {
            match local::start_on(started.kind.as_ref(), &mut started.keeper, &started.folder, port) {
                Ok(()) => Some(()),
                Err(error) => {
                    last = error;
                    // Ended as well when it runs without answering.
                    drop(started.keeper.stop("KILL"));
                    None
                }
            }
        });
        if again.is_none() {
            return Err(last);
        }
        self.running = true;
        Ok(())
    }

    /// The folder of the server and of what is noted about it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // The keeper stops the server when its pipe closes.
        let ended = self.started.take().is_none_or(|started| started.keeper.end());
        if !ended {
            eprintln!("{} is not removed yet", self.folder.display());
        }
    }
}

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL holds a password.
        let mut shown = f.debug_struct("Private");
        shown.field("software", &self.software).field("running", &self.running).finish_non_exhaustive()
    }
}
