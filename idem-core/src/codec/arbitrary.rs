//! Any record that a store may have to keep, for property tests. The larger strategies are boxed: their value trees
//! together are more than the stack of a test's thread.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::attempt::{AttemptId, Fence, Label};
use crate::fingerprint::{Fingerprint, Scheme};
use crate::key::{OperationId, PART_BYTES_MAX};
use crate::outcome::{Content, Header, Omission, OutcomeDigest, OutcomeKind, StoredOutcome};
use crate::record::{
    AbsenceReason, Attempt, Checkpoint, EffectClass, Ending, HISTORY_MAX, Mode, ParkCause, Parking, Record,
    Resolution, State,
};
use crate::time::Timestamp;

/// Numbers near the ends and everywhere between.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), 0..300_u64, any::<u64>(), (0..64_u32).prop_map(|bit| 1 << bit)]
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![number(), 1_700_000_000_000..1_700_000_100_000_u64].prop_map(Timestamp::from_millis)
}

fn fence() -> impl Strategy<Value = Fence> {
    time().prop_map(|time| Fence::new(time.as_millis()))
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        vec(any::<u8>(), 0..40).prop_map(Bytes::from),
        vec(any::<u8>(), 126..131).prop_map(Bytes::from),
        Just(Bytes::new()),
        Just(Bytes::from_static(b"null")),
        Just((0..=u8::MAX).collect()),
    ]
}

/// Up to 20 characters of any kind but the control characters.
fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..20).prop_map(|chars| chars.into_iter().filter(|c| !c.is_control()).collect())
}

fn label() -> BoxedStrategy<Label> {
    prop_oneof![text(), Just("x".repeat(127)), Just("\u{3b5}".repeat(64))]
        .prop_filter_map("a label", |text| Label::new(&text).ok())
        .boxed()
}

pub(crate) fn fingerprint() -> BoxedStrategy<Fingerprint> {
    let scheme = prop_oneof![Just(Scheme::Json), Just(Scheme::Bytes), Just(Scheme::Custom)];
    (scheme, any::<u16>(), of(any::<u32>()), any::<[u8; 32]>())
        .prop_map(|(scheme, version, key_id, digest)| {
            Fingerprint::from_parts(scheme, version, key_id, digest)
        })
        .boxed()
}

pub(crate) fn effect() -> impl Strategy<Value = EffectClass> {
    prop_oneof![
        Just(EffectClass::Opaque),
        Just(EffectClass::Local),
        number().prop_map(|remembers_for_ms| EffectClass::Keyed { remembers_for_ms }),
    ]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Execute), Just(Mode::Recover)]
}

pub(crate) fn absence() -> impl Strategy<Value = AbsenceReason> {
    prop_oneof![
        Just(AbsenceReason::Deduplicated),
        Just(AbsenceReason::FencedOff),
        number().prop_map(|settle_ms| AbsenceReason::Quiesced { settle_ms }),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        Just(Ending::Completed),
        Just(Ending::Released),
        Just(Ending::Parked),
        Just(Ending::Lapsed),
        Just(Ending::Resolved),
    ]
}

pub(crate) fn attempt() -> BoxedStrategy<Attempt> {
    let times = (time(), time(), of((time(), ending())), of(absence()));
    (any::<u32>(), any::<[u8; 16]>(), label(), mode(), fence(), times)
        .prop_map(|(number, id, owner, mode, fence, (started_at, lease_until, ended, absence))| Attempt {
            number,
            id: AttemptId::from_bytes(id),
            owner,
            mode,
            fence,
            started_at,
            lease_until,
            ended,
            absence,
        })
        .boxed()
}

pub(crate) fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    (any::<u32>(), label(), bytes(), time()).prop_map(|(attempt_number, name, value, at)| Checkpoint {
        attempt_number,
        name,
        value,
        at,
    })
}

fn parking() -> BoxedStrategy<Box<Parking>> {
    let cause =
        prop_oneof![Just(ParkCause::Holder), Just(ParkCause::Lapse), Just(ParkCause::AttemptsExhausted)];
    (time(), label(), cause, of(label()))
        .prop_map(|(since, by, cause, note)| Box::new(Parking { since, by, cause, note }))
        .boxed()
}

