//! "An explainable answer for every caller": what has to be true for each answer, told from what happened in the
//! world and not from how the answer was found.

use std::fmt::Debug;

use idem_core::answer::{Completed, Parked, Released, Renewed, Resolved};
use idem_core::record::Record;
use idem_core::{Claimed, Mode, OutcomeKind, State};

use crate::world::{Ask, Attempt, Kind, Verdict, World};

/// The words for an answer to a claim, by which a search tells what it saw.
pub(crate) fn word(before: &World, answer: &Claimed) -> &'static str {
    match (answer, before.state()) {
        (Claimed::Granted(grant), _) if grant.again => "granted again",
        (Claimed::Granted(_), None) => "granted first",
        (Claimed::Granted(grant), Some(State::Received)) => {
            match grant.earlier.last().map(|last| last.mode) {
                Some(Mode::Recover) => "granted after recovery",
                _ => "granted after a release",
            }
        }
        (Claimed::Granted(grant), Some(State::Processing)) => match grant.mode {
            Mode::Recover => "granted to recover over a lapse",
            _ => "granted to run over a lapse",
        },
        (Claimed::Granted(_), _) => "granted to recover what was uncertain",
        (Claimed::Uncertain { .. }, Some(State::Processing)) => "parked over a lapse",
        (Claimed::Uncertain { .. }, _) => "uncertain",
        (Claimed::InProgress { .. }, _) => "in progress",
        (Claimed::Replay(_), _) => "replay",
        (Claimed::Ended, _) => "ended",
        (Claimed::Nothing, _) => "nothing",
        _ => "other",
    }
}

fn only_if(explained: bool, answer: &impl Debug) -> Result<(), String> {
    if explained { Ok(()) } else { Err(format!("not to be explained: {answer:?}")) }
}

pub(crate) fn claimed(
    before: &World,
    after: Option<&Record>,
    attempt: &Attempt,
    answer: &Claimed,
) -> Result<(), String> {
    let own = before.is_current(attempt.id);
    let was_granted = attempt.fence > 0;
    let state = before.state();
    let running = state == Some(State::Processing);
    let explained = match answer {
        Claimed::Granted(grant) if grant.again => {
            own && running && before.record.as_ref() == after && grant.fence.get() == attempt.fence
        }
        Claimed::Granted(grant) => {
            let started_anew = matches!(state, None | Some(State::Received));
            let may = match grant.mode {
                Mode::Execute => started_anew || (running && attempt.kind == Kind::Local),
                _ => running || state == Some(State::Uncertain),
            };
            // An id is granted at most once, with a fence of its own (G-12, G-14).
            let older = before.attempts.iter().all(|other| other.fence < grant.fence.get());
            !own && !was_granted && may && older
        }
        Claimed::InProgress { .. } => running && !own,
        Claimed::Replay(replay) => {
            state == Some(State::Completed)
                && before.effects == 1
                && replay.outcome.kind == OutcomeKind::Success
        }
        Claimed::Uncertain { .. } => after.is_some_and(|record| record.state == State::Uncertain),
        Claimed::Ended => was_granted && !(own && running),
        Claimed::Nothing => {
            let local = before.attempts.iter().chain([attempt]).any(|other| other.kind == Kind::Local);
            attempt.ask == Ask::Recover
                && (matches!(state, None | Some(State::Received)) || (running && local))
        }
        // All ask for the same, and nothing is forgotten.
        _ => false,
    };
    only_if(explained, answer)
}

/// A held write was heard although it is not the holder's, or not although it is.
fn fenced(before: &World, attempt: &Attempt) -> bool {
    !before.is_current(attempt.id) || before.state() == Some(State::Received)
}

fn is(before: &World, attempt: &Attempt, state: State) -> bool {
    before.is_current(attempt.id) && before.state() == Some(state)
}

pub(crate) fn renewed(before: &World, attempt: &Attempt, answer: &Renewed) -> Result<(), String> {
    let explained = match answer {
        Renewed::Renewed { remaining_ms } => is(before, attempt, State::Processing) && *remaining_ms > 0,
        Renewed::Settled => is(before, attempt, State::Completed),
        Renewed::Parked => is(before, attempt, State::Uncertain),
        Renewed::Fenced(_) => fenced(before, attempt),
        _ => false,
    };
    only_if(explained, answer)
}

pub(crate) fn completed(
    before: &World,
    effects: u8,
    attempt: &Attempt,
    answer: &Completed,
) -> Result<(), String> {
    let explained = match answer {
        Completed::Completed { .. } => {
            let open = is(before, attempt, State::Processing) || is(before, attempt, State::Uncertain);
            open && effects == 1
        }
        Completed::AlreadyCompleted => is(before, attempt, State::Completed) && effects == 1,
        Completed::Fenced(_) => fenced(before, attempt),
        // There is one outcome of the one effect.
        _ => false,
    };
    only_if(explained, answer)
}

pub(crate) fn released(before: &World, attempt: &Attempt, answer: &Released) -> Result<(), String> {
    let explained = match answer {
        Released::Released { forgotten } => is(before, attempt, State::Processing) && !forgotten,
        Released::AlreadyReleased => is(before, attempt, State::Received),
        Released::Settled => is(before, attempt, State::Completed),
        Released::Parked => is(before, attempt, State::Uncertain),
        Released::Fenced(_) => !before.is_current(attempt.id),
        // An honest recoverer has waited for as long as the store wants it to.
        _ => false,
    };
    only_if(explained, answer)
}

pub(crate) fn parked(before: &World, attempt: &Attempt, answer: &Parked) -> Result<(), String> {
    let explained = match answer {
        Parked::Parked { .. } => is(before, attempt, State::Processing),
        Parked::AlreadyParked => is(before, attempt, State::Uncertain),
        Parked::Settled => is(before, attempt, State::Completed),
        Parked::Fenced(_) => fenced(before, attempt),
        _ => false,
    };
    only_if(explained, answer)
}

pub(crate) fn resolved(before: &World, verdict: Verdict, answer: &Resolved) -> Result<(), String> {
    let uncertain = before.state() == Some(State::Uncertain);
    let seen = before.record.as_ref().map(|record| (record.fence().get(), record.version));
    let unchanged = seen == Some((verdict.fence, verdict.version));
    let explained = match answer {
        Resolved::Resolved { .. } => uncertain && unchanged,
        Resolved::Stale { .. } => uncertain && !unchanged,
        Resolved::NotUncertain { .. } => !uncertain,
        // An honest operator has waited for as long as the store wants it to.
        _ => false,
    };
    only_if(explained, answer)
}
