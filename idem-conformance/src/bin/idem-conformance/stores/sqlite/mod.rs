//! The SQLite store.

mod effects;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Capability, Declared, Effects, Harness, Setting, Site};
use idem_core::{Error, Result, Store};
use idem_sqlite::{SqliteConfig, SqliteStore};

/// The environment variable with a folder, as `sqlite:FOLDER`, in which the ledgers are made; without it each is made in
/// the folder of its site. What is lost at a kill and how long a commit takes are matters of the file system below.
pub(crate) const VARIABLE: &str = "IDEM_SQLITE_URL";

#[derive(Debug, Default)]
pub(crate) struct Sqlite {
    folder: Option<PathBuf>,
}

impl Sqlite {
    /// With its ledgers where `url` says: `sqlite:FOLDER`.
    #[allow(dead_code, reason = "the store's own test program uses the folders of its sites")]
    pub(crate) fn at(url: &str) -> std::result::Result<Self, String> {
        let config = SqliteConfig::from_url(url).map_err(|error| error.to_string())?;
        let folder = config.path().to_owned();
        if folder.is_dir() {
            return Ok(Self { folder: Some(folder) });
        }
        Err(format!("{} is not a folder", folder.display()))
    }

    fn file(&self, site: &Site) -> PathBuf {
        match &self.folder {
            Some(folder) => folder.join(format!("{}.db", site.namespace())),
            None => site.dir().join("ledger.db"),
        }
    }

    async fn store(&self, site: &Site) -> Result<SqliteStore> {
        let mut config = SqliteConfig::new(self.file(site)).clock(site.clock());
        if let Some(patience) = site.patience() {
            config = config.busy_timeout(patience);
        }
        SqliteStore::open_with(config).await
    }
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
        Ok(Arc::new(self.store(site).await?))
    }

    async fn effects(&self, site: &Site) -> Result<Arc<dyn Effects>> {
        Ok(Arc::new(effects::Table::make(self.store(site).await?)?))
    }

    async fn durability(&self, site: &Site) -> Result<Vec<Setting>> {
        let connection = self.store(site).await?.connect()?;
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

    fn environment(&self) -> Vec<(&'static str, String)> {
        let url = self.folder.as_ref().map(|folder| format!("sqlite:{}", folder.display()));
        url.map(|url| (VARIABLE, url)).into_iter().collect()
    }

    async fn teardown(&self, site: &Site) {
        if self.folder.is_some() {
            for end in ["", "-wal", "-shm"] {
                // What was never opened has nothing to remove.
                let _ = std::fs::remove_file(format!("{}{end}", self.file(site).display()));
            }
        }
    }
}
