//! The reference store: [`transition`](crate::transition) under sharded locks.
//!
//! For tests, for development, and for what only has to survive retries within one process.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use async_trait::async_trait;
use hashbrown::HashTable;

use crate::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use crate::clock::{Clock, SystemClock};
use crate::error::Result;
use crate::key::OperationId;
use crate::record::{Record, State};
use crate::request::{
    Claim, Complete, Erase, PAGE_MAX, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use crate::store::{Capabilities, Limits, Store, refuse_local};
use crate::sync::{Mutex, SHARDS, lock};
use crate::time::Timestamp;
use crate::transition::{Context, Sweep, SweepStep, Transition, Write};
use crate::wake::Bells;

/// A ledger in the memory of this process. Clones share it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), idem_core::Error> {
/// use idem_core::{Claim, Claimed, Fingerprint, Label, MemoryStore, OperationId, Store};
///
/// let store = MemoryStore::new();
/// let id = OperationId::new("acme", "charge/v1", "order-1")?;
/// let claim = Claim::new(id, Fingerprint::bytes(b"10 EUR"), Label::new("worker-1")?);
/// assert!(matches!(store.claim(&claim).await?, Claimed::Granted(_)));
/// # Ok(()) }
/// ```
#[doc(alias("in_memory"))]
#[derive(Clone)]
pub struct MemoryStore(Arc<Inner>);

struct Inner {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    clock: Arc<dyn Clock>,
    capabilities: Capabilities,
    bells: Bells,
}

#[derive(Default)]
struct Shard {
    /// By the hash of the id, which stands in the record only.
    records: HashTable<Box<Record>>,
    /// When a sweep has something to do, for records that ever expire.
    due: BTreeSet<(Timestamp, OperationId)>,
}

impl Shard {
    /// Applies `request` where its operation stands; tells besides whether waiters care about the write.
    fn apply<T: Transition>(
        &mut self,
        request: &T,
        context: &Context,
        hash: u64,
        hasher: &RandomState,
    ) -> Result<(T::Answer, bool)> {
        let id = request.id();
        // What is there already is replaced in place.
        let slot = self.records.find_mut(hash, |record| record.id == *id);
        let step = request.apply(slot.as_ref().map(|record| &***record), context)?;
        let (before, after) = match (slot, step.write) {
            (_, Write::Keep) | (None, Write::Remove) => return Ok((step.answer, false)),
            (Some(slot), Write::Put(record)) => {
                let after = Standing::of(&record, context.step_ms);
                let before = std::mem::replace(slot, record);
                (Some(Standing::of(&before, context.step_ms)), Some(after))
            }
            (Some(slot), Write::Remove) => {
                let before = Standing::of(slot, context.step_ms);
                if let Ok(slot) = self.records.find_entry(hash, |record| record.id == *id) {
                    slot.remove();
                }
                (Some(before), None)
            }
            (None, Write::Put(record)) => {
                let after = Standing::of(&record, context.step_ms);
                self.records.insert_unique(hash, record, |record| hasher.hash_one(&record.id));
                (None, Some(after))
            }
        };
        let due = |standing: &Option<Standing>| standing.as_ref().and_then(|standing| standing.due);
        let (due_before, due_after) = (due(&before), due(&after));
        if due_before != due_after {
            if let Some(at) = due_before {
                self.due.remove(&(at, id.clone()));
            }
            if let Some(at) = due_after {
                self.due.insert((at, id.clone()));
            }
        }
        // Nobody waits for a record that was not there.
        let state = |standing: Option<Standing>| standing.map(|standing| standing.state);
        let changed = before.is_some() && state(before) != state(after);
        Ok((step.answer, changed))
    }

    /// Gives memory back after a purge: a map keeps the room of its fullest time otherwise.
    fn shrink(&mut self, hasher: &RandomState) {
        if self.records.capacity() > SHARD_ROOM_MIN && self.records.len() < self.records.capacity() / 4 {
            self.records.shrink_to(self.records.len() * 2, |record| hasher.hash_one(&record.id));
        }
    }
}

/// The room that a shard keeps whatever it holds.
const SHARD_ROOM_MIN: usize = 64;

/// What the shard has to know of a record before and after a write.
struct Standing {
    state: State,
    due: Option<Timestamp>,
}

impl Standing {
    fn of(record: &Record, step_ms: u64) -> Self {
        Self { state: record.state, due: record.sweep_at(step_ms) }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty ledger on the system's clock, with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Arc::new(SystemClock), Limits::default())
    }

    /// An empty ledger on `clock`, with `limits`.
    #[must_use]
    pub fn with(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let mut capabilities = Capabilities::new("memory", "everything is lost when the process ends");
        capabilities.wakes = true;
        capabilities.limits = limits;
        Self(Arc::new(Inner {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            hasher: RandomState::new(),
            clock,
            capabilities,
            bells: Bells::default(),
        }))
    }

    fn context(&self) -> Context {
        Context::at(self.0.clock.now())
            .step_ms(self.0.capabilities.step_ms)
            .limits(self.0.capabilities.limits)
    }

    /// The shard of `id`, and the hash that stands for it there.
    fn shard(&self, id: &OperationId) -> (&Mutex<Shard>, u64) {
        let hash = self.0.hasher.hash_one(id);
        // The table in a shard goes by the low and the highest bits.
        let index = usize::try_from((hash >> 32) % SHARDS as u64).unwrap_or(0);
        #[allow(clippy::indexing_slicing, reason = "the index is below the number of shards")]
        (&self.0.shards[index], hash)
    }

    /// What `look` finds in the stored record, if there is one.
    fn look<R>(&self, id: &OperationId, look: impl FnOnce(&Record) -> R) -> Option<R> {
        let (shard, hash) = self.shard(id);
        lock(shard).records.find(hash, |record| record.id == *id).map(|record| look(record))
    }

    /// The transition under the lock of its shard. The clock is read inside, so that a later grant never computes its
    /// lease from an earlier instant (G-13).
    fn apply<T: Transition>(&self, request: &T) -> Result<T::Answer> {
        let id = request.id();
        let (answer, changed) = {
            let (shard, hash) = self.shard(id);
            let mut shard = lock(shard);
            shard.apply(request, &self.context(), hash, &self.0.hasher)?
        };
        if changed {
            self.0.bells.ring(id);
        }
        Ok(answer)
    }

    /// The stored record as it is, expired or not: for tests that compare stores byte by byte.
    #[must_use]
    pub fn stored(&self, id: &OperationId) -> Option<Record> {
        self.look(id, Record::clone)
    }

    /// How many records are stored, expired or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.shards.iter().map(|shard| lock(shard).records.len()).sum()
    }

    /// Whether nothing is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most `limit` ids that a sweep has to look at now.
    fn due(&self, limit: usize) -> Vec<OperationId> {
        let now = self.0.clock.now();
        let mut ids = Vec::new();
        for shard in &self.0.shards {
            let shard = lock(shard);
            let due = shard.due.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| id.clone());
            ids.extend(due.take(limit - ids.len()));
            if ids.len() == limit {
                break;
            }
        }
        ids
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStore({} records)", self.len())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for MemoryStore {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        self.apply(request)
    }

    async fn claim(&self, request: &Claim) -> Result<Claimed> {
        refuse_local(request)?;
        self.apply(request)
    }

    async fn renew(&self, request: &Renew) -> Result<Renewed> {
        self.apply(request)
    }

    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed> {
        self.apply(request)
    }

    async fn complete(&self, request: &Complete) -> Result<Completed> {
        self.apply(request)
    }

    async fn release(&self, request: &Release) -> Result<Released> {
        self.apply(request)
    }

    async fn park(&self, request: &Park) -> Result<Parked> {
        self.apply(request)
    }

    async fn resolve(&self, request: &Resolve) -> Result<Resolved> {
        self.apply(request)
    }

    async fn erase(&self, request: &Erase) -> Result<Erased> {
        self.apply(request)
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>> {
        Ok(self.stored(id).and_then(|record| record.as_read(self.0.clock.now())))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let now = self.0.clock.now();
        let mut ids = BTreeSet::new();
        let limit = query.page();
        for shard in &self.0.shards {
            for record in &lock(shard).records {
                let wanted = query.after.as_ref().is_none_or(|after| record.id > *after)
                    && query.admits(&record.id, record.view(now, 0));
                if wanted {
                    ids.insert(record.id.clone());
                    if ids.len() > limit {
                        ids.pop_last();
                    }
                }
            }
        }
        let next = if ids.len() == limit { ids.last().cloned() } else { None };
        let records = ids.iter().filter_map(|id| self.stored(id)).map(Record::without_content).collect();
        Ok(Page::new(records, next, now))
    }

    async fn stats(&self) -> Result<Stats> {
        let mut stats = Stats::at(self.0.clock.now());
        for shard in &self.0.shards {
            for record in &lock(shard).records {
                stats.count(record, 0);
            }
        }
        Ok(stats)
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        let limit = limit.clamp(1, PAGE_MAX);
        let mut swept = Swept::default();
        let ids = self.due(limit);
        swept.more = ids.len() == limit;
        for id in ids {
            match self.apply(&Sweep::new(id))? {
                SweepStep::Kept => {}
                SweepStep::Erased => swept.erased += 1,
                SweepStep::Purged => swept.purged += 1,
            }
        }
        if swept.purged > 0 {
            self.0.shards.iter().for_each(|shard| lock(shard).shrink(&self.0.hasher));
        }
        Ok(swept)
    }

    async fn changed(&self, id: &OperationId, version: u64) {
        loop {
            let heard = self.0.bells.listen(id);
            let current = self.look(id, |record| record.version);
            if current != Some(version) {
                return;
            }
            // The bell may ring for a neighbour: looking here again is cheaper than another claim.
            heard.await;
        }
    }
}
