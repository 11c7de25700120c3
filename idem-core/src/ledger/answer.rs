//! What a caller of [`Ledger::run`](super::Ledger::run) is told, and how a handler says what went wrong (G-31, G-32).

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::answer::Expired;
use crate::attempt::Label;
use crate::error::Error;
use crate::outcome::{Omission, Outcome, StoredOutcome};
use crate::record::View;
use crate::time::Timestamp;

/// The answer to one call. Each variant explains itself through `Display`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_core::{Fingerprint, MemoryStore, OperationId, ledger::{Answer, Ledger}};
///
/// let ledger = Ledger::new(MemoryStore::new());
/// let op = OperationId::new("acme", "greet/v1", "1")?;
/// let intent = Fingerprint::bytes(b"Ada");
/// let first = ledger.run(&op, intent, |_| async { Ok("hello Ada".to_owned()) }).await?;
/// assert!(matches!(first, Answer::Executed(_)));
/// let again = ledger.run(&op, intent, |_| async { Ok("never run".to_owned()) }).await?;
/// assert_eq!(again.into_result()?, "hello Ada");
/// # Ok(()) }
/// ```
#[doc(alias("duplicate"))]
#[derive(Debug)]
#[must_use = "an answer says whether the operation was done: match it, or use into_result"]
#[non_exhaustive]
pub enum Answer<T> {
    /// It ran now, and its result is stored: this is the result as it is stored.
    Executed(T),
    /// It was done before: this is its result.
    Replayed(T),
    /// It failed for good; the failure is stored and is the answer from now on.
    Failed {
        /// The stored failure.
        failure: Failed,
        /// Whether it was stored by an earlier call.
        replayed: bool,
    },
    /// The handler said that nothing had happened: the same key may run again.
    Released {
        /// What the handler said.
        cause: Failure,
    },
    /// The handler could not tell what happened: parked until it is recovered or resolved.
    Parked {
        /// What the handler said.
        cause: Failure,
    },
    /// Another attempt is running it.
    InProgress {
        /// When it is worth asking again.
        retry_after: Duration,
        /// The running attempt's number.
        attempt_number: u32,
    },
    /// The key was used for another intent. Nothing was run.
    Conflict,
    /// It was done, and its result is no longer kept.
    Expired(Expired),
    /// It was done, and its result was too large to be kept, or does not exist as a value.
    Omitted {
        /// What is stored about it.
        outcome: Box<StoredOutcome>,
        /// When it was completed.
        completed_at: Timestamp,
    },
    /// Nobody knows whether it was done (G-22): a reconciler or an operator has to find out.
    Uncertain {
        /// Since when.
        since: Timestamp,
    },
    /// The handler ran, and what it returned is not what later callers get.
    Unrecorded {
        /// What the handler returned.
        result: Result<T, Failure>,
        /// Why it is not the stored result.
        why: Unrecorded,
    },
}

/// Why a handler's result is not what later callers get.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Unrecorded {
    /// The attempt had lost its lease and another one took its place (G-15).
    Fenced(View),
    /// The operation is completed with another result, which stays (G-16).
    OutcomeConflict,
    /// The store did not confirm it in time; it may be stored.
    Store(Error),
    /// It is stored, and no later caller can read it as the result's type: a defect of that type. The operation is done
    /// and is not run again; a corrected type reads what is stored, if anything could be written.
    Unreadable(Error),
}

/// A failure that is stored and replayed (G-31).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// Its class, for programs.
    pub class: Option<Label>,
    /// Its body.
    pub body: Option<Bytes>,
    /// Why its body is not here although it may have had one: it was too large to be kept (G-33).
    pub omission: Option<Omission>,
    /// Its business reference.
    pub reference: Option<Box<str>>,
}

/// Shows how long the body is, not what it says (G-91).
impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, body, omission, reference } = self;
        f.debug_struct("Failed")
            .field("class", class)
            .field("body_bytes", &body.as_ref().map(Bytes::len))
            .field("omission", omission)
            .field("reference", reference)
            .finish()
    }
}

impl Failed {
    pub(super) fn of(outcome: &StoredOutcome) -> Self {
        Self {
            class: outcome.class.clone(),
            body: outcome.body().cloned(),
            omission: outcome.omission(),
            reference: outcome.reference.clone(),
        }
    }
}

/// What went wrong in a handler, and what that means for the effect (G-31).
///
/// Every `std::error::Error` becomes `Unknown` by `?`: an unclassified error proves nothing about the effect.
///
/// ```
/// use idem_core::ledger::Failure;
///
/// fn charge(limit: u32) -> Result<u32, Failure> {
///     if limit == 0 {
///         return Err(Failure::permanent("card_declined"));
///     }
///     let cents: u32 = "12x".parse()?; // Unknown
///     Ok(cents)
/// }
/// assert!(charge(0).unwrap_err().is_permanent());
/// assert!(charge(1).unwrap_err().is_unknown());
/// ```
pub struct Failure {
    pub(super) kind: FailureKind,
    message: Cow<'static, str>,
}

