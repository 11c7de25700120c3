//! Models of what runs at the same time: loom tries every interleaving of the *real* `MemoryStore`, `Queue`, bells and
//! ledger at their locks (LM-001 to LM-007). Built with `RUSTFLAGS="--cfg idem_loom"`; without it there is no test here.
//!
//! Models without waits are explored without a bound. Those with waits have too many interleavings for that and are
//! bounded at 4 preemptions, switches that nothing forces; a wait is not one of them.
//!
//! Each model is also composed wrongly on purpose, and must then fail: a model that cannot see a fault proves nothing.
//! A wrong composition that blocks for good aborts the process, so those run as children.

#![cfg(idem_loom)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a model that fails says where"
)]

#[path = "loom/support.rs"]
mod support;

#[path = "loom/ledger.rs"]
mod ledger;
#[path = "loom/queue.rs"]
mod queue;
#[path = "loom/store.rs"]
mod store;
#[path = "loom/waiters.rs"]
mod waiters;
