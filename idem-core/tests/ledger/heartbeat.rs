//! The lease of a handler that runs: kept alive, let go at the ceiling, lost to somebody else (G-13, G-15).

use idem_core::Claim;
use idem_core::answer::Claimed;
use idem_core::ledger::{Answer, Unrecorded};
use idem_core::record::View;
use idem_core::request::OnLapse;
use tokio::sync::oneshot;

use crate::support::{Call, Fault, World, intent, op, secs};

#[tokio::test]
async fn a_long_handler_keeps_its_lease() {
    let world = World::new();
    let (go, gone) = oneshot::channel::<()>();
    let task = world.ledger.run_detached(&op(), intent(), |attempt| async move {
        gone.await.unwrap();
        Ok(attempt.is_live())
    });
    for beat in 1..=20 {
        world.clock.until_sleepers(1).await;
        world.clock.advance(secs(10));
        world.clock.until_sleepers(1).await;
        assert_eq!(world.store.count(Call::Renew), beat, "one renewal after each third of the lease");
        assert!(matches!(world.rival(OnLapse::Take).await, Claimed::InProgress { .. }));
    }
    go.send(()).unwrap();
    assert!(matches!(task.await.unwrap(), Answer::Executed(true)));
}

#[tokio::test]
async fn the_ceiling_lets_a_hung_handler_lapse_and_tells_it() {
    let world = World::new();
    let ledger = world.policy(|policy| policy.ceiling = secs(25));
    let (go, gone) = oneshot::channel::<()>();
    let clock = world.clock.clone();
    let task = ledger.run_detached(&op(), intent(), move |attempt| async move {
        assert!(attempt.is_live());
        attempt.lost().await;
        assert!(!attempt.is_live());
        let lost_at = idem_core::clock::Clock::elapsed(&clock);
        gone.await.unwrap();
        Ok(lost_at.as_secs())
    });
    // The heartbeat renews at 10 and 20 s; at 30 s it is beyond the ceiling, so the lease ends at 50 s.
    for _ in 0..2 {
        world.clock.until_sleepers(2).await;
        world.clock.advance(secs(10));
    }
    world.clock.until_sleepers(2).await;
    world.clock.advance(secs(10));
    world.clock.until_sleepers(1).await;
    assert_eq!(world.store.count(Call::Renew), 2);
    world.clock.advance(secs(20) - std::time::Duration::from_millis(1));
    tokio::task::yield_now().await;
    assert!(matches!(world.rival(OnLapse::Take).await, Claimed::InProgress { retry_after_ms: 1, .. }));
    world.clock.advance(std::time::Duration::from_millis(1));
    assert!(matches!(world.rival(OnLapse::Park).await, Claimed::Uncertain { .. }));
    go.send(()).unwrap();
    // Parked, the holder may still complete (G-15).
    assert!(matches!(task.await.unwrap(), Answer::Executed(50)));
}

#[tokio::test]
async fn a_fenced_attempt_learns_it_at_its_next_renewal() {
    let world = World::two_clocks();
    let (told, tell) = oneshot::channel();
    let (go, gone) = oneshot::channel::<()>();
    let task = world.ledger.run_detached(&op(), intent(), |attempt| async move {
        attempt.lost().await;
        told.send(attempt.remaining()).unwrap();
        gone.await.unwrap();
        Ok(7)
    });
    // The two sleeps are the heartbeat's, and that of `lost`.
    world.clock.until_sleepers(2).await;
    // The deciding clock is set forward: by it the lease is over, by the holder's own it is not.
    world.deciding.advance(secs(30));
    let rival = world.rival_grant(OnLapse::Take).await;
    assert_eq!(rival.number, 2);
    world.clock.advance(secs(10));
    assert_eq!(tell.await.unwrap(), secs(0), "a lost attempt has nothing left, whatever its own clock says");
    go.send(()).unwrap();
    let answer = task.await.unwrap();
    assert!(
        matches!(answer, Answer::Unrecorded { result: Ok(7), why: Unrecorded::Fenced(View::Running) }),
        "{answer:?}"
    );
    let record = world.store.record();
    assert_eq!(record.current.unwrap().id, rival.attempt, "the new holder's record is as it was");
    assert!(record.outcome.is_none());
}

#[tokio::test]
async fn a_parked_attempt_learns_it_at_its_next_renewal() {
    let world = World::two_clocks();
    let task = world.ledger.run_detached(&op(), intent(), |attempt| async move {
        attempt.lost().await;
        Ok(1)
    });
    world.clock.until_sleepers(2).await;
    world.deciding.advance(secs(30));
    assert!(matches!(world.rival(OnLapse::Park).await, Claimed::Uncertain { .. }));
    world.clock.advance(secs(10));
    assert!(matches!(task.await.unwrap(), Answer::Executed(1)), "complete counts while U (G-15)");
}

#[tokio::test]
async fn a_lost_renewal_is_repeated_before_the_lease_ends() {
    let world = World::new();
    world.store.fail(
        Call::Renew,
        [
            Fault::Before(idem_core::ErrorKind::Unavailable),
            Fault::After(idem_core::ErrorKind::Indeterminate),
            Fault::Before(idem_core::ErrorKind::Internal),
        ],
    );
    let (go, gone) = oneshot::channel::<()>();
    let task = world.ledger.run_detached(&op(), intent(), |attempt| async move {
        gone.await.unwrap();
        Ok(attempt.remaining().as_millis())
    });
    // 10 s, and three times a twelfth of 30 s: the fourth try at 17.5 s is heard.
    for pause_ms in [10_000, 2_500, 2_500, 2_500] {
        world.clock.until_sleepers(1).await;
        world.clock.advance(std::time::Duration::from_millis(pause_ms));
    }
    world.clock.until_sleepers(1).await;
    assert_eq!(world.store.count(Call::Renew), 4);
    go.send(()).unwrap();
    assert!(matches!(task.await.unwrap(), Answer::Executed(30_000)));
}

#[tokio::test]
async fn a_checkpoint_renews_and_tells_a_lost_attempt() {
    let world = World::new();
    let clock = world.clock.clone();
    let store = world.store.clone();
    let answer = world
        .ledger
        .run(&op(), intent(), |attempt| async move {
            clock.advance(secs(29));
            attempt.checkpoint("sent", "1").await?;
            assert_eq!(attempt.remaining(), secs(30));
            clock.advance(secs(30));
            // Nobody has taken over, so a lapse alone ends nothing (G-15).
            assert!(!attempt.is_live());
            attempt.checkpoint("sent", "1").await?;
            assert!(attempt.is_live());
            clock.advance(secs(30));
            let rival = Claim::new(op(), intent(), idem_core::Label::new("rival")?)
                .intent(idem_core::request::Intent::Run(OnLapse::Take));
            idem_core::Store::claim(store.inner(), &rival).await?;
            attempt.checkpoint("more", "2").await?;
            assert!(!attempt.is_live());
            attempt.lost().await;
            Ok(())
        })
        .await
        .unwrap();
    assert!(matches!(answer, Answer::Unrecorded { why: Unrecorded::Fenced(View::Running), .. }));
    assert_eq!(world.store.record().checkpoints.len(), 1);
}
