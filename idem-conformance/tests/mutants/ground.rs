//! What mutants stand on: memory, or a folder of files.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use idem_conformance::{Capability, Declared, Harness, Site};
use idem_core::{Result, Store};

use crate::bent::{Bend, Handle, Shared, lock};

/// What a mutant stands on, and so which scenarios it is run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ground {
    /// Memory: every scenario that memory can run.
    Memory,
    /// A folder of files: the scenarios that need a store that outlives its process.
    Folder,
}

/// A bent store in memory. Every harness has its own sites, so that scenarios do not meet.
pub(crate) struct Memory {
    name: &'static str,
    bend: Arc<dyn Bend>,
    sites: Mutex<HashMap<String, Arc<Shared>>>,
    /// All namespaces are one.
    one_site: bool,
}

impl Memory {
    pub(crate) fn new(name: &'static str, bend: Arc<dyn Bend>, one_site: bool) -> Self {
        Self { name, bend, sites: Mutex::new(HashMap::new()), one_site }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[async_trait]
impl Harness for Memory {
    fn name(&self) -> &'static str {
        self.name
    }

    fn capabilities(&self) -> Declared {
        Declared::supports(&[Capability::Clock, Capability::Handles, Capability::Wait])
            .declines(&Capability::ALL, "a mutant in memory")
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        let namespace = if self.one_site { "" } else { site.namespace() };
        let shared = lock(&self.sites).entry(namespace.to_owned()).or_default().clone();
        let zone = site.session_zone().map(str::to_owned);
        Ok(Arc::new(Handle::new(shared, site.clock(), site.client_clock(), zone, self.bend.clone())))
    }
}
