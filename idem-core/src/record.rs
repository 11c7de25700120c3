//! The record: everything that the ledger keeps about one operation (contract, section 2).

use std::fmt;

use bytes::Bytes;

use crate::attempt::{AttemptId, Fence, Label};
use crate::fingerprint::Fingerprint;
use crate::key::OperationId;
use crate::outcome::{Omission, StoredOutcome};
use crate::time::Timestamp;

/// The most ended attempts that a record remembers; the oldest go first. Ids of remembered attempts are never granted
/// again (G-12).
pub const HISTORY_MAX: usize = 32;

/// The four stored states. Absence is the fifth; lapse and expiry are judged by time when a record is read: [`View`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Known, and nobody runs it: registered, released, or resolved as "did not happen".
    Received,
    /// Granted to an attempt.
    Processing,
    /// Ended with an outcome.
    Completed,
    /// Nobody knows whether the effect happened (G-22).
    Uncertain,
}

/// A state as it is at an instant (section 11). "Before" is `now < deadline`, "after" is `now >= deadline`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum View {
    /// Never seen, or its identity expired (A and A\*).
    Absent,
    /// R.
    Received,
    /// P, and the lease (with the guard, G-60) still runs.
    Running,
    /// P, and the lease ended.
    Lapsed,
    /// C, with its response (or with its body omitted for its size).
    Completed,
    /// C, and the response is expired or erased.
    Expired,
    /// U.
    Uncertain,
}

impl View {
    /// All views, in the order of an operation's life.
    pub const ALL: [Self; 7] = [
        Self::Absent,
        Self::Received,
        Self::Running,
        Self::Lapsed,
        Self::Completed,
        Self::Expired,
        Self::Uncertain,
    ];

    /// The word for people and for filters: `absent`, `received`, `running`, `lapsed`, `completed`, `expired`,
    /// `uncertain`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Received => "received",
            Self::Running => "running",
            Self::Lapsed => "lapsed",
            Self::Completed => "completed",
            Self::Expired => "expired",
            Self::Uncertain => "uncertain",
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a grant is for (G-18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Run the effect.
    Execute,
    /// Find out first; an earlier attempt may have run it.
    Recover,
}

/// What kind of effect the operation has: what may be done after a crash in the middle of it (G-18, G-19, G-23).
#[doc(alias("exactly_once", "at_most_once", "at_least_once"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum EffectClass {
    /// Nothing is known about it: after a lapse only a reconciler or an operator can say what happened.
    #[default]
    Opaque,
    /// The downstream system deduplicates on our downstream key for this many milliseconds after the first grant.
    Keyed {
        /// How long it remembers a key.
        remembers_for_ms: u64,
    },
    /// Every write of the effect is in the store's own transaction with the record (G-70). Set by the
    /// same-transaction API alone.
    Local,
}

impl EffectClass {
    /// What holds for an attempt of this class and one of `other` together: what a grant over a lapse, or of what is
    /// Uncertain, leaves on the record (G-18, G-19).
    ///
    /// One class is kept, with the shorter memory of two downstream systems. Two different ones are `Opaque`: what one
    /// attempt did with a downstream key says nothing about another that sent none.
    ///
    /// ```
    /// use idem_core::EffectClass::{Keyed, Local, Opaque};
    ///
    /// let (day, hour) = (Keyed { remembers_for_ms: 86_400_000 }, Keyed { remembers_for_ms: 3_600_000 });
    /// assert_eq!(day.weakest(hour), hour);
    /// assert_eq!(Opaque.weakest(day), Opaque);
    /// assert_eq!((Local.weakest(Local), Local.weakest(day)), (Local, Opaque));
    /// ```
    #[must_use]
    pub const fn weakest(self, other: Self) -> Self {
        match (self, other) {
            (Self::Local, Self::Local) => Self::Local,
            (Self::Keyed { remembers_for_ms: one }, Self::Keyed { remembers_for_ms: two }) => {
                Self::Keyed { remembers_for_ms: if one < two { one } else { two } }
            }
            _ => Self::Opaque,
        }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// Its holder completed the operation.
    Completed,
    /// Its holder released it: nothing had happened.
    Released,
    /// It was parked: by its holder, or by a claim that met its lapse.
    Parked,
    /// Its lease lapsed and another attempt took over.
    Lapsed,
    /// An operator resolved the operation after it.
    Resolved,
}

/// Why a release from recovery may let the effect run (G-19). "Looked and saw nothing" is no reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AbsenceReason {
    /// The downstream system deduplicates on our key, so running again cannot do it twice.
    Deduplicated,
    /// The downstream system now refuses older fences, or the key was cancelled there.
    FencedOff,
    /// `settle_ms`, the declared bound on how long a request of a stopped holder can still land, has passed since
    /// every earlier lease deadline; the ledger checks that.
    Quiesced {
        /// The bound.
        settle_ms: u64,
    },
}

