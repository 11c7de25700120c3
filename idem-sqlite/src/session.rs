//! The connection that writes: one transaction at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use idem_core::wake::Bells;
use idem_core::{Error, Result};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::error::{During, classify, is_busy, is_constraint, work};
use crate::group::{Answer, Group, Rules};
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
    /// The log is written back when it has so many pages.
    checkpoint_at: i32,
    suspicious_groups: u32,
}

/// A COMMIT that failed.
struct NotCommitted {
    error: Error,
    /// A constraint of the application's own tables was checked at COMMIT and failed; all was rolled back.
    constraint: bool,
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
        Ok(Self { connection, log_pages, checkpoint_at: CHECKPOINT_PAGES, suspicious_groups: 0 })
    }

    /// Begins a write transaction (G-72); busy is not waited for.
    fn begin(&self) -> rusqlite::Result<Transaction<'_>> {
        if !self.connection.is_autocommit() {
            // A rollback failed before; nothing goes on before it succeeds.
            self.connection.execute_batch("ROLLBACK")?;
        }
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
    }

    /// Begins a write transaction as soon as no other process holds the lock.
    fn begin_patiently(&self, timeout: Duration) -> rusqlite::Result<Transaction<'_>> {
        let mut patience = Patience::new(timeout);
        loop {
            match self.begin() {
                Err(error) if is_busy(&error) && patience.wait() => {}
                begun => return begun,
            }
        }
    }

    /// Commits.
    fn commit(&self, transaction: Transaction<'_>) -> Result<(), NotCommitted> {
        let Err(error) = self.try_commit(&transaction) else { return Ok(()) };
        // Still open means certainly not committed; the guard then rolls back.
        let constraint = is_constraint(&error) && !transaction.is_autocommit();
        let rolled_back = transaction.rollback();
        let during = if constraint && rolled_back.is_ok() { During::Work } else { During::Commit };
        Err(NotCommitted { error: classify(error, during), constraint: during == During::Work })
    }

    fn try_commit(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        transaction.execute_batch("COMMIT")
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
        let mut group = Group::new(&transaction, rules);
        let answer = run(&mut group);
        let changed = group.changed();
        if answer.is_ok() {
            if let Err(failed) = self.commit(transaction) {
                return Some(Err(failed.error));
            }
            changed.iter().for_each(|id| bells.ring(id));
        }
        Some(answer)
    }

    /// Runs one group of jobs and answers them after COMMIT. What has to be run again stays in `jobs`; answers that
    /// nobody took go into `untaken`.
    pub(crate) fn group(&mut self, shared: &Shared, jobs: &mut Vec<Job>, untaken: &mut Vec<Answer>) {
        let one_closure = self.suspicious_groups > 0;
        self.suspicious_groups = self.suspicious_groups.saturating_sub(1);
        let transaction = match self.begin_patiently(shared.busy_timeout()) {
            Ok(transaction) => transaction,
            Err(error) => return fail(jobs, &work(error)),
        };
        shared.more(jobs);
        let mut group = Group::new(&transaction, &shared.rules);
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
            let answer = job.request_mut().run(&mut group);
            ran.push(job, answer);
            if transaction.is_autocommit() {
                // A statement ended the whole transaction.
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
            Err(NotCommitted { constraint: true, error }) if ran.closures > 0 => {
                self.suspicious_groups = SUSPICIOUS_GROUPS;
                ran.rolled_back_by_closure(&error, jobs);
            }
            Err(NotCommitted { error, .. }) => ran.fail(&error),
        }
    }

    /// Whether the write-ahead log is due to be written back.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.log_pages.load(Ordering::Relaxed) >= self.checkpoint_at
    }

    /// Writes the log back to the database, as far as no reader needs it. It is written from its start again once
    /// everything was written back.
    pub(crate) fn checkpoint_if_due(&mut self) {
        if !self.wants_checkpoint() {
            return;
        }
        let done = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get::<_, i32>(1)?, row.get::<_, i32>(2)?))
        });
        let pages = self.log_pages.load(Ordering::Relaxed);
        match done {
            Ok((in_log, written)) if written >= in_log => {
                self.log_pages.store(0, Ordering::Relaxed);
                self.checkpoint_at = CHECKPOINT_PAGES;
            }
            // A reader holds an old snapshot, or another process is at it: again after some more pages.
            Ok(_) => self.checkpoint_at = pages.saturating_add(CHECKPOINT_PAGES / 4),
            Err(error) => {
                self.checkpoint_at = pages.saturating_add(CHECKPOINT_PAGES / 4);
                tracing::warn!(%error, "the write-ahead log could not be written back");
            }
        }
    }
}

/// Answers all jobs with one error.
fn fail(jobs: &mut Vec<Job>, error: &Error) {
    for job in jobs.drain(..) {
        job.answer(Err(error.clone()));
    }
}

/// The jobs that were run in a transaction, with the answers that they get after COMMIT.
#[derive(Default)]
struct Ran {
    jobs: Vec<(Job, Result<Answer>)>,
    closures: usize,
}

impl Ran {
    fn push(&mut self, job: Job, answer: Result<Answer>) {
        if !job.request().repeatable() {
            self.closures += 1;
        }
        self.jobs.push((job, answer));
    }

    /// After COMMIT.
    fn answer(self, untaken: &mut Vec<Answer>) {
        for (job, answer) in self.jobs {
            if let Some(Ok(answer)) = job.answer(answer) {
                untaken.push(answer);
            }
        }
    }

    /// After a COMMIT that failed: nobody's answer holds (G-72).
    fn fail(self, error: &Error) {
        for (job, _) in self.jobs {
            job.answer(Err(error.clone()));
        }
    }

    /// The last job's statement rolled all back. If that was a closure, the requests of others run again; otherwise
    /// the store has a problem that is not theirs either, and they are told so.
    fn rolled_back_by_last(mut self, again: &mut Vec<Job>) {
        let Some((culprit, answer)) = self.jobs.pop() else { return };
        let closure = !culprit.request().repeatable();
        let error = match &answer {
            Err(error) if !closure => Error::with_source(
                idem_core::ErrorKind::Unavailable,
                "the group's transaction was rolled back, because a statement of another request failed: nothing was \
                 applied; retry",
                error.clone(),
            ),
            _ => Error::indeterminate(
                "the group's transaction was ended by a statement of another closure: repeat it with the same attempt",
            ),
        };
        culprit.answer(answer);
        for (job, _) in self.jobs {
            if closure && job.request().repeatable() {
                again.push(job);
            } else {
                job.answer(Err(error.clone()));
            }
        }
    }

    /// A constraint that is checked at COMMIT failed, and all was rolled back. Only closures write to tables with such
    /// constraints, so everybody else runs again.
    fn rolled_back_by_closure(self, error: &Error, again: &mut Vec<Job>) {
        let shared_blame = Error::unavailable(
            "a deferred constraint failed at COMMIT, in this closure or in another of the same group: all were rolled \
             back; retry, and they will be committed one by one",
        );
        let blame = if self.closures == 1 { error.clone() } else { shared_blame };
        for (job, _) in self.jobs {
            if job.request().repeatable() {
                again.push(job);
            } else {
                job.answer(Err(blame.clone()));
            }
        }
    }
}
