//! What a cell's word means: the answer, and the whole record that is left (sections 2 to 4, 11).
//!
//! Written from the contract. A record is named field by field where fields are reset, and as "the same but for" where
//! they are kept; both are compared as a whole, so that a field which moves without a reason is found.

use super::fixture::{NOW, at, id};
use crate::answer::{Claimed, Expired, Grant, Replay};
use crate::attempt::{Fence, Label};
use crate::outcome::{Content, Omission, Outcome, StoredOutcome};
use crate::record::{
    Attempt, EffectClass, Ending, HISTORY_MAX, Mode, ParkCause, Parking, Record, State, View,
};
use crate::request::{Claim, Register};
use crate::time::{Retention, Timestamp, Ttl};

/// The record that A or A\* begins with: empty but for fence and version, which A\* keeps (G-41).
pub(super) fn begun(stored: Option<&Record>) -> Record {
    Record {
        id: id(),
        fingerprint: None,
        state: State::Received,
        version: stored.map_or(0, |stored| stored.version),
        effect: EffectClass::Opaque,
        registered: false,
        payload: None,
        current: None,
        earlier: vec![],
        earlier_lease_until: Timestamp::EPOCH,
        fence_floor: stored.map_or(Fence::new(0), Record::fence),
        checkpoints: vec![],
        parked: None,
        resolution: None,
        outcome: None,
        created_at: NOW,
        updated_at: NOW,
        first_grant_at: None,
        completed_at: None,
        response_until: None,
        identity_until: None,
        traceparent: None,
    }
}

/// Written once more: the version rises and the time of update is now.
pub(super) fn written(record: &Record) -> Record {
    Record { version: record.version + 1, updated_at: NOW, ..record.clone() }
}

/// Register sets fingerprint and payload of what it creates, and of what was forgotten (G-24).
pub(super) fn registered(before: &Record, register: &Register) -> Record {
    Record {
        fingerprint: Some(*register.fingerprints.first()),
        registered: true,
        payload: register.payload.clone(),
        ..written(before)
    }
}

/// "Grant: number + 1, new fence, id, lease, history entry" (section 11), over what is there; the class is the claim's
/// where nothing may have happened, and holds for all of the chain where something may.
pub(super) fn granted(before: &Record, claim: &Claim, mode: Mode) -> Record {
    let (number, fence) = before.current.as_ref().map_or((0, before.fence_floor), |a| (a.number, a.fence));
    let mut earlier = before.earlier.clone();
    let mut earlier_lease_until = before.earlier_lease_until;
    if let Some(mut last) = before.current.clone() {
        if last.ended.is_none() {
            last.ended = Some((NOW, Ending::Lapsed));
        }
        earlier_lease_until = earlier_lease_until.max(last.lease_until);
        earlier.push(last);
    }
    let forgotten_by_history = earlier.len().saturating_sub(HISTORY_MAX);
    Record {
        fingerprint: before.fingerprint.or(Some(*claim.fingerprints.first())),
        state: State::Processing,
        effect: match (before.state, before.effect, claim.effect) {
            (State::Received, _, claimed) => claimed,
            (_, EffectClass::Local, EffectClass::Local) => EffectClass::Local,
            (
                _,
                EffectClass::Keyed { remembers_for_ms: stored },
                EffectClass::Keyed { remembers_for_ms: claimed },
            ) => EffectClass::Keyed { remembers_for_ms: stored.min(claimed) },
            _ => EffectClass::Opaque,
        },
        current: Some(Attempt {
            number: number + 1,
            id: claim.attempt,
            owner: claim.owner.clone(),
            mode,
            fence: Fence::new((fence.get() + 1).max(NOW.as_millis())),
            started_at: NOW,
            lease_until: at(i64::try_from(claim.lease.as_millis()).unwrap()),
            ended: None,
            absence: None,
        }),
        earlier: earlier.split_off(forgotten_by_history),
        earlier_lease_until,
        parked: None,
        first_grant_at: before.first_grant_at.or(Some(NOW)),
        traceparent: before.traceparent.clone().or(claim.traceparent.clone()),
        ..written(before)
    }
}

