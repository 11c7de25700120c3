//! A store that counts what it is asked, as evidence.

use std::sync::Arc;

use async_trait::async_trait;
use idem_core::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use idem_core::request::{
    Claim, Complete, Erase, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use idem_core::{Capabilities, OperationId, Record, Result, Store};

use crate::evidence::{Fact, Tally};

#[derive(Debug)]
pub(crate) struct Watched {
    inner: Arc<dyn Store>,
    tally: Arc<Tally>,
}

impl Watched {
    pub(crate) fn over(inner: Arc<dyn Store>, tally: Arc<Tally>) -> Self {
        Self { inner, tally }
    }

    fn seen<T>(&self, answer: Result<T>) -> Result<T> {
        if answer.is_ok() {
            self.tally.add(Fact::Calls, 1);
        }
        answer
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Watched {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        self.seen(self.inner.register(request).await)
    }

    async fn claim(&self, request: &Claim) -> Result<Claimed> {
        self.seen(self.inner.claim(request).await)
    }

    async fn renew(&self, request: &Renew) -> Result<Renewed> {
        self.seen(self.inner.renew(request).await)
    }

    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed> {
        self.seen(self.inner.checkpoint(request).await)
    }

    async fn complete(&self, request: &Complete) -> Result<Completed> {
        self.seen(self.inner.complete(request).await)
    }

    async fn release(&self, request: &Release) -> Result<Released> {
        self.seen(self.inner.release(request).await)
    }

    async fn park(&self, request: &Park) -> Result<Parked> {
        self.seen(self.inner.park(request).await)
    }

    async fn resolve(&self, request: &Resolve) -> Result<Resolved> {
        self.seen(self.inner.resolve(request).await)
    }

    async fn erase(&self, request: &Erase) -> Result<Erased> {
        self.seen(self.inner.erase(request).await)
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>> {
        self.seen(self.inner.get(id).await)
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.seen(self.inner.list(query).await)
    }

    async fn stats(&self) -> Result<Stats> {
        self.seen(self.inner.stats().await)
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.seen(self.inner.sweep(limit).await)
    }

    async fn changed(&self, id: &OperationId, version: u64) {
        self.inner.changed(id, version).await;
    }
}
