//! The store.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::answer::{
    Checkpointed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats, Swept,
};
use idem_core::request::{
    Complete, Erase, PAGE_MAX, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use idem_core::store::{Capabilities, Store, refuse_local};
use idem_core::transition::Transition;
use idem_core::{Claim, Claimed, Error, ErrorKind, OperationId, Record, Result, View};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::bells;
use crate::config::SqliteConfig;
use crate::group::{Look, Rules, SweepBatch};
use crate::readers::Readers;
use crate::schema::{self, Instance};
use crate::session::Session;
use crate::statements::{self, Place};
use crate::writer::{self, Shared};

/// A ledger in one SQLite file, which several processes of one host may share. Clones share it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), idem_core::Error> {
/// use idem_core::{Claim, Claimed, Fingerprint, Label, OperationId, Store};
/// use idem_sqlite::SqliteStore;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("ledger.db");
/// let store = SqliteStore::open(&path).await?;
/// let id = OperationId::new("acme", "charge/v1", "order-1")?;
/// let claim = Claim::new(id, Fingerprint::bytes(b"10 EUR"), Label::new("worker-1")?);
/// assert!(matches!(store.claim(&claim).await?, Claimed::Granted(_)));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SqliteStore(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    readers: Readers,
    config: SqliteConfig,
    capabilities: Capabilities,
    instance: Instance,
    /// Resolves when the writer thread has ended.
    ended: std::sync::Mutex<Option<oneshot::Receiver<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl SqliteStore {
    /// Opens the file at `path` with the default [configuration](SqliteConfig), and makes it if it is missing.
    ///
    /// # Errors
    ///
    /// - `Configuration`: no such folder, no permission, not an SQLite database, a schema of a newer version, a network
    ///   file system.
    /// - `Unavailable`: another process kept the file locked for longer than the busy timeout.
    /// - `Corrupt`: the file is damaged.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(SqliteConfig::new(path)).await
    }

    /// The same as `config` says.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn open_with(config: SqliteConfig) -> Result<Self> {
        let (opened, store) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        // Opening may wait for other processes, so it happens on the thread that stays to write.
        std::thread::Builder::new()
            .name("idem-sqlite".to_owned())
            .spawn(move || {
                let store = Self::open_blocking(config, ended);
                let shared = store.as_ref().ok().map(|store| Arc::clone(&store.0.shared));
                // If nobody waits any more, the store is dropped here, and that closes the queue.
                drop(opened.send(store));
                if let Some(shared) = shared {
                    writer::serve(&shared);
                }
                drop(ending);
            })
            .map_err(|error| {
                Error::with_source(ErrorKind::Unavailable, "the writer thread cannot be started", error)
            })?;
        store.await.map_err(|_| Error::internal("opening the store panicked"))?
    }

    fn open_blocking(config: SqliteConfig, ended: oneshot::Receiver<()>) -> Result<Self> {
        let (connection, instance) = schema::open_writer(&config)?;
        let readers = Readers::open(&config)?;
        let rules =
            Rules { clock: Arc::clone(&config.clock), limits: config.limits, step_ms: config.step_ms };
        let shared = Arc::new(Shared::new(Session::new(connection)?, rules, bells::of(&instance), &config));
        let capabilities = config.capabilities();
        let ended = std::sync::Mutex::new(Some(ended));
        Ok(Self(Arc::new(Inner { shared, readers, config, capabilities, instance, ended })))
    }

    /// Answers what is queued, refuses the writes that come later, and resolves once the writer thread has ended; of
    /// several calls the first one waits. Dropping the last clone does the same without the waiting.
    pub async fn close(&self) {
        self.0.shared.close();
        let ended = self.0.ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(ended) = ended {
            // The sender is dropped, never used: an error is the end.
            let _ended = ended.await;
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.config.path()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    pub(crate) fn instance(&self) -> &Instance {
        &self.0.instance
    }

    /// A connection of your own to the same file, with the store's settings: for [`claim_in`](Self::claim_in) and
    /// [`complete_in`](Self::complete_in), and for your own tables. It waits up to the busy timeout for the write lock.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn connect(&self) -> Result<Connection> {
        schema::open(&self.0.config)
    }

    /// From a snapshot where that decides it, otherwise by the writer.
    async fn answer<T>(&self, request: &T) -> Result<T::Answer>
    where
        T: Transition + Clone + 'static,
        T::Answer: 'static,
    {
        match self.answer_now(request) {
            Some(answer) => answer,
            None => self.0.shared.apply(request).await,
        }
    }

    /// From a snapshot, where that decides it.
    pub(crate) fn answer_now<T: Transition>(&self, request: &T) -> Option<Result<T::Answer>> {
        self.0.readers.answer(request, &self.0.shared.rules)
    }

    /// Runs a long read on a connection of its own, off the runtime.
    async fn scan<R: Send + 'static>(
        &self,
        run: impl FnOnce(&Connection) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let config = self.0.config.clone();
        tokio::task::spawn_blocking(move || run(&schema::open_reader(&config)?))
            .await
            .map_err(|error| Error::with_source(ErrorKind::Unavailable, "the read was cut off", error))?
    }

    /// The stored record as it is, expired or not: for tests that compare stores byte by byte.
    ///
    /// # Errors
    ///
    /// As [`get`](Store::get).
    pub fn stored(&self, id: &OperationId) -> Result<Option<Record>> {
        let found = self.0.readers.read(|connection| statements::find(connection, id))?;
        Ok(found.map(|found| found.record))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteStore").field(&self.0.config).finish()
    }
}

