//! A store that is right, with places at which it can be bent.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use idem_core::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use idem_core::clock::Clock;
use idem_core::request::{
    Claim, Complete, Erase, PAGE_MAX, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use idem_core::store::{Limits, refuse_local};
use idem_core::transition::{Context, Step, Sweep, SweepStep, Transition, Write};
use idem_core::wake::Bells;
use idem_core::{Capabilities, OperationId, Record, Result, Store, Timestamp};

/// What all handles of one site share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) records: Mutex<BTreeMap<OperationId, Record>>,
    bells: Bells,
    /// Room for what a mutant has to remember.
    pub(crate) notes: Mutex<Notes>,
    /// The lock of mutants that lock.
    pub(crate) lock: Mutex<()>,
}

/// What mutants remember beside the records.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) ids: BTreeMap<OperationId, u64>,
    pub(crate) count: u64,
    pub(crate) outcome: Option<idem_core::Outcome>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One handle.
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) client_clock: Arc<dyn Clock>,
    pub(crate) zone: Option<String>,
    pub(crate) capabilities: Capabilities,
    /// The lock of mutants that lock by handle.
    pub(crate) own_lock: Mutex<()>,
    bend: Arc<dyn Bend>,
}

/// When [`Store::changed`] comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waking {
    Right,
    /// It listens without looking first.
    Deaf,
    /// It comes back at once, always.
    Restless,
}

/// The places at which the store can be bent. Everything here is right; a mutant overrides one or two methods.
pub(crate) trait Bend: Send + Sync + fmt::Debug + 'static {
    /// Under which id a record is kept.
    fn keep_under(&self, id: &OperationId) -> OperationId {
        id.clone()
    }

    fn context(&self, at: &Handle) -> Context {
        at.context_at(at.clock.now())
    }

    /// The last look at a record before it is written.
    fn stores(&self, _at: &Handle, _before: Option<&Record>, _after: &mut Record) {}

    fn register(&self, at: &Handle, request: &Register) -> Result<Registered> {
        at.apply(request)
    }

    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        at.apply(request)
    }

    fn renew(&self, at: &Handle, request: &Renew) -> Result<Renewed> {
        at.apply(request)
    }

    fn checkpoint(&self, at: &Handle, request: &SaveCheckpoint) -> Result<Checkpointed> {
        at.apply(request)
    }

    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        at.apply(request)
    }

    fn release(&self, at: &Handle, request: &Release) -> Result<Released> {
        at.apply(request)
    }

    fn park(&self, at: &Handle, request: &Park) -> Result<Parked> {
        at.apply(request)
    }

    fn resolve(&self, at: &Handle, request: &Resolve) -> Result<Resolved> {
        at.apply(request)
    }

    fn erase(&self, at: &Handle, request: &Erase) -> Result<Erased> {
        at.apply(request)
    }

    fn sweep(&self, at: &Handle, limit: usize) -> Result<Swept> {
        at.sweep(limit)
    }

    fn list(&self, at: &Handle, query: &Query) -> Result<Page> {
        Ok(at.list(query))
    }

    fn get(&self, at: &Handle, id: &OperationId) -> Option<Record> {
        at.stored(id).and_then(|record| record.as_read(at.clock.now()))
    }

    fn waking(&self) -> Waking {
        Waking::Right
    }

    /// Whether claims of class Local are refused.
    fn refuses_local(&self) -> bool {
        true
    }

    /// What happens before a claim is looked at, where futures can be dropped.
    fn before_claim(&self, _at: &Handle, _request: &Claim) {}

    /// How often every call gives way before it does something.
    fn yields(&self) -> u32 {
        0
    }

    /// How long every call waits before it does something.
    fn waits_ms(&self) -> u64 {
        0
    }
}

impl Handle {
    pub(crate) fn new(
        shared: Arc<Shared>,
        clock: Arc<dyn Clock>,
        client_clock: Arc<dyn Clock>,
        zone: Option<String>,
        bend: Arc<dyn Bend>,
    ) -> Self {
        let mut limits = Limits::default();
        // Small, because every mutant copies and digests the largest body several times.
        limits.body_bytes_max = 1 << 17;
        limits.payload_bytes_max = 1 << 13;
        let mut capabilities = Capabilities::new("bent", "everything is lost when the process ends");
        capabilities.wakes = true;
        capabilities.limits = limits;
        Self { shared, clock, client_clock, zone, capabilities, own_lock: Mutex::new(()), bend }
    }

    pub(crate) fn context_at(&self, now: Timestamp) -> Context {
        Context::at(now).step_ms(self.capabilities.step_ms).limits(self.capabilities.limits)
    }

    pub(crate) fn context(&self) -> Context {
        self.bend.context(self)
    }

    /// The transition under the lock.
    pub(crate) fn apply<T: Transition>(&self, request: &T) -> Result<T::Answer> {
        self.apply_in(request, &self.context())
    }

    /// The transition under the lock, as if it were in `context`.
    pub(crate) fn apply_in<T: Transition>(&self, request: &T, context: &Context) -> Result<T::Answer> {
        let id = self.bend.keep_under(request.id());
        let mut records = lock(&self.shared.records);
        let step = request.apply(records.get(&id), context)?;
        let changed = self.write(&mut records, &id, step.write);
        drop(records);
        if changed {
            self.ring(&id);
        }
        Ok(step.answer)
    }

    /// The transition on what is stored now, written without looking again later.
    pub(crate) fn look<T: Transition>(&self, request: &T) -> Result<Step<T::Answer>> {
        let id = self.bend.keep_under(request.id());
        request.apply(lock(&self.shared.records).get(&id), &self.context())
    }

