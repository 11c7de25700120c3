//! What a store answers. Busy, conflict, expired, uncertain and fenced are answers, not errors (G-50).

use bytes::Bytes;

use crate::attempt::{AttemptId, Fence, Label};
use crate::key::OperationId;
use crate::outcome::{OutcomeKind, StoredOutcome};
use crate::record::{Attempt, Checkpoint, EffectClass, Mode, Record, Resolution, View};
use crate::request::Held;
use crate::time::Timestamp;

/// The answer to [`Register`](crate::request::Register).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Registered {
    /// The intent is stored.
    Created,
    /// It was there already, with the same fingerprint. Not a promise that it is finished: see the view.
    Exists {
        /// What it is now.
        view: View,
    },
    /// The key is in use for another intent.
    Conflict,
}

/// The answer to [`Claim`](crate::request::Claim).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claimed {
    /// The claim was given. Look at [`Grant::mode`] before doing anything.
    Granted(Box<Grant>),
    /// Another attempt holds it.
    InProgress {
        /// When it is worth asking again.
        retry_after_ms: u64,
        /// The holder's attempt number.
        attempt_number: u32,
        /// The record's version, for [`Store::changed`](crate::store::Store::changed).
        version: u64,
    },
    /// It was done: here is the outcome.
    Replay(Box<Replay>),
    /// The key is in use for another intent. Nothing is revealed about it (G-05).
    Conflict,
    /// It was done, and its content is gone (G-41).
    Expired(Box<Expired>),
    /// Nobody knows whether it was done (G-22).
    Uncertain {
        /// Since when.
        since: Timestamp,
    },
    /// This attempt id was granted before and is ended: make a new intent.
    Ended,
    /// There is nothing to recover.
    Nothing,
}

/// A claim that was given.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// Which operation.
    pub id: OperationId,
    /// The attempt.
    pub attempt: AttemptId,
    /// 1 for the first grant.
    pub number: u32,
    /// The fencing token.
    pub fence: Fence,
    /// Run, or find out first.
    pub mode: Mode,
    /// What remained of the lease when the store answered. The holder counts it from the instant *before* it sent the
    /// request (G-12).
    pub remaining_ms: u64,
    /// The lease deadline by the store's clock, for people and for evidence.
    pub lease_until: Timestamp,
    /// When the operation was first granted.
    pub first_grant_at: Timestamp,
    /// What is known about the effects of this attempt and of those that it follows: the record's
    /// [effect class](Record::effect), which may be weaker than the one that was claimed.
    pub effect: EffectClass,
    /// What register stored.
    pub payload: Option<Bytes>,
    /// The attempts before this one.
    pub earlier: Vec<Attempt>,
    /// What they recorded.
    pub checkpoints: Vec<Checkpoint>,
    /// Whether this repeats a grant that was given before (G-12).
    pub again: bool,
}

impl Grant {
    /// The grant that `record` holds now; `None` when it has no attempt.
    #[must_use]
    pub fn of(record: &Record, now: Timestamp, again: bool) -> Option<Self> {
        let current = record.current.as_ref()?;
        Some(Self {
            id: record.id.clone(),
            attempt: current.id,
            number: current.number,
            fence: current.fence,
            mode: current.mode,
            remaining_ms: current.lease_until.millis_since(now),
            lease_until: current.lease_until,
            first_grant_at: record.first_grant_at.unwrap_or(current.started_at),
            effect: record.effect,
            payload: record.payload.clone(),
            earlier: record.earlier.clone(),
            checkpoints: record.checkpoints.clone(),
            again,
        })
    }

    /// The held writes of this grant.
    #[must_use]
    pub fn held(&self) -> Held {
        Held::new(self.id.clone(), self.attempt)
    }
}

/// An outcome that is answered again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replay {
    /// What it ended with.
    pub outcome: StoredOutcome,
    /// When.
    pub completed_at: Timestamp,
    /// By which attempt.
    pub attempt_number: u32,
    /// With which fence.
    pub fence: Fence,
}

impl Replay {
    /// An outcome that attempt `attempt_number` stored at `completed_at`, for stores that answer from their columns.
    #[must_use]
    pub const fn new(
        outcome: StoredOutcome,
        completed_at: Timestamp,
        attempt_number: u32,
        fence: Fence,
    ) -> Self {
        Self { outcome, completed_at, attempt_number, fence }
    }
}

/// What remains of an operation whose content is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired {
    /// Success or failure.
    pub kind: OutcomeKind,
    /// The class of a failure.
    pub class: Option<Label>,
    /// The business reference.
    pub reference: Option<Box<str>>,
    /// When it was completed.
    pub completed_at: Timestamp,
}

impl Expired {
    /// What remains of `outcome`, which was stored at `completed_at`.
    #[must_use]
    pub fn of(outcome: &StoredOutcome, completed_at: Timestamp) -> Self {
        Self {
            kind: outcome.kind,
            class: outcome.class.clone(),
            reference: outcome.reference.clone(),
            completed_at,
        }
    }
}

/// The answer to [`Renew`](crate::request::Renew).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewed {
    /// The lease runs at least that long.
    Renewed {
        /// What remains.
        remaining_ms: u64,
    },
    /// The attempt has completed the operation already.
    Settled,
    /// The operation is parked; the holder may still complete it.
    Parked,
    /// The attempt is not the holder any more, and nothing was changed.
    Fenced(View),
}

