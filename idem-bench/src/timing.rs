//! The stopwatch: the one place that reads a clock and knows floating-point numbers of it.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time; no test moves it")]
#![allow(
    clippy::cast_precision_loss,
    reason = "counts and nanoseconds of a run are far below 2^53, and a ratio needs no more digits"
)]

use std::time::{Duration, Instant};

/// Measures from its making, and from lap to lap.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch(Instant);

impl Watch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Nanoseconds since the start or the last lap; the next lap begins.
    pub(crate) fn lap_ns(&mut self) -> u64 {
        let now = Instant::now();
        let lap = now.duration_since(self.0);
        self.0 = now;
        u64::try_from(lap.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// `count` as a number to divide.
pub(crate) fn real(count: u64) -> f64 {
    count as f64
}

/// Nanoseconds for each of `count`; 0 for none.
pub(crate) fn ns_each(all: Duration, count: u64) -> f64 {
    if count == 0 { 0.0 } else { all.as_secs_f64() * 1e9 / real(count) }
}

/// How many a second; 0 when no time passed.
pub(crate) fn per_second(count: u64, all: Duration) -> f64 {
    if all.is_zero() { 0.0 } else { real(count) / all.as_secs_f64() }
}
