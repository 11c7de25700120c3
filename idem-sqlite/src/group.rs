//! What runs inside the write transaction: one group of requests, each of them read, decide, write (G-10).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idem_core::clock::Clock;
use idem_core::request::Release;
use idem_core::store::Limits;
use idem_core::transition::{Context, Sweep, SweepStep, Transition, Write};
use idem_core::{Claimed, Error, ErrorKind, Mode, OperationId, Result, Timestamp};
use rusqlite::{Connection, Transaction};

use crate::error::work;
use crate::readers;
use crate::statements::{self, Found, Place};

/// What the transitions of a store decide by, beside record and request.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) step_ms: u64,
}

impl Rules {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn context(&self) -> Context {
        Context::at(self.now()).step_ms(self.step_ms).limits(self.limits)
    }
}

/// An open write transaction, and what has to be done once it is committed.
pub(crate) struct Group<'t> {
    transaction: &'t Transaction<'t>,
    rules: &'t Rules,
    changed: Vec<OperationId>,
    closure_runs: Option<&'t AtomicBool>,
    abandoned: bool,
}

impl<'t> Group<'t> {
    pub(crate) const fn new(transaction: &'t Transaction<'t>, rules: &'t Rules) -> Self {
        Self { transaction, rules, changed: Vec::new(), closure_runs: None, abandoned: false }
    }

    /// The same on a connection whose authorizer looks at `closure_runs`.
    pub(crate) const fn guarding(mut self, closure_runs: &'t AtomicBool) -> Self {
        self.closure_runs = Some(closure_runs);
        self
    }

    /// Forbids the COMMIT: something could not be taken back.
    pub(crate) const fn abandon(&mut self) {
        self.abandoned = true;
    }

    /// Whether there is nothing left to commit, or nothing may be.
    pub(crate) fn is_over(&self) -> bool {
        self.abandoned || self.transaction.is_autocommit()
    }

    /// Runs somebody's closure on the transaction, which it can neither end nor leave. A panic is caught.
    pub(crate) fn closure<R>(&self, run: impl FnOnce(&Transaction<'_>) -> R) -> std::thread::Result<R> {
        let set = |runs| {
            if let Some(closure_runs) = self.closure_runs {
                closure_runs.store(runs, Ordering::Relaxed);
            }
        };
        set(true);
        let ended = catch_unwind(AssertUnwindSafe(|| run(self.transaction)));
        set(false);
        ended
    }

    pub(crate) const fn transaction(&self) -> &'t Transaction<'t> {
        self.transaction
    }

    /// What the next transition decides by. The clock is read under the write lock, so that a later grant never
    /// computes its lease from an earlier instant (G-13).
    pub(crate) fn context(&self) -> Context {
        self.rules.context()
    }

    /// Whose waiters to wake after COMMIT.
    pub(crate) fn changed(self) -> Vec<OperationId> {
        self.changed
    }

    /// Applies one request: reads, decides, writes.
    pub(crate) fn apply<T: Transition>(&mut self, request: &T) -> Result<T::Answer> {
        let found = statements::find(self.transaction, request.id())?;
        let step = request.apply(found.as_ref().map(|found| &found.record), &self.context())?;
        self.write(found, step.write)?;
        Ok(step.answer)
    }

    /// Writes what was decided about `found`.
    pub(crate) fn write(&mut self, found: Option<Found>, write: Write) -> Result<()> {
        let changed = match (write, found) {
            (Write::Put(record), Some(found)) => {
                statements::update(self.transaction, &found, &record, self.rules.step_ms)?;
                (found.record.state != record.state).then_some(record.id)
            }
            (Write::Put(record), None) => {
                statements::insert(self.transaction, &record, self.rules.step_ms)?;
                None
            }
            (Write::Remove, Some(found)) => {
                statements::remove(self.transaction, found.row)?;
                Some(found.record.id)
            }
            _ => None,
        };
        self.changed.extend(changed);
        Ok(())
    }
}

/// What a group can run.
pub(crate) trait Work: Send + 'static {
    /// The answer.
    type Answer: Send + 'static;

    /// Whether it can be run again after a rollback that was not its fault.
    const REPEATABLE: bool = true;

    /// Runs inside the group's transaction. After an error of its own it has written nothing, or what is right to keep.
    fn run(&mut self, group: &mut Group<'_>) -> Result<Self::Answer>;

    /// The answer that the committed record decides without a write, while another process holds the write lock.
    fn look(&self, _connection: &Connection, _rules: &Rules) -> Option<Result<Self::Answer>> {
        None
    }

    /// The answer after a rollback at COMMIT that was this work's fault.
    fn rolled_back(error: rusqlite::Error) -> Result<Self::Answer> {
        Err(work(error))
    }

    /// How to give back what `answer` grants to a caller that went away (G-53).
    fn release(_answer: &Self::Answer) -> Option<Release> {
        None
    }
}

/// A request on its way to the writer, and its answer on the way back: one allocation, made and freed by the caller.
pub(crate) struct Asked<W: Work> {
    work: W,
    answer: Option<Result<W::Answer>>,
}

impl<W: Work> Asked<W> {
    pub(crate) fn new(work: W) -> Box<Self> {
        Box::new(Self { work, answer: None })
    }

