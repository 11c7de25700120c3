//! What runs inside the write transaction: one group of requests, each of them read, decide, write (G-10).

use std::any::Any;
use std::sync::Arc;

use idem_core::clock::Clock;
use idem_core::store::Limits;
use idem_core::transition::{Context, Sweep, SweepStep, Transition, Write};
use idem_core::{ErrorKind, OperationId, Record, Result, Timestamp};
use rusqlite::Transaction;

use crate::statements;

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
}

impl<'t> Group<'t> {
    pub(crate) const fn new(transaction: &'t Transaction<'t>, rules: &'t Rules) -> Self {
        Self { transaction, rules, changed: Vec::new() }
    }

    /// Whose waiters to wake after COMMIT.
    pub(crate) fn changed(self) -> Vec<OperationId> {
        self.changed
    }

    /// Applies one request.
    pub(crate) fn apply<T: Transition>(&mut self, request: &T) -> Result<T::Answer> {
        self.step(request).map(|(answer, _)| answer)
    }

    /// Applies one request; gives the record that was written, if one was.
    pub(crate) fn step<T: Transition>(&mut self, request: &T) -> Result<(T::Answer, Option<Box<Record>>)> {
        let found = statements::find(self.transaction, request.id())?;
        // The clock is read under the write lock, so that a later grant never computes its lease from an earlier
        // instant (G-13).
        let context = self.rules.context();
        let step = request.apply(found.as_ref().map(|found| &found.record), &context)?;
        let state_before = found.as_ref().map(|found| found.record.state);
        let written = match (step.write, found) {
            (Write::Put(record), Some(found)) => {
                statements::update(self.transaction, found.row, &record, self.rules.step_ms)?;
                Some(record)
            }
            (Write::Put(record), None) => {
                statements::insert(self.transaction, &record, self.rules.step_ms)?;
                Some(record)
            }
            (Write::Remove, Some(found)) => {
                statements::remove(self.transaction, found.row)?;
                self.changed.push(found.record.id);
                None
            }
            _ => None,
        };
        if let Some(record) = &written
            && state_before.is_some_and(|before| before != record.state)
        {
            self.changed.push(record.id.clone());
        }
        Ok((step.answer, written))
    }
}

/// The answer to a [`Work`], of the type that its maker knows.
pub(crate) type Answer = Box<dyn Any + Send>;

/// One request of a group.
pub(crate) trait Work: Send {
    /// Runs inside the group's transaction. After an error of its own it has written nothing, or what is right to keep.
    fn run(&mut self, group: &mut Group<'_>) -> Result<Answer>;

    /// Whether it can be run again after a rollback that was not its fault.
    fn repeatable(&self) -> bool {
        true
    }
}

/// A transition as the work of a group.
pub(crate) struct Apply<T>(pub(crate) T);

impl<T> Work for Apply<T>
where
    T: Transition,
    T::Answer: 'static,
{
    fn run(&mut self, group: &mut Group<'_>) -> Result<Answer> {
        group.apply(&self.0).map(|answer| Box::new(answer) as Answer)
    }
}

/// A read, for when a reader cannot.
pub(crate) struct Look(pub(crate) OperationId);

impl Work for Look {
    fn run(&mut self, group: &mut Group<'_>) -> Result<Answer> {
        Ok(Box::new(statements::find(group.transaction, &self.0)?))
    }
}

/// One batch of a sweep (G-43).
pub(crate) struct SweepBatch {
    pub(crate) limit: usize,
}

/// What one batch of a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SweptBatch {
    pub(crate) looked_at: usize,
    pub(crate) erased: u64,
    pub(crate) purged: u64,
}

impl Work for SweepBatch {
    fn run(&mut self, group: &mut Group<'_>) -> Result<Answer> {
        let ids = statements::due(group.transaction, group.rules.now(), self.limit)?;
        let mut swept = SweptBatch { looked_at: ids.len(), ..SweptBatch::default() };
        let mut corrupt = None;
        for id in ids {
            match group.apply(&Sweep::new(id)) {
                Ok(SweepStep::Erased) => swept.erased += 1,
                Ok(SweepStep::Purged) => swept.purged += 1,
                Ok(_) => {}
                // A row that cannot be read must not keep the others from being swept.
                Err(error) if error.kind() == ErrorKind::Corrupt => corrupt = Some(error),
                Err(error) => return Err(error),
            }
        }
        match corrupt {
            Some(error) if swept.erased + swept.purged == 0 => Err(error),
            _ => Ok(Box::new(swept)),
        }
    }
}
