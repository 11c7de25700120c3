//! A record as the fields of a hash, and back (ADR 0009).
//!
//! | field | what it holds | changed by |
//! |---|---|---|
//! | `h` | the [head](crate::head): everything that a script computes with | every write |
//! | `f` | the fingerprint | a new record; deleted where it is forgotten |
//! | `g` | what the latest grant carries: effect class, owner, traceparent | grants |
//! | `p` | the payload | register; erase |
//! | `k…` | a checkpoint: the attempt's number and the name in the field, its place, time and entry in the value | checkpoint |
//! | `a` | why a release from recovery may let the effect run | release |
//! | `q` | since when, by whom and why it is parked | park |
//! | `o`, `b` | the outcome, and its content | complete; erase and sweep |
//! | `l` | the attempts before the latest | a grant over a record |
//! | `r` | the last resolution | resolve |

use std::collections::BTreeMap;

use idem_core::codec::{Tagged, part};
use idem_core::record::{AbsenceReason, Attempt, Checkpoint, ParkCause, Parking};
use idem_core::{EffectClass, Error, Fingerprint, Label, OperationId, Record, Result, Timestamp};

use crate::head::{Current, Head};

/// The fields of one hash, by name.
pub(crate) type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const HEAD: &[u8] = b"h";
const FINGERPRINT: &[u8] = b"f";
const GRANT: &[u8] = b"g";
const PAYLOAD: &[u8] = b"p";
const CHECKPOINT: u8 = b'k';
const ABSENCE: &[u8] = b"a";
const PARKING: &[u8] = b"q";
const OUTCOME: &[u8] = b"o";
const CONTENT: &[u8] = b"b";
const EARLIER: &[u8] = b"l";
const RESOLUTION: &[u8] = b"r";

pub(crate) fn damaged(what: &'static str) -> Error {
    Error::corrupt(format!("a record in Redis is damaged: {what}"))
}

/// The fields of `record`.
pub(crate) fn fields(record: &Record) -> Fields {
    let id = &record.id;
    let owner = record.current.as_ref().map(|current| &current.owner);
    let mut fields = Fields::new();
    let mut put = |name: &[u8], value: Option<Vec<u8>>| {
        if let Some(value) = value {
            fields.insert(name.to_vec(), value);
        }
    };
    put(HEAD, Some(Head::of(record).encode()));
    put(FINGERPRINT, record.fingerprint.map(|fingerprint| part::encode(id, &fingerprint)));
    put(GRANT, Some(grant(id, record.effect, owner, record.traceparent.as_ref())));
    put(PAYLOAD, record.payload.as_ref().map(|payload| payload.to_vec()));
    let absence = record.current.as_ref().and_then(|current| current.absence);
    put(ABSENCE, absence.map(|reason| part::encode(id, &reason)));
    put(PARKING, record.parked.as_deref().map(parking));
    if let Some(outcome) = record.outcome.as_deref() {
        let (head, content) = part::encode_outcome(id, outcome);
        put(OUTCOME, Some(head));
        put(CONTENT, content);
    }
    put(EARLIER, (!record.earlier.is_empty()).then(|| part::entries(id, &record.earlier)));
    put(
        RESOLUTION,
        record.resolution.as_deref().map(|verdict| part::entries(id, std::slice::from_ref(verdict))),
    );
    for (place, fact) in record.checkpoints.iter().enumerate() {
        let mut name = vec![CHECKPOINT];
        name.extend_from_slice(&fact.attempt_number.to_be_bytes());
        name.extend_from_slice(fact.name.as_str().as_bytes());
        let mut value = u16::try_from(place).unwrap_or(u16::MAX).to_be_bytes().to_vec();
        value.extend_from_slice(&fact.at.as_millis().to_be_bytes());
        value.extend_from_slice(&checkpoint(id, &fact.name, &fact.value));
        put(&name, Some(value));
    }
    fields
}

