//! Waiting for a running duplicate without a stampede (G-34): of all that wait for one key in this ledger one asks the
//! store, and the others listen to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::Inner;
use crate::backoff::jitter;
use crate::key::OperationId;
use crate::sync::{Mutex, lock};

/// The longest first pause between two looks at a running duplicate, and the longest pause at all. A store that wakes
/// its waiters makes most of them unnecessary.
const LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The keys that somebody waits for. The one permit of a key's semaphore is the turn to ask the store; it is closed
/// when the wait is over for all. A key leaves with its last waiter.
#[derive(Default)]
pub(super) struct Waiting(Mutex<HashMap<OperationId, Arc<Semaphore>>>);

impl Waiting {
    fn enter(&self, id: &OperationId) -> Arc<Semaphore> {
        Arc::clone(lock(&self.0).entry(id.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))))
    }

    /// `turns` is the leaver's own reference, beside the one in the map. It ends under the lock: of two that leave at
    /// once, the later one must not count the earlier one's.
    fn leave(&self, id: &OperationId, turns: Arc<Semaphore>) {
        let mut keys = lock(&self.0);
        let unused = keys.get(id).is_some_and(|kept| {
            Arc::ptr_eq(kept, &turns) && (Arc::strong_count(kept) == 2 || turns.is_closed())
        });
        drop(turns);
        if unused {
            keys.remove(id);
        }
    }
}

/// What a claim was told about the attempt that is running.
#[derive(Clone, Copy)]
pub(super) struct Busy {
    pub(super) retry_after_ms: u64,
    pub(super) version: u64,
}

/// One claim that waits, within one budget.
pub(super) struct Waiter<'a> {
    ledger: &'a Inner,
    id: &'a OperationId,
    /// Monotonic time at which it stops waiting.
    give_up: Duration,
    looks: u32,
    turns: Option<Arc<Semaphore>>,
    turn: Option<OwnedSemaphorePermit>,
}

impl<'a> Waiter<'a> {
    pub(super) const fn new(ledger: &'a Inner, id: &'a OperationId, give_up: Duration) -> Self {
        Self { ledger, id, give_up, looks: 0, turns: None, turn: None }
    }

    /// Waits until it is worth asking the store again. `false`: the budget is used up or the ledger is shutting down,
    /// and the last answer stands.
    pub(super) async fn wait(&mut self, busy: Busy) -> bool {
        let ledger = self.ledger;
        if ledger.clock.elapsed() >= self.give_up || ledger.closing.is_cancelled() {
            return false;
        }
        tokio::select! {
            biased;
            () = ledger.closing.cancelled() => false,
            () = self.turn_or_change(busy) => true,
        }
    }

    /// The wait ended in an answer that everybody gets: all look now.
    pub(super) fn is_over(&mut self) {
        if let Some(turns) = &self.turns {
            turns.close();
        }
        self.leave();
    }

    async fn turn_or_change(&mut self, busy: Busy) {
        if self.turn.is_none() {
            let turns = Arc::clone(self.turns.get_or_insert_with(|| self.ledger.waiting.enter(self.id)));
            match Arc::clone(&turns).try_acquire_owned() {
                // It has just looked, so it goes on to wait for a change.
                Ok(turn) => self.turn = Some(turn),
                Err(TryAcquireError::NoPermits) => return self.listen(turns).await,
                Err(TryAcquireError::Closed) => return self.leave(),
            }
        }
        self.change(busy).await;
    }

    /// Until the turn comes, the wait is over for all, or the budget is used up.
    async fn listen(&mut self, turns: Arc<Semaphore>) {
        tokio::select! {
            biased;
            turn = turns.acquire_owned() => match turn {
                Ok(turn) => self.turn = Some(turn),
                Err(_) => self.leave(),
            },
            () = self.ledger.clock.sleep_until(self.give_up) => {}
        }
    }

    /// Until the record changes, the lease can have lapsed, it is time for another look, or the budget is used up.
    async fn change(&mut self, busy: Busy) {
        let (first, longest) = LOOK;
        let ceiling = first.saturating_mul(1_u32.checked_shl(self.looks).unwrap_or(u32::MAX)).min(longest);
        self.looks = self.looks.saturating_add(1);
        // Half fixed and half random: the processes spread out, and none comes back at once.
        let pause = (ceiling / 2 + jitter(ceiling / 2)).min(Duration::from_millis(busy.retry_after_ms));
        let until = (self.ledger.clock.elapsed() + pause).min(self.give_up);
        tokio::select! {
            biased;
            () = self.ledger.store.changed(self.id, busy.version) => {}
            () = self.ledger.clock.sleep_until(until) => {}
        }
    }

    /// Hands the turn to the next one.
    fn leave(&mut self) {
        self.turn = None;
        if let Some(turns) = self.turns.take() {
            self.ledger.waiting.leave(self.id, turns);
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(all(test, not(idem_loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::ManualClock;
    use crate::ledger::Ledger;
    use crate::store::Limits;

    #[tokio::test]
    async fn nothing_is_kept_of_a_key_that_nobody_waits_for() {
        let clock = ManualClock::at(1_000_000);
        let store = crate::MemoryStore::with(Arc::new(clock.clone()), Limits::default());
        let inner = &*Ledger::shared(Arc::new(store), Arc::new(clock)).inner;
        let id = OperationId::new("acme", "charge/v1", "order-1").unwrap();
        // Nothing is stored, so what is waited for has changed already and the first wait returns at once.
        let busy = Busy { retry_after_ms: 1000, version: 1 };
        let mut asks = Waiter::new(inner, &id, Duration::from_secs(60));
        assert!(asks.wait(busy).await);
        assert!(asks.turn.is_some());
        {
            let mut listens = Waiter::new(inner, &id, Duration::from_secs(60));
            let mut wait = std::pin::pin!(listens.wait(busy));
            let noop = &mut std::task::Context::from_waker(std::task::Waker::noop());
            assert!(wait.as_mut().poll(noop).is_pending());
            asks.is_over();
            assert!(lock(&inner.waiting.0).is_empty(), "who comes now waits for something else");
            assert!(wait.await, "all look when the wait is over");
        }
        drop(asks);
        let mut again = Waiter::new(inner, &id, Duration::from_secs(60));
        assert!(again.wait(busy).await);
        assert_eq!(lock(&inner.waiting.0).len(), 1);
        drop(again);
        assert!(lock(&inner.waiting.0).is_empty());
    }

    #[test]
    fn nothing_is_kept_of_a_key_whose_last_waiters_leave_at_once() {
        let waiting = Waiting::default();
        let id = OperationId::new("acme", "charge/v1", "order-1").unwrap();
        for _ in 0..2_000 {
            let barrier = std::sync::Barrier::new(3);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let turns = waiting.enter(&id);
                        barrier.wait();
                        waiting.leave(&id, turns);
                    });
                }
            });
            assert!(lock(&waiting.0).is_empty());
        }
    }
}
