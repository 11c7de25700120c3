//! Register and claim: the fingerprint first, then the state (G-05, section 11).

use super::{Context, Step, Transition, keep, put};
use crate::answer::{Claimed, Expired, Grant, Registered, Replay};
use crate::attempt::{AttemptId, Fence};
use crate::error::{Error, Result};
use crate::key::OperationId;
use crate::record::{
    Attempt, EffectClass, Ending, HISTORY_MAX, Mode, ParkCause, Parking, Record, State, View,
};
use crate::request::{Claim, Intent, OnLapse, Register};
use crate::time::Timestamp;

impl Transition for Register {
    type Answer = Registered;

    fn id(&self) -> &OperationId {
        &self.id
    }

    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<Registered>> {
        let payload_bytes = self.payload.as_ref().map_or(0, bytes::Bytes::len);
        if payload_bytes > context.limits.payload_bytes_max {
            return Err(Error::invalid_input(format!(
                "the payload has {payload_bytes} bytes, more than the store keeps ({}): store it elsewhere and \
                 register a reference (G-24)",
                context.limits.payload_bytes_max
            )));
        }
        let view = context.view(stored);
        let Some(record) = stored.filter(|_| view != View::Absent) else {
            let record = self.describe(fresh(&self.id, stored, context));
            return put(Registered::Created, record, context);
        };
        if !self.fingerprints.agree_with(record.fingerprint.as_ref()) {
            return keep(Registered::Conflict);
        }
        if record.fingerprint.is_none() {
            return put(Registered::Exists { view }, self.describe(record.clone()), context);
        }
        keep(Registered::Exists { view })
    }
}

impl Register {
    /// Sets what this registration says about the operation.
    fn describe(&self, mut record: Record) -> Record {
        record.fingerprint = Some(*self.fingerprints.first());
        record.payload.clone_from(&self.payload);
        record.registered = true;
        record
    }
}

/// Whose attempt a claim's id is, on a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Own,
    Ended,
    Other,
}

fn whose(record: &Record, attempt: AttemptId) -> Whose {
    if record.current.as_ref().is_some_and(|current| current.id == attempt) {
        Whose::Own
    } else if record.earlier.iter().any(|earlier| earlier.id == attempt) {
        Whose::Ended
    } else {
        Whose::Other
    }
}

impl Transition for Claim {
    type Answer = Claimed;

    fn id(&self) -> &OperationId {
        &self.id
    }

    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<Claimed>> {
        let view = context.view(stored);
        let Some(record) = stored.filter(|_| view != View::Absent) else {
            return match self.intent {
                Intent::Run(_) => self.grant(fresh(&self.id, stored, context), Mode::Execute, context),
                Intent::Recover => keep(Claimed::Nothing),
            };
        };
        if !self.fingerprints.agree_with(record.fingerprint.as_ref()) {
            return keep(Claimed::Conflict);
        }
        let own = whose(record, self.attempt);
        match view {
            View::Completed => keep(replay(record)?),
            View::Expired | View::Absent => keep(expired(record)?),
            View::Received => match (own, self.intent) {
                (Whose::Own | Whose::Ended, _) => keep(Claimed::Ended),
                (Whose::Other, Intent::Run(_)) => self.grant(record.clone(), Mode::Execute, context),
                (Whose::Other, Intent::Recover) => keep(Claimed::Nothing),
            },
            View::Running | View::Lapsed if own == Whose::Own => {
                let grant = Grant::of(record, context.now, true).ok_or_else(no_attempt)?;
                keep(Claimed::Granted(Box::new(grant)))
            }
            View::Running => keep(in_progress(record, context)),
            View::Lapsed if own == Whose::Ended => keep(Claimed::Ended),
            View::Lapsed => self.over_lapse(record, context),
            View::Uncertain => {
                if self.intent == Intent::Recover && own == Whose::Other {
                    return self.grant(record.clone(), Mode::Recover, context);
                }
                let parked = record.parked.as_ref().ok_or_else(no_attempt)?;
                keep(Claimed::Uncertain { since: parked.since })
            }
        }
    }
}

impl Claim {
    /// Cell L of the table, and its neighbour for `Recover`.
    fn over_lapse(&self, record: &Record, context: &Context) -> Result<Step<Claimed>> {
        let current = record.current.as_ref().ok_or_else(no_attempt)?;
        // The stored class is the weakest of the chain, so Local says that every attempt of it was. One that was granted
        // to recover stays a recovery all the same, since the mode sticks (G-18).
        let rolled_back = record.effect == EffectClass::Local && current.mode == Mode::Execute;
        let on_lapse = match self.intent {
            Intent::Recover if rolled_back => return keep(Claimed::Nothing),
            Intent::Recover => return self.grant(record.clone(), Mode::Recover, context),
            Intent::Run(on_lapse) => on_lapse,
        };
        if self.attempts_max.is_some_and(|max| current.number >= max) {
            return self.park(record, ParkCause::AttemptsExhausted, context);
        }
        if rolled_back && self.effect == EffectClass::Local {
            return self.grant(record.clone(), Mode::Execute, context);
        }
        match on_lapse {
            OnLapse::Park => self.park(record, ParkCause::Lapse, context),
            OnLapse::Take => self.grant(record.clone(), Mode::Recover, context),
        }
    }