/// One grant and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// 1 for the first grant, then one more each.
    pub number: u32,
    /// The id of the claim intent.
    pub id: AttemptId,
    /// Who, for people.
    pub owner: Label,
    /// What it was granted for.
    pub mode: Mode,
    /// Its fencing token.
    pub fence: Fence,
    /// When it was granted.
    pub started_at: Timestamp,
    /// Its last lease deadline.
    pub lease_until: Timestamp,
    /// When and how it ended. `None` while it is the holder.
    pub ended: Option<(Timestamp, Ending)>,
    /// The reason that a release from recovery gave (G-19).
    pub absence: Option<AbsenceReason>,
}

impl Attempt {
    /// An attempt that is the holder: for stores that read one from their columns. What ended it, and the reason of a
    /// release, are fields to set.
    #[must_use]
    pub const fn new(
        number: u32,
        id: AttemptId,
        owner: Label,
        mode: Mode,
        fence: Fence,
        started_at: Timestamp,
        lease_until: Timestamp,
    ) -> Self {
        Self { number, id, owner, mode, fence, started_at, lease_until, ended: None, absence: None }
    }
}

/// A fact that a holder recorded before its next foreign step (G-21).
#[doc(alias("savepoint", "progress"))]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Number of the attempt that recorded it.
    pub attempt_number: u32,
    /// Its name, unique in the attempt.
    pub name: Label,
    /// The fact.
    pub value: Bytes,
    /// When it was recorded.
    pub at: Timestamp,
}

impl Checkpoint {
    /// A fact, for stores that read one from their columns.
    pub fn new(attempt_number: u32, name: Label, value: impl Into<Bytes>, at: Timestamp) -> Self {
        Self { attempt_number, name, value: value.into(), at }
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}: <{} bytes>", self.name, self.attempt_number, self.value.len())
    }
}

/// Why an operation is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParkCause {
    /// Its holder could not tell what happened.
    Holder,
    /// A claim that cannot recover met the lapse (G-23).
    Lapse,
    /// A takeover would have exceeded the claim's limit of attempts (G-23).
    AttemptsExhausted,
}

/// When, by whom and why an operation became Uncertain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parking {
    /// Since when.
    pub since: Timestamp,
    /// Who parked it.
    pub by: Label,
    /// Why.
    pub cause: ParkCause,
    /// What that party had to say.
    pub note: Option<Label>,
}

impl Parking {
    /// A parking without a note, for stores that read one from their columns.
    #[must_use]
    pub const fn new(since: Timestamp, by: Label, cause: ParkCause) -> Self {
        Self { since, by, cause, note: None }
    }
}

/// What an operator decided about an Uncertain operation (G-22).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolution {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: Label,
    /// Why.
    pub reason: Label,
    /// `true`: it had happened, with the outcome in the record. `false`: it did not happen.
    pub happened: bool,
}

impl Resolution {
    /// A verdict, for stores that read one from their columns.
    #[must_use]
    pub const fn new(at: Timestamp, actor: Label, reason: Label, happened: bool) -> Self {
        Self { at, actor, reason, happened }
    }
}

