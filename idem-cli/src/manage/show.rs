//! `idem show`: everything about one operation, and what to do.

use std::fmt::Write as _;

use idem_core::clock::{Clock, SystemClock};
use idem_core::record::{Attempt, ParkCause, Record, View};
use idem_core::{Content, Error, OutcomeKind, StoredOutcome, Timestamp};

use super::find::find;
use super::view::{self, RecordJson};
use super::{Desk, Failed, print};
use crate::args::ShowArgs;
use crate::hint::Hints;
use crate::outcome;

pub(super) async fn show(desk: &Desk, args: &ShowArgs) -> Result<(), Failed> {
    let store = &*desk.store;
    let record = find(store, &args.id).await?;
    // This host's clock, as the store does not tell its own with a record; only the words depend on it.
    let view = record.view(SystemClock.now(), store.capabilities().guard_ms);
    if args.json.json {
        let json = serde_json::to_string(&RecordJson::of(&record, view));
        let json = json.map_err(|error| Error::internal(format!("a record has no JSON form: {error}")))?;
        return print(&format!("{json}\n"));
    }
    print(&told(&record, view, &desk.hints))
}

/// The record in words, one fact a line.
fn told(record: &Record, view: View, hints: &Hints) -> String {
    let mut text = String::new();
    let mut fact = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<12}{value}");
    };
    fact("operation", record.id.operation());
    fact("tenant", record.id.tenant());
    fact("key", record.id.key());
    fact("state", &state(record, view));
    if let Some(parked) = &record.parked {
        let note = parked.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
        let why = match parked.cause {
            ParkCause::Lapse => " when it met the lapsed lease",
            ParkCause::AttemptsExhausted => " because there may be no further attempt",
            _ => "",
        };
        fact("parked", &format!("by {}{why}{note}", parked.by));
    }
    for attempt in record.earlier.iter().chain(&record.current) {
        fact(&format!("attempt {}", attempt.number), &attempt_told(attempt));
    }
    for checkpoint in &record.checkpoints {
        let number = checkpoint.attempt_number;
        let (name, bytes) = (&checkpoint.name, checkpoint.value.len());
        fact("checkpoint", &format!("{name} by attempt {number} at {}, {bytes} bytes", checkpoint.at));
    }
    if let Some(stored) = &record.outcome {
        fact("outcome", &outcome_told(stored));
        if let Some(reference) = &stored.reference {
            fact("reference", reference);
        }
    }
    let kept_until = |at: Option<Timestamp>| at.map_or("for good".to_owned(), |at| format!("until {at}"));
    if record.completed_at.is_some() {
        let (response, identity) = (kept_until(record.response_until), kept_until(record.identity_until));
        fact("kept", &format!("output {response}, key {identity}"));
    }
    if let Some(payload) = &record.payload {
        fact("payload", &format!("{} bytes", payload.len()));
    }
    if let Some(resolution) = &record.resolution {
        let happened = if resolution.happened { "it happened" } else { "it did not happen" };
        let (at, actor, reason) = (resolution.at, &resolution.actor, &resolution.reason);
        fact("resolved", &format!("at {at} by {actor}: {happened} ({reason})"));
    }
    fact("downstream", &record.id.downstream_key().to_string());
    fact("fence", &format!("{}, version {}", record.fence(), record.version));
    match view {
        View::Lapsed => fact("next", "the holder is gone or slow: the next call takes over, or parks it"),
        View::Uncertain => {
            fact("next", "find out whether it happened, and tell it with one of");
            for line in hints.verdicts(&record.id) {
                fact("", &line);
            }
        }
        _ => {}
    }
    text
}

fn state(record: &Record, view: View) -> String {
    let lease = record.current.as_ref().map(|attempt| attempt.lease_until);
    let since = match view {
        View::Running => lease.map(|at| format!(", lease until {at}")),
        View::Lapsed => lease.map(|at| format!(" since {at}")),
        View::Uncertain => record.parked.as_ref().map(|parked| format!(" since {}", parked.since)),
        View::Completed => record.completed_at.map(|at| format!(" at {at}")),
        View::Expired => record.completed_at.map(|at| format!(", completed at {at}")),
        View::Received => Some(format!(" since {}", record.updated_at)),
        _ => None,
    };
    format!("{view}{}", since.unwrap_or_default())
}

fn attempt_told(attempt: &Attempt) -> String {
    let mut text = format!(
        "{} by {}, started {}, lease until {}",
        view::mode(attempt.mode),
        attempt.owner,
        attempt.started_at,
        attempt.lease_until
    );
    if let Some((at, how)) = attempt.ended {
        let _ = write!(text, ", {} {at}", view::ending(how));
    }
    text
}

fn outcome_told(stored: &StoredOutcome) -> String {
    let class = match (stored.kind, &stored.class) {
        (OutcomeKind::Success, _) => "success".to_owned(),
        (_, Some(class)) => format!("failure of class {class}"),
        (_, None) => "failure".to_owned(),
    };
    match (outcome::output(stored), &stored.content) {
        (Some(output), _) => format!(
            "{class}, exit status {}, stdout {} bytes, stderr {} bytes",
            output.exit,
            output.stdout.len(),
            output.stderr.len()
        ),
        (None, Content::Omitted { content_bytes, why }) => {
            format!("{class}, {content_bytes} bytes not kept ({})", view::omission(*why))
        }
        (None, _) => class,
    }
}
