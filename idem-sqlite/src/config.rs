//! How a store is opened.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use idem_core::clock::{Clock, SystemClock};
use idem_core::store::{Capabilities, Limits};
use idem_core::transition::DEFAULT_STEP_MS;
use idem_core::{Error, Result};

/// When a commit is on the disk (G-62).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Synchronous {
    /// A commit may be lost when the power goes; a crash of a process loses nothing. Several times faster where one
    /// caller commits alone.
    Normal,
    /// A commit is on the disk before it is answered.
    #[default]
    Full,
    /// The same, and the directory is synced too. In the write-ahead log it adds nothing to `Full` on most systems.
    Extra,
}

impl Synchronous {
    pub(crate) const fn pragma(self) -> &'static str {
        match self {
            Self::Normal => "NORMAL",
            Self::Full => "FULL",
            Self::Extra => "EXTRA",
        }
    }

    const fn durability(self) -> &'static str {
        match self {
            Self::Normal => {
                "a loss of power can lose the last commits (synchronous=NORMAL); a crash of the process loses nothing"
            }
            Self::Full | Self::Extra => {
                "an acknowledged write is on this machine's disk; it is lost with the disk, or when the file is \
                 restored from a backup"
            }
        }
    }
}

/// What to do about a circumstance in which SQLite is known to lose data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnRisk {
    /// Opening fails as `Configuration`.
    #[default]
    Refuse,
    /// Opening succeeds and a warning is logged.
    Warn,
}

/// The most that a record may have, which is what SQLite puts into one value by default.
const RECORD_BYTES_MAX: usize = 1_000_000_000;

/// Everything about a [`SqliteStore`](crate::SqliteStore) that can be chosen.
///
/// ```
/// use std::time::Duration;
/// use idem_sqlite::{SqliteConfig, Synchronous};
///
/// let config = SqliteConfig::new("ledger.db")
///     .synchronous(Synchronous::Extra)
///     .busy_timeout(Duration::from_secs(2));
/// assert_eq!(config.path(), std::path::Path::new("ledger.db"));
/// ```
#[derive(Clone)]
pub struct SqliteConfig {
    pub(crate) path: PathBuf,
    pub(crate) synchronous: Synchronous,
    pub(crate) busy_timeout: Duration,
    pub(crate) limits: Limits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) step_ms: u64,
    pub(crate) network_filesystem: OnRisk,
    pub(crate) outdated_sqlite: OnRisk,
    pub(crate) existing: bool,
    pub(crate) readers: usize,
    pub(crate) group_max: usize,
    pub(crate) queue_capacity: usize,
}