/// The answer to [`SaveCheckpoint`](crate::request::SaveCheckpoint).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Checkpointed {
    /// The fact is stored and the lease renewed.
    Recorded {
        /// What remains of the lease.
        remaining_ms: u64,
    },
    /// The same fact was there already; the lease is renewed.
    Duplicate {
        /// What remains of the lease.
        remaining_ms: u64,
    },
    /// Another value is stored under this name; it stays.
    Differs,
    /// No room for more facts, or this one is too large; nothing is stored.
    Full,
    /// The attempt has completed the operation already.
    Settled,
    /// The operation is parked.
    Parked,
    /// The attempt is not the holder any more, and nothing was changed.
    Fenced(View),
}

/// The answer to [`Complete`](crate::request::Complete).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completed {
    /// The outcome is stored.
    Completed {
        /// When.
        at: Timestamp,
        /// Whether body and headers were too large to be kept (G-33).
        body_omitted: bool,
    },
    /// This attempt stored the same outcome before.
    AlreadyCompleted,
    /// This attempt's operation is completed with another outcome, which stays.
    OutcomeConflict,
    /// The attempt is not the holder any more, and nothing was changed.
    Fenced(View),
}

/// The answer to [`Release`](crate::request::Release).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The same key may run again.
    Released {
        /// Whether the fingerprint was forgotten too.
        forgotten: bool,
    },
    /// This attempt was released before.
    AlreadyReleased,
    /// A release with reason `Quiesced` came before the declared bound had passed; nothing was changed.
    TooEarly {
        /// From when on it is accepted.
        until: Timestamp,
    },
    /// The attempt has completed the operation already.
    Settled,
    /// The operation is parked: an operator decides.
    Parked,
    /// The attempt is not the holder any more, and nothing was changed.
    Fenced(View),
}

/// The answer to [`Park`](crate::request::Park).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parked {
    /// The operation is Uncertain now.
    Parked {
        /// Since when.
        since: Timestamp,
    },
    /// It was parked before.
    AlreadyParked,
    /// The attempt has completed the operation already.
    Settled,
    /// The attempt is not the holder any more, and nothing was changed.
    Fenced(View),
}

/// The answer to [`Resolve`](crate::request::Resolve).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolved {
    /// The verdict is stored.
    Resolved {
        /// What the operation is now.
        view: View,
    },
    /// There is no such operation.
    NotFound,
    /// The operation is not Uncertain.
    NotUncertain {
        /// What it is.
        view: View,
        /// How it was last resolved.
        last: Option<Box<Resolution>>,
    },
    /// The record changed since the operator looked: look again.
    Stale {
        /// The fence now.
        fence: Fence,
        /// The version now.
        version: u64,
    },
    /// A request of the last holder may still land.
    TooEarly {
        /// From when on the verdict is accepted.
        until: Timestamp,
    },
}

/// The answer to [`Erase`](crate::request::Erase).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Erased {
    /// The content is gone.
    Erased,
    /// It was gone already.
    AlreadyErased,
    /// There is no such operation.
    NotFound,
    /// The operation is not finished: complete or resolve it first.
    Unfinished {
        /// What it is.
        view: View,
    },
}

/// One page of a listing.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Page {
    /// Records without content, in the store's order.
    pub records: Vec<Record>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<OperationId>,
    /// When the store looked, by the deciding clock.
    pub now: Timestamp,
}

impl Page {
    /// A page as the store saw it at `now`.
    #[must_use]
    pub const fn new(records: Vec<Record>, next: Option<OperationId>, now: Timestamp) -> Self {
        Self { records, next, now }
    }
}

/// How many operations there are, by view, and how old the oldest stuck ones are (G-90).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Received.
    pub received: u64,
    /// Running.
    pub running: u64,
    /// Lapsed.
    pub lapsed: u64,
    /// Completed, response kept.
    pub completed: u64,
    /// Completed, response expired or erased.
    pub expired: u64,
    /// Uncertain.
    pub uncertain: u64,
    /// Start of the oldest attempt that is still Processing.
    pub oldest_processing: Option<Timestamp>,
    /// Since when the oldest Uncertain operation is uncertain.
    pub oldest_uncertain: Option<Timestamp>,
    /// When the store looked, by the deciding clock.
    pub now: Timestamp,
}

impl Stats {
    /// Empty statistics at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now, ..Self::default() }
    }

    /// Counts one record.
    pub fn count(&mut self, record: &Record, guard_ms: u64) {
        let older = |oldest: &mut Option<Timestamp>, at: Option<Timestamp>| {
            if let Some(at) = at {
                *oldest = Some(oldest.map_or(at, |oldest| oldest.min(at)));
            }
        };
        let counter = match record.view(self.now, guard_ms) {
            View::Absent => return,
            View::Received => &mut self.received,
            View::Running => &mut self.running,
            View::Lapsed => &mut self.lapsed,
            View::Completed => &mut self.completed,
            View::Expired => &mut self.expired,
            View::Uncertain => &mut self.uncertain,
        };
        *counter += 1;
        match record.state {
            crate::record::State::Processing => {
                older(&mut self.oldest_processing, record.current.as_ref().map(|attempt| attempt.started_at));
            }
            crate::record::State::Uncertain => {
                older(&mut self.oldest_uncertain, record.parked.as_ref().map(|parked| parked.since));
            }
            _ => {}
        }
    }
}

/// What one batch of a sweep did (G-43).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Records whose content was erased.
    pub erased: u64,
    /// Records that were removed.
    pub purged: u64,
    /// Whether there is more to do now.
    pub more: bool,
}

impl Swept {
    /// A batch that erased the content of `erased` records and removed `purged`.
    #[must_use]
    pub const fn new(erased: u64, purged: u64, more: bool) -> Self {
        Self { erased, purged, more }
    }
}
