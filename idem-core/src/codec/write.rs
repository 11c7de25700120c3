//! Records to bytes. Every struct is taken apart by name, so that a new field does not compile before it is written.

use crate::attempt::{Fence, Label};
use crate::fingerprint::{Fingerprint, FingerprintKind};
use crate::outcome::{Content, Header, Omission, OutcomeDigest, StoredOutcome};
use crate::record::{AbsenceReason, Attempt, Checkpoint, EffectClass, Ending, Parking, Record, Resolution};
use crate::time::Timestamp;

use super::tags::{Tagged, absence, content, effect};

/// What a record takes beside its contents, without a long history: one allocation is enough for most.
const TYPICAL_BYTES: usize = 256;

/// The version and the fields, with room for `spare` more bytes.
pub(super) fn record(record: &Record, version: u8, spare: usize) -> Vec<u8> {
    let contents = record.payload.as_ref().map_or(0, bytes::Bytes::len)
        + record.outcome.as_ref().and_then(|outcome| outcome.body()).map_or(0, bytes::Bytes::len);
    let mut bytes = Vec::with_capacity(TYPICAL_BYTES + contents + spare);
    bytes.push(version);
    let mut writer = Writer { bytes, made_at: record.created_at };
    writer.record(record);
    writer.bytes
}

pub(super) struct Writer {
    bytes: Vec<u8>,
    made_at: Timestamp,
}

