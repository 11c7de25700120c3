//! The README's walk from three methods to a native store: what it shows is here, and passes.

// A store in three methods.
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use idem_core::cas::{CasStore, Swap};
use idem_core::{OperationId, Record, Result};

/// Your driver goes here: a row is a record and a number that is never used twice.
#[derive(Debug, Default)]
struct Rows {
    rows: BTreeMap<OperationId, (u64, Record)>,
    last: u64,
}

#[derive(Debug, Clone, Default)]
struct MyStore(Arc<Mutex<Rows>>);

#[async_trait]
impl CasStore for MyStore {
    type Version = u64;

    async fn load(&self, id: &OperationId) -> Result<Option<(Record, u64)>> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(table.rows.get(id).map(|(version, record)| (record.clone(), *version)))
    }

    async fn compare_and_swap(
        &self,
        id: &OperationId,
        expected: Option<&u64>,
        next: Option<&Record>,
    ) -> Result<Swap> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.rows.get(id).map(|(version, _)| version) != expected {
            return Ok(Swap::Lost);
        }
        table.last += 1;
        let version = table.last;
        match next {
            Some(record) => table.rows.insert(id.clone(), (version, record.clone())),
            None => table.rows.remove(id),
        };
        Ok(Swap::Applied)
    }

    async fn scan(&self, after: Option<&OperationId>, limit: usize) -> Result<Vec<Record>> {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let later = table.rows.range::<OperationId, _>((after.map_or(Unbounded, Excluded), Unbounded));
        Ok(later.take(limit).map(|(_, (_, record))| record.clone()).collect())
    }
}

// How the suite reaches it.
use idem_conformance::{Capability, Declared, Harness, Site};
use idem_core::{Capabilities, CasAdapter, Store};

/// One store a site. A store with a server or a file derives its place from the site, and needs no such map.
#[derive(Debug, Default)]
struct MyHarness(Mutex<HashMap<String, MyStore>>);

impl MyHarness {
    fn adapter(&self, site: &Site) -> CasAdapter<MyStore> {
        let mut stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let store = stores.entry(site.namespace().to_owned()).or_default().clone();
        CasAdapter::with(
            store,
            Capabilities::new("mine", "everything is lost with the process"),
            site.clock(),
        )
    }
}

#[async_trait]
impl Harness for MyHarness {
    fn name(&self) -> &'static str {
        "mine"
    }

    fn capabilities(&self) -> Declared {
        Declared::supports(&[Capability::Clock, Capability::Handles])
            .declines(&Capability::ALL, "everything is lost with the process")
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.adapter(site)))
    }
}

// The second rung: one method after the other goes native.
use idem_core::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use idem_core::clock::Clock;
use idem_core::request::{
    Claim, Complete, Erase, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use idem_core::store::refuse_local;
use idem_core::transition::{Context, Transition, Write};

/// Native where it has been written, the adapter everywhere else.
#[derive(Debug)]
struct MyNativeStore {
    adapter: CasAdapter<MyStore>,
    clock: Arc<dyn Clock>,
}

impl MyNativeStore {
    /// The whole step where the data is: in SQL one transaction, on a server one script. No second trip, no turn lost
    /// to another writer.
    fn in_one_trip<T: Transition>(&self, request: &T) -> Result<T::Answer> {
        let mut table = self.adapter.inner().0.lock().unwrap_or_else(PoisonError::into_inner);
        let capabilities = self.adapter.capabilities();
        // Read inside, so that a lease is never counted from before the wait for the lock (G-13).
        let context = Context::at(self.clock.now()).step_ms(capabilities.step_ms).limits(capabilities.limits);
        let stored = table.rows.get(request.id()).map(|(_, record)| record);
        let step = request.apply(stored, &context)?;
        table.last += 1;
        let version = table.last;
        match step.write {
            Write::Put(record) => drop(table.rows.insert(request.id().clone(), (version, *record))),
            Write::Remove => drop(table.rows.remove(request.id())),
            _ => {}
        }
        Ok(step.answer)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for MyNativeStore {
    async fn claim(&self, request: &Claim) -> Result<Claimed> {
        refuse_local(request)?;
        self.in_one_trip(request)
    }

    async fn complete(&self, request: &Complete) -> Result<Completed> {
        self.in_one_trip(request)
    }

    // Not native yet: these go to the adapter.
    fn capabilities(&self) -> &Capabilities {
        self.adapter.capabilities()
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        self.adapter.register(request).await
    }

    async fn renew(&self, request: &Renew) -> Result<Renewed> {
        self.adapter.renew(request).await
    }

    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed> {
        self.adapter.checkpoint(request).await
    }

    async fn release(&self, request: &Release) -> Result<Released> {
        self.adapter.release(request).await
    }

    async fn park(&self, request: &Park) -> Result<Parked> {
        self.adapter.park(request).await
    }

    async fn resolve(&self, request: &Resolve) -> Result<Resolved> {
        self.adapter.resolve(request).await
    }

    async fn erase(&self, request: &Erase) -> Result<Erased> {
        self.adapter.erase(request).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>> {
        self.adapter.get(id).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.adapter.list(query).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.adapter.stats().await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.adapter.sweep(limit).await
    }

    async fn changed(&self, id: &OperationId, version: u64) {
        self.adapter.changed(id, version).await;
    }
}

/// The same sites as [`MyHarness`], opened natively.
#[derive(Debug, Default)]
struct MyNativeHarness(MyHarness);

#[async_trait]
impl Harness for MyNativeHarness {
    fn name(&self) -> &'static str {
        "mine-native"
    }

    fn capabilities(&self) -> Declared {
        self.0.capabilities()
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(MyNativeStore { adapter: self.0.adapter(site), clock: site.clock() }))
    }
}

idem_conformance::main!(MyHarness::default(), MyNativeHarness::default());
