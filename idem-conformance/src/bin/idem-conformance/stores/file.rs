//! The compare-and-swap adapter over a folder of files: the smallest store that outlives its process.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Capability, Declared, Harness, Site};
use idem_core::{Capabilities, CasAdapter, Result, Store};

use super::file_store::FileStore;

#[derive(Debug)]
pub(crate) struct Folder;

#[async_trait]
impl Harness for Folder {
    fn name(&self) -> &'static str {
        "file"
    }

    fn capabilities(&self) -> Declared {
        Declared::supports(&[Capability::Clock, Capability::Reopen, Capability::Process, Capability::Handles])
            .declines(&[Capability::Wait], "each handle wakes its own waiters alone")
            .declines(&[Capability::Proxy, Capability::Restart], "there is no server")
            .declines(&[Capability::StorageFaults], "not built yet")
            .declines(&[Capability::Transaction, Capability::Outbox], "the adapter has no transactions")
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        let store = FileStore::open(&site.dir().join("ledger"))?;
        let capabilities = Capabilities::new("file", "whatever the operating system has not written yet");
        Ok(Arc::new(CasAdapter::with(store, capabilities, site.clock())))
    }
}
