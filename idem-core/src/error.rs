//! Errors: what went wrong, and what the caller does about it (G-50).
//!
//! Busy, conflict, expired, uncertain and fenced are *answers*, not errors. A kind exists only where the caller would
//! act differently.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure it is, and so what the caller may do next (G-50).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request cannot be right: nothing was sent and nothing is stored. Correct the input.
    InvalidInput,
    /// The store or the ledger is set up wrongly. Correct the configuration; nothing was run.
    Configuration,
    /// This store cannot do what was asked. Choose another store or another method.
    Unsupported,
    /// A stored row is not one that the ledger can have written. Look at it by hand; nothing was changed.
    Corrupt,
    /// The store did not answer, and the request was certainly not applied. Retry.
    Unavailable,
    /// The request may have been applied. Repeat it with the *same* attempt id, or read the record.
    Indeterminate,
    /// A defect in the ledger or the store. Nothing is known about the request: treat it as indeterminate.
    Internal,
}

impl ErrorKind {
    /// What to do about an error of this kind, as one sentence for a person.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::InvalidInput => "correct the input; nothing was stored",
            Self::Configuration => "correct the configuration; nothing was run",
            Self::Unsupported => "choose a store or a method that supports it; nothing was run",
            Self::Corrupt => "inspect the stored row by hand; nothing was changed",
            Self::Unavailable => "retry; the request was certainly not applied",
            Self::Indeterminate => {
                "repeat the call with the same attempt, or read the record; it may have been applied"
            }
            Self::Internal => "report this defect, and treat the request as possibly applied",
        }
    }
}

/// An error of the ledger or of a store: a [kind](ErrorKind), a sentence, and the cause where there is one.
///
/// Cheap to clone: every member of a failed group commit gets the same one.
///
/// ```
/// use idem_core::{Error, ErrorKind, OperationId};
///
/// let error = OperationId::new("acme", "invoice.create/v1", "").unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput);
/// assert_eq!(error.to_string(), "the idempotency key is empty: give 1 to 512 bytes (G-02)");
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind` with a sentence for a person. Messages never hold keys, bodies or attempt ids (G-91).
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: None }))
    }

    /// An error of `kind` with its cause.
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self(Arc::new(Inner { kind, message: message.into(), source: Some(source.into()) }))
    }

    /// An [`ErrorKind::InvalidInput`].
    pub fn invalid_input(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// An [`ErrorKind::Configuration`].
    pub fn configuration(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Configuration, message)
    }

    /// An [`ErrorKind::Unsupported`].
    pub fn unsupported(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// An [`ErrorKind::Corrupt`].
    pub fn corrupt(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// An [`ErrorKind::Unavailable`].
    pub fn unavailable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// An [`ErrorKind::Indeterminate`].
    pub fn indeterminate(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Indeterminate, message)
    }

    /// An [`ErrorKind::Internal`].
    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The kind, by which a caller decides.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether repeating the same call with the same attempt id is right: the store was away, or did not say.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.source {
            Some(source) => Some(&**source),
            None => None,
        }
    }
}