/// The record of operation `id` that has these fields; `None` when there are none.
pub(crate) fn record(id: &OperationId, fields: &Fields) -> Result<Option<Record>> {
    if fields.is_empty() {
        return Ok(None);
    }
    let get = |name: &[u8]| fields.get(name).map(Vec::as_slice);
    let head = Head::decode(get(HEAD).ok_or_else(|| damaged("it has no head"))?)?;
    let mut record = Record::new(id.clone(), head.created_at);
    head.put_into(&mut record);
    record.fingerprint = get(FINGERPRINT).map(|bytes| part::decode::<Fingerprint>(id, bytes)).transpose()?;
    let granted = decode_grant(id, get(GRANT).ok_or_else(|| damaged("it does not say what was granted"))?)?;
    record.effect = granted.effect;
    record.traceparent = granted.traceparent;
    record.payload = get(PAYLOAD).map(|payload| payload.to_vec().into());
    record.current = match (head.current, granted.owner) {
        (Some(current), Some(owner)) => Some(attempt(id, &current, owner, get(ABSENCE))?),
        (None, None) => None,
        _ => return Err(damaged("an attempt without an owner, or the reverse")),
    };
    record.earlier = get(EARLIER).map_or(Ok(Vec::new()), |bytes| part::decode_entries(id, bytes))?;
    record.checkpoints = checkpoints(id, fields, head.checkpoints)?;
    record.parked = match get(PARKING) {
        Some(bytes) => Some(Box::new(decode_parking(bytes, record.current.as_ref())?)),
        None => None,
    };
    if let Some(bytes) = get(RESOLUTION) {
        record.resolution = part::decode_entries(id, bytes)?.pop().map(Box::new);
    }
    if let Some(bytes) = get(OUTCOME) {
        record.outcome = Some(Box::new(part::decode_outcome(id, bytes, get(CONTENT))?));
    }
    record.check()?;
    Ok(Some(record))
}

fn attempt(id: &OperationId, current: &Current, owner: Label, absence: Option<&[u8]>) -> Result<Attempt> {
    let mut attempt = Attempt::new(
        current.number,
        current.id,
        owner,
        current.mode,
        current.fence,
        current.started_at,
        current.lease_until,
    );
    attempt.ended = current.ended;
    attempt.absence = absence.map(|bytes| part::decode::<AbsenceReason>(id, bytes)).transpose()?;
    Ok(attempt)
}

/// What a grant carries and no script reads: `bytes of effect | effect | bytes of owner | owner | traceparent`.
pub(crate) fn grant(
    id: &OperationId,
    effect: EffectClass,
    owner: Option<&Label>,
    traceparent: Option<&Label>,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    push_short(&mut bytes, &part::encode(id, &effect));
    push_short(&mut bytes, owner.map_or(&[], |owner| owner.as_str().as_bytes()));
    bytes.extend_from_slice(traceparent.map_or(&[], |traceparent| traceparent.as_str().as_bytes()));
    bytes
}

/// A byte string of at most 255 bytes behind its length; labels and effect classes are shorter.
fn push_short(bytes: &mut Vec<u8>, short: &[u8]) {
    let length = u8::try_from(short.len()).unwrap_or(u8::MAX);
    bytes.push(length);
    bytes.extend(short.iter().take(usize::from(length)));
}

fn take_short<'b>(bytes: &mut &'b [u8]) -> Result<&'b [u8]> {
    let cut = || damaged("a part of it is cut short");
    let (length, rest) = bytes.split_first().ok_or_else(cut)?;
    let (short, rest) = rest.split_at_checked(usize::from(*length)).ok_or_else(cut)?;
    *bytes = rest;
    Ok(short)
}

struct Granted {
    effect: EffectClass,
    owner: Option<Label>,
    traceparent: Option<Label>,
}

fn decode_grant(id: &OperationId, mut bytes: &[u8]) -> Result<Granted> {
    let effect = part::decode(id, take_short(&mut bytes)?)?;
    let owner = label(take_short(&mut bytes)?)?;
    Ok(Granted { effect, owner, traceparent: label(bytes)? })
}

