//! The one binary form of a [`Record`], for stores that keep a record as one value; [`part`] is for those that keep
//! it in columns.
//!
//! ```text
//! version: 1 byte | fields, in a fixed order | CRC-32 of id, version and fields: 4 bytes, little-endian
//! ```
//!
//! - A number is a base-128 varint, the low group first, in its shortest spelling.
//! - A text or a byte string is its length and then its bytes; a list is its length and then its items.
//! - An optional value is one byte, 0 or 1, and then the value: absent and empty are different (G-30).
//! - A variant is the number that `tags` gives it; a number is never used for another variant.
//! - Most times, and the fences, are differences to the time at which the record was made, so that they take 1 to 4
//!   bytes.
//!
//! Every record has exactly one form, so equal records have equal bytes. The id is not in the bytes, since the store
//! has it as its key, but it is under the checksum: a value that is found under another key is `Corrupt`.
//!
//! A change of the format gets a new version, and the versions before it stay readable. A version that this program
//! does not know is `Corrupt`, and so is everything damaged, cut short or continued: reading never panics, and never
//! allocates more than a small multiple of what it is given.
//!
//! ```
//! use idem_core::{ErrorKind, OperationId, Record, Timestamp, codec};
//!
//! let id = OperationId::new("acme", "invoice.create/v1", "order-418")?;
//! let record = Record::new(id.clone(), Timestamp::from_millis(1_700_000_000_000));
//! let mut bytes = codec::encode(&record);
//! assert_eq!(codec::decode(&id, &bytes)?, record);
//!
//! bytes[3] ^= 1;
//! assert_eq!(codec::decode(&id, &bytes).unwrap_err().kind(), ErrorKind::Corrupt);
//! # Ok::<(), idem_core::Error>(())
//! ```

pub mod part;
mod read;
mod tags;
mod write;

pub use tags::Tagged;

use crate::error::{Error, Result};
use crate::key::OperationId;
use crate::record::Record;

/// The version of the format that [`encode`] writes: the first byte of what it gives.
///
/// ```
/// use idem_core::{OperationId, Record, Timestamp, codec};
///
/// let record = Record::new(OperationId::new("t", "o", "k")?, Timestamp::EPOCH);
/// assert_eq!(codec::encode(&record).first(), Some(&codec::FORMAT_VERSION));
/// # Ok::<(), idem_core::Error>(())
/// ```
pub const FORMAT_VERSION: u8 = 1;

/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 4;

/// The bytes of `record`, without its id.
///
/// ```
/// use idem_core::{OperationId, Record, Timestamp, codec};
///
/// let record = Record::new(OperationId::new("t", "o", "k")?, Timestamp::from_millis(1_700_000_000_000));
/// assert!(codec::encode(&record).len() < 40);
/// # Ok::<(), idem_core::Error>(())
/// ```
#[must_use]
pub fn encode(record: &Record) -> Vec<u8> {
    let mut bytes = write::record(record, FORMAT_VERSION, CHECKSUM_BYTES);
    bytes.extend_from_slice(&checksum(&record.id, &bytes));
    bytes
}

/// Reads what [`encode`] wrote for the record of operation `id`.
///
/// # Errors
///
/// `Corrupt` when the bytes are damaged, belong to another operation, were written by a newer version of idem, or
/// are a record that cannot be ([`Record::check`]).
///
/// ```
/// use idem_core::{OperationId, Record, Timestamp, codec};
///
/// let id = OperationId::new("t", "o", "k")?;
/// let mut bytes = codec::encode(&Record::new(id.clone(), Timestamp::EPOCH));
/// assert!(codec::decode(&OperationId::new("t", "o", "l")?, &bytes).is_err());
/// bytes[0] = 9;
/// let newer = codec::decode(&id, &bytes).unwrap_err();
/// assert!(newer.to_string().contains("newer version of idem"));
/// # Ok::<(), idem_core::Error>(())
/// ```
pub fn decode(id: &OperationId, bytes: &[u8]) -> Result<Record> {
    if bytes.first() != Some(&FORMAT_VERSION) {
        return Err(unknown_version("a stored record", bytes.first().copied(), FORMAT_VERSION));
    }
    let (body, sum) = bytes
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or_else(|| Error::corrupt("a stored record is cut short"))?;
    if checksum(id, body) != *sum {
        return Err(Error::corrupt(
            "a stored record does not have the checksum that it was written with: it is damaged, or belongs to \
             another operation",
        ));
    }
    let record = read::record(id, body.get(1..).unwrap_or_default())?;
    record.check()?;
    Ok(record)
}

/// What to say about bytes of `what` that begin with `version`, where versions up to `known` are.
#[cold]
fn unknown_version(what: &str, version: Option<u8>, known: u8) -> Error {
    match version {
        None | Some(0) => Error::corrupt(format!("{what} is empty or blank")),
        Some(version) => Error::corrupt(format!(
            "{what} has format version {version}, and this program knows versions up to {known}: it was written by a \
             newer version of idem, or is damaged"
        )),
    }
}

/// CRC-32 over the length-prefixed id (G-03) and then `body`.
fn checksum(id: &OperationId, body: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut hash = crc32fast::Hasher::new();
    for part in [id.tenant(), id.operation(), id.key()] {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(body);
    hash.finalize().to_le_bytes()
}

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod part_tests;
#[cfg(test)]
mod tests;
