//! The connection that writes: one transaction at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use idem_core::request::Release;
use idem_core::wake::Bells;
use idem_core::{Error, Result};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::{During, classify, is_busy, is_constraint, work};
use crate::group::{Group, Rules};
use crate::ran::{Ran, fail, give};
use crate::schema::{CHECKPOINT_PAGES, Patience};
use crate::writer::{Job, Shared};

/// After a rollback at COMMIT that was the fault of some closure, this many groups take one closure each, so that the
/// guilty one is found.
const SUSPICIOUS_GROUPS: u32 = 64;

/// The connection that writes.
pub(crate) struct Session {
    connection: Connection,
    /// Pages in the write-ahead log after the last commit, whoever wrote them.
    log_pages: Arc<AtomicI32>,
    /// The log is to be written back whenever it has so many pages.
    pub(crate) checkpoint_pages: i32,
    /// When it has so many next time: more, after a reader was in the way.
    pub(crate) checkpoint_at: i32,
    suspicious_groups: u32,
    /// While it is set, statements that would break the group are refused.
    closure_runs: Arc<AtomicBool>,
    /// The next COMMITs fail with this code, after it was rolled back.
    #[cfg(test)]
    pub(crate) commit_fails: Option<i32>,
}

/// What a closure in a group may do: everything with its own tables, nothing with the transaction, the connection or
/// other files. Asked when a statement is prepared.
fn judge(action: AuthAction<'_>) -> Authorization {
    let allowed = match action {
        AuthAction::Transaction { .. } | AuthAction::Attach { .. } | AuthAction::Detach { .. } => false,
        AuthAction::Savepoint { savepoint_name, .. } => !savepoint_name.eq_ignore_ascii_case(SAVEPOINT),
        // Reading a setting is harmless; changing one outlives the closure, but for these.
        AuthAction::Pragma { pragma_name, pragma_value } => {
            pragma_value.is_none() || PRAGMAS.iter().any(|name| pragma_name.eq_ignore_ascii_case(name))
        }
        _ => true,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

/// The savepoint around a closure.
pub(crate) const SAVEPOINT: &str = "idem_closure";

/// Pragmas whose argument names something to look at, or that end with the transaction.
const PRAGMAS: &[&str] = &[
    "table_info",
    "table_xinfo",
    "table_list",
    "index_info",
    "index_xinfo",
    "index_list",
    "foreign_key_list",
    "foreign_key_check",
    "defer_foreign_keys",
    "user_version",
    "application_id",
];

/// A COMMIT that failed.
enum NotCommitted {
    /// Nobody's answer holds (G-72).
    Failed(Error),
    /// A constraint that is checked at COMMIT failed, and all was rolled back.
    Constraint(rusqlite::Error),
}

impl From<NotCommitted> for Error {
    fn from(failed: NotCommitted) -> Self {
        match failed {
            NotCommitted::Failed(error) => error,
            NotCommitted::Constraint(error) => work(error),
        }
    }
}

impl Session {
    pub(crate) fn new(mut connection: Connection) -> Result<Self> {
        let log_pages = Arc::new(AtomicI32::new(0));
        let pages = Arc::clone(&log_pages);
        // This takes the place of SQLite's automatic checkpoint, which would run inside some caller's COMMIT.
        connection
            .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count: i32| {
                pages.store(count, Ordering::Relaxed);
                Ok(())
            }))
            .map_err(work)?;
        let closure_runs = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&closure_runs);
        connection
            .authorizer(Some(move |context: AuthContext<'_>| {
                if runs.load(Ordering::Relaxed) { judge(context.action) } else { Authorization::Allow }
            }))
            .map_err(work)?;
        Ok(Self {
            connection,
            log_pages,
            checkpoint_pages: CHECKPOINT_PAGES,
            checkpoint_at: CHECKPOINT_PAGES,
            suspicious_groups: 0,
            closure_runs,
            #[cfg(test)]
            commit_fails: None,
        })
    }

    #[cfg(test)]
    pub(crate) const fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Begins a write transaction (G-72); busy is not waited for.
    fn begin(&self) -> rusqlite::Result<Transaction<'_>> {
        if !self.connection.is_autocommit() {
            // A rollback failed before; nothing goes on before it succeeds.
            self.connection.execute_batch("ROLLBACK")?;
        }
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
    }

    /// Begins a write transaction as soon as no other process holds the lock. Meanwhile it answers what needs no write,
    /// so that a replay does not wait for somebody's long transaction.
    fn begin_patiently(&self, shared: &Shared, jobs: &mut Vec<Job>) -> rusqlite::Result<Transaction<'_>> {
        let mut patience = Patience::new(shared.busy_timeout());
        let mut looked_at = 0;
        loop {
            match self.begin() {
                Err(error) if is_busy(&error) => {
                    let new = jobs.split_off(looked_at.min(jobs.len()));
                    for mut job in new {
                        if job.request_mut().look(&self.connection, &shared.rules) {
                            give(job);
                        } else {
                            jobs.push(job);
                        }
                    }
                    looked_at = jobs.len();
                    if jobs.is_empty() || !patience.wait() {
                        return Err(error);
                    }
                    shared.more(jobs);
                }
                begun => return begun,
            }
        }
    }

    /// Commits.
    fn commit(&self, transaction: Transaction<'_>) -> Result<(), NotCommitted> {
        let Err(error) = self.try_commit(&transaction) else { return Ok(()) };
        // Still open means certainly not committed.
        let open = !transaction.is_autocommit();
        let rolled_back = transaction.rollback().is_ok();
        Err(if open && rolled_back && is_constraint(&error) {
            NotCommitted::Constraint(error)
        } else {
            NotCommitted::Failed(classify(error, During::Commit))
        })
    }

    fn try_commit(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        #[cfg(test)]
        if let Some(code) = self.commit_fails {
            return Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None));
        }
        transaction.prepare_cached("COMMIT")?.execute([]).map(drop)
    }

    /// Runs `work` as a group of its own. `None`: another process holds the write lock, and nothing was run.
    pub(crate) fn alone<R>(
        &self,
        rules: &Rules,
        bells: &Bells,
        run: impl FnOnce(&mut Group<'_>) -> Result<R>,
    ) -> Option<Result<R>> {
        let transaction = match self.begin() {
            Ok(transaction) => transaction,
            Err(error) if is_busy(&error) => return None,
            Err(error) => return Some(Err(work(error))),
        };
        let mut group = Group::new(&transaction, rules).guarding(&self.closure_runs);
        let answer = run(&mut group);
        let changed = group.changed();
        if answer.is_ok() {
            if let Err(failed) = self.commit(transaction) {
                return Some(Err(failed.into()));
            }
            changed.iter().for_each(|id| bells.ring(id));
        }
        Some(answer)
    }

    /// Runs one group of jobs and answers them after COMMIT. What has to be run again stays in `jobs`; grants that
    /// nobody took go into `untaken`.
    pub(crate) fn group(&mut self, shared: &Shared, jobs: &mut Vec<Job>, untaken: &mut Vec<Release>) {
        let one_closure = self.suspicious_groups > 0;
        self.suspicious_groups = self.suspicious_groups.saturating_sub(1);
        let transaction = match self.begin_patiently(shared, jobs) {
            Ok(transaction) => transaction,
            Err(error) => return fail(jobs, &work(error)),
        };
        shared.more(jobs);
        let mut group = Group::new(&transaction, &shared.rules).guarding(&self.closure_runs);
        let mut ran = Ran::default();
        let mut waiting = std::mem::take(jobs).into_iter();
        for mut job in waiting.by_ref() {
            if job.is_cancelled() {
                continue;
            }
            if one_closure && ran.closures > 0 && !job.request().repeatable() {
                jobs.push(job);
                break;
            }
            job.request_mut().run(&mut group);
            ran.push(job);
            if group.is_over() {
                // A statement ended the whole transaction, or it has to end.
                drop(group);
                drop(transaction);
                ran.rolled_back_by_last(jobs);
                jobs.extend(waiting);
                return;
            }
        }
        jobs.extend(waiting);
        let changed = group.changed();
        match self.commit(transaction) {
            Ok(()) => {
                changed.iter().for_each(|id| shared.bells.ring(id));
                ran.answer(untaken);
            }
            Err(NotCommitted::Constraint(error)) if ran.closures > 0 => {
                self.suspicious_groups = SUSPICIOUS_GROUPS;
                ran.rolled_back_by_closure(error, jobs);
            }
            Err(failed) => ran.fail(&failed.into()),
        }
    }

    /// Whether the write-ahead log is due to be written back.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.log_pages.load(Ordering::Relaxed) >= self.checkpoint_at
    }

    /// Writes the log back to the database, as far as no reader needs it. Once everything was written back the log is
    /// written from its start again.
    pub(crate) fn checkpoint_if_due(&mut self) {
        if !self.wants_checkpoint() {
            return;
        }
        let done = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get::<_, i32>(1)?, row.get::<_, i32>(2)?))
        });
        match done {
            Ok((in_log, written)) if written >= in_log => {
                self.log_pages.store(0, Ordering::Relaxed);
                self.checkpoint_at = self.checkpoint_pages;
                return;
            }
            // A reader holds an old snapshot, or another process is at it.
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the write-ahead log could not be written back"),
        }
        let pages = self.log_pages.load(Ordering::Relaxed);
        self.checkpoint_at = pages.saturating_add(self.checkpoint_pages / 4);
    }
}
