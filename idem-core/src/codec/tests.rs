use bytes::Bytes;
use proptest::prelude::*;

use super::arbitrary;
use super::*;
use crate::attempt::{AttemptId, Fence, Label};
use crate::error::ErrorKind;
use crate::fingerprint::{Fingerprint, Scheme};
use crate::key::{hex, unhex};
use crate::outcome::{Content, Header, Omission, Outcome, OutcomeKind, StoredOutcome};
use crate::record::{
    AbsenceReason, Attempt, Checkpoint, EffectClass, Ending, Mode, ParkCause, Parking, Resolution, State,
};
use crate::time::Timestamp;

const MADE_AT: u64 = 1_700_000_000_000;

fn id() -> OperationId {
    OperationId::new("acme", "invoice.create/v1", "order-418-rev-2").unwrap()
}

fn at(after_ms: u64) -> Timestamp {
    Timestamp::from_millis(MADE_AT + after_ms)
}

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

fn attempt(number: u32) -> Attempt {
    let start_ms = u64::from(number) * 1_000;
    Attempt {
        number,
        id: AttemptId::from_bytes([0xa0 + number.to_le_bytes()[0]; 16]),
        owner: label("worker-7"),
        mode: Mode::Execute,
        fence: Fence::new(MADE_AT + start_ms),
        started_at: at(start_ms),
        lease_until: at(start_ms + 30_000),
        ended: None,
        absence: None,
    }
}

/// What most records become: completed at the first attempt with a small body.
fn completed(body: &[u8]) -> Record {
    let outcome = Outcome::success().body(body.to_vec()).reference("invoice-9");
    let mut record = Record::new(id(), at(0));
    record.fingerprint = Some(Fingerprint::from_parts(Scheme::Json, 1, None, [0xf0; 32]));
    record.state = State::Completed;
    record.version = 2;
    record.current = Some(Attempt { ended: Some((at(1_020), Ending::Completed)), ..attempt(1) });
    record.outcome = Some(Box::new(StoredOutcome::of(&outcome, outcome.digest(), None)));
    (record.updated_at, record.completed_at) = (at(1_020), Some(at(1_020)));
    record.first_grant_at = Some(at(1_000));
    record
}

