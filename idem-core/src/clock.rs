//! The clock: one injected object tells the time, measures it and sleeps, so that tests move time instead of waiting.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use crate::time::Timestamp;

/// A sleep that a [`Clock`] gave.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Wall time, monotonic time, and sleeping on the latter.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The wall clock (G-61). It may jump in both directions.
    fn now(&self) -> Timestamp;

    /// Monotonic time since an origin that is fixed for the life of the clock. Holders count their own deadline in it,
    /// so a jump of the wall clock neither prolongs nor shortens a lease (G-12).
    fn elapsed(&self) -> Duration;

    /// Resolves once [`elapsed`](Self::elapsed) has reached `deadline`.
    fn sleep_until(&self, deadline: Duration) -> Sleep;
}

/// The system's clock. Sleeping needs a tokio runtime with time enabled.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::exhaustive_structs, reason = "it has no state, and callers write its name to make one")]
pub struct SystemClock;

static ORIGIN: LazyLock<Instant> = LazyLock::new(
    #[allow(clippy::disallowed_methods, reason = "this is the clock that everything else is told to use")]
    Instant::now,
);

#[allow(clippy::disallowed_methods, reason = "this is the clock that everything else is told to use")]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(crate::time::whole_millis(since_epoch))
    }

    fn elapsed(&self) -> Duration {
        ORIGIN.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        let at = ORIGIN.checked_add(deadline);
        Box::pin(async move {
            match at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        })
    }
}

/// A clock that moves only when told to. Clones share it.
///
/// ```
/// use std::time::Duration;
/// use idem_core::clock::{Clock, ManualClock};
///
/// let clock = ManualClock::at(1_000);
/// clock.advance(Duration::from_millis(5));
/// assert_eq!(clock.now().as_millis(), 1_005);
/// clock.set_wall(10); // a jump of the wall clock only
/// assert_eq!((clock.now().as_millis(), clock.elapsed()), (10, Duration::from_millis(5)));
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Manual>);

struct Manual {
    wall_us: AtomicU64,
    elapsed_us: AtomicU64,
    /// The deadline of each sleep that is waited for.
    sleeps: Mutex<Vec<Duration>>,
    moved: Notify,
    slept: Notify,
}

impl ManualClock {
    /// A clock whose wall time is `wall_ms` milliseconds after the epoch.
    #[must_use]
    pub fn at(wall_ms: u64) -> Self {
        Self(Arc::new(Manual {
            wall_us: AtomicU64::new(wall_ms.saturating_mul(1000)),
            elapsed_us: AtomicU64::new(0),
            sleeps: Mutex::new(Vec::new()),
            moved: Notify::new(),
            slept: Notify::new(),
        }))
    }

    /// Moves wall and monotonic time forward and wakes who is due.
    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.wall_us.fetch_add(micros, Ordering::SeqCst);
        self.0.elapsed_us.fetch_add(micros, Ordering::SeqCst);
        self.0.moved.notify_waiters();
    }

    /// Sets the wall clock alone: a jump, forward or back.
    pub fn set_wall(&self, wall_ms: u64) {
        self.0.wall_us.store(wall_ms.saturating_mul(1000), Ordering::SeqCst);
    }

    /// How many sleeps would not end now. One that is due is not counted, whether or not its task has run since.
    #[must_use]
    pub fn sleepers(&self) -> u64 {
        let now = self.elapsed();
        let sleeps = self.0.sleeps.lock().unwrap_or_else(PoisonError::into_inner);
        sleeps.iter().filter(|deadline| **deadline > now).count() as u64
    }

    /// Resolves once at least `count` sleeps are pending: the barrier before [`advance`](Self::advance).
    pub async fn until_sleepers(&self, count: u64) {
        loop {
            let slept = self.0.slept.notified();
            tokio::pin!(slept);
            slept.as_mut().enable();
            if self.sleepers() >= count {
                return;
            }
            slept.await;
        }
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({})", self.now())
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.wall_us.load(Ordering::SeqCst) / 1000)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_micros(self.0.elapsed_us.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        let clock = self.clone();
        Box::pin(async move {
            let mut counted = None;
            loop {
                let moved = clock.0.moved.notified();
                tokio::pin!(moved);
                moved.as_mut().enable();
                if clock.elapsed() >= deadline {
                    return;
                }
                counted.get_or_insert_with(|| Sleeping::count(&clock, deadline));
                moved.await;
            }
        })
    }
}

/// Counts one pending sleep until it is dropped.
struct Sleeping {
    clock: ManualClock,
    deadline: Duration,
}

impl Sleeping {
    fn count(clock: &ManualClock, deadline: Duration) -> Self {
        clock.0.sleeps.lock().unwrap_or_else(PoisonError::into_inner).push(deadline);
        clock.0.slept.notify_waiters();
        Self { clock: clock.clone(), deadline }
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        let mut sleeps = self.clock.0.sleeps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = sleeps.iter().position(|deadline| *deadline == self.deadline) {
            sleeps.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_sleep_ends_when_the_clock_is_moved_past_it() {
        let clock = ManualClock::at(0);
        let sleeper = tokio::spawn(clock.sleep_until(Duration::from_millis(10)));
        clock.until_sleepers(1).await;
        clock.advance(Duration::from_millis(9));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_millis(1));
        assert_eq!(clock.sleepers(), 0, "one that is due is not counted, although its task has not run yet");
        sleeper.await.unwrap();
        let dropped = tokio::spawn(clock.sleep_until(Duration::from_millis(20)));
        clock.until_sleepers(1).await;
        dropped.abort();
        assert!(dropped.await.unwrap_err().is_cancelled());
        assert_eq!(clock.sleepers(), 0);
    }

    #[test]
    fn steps_of_less_than_a_millisecond_add_up() {
        let clock = ManualClock::at(7);
        clock.advance(Duration::from_micros(500));
        clock.advance(Duration::from_micros(500));
        assert_eq!((clock.now().as_millis(), clock.elapsed()), (8, Duration::from_millis(1)));
    }
}
