//! What is asked for, and where it is had from.

use std::fmt;

use crate::error::Error;
use crate::find::find_program;
use crate::software::Software;

/// A PostgreSQL server with the usual settings, shared with others of the same build.
///
/// # Errors
///
/// As of [`Provision::start`].
pub fn postgres() -> Result<Server, Error> {
    Provision::of(Software::Postgres).start()
}

/// A Redis server that keeps nothing on disk, shared with others of the same build.
///
/// # Errors
///
/// As of [`Provision::start`].
pub fn redis() -> Result<Server, Error> {
    Provision::of(Software::Redis).start()
}

/// Whether `IDEM_REQUIRE` names it: then a test that cannot have it fails instead of being skipped.
#[must_use]
pub fn required(software: Software) -> bool {
    let names = std::env::var("IDEM_REQUIRE").unwrap_or_default();
    names.split(',').any(|name| name.trim() == software.name())
}

/// A server that a test asks for.
#[derive(Debug, Clone)]
pub struct Provision {
    software: Software,
    settings: Vec<(String, String)>,
}

impl Provision {
    /// A server of this kind.
    #[must_use]
    pub fn of(software: Software) -> Self {
        Self { software, settings: Vec::new() }
    }

    /// With one line of its configuration: `fsync`, `off` for PostgreSQL, `appendonly`, `yes` for Redis. Has no effect
    /// on a server whose URL is in the environment.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Whether it could be had, without starting anything: cheap enough to be asked in every process.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] with what would help.
    pub fn look(&self) -> Result<(), Error> {
        if self.url_of_environment().is_some() { Ok(()) } else { self.look_for_program() }
    }

    /// The server: the one that the environment names, or a local one that processes of the same build (their
    /// programs lie in one folder) share and that ends when the last of them did.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] where this machine has none, [`Error::Broken`] where one does not start.
    pub fn start(&self) -> Result<Server, Error> {
        if let Some(url) = self.url_of_environment() {
            return Ok(Server { software: self.software, url, users: None });
        }
        self.look_for_program()?;
        self.start_local()
    }

    /// A local server of the caller's own, which it may stop, kill and start again. Never the one that the environment
    /// names: that is not ours to stop.
    ///
    /// # Errors
    ///
    /// As of [`start`](Self::start).
    #[cfg(unix)]
    pub fn start_private(&self) -> Result<crate::Private, Error> {
        self.look_for_program()?;
        crate::Private::start_new(self.software, &self.settings)
    }

    #[cfg(unix)]
    fn start_local(&self) -> Result<Server, Error> {
        let (url, users) = crate::local::shared(self.software, &self.settings)?;
        Ok(Server { software: self.software, url, users: Some(users) })
    }

    #[cfg(not(unix))]
    fn start_local(&self) -> Result<Server, Error> {
        let reason = format!("{} is started on Unix alone", self.software.name());
        Err(Error::Unavailable { reason, fix: format!("set {}", self.software.url_variable()) })
    }

    fn url_of_environment(&self) -> Option<String> {
        std::env::var(self.software.url_variable()).ok().filter(|url| !url.trim().is_empty())
    }

    fn look_for_program(&self) -> Result<(), Error> {
        let program = self.software.program();
        if find_program(program).is_some() {
            return Ok(());
        }
        let variable = self.software.url_variable();
        Err(Error::Unavailable {
            reason: format!("{variable} is not set and no `{program}` was found"),
            fix: format!("apt-get install --yes {}", self.software.package()),
        })
    }
}

/// A server in use. One that was started here is stopped by its own process id, and its folder removed, some seconds
/// after the last user's end, also where that was a `SIGKILL`.
pub struct Server {
    software: Software,
    url: String,
    /// Held open, this end of the pipe is what keeps a local server.
    users: Option<std::fs::File>,
}

impl Server {
    /// Where it is, with user and password.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it was started here, and not named by the environment.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.users.is_some()
    }

    /// Which kind it is.
    #[must_use]
    pub fn software(&self) -> Software {
        self.software
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL holds a password.
        write!(f, "Server({})", self.software.name())
    }
}
