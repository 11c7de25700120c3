//! The floor in SQLite: the table and the statements of idem-sqlite, records of the same size, and nothing else.
//!
//! [`GroupFloor`] is what the targets are about: tasks hand over to one writer thread through a bounded channel, and the
//! thread commits what is there as one transaction. [`EachFloor`] commits every request by itself, and
//! [`batch_ops_per_s`] is one thread that has all its requests at hand.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use idem_core::{Claim, MemoryStore, OperationId, Outcome, Retention, Store as _, codec};
use rusqlite::{Connection, OpenFlags, params};
use tokio::sync::{mpsc, oneshot};

use crate::keys::BODY_BYTES;
use crate::latency::Laps;
use crate::library::fingerprint;
use crate::mix::Subject;
use crate::timing::{Watch, per_second};

/// The table of idem-sqlite, whatever it becomes.
const TABLE: &str = include_str!("../../../idem-sqlite/migrations/0001_operations.sql");

const FIND: &str = "SELECT id, record FROM idem_operations WHERE tenant = ?1 AND operation = ?2 AND key = ?3";
const INSERT: &str = "INSERT INTO idem_operations (tenant, operation, key, state, version, lease_until, since, \
    response_until, identity_until, sweep_at, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
const UPDATE: &str = "UPDATE idem_operations SET state = ?2, version = ?3, lease_until = ?4, since = ?5, \
    response_until = ?6, identity_until = ?7, sweep_at = ?8, record = ?9 WHERE id = ?1";

/// An instant, which takes as many bytes as every other of this century.
const NOW_MS: i64 = 1_800_000_000_000;
const NEVER: Option<i64> = None;

/// The most requests in one commit, and the places in the channel: those of idem-sqlite.
const GROUP_MAX: usize = 512;
const QUEUE_CAPACITY: usize = 4096;

/// Bytes of the records that the library would write for these operations.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(crate) struct Sizes {
    pub(crate) claimed: usize,
    pub(crate) completed: usize,
}

impl Sizes {
    pub(crate) async fn look() -> anyhow::Result<Self> {
        let store = MemoryStore::new();
        let id = crate::keys::operations(0, 1)?.first().context("one operation")?.clone();
        let claim = Claim::new(id.clone(), fingerprint(), idem_core::Label::new("idem-bench")?);
        store.claim(&claim).await?;
        let bytes = || store.stored(&id).map(|record| codec::encode(&record).len()).context("a record");
        let claimed = bytes()?;
        let outcome = Outcome::success().body(vec![b'x'; BODY_BYTES]);
        let complete = idem_core::request::Complete::new(claim.held(), outcome, Retention::forever());
        store.complete(&complete).await?;
        Ok(Self { claimed, completed: bytes()? })
    }
}

/// Opens `path` as idem-sqlite does.
fn open(path: &Path, flags: OpenFlags) -> anyhow::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 16_000)?;
    connection.pragma_update(None, "journal_size_limit", 16_000 * 4096)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn writer(path: &Path) -> anyhow::Result<Connection> {
    let connection = open(path, OpenFlags::default())?;
    connection.execute_batch(TABLE)?;
    Ok(connection)
}

fn count(connection: &Connection) -> anyhow::Result<u64> {
    let count: i64 =
        connection.query_row("SELECT count(*) FROM idem_operations WHERE state = 2", [], |row| row.get(0))?;
    Ok(u64::try_from(count)?)
}

