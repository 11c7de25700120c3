//! Why there is no server.

use std::fmt;

/// Why a server cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// There is none on this machine. A test that needs it is skipped, unless `IDEM_REQUIRE` names the server.
    Unavailable {
        /// What was looked for.
        reason: String,
        /// The line to type that would help.
        fix: String,
    },
    /// There is one and it does not start, or is not the one that was started. Never a reason to skip.
    Broken(String),
}

impl Error {
    /// Whether a test may be skipped for this.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    #[cfg(unix)]
    pub(crate) fn broken(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::Broken(format!("{what}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { reason, fix } => write!(f, "{reason}; to fix: {fix}"),
            Self::Broken(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {}
