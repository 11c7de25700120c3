//! One run: every cell in turns.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use idem_core::MemoryStore;
use idem_sqlite::SqliteStore;
use tokio::runtime::{Builder, Runtime};

use crate::args::{Options, Place, Row};
use crate::floor::memory::MapFloor;
use crate::floor::sqlite::{EachFloor, GroupFloor, Sizes, batch_ops_per_s};
use crate::library::{LedgerSubject, StoreSubject};
use crate::machine::{Machine, syncs_per_s};
use crate::mix::{self, Amount, Label, Subject};
use crate::report::{Batch, Cell, Files, Report};
use crate::summary::summaries;
use crate::{keys, point, targets};

pub(crate) fn run(options: &Options) -> anyhow::Result<Report<'_>> {
    let runtime = Builder::new_multi_thread().enable_time().build()?;
    let mut report = Report {
        machine: Machine::look(),
        options,
        record_bytes: None,
        cells: Vec::new(),
        batches: Vec::new(),
        summary: Vec::new(),
        points: Vec::new(),
        fingerprint: None,
        allocations: Vec::new(),
        checkpoints: Vec::new(),
        targets: Vec::new(),
    };
    let has = |place| options.stores.contains(&place);
    if has(Place::Memory) {
        report.allocations = point::allocations()?;
        report.points = point::points(&runtime, options)?;
        report.fingerprint = Some(point::fingerprint(options.rounds)?);
    }
    let disk = Disk { dir: options.dir.clone().unwrap_or_else(std::env::temp_dir) };
    let sizes = runtime.block_on(Sizes::look())?;
    if has(Place::Sqlite) {
        report.record_bytes = Some(sizes);
        report.machine.syncs_per_s = Some(syncs_per_s(&disk.dir, 200)?);
    }
    let bench = Bench { options, runtime, disk, sizes };
    for round in 0..options.rounds {
        eprintln!("idem-bench: round {} of {}", round + 1, options.rounds);
        bench.round(round, &mut report)?;
    }
    if has(Place::Sqlite) && options.checkpoint_keys > 0 {
        for subject in [Row::Floor, Row::Store, Row::Ledger].into_iter().filter(|row| options.wants(*row)) {
            report.checkpoints.push(bench.checkpoints(subject)?);
        }
    }
    report.machine.look_again();
    for place in [Place::Memory, Place::Sqlite] {
        for clients in &options.clients {
            report.summary.extend(summaries(&report.cells, place, *clients));
        }
    }
    report.targets = targets::targets(&report);
    Ok(report)
}

/// Where database files are made.
struct Disk {
    dir: PathBuf,
}

impl Disk {
    /// A new directory, removed with everything in it when dropped.
    fn directory(&self) -> anyhow::Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix("idem-bench-")
            .tempdir_in(&self.dir)
            .with_context(|| format!("a directory in {}", self.dir.display()))
    }
}

const FILE: &str = "ledger.db";

struct Bench<'o> {
    options: &'o Options,
    runtime: Runtime,
    disk: Disk,
    sizes: Sizes,
}

impl Bench<'_> {
    fn round(&self, round: usize, report: &mut Report<'_>) -> anyhow::Result<()> {
        for place in [Place::Memory, Place::Sqlite] {
            if !self.options.stores.contains(&place) {
                continue;
            }
            for clients in &self.options.clients {
                let rows = Row::of(place);
                for turn in 0..rows.len() {
                    // Who begins alternates, so that no row always comes after the same one.
                    let row = rows.get((round + turn) % rows.len());
                    let Some(subject) = row.copied().filter(|row| self.options.wants(*row)) else { continue };
                    let label = Label { store: place.name(), subject, round };
                    report.cells.push(self.runtime.block_on(self.cell(place, label, *clients))?);
                }
                if place == Place::Sqlite && self.options.only.is_empty() {
                    report.batches.push(self.batch(*clients, round)?);
                }
            }
        }
        Ok(())
    }

    async fn cell(&self, place: Place, label: Label, clients: usize) -> anyhow::Result<Cell> {
        let at_least = Duration::from_secs_f64(self.options.seconds_per_cell);
        let amount = Amount { clients, keys: self.options.keys, at_least };
        let cell = match (place, label.subject) {
            (Place::Memory, Row::Floor) => mix::cell(&Arc::new(MapFloor::new()), label, amount).await?,
            (Place::Memory, Row::Store) => {
                let subject = StoreSubject::new(Arc::new(MemoryStore::new()))?;
                mix::cell(&Arc::new(subject), label, amount).await?
            }
            (Place::Memory, Row::Ledger) => {
                mix::cell(&Arc::new(LedgerSubject::new(MemoryStore::new())), label, amount).await?
            }
            (Place::Sqlite, subject) => {
                let directory = self.disk.directory()?;
                self.sqlite_cell(subject, &directory.path().join(FILE), label, amount).await?
            }
            (_, subject) => bail!("{} has no row {subject:?}", place.name()),
        };
        Ok(cell)
    }

    async fn sqlite_cell(
        &self,
        subject: Row,
        path: &Path,
        label: Label,
        amount: Amount,
    ) -> anyhow::Result<Cell> {
        match subject {
            Row::Floor => file_cell(GroupFloor::open(path, self.sizes)?, path, label, amount).await,
            Row::Each => file_cell(EachFloor::open(path, self.sizes)?, path, label, amount).await,
            Row::Store | Row::Ledger => {
                let store = SqliteStore::open(path).await?;
                let cell = if subject == Row::Store {
                    file_cell(StoreSubject::new(Arc::new(store.clone()))?, path, label, amount).await
                } else {
                    file_cell(LedgerSubject::new(store.clone()), path, label, amount).await
                };
                // The next cell has the machine for itself.
                store.close().await;
                cell
            }
        }
    }

    fn batch(&self, batch: usize, round: usize) -> anyhow::Result<Batch> {
        let directory = self.disk.directory()?;
        let ids = keys::operations(4, self.options.keys)?;
        let ops_per_s = batch_ops_per_s(&directory.path().join(FILE), self.sizes, &ids, batch)?;
        Ok(Batch { batch, round, ops_per_s })
    }

    /// A cell that is long enough for the write-ahead log to be copied back: how long the longest request waits then.
    fn checkpoints(&self, subject: Row) -> anyhow::Result<Cell> {
        let label = Label { store: Place::Sqlite.name(), subject, round: 0 };
        let keys = self.options.checkpoint_keys;
        let amount = Amount { clients: CHECKPOINT_CLIENTS, keys, at_least: Duration::ZERO };
        let directory = self.disk.directory()?;
        self.runtime.block_on(self.sqlite_cell(subject, &directory.path().join(FILE), label, amount))
    }
}

/// Clients of the cell with checkpoints: enough to keep the writer busy.
const CHECKPOINT_CLIENTS: usize = 64;

/// A cell on a file, whose sizes are looked at while it is open: closing it copies everything back.
async fn file_cell<S: Subject>(
    subject: S,
    path: &Path,
    label: Label,
    amount: Amount,
) -> anyhow::Result<Cell> {
    let subject = Arc::new(subject);
    let mut cell = mix::cell(&subject, label, amount).await?;
    let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    cell.files =
        Some(Files { database_bytes: bytes(path), log_bytes: bytes(&path.with_extension("db-wal")) });
    Ok(cell)
}
