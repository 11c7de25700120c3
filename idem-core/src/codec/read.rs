//! Bytes to records. What is not exactly what the writer writes is `Corrupt`.

use bytes::Bytes;

use crate::attempt::{AttemptId, Fence, Label};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::key::OperationId;
use crate::outcome::{Content, Header, OutcomeDigest, StoredOutcome};
use crate::record::{AbsenceReason, Attempt, Checkpoint, EffectClass, Parking, Record, Resolution};
use crate::time::Timestamp;

use super::tags::{Tagged, absence, content, effect};

/// Room that a list gets before its items are read. More comes as they are read, so that a wrong length costs nothing.
const LIST_ROOM_MAX: usize = crate::record::HISTORY_MAX;

/// The record of operation `id` from all of its `fields`.
pub(super) fn record(id: &OperationId, fields: &[u8]) -> Result<Record> {
    let mut reader = Reader::absolute(fields);
    let record = reader.record(id)?;
    if !reader.is_at_end() {
        return Err(damaged("it goes on after its last field"));
    }
    Ok(record)
}

#[cold]
pub(super) fn damaged(what: &str) -> Error {
    Error::corrupt(format!("a stored record is damaged: {what}"))
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
    made_at: Timestamp,
}

impl<'a> Reader<'a> {
    /// A reader of `bytes` whose times are differences to the epoch: for values outside of their record.
    pub(super) const fn absolute(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, made_at: Timestamp::EPOCH }
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| damaged("a value is longer than what is there"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or_else(|| damaged("a value is longer than what is there"))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(damaged("a flag is neither 0 nor 1")),
        }
    }

    fn tag<T: Tagged>(&mut self) -> Result<T> {
        T::from_tag(self.byte()?).ok_or_else(|| damaged("a variant has an unknown number"))
    }

    fn number(&mut self) -> Result<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let group = u64::from(byte & 0x7f);
            number |= group << shift;
            if byte & 0x80 == 0 {
                // A zero group at the end is a longer spelling; the tenth group has one bit of the 64.
                let shortest = byte != 0 || shift == 0;
                let fits = shift < 63 || group < 2;
                return if shortest && fits { Ok(number) } else { Err(damaged("a number is misspelt")) };
            }
        }
        Err(damaged("a number is beyond 64 bits"))
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Result<T> {
        T::try_from(self.number()?).map_err(|_| damaged("a number is out of range"))
    }

    fn relative(&mut self) -> Result<u64> {
        let signed = self.number()?;
        let difference = (signed >> 1) ^ 0_u64.wrapping_sub(signed & 1);
        Ok(self.made_at.as_millis().wrapping_add(difference))
    }

    fn time(&mut self) -> Result<Timestamp> {
        let millis = self.relative()?;
        timestamp(millis)
    }

    fn fence(&mut self) -> Result<Fence> {
        self.relative().map(Fence::new)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.small()?;
        self.take(length)
    }

    fn shared(&mut self) -> Result<Bytes> {
        self.bytes().map(Bytes::copy_from_slice)
    }

    fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| damaged("a text is not UTF-8"))
    }

    fn label(&mut self) -> Result<Label> {
        Label::new(self.text()?)
            .map_err(|_| damaged("a label is empty, too long or holds a control character"))
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let length: usize = self.small()?;
        if length > self.rest.len() {
            return Err(damaged("a list is longer than what is there"));
        }
        let mut items = Vec::with_capacity(length.min(LIST_ROOM_MAX));
        for _ in 0..length {
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// The fields in the order in which the writer writes them: a struct expression reads from top to bottom.
    fn record(&mut self, id: &OperationId) -> Result<Record> {
        let created_at = timestamp(self.number()?)?;
        self.made_at = created_at;
        Ok(Record {
            id: id.clone(),
            created_at,
            state: self.tag()?,
            version: self.number()?,
            fingerprint: self.option(Self::fingerprint)?,
            effect: self.effect()?,
            registered: self.flag()?,
            payload: self.option(Self::shared)?,
            current: self.option(Self::attempt)?,
            earlier: self.list(Self::attempt)?,
            earlier_lease_until: timestamp(self.number()?)?,
            fence_floor: Fence::new(self.number()?),
            checkpoints: self.list(Self::checkpoint)?,
            parked: self.option(Self::parking)?.map(Box::new),
            resolution: self.option(Self::resolution)?.map(Box::new),
            outcome: self.option(Self::outcome)?.map(Box::new),
            updated_at: self.time()?,
            first_grant_at: self.option(Self::time)?,
            completed_at: self.option(Self::time)?,
            response_until: self.option(Self::time)?,
            identity_until: self.option(Self::time)?,
            traceparent: self.option(Self::label)?,
        })
    }

    pub(super) fn fingerprint(&mut self) -> Result<Fingerprint> {
        let (scheme, version, key_id) = (self.tag()?, self.small()?, self.option(Self::small)?);
        Ok(Fingerprint::from_parts(scheme, version, key_id, self.array()?))
    }

    pub(super) fn effect(&mut self) -> Result<EffectClass> {
        match self.byte()? {
            effect::OPAQUE => Ok(EffectClass::Opaque),
            effect::KEYED => Ok(EffectClass::Keyed { remembers_for_ms: self.number()? }),
            effect::LOCAL => Ok(EffectClass::Local),
            _ => Err(damaged("an effect class has an unknown number")),
        }
    }

    fn attempt(&mut self) -> Result<Attempt> {
        let mut attempt = self.attempt_beginning()?;
        attempt.ended = self.option(|reader| Ok((reader.time()?, reader.tag()?)))?;
        attempt.absence = self.option(Self::absence)?;
        Ok(attempt)
    }

    /// An attempt whose time of end is elsewhere.
    pub(super) fn untimed_attempt(&mut self) -> Result<Attempt> {
        let mut attempt = self.attempt_beginning()?;
        attempt.ended = Some((Timestamp::EPOCH, self.tag()?));
        attempt.absence = self.option(Self::absence)?;
        Ok(attempt)
    }

    fn attempt_beginning(&mut self) -> Result<Attempt> {
        Ok(Attempt {
            number: self.small()?,
            id: AttemptId::from_bytes(self.array()?),
            owner: self.label()?,
            mode: self.tag()?,
            fence: self.fence()?,
            started_at: self.time()?,
            lease_until: self.time()?,
            ended: None,
            absence: None,
        })
    }

    pub(super) fn absence(&mut self) -> Result<AbsenceReason> {
        match self.byte()? {
            absence::DEDUPLICATED => Ok(AbsenceReason::Deduplicated),
            absence::FENCED_OFF => Ok(AbsenceReason::FencedOff),
            absence::QUIESCED => Ok(AbsenceReason::Quiesced { settle_ms: self.number()? }),
            _ => Err(damaged("a reason of absence has an unknown number")),
        }
    }

    fn checkpoint(&mut self) -> Result<Checkpoint> {
        let fact = self.untimed_checkpoint()?;
        Ok(Checkpoint { at: self.time()?, ..fact })
    }

    /// A checkpoint whose time is elsewhere.
    pub(super) fn untimed_checkpoint(&mut self) -> Result<Checkpoint> {
        Ok(Checkpoint {
            attempt_number: self.small()?,
            name: self.label()?,
            value: self.shared()?,
            at: Timestamp::EPOCH,
        })
    }

    fn parking(&mut self) -> Result<Parking> {
        Ok(Parking {
            since: self.time()?,
            by: self.label()?,
            cause: self.tag()?,
            note: self.option(Self::label)?,
        })
    }

    fn resolution(&mut self) -> Result<Resolution> {
        let at = self.time()?;
        Ok(Resolution { at, ..self.untimed_resolution()? })
    }

    /// A resolution whose time is elsewhere.
    pub(super) fn untimed_resolution(&mut self) -> Result<Resolution> {
        Ok(Resolution {
            at: Timestamp::EPOCH,
            actor: self.label()?,
            reason: self.label()?,
            happened: self.flag()?,
        })
    }

    fn outcome(&mut self) -> Result<StoredOutcome> {
        let mut outcome = self.outcome_beginning()?;
        outcome.content = match self.byte()? {
            content::KEPT => self.kept_content()?,
            content::OMITTED => self.omitted()?,
            _ => return Err(damaged("a content is neither kept nor omitted")),
        };
        Ok(outcome)
    }

    /// An outcome whose content is elsewhere.
    pub(super) fn outcome_head(&mut self) -> Result<StoredOutcome> {
        let mut outcome = self.outcome_beginning()?;
        if self.byte()? != content::OMITTED {
            return Err(damaged("an outcome holds the content that is kept beside it"));
        }
        outcome.content = self.omitted()?;
        Ok(outcome)
    }

    pub(super) fn kept_content(&mut self) -> Result<Content> {
        Ok(Content::Kept { body: self.option(Self::shared)?, headers: self.list(Self::header)? })
    }

    fn omitted(&mut self) -> Result<Content> {
        Ok(Content::Omitted { content_bytes: self.number()?, why: self.tag()? })
    }

    fn outcome_beginning(&mut self) -> Result<StoredOutcome> {
        Ok(StoredOutcome {
            kind: self.tag()?,
            class: self.option(Self::label)?,
            reference: self.option(|reader| reader.text().map(Box::from))?,
            cut: self.flag()?,
            digest: self.option(Self::array)?.map(OutcomeDigest::from_bytes),
            content: Content::Kept { body: None, headers: Vec::new() },
        })
    }

    fn header(&mut self) -> Result<Header> {
        Ok(Header { name: self.shared()?, value: self.shared()? })
    }
}

/// A stored time; one beyond the last that can be written is refused, not cut.
pub(super) fn timestamp(millis: u64) -> Result<Timestamp> {
    let time = Timestamp::from_millis(millis);
    if time.as_millis() == millis { Ok(time) } else { Err(damaged("a time is out of range")) }
}
