//! What holds across every transition, whatever the request (the end of section 11).
//!
//! The conformance suite, the lockstep test and the exhaustive exploration call [`check`] after each step.

use super::Context;
use crate::record::{Attempt, Ending, Mode, Record, State, View};

/// Checks one step from `before` to `after`.
///
/// # Errors
///
/// A sentence naming the invariant that is broken.
pub fn check(before: Option<&Record>, after: Option<&Record>, context: &Context) -> Result<(), String> {
    let Some(after) = after else { return check_removal(before, context) };
    after.check().map_err(|error| format!("the new record cannot be: {error}"))?;
    let view = context.view(before);
    let Some(before) = before else { return check_new(after) };
    if before == after {
        return Ok(());
    }
    if after.fence() < before.fence() {
        return Err(format!("the fence fell from {} to {} (G-14)", before.fence(), after.fence()));
    }
    if after.version <= before.version {
        return Err(format!("the version went from {} to {}", before.version, after.version));
    }
    if after.fingerprint != before.fingerprint
        && before.fingerprint.is_some()
        && after.fingerprint.is_some()
        && view != View::Absent
    {
        return Err("the fingerprint changed (G-05)".to_owned());
    }
    if before.state == State::Completed && after.state != State::Completed && view != View::Absent {
        return Err("a completed operation was left before its identity expired (G-41)".to_owned());
    }
    match (&before.current, &after.current) {
        (old, Some(new)) if old.as_ref().map(|old| old.fence) != Some(new.fence) => {
            check_grant(before, old.as_ref(), new, view)
        }
        (Some(old), Some(new)) if old.id != new.id => {
            Err("an attempt id changed without a grant (G-12)".to_owned())
        }
        (Some(old), Some(new)) if new.lease_until < old.lease_until => {
            Err("a lease was shortened (G-13)".to_owned())
        }
        _ => Ok(()),
    }
}

/// A grant over `before`.
fn check_grant(before: &Record, old: Option<&Attempt>, new: &Attempt, view: View) -> Result<(), String> {
    if new.fence <= before.fence() {
        return Err(format!("a grant did not raise the fence above {} (G-14)", before.fence()));
    }
    if view == View::Absent {
        return (new.number == 1 && new.mode == Mode::Execute)
            .then_some(())
            .ok_or_else(|| "a first grant is not attempt 1 in mode Execute".to_owned());
    }
    if new.number != before.attempt_number() + 1 {
        return Err(format!("attempt {} follows attempt {}", new.number, before.attempt_number()));
    }
    let seen_before = |attempt: &Attempt| attempt.id == new.id;
    if old.is_some_and(seen_before) || before.earlier.iter().any(seen_before) {
        return Err("the id of an ended attempt was granted again (G-12)".to_owned());
    }
    let ending = old.and_then(|old| old.ended).map(|(_, ending)| ending);
    match (new.mode, view) {
        (Mode::Recover, View::Lapsed | View::Uncertain) => Ok(()),
        (Mode::Recover, _) => Err(format!("mode Recover was granted over {view} (G-18)")),
        (Mode::Execute, View::Received)
            if old.is_none() || matches!(ending, Some(Ending::Released | Ending::Resolved)) =>
        {
            Ok(())
        }
        (Mode::Execute, View::Lapsed)
            if before.effect == crate::record::EffectClass::Local
                && old.is_some_and(|old| old.mode == Mode::Execute) =>
        {
            Ok(())
        }
        (Mode::Execute, _) => Err(format!("mode Execute was granted over {view} (G-18)")),
    }
}

fn check_new(after: &Record) -> Result<(), String> {
    let new =
        after.state == State::Received || (after.state == State::Processing && after.attempt_number() == 1);
    new.then_some(()).ok_or_else(|| format!("an operation began as {:?}", after.state))
}

fn check_removal(before: Option<&Record>, context: &Context) -> Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    let due = before.purge_at(context.step_ms).is_some_and(|at| context.now >= at);
    due.then_some(()).ok_or_else(|| "a record was removed before it may be (G-14, G-42)".to_owned())
}
