//! The command line: what can be asked of `idem`.

mod parse;
mod run;
#[cfg(test)]
mod shown;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use idem_core::Ttl;
use idem_core::record::View;

use crate::{exit, values};

pub(crate) use parse::{Parsed, parse};
pub(crate) use run::{OnCrash, OnFailure, RunArgs};

/// The tenant unless one is given.
pub(crate) const DEFAULT_TENANT: &str = "default";

const RESOLVE_EXAMPLES: &str = "\
Examples:
    idem resolve --key evt-42 --completed --stdout FILE --reason TEXT
    idem resolve --key evt-42 --completed --exit 3 --no-output --reason TEXT
    idem resolve --key evt-42 --did-not-happen --settle 60s --reason TEXT";

/// Run a command once per key, and give every later caller its output and exit status.
#[derive(Debug, Parser)]
#[command(name = "idem", version, disable_help_subcommand = true, max_term_width = 110)]
pub(crate) struct Cli {
    /// The ledger: sqlite:PATH, just PATH, or redis://HOST [default: a file in the XDG state directory]
    #[arg(long, global = true, value_name = "URL", env = "IDEM_STORE", hide_env_values = true)]
    pub(crate) store: Option<OsString>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command once per key; replay its stdout, stderr and exit status to every later caller
    Run(Box<RunArgs>),
    /// Store an intent, for a worker to run later
    #[command(after_help = exit::of_command("register"))]
    Register(RegisterArgs),
    /// Show one operation: its attempts, its lapse, who parked it, and what to do
    #[command(after_help = exit::of_command("show"))]
    Show(ShowArgs),
    /// List operations
    #[command(after_help = exit::of_command("list"))]
    List(ListArgs),
    /// Count operations by state, and tell the age of what is stuck
    #[command(after_help = exit::of_command("stats"))]
    Stats(JsonArgs),
    /// Decide about an uncertain operation: it happened, or it did not
    #[command(after_help = format!("{RESOLVE_EXAMPLES}\n\n{}", exit::of_command("resolve")))]
    Resolve(ResolveArgs),
    /// Remove expired content, and records whose identity has expired
    #[command(after_help = exit::of_command("sweep"))]
    Sweep(JsonArgs),
    /// Remove the output of a finished operation early
    #[command(after_help = exit::of_command("erase"))]
    Erase(EraseArgs),
    /// Create the ledger, or bring it to the form that this version of idem writes
    #[command(after_help = exit::of_command("migrate"))]
    Migrate,
    /// Print a completion script for a shell
    Completions {
        /// bash, elvish, fish, powershell or zsh
        shell: clap_complete::Shell,
    },
    /// Print a man page
    #[command(hide = true)]
    Man {
        /// Of this command, and not of idem itself
        command: Option<String>,
    },
    /// Print help about a command, or about `exit-codes`
    Help {
        /// A command, or `exit-codes`
        topic: Option<String>,
    },
}

/// Which operation, for the commands that look for it: what is not given may be anything, and the operation has to be
/// the only one. `idem list` narrows by the same options in the same way.
#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// The key
    #[arg(long, value_name = "KEY")]
    pub(crate) key: OsString,
    /// Whose it is [default: any tenant's, if only one operation has the key]
    #[arg(long)]
    pub(crate) tenant: Option<OsString>,
    /// The name of the operation, such as cli/sh [default: any, if only one operation has the key]
    #[arg(long, value_name = "NAME")]
    pub(crate) operation: Option<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Print JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) id: IdArgs,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

/// The states by which operations are listed, as they are now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateArg {
    Received,
    Running,
    Lapsed,
    Completed,
    Expired,
    Uncertain,
}

impl From<StateArg> for View {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Received => Self::Received,
            StateArg::Running => Self::Running,
            StateArg::Lapsed => Self::Lapsed,
            StateArg::Completed => Self::Completed,
            StateArg::Expired => Self::Expired,
            StateArg::Uncertain => Self::Uncertain,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only of this tenant [default: of every tenant]
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Only of this operation [default: of every operation]
    #[arg(long, value_name = "NAME")]
    pub(crate) operation: Option<String>,
    /// Only in this state; may be repeated
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(crate) state: Vec<StateArg>,
    /// Only what waits for somebody: lapsed or uncertain
    #[arg(long, conflicts_with = "state")]
    pub(crate) stuck: bool,
    /// At most so many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RegisterArgs {
    /// The key, made by the caller before the first attempt; one for each intent
    #[arg(long, value_name = "KEY")]
    pub(crate) key: OsString,
    /// Whose it is
    #[arg(long, default_value = DEFAULT_TENANT)]
    pub(crate) tenant: OsString,
    /// The name of the operation [default: cli/ and the name of CMD, or cli/register without CMD]
    #[arg(long, value_name = "NAME")]
    pub(crate) operation: Option<OsString>,
    /// The payload, kept for the worker; `-` is stdin
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    /// The command that `idem run` will be given with the same input. Without it the fingerprint is that of the
    /// payload's bytes
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("verdict").required(true).args(["completed", "did_not_happen"])))]
// An output that nobody gave would be replayed as an empty one to every later caller.
#[command(group(clap::ArgGroup::new("output").args(["stdout", "no_output"])))]
pub(crate) struct ResolveArgs {
    #[command(flatten)]
    pub(crate) id: IdArgs,
    /// It happened: later callers get the output and exit status given here
    #[arg(long, requires = "output")]
    pub(crate) completed: bool,
    /// What it printed on stdout; `-` is stdin
    #[arg(long, value_name = "FILE", requires = "completed")]
    pub(crate) stdout: Option<PathBuf>,
    /// It printed nothing on stdout
    #[arg(long, requires = "completed")]
    pub(crate) no_output: bool,
    /// What it printed on stderr; `-` is stdin [default: nothing]
    #[arg(long, value_name = "FILE", requires = "completed")]
    pub(crate) stderr: Option<PathBuf>,
    /// Its exit status
    #[arg(long, value_name = "N", requires = "completed", default_value_t = 0)]
    pub(crate) exit: u8,
    /// For how long its output is kept [default: as long as its identity]
    #[arg(long, value_name = "D", requires = "completed", value_parser = values::ttl)]
    pub(crate) response_ttl: Option<Ttl>,
    /// For how long the key is kept; afterwards it runs again
    #[arg(long, value_name = "D", requires = "completed", value_parser = values::ttl, default_value = "forever")]
    pub(crate) identity_ttl: Ttl,
    /// It did not happen and cannot any more: the same key may run again
    #[arg(long)]
    pub(crate) did_not_happen: bool,
    /// How long after the last lease a request of the stopped command could still land
    #[arg(long, value_name = "D", requires = "did_not_happen", value_parser = values::duration, default_value = "0s")]
    pub(crate) settle: Duration,
    /// Who decides [default: $USER, else $LOGNAME, else the number of the user]
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Why: kept in the record, and shown to whoever looks
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Only if its fence is still the one that `idem show` told
    #[arg(long, value_name = "N", requires = "version")]
    pub(crate) fence: Option<u64>,
    /// Only if its version is still the one that `idem show` told
    #[arg(long, value_name = "N", requires = "fence")]
    pub(crate) version: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct EraseArgs {
    #[command(flatten)]
    pub(crate) id: IdArgs,
    /// The business reference too
    #[arg(long)]
    pub(crate) reference: bool,
}