/// The row of an operation and the length of its record.
fn find(connection: &Connection, id: &OperationId) -> anyhow::Result<Option<(i64, usize)>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let mut rows = statement.query(params![id.tenant(), id.operation(), id.key()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    // Copied out, since whoever replays needs it after the statement is over.
    let record: Vec<u8> = row.get(1)?;
    Ok(Some((row.get(0)?, record.len())))
}

fn claim(connection: &Connection, id: &OperationId, record: &[u8]) -> anyhow::Result<()> {
    ensure!(find(connection, id)?.is_none(), "a new operation was there before");
    let lease_until = Some(NOW_MS + 30_000);
    connection.prepare_cached(INSERT)?.execute(params![
        id.tenant(),
        id.operation(),
        id.key(),
        1,
        1,
        lease_until,
        Some(NOW_MS),
        NEVER,
        NEVER,
        NEVER,
        record
    ])?;
    Ok(())
}

fn complete(connection: &Connection, id: &OperationId, record: &[u8]) -> anyhow::Result<()> {
    let (row, _) = find(connection, id)?.context("a claimed operation is gone")?;
    let changed = connection
        .prepare_cached(UPDATE)?
        .execute(params![row, 2, 2, NEVER, NEVER, NEVER, NEVER, NEVER, record])?;
    ensure!(changed == 1, "a completion changed {changed} rows");
    Ok(())
}

fn transaction(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    work(connection)?;
    connection.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections that look before anything is written, entered directly by the caller: one cannot know whether an
/// operation is new, and a replay must not wait for the writer.
struct Readers {
    connections: Vec<Mutex<Connection>>,
    completed_bytes: usize,
}

impl Readers {
    fn open(path: &Path, completed_bytes: usize) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let reader = |_| {
            let connection = open(path, flags)?;
            connection.pragma_update(None, "query_only", true)?;
            Ok(Mutex::new(connection))
        };
        let connections = (0..cores.clamp(2, 16)).map(reader).collect::<anyhow::Result<_>>()?;
        Ok(Self { connections, completed_bytes })
    }

    /// One that is free, or the first one as soon as it is.
    fn enter(&self) -> anyhow::Result<MutexGuard<'_, Connection>> {
        let free = self.connections.iter().find_map(|connection| connection.try_lock().ok());
        free.or_else(|| self.connections.first().map(lock)).context("at least one reader")
    }

    fn new_to_me(&self, id: &OperationId) -> anyhow::Result<()> {
        ensure!(find(&*self.enter()?, id)?.is_none(), "a new operation was there before");
        Ok(())
    }

    fn replay(&self, id: &OperationId) -> anyhow::Result<()> {
        let (_, bytes) = find(&*self.enter()?, id)?.context("a completed operation is gone")?;
        ensure!(bytes == self.completed_bytes, "a replay of {bytes} bytes");
        Ok(())
    }

    fn completed(&self) -> anyhow::Result<u64> {
        count(&*self.enter()?)
    }
}

enum Write {
    Claim,
    Complete,
}

struct Job {
    write: Write,
    id: OperationId,
    record: Vec<u8>,
    reply: oneshot::Sender<()>,
}

/// Hand-over to one writer thread, group commit.
pub(crate) struct GroupFloor {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    readers: Readers,
    sizes: Sizes,
}

impl GroupFloor {
    pub(crate) fn open(path: &Path, sizes: Sizes) -> anyhow::Result<Self> {
        let connection = writer(path)?;
        let readers = Readers::open(path, sizes.completed)?;
        let (jobs, queued) = mpsc::channel(QUEUE_CAPACITY);
        let thread =
            std::thread::Builder::new().name("floor".to_owned()).spawn(move || write(&connection, queued))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread), readers, sizes })
    }

    async fn ask(&self, write: Write, id: &OperationId, record: Vec<u8>) -> anyhow::Result<()> {
        let (reply, answer) = oneshot::channel();
        let job = Job { write, id: id.clone(), record, reply };
        let gone = || anyhow!("the writer thread ended");
        self.jobs.as_ref().ok_or_else(gone)?.send(job).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }
}

fn write(connection: &Connection, mut queued: mpsc::Receiver<Job>) -> anyhow::Result<()> {
    let mut batch = Vec::with_capacity(GROUP_MAX);
    while let Some(first) = queued.blocking_recv() {
        batch.push(first);
        transaction(connection, |connection| {
            while batch.len() < GROUP_MAX
                && let Ok(job) = queued.try_recv()
            {
                batch.push(job);
            }
            for job in &batch {
                match job.write {
                    Write::Claim => claim(connection, &job.id, &job.record)?,
                    Write::Complete => complete(connection, &job.id, &job.record)?,
                }
            }
            Ok(())
        })?;
        for job in batch.drain(..) {
            // Whoever is gone does not wait for it.
            let _ = job.reply.send(());
        }
    }
    Ok(())
}

