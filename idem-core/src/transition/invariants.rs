//! What holds across every transition, whatever the request (the end of section 11).
//!
//! The conformance suite, the lockstep test and the exhaustive exploration call [`check`] after each step. It looks
//! only at the two records and the instant, so that it also holds a store to the rules whose code is not these
//! functions.

use super::Context;
use crate::outcome::{Content, Omission, StoredOutcome};
use crate::record::{Attempt, EffectClass, Ending, Mode, Record, State, View};

/// Checks one step from `before` to `after`.
///
/// # Errors
///
/// A sentence naming the invariant that is broken.
pub fn check(before: Option<&Record>, after: Option<&Record>, context: &Context) -> Result<(), String> {
    let Some(after) = after else { return check_removal(before, context) };
    after.check().map_err(|error| format!("the new record cannot be: {error}"))?;
    let Some(before) = before else { return check_beginning(after) };
    if before == after {
        return Ok(());
    }
    ensure(after.fence() >= before.fence(), || {
        format!("the fence fell from {} to {} (G-14)", before.fence(), after.fence())
    })?;
    ensure(after.version > before.version, || {
        format!("the version went from {} to {}", before.version, after.version)
    })?;
    let view = context.view(Some(before));
    if view == View::Absent && after.state != State::Completed {
        return check_beginning(after).and_then(|()| {
            ensure(holder(after).is_none_or(|new| new.fence > before.fence()), || not_raised(before))
        });
    }
    check_intent(before, after)?;
    match (before.state, after.state) {
        (State::Completed, State::Completed) => return check_settled(before, after),
        (State::Completed, _) => {
            return Err("a completed operation was left before its identity expired (G-41)".to_owned());
        }
        (State::Received, State::Received | State::Processing)
        | (State::Processing, _)
        | (State::Uncertain, State::Received | State::Processing | State::Completed) => {}
        (from, to) => return Err(format!("{from:?} became {to:?}")),
    }
    match (holder(before), holder(after)) {
        // Without an attempt after it, `after.check()` has left only R.
        (None, None) => Ok(()),
        (Some(_), None) => Err("the latest attempt was lost (G-18)".to_owned()),
        (Some(old), Some(new)) if old.fence == new.fence => check_same_attempt(before, after, old, new),
        (_, Some(new)) => check_grant(before, after, new, view),
    }
}

fn ensure(holds: bool, broken: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(broken()) }
}

const fn holder(record: &Record) -> Option<&Attempt> {
    record.current.as_ref()
}

fn not_raised(before: &Record) -> String {
    format!("a grant did not raise the fence above {} (G-14)", before.fence())
}

/// What was asked for stays what was asked for, until it may be forgotten (G-05, G-24, G-31).
fn check_intent(before: &Record, after: &Record) -> Result<(), String> {
    ensure(
        before.fingerprint.is_none()
            || after.fingerprint.is_none()
            || before.fingerprint == after.fingerprint,
        || "the fingerprint changed (G-05)".to_owned(),
    )?;
    let forgets = before.fingerprint.is_some() && after.fingerprint.is_none();
    let may_forget = before.state == State::Processing
        && holder(before).is_some_and(|old| old.mode == Mode::Execute)
        && !before.registered
        && before.checkpoints.is_empty();
    ensure(!forgets || may_forget, || "a fingerprint was forgotten that has to be kept (G-31)".to_owned())?;
    // What was asked for with it is set with the fingerprint, and goes with the content of a finished operation.
    let payload_may_go = before.state == State::Completed && after.payload.is_none();
    ensure(before.payload == after.payload || before.fingerprint.is_none() || payload_may_go, || {
        "the payload changed (G-24)".to_owned()
    })?;
    ensure(keeps_facts(before, after), || "a checkpoint was lost or changed (G-21)".to_owned())?;
    ensure(after.registered >= before.registered, || "a registration was forgotten (G-24)".to_owned())?;
    ensure(before.first_grant_at.is_none() || after.first_grant_at == before.first_grant_at, || {
        "the time of the first grant changed".to_owned()
    })?;
    ensure(after.earlier_lease_until >= before.earlier_lease_until, || {
        "the last lease deadline of earlier attempts fell (G-19)".to_owned()
    })
}

/// Checkpoints are only added to; a finished operation may lose their values.
fn keeps_facts(before: &Record, after: &Record) -> bool {
    let values_may_go = before.state == State::Completed;
    before.checkpoints.len() <= after.checkpoints.len()
        && before.checkpoints.iter().zip(&after.checkpoints).all(|(old, new)| {
            (old.attempt_number, &old.name, old.at) == (new.attempt_number, &new.name, new.at)
                && (old.value == new.value || (values_may_go && new.value.is_empty()))
        })
}

