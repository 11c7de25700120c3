//! `transition`, MemoryStore, the compare-and-swap adapter and SQLite in lockstep: after each of many random steps on
//! one injected clock they have given the same answer and hold the same record, version included.
//!
//! `IDEM_LOCKSTEP_SEED` and `IDEM_LOCKSTEP_STEPS` repeat or prolong a run; the seed is printed with every failure.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "these modules are a test"
)]

mod map_store;
mod requests;
mod rng;
mod world;

use rng::Rng;
use world::World;

/// What the project promises for the whole: see the run's closing line.
const STEPS: u64 = 100_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Prints how to repeat the run, if it ends in a panic.
struct Reproduce(u64);

impl Drop for Reproduce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with IDEM_LOCKSTEP_SEED={}", self.0);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_ledgers_in_lockstep() {
    let seed = setting("IDEM_LOCKSTEP_SEED", 0x1de_0002);
    let steps = setting("IDEM_LOCKSTEP_STEPS", STEPS);
    let _reproduce = Reproduce(seed);
    let mut world = World::new(Rng::new(seed)).await;
    while world.steps < steps {
        world.turn().await;
    }
    let seen = world.finish().await;
    println!("{} steps: {seen:?}", world.steps);
    // A run in which an answer never came would hold the stores against nothing there.
    for wanted in world::ANSWERS {
        assert!(seen.contains_key(*wanted), "no step was answered {wanted}: {seen:?}");
    }
}
