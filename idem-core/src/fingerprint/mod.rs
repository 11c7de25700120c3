//! The fingerprint of the immutable intent (G-04, G-05).

mod json;
mod keyed;
mod text;

use std::fmt;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

pub use keyed::FingerprintKey;

/// How the bytes under a fingerprint's digest were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Scheme {
    /// The RFC 8785 canonical form of a JSON value.
    Json,
    /// Raw bytes.
    Bytes,
    /// A digest that the application made in its own way.
    Custom,
}

/// Which fingerprints can be compared with each other: scheme, version and key (G-05).
///
/// The version is the application's: raise it when the projection that is fingerprinted changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct FingerprintKind {
    /// How the bytes were made.
    pub scheme: Scheme,
    /// The version of the projection; 1 unless set.
    pub version: u16,
    /// Which HMAC key, where the digest is keyed.
    pub key_id: Option<u32>,
}

/// A digest of what the caller wants, by which a reused key with another intent is found out (G-04).
///
/// Made from [JSON](Self::json), [JSON text](Self::json_text), [raw bytes](Self::bytes) or a digest of
/// [your own](Self::custom), and [keyed](Self::keyed) where the intent can be guessed.
///
/// ```
/// use idem_core::Fingerprint;
///
/// assert_ne!(Fingerprint::bytes(b"a"), Fingerprint::bytes(b"b"));
/// assert_ne!(Fingerprint::bytes(b"a"), Fingerprint::bytes(b"a").version(2));
/// ```
#[doc(alias("request_hash", "payload_hash"))]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    kind: FingerprintKind,
    digest: [u8; 32],
}

impl Fingerprint {
    /// The fingerprint of raw bytes.
    #[must_use]
    pub fn bytes(bytes: &[u8]) -> Self {
        Self::from_parts(Scheme::Bytes, 1, None, Sha256::digest(bytes).into())
    }

    /// A digest that the application made itself.
    #[must_use]
    pub const fn custom(digest: [u8; 32]) -> Self {
        Self::from_parts(Scheme::Custom, 1, None, digest)
    }

    /// A fingerprint from stored parts.
    #[must_use]
    pub const fn from_parts(scheme: Scheme, version: u16, key_id: Option<u32>, digest: [u8; 32]) -> Self {
        Self { kind: FingerprintKind { scheme, version, key_id }, digest }
    }

    /// The same digest under another version of the application's projection.
    #[must_use]
    pub const fn version(mut self, version: u16) -> Self {
        self.kind.version = version;
        self
    }

    /// Scheme, version and key id.
    #[must_use]
    pub const fn kind(&self) -> FingerprintKind {
        self.kind
    }

    /// The digest.
    #[must_use]
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// Shows the kind and the first digits only: a digest of a guessable value gives the value away.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = self.digest.get(..4).unwrap_or_default();
        write!(f, "{}:{}…", self.kind, crate::key::hex(short))
    }
}

/// The 1 to 4 fingerprints that a claim carries, one per kind (G-05).
///
/// A new record stores the first; a comparison uses the one of the record's kind, and none of that kind is a conflict.
/// During a rollout of a new version every process accepts both before any process writes the new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprints {
    first: Fingerprint,
    others: [Option<Fingerprint>; 3],
}

impl Fingerprints {
    /// The most fingerprints in a claim.
    pub const MAX: usize = 4;

    /// `first` is what a new record stores; `others` are also accepted.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for more than 4, or two of one kind.
    pub fn new(first: Fingerprint, others: &[Fingerprint]) -> Result<Self> {
        let mut all = Self { first, others: [None; 3] };
        if others.len() >= Self::MAX {
            return Err(Error::invalid_input("a claim carries 1 to 4 fingerprints (G-05)"));
        }
        for (index, other) in others.iter().enumerate() {
            if all.iter().any(|earlier| earlier.kind == other.kind) {
                return Err(Error::invalid_input(
                    "a claim carries one fingerprint per scheme, version and key id (G-05)",
                ));
            }
            if let Some(slot) = all.others.get_mut(index) {
                *slot = Some(*other);
            }
        }
        Ok(all)
    }

    /// The one that a new record stores.
    #[must_use]
    pub const fn first(&self) -> &Fingerprint {
        &self.first
    }

    /// All of them, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = &Fingerprint> {
        std::iter::once(&self.first).chain(self.others.iter().flatten())
    }

    /// Whether these agree with a stored fingerprint. A forgotten one agrees with all (section 11).
    #[must_use]
    pub fn agree_with(&self, stored: Option<&Fingerprint>) -> bool {
        stored.is_none_or(|stored| self.iter().any(|own| own == stored))
    }
}

impl From<Fingerprint> for Fingerprints {
    fn from(first: Fingerprint) -> Self {
        Self { first, others: [None; 3] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_carries_one_fingerprint_of_a_kind() {
        let one = Fingerprint::bytes(b"1");
        let many: Vec<_> = (2..=5).map(|version| one.version(version)).collect();
        assert!(Fingerprints::new(one, &[Fingerprint::bytes(b"2")]).is_err());
        assert!(Fingerprints::new(one, &many).is_err());
        let all = Fingerprints::new(one, &many[..3]).unwrap();
        assert_eq!(all.iter().count(), 4);
        assert!(all.agree_with(None));
        assert!(all.agree_with(Some(&one.version(3))));
        assert!(!all.agree_with(Some(&one.version(9))), "no fingerprint of the record's kind is a conflict");
        assert!(!all.agree_with(Some(&Fingerprint::bytes(b"2").version(3))));
    }
}
