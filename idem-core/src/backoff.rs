//! Bounded, exponential backoff with full jitter (G-52).

use std::time::Duration;

use rand::RngExt;

use crate::attempt::with_rng;

/// How often and with which pauses a call is repeated.
///
/// The pause before repetition `n` (from 0) is uniform in whole microseconds from 1 to `min(cap, base * 2^n)`: a call is
/// never repeated at once, unless `base` or `cap` is zero.
///
/// ```
/// use std::time::Duration;
/// use idem_core::backoff::Backoff;
///
/// let backoff = Backoff::default();
/// let pause = backoff.pause(3).expect("the default repeats more than 3 times");
/// assert!(pause <= Duration::from_millis(10 * 8));
/// assert_eq!(backoff.pause(backoff.repetitions), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// The longest first pause.
    pub base: Duration,
    /// The longest pause.
    pub cap: Duration,
    /// How often a call is repeated after its first failure.
    pub repetitions: u32,
}

/// 5 repetitions, from 10 ms up to 1 s.
impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(10), cap: Duration::from_secs(1), repetitions: 5 }
    }
}

impl Backoff {
    /// Pauses from `base` to `cap`, at most `repetitions` of them.
    #[must_use]
    pub const fn new(base: Duration, cap: Duration, repetitions: u32) -> Self {
        Self { base, cap, repetitions }
    }

    /// The pause before repetition `n`, counted from 0; `None` when there is no more repetition.
    #[must_use]
    pub fn pause(&self, n: u32) -> Option<Duration> {
        (n < self.repetitions).then(|| self.pause_unbounded(n))
    }

    /// The pause before repetition `n`, for a loop that something else than `repetitions` bounds.
    #[must_use]
    pub(crate) fn pause_unbounded(&self, n: u32) -> Duration {
        jitter(self.base.saturating_mul(1_u32.checked_shl(n).unwrap_or(u32::MAX)).min(self.cap))
    }
}

/// A uniform time in whole microseconds from 1 to `ceiling`; zero only where that is below one.
///
/// A pause of nothing would be no pause, and who waits for it on an injected clock would wait in vain.
#[must_use]
pub(crate) fn jitter(ceiling: Duration) -> Duration {
    let micros = u64::try_from(ceiling.as_micros()).unwrap_or(u64::MAX);
    Duration::from_micros(with_rng(|rng| rng.random_range(micros.min(1)..=micros)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_bounded_and_spread() {
        let backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(50), 40);
        let pauses: Vec<_> = (0..40).filter_map(|n| backoff.pause(n)).collect();
        assert_eq!(pauses.len(), 40);
        assert!(pauses.iter().all(|pause| *pause <= Duration::from_millis(50)));
        let distinct: std::collections::HashSet<_> = pauses.iter().collect();
        assert!(distinct.len() > 20, "full jitter spreads the callers");
    }

    #[test]
    fn a_pause_is_never_nothing() {
        let micro = Duration::from_micros(1);
        for _ in 0..64 {
            assert_eq!(jitter(micro), micro, "of 0 and 1 microseconds only one is a pause");
        }
        assert_eq!(jitter(Duration::ZERO), Duration::ZERO, "who asks for no pause gets none");
    }
}