/// A record with something in every field that an unfinished one may have.
fn uncertain() -> Record {
    let mut record = Record::new(id(), at(0));
    record.fingerprint = Some(Fingerprint::from_parts(Scheme::Bytes, 0x1234, Some(7), [0xf1; 32]));
    record.state = State::Uncertain;
    record.version = 300;
    record.effect = EffectClass::Keyed { remembers_for_ms: 86_400_000 };
    record.registered = true;
    record.payload = Some(Bytes::from_static(b"\x00\xffpayload"));
    record.current = Some(Attempt { mode: Mode::Recover, ..attempt(3) });
    record.earlier = vec![
        Attempt {
            ended: Some((at(1_500), Ending::Released)),
            absence: Some(AbsenceReason::Quiesced { settle_ms: 500 }),
            ..attempt(1)
        },
        Attempt { ended: Some((at(40_000), Ending::Lapsed)), ..attempt(2) },
    ];
    record.earlier_lease_until = at(32_000);
    record.fence_floor = Fence::new(MADE_AT - 1);
    record.checkpoints = vec![Checkpoint {
        attempt_number: 2,
        name: label("charge sent"),
        value: Bytes::from_static(b"ch_1"),
        at: at(2_500),
    }];
    record.parked = Some(Box::new(Parking {
        since: at(50_000),
        by: label("worker-8"),
        cause: ParkCause::Lapse,
        note: Some(label("no reconciler")),
    }));
    record.resolution = Some(Box::new(Resolution {
        at: at(45_000),
        actor: label("ops"),
        reason: label("bank statement"),
        happened: false,
    }));
    (record.updated_at, record.first_grant_at) = (at(50_000), Some(at(1_000)));
    record.traceparent = Some(label("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
    record
}

/// A failure whose content was erased, with both deadlines.
fn erased() -> Record {
    let outcome = Outcome::failure("card_declined").body("no").header("content-type", "text/plain");
    let mut record = completed(b"");
    record.outcome = Some(Box::new(StoredOutcome {
        digest: None,
        ..StoredOutcome::of(&outcome, outcome.digest(), Some(Omission::Erased))
    }));
    (record.response_until, record.identity_until) = (Some(at(2_000)), Some(Timestamp::MAX));
    record
}

/// Bytes that version 1 wrote. They are in people's stores: a difference here needs a new format version, never
/// new bytes.
#[test]
fn what_was_stored_before_is_read_and_written_unchanged() {
    let stored = [
        (Record::new(id(), at(0)), GOLDEN_RECEIVED),
        (completed(b"paid"), GOLDEN_COMPLETED),
        (uncertain(), GOLDEN_UNCERTAIN),
        (erased(), GOLDEN_ERASED),
    ];
    for (record, golden) in stored {
        let golden: String = golden.split_whitespace().collect();
        assert_eq!(hex(&encode(&record)), golden);
        let bytes: Vec<u8> = golden.as_bytes().chunks(2).map(|pair| from_hex(pair)[0]).collect();
        assert_eq!(decode(&id(), &bytes).unwrap(), record);
    }
}

fn from_hex(pair: &[u8]) -> [u8; 1] {
    unhex(std::str::from_utf8(pair).unwrap()).unwrap()
}

const GOLDEN_RECEIVED: &str = "0180d095ffbc310000000000000000000000000000000000000000f10cbc3e";
const GOLDEN_COMPLETED: &str = "
    0180d095ffbc31020201000100f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0000000
    0101a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a108776f726b65722d3700d00fd00fb0e40301f80f00000000000000000100
    000109696e766f6963652d390001ae50d46addaa8fa0da9efa4b2c1f122df217e16fbf2fbdf96a1fe2b2843487c40001
    047061696400f80f01d00f01f80f0000004c7c50cf";
const GOLDEN_UNCERTAIN: &str = "
    0180d095ffbc3103ac020101b4240107f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1
    0180b8992901010900ff7061796c6f61640103a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a308776f726b65722d3701f02ef0
    2ed0830400000201a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a108776f726b65722d3700d00fd00fb0e40301b817010102f4
    0302a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a208776f726b65722d3700a01fa01f80f4030180f104030080ca97ffbc31ff
    cf95ffbc3101020b6368617267652073656e740463685f31882701a08d0608776f726b65722d3801010d6e6f20726563
    6f6e63696c65720190bf05036f70730e62616e6b2073746174656d656e740000a08d0601d00f000000013730302d3061
    6637363531393136636434336464383434386562323131633830333139632d623761643662373136393230333333312d
    30318e6ce3db";
const GOLDEN_ERASED: &str = "
    0180d095ffbc31020201000100f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0000000
    0101a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a108776f726b65722d3700d00fd00fb0e40301f80f00000000000000000101
    010d636172645f6465636c696e6564000000011802f80f01d00f01f80f01a01f01fedfd481869dff1f00d7354fb5";

/// G-30: none of these is another.
#[test]
fn bodies_are_kept_exactly() {
    let bodies = [None, Some(&b""[..]), Some(b"null"), Some(b"false"), Some(b"\0"), Some(b"\xff\xfe")];
    let mut seen = std::collections::HashSet::new();
    for body in bodies {
        let mut record = completed(b"");
        let content = Content::Kept { body: body.map(Bytes::from_static), headers: Vec::new() };
        record.outcome = Some(Box::new(StoredOutcome::from_parts(OutcomeKind::Success, content)));
        let bytes = encode(&record);
        assert_eq!(decode(&id(), &bytes).unwrap(), record);
        assert!(seen.insert(bytes), "{body:?}");
    }
    let headers =
        vec![Header::new("b", ""), Header::new("a", "1"), Header::new("b", ""), Header::new("", "x")];
    let mut record = completed(b"");
    let content = Content::Kept { body: None, headers };
    record.outcome = Some(Box::new(StoredOutcome::from_parts(OutcomeKind::Failure, content)));
    assert_eq!(decode(&id(), &encode(&record)).unwrap(), record);
}

#[test]
fn a_small_record_takes_few_bytes() {
    assert!(encode(&completed(&[b'x'; 100])).len() <= 264);
    assert!(encode(&Record::new(id(), at(0))).len() <= 32);
}

#[test]
fn an_unknown_version_names_itself() {
    let mut bytes = encode(&completed(b"paid"));
    for version in [2, 77, 255] {
        bytes[0] = version;
        let error = decode(&id(), &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(&format!("version {version}")), "{error}");
        assert!(error.to_string().contains("newer version of idem"), "{error}");
    }
    for blank in [&[][..], &[0; 64]] {
        let error = decode(&id(), blank).unwrap_err();
        assert!(error.kind() == ErrorKind::Corrupt && !error.to_string().contains("newer"), "{error}");
    }
}

#[test]
fn bytes_of_another_operation_are_refused() {
    let bytes = encode(&completed(b"paid"));
    for other in
        [("acme", "invoice.create/v1", "order-418-rev-3"), ("acmei", "nvoice.create/v1", "order-418-rev-2")]
    {
        let other = OperationId::new(other.0, other.1, other.2).unwrap();
        assert_eq!(decode(&other, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_record_that_cannot_be_is_refused() {
    let mut record = completed(b"paid");
    record.outcome = None;
    let error = decode(&id(), &encode(&record)).unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Corrupt, "a completed record has no outcome")
    );
}

/// `fields` under a good checksum, as damage that happened before the checksum was made, or a hostile writer.
fn sealed(fields: &[u8]) -> Vec<u8> {
    let mut bytes = vec![FORMAT_VERSION];
    bytes.extend_from_slice(fields);
    let sum = checksum(&id(), &bytes);
    bytes.extend_from_slice(&sum);
    bytes
}

fn fields(record: &Record) -> Vec<u8> {
    let bytes = encode(record);
    bytes[1..bytes.len() - CHECKSUM_BYTES].to_vec()
}

#[test]
fn what_a_checksum_cannot_tell_is_refused_too() {
    let refused = |fields: &[u8]| decode(&id(), &sealed(fields)).unwrap_err().to_string();
    let plain = fields(&Record::new(id(), at(0)));
    assert!(decode(&id(), &sealed(&plain)).is_ok(), "the helper seals well");

    let mut longer = plain.clone();
    longer.push(0);
    assert!(refused(&longer).contains("goes on"));
    for length in 0..plain.len() {
        assert!(refused(&plain[..length]).contains("damaged"), "cut at {length}");
    }
    // A time is 6 bytes here; the state is the byte after it.
    let mut state = plain.clone();
    state[6] = 4;
    assert!(refused(&state).contains("unknown number"));
    let mut beyond = vec![0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];
    beyond.extend_from_slice(&plain[6..]);
    assert!(refused(&beyond).contains("a time is out of range"));
    let mut misspelt = plain.clone();
    misspelt[5] |= 0x80;
    misspelt.insert(6, 0);
    assert!(refused(&misspelt).contains("misspelt"));
    // The version is any number of 64 bits: this one would have 65, the next has eleven groups.
    for last in [[0x02].as_slice(), &[0x80, 0x01]] {
        let mut overflowing = plain[..7].to_vec();
        overflowing.extend_from_slice(&[0x80; 9]);
        overflowing.extend_from_slice(last);
        overflowing.extend_from_slice(&plain[8..]);
        let why = refused(&overflowing);
        assert!(why.contains("misspelt") || why.contains("beyond 64 bits"), "{why}");
    }
    // The flag of the fingerprint comes after state and version.
    let mut flag = plain.clone();
    flag[8] = 2;
    assert!(refused(&flag).contains("neither 0 nor 1"));
}

#[test]
fn a_wrong_length_costs_no_memory() {
    let plain = fields(&Record::new(id(), at(0)));
    // Fingerprint, effect, registered: then the payload's flag, and the length of the history after current's flag.
    let (payload, earlier) = (11, 13);
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let mut body = plain[..payload].to_vec();
    body.push(1);
    body.extend_from_slice(&huge);
    body.extend_from_slice(&plain[payload + 1..]);
    assert!(decode(&id(), &sealed(&body)).unwrap_err().to_string().contains("longer than what is there"));
    let mut list = plain[..earlier].to_vec();
    list.extend_from_slice(&huge);
    list.extend_from_slice(&plain[earlier + 1..]);
    assert!(decode(&id(), &sealed(&list)).unwrap_err().to_string().contains("a list is longer"));
}

proptest! {
    #[test]
    fn every_record_comes_back_as_it_was(record in arbitrary::record()) {
        let bytes = encode(&record);
        let read = decode(&record.id, &bytes).unwrap();
        prop_assert_eq!(&read, &record);
        prop_assert_eq!(encode(&read), bytes);
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(decode(&id(), &bytes).is_err());
        let versioned = [&[FORMAT_VERSION][..], &bytes].concat();
        prop_assert!(decode(&id(), &versioned).is_err());
    }

    /// With a good checksum, damage either is refused or is another record, spelt in its one way.
    #[test]
    fn damage_under_a_good_checksum_is_refused_or_read_exactly(
        record in arbitrary::record(),
        position in any::<prop::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 0..12),
        removed in 0..12_usize,
    ) {
        let mut fields = fields(&record);
        let start = position.index(fields.len());
        let end = fields.len().min(start + removed);
        fields.splice(start..end, noise);
        let bytes = sealed(&fields);
        match decode(&id(), &bytes) {
            Ok(read) => prop_assert_eq!(encode(&read), bytes),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
    }
}

proptest! {
    // Each case tries every byte of a record, so fewer cases do.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_cut_and_every_changed_byte_is_found(record in arbitrary::record(), change in 1..=u8::MAX) {
        let bytes = encode(&record);
        for length in 0..bytes.len() {
            prop_assert!(decode(&record.id, &bytes[..length]).is_err(), "cut at {}", length);
        }
        let mut changed = bytes.clone();
        for position in 0..bytes.len() {
            changed[position] ^= change;
            let error = decode(&record.id, &changed).unwrap_err();
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
            changed[position] = bytes[position];
        }
        changed.push(change);
        prop_assert!(decode(&record.id, &changed).is_err());
    }
}
