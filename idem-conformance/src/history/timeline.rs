//! A history as a text that can be read.

use std::time::Duration;

use super::{Answer, Call, Event, of_key};
use crate::report::{Moment, Timeline};

/// The events of one operation, and which of them could be placed in which order.
pub(crate) fn timeline(history: &[Event], key: usize, longest: &[usize]) -> Timeline {
    let events = of_key(history, key);
    let start = events.first().map_or(Duration::ZERO, |event| event.from);
    let nanos = |at: Duration| u64::try_from(at.saturating_sub(start).as_nanos()).unwrap_or(u64::MAX);
    let moment = |(index, event): (usize, &Event)| {
        let mut moment = Moment::new(event.client, nanos(event.from), nanos(event.until), asked(event.call));
        moment.answer = event.answer.map(shown);
        moment.order = longest.iter().position(|placed| *placed == index).map(|place| place + 1);
        moment
    };
    Timeline::new(events.iter().enumerate().map(moment).collect())
}

fn asked(call: Call) -> String {
    match call {
        Call::Claim { attempt } => format!("claim a{attempt}"),
        Call::Complete { attempt, body } => format!("complete a{attempt} with b{body}"),
        Call::Release { attempt } => format!("release a{attempt}"),
        Call::Read => "read".to_owned(),
    }
}

fn shown(answer: Answer) -> String {
    match answer {
        Answer::Granted { fence } => format!("granted, fence {fence}"),
        Answer::Replay { body } => format!("replay b{body}"),
        Answer::Running { attempt } => format!("running a{attempt}"),
        Answer::Done { attempt, body } => format!("done by a{attempt} with b{body}"),
        other => format!("{other:?}").to_lowercase(),
    }
}