pub(crate) fn resolution() -> impl Strategy<Value = Box<Resolution>> {
    (time(), label(), label(), any::<bool>())
        .prop_map(|(at, actor, reason, happened)| Box::new(Resolution { at, actor, reason, happened }))
}

fn content() -> BoxedStrategy<Content> {
    let headers = vec((bytes(), bytes()).prop_map(|(name, value)| Header::new(name, value)), 0..5);
    let why = prop_oneof![Just(Omission::TooLarge), Just(Omission::Expired), Just(Omission::Erased)];
    prop_oneof![
        (of(bytes()), headers).prop_map(|(body, headers)| Content::Kept { body, headers }),
        (number(), why).prop_map(|(content_bytes, why)| Content::Omitted { content_bytes, why }),
    ]
    .boxed()
}

pub(crate) fn outcome() -> BoxedStrategy<Box<StoredOutcome>> {
    let kind = prop_oneof![Just(OutcomeKind::Success), Just(OutcomeKind::Failure)];
    let digest = of(any::<[u8; 32]>().prop_map(OutcomeDigest::from_bytes));
    (
        kind,
        of(label()),
        of(prop_oneof![text(), Just(String::new())].prop_map(Box::from)),
        any::<bool>(),
        digest,
        content(),
    )
        .prop_map(|(kind, class, reference, cut, digest, content)| {
            Box::new(StoredOutcome { kind, class, reference, cut, digest, content })
        })
        .boxed()
}

pub(crate) fn id() -> impl Strategy<Value = OperationId> {
    let part = || prop_oneof![4 => text(), 1 => Just("x".repeat(PART_BYTES_MAX))];
    (part(), part(), part())
        .prop_filter_map("an id", |(tenant, operation, key)| OperationId::new(&tenant, &operation, &key).ok())
}

/// The fields of a record that any state may have, in any combination.
fn common() -> BoxedStrategy<Record> {
    let history = prop_oneof![
        4 => vec(attempt(), 0..3),
        1 => vec(attempt(), HISTORY_MAX..=HISTORY_MAX),
    ];
    let intent = (id(), of(fingerprint()), number(), effect(), any::<bool>(), of(bytes()), of(label()));
    let attempts = (of(attempt()), history, time(), fence(), vec(checkpoint(), 0..4));
    let times = (time(), time(), of(time()), of(time()), of(time()), of(time()));
    let operators = (of(parking()), of(resolution()));
    (intent, attempts, times, operators)
        .prop_map(|(intent, attempts, times, operators)| {
            let (created_at, updated_at, first_grant_at, completed_at, response_until, identity_until) =
                times;
            let mut record = Record::new(intent.0, created_at);
            (record.fingerprint, record.version, record.effect) = (intent.1, intent.2, intent.3);
            (record.registered, record.payload, record.traceparent) = (intent.4, intent.5, intent.6);
            (record.current, record.earlier, record.earlier_lease_until) =
                (attempts.0, attempts.1, attempts.2);
            (record.fence_floor, record.checkpoints) = (attempts.3, attempts.4);
            (record.updated_at, record.first_grant_at, record.completed_at) =
                (updated_at, first_grant_at, completed_at);
            (record.response_until, record.identity_until) = (response_until, identity_until);
            (record.parked, record.resolution) = operators;
            record
        })
        .boxed()
}

/// Any record that passes [`Record::check`].
pub(crate) fn record() -> BoxedStrategy<Record> {
    let states = prop_oneof![
        Just(State::Received),
        Just(State::Processing),
        Just(State::Completed),
        Just(State::Uncertain)
    ];
    let needed = (fingerprint(), attempt(), parking(), outcome(), time());
    (common(), states, needed)
        .prop_map(|(mut record, state, needed)| {
            let (fingerprint, attempt, parking, outcome, completed_at) = needed;
            record.state = state;
            if state != State::Received {
                record.fingerprint.get_or_insert(fingerprint);
            }
            if matches!(state, State::Processing | State::Uncertain) {
                record.current.get_or_insert(attempt);
            }
            if state == State::Uncertain {
                record.parked.get_or_insert(parking);
            }
            if state == State::Completed {
                record.outcome = Some(outcome);
                record.completed_at.get_or_insert(completed_at);
            } else {
                (record.response_until, record.identity_until) = (None, None);
            }
            record
        })
        .boxed()
}
