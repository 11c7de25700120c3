//! The holder's own deadline: min(first send + lease, this send + remaining), on monotonic time alone (G-12).

use std::time::Duration;

use idem_core::ErrorKind;
use idem_core::answer::Claimed;
use idem_core::backoff::Backoff;
use idem_core::ledger::{Answer, Ledger};
use idem_core::request::OnLapse;

use crate::support::{Call, Fault, LEASE, World, intent, op, secs};

/// What was left of the lease when the handler began.
async fn left_at_start(ledger: &Ledger) -> Duration {
    let answer = ledger.run(&op(), intent(), |attempt| async move { Ok(attempt.remaining()) }).await.unwrap();
    assert!(matches!(answer, Answer::Executed(_)), "{answer:?}");
    answer.into_result().unwrap()
}

#[tokio::test]
async fn a_lease_is_counted_from_before_the_send() {
    let world = World::new();
    world.store.fail(Call::Claim, [Fault::Slow(secs(12))]);
    assert_eq!(left_at_start(&world.ledger).await, secs(18));
}

/// The first send is applied and its answer is lost after 20 s, when the deciding clock has moved by `moved_ms`; then
/// the repetition is answered.
async fn left_after_a_loss(moved_ms: i64) -> Duration {
    let world = World::two_clocks();
    let wall_ms = 5_000_000_u64.checked_add_signed(moved_ms).unwrap();
    world.store.fail(Call::Claim, [Fault::Lost { after: secs(20), wall_ms }]);
    let at_once = Backoff::new(secs(0), secs(0), 5);
    let left = left_at_start(&world.policy(|policy| policy.backoff = at_once)).await;
    assert_eq!(world.store.count(Call::Claim), 2);
    left
}

#[tokio::test]
async fn a_repeated_grant_has_what_remained_by_the_worse_of_two_reckonings() {
    assert_eq!(left_after_a_loss(20_000).await, secs(10));
    // The deciding clock was set back by an hour: the first send + lease bounds what the store says.
    assert_eq!(left_after_a_loss(20_000 - 3_600_000).await, secs(10));
    // It was set forward by 5 s: what the store says bounds the first send + lease.
    assert_eq!(left_after_a_loss(25_000).await, secs(5));
}

#[tokio::test]
async fn a_jump_of_the_deciding_clock_does_not_prolong_a_renewal() {
    let world = World::two_clocks();
    let call = world.ledger.run_detached(&op(), intent(), |attempt| async move {
        attempt.lost().await;
        Ok(attempt.remaining())
    });
    world.clock.until_sleepers(2).await;
    // Set back by an hour, the store says that an hour and 30 s remain.
    world.deciding.set_wall(5_000_000 - 3_600_000);
    world.clock.advance(secs(10));
    world.clock.until_sleepers(2).await;
    assert_eq!(world.store.count(Call::Renew), 1);
    world.store.fail_always(Call::Renew, Fault::Before(ErrorKind::Unavailable));
    // Set right again, the lease is over 30 s after the renewal, and the holder must know.
    world.clock.advance(secs(30));
    assert!(matches!(call.await.unwrap(), Answer::Executed(left) if left.is_zero()));
}

#[tokio::test]
async fn the_holders_wall_clock_does_not_matter() {
    for wall_ms in [0, 9_000_000_000] {
        let world = World::two_clocks();
        let clock = world.clock.clone();
        let answer = world
            .ledger
            .run(&op(), intent(), |attempt| async move {
                clock.set_wall(wall_ms);
                clock.advance(secs(1));
                Ok(attempt.remaining())
            })
            .await
            .unwrap();
        assert_eq!(answer.into_result().unwrap(), secs(29));
    }
}

#[tokio::test]
async fn an_effect_never_begins_after_its_lease() {
    // The answer comes 10 s after the lease has ended: it is renewed before anything runs (G-19).
    let world = World::new();
    world.store.fail(Call::Claim, [Fault::Slow(secs(40))]);
    assert_eq!(left_at_start(&world.ledger).await, LEASE);
    assert_eq!(world.store.count(Call::Renew), 1);
    assert_eq!(world.store.record().attempt_number(), 1);
}

#[tokio::test]
async fn an_effect_whose_lease_was_taken_before_it_began_does_not_run() {
    let world = World::new();
    let ledger = world.policy(|policy| policy.store_timeout = secs(3600));
    let gate = crate::support::Gate::new();
    world.store.fail(Call::Claim, [Fault::GateAfter(gate.clone())]);
    let call = ledger.run_detached(&op(), intent(), |_| async { Ok(1) });
    gate.arrived().await;
    world.clock.advance(LEASE);
    let rival = world.rival_grant(OnLapse::Take).await;
    gate.open();
    let answer = call.await.unwrap();
    assert!(matches!(answer, Answer::InProgress { attempt_number: 2, .. }), "{answer:?}");
    assert_eq!(world.store.record().current.unwrap().id, rival.attempt);

    let world = World::new();
    let ledger = world.policy(|policy| policy.store_timeout = secs(3600));
    let gate = crate::support::Gate::new();
    world.store.fail(Call::Claim, [Fault::GateAfter(gate.clone())]);
    let call = ledger.run_detached(&op(), intent(), |_| async { Ok(1) });
    gate.arrived().await;
    world.clock.advance(LEASE);
    assert!(matches!(world.rival(OnLapse::Park).await, Claimed::Uncertain { .. }));
    gate.open();
    assert!(matches!(call.await.unwrap(), Answer::Uncertain { .. }));
}

#[tokio::test]
async fn a_store_slower_than_the_lease_runs_nothing() {
    let world = World::new();
    let ledger = world.policy(|policy| policy.backoff = Backoff::new(secs(0), secs(0), 3));
    world.store.fail_always(Call::Claim, Fault::Slow(LEASE));
    world.store.fail_always(Call::Renew, Fault::Slow(LEASE));
    let error = ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(world.store.count(Call::Renew), 4);
    world.drained().await;
    assert_eq!(world.store.state(), idem_core::State::Received, "what was granted is given back");
}

#[tokio::test]
async fn the_first_heartbeat_fits_what_remained() {
    // 6 s are left of the lease when the handler begins; a third of a whole lease would be too late.
    let world = World::new();
    world.store.fail(Call::Claim, [Fault::Slow(secs(24))]);
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let call = world.ledger.run_detached(&op(), intent(), |attempt| async move {
        gone.await.unwrap();
        Ok(attempt.remaining())
    });
    world.clock.until_sleepers(1).await;
    world.clock.advance(secs(2));
    world.clock.until_sleepers(1).await;
    assert_eq!(world.store.count(Call::Renew), 1);
    go.send(()).unwrap();
    assert!(matches!(call.await.unwrap(), Answer::Executed(left) if left == LEASE));
}
