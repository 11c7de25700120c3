//! Every answer, and everything in a record, can be made outside of the crate.

use bytes::Bytes;
use idem_core::answer::{
    Checkpointed, Claimed, Completed, Erased, Expired, Grant, Page, Parked, Registered, Released, Renewed,
    Replay, Resolved, Stats, Swept,
};
use idem_core::record::{AbsenceReason, Attempt, Checkpoint, Ending, ParkCause, Parking, Resolution};
use idem_core::store::DecidingClock;
use idem_core::{
    AttemptId, Capabilities, Content, Fence, Fingerprint, Header, Label, Limits, Mode, Omission, OperationId,
    Outcome, OutcomeDigest, OutcomeKind, Record, Retention, Scheme, State, StoredOutcome, Timestamp, View,
};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

fn attempt(number: u32) -> Attempt {
    let id = AttemptId::from_bytes([7; 16]);
    Attempt::new(number, id, label("worker"), Mode::Recover, Fence::new(9), NOW, NOW.plus_millis(30_000))
}

fn record() -> Record {
    let mut record = Record::new(OperationId::new("t", "o", "k").unwrap(), NOW);
    record.fingerprint = Some(Fingerprint::from_parts(Scheme::Json, 1, None, [1; 32]));
    record.state = State::Uncertain;
    let mut before = attempt(1);
    before.ended = Some((NOW, Ending::Released));
    before.absence = Some(AbsenceReason::FencedOff);
    record.earlier.push(before);
    record.current = Some(attempt(2));
    record.checkpoints.push(Checkpoint::new(1, label("sent"), &b"ch_1"[..], NOW));
    record.parked = Some(Box::new(Parking::new(NOW, label("worker"), ParkCause::Lapse)));
    record.resolution = Some(Box::new(Resolution::new(NOW, label("ops"), label("statement"), false)));
    record
}

fn stored() -> StoredOutcome {
    let content =
        Content::Kept { body: Some(Bytes::from_static(b"paid")), headers: vec![Header::new("a", "b")] };
    let mut stored = StoredOutcome::from_parts(OutcomeKind::Failure, content);
    stored.class = Some(label("declined"));
    stored.reference = Some("invoice-9".into());
    stored.digest = Some(OutcomeDigest::from_bytes([3; 32]));
    stored
}

#[test]
fn every_answer_is_made_outside_of_the_crate() {
    let record = record();
    record.check().unwrap();
    let grant = Grant::of(&record, NOW, false).unwrap();
    assert_eq!((grant.number, grant.remaining_ms, grant.earlier.len()), (2, 30_000, 1));
    let replay = Replay::new(stored(), NOW, 2, Fence::new(9));
    let expired = Expired::of(&stored(), NOW);
    assert_eq!((expired.kind, expired.class.clone()), (OutcomeKind::Failure, Some(label("declined"))));
    let _ = [
        Claimed::Granted(Box::new(grant)),
        Claimed::InProgress { retry_after_ms: 1, attempt_number: 2, version: 3 },
        Claimed::Replay(Box::new(replay)),
        Claimed::Conflict,
        Claimed::Expired(Box::new(expired)),
        Claimed::Uncertain { since: NOW },
        Claimed::Ended,
        Claimed::Nothing,
    ];
    let _ = [Registered::Created, Registered::Exists { view: View::Running }, Registered::Conflict];
    let _ = [Renewed::Renewed { remaining_ms: 1 }, Renewed::Settled, Renewed::Fenced(View::Absent)];
    let _ = [Checkpointed::Recorded { remaining_ms: 1 }, Checkpointed::Differs, Checkpointed::Full];
    let _ = [Completed::Completed { at: NOW, body_omitted: true }, Completed::OutcomeConflict];
    let _ = [Released::Released { forgotten: false }, Released::TooEarly { until: NOW }];
    let _ = [Parked::Parked { since: NOW }, Parked::AlreadyParked];
    let last = record.resolution.clone();
    let _ = [Resolved::NotUncertain { view: View::Received, last }, Resolved::NotFound];
    let _ = [Erased::Erased, Erased::Unfinished { view: View::Running }];
    let page = Page::new(vec![record.without_content()], None, NOW);
    assert_eq!((page.records.len(), page.now), (1, NOW));
    assert_eq!(Swept::new(1, 2, true), {
        let mut swept = Swept::default();
        (swept.erased, swept.purged, swept.more) = (1, 2, true);
        swept
    });
    let mut stats = Stats::at(NOW);
    stats.oldest_uncertain = Some(NOW);
    assert_eq!(stats.now, NOW);
}

#[test]
fn what_a_store_promises_is_said_outside_of_the_crate() {
    let mut capabilities = Capabilities::new("columns", "nothing");
    capabilities.clock = DecidingClock::Store;
    let mut limits = Limits::default();
    limits.body_bytes_max = 3;
    capabilities.limits = limits;
    assert_eq!(capabilities.limits.body_bytes_max, 3);
}

/// A store whose completion is one statement decides with this what it keeps (G-33, G-40).
#[test]
fn what_is_kept_of_an_outcome_is_known_before_the_statement() {
    let outcome = Outcome::success().body("paid");
    let kept = |retention, body_bytes_max| {
        StoredOutcome::within(&outcome, outcome.digest(), retention, body_bytes_max).omission()
    };
    let forever = Retention::forever();
    assert_eq!(kept(forever, 4), None);
    assert_eq!(kept(forever, 3), Some(Omission::TooLarge));
    let at_once = forever.response(idem_core::Ttl::Millis(0)).unwrap();
    assert_eq!(kept(at_once, 4), Some(Omission::Expired));
    assert_eq!(kept(at_once, 3), Some(Omission::Expired));
}
