//! The reference store against the suite.

mod common;

use std::sync::Arc;

use async_trait::async_trait;
use common::Sites;
use idem_conformance::{Declared, Harness, Site};
use idem_core::store::Limits;
use idem_core::{MemoryStore, Result, Store};

#[derive(Debug, Default)]
struct Memory(Sites<MemoryStore>);

#[async_trait]
impl Harness for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn capabilities(&self) -> Declared {
        common::in_process()
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.0.get(site, || MemoryStore::with(site.clock(), Limits::default()))))
    }

    async fn teardown(&self, site: &Site) {
        self.0.remove(site);
    }
}

idem_conformance::main!(Memory::default());
