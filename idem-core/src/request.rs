//! What a store is asked: one type a request, checked when it is made, so that a store never sees a bad one.

use bytes::Bytes;

use crate::attempt::{AttemptId, Fence, Label};
use crate::fingerprint::Fingerprints;
use crate::key::OperationId;
use crate::outcome::{Outcome, OutcomeDigest};
use crate::record::{AbsenceReason, EffectClass, View};
use crate::time::{Lease, Retention};

/// Stores an intent without a grant (G-24).
#[derive(Clone)]
#[non_exhaustive]
pub struct Register {
    /// Which operation.
    pub id: OperationId,
    /// Its intent; a new record stores the first.
    pub fingerprints: Fingerprints,
    /// What a later grant returns to the worker.
    pub payload: Option<Bytes>,
}

impl Register {
    /// A registration without payload.
    pub fn new(id: OperationId, fingerprints: impl Into<Fingerprints>) -> Self {
        Self { id, fingerprints: fingerprints.into(), payload: None }
    }

    /// The same with a payload.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = Some(payload.into());
        self
    }
}

/// What a claimer wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Intent {
    /// To run the operation; over a lapsed lease, what this says.
    Run(OnLapse),
    /// To find out what became of it: granted only over a lapsed lease or on Uncertain.
    Recover,
}

/// What a claim does when it meets a lapsed lease (G-23).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnLapse {
    /// Parks it: the holder may be slow and still complete, and this caller cannot recover.
    #[default]
    Park,
    /// Takes over in mode `Recover`: this caller has a way to find out.
    Take,
}

/// Asks to run (or to recover) an operation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Claim {
    /// Which operation.
    pub id: OperationId,
    /// One per intent, the same on every repetition (G-12).
    pub attempt: AttemptId,
    /// The intent; a new record stores the first (G-05).
    pub fingerprints: Fingerprints,
    /// What for.
    pub intent: Intent,
    /// How long the holder may assume to be alone.
    pub lease: Lease,
    /// What kind of effect it is.
    pub effect: EffectClass,
    /// A takeover that would be granted a higher number parks instead (G-23).
    pub attempts_max: Option<u32>,
    /// Who asks, for people.
    pub owner: Label,
    /// The W3C traceparent of the caller.
    pub traceparent: Option<Label>,
}

impl Claim {
    /// A claim that runs the operation and parks it on a lapse, with a new attempt id, the default lease, an opaque
    /// effect and no limit of attempts.
    pub fn new(id: OperationId, fingerprints: impl Into<Fingerprints>, owner: Label) -> Self {
        Self {
            id,
            attempt: AttemptId::random(),
            fingerprints: fingerprints.into(),
            intent: Intent::Run(OnLapse::Park),
            lease: Lease::default(),
            effect: EffectClass::Opaque,
            attempts_max: None,
            owner,
            traceparent: None,
        }
    }

    /// The same with this intent.
    #[must_use]
    pub const fn intent(mut self, intent: Intent) -> Self {
        self.intent = intent;
        self
    }

    /// The same with this lease.
    #[must_use]
    pub const fn lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// The same with this effect class.
    #[must_use]
    pub const fn effect(mut self, effect: EffectClass) -> Self {
        self.effect = effect;
        self
    }

    /// The same with this limit of attempts.
    #[must_use]
    pub const fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = Some(attempts_max);
        self
    }

    /// The same with this attempt id: a repetition.
    #[must_use]
    pub const fn attempt(mut self, attempt: AttemptId) -> Self {
        self.attempt = attempt;
        self
    }

    /// The held writes of this claim's attempt.
    #[must_use]
    pub fn held(&self) -> Held {
        Held { id: self.id.clone(), attempt: self.attempt }
    }
}

/// Whose held write it is (G-15): the operation, and the attempt that was granted it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Held {
    /// Which operation.
    pub id: OperationId,
    /// The attempt.
    pub attempt: AttemptId,
}

impl Held {
    /// The attempt `attempt` of operation `id`.
    #[must_use]
    pub const fn new(id: OperationId, attempt: AttemptId) -> Self {
        Self { id, attempt }
    }
}

/// Extends the lease to at least now + `lease` (G-13).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Renew {
    /// Whose.
    pub held: Held,
    /// From now.
    pub lease: Lease,
}

impl Renew {
    /// A renewal by `lease` from now.
    #[must_use]
    pub const fn new(held: Held, lease: Lease) -> Self {
        Self { held, lease }
    }
}

/// Records a fact before the next foreign step, and renews the lease (G-21).
#[derive(Clone)]
#[non_exhaustive]
pub struct SaveCheckpoint {
    /// Whose.
    pub held: Held,
    /// The fact's name, unique in the attempt.
    pub name: Label,
    /// The fact.
    pub value: Bytes,
    /// From now.
    pub lease: Lease,
}

impl SaveCheckpoint {
    /// A fact, with a renewal by `lease` from now.
    pub fn new(held: Held, name: Label, value: impl Into<Bytes>, lease: Lease) -> Self {
        Self { held, name, value: value.into(), lease }
    }
}

/// Ends the operation with an outcome. Total: after a grant it is never `InvalidInput` (G-17).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Complete {
    /// Whose.
    pub held: Held,
    /// With what.
    pub outcome: Outcome,
    /// The outcome's digest, computed before anything seals its content (G-16).
    pub digest: OutcomeDigest,
    /// For how long it is kept.
    pub retention: Retention,
}