impl Writer {
    /// A writer after `bytes`, whose times are differences to the epoch: for values outside of their record.
    pub(super) const fn absolute(bytes: Vec<u8>) -> Self {
        Self { bytes, made_at: Timestamp::EPOCH }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    fn tag(&mut self, variant: impl Tagged) {
        self.byte(variant.tag());
    }

    fn number(&mut self, mut number: u64) {
        while number > 0x7f {
            self.byte(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.byte(number.to_le_bytes()[0]);
    }

    /// The difference to the time at which the record was made, with the sign in the lowest bit.
    fn relative(&mut self, value: u64) {
        let difference = value.wrapping_sub(self.made_at.as_millis()).cast_signed();
        self.number(((difference << 1) ^ (difference >> 63)).cast_unsigned());
    }

    fn time(&mut self, time: Timestamp) {
        self.relative(time.as_millis());
    }

    fn fence(&mut self, fence: Fence) {
        self.relative(fence.get());
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }

    fn label(&mut self, label: &Label) {
        self.bytes(label.as_str().as_bytes());
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.number(items.len() as u64);
        for item in items {
            write(self, item);
        }
    }

    fn record(&mut self, record: &Record) {
        let Record {
            id: _,
            fingerprint,
            state,
            version,
            effect,
            registered,
            payload,
            current,
            earlier,
            earlier_lease_until,
            fence_floor,
            checkpoints,
            parked,
            resolution,
            outcome,
            created_at,
            updated_at,
            first_grant_at,
            completed_at,
            response_until,
            identity_until,
            traceparent,
        } = record;
        self.number(created_at.as_millis());
        self.tag(*state);
        self.number(*version);
        self.option(fingerprint.as_ref(), Self::fingerprint);
        self.effect(effect);
        self.flag(*registered);
        self.option(payload.as_deref(), Self::bytes);
        self.option(current.as_ref(), Self::attempt);
        self.list(earlier, Self::attempt);
        // These two are zero in most records, which is one byte only where it is no difference.
        self.number(earlier_lease_until.as_millis());
        self.number(fence_floor.get());
        self.list(checkpoints, Self::checkpoint);
        self.option(parked.as_deref(), Self::parking);
        self.option(resolution.as_deref(), Self::resolution);
        self.option(outcome.as_deref(), Self::outcome);
        self.time(*updated_at);
        self.option(*first_grant_at, Self::time);
        self.option(*completed_at, Self::time);
        self.option(*response_until, Self::time);
        self.option(*identity_until, Self::time);
        self.option(traceparent.as_ref(), Self::label);
    }

    pub(super) fn fingerprint(&mut self, fingerprint: &Fingerprint) {
        let FingerprintKind { scheme, version, key_id } = fingerprint.kind();
        self.tag(scheme);
        self.number(u64::from(version));
        self.option(key_id, |writer, key_id| writer.number(u64::from(key_id)));
        self.raw(fingerprint.digest());
    }

    pub(super) fn effect(&mut self, effect: &EffectClass) {
        match *effect {
            EffectClass::Opaque => self.byte(effect::OPAQUE),
            EffectClass::Keyed { remembers_for_ms } => {
                self.byte(effect::KEYED);
                self.number(remembers_for_ms);
            }
            EffectClass::Local => self.byte(effect::LOCAL),
        }
    }

    fn attempt(&mut self, attempt: &Attempt) {
        self.attempt_beginning(attempt);
        self.option(attempt.ended, |writer, (at, how)| {
            writer.time(at);
            writer.tag(how);
        });
        self.option(attempt.absence.as_ref(), Self::absence);
    }

    /// An attempt without the time of its end; one that has not ended is one that lapsed.
    pub(super) fn untimed_attempt(&mut self, attempt: &Attempt) {
        self.attempt_beginning(attempt);
        self.tag(attempt.ended.map_or(Ending::Lapsed, |(_, how)| how));
        self.option(attempt.absence.as_ref(), Self::absence);
    }

    fn attempt_beginning(&mut self, attempt: &Attempt) {
        let Attempt { number, id, owner, mode, fence, started_at, lease_until, ended: _, absence: _ } =
            attempt;
        self.number(u64::from(*number));
        self.raw(id.as_bytes());
        self.label(owner);
        self.tag(*mode);
        self.fence(*fence);
        self.time(*started_at);
        self.time(*lease_until);
    }

    pub(super) fn absence(&mut self, reason: &AbsenceReason) {
        match *reason {
            AbsenceReason::Deduplicated => self.byte(absence::DEDUPLICATED),
            AbsenceReason::FencedOff => self.byte(absence::FENCED_OFF),
            AbsenceReason::Quiesced { settle_ms } => {
                self.byte(absence::QUIESCED);
                self.number(settle_ms);
            }
        }
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint) {
        self.untimed_checkpoint(checkpoint);
        self.time(checkpoint.at);
    }

    pub(super) fn untimed_checkpoint(&mut self, checkpoint: &Checkpoint) {
        let Checkpoint { attempt_number, name, value, at: _ } = checkpoint;
        self.number(u64::from(*attempt_number));
        self.label(name);
        self.bytes(value);
    }

    fn parking(&mut self, parking: &Parking) {
        let Parking { since, by, cause, note } = parking;
        self.time(*since);
        self.label(by);
        self.tag(*cause);
        self.option(note.as_ref(), Self::label);
    }

    fn resolution(&mut self, resolution: &Resolution) {
        self.time(resolution.at);
        self.untimed_resolution(resolution);
    }

    pub(super) fn untimed_resolution(&mut self, resolution: &Resolution) {
        let Resolution { at: _, actor, reason, happened } = resolution;
        self.label(actor);
        self.label(reason);
        self.flag(*happened);
    }

    fn outcome(&mut self, outcome: &StoredOutcome) {
        self.outcome_beginning(outcome);
        match &outcome.content {
            kept @ Content::Kept { .. } => {
                self.byte(content::KEPT);
                self.kept_content(kept);
            }
            Content::Omitted { content_bytes, why } => self.omitted(*content_bytes, *why),
        }
    }

    /// An outcome without its content: one that is kept is announced with its length, as a listing shows it.
    pub(super) fn outcome_head(&mut self, outcome: &StoredOutcome) {
        self.outcome_beginning(outcome);
        match &outcome.content {
            kept @ Content::Kept { .. } => self.omitted(kept.bytes(), Omission::Unread),
            Content::Omitted { content_bytes, why } => self.omitted(*content_bytes, *why),
        }
    }

    fn omitted(&mut self, content_bytes: u64, why: Omission) {
        self.byte(content::OMITTED);
        self.number(content_bytes);
        self.tag(why);
    }

    /// Body and headers. What is omitted has none.
    pub(super) fn kept_content(&mut self, content: &Content) {
        if let Content::Kept { body, headers } = content {
            self.option(body.as_deref(), Self::bytes);
            self.list(headers, Self::header);
        }
    }

    fn outcome_beginning(&mut self, outcome: &StoredOutcome) {
        let StoredOutcome { kind, class, reference, cut, digest, content: _ } = outcome;
        self.tag(*kind);
        self.option(class.as_ref(), Self::label);
        self.option(reference.as_deref(), |writer, text| writer.bytes(text.as_bytes()));
        self.flag(*cut);
        self.option(digest.as_ref().map(OutcomeDigest::as_bytes), |writer, digest| writer.raw(digest));
    }

    fn header(&mut self, header: &Header) {
        let Header { name, value } = header;
        self.bytes(name);
        self.bytes(value);
    }
}
