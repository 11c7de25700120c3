//! Held writes: renew, checkpoint, complete, release, park (G-15, section 11).

use super::claim::{no_attempt, no_outcome, set_parked};
use super::{Context, Step, Transition, keep, put};
use crate::answer::{Checkpointed, Completed, Parked, Released, Renewed};
use crate::error::{Error, Result};
use crate::key::OperationId;
use crate::outcome::{Outcome, OutcomeDigest, StoredOutcome};
use crate::record::{
    AbsenceReason, Attempt, Checkpoint, Ending, Mode, ParkCause, Parking, Record, State, View,
};
use crate::request::{Complete, Held, Park, Release, Renew, SaveCheckpoint};
use crate::time::{Lease, Retention};

/// The record and its attempt, if `held` is the record's; otherwise the view to answer `Fenced` with.
fn owned<'r>(
    held: &Held,
    stored: Option<&'r Record>,
    context: &Context,
) -> std::result::Result<(&'r Record, &'r Attempt), View> {
    let view = context.view(stored);
    match stored.and_then(|record| record.current.as_ref().map(|current| (record, current))) {
        Some((record, current)) if view != View::Absent && current.id == held.attempt => {
            Ok((record, current))
        }
        _ => Err(view),
    }
}

/// Sets max(stored deadline, now + lease) (G-13); gives what remains.
fn extend(record: &mut Record, lease: Lease, context: &Context) -> Result<u64> {
    let current = record.current.as_mut().ok_or_else(no_attempt)?;
    current.lease_until = current.lease_until.max(context.now.plus_millis(lease.as_millis()));
    Ok(current.lease_until.millis_since(context.now))
}

impl Transition for Renew {
    type Answer = Renewed;

    fn id(&self) -> &OperationId {
        &self.held.id
    }

    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<Renewed>> {
        let record = match owned(&self.held, stored, context) {
            Err(view) => return keep(Renewed::Fenced(view)),
            Ok((record, _)) => record,
        };
        match record.state {
            State::Received => keep(Renewed::Fenced(View::Received)),
            State::Completed => keep(Renewed::Settled),
            State::Uncertain => keep(Renewed::Parked),
            State::Processing => {
                let mut record = record.clone();
                let remaining_ms = extend(&mut record, self.lease, context)?;
                put(Renewed::Renewed { remaining_ms }, record, context)
            }
        }
    }
}

impl Transition for SaveCheckpoint {
    type Answer = Checkpointed;

    fn id(&self) -> &OperationId {
        &self.held.id
    }

    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<Checkpointed>> {
        let (record, current) = match owned(&self.held, stored, context) {
            Err(view) => return keep(Checkpointed::Fenced(view)),
            Ok(owned) => owned,
        };
        match record.state {
            State::Received => return keep(Checkpointed::Fenced(View::Received)),
            State::Completed => return keep(Checkpointed::Settled),
            State::Uncertain => return keep(Checkpointed::Parked),
            State::Processing => {}
        }
        let same_name = |fact: &&Checkpoint| fact.attempt_number == current.number && fact.name == self.name;
        let known = record.checkpoints.iter().find(same_name);
        match known {
            Some(fact) if fact.value != self.value => return keep(Checkpointed::Differs),
            None if record.checkpoints.len() >= context.limits.checkpoints_max
                || self.value.len() > context.limits.checkpoint_bytes_max =>
            {
                return keep(Checkpointed::Full);
            }
            _ => {}
        }
        let mut next = record.clone();
        let remaining_ms = extend(&mut next, self.lease, context)?;
        if known.is_some() {
            return put(Checkpointed::Duplicate { remaining_ms }, next, context);
        }
        next.checkpoints.push(Checkpoint {
            attempt_number: current.number,
            name: self.name.clone(),
            value: self.value.clone(),
            at: context.now,
        });
        put(Checkpointed::Recorded { remaining_ms }, next, context)
    }
}

/// Makes the record Completed; gives whether the content was too large (G-33).
pub(super) fn set_completed(
    record: &mut Record,
    outcome: &Outcome,
    digest: OutcomeDigest,
    retention: Retention,
    context: &Context,
) -> bool {
    record.state = State::Completed;
    record.parked = None;
    let body_bytes_max = context.limits.body_bytes_max;
    record.outcome = Some(Box::new(StoredOutcome::within(outcome, digest, retention, body_bytes_max)));
    record.completed_at = Some(context.now);
    record.response_until = retention.response_ttl().deadline(context.now);
    record.identity_until = retention.identity_ttl().deadline(context.now);
    outcome.is_larger_than(body_bytes_max)
}