    /// Parks in the name of this claim; attempt id, fence and number stay the holder's (G-23).
    fn park(&self, record: &Record, cause: ParkCause, context: &Context) -> Result<Step<Claimed>> {
        let mut record = record.clone();
        set_parked(&mut record, Parking { since: context.now, by: self.owner.clone(), cause, note: None })?;
        put(Claimed::Uncertain { since: context.now }, record, context)
    }

    /// Number + 1, a new fence, this claim's id and lease, one more entry of history, and the class of the chain: a
    /// claim that declares a better one says nothing about what the attempts before it did (G-18, G-19).
    fn grant(&self, mut record: Record, mode: Mode, context: &Context) -> Result<Step<Claimed>> {
        let fence = next_fence(record.fence(), context)?;
        let number = record
            .attempt_number()
            .checked_add(1)
            .ok_or_else(|| Error::corrupt("an operation has more than 4 billion attempts"))?;
        if let Some(mut before) = record.current.take() {
            before.ended.get_or_insert((context.now, Ending::Lapsed));
            record.earlier_lease_until = record.earlier_lease_until.max(before.lease_until);
            if record.earlier.len() >= HISTORY_MAX {
                record.earlier.remove(0);
            }
            record.earlier.push(before);
        }
        record.effect = match record.state {
            State::Received => self.effect,
            _ => record.effect.weakest(self.effect),
        };
        record.state = State::Processing;
        record.parked = None;
        record.fingerprint.get_or_insert(*self.fingerprints.first());
        record.first_grant_at.get_or_insert(context.now);
        if record.traceparent.is_none() {
            record.traceparent.clone_from(&self.traceparent);
        }
        let (owner, lease_until) = (self.owner.clone(), context.now.plus_millis(self.lease.as_millis()));
        record.current =
            Some(Attempt::new(number, self.attempt, owner, mode, fence, context.now, lease_until));
        let grant = Grant::of(&record, context.now, false).ok_or_else(no_attempt)?;
        put(Claimed::Granted(Box::new(grant)), record, context)
    }
}

/// A new record; over an identity that expired in place it keeps fence and version (A\*, G-41).
fn fresh(id: &OperationId, stored: Option<&Record>, context: &Context) -> Record {
    let mut record = Record::new(id.clone(), context.now);
    if let Some(stored) = stored {
        record.fence_floor = stored.fence();
        record.version = stored.version;
    }
    record
}

/// G-14: greater than every earlier fence, and at least the milliseconds.
fn next_fence(previous: Fence, context: &Context) -> Result<Fence> {
    let fence = previous.get().saturating_add(1).max(context.now.as_millis());
    if fence >= Timestamp::MAX.as_millis() {
        return Err(Error::internal("the clock or a stored fence is at 2^53: correct the clock (G-14)"));
    }
    Ok(Fence::new(fence))
}

/// Makes the record Uncertain and notes it on the attempt, whose holder may still complete (G-23).
pub(super) fn set_parked(record: &mut Record, parking: Parking) -> Result<()> {
    let current = record.current.as_mut().ok_or_else(no_attempt)?;
    current.ended = Some((parking.since, Ending::Parked));
    record.state = State::Uncertain;
    record.parked = Some(Box::new(parking));
    Ok(())
}

fn in_progress(record: &Record, context: &Context) -> Claimed {
    let takeable = record
        .current
        .as_ref()
        .map_or(context.now, |attempt| attempt.lease_until.plus_millis(context.guard_ms));
    Claimed::InProgress {
        retry_after_ms: takeable.millis_since(context.now).max(1),
        attempt_number: record.attempt_number(),
        version: record.version,
    }
}

fn replay(record: &Record) -> Result<Claimed> {
    let (outcome, completed_at) =
        record.outcome.as_deref().zip(record.completed_at).ok_or_else(no_outcome)?;
    let replay = Replay::new(outcome.clone(), completed_at, record.attempt_number(), record.fence());
    Ok(Claimed::Replay(Box::new(replay)))
}

fn expired(record: &Record) -> Result<Claimed> {
    let (outcome, completed_at) =
        record.outcome.as_deref().zip(record.completed_at).ok_or_else(no_outcome)?;
    Ok(Claimed::Expired(Box::new(Expired::of(outcome, completed_at))))
}

pub(super) fn no_attempt() -> Error {
    Error::corrupt("a stored record in progress has no attempt")
}

pub(super) fn no_outcome() -> Error {
    Error::corrupt("a stored record that is completed has no outcome")
}
