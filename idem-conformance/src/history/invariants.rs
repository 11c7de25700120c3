//! What must hold in every history, checked in one pass: for histories that are too long for the search.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Answer, Call, Event, of_key};

/// The first invariant that the events of one operation break, in words; `None` when all hold.
///
/// - A fence belongs to one attempt, and an attempt to one fence.
/// - A grant that was asked for after another one had been answered has a higher fence (or is its repetition).
/// - All replays and reads of the outcome are the same.
/// - What was asked after the outcome had been seen is answered with the outcome.
pub(crate) fn broken(history: &[Event], key: usize) -> Option<String> {
    let events = of_key(history, key);
    fences(&events).or_else(|| outcomes(&events))
}

fn fences(events: &[Event]) -> Option<String> {
    let mut by_fence: BTreeMap<u64, u64> = BTreeMap::new();
    let mut by_attempt: BTreeMap<u64, u64> = BTreeMap::new();
    let mut grants = Vec::new();
    for event in events {
        let (Call::Claim { attempt }, Some(Answer::Granted { fence })) = (event.call, event.answer) else {
            continue;
        };
        if *by_fence.entry(fence).or_insert(attempt) != attempt {
            return Some(format!("fence {fence} was granted to two attempts"));
        }
        if *by_attempt.entry(attempt).or_insert(fence) != fence {
            return Some(format!("attempt a{attempt} was granted with two fences"));
        }
        grants.push((event.from, event.until, fence));
    }
    grants.sort_by_key(|(from, _, _)| *from);
    let mut ends = grants.clone();
    ends.sort_by_key(|(_, until, _)| *until);
    let mut answered = ends.into_iter().peekable();
    let mut highest = 0;
    for (from, _, fence) in grants {
        while let Some((_, _, earlier)) = answered.next_if(|(_, until, _)| *until < from) {
            highest = highest.max(earlier);
        }
        if fence < highest {
            return Some(format!("fence {fence} was granted after fence {highest} had been"));
        }
    }
    None
}

fn outcomes(events: &[Event]) -> Option<String> {
    let mut outcome: Option<u64> = None;
    let mut known_since: Option<Duration> = None;
    for event in events {
        let body = match (event.call, event.answer) {
            (_, Some(Answer::Replay { body } | Answer::Done { body, .. })) => body,
            (Call::Complete { body, .. }, Some(Answer::Completed | Answer::AlreadyCompleted)) => body,
            _ => continue,
        };
        if *outcome.get_or_insert(body) != body {
            return Some(format!("two outcomes were seen: b{body} and b{}", outcome.unwrap_or_default()));
        }
        known_since = Some(known_since.map_or(event.until, |since| since.min(event.until)));
    }
    let known_since = known_since?;
    let late = events.iter().filter(|event| event.from > known_since).find(|event| {
        let unfinished = matches!(
            event.answer,
            Some(
                Answer::Granted { .. }
                    | Answer::Busy
                    | Answer::Ended
                    | Answer::Completed
                    | Answer::Released
                    | Answer::AlreadyReleased
                    | Answer::Absent
                    | Answer::Received
                    | Answer::Running { .. }
            )
        );
        unfinished
    })?;
    Some(format!("after the outcome had been seen, {:?} was answered {:?}", late.call, late.answer))
}
