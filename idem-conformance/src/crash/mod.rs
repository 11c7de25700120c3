//! Processes that are killed with SIGKILL at a place that was chosen.
//!
//! The test program starts itself again with a [`Task`] in its environment. The child opens the same site, does a
//! [`Job`], tells on its standard output which boundaries it passes, and kills itself at the one that the task names. No
//! store has to know: the boundaries lie between the calls of the suite's own worker. Kills in the middle of a call come
//! from a second thread, a moment after the call began.

pub(crate) mod child;
pub(crate) mod flight;
pub(crate) mod local;
mod provider;
mod race;
pub(crate) mod worker;

use serde::{Deserialize, Serialize};

use crate::site::Locator;

pub(crate) use child::{Ended, run_child, start_child};
pub(crate) use flight::Flight;
pub(crate) use provider::Provider;

/// What a child process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The harness, by name: a test program may hold several.
    pub(crate) backend: String,
    pub(crate) site: Locator,
    pub(crate) job: Job,
}

/// What a child process does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Job {
    /// The first attempt of a worked operation.
    Work(Work),
    /// Whatever it takes to bring a worked operation to its end after a crash.
    Recover(Work),
    /// One call, killed a moment after it began.
    Flight(Flight),
    /// An operation in one transaction with its effect.
    Local(local::Local),
    /// Operation after operation, each noted as acknowledged once the store said so, until killed.
    Stream { key: String },
    /// Claims a list of operations in a race with other processes.
    Race { racer: u64, racers: u64, operations: u64, round: u64 },
}

/// A worked operation, and where its process dies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) key: String,
    /// The downstream system deduplicates on our key.
    pub(crate) keyed: bool,
    pub(crate) kill_at: Option<String>,
}

/// Where a child process passes, one line on its standard output each; and where it dies.
#[derive(Debug)]
pub(crate) struct Boundaries {
    pub(crate) kill_at: Option<String>,
}

impl Boundaries {
    /// Tells that the process passes `name`, and dies there if it is to.
    pub(crate) fn pass(&self, name: &str) {
        println!("{PASSED}{name}");
        if self.kill_at.as_deref() == Some(name) {
            kill_myself();
        }
    }
}

/// What a line about a boundary begins with.
pub(crate) const PASSED: &str = "passed ";

/// Ends this process as a power switch would: nothing is flushed, no destructor runs.
pub(crate) fn kill_myself() -> ! {
    #[cfg(unix)]
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    // Reached only where there is no such signal, or in the instant before it arrives.
    std::process::abort()
}
