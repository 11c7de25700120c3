//! The SQLite store against the suite.

mod effects;

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Capability, Declared, Effects, Harness, Setting, Site};
use idem_core::{Error, Result, Store};
use idem_sqlite::{SqliteConfig, SqliteStore};

#[derive(Debug)]
struct Sqlite;

async fn open(site: &Site) -> Result<SqliteStore> {
    let mut config = SqliteConfig::new(site.dir().join("ledger.db")).clock(site.clock());
    if let Some(patience) = site.patience() {
        config = config.busy_timeout(patience);
    }
    SqliteStore::open_with(config).await
}

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
            Capability::Transaction,
        ])
        .declines(&[Capability::Proxy, Capability::Restart], "there is no server")
        .declines(&[Capability::Outbox], "there is no outbox yet")
        .declines(&[Capability::StorageFaults], "tested in src/tests/failure.rs")
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(open(site).await?))
    }

    async fn effects(&self, site: &Site) -> Result<Arc<dyn Effects>> {
        Ok(Arc::new(effects::Table::make(open(site).await?)?))
    }

    async fn durability(&self, site: &Site) -> Result<Vec<Setting>> {
        let connection = open(site).await?.connect()?;
        let read =
            |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, String>(0));
        let settings = [("journal_mode", "wal"), ("synchronous", "2")];
        let read_back = settings.into_iter().map(|(name, relied_on)| {
            let found = read(name).or_else(|_| {
                connection
                    .query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0))
                    .map(|n| n.to_string())
            });
            Ok(Setting::new(name, relied_on, found.map_err(|error| Error::internal(error.to_string()))?))
        });
        read_back.collect()
    }
}

idem_conformance::main!(Sqlite);
