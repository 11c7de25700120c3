//! From a URL to a ledger: the one place that knows which stores there are.

mod location;
#[cfg(feature = "redis")]
mod redis;
mod url;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use idem_core::{Error, ErrorKind, Result, Store};

pub(crate) use location::Location;
use location::{Kind, refuse};
pub(crate) use url::redacted;

/// Whether the ledger has to be there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    Existing,
    Make,
}

/// An open ledger.
pub(crate) struct Opened {
    store: Arc<dyn Store>,
    #[cfg(feature = "sqlite")]
    sqlite: Option<idem_sqlite::SqliteStore>,
}

impl Opened {
    /// One that has nothing to close: its connections end with it.
    #[cfg(feature = "redis")]
    fn of(store: impl Store + 'static) -> Self {
        Self {
            store: Arc::new(store),
            #[cfg(feature = "sqlite")]
            sqlite: None,
        }
    }

    /// The ledger's store. What is made of it has to be gone before the ledger is closed.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Ends everything that the store has going, so that no file is left which only an open ledger needs. A store that
    /// is stuck is left as it is after [`CLOSING`](crate::runtime::CLOSING): whoever opens it next cleans up.
    #[cfg_attr(not(feature = "sqlite"), allow(clippy::unused_async, reason = "closing a file takes time"))]
    pub(crate) async fn close(self) {
        #[cfg(feature = "sqlite")]
        if let Some(sqlite) = self.sqlite {
            let _stuck = tokio::time::timeout(crate::runtime::CLOSING, sqlite.close()).await;
        }
    }
}

impl Location {
    /// Opens the ledger, and makes it where there is none.
    ///
    /// # Errors
    ///
    /// `Configuration` where it cannot be there; those of the store.
    pub(crate) async fn open(&self) -> Result<Opened> {
        match self {
            Self::Sqlite { path, default } => {
                if *default
                    && cfg!(feature = "sqlite")
                    && let Some(folder) = path.parent()
                {
                    make_folder(folder)?;
                }
                open_sqlite(path, Opening::Make).await
            }
            Self::Server { url, kind } => open_server(url.secret(), *kind).await,
        }
    }

    /// Opens a ledger that is there: a look at one must not make it, and least of all in a file of somebody else. Where a
    /// server is, a ledger is.
    ///
    /// # Errors
    ///
    /// `Configuration` where it is not; those of the store.
    pub(crate) async fn open_existing(&self) -> Result<Opened> {
        let Self::Sqlite { path, .. } = self else { return self.open().await };
        if path.exists() {
            return open_sqlite(path, Opening::Existing).await;
        }
        Err(Error::configuration(format!(
            "there is no ledger at {}: name it with --store or IDEM_STORE",
            path.display()
        )))
    }
}

/// The folder of the default ledger, which only its user may read.
fn make_folder(folder: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        let message = format!("the folder {} cannot be made", folder.display());
        Error::with_source(ErrorKind::Configuration, message, error)
    })
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(path: &Path, opening: Opening) -> Result<Opened> {
    // One call asks one thing at a time.
    let config = idem_sqlite::SqliteConfig::new(path).readers(1);
    let config = if opening == Opening::Existing { config.existing() } else { config };
    let sqlite = idem_sqlite::SqliteStore::open_with(config).await?;
    Ok(Opened { store: Arc::new(sqlite.clone()), sqlite: Some(sqlite) })
}

#[cfg(not(feature = "sqlite"))]
#[allow(clippy::unused_async, reason = "opening a file takes time where it is built in")]
async fn open_sqlite(_: &Path, _: Opening) -> Result<Opened> {
    Err(refuse(Kind::Sqlite, "sqlite"))
}

#[cfg_attr(not(feature = "redis"), allow(clippy::unused_async, reason = "a server takes its time"))]
async fn open_server(url: &str, kind: Kind) -> Result<Opened> {
    match kind {
        #[cfg(feature = "redis")]
        Kind::Redis => redis::open(url).await,
        _ => Err(refuse(kind, url::scheme(url.as_bytes()).unwrap_or_default())),
    }
}