    /// Writes whatever is stored.
    pub(crate) fn write(
        &self,
        records: &mut BTreeMap<OperationId, Record>,
        id: &OperationId,
        write: Write,
    ) -> bool {
        match write {
            Write::Put(mut record) => {
                let before = records.get(id);
                self.bend.stores(self, before, &mut record);
                let changed = before.is_some_and(|before| before.state != record.state);
                records.insert(id.clone(), *record);
                changed
            }
            Write::Remove => records.remove(id).is_some(),
            _ => false,
        }
    }

    pub(crate) fn ring(&self, id: &OperationId) {
        self.shared.bells.ring(id);
    }

    pub(crate) fn stored(&self, id: &OperationId) -> Option<Record> {
        lock(&self.shared.records).get(&self.bend.keep_under(id)).cloned()
    }

    /// Changes what is stored, outside of every transition.
    pub(crate) fn edit(&self, id: &OperationId, change: impl FnOnce(&mut Record)) {
        if let Some(record) = lock(&self.shared.records).get_mut(&self.bend.keep_under(id)) {
            change(record);
        }
    }

    /// Removes what is stored, if it is as `gone` says.
    pub(crate) fn remove_if(&self, id: &OperationId, gone: impl FnOnce(&Record) -> bool) -> bool {
        let id = self.bend.keep_under(id);
        let mut records = lock(&self.shared.records);
        records.get(&id).is_some_and(gone) && records.remove(&id).is_some()
    }

    pub(crate) fn remove(&self, id: &OperationId) {
        lock(&self.shared.records).remove(&self.bend.keep_under(id));
    }

    pub(crate) fn ids(&self) -> Vec<OperationId> {
        lock(&self.shared.records).keys().cloned().collect()
    }

    /// Steps over every record until `limit` of them had something to do.
    pub(crate) fn sweep(&self, limit: usize) -> Result<Swept> {
        let limit = limit.clamp(1, PAGE_MAX);
        let mut swept = Swept::default();
        for id in self.ids() {
            if swept.erased + swept.purged == limit as u64 {
                swept.more = true;
                break;
            }
            match self.apply(&Sweep::new(id))? {
                SweepStep::Erased => swept.erased += 1,
                SweepStep::Purged => swept.purged += 1,
                _ => {}
            }
        }
        Ok(swept)
    }

    pub(crate) fn list(&self, query: &Query) -> Page {
        let context = self.context();
        let after = query.after.as_ref().map(|after| self.bend.keep_under(after));
        let after = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let records = lock(&self.shared.records);
        let admitted = records
            .range::<OperationId, _>((after, Bound::Unbounded))
            .filter(|(_, record)| query.admits(&record.id, context.view(Some(record))));
        let page: Vec<_> =
            admitted.take(query.page()).map(|(_, record)| record.clone().without_content()).collect();
        let next =
            if page.len() == query.page() { page.last().map(|record| record.id.clone()) } else { None };
        Page::new(page, next, context.now)
    }

    async fn pause(&self) {
        for _ in 0..self.bend.yields() {
            tokio::task::yield_now().await;
        }
        let waits_ms = self.bend.waits_ms();
        if waits_ms > 0 {
            let until = self.clock.elapsed() + std::time::Duration::from_millis(waits_ms);
            self.clock.sleep_until(until).await;
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.bend)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Handle {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        self.pause().await;
        self.bend.register(self, request)
    }

    async fn claim(&self, request: &Claim) -> Result<Claimed> {
        self.pause().await;
        if self.bend.refuses_local() {
            refuse_local(request)?;
        }
        self.bend.before_claim(self, request);
        self.pause().await;
        self.bend.claim(self, request)
    }

    async fn renew(&self, request: &Renew) -> Result<Renewed> {
        self.pause().await;
        self.bend.renew(self, request)
    }

    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed> {
        self.pause().await;
        self.bend.checkpoint(self, request)
    }

    async fn complete(&self, request: &Complete) -> Result<Completed> {
        self.pause().await;
        self.bend.complete(self, request)
    }

    async fn release(&self, request: &Release) -> Result<Released> {
        self.pause().await;
        self.bend.release(self, request)
    }

    async fn park(&self, request: &Park) -> Result<Parked> {
        self.pause().await;
        self.bend.park(self, request)
    }

    async fn resolve(&self, request: &Resolve) -> Result<Resolved> {
        self.pause().await;
        self.bend.resolve(self, request)
    }

    async fn erase(&self, request: &Erase) -> Result<Erased> {
        self.pause().await;
        self.bend.erase(self, request)
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>> {
        self.pause().await;
        Ok(self.bend.get(self, id))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.pause().await;
        self.bend.list(self, query)
    }

    async fn stats(&self) -> Result<Stats> {
        let mut stats = Stats::at(self.context().now);
        for record in lock(&self.shared.records).values() {
            stats.count(record, 0);
        }
        Ok(stats)
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.pause().await;
        self.bend.sweep(self, limit)
    }

    async fn changed(&self, id: &OperationId, version: u64) {
        let heard = self.shared.bells.listen(&self.bend.keep_under(id));
        tokio::pin!(heard);
        heard.as_mut().enable();
        let current = self.stored(id).map(|record| record.version);
        match self.bend.waking() {
            Waking::Restless => {}
            Waking::Right if current != Some(version) => {}
            Waking::Right | Waking::Deaf => heard.await,
        }
    }
}
