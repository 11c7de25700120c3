//! R: a server that can be stopped and started again.

use std::fmt;

use async_trait::async_trait;
use idem_core::Result;

/// How a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// In good order.
    Orderly,
    /// By `SIGKILL`.
    Kill,
}

/// A server that nobody but the suite uses. Handles on sites with [`own_server`](crate::Site::own_server) are on it.
#[async_trait]
pub trait Server: Send + Sync + fmt::Debug {
    /// Stops it, and returns when it is gone.
    async fn stop(&self, ending: Ending) -> Result<()>;

    /// Starts it again at the same address and on the same data, and returns when it answers.
    async fn start(&self) -> Result<()>;
}
