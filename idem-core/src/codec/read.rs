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
    let mut reader = Reader { rest: fields, made_at: Timestamp::EPOCH };
    let record = reader.record(id)?;
    if !reader.rest.is_empty() {
        return Err(damaged("it goes on after its last field"));
    }
    Ok(record)
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::corrupt(format!("a stored record is damaged: {what}"))
}

struct Reader<'a> {
    rest: &'a [u8],
    made_at: Timestamp,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| damaged("a value is longer than what is there"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or_else(|| damaged("a value is longer than what is there"))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8> {
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

    fn bytes(&mut self) -> Result<&'a [u8]> {
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

    fn fingerprint(&mut self) -> Result<Fingerprint> {
        let (scheme, version, key_id) = (self.tag()?, self.small()?, self.option(Self::small)?);
        Ok(Fingerprint::from_parts(scheme, version, key_id, self.array()?))
    }

    fn effect(&mut self) -> Result<EffectClass> {
        match self.byte()? {
            effect::OPAQUE => Ok(EffectClass::Opaque),
            effect::KEYED => Ok(EffectClass::Keyed { remembers_for_ms: self.number()? }),
            effect::LOCAL => Ok(EffectClass::Local),
            _ => Err(damaged("an effect class has an unknown number")),
        }
    }

    fn attempt(&mut self) -> Result<Attempt> {
        Ok(Attempt {
            number: self.small()?,
            id: AttemptId::from_bytes(self.array()?),
            owner: self.label()?,
            mode: self.tag()?,
            fence: self.fence()?,
            started_at: self.time()?,
            lease_until: self.time()?,
            ended: self.option(|reader| Ok((reader.time()?, reader.tag()?)))?,
            absence: self.option(Self::absence)?,
        })
    }

    fn absence(&mut self) -> Result<AbsenceReason> {
        match self.byte()? {
            absence::DEDUPLICATED => Ok(AbsenceReason::Deduplicated),
            absence::FENCED_OFF => Ok(AbsenceReason::FencedOff),
            absence::QUIESCED => Ok(AbsenceReason::Quiesced { settle_ms: self.number()? }),
            _ => Err(damaged("a reason of absence has an unknown number")),
        }
    }

    fn checkpoint(&mut self) -> Result<Checkpoint> {
        Ok(Checkpoint {
            attempt_number: self.small()?,
            name: self.label()?,
            value: self.shared()?,
            at: self.time()?,
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
        Ok(Resolution {
            at: self.time()?,
            actor: self.label()?,
            reason: self.label()?,
            happened: self.flag()?,
        })
    }

    fn outcome(&mut self) -> Result<StoredOutcome> {
        Ok(StoredOutcome {
            kind: self.tag()?,
            class: self.option(Self::label)?,
            reference: self.option(|reader| reader.text().map(Box::from))?,
            cut: self.flag()?,
            digest: self.option(Self::array)?.map(OutcomeDigest::from_bytes),
            content: match self.byte()? {
                content::KEPT => {
                    Content::Kept { body: self.option(Self::shared)?, headers: self.list(Self::header)? }
                }
                content::OMITTED => Content::Omitted { content_bytes: self.number()?, why: self.tag()? },
                _ => return Err(damaged("a content is neither kept nor omitted")),
            },
        })
    }

    fn header(&mut self) -> Result<Header> {
        Ok(Header { name: self.shared()?, value: self.shared()? })
    }
}

/// A stored time; one beyond the last that can be written is refused, not cut.
fn timestamp(millis: u64) -> Result<Timestamp> {
    let time = Timestamp::from_millis(millis);
    if time.as_millis() == millis { Ok(time) } else { Err(damaged("a time is out of range")) }
}
