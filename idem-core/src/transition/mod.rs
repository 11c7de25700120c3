//! The contract as pure functions: what each request does to a record at an instant (section 11).
//!
//! `request.apply(stored, context)` looks at the stored record and answers, together with what is to be written in the
//! same conditional write. Nothing here waits, reads a clock or touches a store, so every cell of the decision table
//! is a test. [`MemoryStore`](crate::memory::MemoryStore) is these functions under a lock; the statements of every
//! other store are translations of them, and the conformance suite holds each against them.
//!
//! ```
//! use idem_core::transition::{Context, Transition, Write};
//! use idem_core::{Claim, Claimed, Fingerprint, Label, OperationId, Timestamp};
//!
//! let context = Context::at(Timestamp::from_millis(1_000));
//! let id = OperationId::new("acme", "charge/v1", "order-1")?;
//! let claim = Claim::new(id, Fingerprint::bytes(b"10 EUR"), Label::new("worker-1")?);
//! let step = claim.apply(None, &context)?;
//! assert!(matches!(step.answer, Claimed::Granted(_)));
//! let Write::Put(record) = step.write else { unreachable!() };
//! // The same claim again: granted again, and nothing is written (G-12).
//! assert!(matches!(claim.apply(Some(&record), &context)?.write, Write::Keep));
//! # Ok::<(), idem_core::Error>(())
//! ```

mod claim;
mod held;
pub mod invariants;
mod trusted;

use crate::error::{Error, Result};
use crate::key::OperationId;
use crate::record::{Record, View};
use crate::store::Limits;
use crate::time::Timestamp;

pub use trusted::{Sweep, SweepStep};

/// What a transition knows beside the record and the request.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Context {
    /// The instant, by the deciding clock (G-60).
    pub now: Timestamp,
    /// How far the clocks of two callers may differ; 0 with a store clock (G-60).
    pub guard_ms: u64,
    /// The largest backward step of the deciding clock (G-14).
    pub step_ms: u64,
    /// What the store can hold.
    pub limits: Limits,
}

impl Context {
    /// A context at `now` without guard, with the default step and limits.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self { now, guard_ms: 0, step_ms: DEFAULT_STEP_MS, limits: Limits::default() }
    }

    /// The same with this guard.
    #[must_use]
    pub const fn guard_ms(mut self, guard_ms: u64) -> Self {
        self.guard_ms = guard_ms;
        self
    }

    /// The same with this largest backward step.
    #[must_use]
    pub const fn step_ms(mut self, step_ms: u64) -> Self {
        self.step_ms = step_ms;
        self
    }

    /// The same with these limits.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What `stored` is now; nothing stored is [`View::Absent`].
    #[must_use]
    pub fn view(&self, stored: Option<&Record>) -> View {
        stored.map_or(View::Absent, |record| record.view(self.now, self.guard_ms))
    }

    /// From when on nothing of a holder whose lease ended at `lease_until` can still land (G-19, G-22). The guard
    /// counts here as it does for a takeover: whoever decides that a lease is over may have the faster clock (G-60).
    const fn settled_at(&self, lease_until: Timestamp, settle_ms: u64) -> Timestamp {
        lease_until.plus_millis(self.guard_ms).plus_millis(settle_ms)
    }
}

/// The largest backward step of a clock that a store allows for unless it is told otherwise: 5 minutes.
pub const DEFAULT_STEP_MS: u64 = 5 * 60 * 1000;

/// An answer, and what to write with it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Step<A> {
    /// What the caller is told, once the write is durable.
    pub answer: A,
    /// The conditional write.
    pub write: Write,
}

/// What a transition writes: only if the stored record is still the one that it looked at (G-10).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Write {
    /// Nothing: the stored bytes stay equal.
    Keep,
    /// This record, in place of what was looked at.
    Put(Box<Record>),
    /// Removes the record.
    Remove,
}

/// A request as a pure function of the stored record and the instant.
pub trait Transition: Send + Sync {
    /// What the caller is told.
    type Answer: Send;

    /// The operation that it is about.
    fn id(&self) -> &OperationId;

    /// What the request does to `stored` at `context.now`.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where the request cannot be right whatever is stored; `Internal` when the clock is beyond 2^53.
    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<Self::Answer>>;
}

/// Answers and keeps the record as it is.
const fn keep<A>(answer: A) -> Result<Step<A>> {
    Ok(Step { answer, write: Write::Keep })
}

/// Answers and writes `record`, whose version and time of update are set here.
fn put<A>(answer: A, mut record: Record, context: &Context) -> Result<Step<A>> {
    record.version = record
        .version
        .checked_add(1)
        .ok_or_else(|| Error::corrupt("the version of a record is beyond 64 bits"))?;
    record.updated_at = context.now;
    Ok(Step { answer, write: Write::Put(Box::new(record)) })
}

#[cfg(test)]
mod tests;
