//! The SQLite store against the suite.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Capability, Declared, Harness, Site};
use idem_core::{Result, Store};
use idem_sqlite::{SqliteConfig, SqliteStore};

#[derive(Debug)]
struct Sqlite;

#[async_trait]
impl Harness for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn capabilities(&self) -> Declared {
        Declared::supports(&[
            Capability::Clock,
            Capability::Reopen,
            Capability::Process,
            Capability::Handles,
            Capability::Wait,
        ])
        .declines(&[Capability::Proxy, Capability::Restart], "there is no server")
        .declines(&[Capability::Transaction], "tested in src/tests/local.rs until the harness can open one")
        .declines(&[Capability::Outbox], "there is no outbox yet")
        .declines(&[Capability::StorageFaults], "tested in src/tests/failure.rs")
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        let config = SqliteConfig::new(site.dir().join("ledger.db")).clock(site.clock());
        Ok(Arc::new(SqliteStore::open_with(config).await?))
    }
}

idem_conformance::main!(Sqlite);
