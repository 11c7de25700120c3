//! Many callers of one key: the same bytes for all, one grant after a release, and no stampede (G-34).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use idem_core::ledger::{Answer, Failure, Ledger};
use idem_core::request::OnLapse;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use crate::support::{Call, LEASE, World, intent, millis, op, secs};

const WAITERS: usize = 64;

type Waiter = JoinHandle<Answer<u32>>;

/// Starts 64 callers, whose handlers count themselves and wait for a permit.
fn crowd(ledger: &Ledger, runs: &Arc<AtomicU32>, go: &Arc<Semaphore>) -> Vec<Waiter> {
    let caller = || {
        let (ledger, runs, go) = (ledger.clone(), runs.clone(), go.clone());
        tokio::spawn(async move {
            let handler = |_| async move {
                let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
                go.acquire().await.unwrap().forget();
                Ok(run)
            };
            ledger.run(&op(), intent(), handler).await.unwrap()
        })
    };
    (0..WAITERS).map(|_| caller()).collect()
}

async fn long_wait(world: World) {
    let ledger = world.policy(|policy| policy.wait = secs(600));
    let (runs, go) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
    let crowd = crowd(&ledger, &runs, &go);
    // One heartbeat, one that asks the store, and 62 that listen to it.
    let everybody = WAITERS as u64;
    world.clock.until_sleepers(everybody).await;
    assert_eq!(world.store.count(Call::Claim), WAITERS, "each asks once, as it comes");
    for _ in 0..1000 {
        world.clock.advance(millis(500));
        world.clock.until_sleepers(everybody).await;
    }
    let looks = world.store.count(Call::Claim) - WAITERS;
    assert!(looks <= 1010, "{looks} looks of 63 waiters in 500 s");
    assert_eq!(runs.load(Ordering::SeqCst), 1);

    go.add_permits(1);
    let before = world.store.count(Call::Claim);
    // The store may not wake anybody; the next look is at most a second away.
    while !crowd.iter().all(JoinHandle::is_finished) {
        world.clock.advance(millis(100));
        tokio::task::yield_now().await;
    }
    let mut executed = 0;
    for waiter in crowd {
        match waiter.await.unwrap() {
            Answer::Executed(1) => executed += 1,
            Answer::Replayed(1) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((executed, runs.load(Ordering::SeqCst)), (1, 1));
    let looks = world.store.count(Call::Claim) - before;
    assert!(looks <= WAITERS, "{looks} claims for 63 replays");
}

#[tokio::test]
async fn over_a_long_wait_one_of_64_waiters_asks_the_store() {
    long_wait(World::new()).await;
}

#[tokio::test]
async fn also_where_the_store_wakes_nobody() {
    long_wait(World::that_does_not_wake()).await;
}

#[tokio::test]
async fn a_release_is_granted_to_one_waiter_and_wakes_one_more() {
    let world = World::new();
    let ledger = world.policy(|policy| policy.wait = secs(600));
    let (fail, failing) = oneshot::channel::<()>();
    let first = ledger.run_detached::<u32, _, _>(&op(), intent(), |_| async move {
        failing.await.unwrap();
        Err(Failure::no_effect("not now"))
    });
    world.clock.until_sleepers(1).await;
    let (runs, go) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
    let crowd = crowd(&ledger, &runs, &go);
    world.clock.until_sleepers(1 + WAITERS as u64).await;
    let before = world.store.count(Call::Claim);
    assert_eq!(before, 1 + WAITERS);

    fail.send(()).unwrap();
    assert!(matches!(first.await.unwrap(), Answer::Released { .. }));
    // Again one heartbeat, one that asks and 62 that listen.
    world.clock.until_sleepers(WAITERS as u64).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1, "exactly one was granted");
    let looks = world.store.count(Call::Claim) - before;
    assert!(looks <= 2, "{looks} claims after the release: the one granted, and the next to ask");

    go.add_permits(1);
    for waiter in crowd {
        assert!(matches!(waiter.await.unwrap(), Answer::Executed(1) | Answer::Replayed(1)));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert!(world.store.count(Call::Claim) - before <= 2 + WAITERS);
}

#[tokio::test]
async fn every_waiter_is_granted_in_turn_when_each_gives_up() {
    let world = World::new();
    let ledger = world.policy(|policy| policy.wait = secs(600));
    let runs = Arc::new(AtomicU32::new(0));
    let caller = || {
        let (ledger, runs) = (ledger.clone(), runs.clone());
        tokio::spawn(async move {
            let handler = |_| async move {
                runs.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                Err::<u32, _>(Failure::no_effect("not me"))
            };
            ledger.run(&op(), intent(), handler).await.unwrap()
        })
    };
    let crowd: Vec<_> = (0..WAITERS).map(|_| caller()).collect();
    for waiter in crowd {
        assert!(matches!(waiter.await.unwrap(), Answer::Released { .. }));
    }
    assert_eq!(runs.load(Ordering::SeqCst), 64);
    assert_eq!(world.store.record().attempt_number(), 64);
    let claims = world.store.count(Call::Claim);
    assert!(claims <= 3 * WAITERS, "{claims} claims for 64 grants");
}

#[tokio::test]
async fn the_turn_to_ask_passes_on_when_its_waiter_goes_away() {
    let world = World::that_does_not_wake();
    let ledger = world.policy(|policy| policy.wait = secs(600));
    world.rival_grant(OnLapse::Park).await;
    let (runs, go) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(1)));
    let mut crowd = crowd(&ledger, &runs, &go);
    world.clock.until_sleepers(WAITERS as u64).await;
    // The first to come is the one that asks.
    let mut left = WAITERS as u64;
    for other in &crowd[..WAITERS - 1] {
        other.abort();
        left -= 1;
        while world.clock.sleepers() > left {
            tokio::task::yield_now().await;
        }
        world.clock.until_sleepers(left).await;
    }
    let before = world.store.count(Call::Claim);
    assert!(before <= 2 * WAITERS, "each asked when it came and when it got the turn: {before}");
    // The last one sees the lapse.
    world.clock.advance(LEASE);
    let last = crowd.pop().unwrap().await.unwrap();
    assert!(matches!(last, Answer::Uncertain { .. }));
    assert_eq!(world.store.count(Call::Claim), before + 1);
}

