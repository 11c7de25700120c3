//! How a record is shown: as JSON with stable names for programs, and in words for people.

use idem_core::record::{AbsenceReason, Attempt, EffectClass, Ending, Mode, ParkCause, Record, View};
use idem_core::{Content, Label, Omission, OutcomeKind, StoredOutcome, Timestamp};
use serde::Serialize;

use crate::outcome;

/// A record for programs. Times are milliseconds since the Unix epoch. Names are only ever added.
#[derive(Debug, Serialize)]
pub(crate) struct RecordJson<'a> {
    tenant: &'a str,
    operation: &'a str,
    key: &'a str,
    state: &'static str,
    attempt: u32,
    fence: u64,
    version: u64,
    effect: &'static str,
    registered: bool,
    payload_bytes: Option<usize>,
    downstream_key: String,
    created_ms: u64,
    updated_ms: u64,
    first_grant_ms: Option<u64>,
    completed_ms: Option<u64>,
    response_until_ms: Option<u64>,
    identity_until_ms: Option<u64>,
    attempts: Vec<AttemptJson<'a>>,
    checkpoints: Vec<CheckpointJson<'a>>,
    parked: Option<ParkedJson<'a>>,
    resolution: Option<ResolutionJson<'a>>,
    outcome: Option<OutcomeJson<'a>>,
}

#[derive(Debug, Serialize)]
struct AttemptJson<'a> {
    number: u32,
    owner: &'a str,
    mode: &'static str,
    fence: u64,
    started_ms: u64,
    lease_until_ms: u64,
    ended_ms: Option<u64>,
    ended: Option<&'static str>,
    absence: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct CheckpointJson<'a> {
    attempt: u32,
    name: &'a str,
    bytes: usize,
    at_ms: u64,
}

#[derive(Debug, Serialize)]
struct ParkedJson<'a> {
    since_ms: u64,
    by: &'a str,
    cause: &'static str,
    note: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct ResolutionJson<'a> {
    at_ms: u64,
    actor: &'a str,
    reason: &'a str,
    happened: bool,
}

#[derive(Debug, Serialize)]
struct OutcomeJson<'a> {
    kind: &'static str,
    class: Option<&'a str>,
    exit: Option<u8>,
    reference: Option<&'a str>,
    digest: Option<String>,
    stdout_bytes: Option<usize>,
    stderr_bytes: Option<usize>,
    omitted: Option<&'static str>,
    omitted_bytes: Option<u64>,
}

impl<'a> RecordJson<'a> {
    /// `record` as it is in `view`.
    pub(crate) fn of(record: &'a Record, view: View) -> Self {
        let ms = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
        Self {
            tenant: record.id.tenant(),
            operation: record.id.operation(),
            key: record.id.key(),
            state: view.name(),
            attempt: record.attempt_number(),
            fence: record.fence().get(),
            version: record.version,
            effect: effect(record.effect),
            registered: record.registered,
            payload_bytes: record.payload.as_ref().map(bytes::Bytes::len),
            downstream_key: record.id.downstream_key().to_string(),
            created_ms: record.created_at.as_millis(),
            updated_ms: record.updated_at.as_millis(),
            first_grant_ms: ms(record.first_grant_at),
            completed_ms: ms(record.completed_at),
            response_until_ms: ms(record.response_until),
            identity_until_ms: ms(record.identity_until),
            attempts: record.earlier.iter().chain(&record.current).map(AttemptJson::of).collect(),
            checkpoints: record
                .checkpoints
                .iter()
                .map(|fact| CheckpointJson {
                    attempt: fact.attempt_number,
                    name: fact.name.as_str(),
                    bytes: fact.value.len(),
                    at_ms: fact.at.as_millis(),
                })
                .collect(),
            parked: record.parked.as_deref().map(|parked| ParkedJson {
                since_ms: parked.since.as_millis(),
                by: parked.by.as_str(),
                cause: cause(parked.cause),
                note: parked.note.as_ref().map(Label::as_str),
            }),
            resolution: record.resolution.as_deref().map(|resolution| ResolutionJson {
                at_ms: resolution.at.as_millis(),
                actor: resolution.actor.as_str(),
                reason: resolution.reason.as_str(),
                happened: resolution.happened,
            }),
            outcome: record.outcome.as_deref().map(OutcomeJson::of),
        }
    }
}

impl<'a> AttemptJson<'a> {
    fn of(attempt: &'a Attempt) -> Self {
        Self {
            number: attempt.number,
            owner: attempt.owner.as_str(),
            mode: mode(attempt.mode),
            fence: attempt.fence.get(),
            started_ms: attempt.started_at.as_millis(),
            lease_until_ms: attempt.lease_until.as_millis(),
            ended_ms: attempt.ended.map(|(at, _)| at.as_millis()),
            ended: attempt.ended.map(|(_, how)| ending(how)),
            absence: attempt.absence.map(absence),
        }
    }
}

impl<'a> OutcomeJson<'a> {
    fn of(stored: &'a StoredOutcome) -> Self {
        let output = outcome::output(stored);
        let omitted_bytes = match stored.content {
            Content::Omitted { content_bytes, .. } => Some(content_bytes),
            _ => None,
        };
        Self {
            kind: kind(stored.kind),
            class: stored.class.as_ref().map(Label::as_str),
            exit: output.as_ref().map(|output| output.exit),
            reference: stored.reference.as_deref(),
            digest: stored.digest.map(|digest| digest.to_string()),
            stdout_bytes: output.as_ref().map(|output| output.stdout.len()),
            stderr_bytes: output.as_ref().map(|output| output.stderr.len()),
            omitted: stored.omission().map(omission),
            omitted_bytes,
        }
    }
}

pub(crate) const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Execute => "execute",
        Mode::Recover => "recover",
        _ => "unknown",
    }
}

const fn effect(effect: EffectClass) -> &'static str {
    match effect {
        EffectClass::Opaque => "opaque",
        EffectClass::Keyed { .. } => "keyed",
        EffectClass::Local => "local",
        _ => "unknown",
    }
}

pub(crate) const fn ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Completed => "completed",
        Ending::Released => "released",
        Ending::Parked => "parked",
        Ending::Lapsed => "lapsed",
        Ending::Resolved => "resolved",
        _ => "unknown",
    }
}

const fn absence(reason: AbsenceReason) -> &'static str {
    match reason {
        AbsenceReason::Deduplicated => "deduplicated",
        AbsenceReason::FencedOff => "fenced-off",
        AbsenceReason::Quiesced { .. } => "quiesced",
        _ => "unknown",
    }
}

const fn cause(cause: ParkCause) -> &'static str {
    match cause {
        ParkCause::Holder => "holder",
        ParkCause::Lapse => "lapse",
        ParkCause::AttemptsExhausted => "attempts-exhausted",
        _ => "unknown",
    }
}

const fn kind(kind: OutcomeKind) -> &'static str {
    match kind {
        OutcomeKind::Success => "success",
        OutcomeKind::Failure => "failure",
        _ => "unknown",
    }
}

pub(crate) const fn omission(omission: Omission) -> &'static str {
    match omission {
        Omission::TooLarge => "too-large",
        Omission::Expired => "expired",
        Omission::Erased => "erased",
        _ => "unknown",
    }
}
