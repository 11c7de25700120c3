//! `transition` and the scripts in lockstep: after each of many random steps on one injected clock, Redis has given the
//! same answer and holds the same record, version included. The requests are those that SQLite is held against.
//!
//! `IDEM_LOCKSTEP_SEED` and `IDEM_LOCKSTEP_STEPS` repeat or prolong a run; the seed is printed with every failure.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "these modules are a test"
)]

#[path = "../../../idem-sqlite/tests/lockstep/requests.rs"]
mod requests;
#[path = "../../../idem-sqlite/tests/lockstep/rng.rs"]
mod rng;
mod world;

use rng::Rng;
use world::World;

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
async fn redis_in_lockstep_with_the_decision_table() {
    let server = match idem_provision::redis() {
        Ok(server) => server,
        Err(error) => {
            assert!(!idem_provision::required(idem_provision::Software::Redis), "{error}");
            println!("skipped: {error}");
            return;
        }
    };
    let seed = setting("IDEM_LOCKSTEP_SEED", 0x1de_0005);
    let steps = setting("IDEM_LOCKSTEP_STEPS", 10_000);
    let _reproduce = Reproduce(seed);
    let mut world = World::new(Rng::new(seed), server.url()).await;
    // A run in which an answer never came would hold the scripts against nothing there; the rare ones may take longer.
    while world.steps < steps || (world.steps < 10 * steps && !world.unseen().is_empty()) {
        world.turn().await;
    }
    assert!(world.unseen().is_empty(), "{} steps were never answered {:?}", world.steps, world.unseen());
    let seen = world.finish().await;
    println!("{} answers: {seen:?}", seen.values().sum::<u64>());
}
