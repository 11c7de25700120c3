//! What each failure of SQLite means for the caller (G-50): one table.

use idem_core::{Error, ErrorKind};
use rusqlite::ffi;

/// When SQLite failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum During {
    /// Before COMMIT was sent: what failed is certainly not applied.
    Work,
    /// In COMMIT: it may be applied unless the code says otherwise.
    Commit,
}

/// Advice for a primary result code, and the kind that it has before COMMIT.
const fn meaning(primary: i32) -> (ErrorKind, &'static str) {
    match primary {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => (
            ErrorKind::Unavailable,
            "the database is locked by another process, for longer than the busy timeout: retry, and look for a \
             long transaction",
        ),
        ffi::SQLITE_PROTOCOL => {
            (ErrorKind::Unavailable, "the lock on the write-ahead log could not be had: retry")
        }
        ffi::SQLITE_FULL => (
            ErrorKind::Unavailable,
            "the disk (or the database's page limit) is full: nothing was applied; free some space and retry",
        ),
        ffi::SQLITE_NOMEM => {
            (ErrorKind::Unavailable, "SQLite has no memory left: nothing was applied; free some and retry")
        }
        ffi::SQLITE_IOERR => (
            ErrorKind::Unavailable,
            "reading or writing the database file failed: nothing was applied; look at the disk and retry",
        ),
        ffi::SQLITE_INTERRUPT | ffi::SQLITE_ABORT => {
            (ErrorKind::Unavailable, "the statement was interrupted: nothing was applied; retry")
        }
        ffi::SQLITE_READONLY => (
            ErrorKind::Configuration,
            "the database, or the directory for its -wal and -shm files, cannot be written: correct its permissions, \
             its mount, or reopen it if it was moved",
        ),
        ffi::SQLITE_CANTOPEN => (
            ErrorKind::Configuration,
            "the database file cannot be opened: correct its path, its directory, or their permissions",
        ),
        ffi::SQLITE_PERM | ffi::SQLITE_AUTH => {
            (ErrorKind::Configuration, "access to the database is denied: correct its permissions")
        }
        ffi::SQLITE_NOTADB => (
            ErrorKind::Configuration,
            "the file is not an SQLite database, or an encrypted one: correct the path",
        ),
        ffi::SQLITE_NOLFS => {
            (ErrorKind::Configuration, "the file system cannot hold a file of this size: move the database")
        }
        ffi::SQLITE_CORRUPT => (
            ErrorKind::Corrupt,
            "the database file is damaged: stop, copy it, run PRAGMA integrity_check, and restore a backup",
        ),
        _ => (ErrorKind::Internal, "SQLite refused a statement of the ledger"),
    }
}

/// The ledger's error for a failure of SQLite.
pub(crate) fn classify(error: rusqlite::Error, during: During) -> Error {
    let Some(code) = error.sqlite_error().map(|failure| failure.extended_code) else {
        // Everything else that rusqlite reports here is a value that a column cannot have.
        return Error::with_source(
            ErrorKind::Corrupt,
            "a stored row has a value that the ledger does not write: inspect it by hand",
            error,
        );
    };
    let primary = code & 0xff;
    let (kind, advice) = meaning(primary);
    if during == During::Work {
        return Error::with_source(kind, format!("{advice} (SQLite code {code})"), error);
    }
    // Busy and full leave nothing behind; whatever else happened, the log may hold the commit (G-72).
    let rolled_back = matches!(primary, ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_FULL);
    if rolled_back {
        return Error::with_source(ErrorKind::Unavailable, format!("{advice} (SQLite code {code})"), error);
    }
    Error::with_source(
        ErrorKind::Indeterminate,
        format!(
            "COMMIT failed with SQLite code {code}, so what was asked may have been applied: repeat it with the same \
             attempt, or read the record"
        ),
        error,
    )
}

/// Whether the error says that somebody else holds a lock now.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    primary_code(error) == Some(ffi::SQLITE_BUSY)
}

/// Whether a constraint failed.
pub(crate) fn is_constraint(error: &rusqlite::Error) -> bool {
    primary_code(error) == Some(ffi::SQLITE_CONSTRAINT)
}

fn primary_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|failure| failure.extended_code & 0xff)
}

/// For `map_err` on everything before COMMIT.
pub(crate) fn work(error: rusqlite::Error) -> Error {
    classify(error, During::Work)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn every_code_has_its_kind_before_commit_and_in_it() {
        use ErrorKind::{Configuration, Corrupt, Indeterminate, Internal, Unavailable};
        let table = [
            (ffi::SQLITE_BUSY, Unavailable, Unavailable),
            (ffi::SQLITE_BUSY_RECOVERY, Unavailable, Unavailable),
            (ffi::SQLITE_BUSY_SNAPSHOT, Unavailable, Unavailable),
            (ffi::SQLITE_LOCKED, Unavailable, Unavailable),
            (ffi::SQLITE_FULL, Unavailable, Unavailable),
            (ffi::SQLITE_PROTOCOL, Unavailable, Indeterminate),
            (ffi::SQLITE_NOMEM, Unavailable, Indeterminate),
            (ffi::SQLITE_IOERR, Unavailable, Indeterminate),
            (ffi::SQLITE_IOERR_FSYNC, Unavailable, Indeterminate),
            (ffi::SQLITE_IOERR_WRITE, Unavailable, Indeterminate),
            (ffi::SQLITE_INTERRUPT, Unavailable, Indeterminate),
            (ffi::SQLITE_READONLY, Configuration, Indeterminate),
            (ffi::SQLITE_READONLY_DBMOVED, Configuration, Indeterminate),
            (ffi::SQLITE_CANTOPEN, Configuration, Indeterminate),
            (ffi::SQLITE_NOTADB, Configuration, Indeterminate),
            (ffi::SQLITE_PERM, Configuration, Indeterminate),
            (ffi::SQLITE_AUTH, Configuration, Indeterminate),
            (ffi::SQLITE_CORRUPT, Corrupt, Indeterminate),
            (ffi::SQLITE_CORRUPT_INDEX, Corrupt, Indeterminate),
            (ffi::SQLITE_CONSTRAINT, Internal, Indeterminate),
            (ffi::SQLITE_ERROR, Internal, Indeterminate),
            (ffi::SQLITE_MISUSE, Internal, Indeterminate),
            (ffi::SQLITE_TOOBIG, Internal, Indeterminate),
            (255, Internal, Indeterminate),
        ];
        for (code, before, in_commit) in table {
            assert_eq!(classify(failure(code), During::Work).kind(), before, "code {code}");
            assert_eq!(classify(failure(code), During::Commit).kind(), in_commit, "code {code} in COMMIT");
        }
    }

    #[test]
    fn a_value_that_cannot_be_is_corrupt() {
        let error = rusqlite::Error::IntegralValueOutOfRange(0, -1);
        assert_eq!(classify(error, During::Work).kind(), ErrorKind::Corrupt);
    }
}