#[tokio::test]
async fn waiters_of_another_intent_are_told_at_once() {
    let world = World::new();
    let ledger = world.policy(|policy| policy.wait = secs(600));
    world.rival_grant(OnLapse::Park).await;
    let other = idem_core::Fingerprint::bytes(b"11 EUR");
    let answer = ledger.run(&op(), other, |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::Conflict));
}

#[tokio::test]
async fn a_wait_is_one_budget() {
    let world = World::that_does_not_wake();
    let ledger = world.policy(|policy| policy.wait = secs(40));
    world.rival_grant(OnLapse::Park).await;
    let call = ledger.run_detached(&op(), intent(), |_| async { Ok(1) });
    // A lapse in the middle of the wait ends it: the next look parks.
    while world.elapsed() < LEASE {
        world.clock.until_sleepers(1).await;
        world.clock.advance(millis(100));
    }
    assert!(matches!(call.await.unwrap(), Answer::Uncertain { .. }));
    assert_eq!(world.store.record().parked.unwrap().since.as_millis(), 1_000_000 + 30_000);
}

#[tokio::test]
async fn a_wait_over_a_takeover_is_the_same_budget() {
    let world = World::that_does_not_wake();
    let ledger = world.policy(|policy| policy.wait = secs(40));
    world.rival_grant(OnLapse::Park).await;
    let call = ledger.run_detached(&op(), intent(), |_| async { Ok(1) });
    world.clock.until_sleepers(1).await;
    world.clock.advance(LEASE);
    // Another rival is faster, so the wait goes on under its attempt.
    assert_eq!(world.rival_grant(OnLapse::Take).await.number, 2);
    while world.elapsed() < secs(40) {
        world.clock.until_sleepers(1).await;
        world.clock.advance(millis(100));
    }
    match call.await.unwrap() {
        Answer::InProgress { retry_after, attempt_number } => {
            assert_eq!((retry_after, attempt_number), (secs(20), 2));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn without_a_wait_a_duplicate_takes_one_trip() {
    let world = World::new();
    world.rival_grant(OnLapse::Park).await;
    let answer = world.ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::InProgress { retry_after, attempt_number: 1 } if retry_after == LEASE));
    assert_eq!(world.store.count(Call::Claim), 1);
}
