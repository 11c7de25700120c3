//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

/// What idem costs above the same statements without it.
#[derive(Debug, Parser)]
#[command(name = "idem-bench", version)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measures floor, Store and Ledger in turns and prints a table.
    Run(Options),
}

/// A store that can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    Memory,
    Sqlite,
}

impl Place {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
        }
    }
}

/// A way to do the work: a row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
pub(crate) enum Row {
    /// Without library code.
    #[serde(rename = "floor")]
    Floor,
    /// Without library code, each request in a commit of its own.
    #[serde(rename = "commit per request")]
    Each,
    /// The store.
    Store,
    /// The ledger with its default policy.
    Ledger,
}

impl Row {
    /// The rows of a store, in the order of the table; who begins alternates from round to round.
    pub(crate) const fn of(place: Place) -> &'static [Self] {
        match place {
            Place::Memory => &[Self::Floor, Self::Store, Self::Ledger],
            Place::Sqlite => &[Self::Floor, Self::Each, Self::Store, Self::Ledger],
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Each => "commit per request",
            Self::Store => "Store",
            Self::Ledger => "Ledger",
        }
    }
}

#[derive(Debug, Args, Serialize)]
pub(crate) struct Options {
    /// Which store; may be repeated.
    #[arg(long = "store", required = true)]
    pub(crate) stores: Vec<Place>,

    /// Only this row (floor, each, store or ledger), as for a profile; may be repeated. Without the floor there are no
    /// ratios.
    #[arg(long = "only")]
    pub(crate) only: Vec<Row>,

    /// Numbers of clients, one tokio task each.
    #[arg(long, value_delimiter = ',', default_value = "1,8,64,256", value_parser = positive)]
    pub(crate) clients: Vec<usize>,

    /// How often everything is measured; medians are reported.
    #[arg(long, default_value_t = 5, value_parser = positive)]
    pub(crate) rounds: usize,

    /// Keys of one block, all new: each is claimed and completed, and there is one replay for each.
    #[arg(long, default_value_t = 10_000, value_parser = positive)]
    pub(crate) keys: usize,

    /// Blocks are repeated on the same store until a cell has measured for so long; 0 is one block.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) seconds_per_cell: f64,

    /// Numbers of keys for what one task costs in memory.
    #[arg(long, value_delimiter = ',', default_value = "10000,1000000", value_parser = positive)]
    pub(crate) memory_keys: Vec<usize>,

    /// Keys of the cell that is long enough for checkpoints of the write-ahead log; 0 leaves it out.
    #[arg(long, default_value_t = 200_000)]
    pub(crate) checkpoint_keys: usize,

    /// Where database files are made and removed; the directory for temporary files unless set.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,

    /// Also writes everything that was measured to this file.
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,

    /// Exits with 1 when a target is missed.
    #[arg(long)]
    pub(crate) check: bool,
}

impl Options {
    /// Whether a row is wanted.
    pub(crate) fn wants(&self, row: Row) -> bool {
        self.only.is_empty() || self.only.contains(&row)
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}