/// Ends the thread, so that the next cell has the machine for itself.
impl Drop for GroupFloor {
    fn drop(&mut self) {
        self.jobs = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => eprintln!("idem-bench: the floor's writer: {error:#}"),
            Some(Err(_)) => eprintln!("idem-bench: the floor's writer panicked"),
            Some(Ok(Ok(()))) | None => {}
        }
    }
}

impl Subject for GroupFloor {
    async fn cycle(&self, id: &OperationId, laps: &mut Laps) -> anyhow::Result<()> {
        let mut watch = Watch::start();
        self.readers.new_to_me(id)?;
        self.ask(Write::Claim, id, vec![b'c'; self.sizes.claimed]).await?;
        laps.claims.push(watch.lap_ns());
        self.ask(Write::Complete, id, vec![b'd'; self.sizes.completed]).await?;
        laps.completes.push(watch.lap_ns());
        Ok(())
    }

    async fn replay(&self, id: &OperationId) -> anyhow::Result<()> {
        self.readers.replay(id)
    }

    async fn completed(&self) -> anyhow::Result<u64> {
        self.readers.completed()
    }
}

/// One connection under a lock, one commit for each request.
pub(crate) struct EachFloor {
    connection: Mutex<Connection>,
    readers: Readers,
    sizes: Sizes,
}

impl EachFloor {
    pub(crate) fn open(path: &Path, sizes: Sizes) -> anyhow::Result<Self> {
        let connection = Mutex::new(writer(path)?);
        Ok(Self { connection, readers: Readers::open(path, sizes.completed)?, sizes })
    }
}

impl Subject for EachFloor {
    async fn cycle(&self, id: &OperationId, laps: &mut Laps) -> anyhow::Result<()> {
        let mut watch = Watch::start();
        self.readers.new_to_me(id)?;
        let record = vec![b'c'; self.sizes.claimed];
        transaction(&lock(&self.connection), |connection| claim(connection, id, &record))?;
        laps.claims.push(watch.lap_ns());
        let record = vec![b'd'; self.sizes.completed];
        transaction(&lock(&self.connection), |connection| complete(connection, id, &record))?;
        laps.completes.push(watch.lap_ns());
        Ok(())
    }

    async fn replay(&self, id: &OperationId) -> anyhow::Result<()> {
        self.readers.replay(id)
    }

    async fn completed(&self) -> anyhow::Result<u64> {
        self.readers.completed()
    }
}

/// One thread with all its requests at hand, `batch` of them in a transaction: claims, completions, then as many
/// replays. What no hand-over can be faster than.
pub(crate) fn batch_ops_per_s(
    path: &Path,
    sizes: Sizes,
    ids: &[OperationId],
    batch: usize,
) -> anyhow::Result<f64> {
    let connection = writer(path)?;
    let readers = Readers::open(path, sizes.completed)?;
    let watch = Watch::start();
    for ids in ids.chunks(batch.min(GROUP_MAX)) {
        let all = |write: fn(&Connection, &OperationId, &[u8]) -> anyhow::Result<()>, bytes: usize| {
            transaction(&connection, |connection| {
                ids.iter().try_for_each(|id| write(connection, id, &vec![b'c'; bytes]))
            })
        };
        ids.iter().try_for_each(|id| readers.new_to_me(id))?;
        all(claim, sizes.claimed)?;
        all(complete, sizes.completed)?;
        ids.iter().try_for_each(|id| readers.replay(id))?;
    }
    let elapsed = watch.elapsed();
    ensure!(count(&connection)? == ids.len() as u64, "the batches lost operations");
    Ok(per_second(3 * ids.len() as u64, elapsed))
}
