//! The compare-and-swap adapter, over the smallest store that it can lift.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Capability, Declared, Harness, Site};
use idem_core::store::DecidingClock;
use idem_core::{Capabilities, CasAdapter, Result, Store};

use super::map_store::MapStore;
use super::sites::Sites;

#[derive(Debug, Default)]
pub(crate) struct Adapter(Sites<MapStore>);

#[async_trait]
impl Harness for Adapter {
    fn name(&self) -> &'static str {
        "cas"
    }

    fn capabilities(&self) -> Declared {
        Declared::supports(&[Capability::Clock, Capability::Handles])
            .declines(&[Capability::Wait], "each handle wakes its own waiters alone")
            .declines(&[Capability::Reopen, Capability::Process], "the records are gone with the process")
            .declines(&[Capability::Proxy, Capability::Restart], "there is no server")
            .declines(&[Capability::StorageFaults], "there is no storage below it that could fail")
            .declines(&[Capability::Transaction, Capability::Outbox], "the adapter has no transactions")
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        let mut capabilities = Capabilities::new("cas", "everything is lost when the process ends");
        capabilities.shared = true;
        capabilities.clock = DecidingClock::Caller;
        capabilities.guard_ms = 500;
        let store = self.0.get(site, MapStore::default);
        Ok(Arc::new(CasAdapter::with(store, capabilities, site.client_clock())))
    }

    async fn teardown(&self, site: &Site) {
        self.0.remove(site);
    }
}
