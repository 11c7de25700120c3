//! The first rung for a backend author: three methods and a conditional write make a whole [`Store`].
//!
//! Implement [`CasStore`] and wrap it in [`CasAdapter`], which runs the [transitions](crate::transition) in a bounded
//! compare-and-swap loop. Right in an afternoon; the second rung, a native `Store`, saves round trips (G-11).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use crate::backoff::Backoff;
use crate::clock::{Clock, SystemClock};
use crate::error::{Error, Result};
use crate::key::OperationId;
use crate::record::Record;
use crate::request::{
    Claim, Complete, Erase, PAGE_MAX, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use crate::store::{Capabilities, DecidingClock, Store, refuse_local};
use crate::sync::{Mutex, lock};
use crate::transition::{Context, Sweep, SweepStep, Transition, Write};
use crate::wake::Bells;

/// Whether a compare-and-swap was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a compare-and-swap has two answers; anything else is an error")]
pub enum Swap {
    /// The stored version was the expected one, and the new record (or absence) is in its place.
    Applied,
    /// The stored version was another one, and nothing was changed.
    Lost,
}

/// A store that can write conditionally.
///
/// # Contract
///
/// - `load` is never older than the latest acknowledged swap of the same id (linearizable reads per id). A stale load
///   costs a turn of the loop, but a stale *replay* would be a wrong answer.
/// - A version is never used twice for one id, not even after a removal: an entity tag, a revision of the whole store,
///   or a random number is right, a counter that restarts with the row is not.
/// - A record is stored whole; [`codec`](crate::codec) gives its bytes.
/// - Errors: `Unavailable` only if certainly not applied, `Indeterminate` otherwise (G-50).
#[doc(alias("backend", "optimistic_locking"))]
#[async_trait]
pub trait CasStore: Send + Sync + fmt::Debug {
    /// What identifies one stored state of an id.
    type Version: Clone + Send + Sync + fmt::Debug;

    /// The record and its version; `None` when nothing is stored.
    async fn load(&self, id: &OperationId) -> Result<Option<(Record, Self::Version)>>;

    /// Puts `next` (or, if `None`, absence) in place of `expected` (or, if `None`, of absence).
    #[doc(alias("put_if", "conditional_write"))]
    async fn compare_and_swap(
        &self,
        id: &OperationId,
        expected: Option<&Self::Version>,
        next: Option<&Record>,
    ) -> Result<Swap>;

    /// At most `limit` records after `after`, in any total order of ids that stays the same; empty at the end.
    async fn scan(&self, after: Option<&OperationId>, limit: usize) -> Result<Vec<Record>>;
}

/// How often one call meets a concurrent writer before it gives up as `Unavailable`: nothing was applied then.
const CONTENTION: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50), 64);

/// Lifts a [`CasStore`] to a [`Store`].
pub struct CasAdapter<S> {
    store: S,
    clock: Arc<dyn Clock>,
    capabilities: Capabilities,
    bells: Bells,
    /// Where the next batch of a sweep starts.
    sweep_after: Mutex<Option<OperationId>>,
}

impl<S: CasStore> CasAdapter<S> {
    /// A store whose callers' clocks decide and may differ by 500 ms, and that loses nothing it acknowledged. Set what
    /// differs with [`with`](Self::with).
    #[must_use]
    pub fn new(store: S) -> Self {
        let mut capabilities = Capabilities::new("cas", "whatever the store below loses");
        capabilities.shared = true;
        capabilities.clock = DecidingClock::Caller;
        capabilities.guard_ms = 500;
        Self::with(store, capabilities, Arc::new(SystemClock))
    }

