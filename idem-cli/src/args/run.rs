//! The options of `idem run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use idem_core::Ttl;

use super::DEFAULT_TENANT;
use crate::values;

/// What becomes of a command that exits with a status other than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailure {
    /// It is the answer from now on: stored, and replayed to every later caller
    Replay,
    /// Nothing happened: the same key runs again
    Release,
    /// Nobody can tell: uncertain until it is reconciled or resolved
    Park,
}

/// What becomes of an operation whose command was running when idem or the machine died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnCrash {
    /// Nobody can tell: uncertain until it is reconciled or resolved
    Park,
    /// What the command calls deduplicates on IDEM_DOWNSTREAM_KEY: the command is run again with the same one
    Rerun,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The command finds IDEM_KEY, IDEM_TENANT, IDEM_OPERATION, IDEM_ATTEMPT (a number), IDEM_FENCE, IDEM_MODE (execute or \
recover), IDEM_DOWNSTREAM_KEY and IDEM_LEASE_UNTIL_MS in its environment.\n\n\
Durations are seconds, or have a unit: 500ms, 30s, 5m, 2h, 7d. `idem help exit-codes` tells what the exit status means.")]
pub(crate) struct RunArgs {
    /// The key, made by the caller before the first attempt; one for each intent
    #[arg(long, value_name = "KEY")]
    pub(crate) key: OsString,
    /// Whose it is
    #[arg(long, default_value = DEFAULT_TENANT)]
    pub(crate) tenant: OsString,
    /// The name of the operation [default: cli/ and the name of CMD]
    #[arg(long, value_name = "NAME")]
    pub(crate) operation: Option<OsString>,
    /// The command's stdin; `-` is idem's own [default: /dev/null]
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// How long the command may assume to be alone; renewed while it runs
    #[arg(long, value_name = "D", value_parser = values::duration, default_value = "30s")]
    pub(crate) lease: Duration,
    /// How long to wait for another call that is running the same key
    #[arg(long, value_name = "D", value_parser = values::duration, default_value = "0s")]
    pub(crate) wait: Duration,
    /// Do not wait: the same as --wait 0
    #[arg(short = 'n', conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// What becomes of an exit status other than 0
    #[arg(long, value_name = "WHAT", default_value = "replay")]
    pub(crate) on_failure: OnFailure,
    /// Exit statuses that mean that nothing happened: the same key runs again
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) release_on: Vec<u8>,
    /// What becomes of it when idem dies while the command runs
    #[arg(long, value_name = "WHAT", default_value = "park")]
    pub(crate) on_crash: OnCrash,
    /// A shell command that finds out what became of an earlier attempt. Exit 0: it happened, and stdout is the output;
    /// 1: it did not and cannot any more, so it is run; anything else: unknown
    #[arg(long, value_name = "CMD")]
    pub(crate) reconcile: Option<OsString>,
    /// Do not take over beyond so many attempts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_attempts: Option<u32>,
    /// Stop the command after this time (TERM); it is uncertain then
    #[arg(long, value_name = "D", value_parser = values::duration)]
    pub(crate) timeout: Option<Duration>,
    /// And kill it (KILL) this much later
    #[arg(long, value_name = "D", value_parser = values::duration, default_value = "10s")]
    pub(crate) kill_after: Duration,
    /// For how long the output is kept [default: as long as the identity]
    #[arg(long, value_name = "D", value_parser = values::ttl)]
    pub(crate) response_ttl: Option<Ttl>,
    /// For how long the key is kept; afterwards it runs again
    #[arg(long, value_name = "D", value_parser = values::ttl, default_value = "forever")]
    pub(crate) identity_ttl: Ttl,
    /// This environment variable belongs to the intent; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) fingerprint_env: Vec<OsString>,
    /// The content of this file belongs to the intent; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) fingerprint_file: Vec<PathBuf>,
    /// Write what happened to this file, as one JSON object
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Exit with N for every answer that is idem's own and not the command's
    #[arg(short = 'E', value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) own_exit: Option<u8>,
    /// Say nothing on stderr
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
