//! The trait that a storage backend implements.

use std::fmt;

use async_trait::async_trait;

use crate::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use crate::error::{Error, Result};
use crate::key::OperationId;
use crate::record::{EffectClass, Record};
use crate::request::{
    Claim, Complete, Erase, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};

/// What a store can hold. Known before anything is run, so that a result that is too big never makes the effect run
/// again (G-33).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of body and headers of one outcome; more completes as `BodyOmitted` (G-33).
    pub body_bytes_max: usize,
    /// Bytes of a registered payload; more is `InvalidInput` (G-24).
    pub payload_bytes_max: usize,
    /// Checkpoints of one operation, over all its attempts (G-21).
    pub checkpoints_max: usize,
    /// Bytes of one checkpoint's value (G-21).
    pub checkpoint_bytes_max: usize,
}

/// Bodies of 1 MiB, payloads of 256 KiB, 64 checkpoints of 4 KiB.
impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 1 << 20,
            payload_bytes_max: 1 << 18,
            checkpoints_max: 64,
            checkpoint_bytes_max: 1 << 12,
        }
    }
}

/// Whose clock decides about leases and expiry (G-60).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecidingClock {
    /// The server's: the same for every caller.
    Store,
    /// The host's: the same for every process on it.
    Host,
    /// Each caller's: they may differ by the guard.
    Caller,
}

/// What a store promises, so that whoever picks one knows before it runs (G-60, G-62).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Capabilities {
    /// The store's name: `memory`, `sqlite`, …
    pub name: &'static str,
    /// Whether processes on several hosts see one ledger.
    pub shared: bool,
    /// Whose clock decides.
    pub clock: DecidingClock,
    /// How far two callers' clocks may differ; 0 unless each caller's clock decides.
    pub guard_ms: u64,
    /// The largest backward step of the deciding clock; records outlive their identity by as much (G-14).
    pub step_ms: u64,
    /// What it can hold.
    pub limits: Limits,
    /// What an acknowledged write can be lost to, in plain words (G-62).
    pub durability: &'static str,
    /// Whether [`Store::changed`] is woken; otherwise waiters poll.
    pub wakes: bool,
    /// Whether claim and completion can join the caller's transaction (G-70).
    pub transactions: bool,
}

impl Capabilities {
    /// The capabilities of a store called `name` that shares nothing, is decided by its host's clock, wakes nobody and
    /// has no transactions. Set the fields that differ.
    #[must_use]
    pub const fn new(name: &'static str, durability: &'static str) -> Self {
        Self {
            name,
            shared: false,
            clock: DecidingClock::Host,
            guard_ms: 0,
            step_ms: crate::transition::DEFAULT_STEP_MS,
            limits: Limits {
                body_bytes_max: 1 << 20,
                payload_bytes_max: 1 << 18,
                checkpoints_max: 64,
                checkpoint_bytes_max: 1 << 12,
            },
            durability,
            wakes: false,
            transactions: false,
        }
    }
}

