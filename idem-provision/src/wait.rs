//! Waiting for another process: looked at in short intervals, for a bounded time.
#![allow(clippy::disallowed_methods, reason = "another process moves in real time; no test can move it")]

use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks until something is found, at most for `limit`.
pub(crate) fn until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if started.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
