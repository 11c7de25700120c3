//! Mutants that stand on a folder of files: what goes wrong when a process ends, or when there are several.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use idem_conformance::{Capability, Declared, Harness, Site};
use idem_core::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use idem_core::cas::Swap;
use idem_core::clock::{Clock, SystemClock};
use idem_core::request::{
    Claim, Complete, Erase, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use idem_core::{Capabilities, CasAdapter, CasStore, Error, Mode, OperationId, Record, Result, Store, codec};

use crate::bent::lock;
use crate::file_store::{FileStore, Version};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Nothing.
    None,
    /// Everything stays in the memory of the handle.
    NothingWritten,
    /// A write is kept back until the next one.
    WriteBehind,
    /// The lock keeps out the threads of this process alone.
    LockByProcess,
    /// The lock is a file that nobody removes when its process dies.
    StaleLock,
    /// A file is emptied first and filled then.
    TornWrite,
    /// A migration cannot be run again once it was begun.
    OneShotMigration,
    /// A recovery is told to execute.
    BlindRerun,
    /// A takeover loses what was noted before it.
    LosesNotes,
}

/// Long enough to die in.
fn gap(micros: u64) {
    let started = SystemClock.elapsed();
    while SystemClock.elapsed().saturating_sub(started) < Duration::from_micros(micros) {
        std::hint::spin_loop();
    }
}

#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) name: &'static str,
    pub(crate) defect: Defect,
}

#[async_trait]
impl Harness for Folder {
    fn name(&self) -> &'static str {
        self.name
    }

    fn capabilities(&self) -> Declared {
        Declared::supports(&[Capability::Clock, Capability::Reopen, Capability::Process, Capability::Handles])
            .declines(&Capability::ALL, "a mutant in a folder")
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        let dir = site.dir().join("ledger");
        let files = FileStore::open(&dir)?;
        match self.defect {
            Defect::OneShotMigration => migrate_once(&dir)?,
            Defect::StaleLock => take_lock_file(&dir)?,
            _ => {}
        }
        let bent = BentFolder { files, dir, defect: self.defect, memory: Mutex::default() };
        let capabilities = Capabilities::new("folder", "whatever the operating system has not written yet");
        let adapter = CasAdapter::with(bent, capabilities, site.clock());
        Ok(match self.defect {
            Defect::BlindRerun | Defect::LosesNotes => {
                Arc::new(BentGrants { store: adapter, defect: self.defect })
            }
            _ => Arc::new(adapter),
        })
    }
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::unavailable(format!("the folder cannot be opened: {error}"))
}

fn migrate_once(dir: &Path) -> Result<()> {
    if dir.join("schema").exists() {
        return Ok(());
    }
    fs::create_dir(dir.join("schema.new")).map_err(refused)?;
    gap(3_000);
    fs::rename(dir.join("schema.new"), dir.join("schema")).map_err(refused)
}

/// Who holds the folder is written in a file; another process is refused as long as it is there.
fn take_lock_file(dir: &Path) -> Result<()> {
    let own = std::process::id().to_string();
    match fs::read_to_string(dir.join("owner")) {
        Ok(owner) if owner != own => Err(refused("another process has it")),
        _ => fs::write(dir.join("owner"), own).map_err(refused),
    }
}

#[derive(Debug)]
struct BentFolder {
    files: FileStore,
    dir: PathBuf,
    defect: Defect,
    memory: Mutex<BTreeMap<OperationId, (Version, Record)>>,
}

impl Drop for BentFolder {
    fn drop(&mut self) {
        if self.defect == Defect::StaleLock {
            let _ = fs::remove_file(self.dir.join("owner"));
        }
    }
}

/// A write that was acknowledged and kept back: by folder, the one that waits.
type KeptBack = HashMap<PathBuf, (OperationId, Version, Option<Record>)>;
static KEPT_BACK: LazyLock<Mutex<KeptBack>> = LazyLock::new(Mutex::default);
static ONE_PROCESS: Mutex<()> = Mutex::new(());

fn new_version() -> Version {
    *idem_core::AttemptId::random().as_bytes()
}

impl BentFolder {
    /// Writes what was kept back before, and keeps this one back.
    async fn write_behind(
        &self,
        id: &OperationId,
        expected: Option<&Version>,
        next: Option<&Record>,
    ) -> Result<Swap> {
        let stored = self.load(id).await?.map(|(_, version)| version);
        if stored.as_ref() != expected {
            return Ok(Swap::Lost);
        }
        let waiting = lock(&KEPT_BACK).remove(&self.dir);
        if let Some((id, _, record)) = waiting {
            let on_disk = self.files.load(&id).await?.map(|(_, version)| version);
            self.files.compare_and_swap(&id, on_disk.as_ref(), record.as_ref()).await?;
        }
        lock(&KEPT_BACK).insert(self.dir.clone(), (id.clone(), new_version(), next.cloned()));
        Ok(Swap::Applied)
    }

