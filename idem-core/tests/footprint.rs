//! What an operation costs in memory: bytes that a record keeps, allocations of a call, and nothing left after a purge.
//!
//! Counted at the allocator, on this thread alone, so the figures are the same on every machine.

#![cfg(not(idem_loom))]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use idem_core::clock::ManualClock;
use idem_core::ledger::{Answer, Ledger, Policy};
use idem_core::{Fingerprint, Limits, MemoryStore, OperationId, Retention, Store, Ttl};

/// Bytes of the JSON text that a handler's result is stored as.
const BODY_BYTES: usize = 64;

/// Bytes of an operation id in these tests, which its record keeps too.
const ID_BYTES: usize = 4 + 17 + 14;

fn op(number: u32) -> OperationId {
    OperationId::new("acme", "invoice.create/v1", &format!("order-{number:08}")).unwrap()
}

struct World {
    ledger: Ledger,
    store: MemoryStore,
    clock: ManualClock,
    runtime: tokio::runtime::Runtime,
}

impl World {
    fn new(retention: Retention) -> Self {
        let clock = ManualClock::at(1_000_000);
        let store = MemoryStore::with(Arc::new(clock.clone()), Limits::default());
        let mut policy = Policy::default();
        policy.retention = retention;
        let ledger = Ledger::shared(Arc::new(store.clone()), Arc::new(clock.clone())).with(policy);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let world = Self { ledger, store, clock, runtime };
        // What is made once, by whoever is first, is no cost of an operation.
        world.block_on(world.run(u32::MAX, true));
        world
    }

    /// One call; `is_new` tells whether its handler has to run.
    async fn run(&self, number: u32, is_new: bool) {
        let handler = |_| async { Ok("x".repeat(BODY_BYTES - 2)) };
        match self.ledger.run(&op(number), Fingerprint::custom([7; 32]), handler).await.unwrap() {
            Answer::Executed(_) => assert!(is_new, "run a second time"),
            Answer::Replayed(body) => assert_eq!((is_new, body.len()), (false, BODY_BYTES - 2)),
            other => unreachable!("{other:?}"),
        }
    }

    fn run_all(&self, numbers: std::ops::Range<u32>, is_new: bool) -> AllocationInfo {
        measure(|| {
            self.block_on(async {
                for number in numbers {
                    self.run(number, is_new).await;
                }
            });
        })
    }

    fn purge(&self) -> AllocationInfo {
        measure(|| while self.block_on(self.store.sweep(1000)).unwrap().more {})
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

/// Bytes of one record, beside the body and the id.
fn bytes_of_a_record(kept: &AllocationInfo, records: u32) -> i64 {
    kept.bytes_current / i64::from(records) - i64::try_from(BODY_BYTES + ID_BYTES).unwrap()
}

/// Runs and purges operations in waves on one thread; gives how many bytes are left after that.
fn waves(waves: u32, records: u32) -> i64 {
    let retention = Retention::forgetting_identity(Ttl::Millis(60_000), Ttl::Millis(60_000), None).unwrap();
    let world = World::new(retention);
    let mut left = 0;
    for wave in 0..waves {
        let kept = world.run_all(wave * records..(wave + 1) * records, true);
        let bytes = bytes_of_a_record(&kept, records);
        assert!(bytes <= 700, "{bytes} bytes a record beside body and id");
        world.clock.advance(Duration::from_secs(3600));
        left += kept.bytes_current + world.purge().bytes_current;
        assert!(world.store.is_empty());
    }
    left
}

#[test]
fn a_million_operations_leave_nothing_behind() {
    const WAVES: u32 = 4;
    const RECORDS: u32 = 125_000;
    let halves = [0; 2].map(|_| std::thread::spawn(|| waves(WAVES, RECORDS)));
    for half in halves {
        let left = half.join().unwrap();
        assert!(left < 64 * 1024, "{left} bytes are left of {} operations", WAVES * RECORDS);
    }
}

#[test]
fn a_record_that_is_kept_for_good_is_small() {
    const RECORDS: u32 = 20_000;
    let world = World::new(Retention::forever());
    let kept = world.run_all(0..RECORDS, true);
    let bytes = bytes_of_a_record(&kept, RECORDS);
    println!("{bytes} bytes a record beside body and id");
    assert!(bytes <= 700, "{bytes} bytes a record beside body and id");
}

#[test]
fn a_call_allocates_no_more_than_it_used_to() {
    const CALLS: u32 = 10_000;
    let world = World::new(Retention::forever());
    let cycle = world.run_all(0..CALLS, true).count_total / u64::from(CALLS);
    let replay = world.run_all(0..CALLS, false).count_total / u64::from(CALLS);
    println!("{cycle} allocations a cycle, {replay} a replay");
    // Both include the three of the id and its text, and the cycle those of the result, its JSON, and the result as the
    // JSON gives it back.
    assert!(cycle <= 17, "{cycle} allocations of claim, handler and completion");
    assert!(replay <= 8, "{replay} allocations of a replay");
}