/// Rows that one batch of a sweep looks at: claims wait for no longer than these take.
const SWEEP_ROWS: usize = 128;

/// Batches of one sweep. It ends with them where most of what is due, some 10,000 rows, is kept or cannot be read.
const SWEEP_BATCHES_MAX: usize = 80;

/// What a sweep did. Rows that cannot be read are an error where they are all that it found.
fn done(swept: Swept, corrupt: Option<Error>) -> Result<Swept> {
    match corrupt {
        Some(error) if swept.erased + swept.purged == 0 => Err(error),
        _ => Ok(swept),
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for SqliteStore {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        self.answer(request).await
    }

    async fn claim(&self, request: &Claim) -> Result<Claimed> {
        refuse_local(request)?;
        self.answer(request).await
    }

    async fn renew(&self, request: &Renew) -> Result<Renewed> {
        self.0.shared.apply(request).await
    }

    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed> {
        self.0.shared.apply(request).await
    }

    async fn complete(&self, request: &Complete) -> Result<Completed> {
        self.0.shared.apply(request).await
    }

    async fn release(&self, request: &Release) -> Result<Released> {
        self.0.shared.apply(request).await
    }

    async fn park(&self, request: &Park) -> Result<Parked> {
        self.0.shared.apply(request).await
    }

    async fn resolve(&self, request: &Resolve) -> Result<Resolved> {
        self.0.shared.apply(request).await
    }

    async fn erase(&self, request: &Erase) -> Result<Erased> {
        self.0.shared.apply(request).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>> {
        let found = match self.0.readers.read(|connection| statements::find(connection, id)) {
            // A lock that another process holds is waited for by the writer.
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                self.0.shared.ask(Look(id.clone())).await?
            }
            found => found?,
        };
        Ok(found.and_then(|found| found.record.as_read(self.0.shared.rules.now())))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        let query = query.clone();
        let rules = self.0.shared.rules.clone();
        self.scan(move |connection| {
            let now = rules.now();
            let records = statements::list(connection, &query, now)?;
            let next =
                if records.len() == query.page() { records.last().map(|last| last.id.clone()) } else { None };
            Ok(Page::new(records.into_iter().map(Record::without_content).collect(), next, now))
        })
        .await
    }

    async fn stats(&self) -> Result<Stats> {
        let rules = self.0.shared.rules.clone();
        let now = rules.now();
        let counted = self.scan(move |connection| statements::count(connection, now)).await?;
        let mut stats = Stats::at(now);
        for counted in counted {
            let oldest = match counted.view {
                View::Running | View::Lapsed => Some(&mut stats.oldest_processing),
                View::Uncertain => Some(&mut stats.oldest_uncertain),
                _ => None,
            };
            if let Some(oldest) = oldest {
                *oldest = [*oldest, counted.since].into_iter().flatten().min();
            }
            match counted.view {
                View::Received => stats.received += counted.records,
                View::Running => stats.running += counted.records,
                View::Lapsed => stats.lapsed += counted.records,
                View::Completed => stats.completed += counted.records,
                View::Expired => stats.expired += counted.records,
                View::Uncertain => stats.uncertain += counted.records,
                _ => {}
            }
        }
        Ok(stats)
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        let mut left = limit.clamp(1, PAGE_MAX) as u64;
        let mut swept = Swept::default();
        let (mut after, mut corrupt) = (Place::START, None);
        for _ in 0..SWEEP_BATCHES_MAX {
            let now = self.0.shared.rules.now();
            // Looking first keeps a sweep with nothing to do away from the write lock.
            if self.0.readers.read(|connection| statements::due(connection, now, after, 1))?.is_empty() {
                return done(swept, corrupt);
            }
            let batch = SweepBatch { after, rows: SWEEP_ROWS, limit: left };
            let batch = self.0.shared.ask(batch).await?;
            swept.erased += batch.erased;
            swept.purged += batch.purged;
            corrupt = batch.corrupt.or(corrupt);
            let Some(next) = batch.next else { return done(swept, corrupt) };
            // What is kept, and what cannot be read, is passed: it must not hide what is due behind it.
            after = next;
            left = left.saturating_sub(batch.erased + batch.purged);
            if left == 0 {
                break;
            }
        }
        // The next call begins at the front again. Where this one did nothing, it would do nothing either.
        swept.more = swept.erased + swept.purged > 0;
        done(swept, corrupt)
    }

    async fn changed(&self, id: &OperationId, version: u64) {
        loop {
            let heard = self.0.shared.bells.listen(id);
            match self.0.readers.read(|connection| statements::version(connection, id)) {
                // The bell may ring for a neighbour: looking here again is cheaper than another claim.
                Ok(Some(current)) if current == version => heard.await,
                Ok(_) => return,
                // Whoever waits looks again after a pause. An answer now would make it look at once, again and again.
                Err(_) => heard.await,
            }
        }
    }
}