    /// Compares and writes under a lock that other processes do not see.
    async fn locked_by_process(
        &self,
        id: &OperationId,
        expected: Option<&Version>,
        next: Option<&Record>,
    ) -> Result<Swap> {
        let stored = self.files.load(id).await?.map(|(_, version)| version);
        let _lock = lock(&ONE_PROCESS);
        if stored.as_ref() != expected {
            return Ok(Swap::Lost);
        }
        gap(300);
        self.overwrite(id, next, 0)
    }

    /// Writes in place, with a pause between emptying and filling.
    fn overwrite(&self, id: &OperationId, next: Option<&Record>, pause_us: u64) -> Result<Swap> {
        let path = self.files.path(id);
        let Some(record) = next else {
            let _ = fs::remove_file(path);
            return Ok(Swap::Applied);
        };
        let encoded = id.encode();
        let mut bytes = new_version().to_vec();
        bytes.extend(u32::try_from(encoded.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(encoded.as_bytes());
        bytes.extend(codec::encode(record));
        if pause_us > 0 {
            fs::write(&path, b"").map_err(refused)?;
            gap(pause_us);
            fs::write(&path, bytes).map_err(refused)?;
        } else {
            let new = path.with_extension(format!("new-{}", std::process::id()));
            fs::write(&new, bytes).and_then(|()| fs::rename(&new, &path)).map_err(refused)?;
        }
        Ok(Swap::Applied)
    }
}

#[async_trait]
impl CasStore for BentFolder {
    type Version = Version;

    async fn load(&self, id: &OperationId) -> Result<Option<(Record, Version)>> {
        match self.defect {
            Defect::NothingWritten => {
                Ok(lock(&self.memory).get(id).map(|(version, record)| (record.clone(), *version)))
            }
            Defect::WriteBehind => {
                let waiting = lock(&KEPT_BACK).get(&self.dir).filter(|(of, _, _)| of == id).cloned();
                match waiting {
                    Some((_, version, record)) => Ok(record.map(|record| (record, version))),
                    None => self.files.load(id).await,
                }
            }
            _ => self.files.load(id).await,
        }
    }

    async fn compare_and_swap(
        &self,
        id: &OperationId,
        expected: Option<&Version>,
        next: Option<&Record>,
    ) -> Result<Swap> {
        match self.defect {
            Defect::NothingWritten => {
                let mut memory = lock(&self.memory);
                if memory.get(id).map(|(version, _)| version) != expected {
                    return Ok(Swap::Lost);
                }
                match next {
                    Some(record) => memory.insert(id.clone(), (new_version(), record.clone())),
                    None => memory.remove(id),
                };
                Ok(Swap::Applied)
            }
            Defect::WriteBehind => self.write_behind(id, expected, next).await,
            Defect::LockByProcess => self.locked_by_process(id, expected, next).await,
            Defect::TornWrite => {
                let stored = self.files.load(id).await?.map(|(_, version)| version);
                if stored.as_ref() != expected {
                    return Ok(Swap::Lost);
                }
                self.overwrite(id, next, 2_000)
            }
            _ => self.files.compare_and_swap(id, expected, next).await,
        }
    }

    async fn scan(&self, after: Option<&OperationId>, limit: usize) -> Result<Vec<Record>> {
        if self.defect != Defect::NothingWritten {
            return self.files.scan(after, limit).await;
        }
        let memory = lock(&self.memory);
        let later = memory.iter().filter(|(id, _)| after.is_none_or(|after| *id > after));
        Ok(later.take(limit).map(|(_, (_, record))| record.clone()).collect())
    }
}

/// Changes the grants of the store below.
#[derive(Debug)]
struct BentGrants<S> {
    store: S,
    defect: Defect,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for BentGrants<S> {
    fn capabilities(&self) -> &Capabilities {
        self.store.capabilities()
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        self.store.register(request).await
    }

    async fn claim(&self, request: &Claim) -> Result<Claimed> {
        let mut answer = self.store.claim(request).await?;
        if let Claimed::Granted(grant) = &mut answer {
            match self.defect {
                Defect::BlindRerun => grant.mode = Mode::Execute,
                _ => grant.checkpoints.clear(),
            }
        }
        Ok(answer)
    }

    async fn renew(&self, request: &Renew) -> Result<Renewed> {
        self.store.renew(request).await
    }

    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed> {
        self.store.checkpoint(request).await
    }

    async fn complete(&self, request: &Complete) -> Result<Completed> {
        self.store.complete(request).await
    }

    async fn release(&self, request: &Release) -> Result<Released> {
        self.store.release(request).await
    }

    async fn park(&self, request: &Park) -> Result<Parked> {
        self.store.park(request).await
    }

    async fn resolve(&self, request: &Resolve) -> Result<Resolved> {
        self.store.resolve(request).await
    }

    async fn erase(&self, request: &Erase) -> Result<Erased> {
        self.store.erase(request).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>> {
        self.store.get(id).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.store.list(query).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.store.stats().await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.store.sweep(limit).await
    }

    async fn changed(&self, id: &OperationId, version: u64) {
        self.store.changed(id, version).await;
    }
}