    /// The same with these capabilities, on this clock.
    #[must_use]
    pub fn with(store: S, capabilities: Capabilities, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, capabilities, bells: Bells::default(), sweep_after: Mutex::new(None) }
    }

    /// The store below.
    pub const fn inner(&self) -> &S {
        &self.store
    }

    fn context(&self) -> Context {
        Context::at(self.clock.now())
            .guard_ms(self.capabilities.guard_ms)
            .step_ms(self.capabilities.step_ms)
            .limits(self.capabilities.limits)
    }

    /// Load, transition, swap; again when another writer was faster (G-10).
    async fn apply<T: Transition>(&self, request: &T) -> Result<T::Answer> {
        let id = request.id();
        let mut turn = 0;
        loop {
            let (stored, version) = self.store.load(id).await?.unzip();
            let step = request.apply(stored.as_ref(), &self.context())?;
            let next = match &step.write {
                Write::Keep => return Ok(step.answer),
                Write::Put(record) => Some(&**record),
                Write::Remove => None,
            };
            if self.store.compare_and_swap(id, version.as_ref(), next).await? == Swap::Applied {
                self.bells.ring(id);
                return Ok(step.answer);
            }
            let Some(pause) = CONTENTION.pause(turn) else {
                return Err(Error::unavailable(
                    "too many writers on one operation: nothing was applied, retry",
                ));
            };
            turn += 1;
            self.clock.sleep_until(self.clock.elapsed() + pause).await;
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for CasAdapter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CasAdapter").field(&self.store).finish()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: CasStore> Store for CasAdapter<S> {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        self.apply(request).await
    }

    async fn claim(&self, request: &Claim) -> Result<Claimed> {
        refuse_local(request)?;
        self.apply(request).await
    }

    async fn renew(&self, request: &Renew) -> Result<Renewed> {
        self.apply(request).await
    }

    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed> {
        self.apply(request).await
    }

    async fn complete(&self, request: &Complete) -> Result<Completed> {
        self.apply(request).await
    }

    async fn release(&self, request: &Release) -> Result<Released> {
        self.apply(request).await
    }

    async fn park(&self, request: &Park) -> Result<Parked> {
        self.apply(request).await
    }

    async fn resolve(&self, request: &Resolve) -> Result<Resolved> {
        self.apply(request).await
    }

    async fn erase(&self, request: &Erase) -> Result<Erased> {
        self.apply(request).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>> {
        Ok(self.store.load(id).await?.and_then(|(record, _)| record.as_read(self.clock.now())))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let limit = query.page();
        let mut records = Vec::new();
        let mut after = query.after.clone();
        loop {
            let now = self.clock.now();
            let scanned = self.store.scan(after.as_ref(), PAGE_MAX).await?;
            let Some(last) = scanned.last() else { return Ok(Page::new(records, None, now)) };
            after = Some(last.id.clone());
            for record in scanned {
                if query.admits(&record.id, record.view(now, self.capabilities.guard_ms)) {
                    let id = record.id.clone();
                    records.push(record.without_content());
                    if records.len() == limit {
                        return Ok(Page::new(records, Some(id), now));
                    }
                }
            }
        }
    }

    async fn stats(&self) -> Result<Stats> {
        let mut stats = Stats::at(self.clock.now());
        let mut after = None;
        loop {
            let scanned = self.store.scan(after.as_ref(), PAGE_MAX).await?;
            let Some(last) = scanned.last() else { return Ok(stats) };
            after = Some(last.id.clone());
            for record in &scanned {
                stats.count(record, self.capabilities.guard_ms);
            }
        }
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        let limit = limit.clamp(1, PAGE_MAX);
        let after = lock(&self.sweep_after).take();
        let scanned = self.store.scan(after.as_ref(), limit).await?;
        let mut swept = Swept { more: scanned.len() == limit, ..Swept::default() };
        if swept.more {
            *lock(&self.sweep_after) = scanned.last().map(|record| record.id.clone());
        }
        for record in &scanned {
            if record.sweep_at(self.capabilities.step_ms).is_none_or(|at| self.clock.now() < at) {
                continue;
            }
            match self.apply(&Sweep::new(record.id.clone())).await? {
                SweepStep::Kept => {}
                SweepStep::Erased => swept.erased += 1,
                SweepStep::Purged => swept.purged += 1,
            }
        }
        Ok(swept)
    }

    async fn changed(&self, id: &OperationId, version: u64) {
        loop {
            let heard = self.bells.listen(id);
            match self.store.load(id).await {
                // The bell may ring for a neighbour: looking here again is cheaper than another claim.
                Ok(Some((record, _))) if record.version == version => heard.await,
                Ok(_) => return,
                // Whoever waits looks again after a pause. An answer now would make it look at once, again and again.
                Err(_) => heard.await,
            }
        }
    }
}
