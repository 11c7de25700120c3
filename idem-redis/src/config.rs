//! How a store is opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idem_core::clock::Clock;
use idem_core::store::{Capabilities, DecidingClock, Limits};
use idem_core::transition::DEFAULT_STEP_MS;
use idem_core::{Error, Result, Timestamp};

/// The most bytes of a prefix.
const PREFIX_BYTES_MAX: usize = 64;
/// The most that Redis keeps in one field.
const FIELD_BYTES_MAX: usize = 512 << 20;

/// Everything about a [`RedisStore`](crate::RedisStore) that can be chosen.
///
/// ```
/// use std::time::Duration;
/// use idem_redis::RedisConfig;
///
/// let config = RedisConfig::new("redis://localhost:6379/").prefix("billing").response_timeout(Duration::from_secs(1));
/// # let _ = config;
/// ```
#[derive(Clone)]
pub struct RedisConfig {
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) connection_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub(crate) limits: Limits,
    pub(crate) step_ms: u64,
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

impl RedisConfig {
    /// The server at `url` (`redis://[user:password@]host[:port][/database]`); everything else as its method here says.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            prefix: "idem".to_owned(),
            connection_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(3),
            limits: Limits::default(),
            step_ms: DEFAULT_STEP_MS,
            clock: None,
        }
    }

    /// What the names of the ledger's keys begin with; `idem` unless set. Ledgers with different prefixes see nothing of
    /// each other. 1 to 64 letters, digits, `_`, `-`, `.` and `:`.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// How long making a connection may take before the call is `Unavailable`; 2 s unless set.
    #[must_use]
    pub const fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = timeout;
        self
    }

    /// How long an answer may take before a write is `Indeterminate` and the connection is replaced; 3 s unless set.
    /// Longer than the longest pause of the server that is to be endured (a fork, a slow disk, a failover).
    #[must_use]
    pub const fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// What the store keeps (G-33).
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The largest backward step of the server's clock, and the largest difference to that of a replica that may be
    /// promoted (G-14); 5 minutes unless set.
    #[must_use]
    pub const fn step_ms(mut self, step_ms: u64) -> Self {
        self.step_ms = step_ms;
        self
    }

    /// A clock that decides in place of the server's, for tests (G-60). Redis cannot forget by it, so records get no
    /// expiry (G-42).
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The instant by the injected clock, if there is one.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }

    pub(crate) fn check(&self) -> Result<()> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
        if self.prefix.is_empty() || self.prefix.len() > PREFIX_BYTES_MAX || !self.prefix.bytes().all(fits) {
            return Err(Error::configuration(
                "the prefix of the keys is 1 to 64 letters, digits, '_', '-', '.' and ':'",
            ));
        }
        if self.connection_timeout.is_zero() || self.response_timeout.is_zero() {
            return Err(Error::configuration("a timeout of 0 lets no call succeed: give it some time"));
        }
        let Limits { body_bytes_max, payload_bytes_max, checkpoints_max, checkpoint_bytes_max, .. } =
            self.limits;
        // Headers are longer in their stored form than what is counted of them.
        let field_bytes = body_bytes_max.saturating_mul(2).max(payload_bytes_max).max(checkpoint_bytes_max);
        if field_bytes.saturating_add(1 << 20) > FIELD_BYTES_MAX {
            return Err(Error::configuration(
                "the limits allow values of more than 512 MB, which Redis does not keep: lower them (G-33)",
            ));
        }
        if checkpoints_max > usize::from(u16::MAX) {
            return Err(Error::configuration(
                "an operation in Redis has at most 65535 checkpoints: lower the limit",
            ));
        }
        Ok(())
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(
            "redis",
            "as durable as the server is set to be: with appendfsync=everysec a crash loses about a second of \
             acknowledged writes, and a failover loses those that the replica had not yet",
        );
        capabilities.shared = true;
        capabilities.clock = DecidingClock::Store;
        capabilities.step_ms = self.step_ms;
        capabilities.limits = self.limits;
        capabilities
    }
}

/// Without the URL, which holds a password.
impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("prefix", &self.prefix)
            .field("connection_timeout", &self.connection_timeout)
            .field("response_timeout", &self.response_timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let config = || RedisConfig::new("redis://localhost/");
        assert!(config().check().is_ok());
        for prefix in ["", "a{b", "a*", "a b", &"p".repeat(65)] {
            assert!(config().prefix(prefix).check().is_err(), "{prefix}");
        }
        assert!(config().response_timeout(Duration::ZERO).check().is_err());
        let mut limits = Limits::default();
        limits.body_bytes_max = 1 << 29;
        assert!(config().limits(limits).check().is_err());
        limits = Limits::default();
        limits.checkpoints_max = 70_000;
        assert!(config().limits(limits).check().is_err());
    }

    #[test]
    fn the_password_is_not_shown() {
        let shown = format!("{:?}", RedisConfig::new("redis://u:secret@localhost/"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
