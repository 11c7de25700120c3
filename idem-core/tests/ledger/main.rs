//! The ledger as an application uses it, on the injected clock: no test sleeps, none looks at the wall clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails says where"
)]

mod answers;
mod cancelled;
mod deadlines;
mod heartbeat;
mod panics;
mod recovery;
mod results;
mod retries;
mod settings;
mod shutdown;
mod support;
mod unanswered;
mod waiters;
