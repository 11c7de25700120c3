//! Many callers at once.

use std::time::Duration;

use idem_core::answer::{Claimed, Completed};
use idem_core::clock::{Clock, SystemClock};
use idem_core::request::{Claim, Complete, Intent};
use idem_core::{AttemptId, Record, Result, State, StoredOutcome, View};

use crate::bent::{Bend, Handle, Waking, lock};

/// Long enough for another thread to come in between, every time that one is there.
fn gap() {
    let started = SystemClock.elapsed();
    while SystemClock.elapsed().saturating_sub(started) < Duration::from_micros(40) {
        std::hint::spin_loop();
    }
}

/// Looks, and then writes whatever has come in between, where there was nothing.
fn check_then_insert(at: &Handle, request: &Claim) -> Result<Claimed> {
    if at.stored(&request.id).is_some() {
        return at.apply(request);
    }
    let step = at.look(request)?;
    gap();
    at.write(&mut lock(&at.shared.records), &request.id, step.write);
    Ok(step.answer)
}

#[derive(Debug)]
pub(crate) struct CheckThenInsert;

impl Bend for CheckThenInsert {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        check_then_insert(at, request)
    }
}

/// The same under a lock that every handle has for itself.
#[derive(Debug)]
pub(crate) struct LockByHandle;

impl Bend for LockByHandle {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let _lock = lock(&at.own_lock);
        check_then_insert(at, request)
    }
}

/// Looks at an expired row, then updates it, and does not notice that a purge took it in between.
#[derive(Debug)]
pub(crate) struct CheckThenUpdate;

impl Bend for CheckThenUpdate {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let stored = at.stored(&request.id);
        if stored.is_none() || at.context().view(stored.as_ref()) != View::Absent {
            return at.apply(request);
        }
        let step = at.look(request)?;
        gap();
        let mut records = lock(&at.shared.records);
        if records.contains_key(&request.id) {
            at.write(&mut records, &request.id, step.write);
        }
        Ok(step.answer)
    }
}

/// Waiters listen without looking first.
#[derive(Debug)]
pub(crate) struct LostWakeUp;

impl Bend for LostWakeUp {
    fn waking(&self) -> Waking {
        Waking::Deaf
    }
}

/// Waiters are woken all the time.
#[derive(Debug)]
pub(crate) struct Stampede;

impl Bend for Stampede {
    fn waking(&self) -> Waking {
        Waking::Restless
    }
}

/// Does not recognise a claim that is repeated.
#[derive(Debug)]
pub(crate) struct AttemptBlind;

impl Bend for AttemptBlind {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let stored = at.stored(&request.id).filter(|record| record.state == State::Processing);
        let own =
            stored.and_then(|record| record.current).is_some_and(|current| current.id == request.attempt);
        if own {
            return at.apply(&request.clone().attempt(AttemptId::random()));
        }
        at.apply(request)
    }
}

/// The last completion wins.
#[derive(Debug)]
pub(crate) struct LastCompleteWins;

impl Bend for LastCompleteWins {
    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        let answer = at.apply(request)?;
        if !matches!(answer, Completed::AlreadyCompleted | Completed::OutcomeConflict) {
            return Ok(answer);
        }
        at.edit(&request.held.id, |record| {
            record.outcome = Some(Box::new(StoredOutcome::of(&request.outcome, request.digest, None)));
            record.version += 1;
        });
        Ok(Completed::Completed { at: at.context().now, body_omitted: false })
    }
}

/// Outcomes go through one place that all callers share.
#[derive(Debug)]
pub(crate) struct SharedScratch;

impl Bend for SharedScratch {
    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        lock(&at.shared.notes).outcome = Some(request.outcome.clone());
        gap();
        let mut request = request.clone();
        if let Some(outcome) = lock(&at.shared.notes).outcome.clone() {
            request.outcome = outcome;
        }
        at.apply(&request)
    }
}

/// Writes a row without holder first, and the holder in a second step that may never come.
#[derive(Debug)]
pub(crate) struct HalfState;

impl Bend for HalfState {
    fn yields(&self) -> u32 {
        1
    }

    fn before_claim(&self, at: &Handle, request: &Claim) {
        if !matches!(request.intent, Intent::Run(_)) {
            return;
        }
        let mut records = lock(&at.shared.records);
        records.entry(request.id.clone()).or_insert_with(|| {
            let mut row = Record::new(request.id.clone(), at.context().now);
            row.fingerprint = Some(*request.fingerprints.first());
            row
        });
    }
}

/// Remembers that an operation was in progress, and says so once more without looking.
#[derive(Debug)]
pub(crate) struct AnswersFromCache;

impl Bend for AnswersFromCache {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let stored = at.stored(&request.id);
        let strange = stored.as_ref().is_some_and(|record| {
            request.fingerprints.agree_with(record.fingerprint.as_ref())
                && record.current.as_ref().is_some_and(|current| current.id != request.attempt)
        });
        if strange && let Some(version) = lock(&at.shared.notes).ids.remove(&request.id) {
            return Ok(Claimed::InProgress { retry_after_ms: 1_000, attempt_number: 1, version });
        }
        let answer = at.apply(request)?;
        if let Claimed::InProgress { version, .. } = answer {
            lock(&at.shared.notes).ids.insert(request.id.clone(), version);
        }
        Ok(answer)
    }
}

/// Acknowledges every 24th completion and does not store it.
#[derive(Debug)]
pub(crate) struct LosesCompletions;

impl Bend for LosesCompletions {
    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        let answer = at.look(request)?.answer;
        if matches!(answer, Completed::Completed { .. }) {
            let mut notes = lock(&at.shared.notes);
            notes.count += 1;
            if notes.count.is_multiple_of(24) {
                return Ok(answer);
            }
        }
        at.apply(request)
    }
}
