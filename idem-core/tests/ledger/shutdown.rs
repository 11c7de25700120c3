//! Detached calls and the drain at shutdown.

use idem_core::ledger::Answer;
use idem_core::{ErrorKind, OperationId, State};
use tokio::sync::oneshot;

use crate::support::{Call, Fault, Gate, World, intent, op, secs};

#[tokio::test]
async fn a_detached_run_ends_although_its_caller_went_away() {
    let world = World::new();
    let (go, gone) = oneshot::channel::<()>();
    let (started, start) = oneshot::channel();
    let call = world.ledger.run_detached(&op(), intent(), |_| async move {
        started.send(()).unwrap();
        gone.await.unwrap();
        Ok(7)
    });
    start.await.unwrap();
    drop(call);
    go.send(()).unwrap();
    assert!(world.ledger.drain(secs(60)).await);
    assert_eq!(world.store.state(), State::Completed);
}

#[tokio::test]
async fn a_drain_waits_for_what_runs_and_refuses_what_is_new() {
    let world = World::new();
    let (go, gone) = oneshot::channel::<()>();
    let (started, start) = oneshot::channel();
    let running = world.ledger.run_detached(&op(), intent(), |_| async move {
        started.send(()).unwrap();
        gone.await.unwrap();
        Ok(7)
    });
    start.await.unwrap();
    let ledger = world.ledger.clone();
    let drain = tokio::spawn(async move { ledger.drain(secs(60)).await });
    // The heartbeat of what runs, and the patience of the drain.
    world.clock.until_sleepers(2).await;

    let other = OperationId::new("acme", "invoice.create/v1", "order-419").unwrap();
    let refused = world.ledger.run(&other, intent(), |_| async { Ok(1) }).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    let refused = world.ledger.clone().run_detached(&other, intent(), |_| async { Ok(1) }).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable);
    assert!(world.store.inner().stored(&other).is_none());

    assert!(!drain.is_finished(), "it waits for what runs");
    go.send(()).unwrap();
    assert!(drain.await.unwrap());
    assert!(matches!(running.await.unwrap(), Answer::Executed(7)));
}

#[tokio::test]
async fn a_drain_gives_up_after_its_patience() {
    let world = World::new();
    let (go, gone) = oneshot::channel::<()>();
    let running = world.ledger.run_detached(&op(), intent(), |_| async move {
        gone.await.unwrap();
        Ok(7)
    });
    let ledger = world.ledger.clone();
    let drain = tokio::spawn(async move { ledger.drain(secs(5)).await });
    world.clock.until_sleepers(2).await;
    world.clock.advance(secs(5));
    assert!(!drain.await.unwrap());
    go.send(()).unwrap();
    assert!(matches!(running.await.unwrap(), Answer::Executed(7)), "what has not ended keeps running");
    assert!(world.ledger.drain(secs(5)).await, "a second drain sees that it has");
}

#[tokio::test]
async fn a_drain_ends_the_waits_for_running_duplicates() {
    let world = World::new();
    let ledger = world.policy(|policy| policy.wait = secs(600));
    // The holder is another process: it is not ours to wait for.
    world.rival_grant(idem_core::request::OnLapse::Park).await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(ledger.run_detached(&op(), intent(), |_| async { Ok(1) }));
    }
    world.clock.until_sleepers(2).await;
    assert!(world.ledger.drain(secs(1)).await);
    for call in waiting {
        assert!(matches!(call.await.unwrap(), Answer::InProgress { attempt_number: 1, .. }));
    }
}

#[tokio::test]
async fn a_drain_waits_for_what_is_being_given_back() {
    let world = World::new();
    let gate = Gate::new();
    world.store.fail(Call::Release, [Fault::GateBefore(gate.clone())]);
    let intent_to_run = idem_core::request::Intent::Run(idem_core::request::OnLapse::Park);
    drop(world.ledger.claim(&op(), intent(), intent_to_run).await.unwrap());
    gate.arrived().await;
    let ledger = world.ledger.clone();
    let drain = tokio::spawn(async move { ledger.drain(secs(5)).await });
    world.clock.until_sleepers(1).await;
    assert!(!drain.is_finished());
    gate.open();
    assert!(drain.await.unwrap());
    assert_eq!(world.store.state(), State::Received);
}
