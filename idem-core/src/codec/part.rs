//! Single fields of a [`Record`](crate::record::Record), for stores that keep one in columns.
//!
//! Such a store has a column for each value that its statements compute with: state, version, the attempt's number, id,
//! mode, fence and times, the deadlines ([`Tagged`](super::Tagged) numbers the variants). What its statements only carry
//! needs no columns of its own; it is kept in the forms of this module, which are checked as a whole record's is.
//!
//! ```text
//! part:  version: 1 byte | kind: 1 byte | fields | CRC-32 of id, version, kind and fields: 4 bytes, little-endian
//! entry: time: 8 bytes, big-endian | bytes of the part: varint | part
//! ```
//!
//! - A [`Part`] stands alone in its column: a fingerprint, an effect class, a reason of absence.
//! - An [`Entry`] is one item of a list, and a list is its entries one after the other: appending is `list || entry`, in
//!   one statement that has not read the list. The time is in front and under no checksum, because the statement may be
//!   the first to know it: [`entry`] gives what follows the time, and the statement puts its own `now` before it
//!   (`int8send(now) || $entry` in PostgreSQL, `struct.pack('>I8', now) .. entry` in Redis).
//! - An outcome is two values, so that listings and sweeps need not touch the content: [`encode_outcome`].
//!
//! # One statement for every held write
//!
//! The current attempt stands in columns of its own, and only a *grant* moves it into the list of earlier ones. So a
//! held write, which knows its attempt id and nothing else of the record, is one conditional update:
//!
//! | write | sets, beside version and time of update |
//! |---|---|
//! | renew | the lease deadline |
//! | checkpoint | the lease deadline; `checkpoints \|\| time \|\| entry` |
//! | complete | state, outcome, completion and deadlines, how and when the attempt ended; the parking goes |
//! | release | state, how and when the attempt ended, the reason; the fingerprint goes if nothing could have happened |
//! | park | state, how and when the attempt ended, the parking (by: the attempt's owner) |
//!
//! A grant over a record may read it first (G-11): it writes the list with the attempt that ended as its last entry, and
//! over a lapse or what is Uncertain the [weakest](EffectClass::weakest) of the stored class and its own.
//!
//! ```
//! use idem_core::codec::part;
//! use idem_core::record::Checkpoint;
//! use idem_core::{ErrorKind, Label, OperationId, Timestamp};
//!
//! let id = OperationId::new("acme", "invoice.create/v1", "order-418")?;
//! let fact = Checkpoint::new(1, Label::new("charge sent")?, "ch_1", Timestamp::from_millis(7));
//! let mut column = part::entries(&id, &[fact.clone()]);
//! // What a statement appends: its own time, then the entry.
//! column.extend_from_slice(&8_u64.to_be_bytes());
//! column.extend_from_slice(&part::entry(&id, &Checkpoint::new(1, Label::new("sent")?, "m_2", Timestamp::EPOCH)));
//!
//! let facts: Vec<Checkpoint> = part::decode_entries(&id, &column)?;
//! assert_eq!((&facts[0], facts[1].at), (&fact, Timestamp::from_millis(8)));
//!
//! column[20] ^= 1;
//! assert_eq!(part::decode_entries::<Checkpoint>(&id, &column).unwrap_err().kind(), ErrorKind::Corrupt);
//! # Ok::<(), idem_core::Error>(())
//! ```

use super::read::{Reader, damaged, timestamp};
use super::write::Writer;
use super::{CHECKSUM_BYTES, checksum, unknown_version};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::key::OperationId;
use crate::outcome::{Content, Omission, StoredOutcome};
use crate::record::{AbsenceReason, Attempt, Checkpoint, EffectClass, Ending, Resolution};
use crate::time::Timestamp;

/// The version of the form that this program writes: the first byte of every part.
pub const PART_VERSION: u8 = 1;

