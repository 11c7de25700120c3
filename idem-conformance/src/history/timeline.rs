//! A violation as a text that can be read.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Answer, Call, Event, of_key};

/// The events of one operation, one a line, and which of them could be placed in which order.
pub(crate) fn timeline(history: &[Event], key: usize, longest: &[usize]) -> String {
    let events = of_key(history, key);
    let start = events.first().map_or(Duration::ZERO, |event| event.from);
    let mut text = String::from("    client    from us   until us  order  call and answer\n");
    for (index, event) in events.iter().enumerate() {
        let place = longest.iter().position(|placed| *placed == index);
        let order = place.map_or_else(|| "    -".to_owned(), |place| format!("{:>5}", place + 1));
        let micros = |at: Duration| at.saturating_sub(start).as_nanos() / 1_000;
        let answer = event.answer.map_or_else(|| "never learnt".to_owned(), shown);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "    c{:<5} {:>10} {:>10}  {order}  {} -> {answer}",
            event.client,
            micros(event.from),
            micros(event.until),
            asked(event.call)
        );
    }
    text
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
