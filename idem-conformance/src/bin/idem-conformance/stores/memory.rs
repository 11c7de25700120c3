//! The reference store.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Capability, Declared, Harness, Site};
use idem_core::store::Limits;
use idem_core::{MemoryStore, Result, Store};

use super::sites::Sites;

#[derive(Debug, Default)]
pub(crate) struct Memory(Sites<MemoryStore>);

#[async_trait]
impl Harness for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Declared {
        Declared::supports(&[Capability::Clock, Capability::Handles, Capability::Wait])
            .declines(&[Capability::Reopen, Capability::Process], "the records are gone with the process")
            .declines(&[Capability::Proxy, Capability::Restart], "there is no server")
            .declines(&[Capability::StorageFaults], "there is no storage below it that could fail")
            .declines(&[Capability::Transaction, Capability::Outbox], "the store has no transactions")
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.0.get(site, || MemoryStore::with(site.clock(), Limits::default()))))
    }

    async fn teardown(&self, site: &Site) {
        self.0.remove(site);
    }
}
