//! Waking the waiters of this process: a fixed number of bells, each for the ids that hash to it.

use std::hash::{BuildHasher, RandomState};

use crate::key::OperationId;
use crate::sync::{Notify, SHARDS};

/// Bells for waiters. A waiter may be woken for a neighbour's sake and looks again; nothing is kept per key.
///
/// ```
/// # async fn demo(store_version: impl Fn() -> u64) -> Result<(), idem_core::Error> {
/// use idem_core::{OperationId, wake::Bells};
///
/// let bells = Bells::default();
/// let id = OperationId::new("acme", "charge/v1", "order-1")?;
/// // Listen first, look second: a change between the two rings the bell that is already listened to.
/// let heard = bells.listen(&id);
/// if store_version() == 7 {
///     heard.await;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Bells {
    bells: Box<[Notify]>,
    hasher: RandomState,
}

impl Default for Bells {
    fn default() -> Self {
        Self { bells: (0..SHARDS).map(|_| Notify::new()).collect(), hasher: RandomState::new() }
    }
}

impl Bells {
    fn bell(&self, id: &OperationId) -> &Notify {
        let index = usize::try_from(self.hasher.hash_one(id) % SHARDS as u64).unwrap_or(0);
        #[allow(clippy::indexing_slicing, reason = "the index is below the number of bells")]
        &self.bells[index]
    }

    /// Wakes who listens for `id` now.
    pub fn ring(&self, id: &OperationId) {
        self.bell(id).notify_waiters();
    }

    /// Hears every [`ring`](Self::ring) from the moment it is made, polled or not.
    pub fn listen(&self, id: &OperationId) -> tokio::sync::futures::Notified<'_> {
        self.bell(id).notified()
    }
}
