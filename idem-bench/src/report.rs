//! Everything that a run measures: what `--json` writes.

use serde::Serialize;

use crate::args::Row;
use crate::floor::sqlite::Sizes;
use crate::latency::Percentiles;
use crate::machine::Machine;
use crate::summary::Summary;
use crate::targets::Target;

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'o> {
    pub(crate) machine: Machine,
    pub(crate) options: &'o crate::args::Options,
    /// What the records of the workload take in a file; absent when no file was measured.
    pub(crate) record_bytes: Option<Sizes>,
    /// Every cell of every round.
    pub(crate) cells: Vec<Cell>,
    /// One thread with all its requests at hand.
    pub(crate) batches: Vec<Batch>,
    /// Medians over the rounds, and ratios.
    pub(crate) summary: Vec<Summary>,
    /// What one task costs in memory.
    pub(crate) points: Vec<Point>,
    pub(crate) allocations: Vec<Allocations>,
    pub(crate) fingerprint: Option<Hashed>,
    /// Cells that are long enough for checkpoints.
    pub(crate) checkpoints: Vec<Cell>,
    pub(crate) targets: Vec<Target>,
}

/// One subject at one number of clients in one round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Cell {
    pub(crate) store: &'static str,
    pub(crate) subject: Row,
    pub(crate) clients: usize,
    pub(crate) round: usize,
    pub(crate) claims: u64,
    pub(crate) completes: u64,
    pub(crate) replays: u64,
    pub(crate) elapsed_s: f64,
    pub(crate) ops_per_s: f64,
    /// Of the whole process, the clients included; 0 where the system does not tell.
    pub(crate) cpu_us_per_op: f64,
    pub(crate) all: Percentiles,
    pub(crate) claim: Percentiles,
    pub(crate) complete: Percentiles,
    pub(crate) replay: Percentiles,
    /// Absent in memory.
    pub(crate) files: Option<Files>,
}

/// The rate of one thread that commits `batch` requests at once.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Batch {
    pub(crate) batch: usize,
    pub(crate) round: usize,
    pub(crate) ops_per_s: f64,
}

/// One task, one request after another.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Point {
    pub(crate) subject: &'static str,
    pub(crate) keys: usize,
    /// Claim and completion, medians over the rounds.
    pub(crate) cycle: Each,
    /// Medians over the rounds; absent where a replay is not different.
    pub(crate) replay: Option<Each>,
    pub(crate) rounds: Vec<Once>,
}

/// One round of a [`Point`].
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Once {
    pub(crate) cycle: Each,
    pub(crate) replay: Option<Each>,
}

/// What each of many requests took.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Each {
    pub(crate) ns: f64,
    /// Processor time, which a busy machine changes less; 0 where the system does not tell.
    pub(crate) cpu_ns: f64,
}

/// Allocations of the calling thread, the median of many single requests.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Allocations {
    pub(crate) subject: Row,
    pub(crate) per_cycle: u64,
    pub(crate) bytes_per_cycle: u64,
    /// Of the bytes of a cycle, those that stay: the stored record.
    pub(crate) kept_bytes_per_cycle: i64,
    pub(crate) per_replay: u64,
    pub(crate) bytes_per_replay: u64,
}

/// What `Fingerprint::json` of a small value takes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Hashed {
    /// Bytes of the value as JSON.
    pub(crate) value_bytes: usize,
    /// Median over the rounds.
    pub(crate) ns: f64,
    pub(crate) rounds_ns: Vec<f64>,
    pub(crate) allocations: u64,
}

/// The files of a database before it was closed.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Files {
    pub(crate) database_bytes: u64,
    pub(crate) log_bytes: u64,
}

/// Pages that a database of this table has before its first checkpoint, and then some, in bytes.
const FRESH_BYTES: u64 = 256 << 10;

impl Cell {
    /// Whether the write-ahead log was copied back to the database before the cell was over.
    pub(crate) fn checkpointed(&self) -> bool {
        self.files.is_some_and(|files| files.database_bytes > FRESH_BYTES)
    }
}
