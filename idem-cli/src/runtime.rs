//! The one thread on which everything asynchronous runs.

use std::fs::File;
use std::future::Future;
use std::io;
use std::time::Duration;

use idem_core::{Error, ErrorKind, Result};

/// How long a store may take to close what it has open.
pub(crate) const CLOSING: Duration = Duration::from_secs(2);

/// Files, pipes and sockets that one call has open at a time, at most. Fewer would be met one by one, as a disk that
/// fails, a command that cannot be started, or a panic of a library.
const DESCRIPTORS: usize = 32;

/// Runs `work` to its end.
///
/// # Errors
///
/// `Unavailable` where the system has no more threads or files for us.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    has_room().map_err(|error| {
        let message =
            format!("fewer than {DESCRIPTORS} more files can be opened: raise the limit (ulimit -n)");
        Error::with_source(ErrorKind::Unavailable, message, error)
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Error::with_source(ErrorKind::Unavailable, "the system has no room for another runtime", error)
    })?;
    let output = runtime.block_on(work);
    runtime.shutdown_timeout(CLOSING);
    Ok(output)
}

/// Opens as many files as will be needed, and closes them again.
fn has_room() -> io::Result<()> {
    let first = File::open("/dev/null")?;
    let all = (1..DESCRIPTORS).map(|_| first.try_clone());
    all.collect::<io::Result<Vec<_>>>().map(drop)
}
