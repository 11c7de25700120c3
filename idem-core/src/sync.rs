//! The one place that knows whether the locks are the standard library's or loom's.
//!
//! Under the private cfg `idem_loom` the models in `tests/loom.rs` explore every interleaving of the real store and
//! queue. `Arc` stays the standard library's, because loom's does not coerce to a trait object.

#[cfg(not(idem_loom))]
pub(crate) use std::sync::{Condvar, Mutex};

#[cfg(idem_loom)]
pub(crate) use loom::sync::{Condvar, Mutex};

use std::sync::PoisonError;

/// Locks, also after a panic of another holder: what these locks guard is replaced whole, so it is never half written.
#[cfg(not(idem_loom))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks under loom.
#[cfg(idem_loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many parts a sharded structure has: one under loom, whose models would otherwise grow without learning more.
pub(crate) const SHARDS: usize = if cfg!(idem_loom) { 1 } else { 64 };
