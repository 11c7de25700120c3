use proptest::collection::vec;
use proptest::prelude::*;

use super::arbitrary;
use super::part::*;
use crate::attempt::{AttemptId, Fence, Label};
use crate::error::ErrorKind;
use crate::fingerprint::{Fingerprint, Scheme};
use crate::key::{OperationId, hex};
use crate::outcome::{Content, Omission, Outcome, StoredOutcome};
use crate::record::{AbsenceReason, Attempt, Checkpoint, EffectClass, Ending, Mode, Resolution};
use crate::time::Timestamp;

fn id() -> OperationId {
    OperationId::new("acme", "invoice.create/v1", "order-418-rev-2").unwrap()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn attempt() -> Attempt {
    let owner = Label::new("worker-7").unwrap();
    Attempt::new(2, AttemptId::from_bytes([0xa2; 16]), owner, Mode::Recover, Fence::new(2_000), at(2), at(9))
}

fn kept() -> StoredOutcome {
    let outcome = Outcome::failure("declined").reference("invoice-9").body("no").header("a", "b");
    StoredOutcome::of(&outcome, outcome.digest(), None)
}

/// What these bytes are is in people's stores: a difference here needs a new version, never new bytes.
#[test]
fn what_was_stored_before_is_written_unchanged() {
    let fingerprint = Fingerprint::from_parts(Scheme::Bytes, 3, Some(7), [0xf1; 32]);
    let fact = Checkpoint::new(2, Label::new("sent").unwrap(), "ch_1", at(5));
    let (actor, reason) = (Label::new("ops").unwrap(), Label::new("statement").unwrap());
    let resolution = Resolution::new(at(6), actor, reason, true);
    let (head, content) = encode_outcome(&id(), &kept());
    let written = [
        encode(&id(), &fingerprint),
        encode(&id(), &EffectClass::Keyed { remembers_for_ms: 300 }),
        encode(&id(), &AbsenceReason::Quiesced { settle_ms: 1 }),
        entries(&id(), &[attempt()]),
        entries(&id(), &[fact]),
        entries(&id(), &[resolution]),
        head,
        content.unwrap(),
    ];
    assert_eq!(
        written.map(|bytes| hex(&bytes)),
        GOLDEN.map(|text| text.split_whitespace().collect::<String>())
    );
}

const GOLDEN: [&str; 8] = [
    "010101030107f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1f1403978db",
    "010201ac024508e67b",
    "010302014f7dc1da",
    "000000000000000927010402a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a208776f726b65722d3701a01f04120300132c9960",
    "0000000000000005110105020473656e740463685f315f9599ec",
    "0000000000000006150106036f70730973746174656d656e7401511bd8ee",
    "01070101086465636c696e65640109696e766f6963652d39000107de90af5432b6606204c41bbc8a424f56811ff57a5c2962
     6eefec3beeb517c2010403f4a62f2e",
    "010801026e6f010161016276c8a81e",
];

/// An attempt that a take-over ends is written before the statement knows when.
#[test]
fn an_attempt_without_an_end_is_one_that_lapsed() {
    let mut column = 77_u64.to_be_bytes().to_vec();
    column.extend_from_slice(&entry(&id(), &attempt()));
    let read: Vec<Attempt> = decode_entries(&id(), &column).unwrap();
    assert_eq!(read, [Attempt { ended: Some((at(77), Ending::Lapsed)), ..attempt() }]);
}

#[test]
fn what_is_of_another_kind_or_operation_is_refused() {
    let bytes = encode(&id(), &EffectClass::Opaque);
    assert_eq!(decode::<EffectClass>(&id(), &bytes).unwrap(), EffectClass::Opaque);
    let other = OperationId::new("acme", "invoice.create/v1", "order-418-rev-3").unwrap();
    assert_eq!(decode::<EffectClass>(&other, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(decode::<AbsenceReason>(&id(), &bytes).unwrap_err().to_string().contains("another kind"));
    assert!(decode::<EffectClass>(&id(), &[]).unwrap_err().to_string().contains("empty"));
    let newer = [&[2][..], &bytes[1..]].concat();
    assert!(decode::<EffectClass>(&id(), &newer).unwrap_err().to_string().contains("newer version of idem"));
    let mut late = u64::MAX.to_be_bytes().to_vec();
    late.extend_from_slice(&entry(&id(), &attempt()));
    let error = decode_entries::<Attempt>(&id(), &late).unwrap_err();
    assert!(error.to_string().contains("a time is out of range"), "{error}");
}

#[test]
fn a_content_belongs_to_its_outcome() {
    let (head, content) = encode_outcome(&id(), &kept());
    assert_eq!(decode_outcome(&id(), &head, content.as_deref()).unwrap(), kept());
    let listed = decode_outcome(&id(), &head, None).unwrap();
    assert_eq!(listed.content, Content::Omitted { content_bytes: 4, why: Omission::Unread });
    let longer = Outcome::success().body("longer");
    let (other_head, other) = encode_outcome(&id(), &StoredOutcome::of(&longer, longer.digest(), None));
    assert!(decode_outcome(&id(), &head, other.as_deref()).is_err());
    assert!(decode_outcome(&id(), &other_head, content.as_deref()).is_err());
    let gone = StoredOutcome::of(&longer, longer.digest(), Some(Omission::TooLarge));
    let (head, none) = encode_outcome(&id(), &gone);
    assert_eq!(none, None);
    assert_eq!(decode_outcome(&id(), &head, None).unwrap(), gone);
    assert!(decode_outcome(&id(), &head, content.as_deref()).is_err());
}

/// Every cut and every changed byte of `bytes` is refused by `read`, beside the first `free` bytes of it.
fn no_damage_is_read<T>(
    bytes: &[u8],
    free: usize,
    read: impl Fn(&[u8]) -> crate::error::Result<T>,
) -> Result<(), TestCaseError> {
    for length in 1..bytes.len() {
        prop_assert!(read(&bytes[..length]).is_err(), "cut at {}", length);
    }
    let mut changed = bytes.to_vec();
    for position in free..bytes.len() {
        changed[position] ^= 0x41;
        prop_assert!(read(&changed).is_err(), "changed at {}", position);
        changed[position] ^= 0x41;
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_part_comes_back_as_it_was(
        fingerprint in arbitrary::fingerprint(),
        effect in arbitrary::effect(),
        absence in arbitrary::absence(),
        outcome in arbitrary::outcome(),
    ) {
        prop_assert_eq!(decode::<Fingerprint>(&id(), &encode(&id(), &fingerprint)).unwrap(), fingerprint);
        prop_assert_eq!(decode::<EffectClass>(&id(), &encode(&id(), &effect)).unwrap(), effect);
        prop_assert_eq!(decode::<AbsenceReason>(&id(), &encode(&id(), &absence)).unwrap(), absence);
        let (head, content) = encode_outcome(&id(), &outcome);
        prop_assert_eq!(decode_outcome(&id(), &head, content.as_deref()).unwrap(), *outcome);
    }

    #[test]
    fn lists_grow_at_their_end(
        facts in vec(arbitrary::checkpoint(), 0..4),
        attempts in vec(arbitrary::attempt(), 0..4),
        resolution in arbitrary::resolution(),
    ) {
        let grown: Vec<u8> =
            facts.iter().flat_map(|fact| entries(&id(), std::slice::from_ref(fact))).collect();
        prop_assert_eq!(&grown, &entries(&id(), &facts));
        prop_assert_eq!(decode_entries::<Checkpoint>(&id(), &grown).unwrap(), facts);
        let read: Vec<Attempt> = decode_entries(&id(), &entries(&id(), &attempts)).unwrap();
        for (read, attempt) in read.iter().zip(&attempts) {
            let ended = attempt.ended.or(Some((attempt.lease_until, Ending::Lapsed)));
            prop_assert_eq!(read, &Attempt { ended, ..attempt.clone() });
        }
        prop_assert_eq!(read.len(), attempts.len());
        let read: Vec<Resolution> = decode_entries(&id(), &entries(&id(), &[(*resolution).clone()])).unwrap();
        prop_assert_eq!(read, [*resolution]);
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(bytes in vec(any::<u8>(), 1..100)) {
        let versioned = [&[PART_VERSION, 5][..], &bytes].concat();
        prop_assert!(decode::<Fingerprint>(&id(), &bytes).is_err());
        prop_assert!(decode_outcome(&id(), &versioned, None).is_err());
        prop_assert!(decode_entries::<Checkpoint>(&id(), &bytes).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_cut_and_every_changed_byte_is_found(
        fact in arbitrary::checkpoint(),
        outcome in arbitrary::outcome(),
        fingerprint in arbitrary::fingerprint(),
    ) {
        no_damage_is_read(&encode(&id(), &fingerprint), 0, |bytes| decode::<Fingerprint>(&id(), bytes))?;
        let list = entries(&id(), &[fact]);
        no_damage_is_read(&list, 8, |bytes| decode_entries::<Checkpoint>(&id(), bytes))?;
        let (head, content) = encode_outcome(&id(), &outcome);
        no_damage_is_read(&head, 0, |bytes| decode_outcome(&id(), bytes, content.as_deref()))?;
        if let Some(content) = content {
            no_damage_is_read(&content, 0, |bytes| decode_outcome(&id(), &head, Some(bytes)))?;
        }
    }
}