/// The numbers of the kinds. A number is never changed and never used again.
mod kind {
    pub(super) const FINGERPRINT: u8 = 1;
    pub(super) const EFFECT: u8 = 2;
    pub(super) const ABSENCE: u8 = 3;
    pub(super) const ATTEMPT: u8 = 4;
    pub(super) const CHECKPOINT: u8 = 5;
    pub(super) const RESOLUTION: u8 = 6;
    pub(super) const OUTCOME: u8 = 7;
    pub(super) const CONTENT: u8 = 8;
}

/// How the fields of a kind are written and read. Private, so that the forms are this module's alone.
trait Form: Sized {
    const KIND: u8;
    fn write(&self, writer: &mut Writer);
    fn read(reader: &mut Reader<'_>) -> Result<Self>;
}

/// How an entry's time is taken out of it and put back.
trait Timed: Form {
    fn time(&self) -> Timestamp;
    fn at(self, time: Timestamp) -> Self;
}

/// What can stand alone in a column: [`Fingerprint`], [`EffectClass`], [`AbsenceReason`].
#[allow(private_bounds, reason = "the forms are this module's alone")]
pub trait Part: Form {}

/// What can be an item of a list in a column: [`Attempt`], [`Checkpoint`], [`Resolution`].
///
/// The time of an attempt is when it ended. One that has not ended is written as one whose lease lapsed, which is what a
/// take-over makes of it.
#[allow(private_bounds, reason = "the forms are this module's alone")]
pub trait Entry: Timed {}

/// The bytes of `part`, which belongs to operation `id`.
#[must_use]
pub fn encode<P: Part>(id: &OperationId, part: &P) -> Vec<u8> {
    sealed(id, part)
}

/// Reads what [`encode`] wrote for operation `id`.
///
/// # Errors
///
/// `Corrupt` when the bytes are damaged, are of another kind or operation, or were written by a newer version of idem.
pub fn decode<P: Part>(id: &OperationId, bytes: &[u8]) -> Result<P> {
    opened(id, bytes)
}

/// The bytes of one entry after its time, which the statement puts before them: 8 bytes, big-endian.
#[must_use]
pub fn entry<E: Entry>(id: &OperationId, entry: &E) -> Vec<u8> {
    let part = sealed(id, entry);
    let mut writer = Writer::absolute(Vec::with_capacity(part.len() + 2));
    writer.bytes(&part);
    writer.into_bytes()
}

/// The bytes of a list: what [`entry`] gives for each, after its own time.
#[must_use]
pub fn entries<E: Entry>(id: &OperationId, list: &[E]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in list {
        bytes.extend_from_slice(&item.time().as_millis().to_be_bytes());
        bytes.extend_from_slice(&entry(id, item));
    }
    bytes
}

/// Reads a list of operation `id`, from [`entries`] and from statements that appended to it.
///
/// # Errors
///
/// `Corrupt` when the bytes are damaged, are of another kind or operation, or were written by a newer version of idem.
pub fn decode_entries<E: Entry>(id: &OperationId, bytes: &[u8]) -> Result<Vec<E>> {
    let mut reader = Reader::absolute(bytes);
    let mut list = Vec::new();
    while !reader.is_at_end() {
        let time = timestamp(u64::from_be_bytes(reader.array()?))?;
        list.push(opened::<E>(id, reader.bytes()?)?.at(time));
    }
    Ok(list)
}

/// The bytes of an outcome without its content, and those of the content, if that is kept.
///
/// A store may drop the content alone, as a sweep does once the response is expired.
#[must_use]
pub fn encode_outcome(id: &OperationId, outcome: &StoredOutcome) -> (Vec<u8>, Option<Vec<u8>>) {
    let content = match &outcome.content {
        Content::Kept { .. } => Some(sealed(id, &outcome.content)),
        Content::Omitted { .. } => None,
    };
    (sealed(id, outcome), content)
}

/// Reads what [`encode_outcome`] wrote for operation `id`. Without its content, an outcome that was kept is
/// [`Unread`](Omission::Unread), as listings show it.
///
/// # Errors
///
/// `Corrupt` when the bytes are damaged, do not belong together or to another operation, or were written by a newer
/// version of idem.
pub fn decode_outcome(id: &OperationId, head: &[u8], content: Option<&[u8]>) -> Result<StoredOutcome> {
    let mut outcome: StoredOutcome = opened(id, head)?;
    let Some(content) = content else { return Ok(outcome) };
    let announced = match outcome.content {
        Content::Omitted { content_bytes, why: Omission::Unread } => content_bytes,
        Content::Kept { .. } | Content::Omitted { .. } => {
            return Err(damaged("an outcome whose content is omitted has one"));
        }
    };
    outcome.content = opened(id, content)?;
    if outcome.content.bytes() != announced {
        return Err(damaged("a content is not the one of its outcome"));
    }
    Ok(outcome)
}

fn sealed<F: Form>(id: &OperationId, form: &F) -> Vec<u8> {
    let mut writer = Writer::absolute(vec![PART_VERSION, F::KIND]);
    form.write(&mut writer);
    let mut bytes = writer.into_bytes();
    bytes.extend_from_slice(&checksum(id, &bytes));
    bytes
}

fn opened<F: Form>(id: &OperationId, bytes: &[u8]) -> Result<F> {
    if bytes.first() != Some(&PART_VERSION) {
        return Err(unknown_version("a part of a stored record", bytes.first().copied(), PART_VERSION));
    }
    let (body, sum) =
        bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(|| damaged("a part of it is cut short"))?;
    if checksum(id, body) != *sum {
        return Err(Error::corrupt(
            "a part of a stored record does not have the checksum that it was written with: it is damaged, or belongs \
             to another operation",
        ));
    }
    let mut reader = Reader::absolute(body.get(1..).unwrap_or_default());
    if reader.byte()? != F::KIND {
        return Err(damaged("a part of it is of another kind than its column"));
    }
    let form = F::read(&mut reader)?;
    if reader.is_at_end() { Ok(form) } else { Err(damaged("a part of it goes on after its last field")) }
}

/// Kinds whose fields a record has too, in the same spelling.
macro_rules! forms {
    ($($name:ident: $kind:ident, $field:ident);+ $(;)?) => {$(
        impl Form for $name {
            const KIND: u8 = kind::$kind;

            fn write(&self, writer: &mut Writer) {
                writer.$field(self);
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self> {
                reader.$field()
            }
        }
    )+};
}

forms! {
    Fingerprint: FINGERPRINT, fingerprint;
    EffectClass: EFFECT, effect;
    AbsenceReason: ABSENCE, absence;
    Attempt: ATTEMPT, untimed_attempt;
    Checkpoint: CHECKPOINT, untimed_checkpoint;
    Resolution: RESOLUTION, untimed_resolution;
    StoredOutcome: OUTCOME, outcome_head;
    Content: CONTENT, kept_content;
}

impl Part for Fingerprint {}
impl Part for EffectClass {}
impl Part for AbsenceReason {}

impl Timed for Attempt {
    fn time(&self) -> Timestamp {
        self.ended.map_or(self.lease_until, |(at, _)| at)
    }

    fn at(self, time: Timestamp) -> Self {
        let how = self.ended.map_or(Ending::Lapsed, |(_, how)| how);
        Self { ended: Some((time, how)), ..self }
    }
}

impl Timed for Checkpoint {
    fn time(&self) -> Timestamp {
        self.at
    }

    fn at(self, time: Timestamp) -> Self {
        Self { at: time, ..self }
    }
}

impl Timed for Resolution {
    fn time(&self) -> Timestamp {
        self.at
    }

    fn at(self, time: Timestamp) -> Self {
        Self { at: time, ..self }
    }
}

impl Entry for Attempt {}
impl Entry for Checkpoint {}
impl Entry for Resolution {}
