//! What a backend author implements: how to open the store.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{Result, Store};

use crate::capability::Declared;
use crate::hooks::{Effects, Outbox, Server, Setting, Storage, not_given};
use crate::site::Site;

/// How the suite reaches one backend.
///
/// ```no_run
/// use std::sync::Arc;
/// use idem_conformance::{Capability, Declared, Harness, Site};
///
/// #[derive(Debug)]
/// struct MyHarness;
///
/// #[async_trait::async_trait]
/// impl Harness for MyHarness {
///     fn name(&self) -> &'static str {
///         "mine"
///     }
///
///     fn capabilities(&self) -> Declared {
///         Declared::supports(&[Capability::Wait]).declines(&Capability::ALL, "not built yet")
///     }
///
///     async fn open(&self, site: &Site) -> idem_core::Result<Arc<dyn idem_core::Store>> {
///         Ok(Arc::new(idem_core::MemoryStore::new())) // yours, under `site.namespace()` or in `site.dir()`
///     }
/// }
///
/// idem_conformance::main!(MyHarness);
/// ```
#[async_trait]
pub trait Harness: Send + Sync + fmt::Debug + 'static {
    /// The backend's name, the first part of every scenario's name: lower-case letters, digits, `_` and `-`.
    fn name(&self) -> &'static str;

    /// What is supported, and what is declined for which reason. Asked once; must not depend on a server being there.
    fn capabilities(&self) -> Declared;

    /// A handle on the store of `site`; also a second one, also in another process, also after the first one was
    /// closed. Creates what the store needs (a file, a table) if it is not there.
    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>>;

    /// Whether the backend can be reached at all; asked in every process, so it has to be cheap.
    ///
    /// # Errors
    ///
    /// Why not, and what would help, in one line: then everything is skipped with this reason, or fails where
    /// `IDEM_REQUIRE` names the backend.
    async fn available(&self) -> Result<(), String> {
        Ok(())
    }

    /// What a child process needs in its environment to open the same sites: where the server is that this process
    /// was told of or started, for example. The harness of the child reads it.
    fn environment(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Removes what [`open`](Self::open) made under the site's namespace; its folder is removed anyway.
    async fn teardown(&self, _site: &Site) {}

    /// T: a place for effects in the same database. Makes it if it is not there.
    async fn effects(&self, _site: &Site) -> Result<Arc<dyn Effects>> {
        Err(not_given("effects"))
    }

    /// O: the outbox of the site, as relays see it.
    async fn outbox(&self, _site: &Site) -> Result<Arc<dyn Outbox>> {
        Err(not_given("outbox"))
    }

    /// N: where the server listens that [`open`](Self::open) connects to. A proxy is put before it, and handles on sites
    /// with [`via`](Site::via) connect to that instead.
    async fn proxy_target(&self) -> Result<SocketAddr> {
        Err(not_given("proxy_target"))
    }

    /// R: the server of sites with [`own_server`](Site::own_server), which is started when it is asked for the first
    /// time.
    async fn server(&self) -> Result<Arc<dyn Server>> {
        Err(not_given("server"))
    }

    /// F: the storage below the site.
    async fn storage(&self, _site: &Site) -> Result<Arc<dyn Storage>> {
        Err(not_given("storage"))
    }

    /// D: the settings on which durability rests, read back from where they take effect on this site.
    async fn durability(&self, _site: &Site) -> Result<Vec<Setting>> {
        Err(not_given("durability"))
    }
}
