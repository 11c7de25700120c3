//! Fingerprints of JSON: SHA-256 of the RFC 8785 canonical form (G-04).

mod number;
mod parser;
mod serializer;
mod writer;

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Fingerprint, Scheme};
use crate::error::{Error, Result};
use serializer::{Place, Serializer};
use writer::Writer;

/// How deep arrays and objects may be nested.
const DEPTH_MAX: usize = 128;

impl Fingerprint {
    /// The fingerprint of a value as JSON: SHA-256 of its RFC 8785 canonical form.
    ///
    /// Give it a *projection*: what makes two requests the same intent, and nothing that differs between two sendings
    /// of one intent (time stamps, trace ids, attempt counters). The order of fields and of map entries does not
    /// count; that of array elements does. The value has the shape that `serde_json` would give it, and the
    /// fingerprint is that of [`json_text`](Self::json_text) on `serde_json`'s text.
    ///
    /// ```
    /// use idem_core::Fingerprint;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Charge<'a> {
    ///     order: &'a str,
    ///     amount_cents: u64,
    /// }
    ///
    /// let one = Fingerprint::json(&Charge { order: "418", amount_cents: 1250 })?;
    /// assert_eq!(one, Fingerprint::json_text(r#"{ "amount_cents": 1250, "order": "418" }"#)?);
    /// assert_ne!(one, Fingerprint::json(&Charge { order: "418", amount_cents: 1251 })?);
    /// assert!(Fingerprint::json(&Charge { order: "418", amount_cents: u64::MAX }).is_err());
    /// # Ok::<(), idem_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput`, never a rounded or shortened value, for:
    ///
    /// - a number beyond 2^53 - 1 in either direction, of whatever type: write it as a string;
    /// - NaN and infinity, at any depth;
    /// - two members of one name, from a map or from `#[serde(flatten)]`;
    /// - a map key that is no text, integer, boolean or unit variant;
    /// - nesting deeper than 128 arrays and objects;
    /// - an error of the value's own `Serialize`.
    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        Self::of_canonical(|writer| value.serialize(Serializer { writer, place: Place::Value }))
    }

    /// The fingerprint of JSON text: SHA-256 of its RFC 8785 canonical form. White space, the order of members and the
    /// spelling of strings and numbers do not count.
    ///
    /// ```
    /// use idem_core::Fingerprint;
    ///
    /// let one = Fingerprint::json_text(r#"{"order": "418", "amount": 12.50}"#)?;
    /// assert_eq!(one, Fingerprint::json_text(r#"{"amount":1.25e1,"order":"\u00341\u0038"}"#)?);
    /// assert!(Fingerprint::json_text(r#"{"amount": 1, "amount": 2}"#).is_err());
    /// assert!(Fingerprint::json_text("9007199254740993").is_err());
    /// # Ok::<(), idem_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput`, with the position, for everything that is not exactly one JSON value (RFC 8259), and for:
    ///
    /// - two members of one name, at any depth;
    /// - a number beyond 2^53 - 1 in either direction, however it is spelt, and one with more digits than a double
    ///   holds (`0.10` is `0.1`, and `0.10000000000000001` is refused): write it as a string;
    /// - half of a surrogate pair;
    /// - nesting deeper than 128 arrays and objects.
    pub fn json_text(text: &str) -> Result<Self> {
        Self::of_canonical(|writer| parser::text(writer, text))
    }

    fn of_canonical(write: impl FnOnce(&mut Writer) -> std::result::Result<(), Refusal>) -> Result<Self> {
        Ok(Self::from_parts(Scheme::Json, 1, None, Sha256::digest(canonical(write)?).into()))
    }
}

fn canonical(write: impl FnOnce(&mut Writer) -> std::result::Result<(), Refusal>) -> Result<Vec<u8>> {
    let mut writer = Writer::new();
    match write(&mut writer) {
        Ok(()) => Ok(writer.into_bytes()),
        Err(Refusal(why)) => {
            Err(Error::invalid_input(format!("this JSON cannot be fingerprinted: {why} (G-04)")))
        }
    }
}

/// Why a value has no canonical form.
struct Refusal(Cow<'static, str>);

impl Refusal {
    #[cold]
    const fn new(why: &'static str) -> Self {
        Self(Cow::Borrowed(why))
    }

    fn at(self, position: usize) -> Self {
        Self(format!("{} at byte {position}", self.0).into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Refusal {}

impl serde::ser::Error for Refusal {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string().into())
    }
}

#[cfg(test)]
mod tests;
