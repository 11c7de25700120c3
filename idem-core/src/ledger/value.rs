//! Results as JSON: what a handler returns, and what a stored outcome is as an answer (G-30).

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::{Answer, Failed};
use super::claiming::NotRun;
use crate::answer::Claimed;
use crate::error::{Error, ErrorKind, Result};
use crate::outcome::{Content, Outcome, OutcomeKind, StoredOutcome};
use crate::time::Timestamp;

impl Outcome {
    /// A success whose body is the JSON of `value`.
    ///
    /// ```
    /// # fn main() -> Result<(), idem_core::Error> {
    /// let outcome = idem_core::Outcome::json(&[1, 2])?;
    /// assert_eq!(outcome.digest(), idem_core::Outcome::success().body("[1,2]").digest());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that JSON cannot hold, such as a map with keys that are not text.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        Ok(Self::success().body(written(value)?))
    }
}

fn written<T: Serialize + ?Sized>(value: &T) -> Result<Box<[u8]>> {
    let body = serde_json::to_vec(value).map_err(|error| {
        Error::with_source(
            ErrorKind::InvalidInput,
            "a result cannot be written as JSON: change its type",
            error,
        )
    })?;
    // Kept as it is, perhaps for good: without the room that it grew into.
    Ok(body.into_boxed_slice())
}

/// What a handler returned, on its way to the store and to the first caller.
pub(super) struct Kept<T> {
    /// What is stored.
    pub(super) outcome: Outcome,
    /// The value as its JSON gives it back: what every later caller gets (G-30). Where it does not, the value itself.
    pub(super) value: T,
    /// Why no later caller will get the value.
    pub(super) unreadable: Option<Error>,
}

/// Takes `value` through its JSON, so that the first caller sees what the later ones will see, and learns it if they
/// will see nothing. Reading it back is the only check that is sound: whether a type gives back what it wrote may differ
/// from value to value.
///
/// The effect happened and must not run again for the type of its result (G-17): what was written is stored, for people
/// and for a corrected type to read; what cannot be written is completed without body.
pub(super) fn kept<T: Serialize + DeserializeOwned>(value: T) -> Kept<T> {
    let body = match written(&value) {
        Ok(body) => body,
        Err(error) => return Kept { outcome: Outcome::success(), value, unreadable: Some(error) },
    };
    let read = decode(&body);
    let outcome = Outcome::success().body(body);
    match read {
        Ok(value) => Kept { outcome, value, unreadable: None },
        Err(error) => Kept { outcome, value, unreadable: Some(error) },
    }
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| undecodable(&error))
}

impl Failed {
    /// What a replay of this outcome tells, where it is a failure.
    pub(super) fn stored(outcome: &Outcome) -> Self {
        Self::of(&StoredOutcome::of(outcome, outcome.digest(), None))
    }
}

/// Says where, and not what: the text of the cause quotes the stored value (G-91).
fn undecodable(error: &serde_json::Error) -> Error {
    Error::corrupt(format!(
        "the operation was done, and its stored result does not decode as the type that is asked for (line {}, column \
         {} of its JSON)",
        error.line(),
        error.column()
    ))
}

impl<T: DeserializeOwned> Answer<T> {
    /// What a claim that was not granted says, for stores with typed methods of their own.
    ///
    /// # Errors
    ///
    /// `Corrupt` when the operation was done and its stored result does not decode as `T`; `Internal` for a grant.
    pub fn of_claimed(claimed: Claimed) -> Result<Self> {
        match NotRun::of(claimed) {
            Some(not_run) => Self::of_not_run(not_run),
            None => Err(Error::internal("a claim was granted, or ended, where an answer was expected")),
        }
    }

    /// What an outcome says that was stored now, at `completed_at`, for stores with typed methods of their own.
    ///
    /// # Errors
    ///
    /// `Corrupt` when a success does not decode as `T`.
    pub fn of_executed(outcome: &Outcome, completed_at: Timestamp) -> Result<Self> {
        let stored = StoredOutcome::of(outcome, outcome.digest(), None);
        Ok(match Self::of_stored(stored, completed_at)? {
            Self::Replayed(value) => Self::Executed(value),
            Self::Failed { failure, .. } => Self::Failed { failure, replayed: false },
            other => other,
        })
    }

    pub(super) fn of_not_run(not_run: NotRun) -> Result<Self> {
        Ok(match not_run {
            NotRun::Replay(replay) => return Self::of_stored(replay.outcome, replay.completed_at),
            NotRun::InProgress { retry_after_ms, attempt_number } => {
                Self::InProgress { retry_after: Duration::from_millis(retry_after_ms), attempt_number }
            }
            NotRun::Conflict => Self::Conflict,
            NotRun::Expired(expired) => Self::Expired(*expired),
            NotRun::Uncertain { since } => Self::Uncertain { since },
            NotRun::Nothing => return Err(Error::internal("a claim to run was answered as one to recover")),
        })
    }

    fn of_stored(outcome: StoredOutcome, completed_at: Timestamp) -> Result<Self> {
        match (&outcome.kind, &outcome.content) {
            (OutcomeKind::Failure, _) => Ok(Self::Failed { failure: Failed::of(&outcome), replayed: true }),
            (OutcomeKind::Success, Content::Kept { body: Some(body), .. }) => {
                decode(body).map(Self::Replayed)
            }
            (OutcomeKind::Success, _) => Ok(Self::Omitted { outcome: Box::new(outcome), completed_at }),
        }
    }
}
