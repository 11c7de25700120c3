//! The one place that knows whether the locks are the standard library's or loom's.
//!
//! Under the private cfg `idem_loom` the models in `tests/loom.rs` explore every interleaving of the real store and
//! queue. `Arc` stays the standard library's, because loom's does not coerce to a trait object. tokio's semaphore and
//! one-shot channel stay tokio's: to loom they are single steps.

#[cfg(not(idem_loom))]
pub(crate) use std::sync::{Condvar, Mutex};

#[cfg(idem_loom)]
pub(crate) use loom::sync::{Condvar, Mutex};

#[cfg(not(idem_loom))]
pub(crate) use tokio::sync::Notify;

#[cfg(idem_loom)]
pub(crate) use modelled::Notify;

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

#[cfg(idem_loom)]
mod modelled {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::futures::Notified;

    /// tokio's `Notify` with an access that loom sees before each call: loom then tries every order of ringing,
    /// listening and whatever lies between, which a step that it cannot see would hide.
    #[derive(Debug, Default)]
    pub(crate) struct Notify {
        inner: tokio::sync::Notify,
        seen: AtomicUsize,
    }

    impl Notify {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn notified(&self) -> Notified<'_> {
            self.seen.fetch_add(1, Ordering::SeqCst);
            self.inner.notified()
        }

        pub(crate) fn notify_one(&self) {
            self.seen.fetch_add(1, Ordering::SeqCst);
            self.inner.notify_one();
        }

        pub(crate) fn notify_waiters(&self) {
            self.seen.fetch_add(1, Ordering::SeqCst);
            self.inner.notify_waiters();
        }
    }
}
