//! The identity of an operation (G-01 to G-03) and the downstream key made from it (G-20).

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The most bytes that one part of an [`OperationId`] may have (G-02).
pub const PART_BYTES_MAX: usize = 512;

/// Which operation: the tenant, the business command, and the caller's idempotency key for one intent (G-01).
///
/// - `tenant` comes from the authenticated server context, never from the request.
/// - `operation` names the business command with its version: `invoice.create/v1`.
/// - `key` names one intent and is made by the caller *before* the first attempt.
///
/// Parts are 1 to 512 bytes of UTF-8 without control characters and not only white space (G-02). They are compared
/// byte by byte: no case folding, no trimming, no Unicode normalisation. Cloning is a reference count.
///
/// ```
/// use idem_core::OperationId;
///
/// let op = OperationId::new("acme", "invoice.create/v1", "order-418-rev-2")?;
/// assert_eq!(op.key(), "order-418-rev-2");
/// assert_ne!(OperationId::new("a", "b", "c:d")?.encode(), OperationId::new("a", "b:c", "d")?.encode());
/// # Ok::<(), idem_core::Error>(())
/// ```
#[doc(alias("idempotency_key", "request_id", "dedupe"))]
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId {
    /// The three parts, one after the other; the two lengths make the reading unique (G-03).
    joined: Arc<str>,
    tenant_bytes: u16,
    operation_bytes: u16,
}

impl OperationId {
    /// Checks the three parts and joins them.
    ///
    /// # Errors
    ///
    /// `InvalidInput` naming the part that is empty, blank, too long or holds a control character (G-02).
    pub fn new(tenant: &str, operation: &str, key: &str) -> Result<Self> {
        let tenant_bytes = check_part("tenant", tenant)?;
        let operation_bytes = check_part("operation name", operation)?;
        check_part("idempotency key", key)?;
        let mut joined = String::with_capacity(tenant.len() + operation.len() + key.len());
        joined.push_str(tenant);
        joined.push_str(operation);
        joined.push_str(key);
        Ok(Self { joined: joined.into(), tenant_bytes, operation_bytes })
    }

    fn split(&self) -> (&str, &str, &str) {
        let (tenant, rest) =
            self.joined.split_at_checked(usize::from(self.tenant_bytes)).unwrap_or((&self.joined, ""));
        let (operation, key) = rest.split_at_checked(usize::from(self.operation_bytes)).unwrap_or((rest, ""));
        (tenant, operation, key)
    }

    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> &str {
        self.split().0
    }

    /// The name of the business command.
    #[must_use]
    pub fn operation(&self) -> &str {
        self.split().1
    }

    /// The caller's idempotency key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.split().2
    }

    /// One string for stores that have one key: the lengths of tenant and operation, then the three parts (G-03).
    /// No two ids have the same encoding.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("{}.{}.{}", self.tenant_bytes, self.operation_bytes, self.joined)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// `Corrupt` when the text is not such an encoding.
    pub fn decode(encoded: &str) -> Result<Self> {
        let corrupt = || Error::corrupt("a stored operation id does not decode (G-03)");
        let mut fields = encoded.splitn(3, '.');
        let mut length = || fields.next().and_then(|field| field.parse::<usize>().ok()).ok_or_else(corrupt);
        let (tenant_bytes, operation_bytes) = (length()?, length()?);
        let joined = fields.next().ok_or_else(corrupt)?;
        let (tenant, rest) = joined.split_at_checked(tenant_bytes).ok_or_else(corrupt)?;
        let (operation, key) = rest.split_at_checked(operation_bytes).ok_or_else(corrupt)?;
        let id = Self::new(tenant, operation, key).map_err(|_| corrupt())?;
        // "01.1.abc" parses too; only the one spelling that `encode` writes is an id.
        if id.encode() == encoded { Ok(id) } else { Err(corrupt()) }
    }

    /// SHA-256 over the length-prefixed parts under a domain name: the stable pseudonym of this id.
    #[must_use]
    pub(crate) fn digest(&self, domain: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(domain.as_bytes());
        hash.update([0]);
        hash.update(self.encode().as_bytes());
        hash.finalize().into()
    }

    /// The idempotency key to send to the systems that this operation calls (G-20).
    #[must_use]
    pub fn downstream_key(&self) -> DownstreamKey {
        DownstreamKey(self.digest("idem/downstream-key/v1"))
    }
}

/// Shows tenant and operation, not the key: keys may name people (G-91).
impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tenant, operation, key) = self.split();
        write!(f, "OperationId({tenant:?}, {operation:?}, {} bytes)", key.len())
    }
}

