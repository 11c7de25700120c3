//! Recorded histories, and whether they can be explained by one record at a time.
//!
//! Every event is a call with the instants before and after it. A history is linearizable if each call can be given one
//! instant in between at which it took effect, such that all answers are those of [`spec`]. Operations do not touch each
//! other, so each is checked alone.

mod checker;
mod invariants;
mod record;
#[cfg(test)]
mod simulated;
mod spec;
#[cfg(test)]
mod tests;
mod timeline;

use std::time::Duration;

pub(crate) use checker::{Checked, check};
pub(crate) use invariants::broken;
pub(crate) use record::{Plan, record};
pub(crate) use timeline::timeline;

/// What a client asked. Attempts and bodies are numbers that are used once in a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Claim { attempt: u64 },
    Complete { attempt: u64, body: u64 },
    Release { attempt: u64 },
    Read,
}

/// What it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Granted {
        fence: u64,
    },
    Busy,
    Replay {
        body: u64,
    },
    Ended,
    Completed,
    AlreadyCompleted,
    OutcomeConflict,
    Released,
    AlreadyReleased,
    Settled,
    Fenced,
    Absent,
    Received,
    Running {
        attempt: u64,
    },
    Done {
        attempt: u64,
        body: u64,
    },
    /// Something that no call of a history can be answered.
    Impossible,
}

/// One call of one client on one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) client: usize,
    pub(crate) key: usize,
    pub(crate) call: Call,
    /// `None`: the client never learnt it, and the call may take effect at any later time, or never.
    pub(crate) answer: Option<Answer>,
    pub(crate) from: Duration,
    pub(crate) until: Duration,
}

/// The events of one operation, in the order in which they began.
pub(crate) fn of_key(history: &[Event], key: usize) -> Vec<Event> {
    let mut events: Vec<_> = history.iter().filter(|event| event.key == key).copied().collect();
    events.sort_by_key(|event| (event.from, event.until));
    events
}

/// How many events ran at the same time as an event of another client.
pub(crate) fn overlaps(history: &[Event]) -> usize {
    let mut events: Vec<_> = history.iter().collect();
    events.sort_by_key(|event| event.from);
    let mut latest: Option<&Event> = None;
    let mut count = 0;
    for event in events {
        if latest.is_some_and(|latest| latest.client != event.client && event.from < latest.until) {
            count += 1;
        }
        if latest.is_none_or(|latest| latest.until < event.until) {
            latest = Some(event);
        }
    }
    count
}