impl Transition for Complete {
    type Answer = Completed;

    fn id(&self) -> &OperationId {
        &self.held.id
    }

    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<Completed>> {
        let record = match owned(&self.held, stored, context) {
            Err(view) => return keep(Completed::Fenced(view)),
            Ok((record, _)) => record,
        };
        match record.state {
            State::Received => keep(Completed::Fenced(View::Received)),
            State::Completed => {
                let stored = record.outcome.as_ref().ok_or_else(no_outcome)?;
                if stored.digest.is_none_or(|digest| digest == self.digest) {
                    keep(Completed::AlreadyCompleted)
                } else {
                    keep(Completed::OutcomeConflict)
                }
            }
            State::Processing | State::Uncertain => {
                let mut record = record.clone();
                let body_omitted =
                    set_completed(&mut record, &self.outcome, self.digest, self.retention, context);
                end(&mut record, Ending::Completed, context)?;
                put(Completed::Completed { at: context.now, body_omitted }, record, context)
            }
        }
    }
}

fn end(record: &mut Record, ending: Ending, context: &Context) -> Result<()> {
    record.current.as_mut().ok_or_else(no_attempt)?.ended = Some((context.now, ending));
    Ok(())
}

impl Transition for Release {
    type Answer = Released;

    fn id(&self) -> &OperationId {
        &self.held.id
    }

    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<Released>> {
        let (record, current) = match owned(&self.held, stored, context) {
            Err(view) => return keep(Released::Fenced(view)),
            Ok(owned) => owned,
        };
        match record.state {
            State::Received => return keep(Released::AlreadyReleased),
            State::Completed => return keep(Released::Settled),
            State::Uncertain => return keep(Released::Parked),
            State::Processing => {}
        }
        if current.mode == Mode::Recover {
            match self.absence {
                None => {
                    return Err(Error::invalid_input(
                        "a release from recovery needs a reason why the effect may run again: give one, or park (G-19)",
                    ));
                }
                Some(AbsenceReason::Quiesced { settle_ms }) => {
                    let until = context.settled_at(record.earlier_lease_until, settle_ms);
                    if context.now < until {
                        return keep(Released::TooEarly { until });
                    }
                }
                Some(AbsenceReason::Deduplicated | AbsenceReason::FencedOff) => {}
            }
        }
        let forgotten = self.forget && nothing_could_have_happened(record, current, self.absence);
        let mut next = record.clone();
        next.state = State::Received;
        if forgotten {
            next.fingerprint = None;
        }
        end(&mut next, Ending::Released, context)?;
        if let Some(current) = &mut next.current {
            current.absence = self.absence;
        }
        put(Released::Released { forgotten }, next, context)
    }
}

/// G-31: mode Execute, never registered, no checkpoints, every attempt so far released because nothing had happened.
/// Attempts that the bounded history no longer holds count as effects, and so does a release whose reason is that the
/// downstream system deduplicates: a corrected request would be answered there with what the first one did.
fn nothing_could_have_happened(record: &Record, current: &Attempt, absence: Option<AbsenceReason>) -> bool {
    let remembered = u32::try_from(record.earlier.len()).is_ok_and(|earlier| earlier + 1 == current.number);
    let without_effect = |absence| absence != Some(AbsenceReason::Deduplicated);
    current.mode == Mode::Execute
        && !record.registered
        && record.checkpoints.is_empty()
        && remembered
        && without_effect(absence)
        && record.earlier.iter().all(|attempt| {
            matches!(attempt.ended, Some((_, Ending::Released))) && without_effect(attempt.absence)
        })
}

impl Transition for Park {
    type Answer = Parked;

    fn id(&self) -> &OperationId {
        &self.held.id
    }

    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<Parked>> {
        let (record, current) = match owned(&self.held, stored, context) {
            Err(view) => return keep(Parked::Fenced(view)),
            Ok(owned) => owned,
        };
        match record.state {
            State::Received => keep(Parked::Fenced(View::Received)),
            State::Completed => keep(Parked::Settled),
            State::Uncertain => keep(Parked::AlreadyParked),
            State::Processing => {
                let mut next = record.clone();
                let parking = Parking {
                    since: context.now,
                    by: current.owner.clone(),
                    cause: ParkCause::Holder,
                    note: self.note.clone(),
                };
                set_parked(&mut next, parking)?;
                put(Parked::Parked { since: context.now }, next, context)
            }
        }
    }
}
