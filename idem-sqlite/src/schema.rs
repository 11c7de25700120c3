//! Opening the file: checks, pragmas, the write-ahead log, and migrations that many processes may start at once.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use idem_core::{Error, Result};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};

use crate::config::SqliteConfig;
use crate::error::{is_busy, work};
use crate::place;

/// The migrations, in order; the schema's version is how many were applied.
const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_operations.sql")];

/// Pages in the write-ahead log at which it is written back to the database.
pub(crate) const CHECKPOINT_PAGES: i32 = 16_000;

/// Bytes of the log's file that stay for reuse after that: overwriting is faster than appending.
const JOURNAL_BYTES: u64 = CHECKPOINT_PAGES.unsigned_abs() as u64 * 4096;

/// Statements that stay prepared on a connection.
const STATEMENTS_MAX: usize = 64;

/// What tells one ledger file from another.
pub(crate) type Instance = Vec<u8>;

/// How long to go on trying what another process prevents. It has a clock of its own: no injected clock moves another
/// process.
#[derive(Debug)]
pub(crate) struct Patience {
    until: Instant,
    turns: u32,
}

#[allow(clippy::disallowed_methods, reason = "this waits for other processes, which no injected clock moves")]
impl Patience {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { until: Instant::now() + timeout, turns: 0 }
    }

    /// Waits a little; `false` when the time is over. Short turns, because a writer with much to do leaves the lock
    /// for a fraction of a millisecond at a time.
    pub(crate) fn wait(&mut self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        self.turns = self.turns.saturating_add(1);
        // Uneven turns, so that processes which wait together do not wake together.
        let uneven = u64::from(self.turns.wrapping_mul(2_654_435_761) >> 22);
        let micros = if self.turns < 4 { 100 } else { 500 + uneven };
        std::thread::sleep(Duration::from_micros(micros));
        true
    }
}

/// Opens the file for writing, makes or migrates the schema, and gives its instance.
pub(crate) fn open_writer(config: &SqliteConfig) -> Result<(Connection, Instance)> {
    config.check()?;
    let path = place::checked(config)?;
    if !config.existing {
        create_private(&path)?;
    } else if !path.exists() {
        return Err(no_ledger(&path));
    }
    let connection = open(config)?;
    // Before anything is changed: the file may be somebody else's.
    if config.existing && version(&connection)? == 0 {
        return Err(no_ledger(&path));
    }
    use_write_ahead_log(&connection, config.busy_timeout)?;
    migrate(&connection)?;
    let instance = instance(&connection)?;
    // From here on a lock is waited for with `Patience`, or not at all.
    connection.busy_timeout(Duration::ZERO).map_err(work)?;
    Ok((connection, instance))
}

fn no_ledger(path: &Path) -> Error {
    Error::configuration(format!("there is no ledger in {}: name the file of one", path.display()))
}

/// Opens the file for reading, after [`open_writer`].
pub(crate) fn open_reader(config: &SqliteConfig) -> Result<Connection> {
    let connection = open(config)?;
    connection.execute_batch("PRAGMA query_only = ON").map_err(work)?;
    Ok(connection)
}

/// Opens a file that is there, with the settings that every connection has.
pub(crate) fn open(config: &SqliteConfig) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(place::absolute(config)?, flags).map_err(work)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.busy_timeout(config.busy_timeout).map_err(work)?;
    let synchronous = config.synchronous.pragma();
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON; \
             PRAGMA journal_size_limit = {JOURNAL_BYTES}"
        ))
        .map_err(work)?;
    Ok(connection)
}

/// Held while a missing file is made: closing a file gives up all of this process's locks on it, also those that a
/// connection of another thread has taken meanwhile.
static CREATING: Mutex<()> = Mutex::new(());

/// Makes a missing file that only its owner can read, since bodies may be private; SQLite gives its -wal and -shm
/// files the same mode. A file that is there is not opened, and keeps its mode.
fn create_private(path: &Path) -> Result<()> {
    let _creating = CREATING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    match options.open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::with_source(
            idem_core::ErrorKind::Configuration,
            format!("the database file {} cannot be made: {error}", path.display()),
            error,
        )),
    }
}

/// Switches the file to a write-ahead log. Under contention the switch answers "busy" without waiting, whatever the
/// busy timeout is.
fn use_write_ahead_log(connection: &Connection, timeout: Duration) -> Result<()> {
    let mut patience = Patience::new(timeout);
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(mode) => {
                return Err(Error::configuration(format!(
                    "this file cannot have a write-ahead log (its journal mode stays {mode}): put it on a local file \
                     system, and not in memory"
                )));
            }
            Err(error) if is_busy(&error) && patience.wait() => {}
            Err(error) => return Err(work(error)),
        }
    }
}

/// Applies the migrations that are missing, in one write transaction. The write lock is taken only if there are any.
fn migrate(connection: &Connection) -> Result<()> {
    if version(connection)? == latest() {
        return Ok(());
    }
    let transaction =
        rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate).map_err(work)?;
    // Another process may have been faster.
    let applied = version(&transaction)?;
    for (migration, number) in MIGRATIONS.iter().zip(1_i64..).skip_while(|(_, number)| *number <= applied) {
        transaction.execute_batch(migration).map_err(work)?;
        transaction.execute("UPDATE idem_schema SET version = ?1", [number]).map_err(work)?;
    }
    transaction.commit().map_err(work)
}

const fn latest() -> i64 {
    #[allow(clippy::cast_possible_wrap, reason = "there are few migrations")]
    {
        MIGRATIONS.len() as i64
    }
}

/// How many migrations were applied. The ledger has a table for it: `user_version` belongs to the application whose
/// tables may be in the same file.
fn version(connection: &Connection) -> Result<i64> {
    let exists = connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'idem_schema'",
            [],
            |_| Ok(()),
        )
        .optional()
        .map_err(work)?;
    if exists.is_none() {
        return Ok(0);
    }
    let version: i64 =
        connection.query_row("SELECT version FROM idem_schema", [], |row| row.get(0)).map_err(work)?;
    if version > latest() {
        return Err(Error::configuration(format!(
            "the ledger in this file has schema version {version}, and this program knows versions up to {}: it was \
             migrated by a newer version of idem; upgrade this program",
            latest()
        )));
    }
    Ok(version)
}

/// The instance of the ledger that a connection sees.
///
/// # Errors
///
/// `Configuration` when there is none, or one of another version.
pub(crate) fn instance(connection: &Connection) -> Result<Instance> {
    let found: rusqlite::Result<(i64, Instance)> = connection
        .prepare_cached("SELECT version, instance FROM main.idem_schema")
        .and_then(|mut statement| statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))));
    match found {
        Ok((version, instance)) if version == latest() => Ok(instance),
        Ok((version, _)) => Err(Error::configuration(format!(
            "the ledger that this connection sees has schema version {version}, not {}: open it with one version of \
             idem",
            latest()
        ))),
        Err(error) if is_missing_table(&error) => Err(Error::configuration(
            "this connection's main database has no ledger in it: open the file of the SqliteStore",
        )),
        Err(error) => Err(work(error)),
    }
}

fn is_missing_table(error: &rusqlite::Error) -> bool {
    let generic =
        error.sqlite_error().is_some_and(|failure| failure.extended_code == rusqlite::ffi::SQLITE_ERROR);
    generic && error.to_string().contains("no such table")
}
