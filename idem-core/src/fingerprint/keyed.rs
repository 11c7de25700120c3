//! Fingerprints that only the holder of a key can compute (G-04).

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::Fingerprint;
use crate::error::{Error, Result};

/// A secret for [`Fingerprint::keyed`], and the number that tells which one it is.
///
/// To change the secret, give the new one another id: during the rollout claims carry a fingerprint under each
/// ([`Fingerprints`](super::Fingerprints)), and records keep the one that they were made with (G-05). `Debug` shows the
/// id alone.
#[derive(Clone)]
pub struct FingerprintKey {
    id: u32,
    /// HMAC after it took in the secret, which itself is not kept.
    hmac: Hmac<Sha256>,
}

impl FingerprintKey {
    /// The fewest bytes in a secret.
    pub const SECRET_BYTES_MIN: usize = 16;

    /// The key `id` of this `secret`: at least 16 bytes from a random generator, better 32. Not a password.
    ///
    /// ```
    /// use idem_core::FingerprintKey;
    ///
    /// let key = FingerprintKey::new(7, b"0123456789abcdef0123456789abcdef")?;
    /// assert_eq!(key.id(), 7);
    /// assert_eq!(format!("{key:?}"), "FingerprintKey(7)");
    /// assert!(FingerprintKey::new(8, b"short").is_err());
    /// # Ok::<(), idem_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Configuration` for a shorter secret.
    pub fn new(id: u32, secret: &[u8]) -> Result<Self> {
        if secret.len() < Self::SECRET_BYTES_MIN {
            return Err(Error::configuration(format!(
                "the secret of fingerprint key {id} has {} bytes: give at least {} random ones (G-04)",
                secret.len(),
                Self::SECRET_BYTES_MIN
            )));
        }
        let hmac = Hmac::new_from_slice(secret)
            .map_err(|_| Error::internal("HMAC refuses a secret, although it takes any length"))?;
        Ok(Self { id, hmac })
    }

    /// Which key it is.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FingerprintKey({})", self.id)
    }
}

impl Fingerprint {
    /// The same fingerprint under `key`: its digest becomes HMAC-SHA-256 of the digest, and its kind names the key.
    ///
    /// A plain digest of an intent that can be guessed (an amount, a short form) gives the intent away to whoever can
    /// read the store. Key what was not keyed before: keying twice takes both secrets to compute and names the last.
    ///
    /// ```
    /// use idem_core::{Fingerprint, FingerprintKey};
    ///
    /// let key = FingerprintKey::new(7, b"0123456789abcdef0123456789abcdef")?;
    /// let keyed = Fingerprint::bytes(b"10 EUR").keyed(&key);
    /// assert_eq!(keyed.kind().key_id, Some(7));
    /// assert_ne!(keyed.digest(), Fingerprint::bytes(b"10 EUR").digest());
    /// # Ok::<(), idem_core::Error>(())
    /// ```
    #[must_use]
    pub fn keyed(mut self, key: &FingerprintKey) -> Self {
        let mut hmac = key.hmac.clone();
        hmac.update(&self.digest);
        self.digest = hmac.finalize().into_bytes().into();
        self.kind.key_id = Some(key.id);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::unhex;

    /// Made with another implementation (Python's `hmac`), over the SHA-256 digest of `10 EUR`.
    const KEYED: &str = "d5900e15f58fd27a945cb1e036a4d42e5b3d600eeb4978855371a6959ce484bb";
    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    #[test]
    fn a_keyed_digest_is_hmac_sha_256_of_the_digest() {
        let plain = Fingerprint::bytes(b"10 EUR");
        let keyed = plain.keyed(&FingerprintKey::new(7, SECRET).unwrap());
        assert_eq!(keyed.digest(), &unhex::<32>(KEYED).unwrap());
        assert_eq!(plain.version(3).keyed(&FingerprintKey::new(7, SECRET).unwrap()), keyed.version(3));
    }

    #[test]
    fn keys_are_told_apart_by_id_and_by_secret() {
        let key = |id, secret| FingerprintKey::new(id, secret).unwrap();
        let other = b"0123456789abcdef0123456789abcdeF";
        let plain = Fingerprint::bytes(b"10 EUR");
        assert_ne!(plain.keyed(&key(7, SECRET)), plain.keyed(&key(8, SECRET)));
        assert_ne!(plain.keyed(&key(7, SECRET)), plain.keyed(&key(7, other)));
        assert_ne!(plain.keyed(&key(7, SECRET)), plain);
    }

    #[test]
    fn secrets_are_not_shown_and_not_short() {
        let key = FingerprintKey::new(7, SECRET).unwrap();
        assert_eq!(format!("{key:?}"), "FingerprintKey(7)");
        let error = FingerprintKey::new(7, &SECRET[..15]).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Configuration);
        assert!(FingerprintKey::new(7, &SECRET[..16]).is_ok());
    }
}
