//! The clock of a site: its wall time moves by hand, its monotonic time and its sleeps are real.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::Timestamp;
use idem_core::clock::{Clock, Sleep, SystemClock};

/// Where every stepped clock starts: far from the system's time, so that a store that looks at the wrong clock is found
/// out at once.
pub(crate) const EPOCH_MS: u64 = 4_000_000_000_000;

/// A wall clock that scenarios move. Clones share it.
///
/// Only the wall time is stepped. A store that sleeps before it tries again (for a lock, for a lost
/// compare-and-swap) sleeps in real time, or it would wait for ever for somebody to move the clock.
#[derive(Clone)]
pub struct SteppedClock {
    wall_ms: Arc<AtomicU64>,
}

impl SteppedClock {
    /// A clock that shows `wall_ms` milliseconds after the epoch until it is moved.
    #[must_use]
    pub fn at(wall_ms: u64) -> Self {
        Self { wall_ms: Arc::new(AtomicU64::new(wall_ms)) }
    }

    /// Moves the wall time forward.
    pub fn advance_ms(&self, by_ms: u64) {
        self.wall_ms.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Sets the wall time, forward or back.
    pub fn set_ms(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, Ordering::SeqCst);
    }
}

impl fmt::Debug for SteppedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SteppedClock({})", self.now())
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall_ms.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        SystemClock.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        SystemClock.sleep_until(deadline)
    }
}

/// A clock that is `skew_ms` ahead of another, or behind it.
#[derive(Debug, Clone)]
pub(crate) struct SkewedClock {
    pub(crate) inner: Arc<dyn Clock>,
    pub(crate) skew_ms: i64,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.inner.now().as_millis().saturating_add_signed(self.skew_ms))
    }

    fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        self.inner.sleep_until(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_wall_and_a_skew_stays_above_zero() {
        let clock = SteppedClock::at(5);
        clock.clone().advance_ms(2);
        assert_eq!(clock.now().as_millis(), 7);
        let behind = SkewedClock { inner: Arc::new(clock.clone()), skew_ms: -9 };
        assert_eq!(behind.now(), Timestamp::EPOCH);
        clock.set_ms(20);
        assert_eq!(behind.now().as_millis(), 11);
    }
}