impl SqliteConfig {
    /// The file at `path`, which is made if it is missing; everything else as its method here says.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            path: path.as_ref().to_owned(),
            synchronous: Synchronous::default(),
            busy_timeout: Duration::from_secs(5),
            limits: Limits::default(),
            clock: Arc::new(SystemClock),
            step_ms: DEFAULT_STEP_MS,
            network_filesystem: OnRisk::default(),
            outdated_sqlite: OnRisk::default(),
            existing: false,
            readers: cores.clamp(2, 16),
            group_max: 512,
            queue_capacity: 4096,
        }
    }

    /// Reads `sqlite:PATH`; a text without that scheme is the path itself.
    ///
    /// # Errors
    ///
    /// `Configuration` when there is no path.
    pub fn from_url(url: &str) -> Result<Self> {
        let path = url.strip_prefix("sqlite:").unwrap_or(url);
        if path.is_empty() {
            return Err(Error::configuration("the SQLite URL has no path: write sqlite:PATH"));
        }
        Ok(Self::new(path))
    }

    /// When a commit is on the disk; [`Synchronous::Full`] unless set.
    #[must_use]
    pub const fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// How long a write waits for the write lock of another process before it is `Unavailable` (G-72); 5 s unless set,
    /// at most an hour.
    #[must_use]
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.busy_timeout = busy_timeout.min(Duration::from_secs(3600));
        self
    }

    /// What the store keeps (G-33).
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The clock that decides, for tests (G-60). Waiting for another process's lock takes real time with any clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The largest backward step of the host's clock (G-14); 5 minutes unless set.
    #[must_use]
    pub const fn step_ms(mut self, step_ms: u64) -> Self {
        self.step_ms = step_ms;
        self
    }

    /// What to do where the file is on a network file system, on which SQLite's locks and shared memory do not work
    /// (only found out on Linux); [`OnRisk::Refuse`] unless set.
    #[must_use]
    pub const fn network_filesystem(mut self, on_risk: OnRisk) -> Self {
        self.network_filesystem = on_risk;
        self
    }

    /// What to do where the SQLite library has the WAL-reset bug (3.7.0 to 3.51.2, without 3.44.6 and 3.50.7);
    /// [`OnRisk::Refuse`] unless set. The bundled library has not.
    #[must_use]
    pub const fn outdated_sqlite(mut self, on_risk: OnRisk) -> Self {
        self.outdated_sqlite = on_risk;
        self
    }

    /// Only a ledger that is there is opened, and brought up to date if it is older: opening is `Configuration` where there
    /// is no file, or one without a ledger in it, and changes neither. For those who only look.
    #[must_use]
    pub const fn existing(mut self) -> Self {
        self.existing = true;
        self
    }

    /// How many connections answer reads, 1 to 64; as many as there are cores unless set.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers.clamp(1, 64);
        self
    }

    /// The most requests in one commit, at least 1; 512 unless set.
    #[must_use]
    pub fn group_max(mut self, group_max: usize) -> Self {
        self.group_max = group_max.max(1);
        self
    }

    /// How many requests may be queued; more wait to be queued. 4096 unless set.
    #[must_use]
    pub fn queue_capacity(mut self, queue_capacity: usize) -> Self {
        self.queue_capacity = queue_capacity.max(1);
        self
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses limits that SQLite cannot keep, so that a completion never fails for its size (G-17).
    pub(crate) fn check(&self) -> Result<()> {
        let Limits { body_bytes_max, payload_bytes_max, checkpoints_max, checkpoint_bytes_max, .. } =
            self.limits;
        // Headers, names, labels and the history beside the contents, with room to spare.
        let overhead = (1 << 20) + checkpoints_max.saturating_mul(256);
        let bytes = checkpoints_max
            .saturating_mul(checkpoint_bytes_max)
            .saturating_add(body_bytes_max.saturating_mul(2))
            .saturating_add(payload_bytes_max)
            .saturating_add(overhead);
        if bytes > RECORD_BYTES_MAX {
            return Err(Error::configuration(
                "the limits allow records of more than 1 GB, which SQLite does not keep: lower them (G-33)",
            ));
        }
        Ok(())
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("sqlite", self.synchronous.durability());
        capabilities.step_ms = self.step_ms;
        capabilities.limits = self.limits;
        capabilities.wakes = true;
        capabilities.transactions = true;
        capabilities
    }
}

impl fmt::Debug for SqliteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteConfig")
            .field("path", &self.path)
            .field("synchronous", &self.synchronous)
            .field("busy_timeout", &self.busy_timeout)
            .field("readers", &self.readers)
            .field("group_max", &self.group_max)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_and_a_bare_path_mean_the_same() {
        for text in ["sqlite:a/b.db", "a/b.db"] {
            assert_eq!(SqliteConfig::from_url(text).unwrap().path(), Path::new("a/b.db"));
        }
        assert!(SqliteConfig::from_url("sqlite:").is_err());
        assert!(SqliteConfig::from_url("").is_err());
    }

    #[test]
    fn limits_that_sqlite_cannot_keep_are_refused() {
        let mut limits = Limits::default();
        assert!(SqliteConfig::new("x").limits(limits).check().is_ok());
        limits.body_bytes_max = 1 << 29;
        assert!(SqliteConfig::new("x").limits(limits).check().is_err());
        limits.body_bytes_max = usize::MAX;
        assert!(SqliteConfig::new("x").limits(limits).check().is_err());
    }
}