impl Complete {
    /// A completion; the digest is that of `outcome`.
    #[must_use]
    pub fn new(held: Held, outcome: Outcome, retention: Retention) -> Self {
        let digest = outcome.digest();
        Self { held, outcome, digest, retention }
    }
}

/// Gives the operation back because nothing happened (G-31); the same key may run again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Release {
    /// Whose.
    pub held: Held,
    /// Forget the fingerprint too, so that a corrected request may use the key. Applied only where no attempt could
    /// have had an effect: mode Execute, never registered, no checkpoints, every attempt released (G-31).
    pub forget: bool,
    /// Why the effect may run again; a release from recovery must say it (G-19).
    pub absence: Option<AbsenceReason>,
}

impl Release {
    /// A release from mode Execute.
    #[must_use]
    pub const fn new(held: Held) -> Self {
        Self { held, forget: false, absence: None }
    }

    /// The same, forgetting the fingerprint where that is safe.
    #[must_use]
    pub const fn forget(mut self) -> Self {
        self.forget = true;
        self
    }

    /// The same with the reason that a release from recovery needs.
    #[must_use]
    pub const fn absence(mut self, reason: AbsenceReason) -> Self {
        self.absence = Some(reason);
        self
    }
}

/// Makes the operation Uncertain: its holder cannot tell what happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Park {
    /// Whose.
    pub held: Held,
    /// What an operator should know.
    pub note: Option<Label>,
}

impl Park {
    /// Parks without a note.
    #[must_use]
    pub const fn new(held: Held) -> Self {
        Self { held, note: None }
    }

    /// The same with a note; an overlong one is cut.
    #[must_use]
    pub fn note(mut self, note: &str) -> Self {
        self.note = Label::cut(note).0;
        self
    }
}

/// An operator's verdict on an Uncertain operation (G-22). Trusted code only (G-06).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Resolve {
    /// Which operation.
    pub id: OperationId,
    /// The fence that the operator saw.
    pub fence: Fence,
    /// The version that the operator saw.
    pub version: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// Who decides.
    pub actor: Label,
    /// Why.
    pub reason: Label,
}

impl Resolve {
    /// A verdict on the record as it was seen: conditional on its fence and version.
    #[must_use]
    pub fn new(seen: &crate::record::Record, verdict: Verdict, actor: Label, reason: Label) -> Self {
        Self { id: seen.id.clone(), fence: seen.fence(), version: seen.version, verdict, actor, reason }
    }
}

/// What an operator found out.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Verdict {
    /// It happened, and this is its outcome.
    Completed {
        /// With what it ended.
        outcome: Outcome,
        /// For how long it is kept.
        retention: Retention,
    },
    /// It did not happen and cannot any more: the same key may run again.
    DidNotHappen {
        /// How long a request of a stopped holder can still land, counted from the last lease deadline.
        settle_ms: u64,
    },
}

/// Removes content early (G-44). Trusted code only (G-06).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Erase {
    /// Which operation.
    pub id: OperationId,
    /// The business reference too.
    pub reference: bool,
}

impl Erase {
    /// Removes body, headers, payload, checkpoint values and digest; the reference stays.
    #[must_use]
    pub const fn new(id: OperationId) -> Self {
        Self { id, reference: false }
    }

    /// The same, with the reference.
    #[must_use]
    pub const fn with_reference(mut self) -> Self {
        self.reference = true;
        self
    }
}

/// The most records in one page of a listing, and in one batch of a sweep.
pub const PAGE_MAX: usize = 1000;

/// Which records to list. Trusted code only (G-06).
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Query {
    /// Only of this tenant.
    pub tenant: Option<String>,
    /// Only of this operation name.
    pub operation: Option<String>,
    /// Only what is now in one of these views; empty is all of them. What is absent is never listed, swept or not
    /// (G-41).
    pub views: Vec<View>,
    /// Only what comes after this id: the last one of the page before.
    pub after: Option<OperationId>,
    /// At most so many records; 0 and more than [`PAGE_MAX`] mean [`PAGE_MAX`].
    pub limit: usize,
}

impl Query {
    /// Everything, in pages of [`PAGE_MAX`].
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// The page size that holds.
    #[must_use]
    pub const fn page(&self) -> usize {
        if self.limit == 0 || self.limit > PAGE_MAX { PAGE_MAX } else { self.limit }
    }

    /// Whether a record in `view` belongs to the listing.
    #[must_use]
    pub fn admits(&self, id: &OperationId, view: View) -> bool {
        self.tenant.as_deref().is_none_or(|tenant| tenant == id.tenant())
            && self.operation.as_deref().is_none_or(|operation| operation == id.operation())
            && view != View::Absent
            && (self.views.is_empty() || self.views.contains(&view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_never_listed() {
        let id = OperationId::new("t", "o", "k").unwrap();
        let mut query = Query::all();
        assert!(View::ALL.iter().all(|view| query.admits(&id, *view) == (*view != View::Absent)));
        query.views = vec![View::Absent, View::Expired];
        assert!(query.admits(&id, View::Expired));
        assert!(!query.admits(&id, View::Absent));
        assert!(!query.admits(&id, View::Running));
    }
}