/// A storage backend.
///
/// # Contract
///
/// Each method does what its request's [`Transition`](crate::transition::Transition) says, as *one* conditional write
/// at the datastore (G-10); the trait's bullets name what is easy to get wrong. On top of that, every method:
///
/// - answers only after the write is durable, as far as [`Capabilities::durability`] says (G-62);
/// - writes nothing where the transition says "=" (`Write::Keep`);
/// - compares ids byte by byte (G-02, G-03);
/// - computes `now` by the deciding clock in the statement that writes (G-13, G-60);
/// - may be dropped at any await without leaving an open transaction, a poisoned connection or half a record (G-53);
/// - fails as `Unavailable` only when the request was certainly not applied; an unknown failure of a write is
///   `Indeterminate` (G-50);
/// - refuses a claim of class [`Local`](crate::record::EffectClass::Local) as `Unsupported`: that class belongs to a
///   store's same-transaction methods (G-18, G-70).
///
/// There are no default methods: whoever forwards or wraps a store forwards all of it.
#[doc(alias("backend", "storage"))]
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// What this store promises.
    fn capabilities(&self) -> &Capabilities;

    /// Stores an intent without a grant (G-24).
    ///
    /// - The fingerprint is compared first; a conflict changes and reveals nothing (G-05).
    async fn register(&self, request: &Register) -> Result<Registered>;

    /// Asks to run or recover an operation.
    ///
    /// - Of any number of concurrent claims exactly one is granted (G-10).
    /// - The same attempt id is granted again, with the remaining lease and nothing written (G-12).
    /// - The fence is greater than that of every earlier grant of the operation (G-14).
    /// - A new claim, a replay and an in-progress answer take one round trip (G-11).
    /// - Dropped before its answer, it is not run, or its grant may be given back (G-53). So who repeats a claim with its
    ///   attempt id because an answer is late lets the earlier call go on: dropping it may end the attempt of both.
    async fn claim(&self, request: &Claim) -> Result<Claimed>;

    /// Extends the lease.
    ///
    /// - The deadline never moves back (G-13).
    /// - Only the record's own attempt is heard; a lapse alone ends nothing (G-15).
    async fn renew(&self, request: &Renew) -> Result<Renewed>;

    /// Records a fact.
    ///
    /// - Committed before it is answered: the next foreign step relies on it (G-21).
    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed>;

    /// Ends the operation.
    ///
    /// - Never `InvalidInput` (G-17); what is too large is completed without content (G-33).
    /// - Idempotent by digest (G-16).
    /// - Applies for the record's own attempt while Processing *or* Uncertain (G-15).
    /// - Only this sets the store's own expiry on a row, and not before the identity deadline (G-42).
    async fn complete(&self, request: &Complete) -> Result<Completed>;

    /// Gives the operation back.
    ///
    /// - From mode Recover only with a reason, else `InvalidInput` (G-19).
    async fn release(&self, request: &Release) -> Result<Released>;

    /// Makes the operation Uncertain.
    ///
    /// - Attempt id, fence and number stay, so that the holder can still complete (G-23).
    async fn park(&self, request: &Park) -> Result<Parked>;

    /// An operator's verdict on an Uncertain operation, conditional on what was seen (G-22).
    async fn resolve(&self, request: &Resolve) -> Result<Resolved>;

    /// Removes content of a finished operation early (G-44).
    async fn erase(&self, request: &Erase) -> Result<Erased>;

    /// The whole record; `None` when it is absent, also by time (G-41). Trusted code only (G-06).
    ///
    /// - Content is not returned after the response deadline, swept or not.
    async fn get(&self, id: &OperationId) -> Result<Option<Record>>;

    /// A page of records without content. Trusted code only (G-06).
    ///
    /// - A record that is there all the time is listed exactly once over all pages; the order is the store's.
    async fn list(&self, query: &Query) -> Result<Page>;

    /// Counts by view, and the age of what is stuck.
    async fn stats(&self) -> Result<Stats>;

    /// Sweeps at most `limit` records (at most [`PAGE_MAX`](crate::request::PAGE_MAX)): erases expired content and
    /// purges what may be purged (G-14, G-43).
    ///
    /// - Never makes a claim fail, and never touches an unfinished record.
    /// - `more` is `true` only if another call now would do something, or might.
    async fn sweep(&self, limit: usize) -> Result<Swept>;

    /// Resolves when the record may have changed from `version`, possibly without reason; a store that is not woken
    /// never resolves it, and waiters poll in any case.
    async fn changed(&self, id: &OperationId, version: u64);
}

/// What every store's `claim` checks first: class `Local` belongs to the same-transaction methods alone (G-18).
///
/// # Errors
///
/// `Unsupported` for a claim of class `Local`.
pub fn refuse_local(claim: &Claim) -> Result<()> {
    if claim.effect == EffectClass::Local {
        return Err(Error::unsupported(
            "the effect class Local is set by a store's same-transaction methods alone: use them, or declare Opaque \
             or Keyed (G-18)",
        ));
    }
    Ok(())
}