/// A claim that parks: attempt id, fence and number stay the holder's (G-23).
pub(super) fn parked_by(before: &Record, claim: &Claim, cause: ParkCause) -> Record {
    let mut current = before.current.clone().unwrap();
    current.ended = Some((NOW, Ending::Parked));
    Record {
        state: State::Uncertain,
        current: Some(current),
        parked: Some(Box::new(Parking { since: NOW, by: claim.owner.clone(), cause, note: None })),
        ..written(before)
    }
}

/// The grant that a record in progress stands for, with all evidence (G-12, G-18).
pub(super) fn grant(record: &Record, again: bool) -> Claimed {
    let holder = record.current.clone().unwrap();
    Claimed::Granted(Box::new(Grant {
        id: id(),
        attempt: holder.id,
        number: holder.number,
        fence: holder.fence,
        mode: holder.mode,
        remaining_ms: holder.lease_until.as_millis().saturating_sub(NOW.as_millis()),
        lease_until: holder.lease_until,
        first_grant_at: record.first_grant_at.unwrap(),
        effect: record.effect,
        payload: record.payload.clone(),
        earlier: record.earlier.clone(),
        checkpoints: record.checkpoints.clone(),
        again,
    }))
}

pub(super) fn in_progress(record: &Record, guard_ms: u64) -> Claimed {
    let holder = record.current.as_ref().unwrap();
    Claimed::InProgress {
        retry_after_ms: holder.lease_until.as_millis() + guard_ms - NOW.as_millis(),
        attempt_number: holder.number,
        version: record.version,
    }
}

pub(super) fn replay(record: &Record) -> Claimed {
    let last = record.current.as_ref().unwrap();
    Claimed::Replay(Box::new(Replay {
        outcome: (**record.outcome.as_ref().unwrap()).clone(),
        completed_at: record.completed_at.unwrap(),
        attempt_number: last.number,
        fence: last.fence,
    }))
}

pub(super) fn expired(record: &Record) -> Claimed {
    let outcome = record.outcome.as_ref().unwrap();
    Claimed::Expired(Box::new(Expired {
        kind: outcome.kind,
        class: outcome.class.clone(),
        reference: outcome.reference.clone(),
        completed_at: record.completed_at.unwrap(),
    }))
}

pub(super) fn uncertain(record: &Record) -> Claimed {
    Claimed::Uncertain { since: record.parked.as_ref().unwrap().since }
}

/// What a step on an absent record starts from; what is there otherwise.
pub(super) fn base(stored: Option<&Record>, view: View) -> Record {
    match stored {
        Some(record) if view != View::Absent => record.clone(),
        stored => begun(stored),
    }
}

/// A holder that parks its own attempt: since when, by whom and what it had to say (G-22).
pub(super) fn parked_by_holder(before: &Record, note: Option<Label>) -> Record {
    let mut current = before.current.clone().unwrap();
    current.ended = Some((NOW, Ending::Parked));
    let by = current.owner.clone();
    Record {
        state: State::Uncertain,
        current: Some(current),
        parked: Some(Box::new(Parking { since: NOW, by, cause: ParkCause::Holder, note })),
        ..written(before)
    }
}

/// Completed: with content if it fits and is to be kept, and with the deadlines counted from now (G-33, G-40).
pub(super) fn completed(
    before: &Record,
    outcome: &Outcome,
    retention: Retention,
    too_large: bool,
    ending: Ending,
) -> Record {
    let mut current = before.current.clone().unwrap();
    current.ended = Some((NOW, ending));
    let deadline = |ttl| match ttl {
        Ttl::Forever => None,
        Ttl::Millis(millis) => Some(at(i64::try_from(millis).unwrap())),
    };
    let mut stored = StoredOutcome::of(outcome, outcome.digest(), None);
    let content_bytes = outcome.content_bytes() as u64;
    // "0 allowed: body never stored" (G-40) goes before "too large" (G-33): the response is expired at once.
    if retention.response_ttl() == Ttl::Millis(0) {
        stored.content = Content::Omitted { content_bytes, why: Omission::Expired };
    } else if too_large {
        stored.content = Content::Omitted { content_bytes, why: Omission::TooLarge };
    }
    Record {
        state: State::Completed,
        current: Some(current),
        parked: None,
        outcome: Some(Box::new(stored)),
        completed_at: Some(NOW),
        response_until: deadline(retention.response_ttl()),
        identity_until: deadline(retention.identity_ttl()),
        ..written(before)
    }
}
