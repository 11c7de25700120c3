//! What a store's same-transaction methods are given and answer: effect, record and outcome are committed together, or
//! not at all (G-70).
//!
//! Stores that share their transactions with the caller have two ways to it, each with its own driver's types: one that
//! owns the commit and runs a closure in it, and one that joins a transaction of the caller (`claim_in`,
//! `complete_in`). What comes out of them is the same everywhere, and is here.

use std::fmt;

use crate::answer::{Claimed, Completed};
use crate::attempt::Fence;
use crate::error::{Error, Result};
use crate::outcome::Outcome;
use crate::record::View;
use crate::time::Timestamp;

/// Any error of the application.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How the effect of a closure in the ledger's transaction failed (G-31). `?` makes any error a `NoEffect`.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "every store has to treat every way in which an effect can fail")]
pub enum EffectFailure {
    /// For good: the closure's writes are rolled back, and this failure is stored and replayed.
    Permanent(Box<Outcome>),
    /// Not for good: everything is rolled back, nothing is stored, and the same key may run again.
    NoEffect(BoxError),
}

impl EffectFailure {
    /// A failure for good, with a [class](Outcome::failure) and perhaps a body for later callers.
    #[must_use]
    pub fn permanent(outcome: Outcome) -> Self {
        Self::Permanent(Box::new(outcome.into_failure()))
    }
}

impl<E: Into<BoxError>> From<E> for EffectFailure {
    fn from(error: E) -> Self {
        Self::NoEffect(error.into())
    }
}

/// The answer to an effect in the ledger's transaction.
#[derive(Debug)]
#[allow(
    clippy::exhaustive_enums,
    reason = "an effect was committed, not run, or rolled back: there is no fourth"
)]
pub enum LocalRun {
    /// The closure ran now; its writes, the record and the outcome are committed.
    Executed(Box<Executed>),
    /// The closure did not run, and this is why: a replay, a conflict, uncertain, …
    Answered(Claimed),
    /// The closure ran and failed without effect, or panicked: everything is rolled back and nothing is stored.
    RolledBack(BoxError),
}

/// What [`LocalRun::Executed`] committed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Executed {
    /// The outcome: the closure's, or its permanent failure.
    pub outcome: Outcome,
    /// When it was completed.
    pub completed_at: Timestamp,
    /// Whether body and headers were too large to be kept for replays (G-33).
    pub body_omitted: bool,
    /// 1, unless the operation was attempted before.
    pub attempt_number: u32,
    /// The attempt's fence.
    pub fence: Fence,
}

impl Executed {
    /// What was committed with an outcome whose content was kept; set `body_omitted` where it was not.
    #[must_use]
    pub const fn new(outcome: Outcome, completed_at: Timestamp, attempt_number: u32, fence: Fence) -> Self {
        Self { outcome, completed_at, body_omitted: false, attempt_number, fence }
    }
}

/// Why a completion in the caller's transaction did not complete: an error, so that `?` rolls the effect back (G-70).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NotCompleted {
    /// The attempt is not the holder any more.
    Fenced(View),
    /// The same attempt completed it before, with another outcome.
    OutcomeConflict,
    /// The store failed.
    Failed(Error),
}

impl NotCompleted {
    /// Takes the answers that are none of a completion that stands as errors (G-70).
    ///
    /// # Errors
    ///
    /// `Fenced` and `OutcomeConflict` for the answers of these names.
    pub fn unless_completed(answer: Completed) -> Result<Completed, Self> {
        match answer {
            Completed::Fenced(view) => Err(Self::Fenced(view)),
            Completed::OutcomeConflict => Err(Self::OutcomeConflict),
            completed => Ok(completed),
        }
    }
}

impl fmt::Display for NotCompleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced(view) => write!(
                f,
                "the operation is {view} and no longer this attempt's: roll back, and claim again to learn more (G-15)"
            ),
            Self::OutcomeConflict => f.write_str(
                "this attempt has completed the operation before, with another outcome, which stays: roll back (G-16)",
            ),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NotCompleted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for NotCompleted {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_completion_that_stands_is_no_error() {
        let at = Timestamp::from_millis(1);
        let stands = [Completed::Completed { at, body_omitted: false }, Completed::AlreadyCompleted];
        for answer in stands {
            assert_eq!(NotCompleted::unless_completed(answer.clone()).unwrap(), answer);
        }
        let fenced = NotCompleted::unless_completed(Completed::Fenced(View::Received)).unwrap_err();
        assert!(matches!(fenced, NotCompleted::Fenced(View::Received)));
        let other = NotCompleted::unless_completed(Completed::OutcomeConflict).unwrap_err();
        assert!(other.to_string().contains("G-16"));
    }

    #[test]
    fn any_error_of_a_closure_is_without_effect() {
        let failure = EffectFailure::from("no money");
        assert!(matches!(failure, EffectFailure::NoEffect(_)));
    }
}
