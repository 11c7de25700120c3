//! Reads: from connections of their own, on snapshots that writers do not disturb.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use idem_core::transition::{Transition, Write};
use idem_core::{ErrorKind, Result};
use rusqlite::Connection;

use crate::config::SqliteConfig;
use crate::error::work;
use crate::group::Rules;
use crate::{schema, statements};

/// Connections for short reads.
pub(crate) struct Readers {
    connections: Box<[Mutex<Connection>]>,
    next: AtomicUsize,
}

impl Readers {
    pub(crate) fn open(config: &SqliteConfig) -> Result<Self> {
        let connections = (0..config.readers)
            .map(|_| {
                let connection = schema::open_reader(config)?;
                // A short read runs on its caller's thread, which must not wait for another process.
                connection.busy_timeout(Duration::ZERO).map_err(work)?;
                Ok(Mutex::new(connection))
            })
            .collect::<Result<_>>()?;
        Ok(Self { connections, next: AtomicUsize::new(0) })
    }

    /// Runs a short read on a connection that is free, or on the next one as soon as it is.
    pub(crate) fn read<R>(&self, run: impl Fn(&Connection) -> R) -> R {
        let count = self.connections.len();
        let first = self.next.load(Ordering::Relaxed) % count.max(1);
        let (before, from) = self.connections.split_at_checked(first).unwrap_or((&self.connections, &[]));
        for connection in from.iter().chain(before) {
            match connection.try_lock() {
                Ok(connection) => return run(&connection),
                Err(TryLockError::Poisoned(poisoned)) => return run(&poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        self.next.fetch_add(1, Ordering::Relaxed);
        let connection = from.first().or_else(|| before.first());
        #[allow(clippy::expect_used, reason = "there is at least one reader: the configuration sees to it")]
        let connection = connection.expect("a reader");
        run(&connection.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The answer to `request` if a snapshot that begins now decides it without a write. `None`: ask the writer, who
    /// decides again under the write lock.
    ///
    /// That is linearizable: the snapshot holds everything that was acknowledged before the call, and nothing that is
    /// not committed.
    ///
    /// Every caller looks first, however busy the writer is: a look in vain, as for a new operation, costs a thread that
    /// has time what a look that answers saves the one thread that everybody waits for.
    pub(crate) fn answer<T: Transition>(&self, request: &T, rules: &Rules) -> Option<Result<T::Answer>> {
        self.read(|connection| look(connection, request, rules))
    }
}

/// The answer to `request` if the record as it is now decides it without a write.
pub(crate) fn look<T: Transition>(
    connection: &Connection,
    request: &T,
    rules: &Rules,
) -> Option<Result<T::Answer>> {
    let found = match statements::find(connection, request.id()) {
        Ok(Some(found)) => found,
        Ok(None) => return None,
        Err(error) if error.kind() == ErrorKind::Corrupt => return Some(Err(error)),
        Err(_) => return None,
    };
    match request.apply(Some(&found.record), &rules.context()) {
        Ok(step) => matches!(step.write, Write::Keep).then_some(Ok(step.answer)),
        Err(error) => Some(Err(error)),
    }
}