/// The key that this operation sends to the systems it calls: the same on every attempt and after the identity
/// expired, different for every tenant, and not the caller's key (G-20).
///
/// `Display` writes 64 hexadecimal digits; [`uuid`](Self::uuid) the same key as a UUID for systems that insist on one.
#[doc(alias("idempotency_key"))]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DownstreamKey([u8; 32]);

impl DownstreamKey {
    /// The first 128 bits as a UUID of version 8 (RFC 9562: made by a rule of the application).
    ///
    /// ```
    /// let op = idem_core::OperationId::new("acme", "charge/v1", "order-1")?;
    /// let uuid = op.downstream_key().uuid();
    /// assert_eq!((uuid.len(), uuid.as_bytes()[14]), (36, b'8'));
    /// # Ok::<(), idem_core::Error>(())
    /// ```
    #[must_use]
    pub fn uuid(&self) -> String {
        let mut text = String::with_capacity(36);
        for (index, byte) in self.0.iter().take(16).enumerate() {
            let byte = match index {
                6 => (byte & 0x0f) | 0x80,
                8 => (byte & 0x3f) | 0x80,
                _ => *byte,
            };
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            push_hex(&mut text, byte);
        }
        text
    }
}

impl fmt::Display for DownstreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for DownstreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DownstreamKey({self})")
    }
}

fn push_hex(text: &mut String, byte: u8) {
    for digit in [byte >> 4, byte & 0x0f] {
        text.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
    }
}

/// Lower-case hexadecimal digits.
#[must_use]
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        push_hex(&mut text, *byte);
    }
    text
}

/// Reads hexadecimal digits of either case into exactly `N` bytes.
#[must_use]
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != N * 2 {
        return None;
    }
    let mut bytes = [0_u8; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let mut value = 0;
        for digit in pair {
            value = value * 16 + char::from(*digit).to_digit(16)?;
        }
        *byte = u8::try_from(value).ok()?;
    }
    Some(bytes)
}

/// G-02 for one part; gives its length.
fn check_part(name: &str, part: &str) -> Result<u16> {
    if part.is_empty() {
        return Err(Error::invalid_input(format!(
            "the {name} is empty: give 1 to {PART_BYTES_MAX} bytes (G-02)"
        )));
    }
    if part.len() > PART_BYTES_MAX {
        return Err(Error::invalid_input(format!(
            "the {name} has {} bytes, more than {PART_BYTES_MAX}: shorten or hash it (G-02)",
            part.len()
        )));
    }
    if part.chars().any(char::is_control) {
        return Err(Error::invalid_input(format!("the {name} holds a control character: remove it (G-02)")));
    }
    if part.chars().all(char::is_whitespace) {
        return Err(Error::invalid_input(format!("the {name} is only white space: name the intent (G-02)")));
    }
    u16::try_from(part.len()).map_err(|_| Error::internal("a checked part is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_checked_before_anything_else() {
        let bad = ["", " \u{2003}", "a\u{0}", "a\u{1f}", "a\u{7f}", "a\u{9f}", &"x".repeat(513)];
        for part in bad {
            assert!(OperationId::new(part, "o", "k").is_err());
            assert!(OperationId::new("t", part, "k").is_err());
            assert!(OperationId::new("t", "o", part).is_err());
        }
        let longest = "x".repeat(512);
        assert_eq!(OperationId::new("t", "o", &longest).unwrap().key(), longest);
        assert!(OperationId::new("t", "o", "\u{a0}x").is_ok());
    }

    #[test]
    fn encodings_never_meet_and_are_read_back() {
        let ids =
            [("a", "b", "c:d"), ("a", "b:c", "d"), ("ab", "c", "d"), ("a", "bc", "d"), ("1.1", "a", "b")];
        let mut seen = std::collections::HashSet::new();
        for (tenant, operation, key) in ids {
            let id = OperationId::new(tenant, operation, key).unwrap();
            assert_eq!(OperationId::decode(&id.encode()).unwrap(), id);
            assert!(seen.insert(id.encode()));
            assert!(seen.insert(id.downstream_key().to_string()));
        }
        for text in ["", "1.1", "01.1.abc", "1.1.ab", "9.1.abc", "1.1.\u{e9}", "-1.1.abc", "1.1.a\u{0}c"] {
            assert!(OperationId::decode(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn debug_shows_no_key() {
        let id = OperationId::new("acme", "charge/v1", "alice@example.org").unwrap();
        assert_eq!(format!("{id:?}"), r#"OperationId("acme", "charge/v1", 17 bytes)"#);
    }

    #[test]
    fn hexadecimal_round_trips() {
        assert_eq!(unhex::<3>(&hex(&[0, 0xab, 0xff])), Some([0, 0xab, 0xff]));
        assert_eq!(unhex::<1>("g0"), None);
        assert_eq!(unhex::<1>("0"), None);
    }
}
