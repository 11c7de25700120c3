//! Fingerprints and their kinds as text, for people, for the command and for stores.

use std::fmt;
use std::str::FromStr;

use super::{Fingerprint, FingerprintKind, Scheme};
use crate::error::{Error, Result};
use crate::key::{hex, unhex};

impl Scheme {
    /// All schemes.
    pub const ALL: [Self; 3] = [Self::Json, Self::Bytes, Self::Custom];

    /// The word for it: `json`, `bytes`, `custom`.
    ///
    /// ```
    /// assert_eq!(idem_core::Scheme::Json.name(), "json");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Bytes => "bytes",
            Self::Custom => "custom",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Scheme and version, and the key where there is one: `json/1`, `json/1/k7`.
impl fmt::Display for FingerprintKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.scheme, self.version)?;
        match self.key_id {
            Some(key_id) => write!(f, "/k{key_id}"),
            None => Ok(()),
        }
    }
}

/// The kind and the whole digest: `json/1:436a…`, `json/1/k7:436a…`. The digest of an intent that can be guessed gives
/// the intent away, so this is for trusted eyes; `Debug` shows the first digits only.
///
/// ```
/// use idem_core::Fingerprint;
///
/// let text = Fingerprint::bytes(b"").to_string();
/// assert_eq!(text, "bytes/1:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
/// assert_eq!(text.parse::<Fingerprint>()?, Fingerprint::bytes(b""));
/// # Ok::<(), idem_core::Error>(())
/// ```
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, hex(&self.digest))
    }
}

/// Reads what `Display` writes, in that spelling alone; anything else is `InvalidInput`.
impl FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        read(text).filter(|fingerprint| fingerprint.to_string() == text).ok_or_else(|| {
            Error::invalid_input(
                "a fingerprint is written as scheme/version:digest or scheme/version/kN:digest, with a digest of 64 \
                 hexadecimal digits",
            )
        })
    }
}

fn read(text: &str) -> Option<Fingerprint> {
    let (kind, digest) = text.split_once(':')?;
    let mut parts = kind.split('/');
    let name = parts.next()?;
    let scheme = Scheme::ALL.into_iter().find(|scheme| scheme.name() == name)?;
    let version = parts.next()?.parse().ok()?;
    let key_id = match parts.next() {
        Some(key) => Some(key.strip_prefix('k')?.parse().ok()?),
        None => None,
    };
    Some(Fingerprint::from_parts(scheme, version, key_id, unhex(digest)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_fingerprint_is_read_back(
            scheme in prop::sample::select(&Scheme::ALL[..]),
            version: u16,
            key_id: Option<u32>,
            digest: [u8; 32],
        ) {
            let fingerprint = Fingerprint::from_parts(scheme, version, key_id, digest);
            prop_assert_eq!(fingerprint.to_string().parse::<Fingerprint>().unwrap(), fingerprint);
        }
    }

    #[test]
    fn there_is_one_spelling() {
        let digest = hex(&[0xab; 32]);
        for good in ["json/1", "custom/65535/k4294967295", "bytes/0/k0"] {
            let text = format!("{good}:{digest}");
            assert_eq!(text.parse::<Fingerprint>().unwrap().to_string(), text);
        }
        let bad = [
            "JSON/1",
            "json/01",
            "json/+1",
            "json/65536",
            "json",
            "json/1/7",
            "json/1/k",
            "json/1/k7/",
            "xml/1",
            "",
        ];
        for bad in bad {
            assert!(format!("{bad}:{digest}").parse::<Fingerprint>().is_err(), "{bad}");
        }
        for bad in
            [&digest[1..], &digest.to_uppercase(), &format!("{digest}0"), &digest.replace('a', "g"), ""]
        {
            assert!(format!("json/1:{bad}").parse::<Fingerprint>().is_err(), "{bad}");
        }
        assert!(digest.parse::<Fingerprint>().is_err());
    }

    #[test]
    fn debug_is_short() {
        let fingerprint = Fingerprint::from_parts(Scheme::Json, 1, Some(7), [0xab; 32]);
        assert_eq!(format!("{fingerprint:?}"), "json/1/k7:abababab…");
    }
}