    /// The answer, if the writer gave one.
    pub(crate) fn into_answer(self) -> Option<Result<W::Answer>> {
        self.answer
    }
}

/// An [`Asked`] as the writer sees it.
pub(crate) trait Ask: Any + Send {
    /// Runs the work; the answer counts once the group is committed.
    fn run(&mut self, group: &mut Group<'_>);

    /// Whether the committed record answers without a write.
    fn look(&mut self, connection: &Connection, rules: &Rules) -> bool;

    /// Makes an error the answer.
    fn fail(&mut self, error: Error);

    /// Makes a rollback at COMMIT, which was its fault, the answer.
    fn rolled_back(&mut self, error: rusqlite::Error);

    /// The error that is the answer.
    fn error(&self) -> Option<&Error>;

    /// See [`Work::REPEATABLE`].
    fn repeatable(&self) -> bool;

    /// How to give back what the answer grants.
    fn release(&self) -> Option<Release>;
}

impl<W: Work> Ask for Asked<W> {
    fn run(&mut self, group: &mut Group<'_>) {
        self.answer = Some(self.work.run(group));
    }

    fn look(&mut self, connection: &Connection, rules: &Rules) -> bool {
        self.answer = self.work.look(connection, rules);
        self.answer.is_some()
    }

    fn fail(&mut self, error: Error) {
        self.answer = Some(Err(error));
    }

    fn rolled_back(&mut self, error: rusqlite::Error) {
        self.answer = Some(W::rolled_back(error));
    }

    fn error(&self) -> Option<&Error> {
        self.answer.as_ref()?.as_ref().err()
    }

    fn repeatable(&self) -> bool {
        W::REPEATABLE
    }

    fn release(&self) -> Option<Release> {
        W::release(self.answer.as_ref()?.as_ref().ok()?)
    }
}

/// A transition as the work of a group.
pub(crate) struct Apply<T>(pub(crate) T);

impl<T> Work for Apply<T>
where
    T: Transition + 'static,
    T::Answer: 'static,
{
    type Answer = T::Answer;

    fn run(&mut self, group: &mut Group<'_>) -> Result<T::Answer> {
        group.apply(&self.0)
    }

    fn look(&self, connection: &Connection, rules: &Rules) -> Option<Result<T::Answer>> {
        readers::look(connection, &self.0, rules)
    }

    /// One for recovery is left to lapse: its release would need a reason, and whoever recovers next finds the same. A
    /// repeated grant may have another holder.
    fn release(answer: &T::Answer) -> Option<Release> {
        match (answer as &dyn Any).downcast_ref::<Claimed>()? {
            Claimed::Granted(grant) if grant.mode == Mode::Execute && !grant.again => {
                Some(Release::new(grant.held()))
            }
            _ => None,
        }
    }
}

/// A read, for when a reader cannot.
pub(crate) struct Look(pub(crate) OperationId);

impl Work for Look {
    type Answer = Option<Found>;

    fn run(&mut self, group: &mut Group<'_>) -> Result<Option<Found>> {
        statements::find(group.transaction, &self.0)
    }

    fn look(&self, connection: &Connection, _rules: &Rules) -> Option<Result<Option<Found>>> {
        // Whatever prevented the reader may prevent this too; then it is asked again.
        statements::find(connection, &self.0).ok().map(Ok)
    }
}

/// One batch of a sweep (G-43).
pub(crate) struct SweepBatch {
    /// The last row that an earlier batch of the same sweep looked at.
    pub(crate) after: Place,
    /// How many rows it looks at.
    pub(crate) rows: usize,
    /// How many records it sweeps.
    pub(crate) limit: u64,
}

/// What one batch of a sweep did.
#[derive(Debug)]
pub(crate) struct SweptBatch {
    /// Where the next batch goes on; `None`: there are no rows after this one's.
    pub(crate) next: Option<Place>,
    pub(crate) erased: u64,
    pub(crate) purged: u64,
    /// One row that cannot be read, which keeps no other from being swept.
    pub(crate) corrupt: Option<Error>,
}

impl Work for SweepBatch {
    type Answer = SweptBatch;

    fn run(&mut self, group: &mut Group<'_>) -> Result<SweptBatch> {
        let due = statements::due(group.transaction, group.rules.now(), self.after, self.rows)?;
        let next = due.last().filter(|_| due.len() == self.rows).map(|last| last.place);
        let mut swept = SweptBatch { next, erased: 0, purged: 0, corrupt: None };
        for row in due {
            match row.id.and_then(|id| group.apply(&Sweep::new(id))) {
                Ok(SweepStep::Erased) => swept.erased += 1,
                Ok(SweepStep::Purged) => swept.purged += 1,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Corrupt => swept.corrupt = Some(error),
                Err(error) => return Err(error),
            }
            if swept.erased + swept.purged == self.limit {
                swept.next = Some(row.place);
                break;
            }
        }
        Ok(swept)
    }
}
