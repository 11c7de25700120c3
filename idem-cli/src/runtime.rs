//! The one thread on which everything asynchronous runs.

use std::future::Future;
use std::time::Duration;

use idem_core::{Error, ErrorKind, Result};

/// How long a store may take to close what it has open.
pub(crate) const CLOSING: Duration = Duration::from_secs(2);

/// Runs `work` to its end.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Error::with_source(ErrorKind::Internal, "the runtime could not be started", error)
    })?;
    let output = runtime.block_on(work);
    runtime.shutdown_timeout(CLOSING);
    Ok(output)
}