/// A label; none where there are no bytes, since a label has some.
fn label(bytes: &[u8]) -> Result<Option<Label>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("a label is not UTF-8"))?;
    Label::new(text).map(Some).map_err(|_| damaged("a label that cannot be"))
}

/// A parking after its time: `cause | bytes of by | by | note`. No name is the owner of the attempt, which a holder that
/// parks need not repeat.
pub(crate) fn untimed_parking(cause: ParkCause, by: Option<&Label>, note: Option<&Label>) -> Vec<u8> {
    let mut bytes = vec![cause.tag()];
    push_short(&mut bytes, by.map_or(&[], |by| by.as_str().as_bytes()));
    bytes.extend_from_slice(note.map_or(&[], |note| note.as_str().as_bytes()));
    bytes
}

fn parking(parking: &Parking) -> Vec<u8> {
    let mut bytes = parking.since.as_millis().to_be_bytes().to_vec();
    bytes.extend_from_slice(&untimed_parking(parking.cause, Some(&parking.by), parking.note.as_ref()));
    bytes
}

fn decode_parking(bytes: &[u8], current: Option<&Attempt>) -> Result<Parking> {
    let cut = || damaged("its parking is cut short");
    let (since, rest) = bytes.split_first_chunk().ok_or_else(cut)?;
    let (cause, mut rest) = rest.split_first().ok_or_else(cut)?;
    let cause = ParkCause::from_tag(*cause).ok_or_else(|| damaged("it is parked for an unknown cause"))?;
    let by = label(take_short(&mut rest)?)?.or_else(|| current.map(|current| current.owner.clone()));
    let by = by.ok_or_else(|| damaged("it is parked by nobody"))?;
    let mut parking = Parking::new(Timestamp::from_millis(u64::from_be_bytes(*since)), by, cause);
    parking.note = label(rest)?;
    Ok(parking)
}

/// The entry of a checkpoint. Its time and the number of its attempt are not in it: only the script knows them.
pub(crate) fn checkpoint(id: &OperationId, name: &Label, value: &[u8]) -> Vec<u8> {
    part::entry(id, &Checkpoint::new(0, name.clone(), value.to_vec(), Timestamp::EPOCH))
}

fn checkpoints(id: &OperationId, fields: &Fields, count: u16) -> Result<Vec<Checkpoint>> {
    let cut = || damaged("a checkpoint is cut short");
    let mut found = BTreeMap::new();
    for (name, value) in fields.range(vec![CHECKPOINT]..vec![CHECKPOINT + 1]) {
        let (number, name) = name.get(1..).and_then(<[u8]>::split_first_chunk).ok_or_else(cut)?;
        let (place, entry) = value.split_first_chunk().ok_or_else(cut)?;
        let mut facts: Vec<Checkpoint> = part::decode_entries(id, entry)?;
        let mut fact = facts.pop().filter(|_| facts.is_empty()).ok_or_else(cut)?;
        if fact.name.as_str().as_bytes() != name {
            return Err(damaged("a checkpoint is stored under another name"));
        }
        fact.attempt_number = u32::from_be_bytes(*number);
        found.insert(u16::from_be_bytes(*place), fact);
    }
    if found.len() != usize::from(count) {
        return Err(damaged("it has another number of checkpoints than it says"));
    }
    Ok(found.into_values().collect())
}

/// What a write is conditional on: version and fence of what was read; nothing for absence. The fence makes the versions
/// of a record that was removed and made again different ones.
pub(crate) fn identity(seen: &Fields) -> Vec<u8> {
    let head = seen.get(HEAD).map(Vec::as_slice).unwrap_or_default();
    let mut identity = head.get(3..11).unwrap_or_default().to_vec();
    identity.extend_from_slice(head.get(78..86).unwrap_or_default());
    identity
}