/// C to C: content may go, and the digest and reference with it; nothing else moves (G-30, G-41, G-44).
fn check_settled(before: &Record, after: &Record) -> Result<(), String> {
    let fixed = |record: &Record| {
        let outcome = record.outcome.as_deref();
        let kind = outcome.map(|outcome| (outcome.kind, outcome.class.clone(), outcome.cut));
        (kind, record.completed_at, record.response_until, record.identity_until)
    };
    ensure(fixed(before) == fixed(after), || "a completed operation changed (G-16)".to_owned())?;
    ensure((&before.current, &before.earlier) == (&after.current, &after.earlier), || {
        "the attempts of a completed operation changed (G-16)".to_owned()
    })?;
    let only_shrank = |(old, new): (&StoredOutcome, &StoredOutcome)| {
        let content = match &new.content {
            Content::Kept { .. } => new.content == old.content,
            Content::Omitted { why, .. } => matches!(why, Omission::Expired | Omission::Erased),
        };
        content
            && (new.digest.is_none() || new.digest == old.digest)
            && (new.reference.is_none() || new.reference == old.reference)
    };
    let outcomes = before.outcome.as_deref().zip(after.outcome.as_deref());
    ensure(outcomes.is_some_and(only_shrank), || {
        "the outcome of a completed operation changed (G-16)".to_owned()
    })
}

/// The same attempt before and after: a held write, a park or a verdict.
fn check_same_attempt(before: &Record, after: &Record, old: &Attempt, new: &Attempt) -> Result<(), String> {
    ensure((old.id, old.number, old.mode) == (new.id, new.number, new.mode), || {
        "an attempt changed without a grant (G-12)".to_owned()
    })?;
    ensure(new.lease_until >= old.lease_until, || "a lease was shortened (G-13)".to_owned())?;
    ensure(before.earlier == after.earlier, || "the history changed without a grant (G-18)".to_owned())?;
    ensure(before.effect == after.effect, || "the effect class changed without a grant (G-19)".to_owned())?;
    ensure((before.state == State::Processing) || after.state != State::Processing, || {
        format!("{:?} became Processing without a grant (G-14)", before.state)
    })?;
    let released = before.state == State::Processing && after.state == State::Received;
    ensure(!released || new.mode == Mode::Execute || new.absence.is_some(), || {
        "a recovery was released without a reason (G-19)".to_owned()
    })
}

/// A grant over `before`, which was not absent.
fn check_grant(before: &Record, after: &Record, new: &Attempt, view: View) -> Result<(), String> {
    ensure(new.fence > before.fence(), || not_raised(before))?;
    ensure(after.state == State::Processing, || format!("a grant left the operation {:?}", after.state))?;
    ensure(new.number == before.attempt_number() + 1, || {
        format!("attempt {} follows attempt {}", new.number, before.attempt_number())
    })?;
    let old = holder(before);
    ensure(old.into_iter().chain(&before.earlier).all(|attempt| attempt.id != new.id), || {
        "the id of an ended attempt was granted again (G-12)".to_owned()
    })?;
    ensure(old.map(|old| old.id) == after.earlier.last().map(|last| last.id), || {
        "a grant did not keep the attempt before it (G-18)".to_owned()
    })?;
    ensure(after.earlier_lease_until >= before.last_lease_until(), || {
        "a grant did not keep the lease deadline before it (G-19)".to_owned()
    })?;
    let weakened = before.effect.weakest(after.effect) == after.effect;
    ensure(view == View::Received || weakened, || {
        format!("{:?} became {:?} over what may have happened (G-19)", before.effect, after.effect)
    })?;
    let ending = old.and_then(|old| old.ended).map(|(_, ending)| ending);
    let may = match (new.mode, view) {
        (Mode::Recover, View::Lapsed | View::Uncertain) => true,
        (Mode::Execute, View::Received) => {
            old.is_none() || matches!(ending, Some(Ending::Released | Ending::Resolved))
        }
        (Mode::Execute, View::Lapsed) => {
            (before.effect, after.effect) == (EffectClass::Local, EffectClass::Local)
                && old.is_some_and(|old| old.mode == Mode::Execute)
        }
        _ => false,
    };
    ensure(may, || format!("mode {:?} was granted over {view} (G-18)", new.mode))
}

/// A record where none was, or where one had expired: registered, or granted as attempt 1 to run.
fn check_beginning(after: &Record) -> Result<(), String> {
    let begun = match (after.state, holder(after)) {
        (State::Received, None) => after.registered,
        (State::Processing, Some(first)) => {
            first.number == 1 && first.mode == Mode::Execute && !after.registered
        }
        _ => false,
    };
    ensure(begun && after.earlier.is_empty(), || {
        format!("an operation began as {:?} with {} attempts (G-41)", after.state, after.attempt_number())
    })
}

fn check_removal(before: Option<&Record>, context: &Context) -> Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    let due = before.purge_at(context.step_ms).is_some_and(|at| context.now >= at);
    ensure(due, || "a record was removed before it may be (G-14, G-42)".to_owned())
}
