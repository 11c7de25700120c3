//! The reference store: [`transition`](crate::transition) under sharded locks.
//!
//! For tests, for development, and for what only has to survive retries within one process.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use async_trait::async_trait;

use crate::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use crate::clock::{Clock, SystemClock};
use crate::error::Result;
use crate::key::OperationId;
use crate::record::Record;
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
    records: HashMap<OperationId, Box<Record>>,
    /// When a sweep has something to do, for records that ever expire.
    due: BTreeSet<(Timestamp, OperationId)>,
}

impl Shard {
    /// Applies `write` where `id` stands; tells whether waiters care.
    fn write(&mut self, id: &OperationId, write: Write, step_ms: u64) -> bool {
        let next = match write {
            Write::Keep => return false,
            Write::Put(record) => Some(record),
            Write::Remove => None,
        };
        let due_after = next.as_ref().and_then(|record| record.sweep_at(step_ms));
        let before = match (self.records.entry(id.clone()), next) {
            (Entry::Occupied(mut slot), Some(record)) => {
                let changed = record.state != slot.get().state;
                Some((slot.insert(record), changed))
            }
            (Entry::Occupied(slot), None) => Some((slot.remove(), true)),
            (Entry::Vacant(slot), Some(record)) => {
                slot.insert(record);
                None
            }
            (Entry::Vacant(_), None) => None,
        };
        let due_before = before.as_ref().and_then(|(record, _)| record.sweep_at(step_ms));
        if due_before != due_after {
            if let Some(at) = due_before {
                self.due.remove(&(at, id.clone()));
            }
            if let Some(at) = due_after {
                self.due.insert((at, id.clone()));
            }
        }
        before.is_some_and(|(_, changed)| changed)
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

    fn shard(&self, id: &OperationId) -> &Mutex<Shard> {
        let index = usize::try_from(self.0.hasher.hash_one(id) % SHARDS as u64).unwrap_or(0);
        #[allow(clippy::indexing_slicing, reason = "the index is below the number of shards")]
        &self.0.shards[index]
    }

    /// The transition under the lock of its shard. The clock is read inside, so that a later grant never computes its
    /// lease from an earlier instant (G-13).
    fn apply<T: Transition>(&self, request: &T) -> Result<T::Answer> {
        let id = request.id();
        let (answer, changed) = {
            let mut shard = lock(self.shard(id));
            let context = self.context();
            let step = request.apply(shard.records.get(id).map(|record| &**record), &context)?;
            (step.answer, shard.write(id, step.write, context.step_ms))
        };
        if changed {
            self.0.bells.ring(id);
        }
        Ok(answer)
    }

    /// The stored record as it is, expired or not: for tests that compare stores byte by byte.
    #[must_use]
    pub fn stored(&self, id: &OperationId) -> Option<Record> {
        lock(self.shard(id)).records.get(id).map(|record| (**record).clone())
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
            for (id, record) in &lock(shard).records {
                let wanted = query.after.as_ref().is_none_or(|after| id > after)
                    && query.admits(id, record.view(now, 0));
                if wanted {
                    ids.insert(id.clone());
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
            for record in lock(shard).records.values() {
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
        Ok(swept)
    }

    async fn changed(&self, id: &OperationId, version: u64) {
        loop {
            let heard = self.0.bells.listen(id);
            let current = lock(self.shard(id)).records.get(id).map(|record| record.version);
            if current != Some(version) {
                return;
            }
            // The bell may ring for a neighbour: looking here again is cheaper than another claim.
            heard.await;
        }
    }
}
