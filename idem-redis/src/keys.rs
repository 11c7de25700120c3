//! The names of keys.

use idem_core::{OperationId, Result};

use crate::row::damaged;

/// The key of operation `id`: `PREFIX:{ID}`, where the braces are a hash tag, so that everything about an operation is in
/// one slot of a cluster. Braces and percent signs in the id are escaped: a caller's key can neither end the tag nor move
/// itself to a slot of its choice with one of its own.
pub(crate) fn key(prefix: &str, id: &OperationId) -> Vec<u8> {
    let encoded = id.encode();
    let mut key = Vec::with_capacity(prefix.len() + 3 + encoded.len());
    key.extend_from_slice(prefix.as_bytes());
    key.extend_from_slice(b":{");
    push_escaped(&mut key, &encoded);
    key.push(b'}');
    key
}

fn push_escaped(bytes: &mut Vec<u8>, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'{' => bytes.extend_from_slice(b"%7B"),
            b'}' => bytes.extend_from_slice(b"%7D"),
            b'%' => bytes.extend_from_slice(b"%25"),
            byte => bytes.push(byte),
        }
    }
}

/// The operation whose key this is.
///
/// # Errors
///
/// `Corrupt` for a key under the prefix that [`key`] does not give.
pub(crate) fn id_of(prefix: &str, key: &[u8]) -> Result<OperationId> {
    let strange = || damaged("a key under the ledger's prefix is not one of its keys");
    let text = std::str::from_utf8(key).map_err(|_| strange())?;
    let tag = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(":{"));
    let escaped = tag.and_then(|tag| tag.strip_suffix('}')).ok_or_else(strange)?;
    let encoded = escaped.replace("%7B", "{").replace("%7D", "}").replace("%25", "%");
    let id = OperationId::decode(&encoded)?;
    if self::key(prefix, &id) == key { Ok(id) } else { Err(strange()) }
}

/// The pattern of all keys with this prefix, and with this tenant and operation if they are given.
pub(crate) fn pattern(prefix: &str, tenant: Option<&str>, operation: Option<&str>) -> Vec<u8> {
    let mut pattern = prefix.as_bytes().to_vec();
    pattern.extend_from_slice(b":{");
    match (tenant, operation) {
        (Some(tenant), Some(operation)) => {
            pattern.extend_from_slice(format!("{}.{}.", tenant.len(), operation.len()).as_bytes());
            push_literal(&mut pattern, tenant);
            push_literal(&mut pattern, operation);
        }
        (Some(tenant), None) => {
            pattern.extend_from_slice(format!("{}.*.", tenant.len()).as_bytes());
            push_literal(&mut pattern, tenant);
        }
        (None, _) => {}
    }
    pattern.extend_from_slice(b"*}");
    pattern
}

fn push_literal(pattern: &mut Vec<u8>, text: &str) {
    let mut escaped = Vec::new();
    push_escaped(&mut escaped, text);
    for byte in escaped {
        if b"*?[]\\^-".contains(&byte) {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_has_one_tag_whatever_is_in_the_id() {
        for text in ["k", "}", "{", "{}", "}{", "%7B", "%", "a{b}c", "\u{1f980}", "*?[x]\\", "%257D"] {
            let id = OperationId::new(text, "o", text).unwrap();
            let key = key("idem", &id);
            assert_eq!(id_of("idem", &key).unwrap(), id);
            let count = |wanted| key.iter().filter(|byte| **byte == wanted).count();
            assert_eq!((count(b'{'), count(b'}'), key.last()), (1, 1, Some(&b'}')), "{text}");
        }
    }

    #[test]
    fn keys_of_others_are_refused() {
        for key in [&b"idem:{1.1.tok}x"[..], b"idem:1.1.tok", b"idem:{9.9.tok}", b"idem:{1.1.t%7dk}", b"\xff"]
        {
            assert!(id_of("idem", key).is_err(), "{key:?}");
        }
        assert!(id_of("other", b"idem:{1.1.tok}").is_err());
    }
}