/// Everything that the ledger keeps about one operation.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Which operation.
    pub id: OperationId,
    /// The fingerprint of its intent; `None` is forgotten (G-31).
    pub fingerprint: Option<Fingerprint>,
    /// The stored state; what it means now is [`Record::view`].
    pub state: State,
    /// Raised by every write.
    pub version: u64,
    /// The [weakest](EffectClass::weakest) effect class that any attempt declared since the operation was last free to
    /// run: what is known about all that may have happened.
    pub effect: EffectClass,
    /// Whether it was registered before its first grant (G-24).
    pub registered: bool,
    /// What register stored with it.
    pub payload: Option<Bytes>,
    /// The latest attempt: the holder while Processing, the last one otherwise.
    pub current: Option<Attempt>,
    /// Attempts before that, oldest first, at most [`HISTORY_MAX`].
    pub earlier: Vec<Attempt>,
    /// The latest lease deadline of all attempts before the latest, remembered or not.
    pub earlier_lease_until: Timestamp,
    /// The last fence of an identity that expired in place; 0 when there was none (G-14).
    pub fence_floor: Fence,
    /// Recorded facts, oldest first.
    pub checkpoints: Vec<Checkpoint>,
    /// While Uncertain: since when and why.
    pub parked: Option<Box<Parking>>,
    /// The last resolution.
    pub resolution: Option<Box<Resolution>>,
    /// While Completed: what it ended with.
    pub outcome: Option<Box<StoredOutcome>>,
    /// When the record was made.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// When it was first granted.
    pub first_grant_at: Option<Timestamp>,
    /// When it was completed.
    pub completed_at: Option<Timestamp>,
    /// From when on its response is expired; `None` is never.
    pub response_until: Option<Timestamp>,
    /// From when on it is absent; `None` is never.
    pub identity_until: Option<Timestamp>,
    /// The W3C traceparent of the first claim (G-91).
    pub traceparent: Option<Label>,
}

impl Record {
    /// An empty Received record, for stores that read one from their columns.
    #[must_use]
    pub const fn new(id: OperationId, now: Timestamp) -> Self {
        Self {
            id,
            fingerprint: None,
            state: State::Received,
            version: 0,
            effect: EffectClass::Opaque,
            registered: false,
            payload: None,
            current: None,
            earlier: Vec::new(),
            earlier_lease_until: Timestamp::EPOCH,
            fence_floor: Fence::new(0),
            checkpoints: Vec::new(),
            parked: None,
            resolution: None,
            outcome: None,
            created_at: now,
            updated_at: now,
            first_grant_at: None,
            completed_at: None,
            response_until: None,
            identity_until: None,
            traceparent: None,
        }
    }

    /// What the record is at `now`, for a taker whose clock may differ by `guard_ms` from the holder's (G-60).
    #[must_use]
    pub fn view(&self, now: Timestamp, guard_ms: u64) -> View {
        match self.state {
            State::Received => View::Received,
            State::Uncertain => View::Uncertain,
            State::Processing => {
                let lease_until =
                    self.current.as_ref().map_or(Timestamp::EPOCH, |attempt| attempt.lease_until);
                if now < lease_until.plus_millis(guard_ms) { View::Running } else { View::Lapsed }
            }
            State::Completed if is_after(now, self.identity_until) => View::Absent,
            State::Completed => {
                let omission = self.outcome.as_ref().and_then(|outcome| outcome.omission());
                let erased = matches!(omission, Some(Omission::Erased | Omission::Expired));
                if erased || is_after(now, self.response_until) { View::Expired } else { View::Completed }
            }
        }
    }

