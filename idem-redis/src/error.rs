//! What each failure of Redis means for the caller (G-50): one table.

use idem_core::{Error, ErrorKind};
use redis::RedisError;

/// What was being done when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum During {
    /// Making a connection: nothing was asked yet.
    Connect,
    /// Reading: nothing can have been applied.
    Read,
    /// A script that may write.
    Write,
}

/// Answers of the server that say that nothing was done, with what to do about them. A script is refused before its
/// first write, or not at all.
const REFUSALS: &[(&str, ErrorKind, &str)] = &[
    ("LOADING", ErrorKind::Unavailable, "Redis is loading its data: retry"),
    (
        "BUSY",
        ErrorKind::Unavailable,
        "Redis is busy with a script of somebody: retry, and look for that script",
    ),
    (
        "OOM",
        ErrorKind::Unavailable,
        "Redis has no memory left (maxmemory): nothing was applied; give it more, or sweep",
    ),
    (
        "MISCONF",
        ErrorKind::Unavailable,
        "Redis cannot write to its disk and refuses writes: nothing was applied; look at its log and its disk",
    ),
    (
        "NOREPLICAS",
        ErrorKind::Unavailable,
        "Redis has fewer replicas than min-replicas-to-write: nothing was applied; look at the replicas",
    ),
    ("READONLY", ErrorKind::Unavailable, "this Redis is a replica, perhaps after a failover: retry"),
    ("MASTERDOWN", ErrorKind::Unavailable, "this Redis is a replica and has lost its master: retry"),
    (
        "CLUSTERDOWN",
        ErrorKind::Unavailable,
        "the Redis cluster does not serve this key now: retry, and look at its nodes",
    ),
    ("TRYAGAIN", ErrorKind::Unavailable, "the key is being moved to another node: retry"),
    (
        "MOVED",
        ErrorKind::Unavailable,
        "the key is on another node: retry, and use a redis+cluster:// URL for a cluster",
    ),
    ("ASK", ErrorKind::Unavailable, "the key is being moved to another node: retry"),
    ("NOAUTH", ErrorKind::Configuration, "Redis asks for a password: put it into the URL"),
    ("WRONGPASS", ErrorKind::Configuration, "Redis refuses the user or the password: correct the URL"),
    ("NOPROTO", ErrorKind::Configuration, "Redis does not speak this protocol: leave it out of the URL"),
    (
        "NOPERM",
        ErrorKind::Configuration,
        "the user of this connection may not use a command or a key that the ledger needs: see README.md for the list",
    ),
    (
        "WRONGTYPE",
        ErrorKind::Corrupt,
        "a key of the ledger holds something that is not a record: something else writes under its prefix",
    ),
];

/// The ledger's error for a failure of Redis.
pub(crate) fn classify(error: RedisError, during: During) -> Error {
    let refusal = error.code().and_then(|code| REFUSALS.iter().find(|(known, ..)| *known == code));
    if let Some((code, kind, advice)) = refusal {
        return Error::with_source(*kind, format!("{advice} (Redis error {code})"), error);
    }
    match (during, error.kind()) {
        (_, redis::ErrorKind::InvalidClientConfig) => {
            Error::with_source(ErrorKind::Configuration, "the Redis URL cannot be used", error)
        }
        (During::Connect, redis::ErrorKind::AuthenticationFailed) => Error::with_source(
            ErrorKind::Configuration,
            "Redis refuses the user or the password: correct the URL",
            error,
        ),
        (During::Connect, _) => Error::with_source(
            ErrorKind::Unavailable,
            "Redis cannot be reached: nothing was asked; retry",
            error,
        ),
        (During::Read, _) => {
            Error::with_source(ErrorKind::Unavailable, "Redis did not answer a read: retry", error)
        }
        (During::Write, _) => Error::with_source(
            ErrorKind::Indeterminate,
            "Redis did not answer, so what was asked may have been applied: repeat it with the same attempt, or read \
             the record",
            error,
        ),
    }
}

/// Whether the server does not know the script that was named by its hash.
pub(crate) fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::NoScript)
}

/// Whether the connection is to be replaced: it is broken, silent, or leads to a server that takes no writes.
pub(crate) fn wants_another_connection(error: &RedisError) -> bool {
    error.is_unrecoverable_error()
        || error.is_io_error()
        || matches!(error.code(), Some("READONLY" | "MASTERDOWN"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> RedisError {
        redis::parse_redis_value(line.as_bytes()).and_then(redis::Value::extract_error).unwrap_err()
    }

    #[test]
    fn every_refusal_has_its_kind_whatever_was_done() {
        for (code, kind, _) in REFUSALS {
            let error = said(&format!("-{code} 1234 127.0.0.1:1\r\n"));
            for during in [During::Connect, During::Read, During::Write] {
                assert_eq!(classify(error.clone(), during).kind(), *kind, "{code} {during:?}");
            }
        }
    }

    #[test]
    fn what_is_unknown_may_have_been_applied_if_it_was_a_write() {
        let lost = || RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        for error in [lost(), said("-ERR user_script:1: something\r\n"), said("-NEWCODE what\r\n")] {
            assert_eq!(classify(error.clone(), During::Connect).kind(), ErrorKind::Unavailable);
            assert_eq!(classify(error.clone(), During::Read).kind(), ErrorKind::Unavailable);
            assert_eq!(classify(error, During::Write).kind(), ErrorKind::Indeterminate);
        }
    }

    #[test]
    fn a_silent_or_demoted_server_is_left() {
        assert!(wants_another_connection(&std::io::Error::from(std::io::ErrorKind::TimedOut).into()));
        assert!(wants_another_connection(&said(
            "-READONLY You can't write against a read only replica.\r\n"
        )));
        assert!(!wants_another_connection(&said("-OOM no memory\r\n")));
        assert!(is_unknown_script(&said("-NOSCRIPT No matching script.\r\n")));
    }
}