pub(super) enum FailureKind {
    Permanent(Box<Outcome>),
    NoEffect { forget: bool },
    Unknown,
}

impl Failure {
    /// The operation failed for good: stored, and replayed to every later caller.
    #[must_use]
    pub fn permanent(class: &str) -> Self {
        Self::permanent_outcome(Outcome::failure(class), class.to_owned())
    }

    /// A permanent failure with a body, headers or reference for the callers.
    #[must_use]
    pub fn permanent_outcome(outcome: Outcome, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: FailureKind::Permanent(Box::new(outcome.into_failure())), message: message.into() }
    }

    /// Certainly nothing happened: released, and the same key may run again.
    #[must_use]
    pub fn no_effect(message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: FailureKind::NoEffect { forget: false }, message: message.into() }
    }

    /// Certainly nothing happened, and a corrected request may use the same key: the fingerprint is forgotten too where
    /// that is safe (G-31).
    #[must_use]
    pub fn no_effect_forget(message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: FailureKind::NoEffect { forget: true }, message: message.into() }
    }

    /// Nobody knows whether it happened: parked.
    #[must_use]
    pub fn unknown(message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: FailureKind::Unknown, message: message.into() }
    }

    /// Whether it is stored and replayed.
    #[must_use]
    pub const fn is_permanent(&self) -> bool {
        matches!(self.kind, FailureKind::Permanent(_))
    }

    /// Whether the same key may run again.
    #[must_use]
    pub const fn is_no_effect(&self) -> bool {
        matches!(self.kind, FailureKind::NoEffect { .. })
    }

    /// Whether the effect is unknown.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self.kind, FailureKind::Unknown)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::unknown(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            FailureKind::Permanent(_) => "Permanent",
            FailureKind::NoEffect { .. } => "NoEffect",
            FailureKind::Unknown => "Unknown",
        };
        write!(f, "{kind}({:?})", self.message)
    }
}

impl<T> fmt::Display for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Executed(_) => f.write_str("executed now, and the result is stored"),
            Self::Replayed(_) => f.write_str("done before: this is the stored result"),
            Self::Failed { failure, replayed } => {
                let when = if *replayed { "before" } else { "now" };
                let class = failure.class.as_ref().map_or("no class", Label::as_str);
                write!(
                    f,
                    "failed for good {when} ({class}): the failure is stored and is the answer from now on"
                )
            }
            Self::Released { cause } => write!(f, "nothing happened, the same key may run again: {cause}"),
            Self::Parked { cause } => {
                write!(
                    f,
                    "nobody knows whether it happened ({cause}): recover or resolve it before running again"
                )
            }
            Self::InProgress { retry_after, attempt_number } => {
                write!(
                    f,
                    "attempt {attempt_number} is running it: ask again in {} ms",
                    retry_after.as_millis()
                )
            }
            Self::Conflict => {
                f.write_str("the key was used for another request: use a new key for a new intent")
            }
            Self::Expired(expired) => {
                write!(f, "done at {}, and the result is no longer kept", expired.completed_at)
            }
            Self::Omitted { outcome, completed_at } => {
                let why = match outcome.omission() {
                    Some(_) => "the result was too large to be kept",
                    None => "it has no result",
                };
                write!(f, "done at {completed_at}, and {why}")
            }
            Self::Uncertain { since } => {
                write!(f, "uncertain since {since}: recover or resolve it before running again")
            }
            Self::Unrecorded { why, .. } => match why {
                Unrecorded::Fenced(view) => {
                    write!(
                        f,
                        "it ran here, but the lease was lost and the operation is {view}: look at its record"
                    )
                }
                Unrecorded::OutcomeConflict => f.write_str(
                    "it ran here, but the operation is completed with another result, which stays",
                ),
                Unrecorded::Store(error) => {
                    write!(f, "it ran here, but the store did not confirm the result ({error}): ask again")
                }
                Unrecorded::Unreadable(error) => {
                    write!(f, "it ran here and is stored as done, but nobody can read its result: {error}")
                }
            },
        }
    }
}

/// An answer without a result, as an error: for callers that want the value or a reason.
#[derive(Debug)]
pub struct NotDone<T>(Box<Answer<T>>);

impl<T> NotDone<T> {
    /// The answer.
    #[must_use = "the answer says what to do next"]
    pub fn into_answer(self) -> Answer<T> {
        *self.0
    }

    /// The answer.
    pub const fn answer(&self) -> &Answer<T> {
        &self.0
    }
}

impl<T> fmt::Display for NotDone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Debug> std::error::Error for NotDone<T> {}

impl<T> Answer<T> {
    /// The stored result, executed now or before.
    ///
    /// # Errors
    ///
    /// [`NotDone`] with every other answer.
    pub fn into_result(self) -> Result<T, NotDone<T>> {
        match self {
            Self::Executed(value) | Self::Replayed(value) => Ok(value),
            other => Err(NotDone(Box::new(other))),
        }
    }
}