    /// The fence of the latest grant, or the floor that an expired identity left.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.current.as_ref().map_or(self.fence_floor, |attempt| attempt.fence)
    }

    /// The number of the latest attempt; 0 before the first grant.
    #[must_use]
    pub fn attempt_number(&self) -> u32 {
        self.current.as_ref().map_or(0, |attempt| attempt.number)
    }

    /// The latest lease deadline of all attempts.
    #[must_use]
    pub fn last_lease_until(&self) -> Timestamp {
        let current = self.current.as_ref().map_or(Timestamp::EPOCH, |attempt| attempt.lease_until);
        current.max(self.earlier_lease_until)
    }

    /// From when on a sweep may remove the record; `None` is never (G-14). `step_ms` is the declared largest backward
    /// step of the deciding clock.
    #[must_use]
    pub fn purge_at(&self, step_ms: u64) -> Option<Timestamp> {
        let identity = self.identity_until?;
        let past_fence = Timestamp::from_millis(self.fence().get()).plus_millis(step_ms).plus_millis(1);
        Some(identity.max(past_fence))
    }

    /// Whether body, headers, payload and checkpoint values are gone, so that a sweep has no content left to erase.
    #[must_use]
    pub(crate) fn is_emptied(&self) -> bool {
        let omission = self.outcome.as_ref().and_then(|outcome| outcome.omission());
        matches!(omission, Some(Omission::Expired | Omission::Erased))
            && self.payload.is_none()
            && self.checkpoints.iter().all(|checkpoint| checkpoint.value.is_empty())
    }

    /// From when on a [`Sweep`](crate::transition::Sweep) has something to do here; `None` is never. Stores index it.
    #[must_use]
    pub fn sweep_at(&self, step_ms: u64) -> Option<Timestamp> {
        if self.state != State::Completed {
            return None;
        }
        let purge_at = self.purge_at(step_ms);
        if self.is_emptied() {
            return purge_at;
        }
        let omission = self.outcome.as_ref().and_then(|outcome| outcome.omission());
        let content_at = match omission {
            Some(Omission::Expired | Omission::Erased) => self.completed_at,
            Some(Omission::TooLarge | Omission::Unread) | None => self.response_until,
        };
        match (content_at, purge_at) {
            (Some(content_at), Some(purge_at)) => Some(content_at.min(purge_at)),
            (one, other) => one.or(other),
        }
    }

    /// The record without body, headers, payload and checkpoint values: what a listing shows. Its view stays what it
    /// was: a fresh outcome is [`Unread`](Omission::Unread), not expired.
    #[must_use]
    pub fn without_content(self) -> Self {
        self.stripped(Omission::Unread)
    }

    fn stripped(mut self, why: Omission) -> Self {
        self.payload = None;
        for checkpoint in &mut self.checkpoints {
            checkpoint.value = Bytes::new();
        }
        if let Some(outcome) = &mut self.outcome
            && matches!(outcome.omission(), None | Some(Omission::Unread))
        {
            outcome.omit(why);
        }
        self
    }

    /// The record as `get` shows it at `now`: nothing once its identity expired, and no content once its response did
    /// (G-41), whether or not anything was swept.
    #[must_use]
    pub fn as_read(self, now: Timestamp) -> Option<Self> {
        match self.view(now, 0) {
            View::Absent => None,
            View::Expired => Some(self.stripped(Omission::Expired)),
            _ => Some(self),
        }
    }

    /// What every stored record satisfies, whatever its state; a store calls it on what it read.
    ///
    /// # Errors
    ///
    /// `Corrupt` naming what cannot be.
    pub fn check(&self) -> crate::error::Result<()> {
        let complaint =
            if self.state == State::Completed && (self.outcome.is_none() || self.completed_at.is_none()) {
                "a completed record has no outcome"
            } else if matches!(self.state, State::Processing | State::Uncertain) && self.current.is_none() {
                "a record in progress has no attempt"
            } else if self.state == State::Uncertain && self.parked.is_none() {
                "an uncertain record does not say since when"
            } else if self.state != State::Completed
                && (self.outcome.is_some() || self.identity_until.is_some() || self.response_until.is_some())
            {
                "an unfinished record has an outcome or an expiry (G-42)"
            } else if self.fence().get() > Timestamp::MAX.as_millis() {
                "a fence is beyond 2^53"
            } else if self.fingerprint.is_none() && self.state != State::Received {
                "only a received record may have forgotten its fingerprint"
            } else {
                return Ok(());
            };
        Err(crate::error::Error::corrupt(complaint))
    }
}

fn is_after(now: Timestamp, deadline: Option<Timestamp>) -> bool {
    deadline.is_some_and(|deadline| now >= deadline)
}
