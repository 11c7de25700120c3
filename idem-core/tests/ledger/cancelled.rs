//! A caller that goes away at any point (G-15, G-53).

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use idem_core::answer::Claimed;
use idem_core::ledger::{Answer, Begin, Verdict};
use idem_core::record::Ending;
use idem_core::request::{Intent, OnLapse};
use idem_core::{ErrorKind, State};

use crate::support::{Call, Fault, Gate, LEASE, World, intent, op, secs};

fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_claim_that_is_still_queued_is_skipped() {
    let world = World::new();
    let gate = Gate::new();
    world.store.fail(Call::Claim, [Fault::GateBefore(gate.clone())]);
    {
        let id = op();
        let call = world.ledger.run(&id, intent(), |_| async { Ok(1) });
        assert!(poll_once(pin!(call)).is_pending());
        gate.arrived().await;
    }
    world.drained().await;
    assert!(world.store.inner().is_empty());
}

#[tokio::test]
async fn a_grant_that_was_not_delivered_is_given_back() {
    let world = World::new();
    let gate = Gate::new();
    world.store.fail(Call::Claim, [Fault::GateAfter(gate.clone())]);
    {
        let id = op();
        let call = world.ledger.run(&id, intent(), |_| async { Ok(1) });
        assert!(poll_once(pin!(call)).is_pending());
        gate.arrived().await;
        assert_eq!(world.store.state(), State::Processing);
    }
    world.drained().await;
    assert_eq!(world.store.state(), State::Received);
    assert_eq!(world.store.attempts(Call::Release), world.store.attempts(Call::Claim));
    assert_eq!(world.rival_grant(OnLapse::Park).await.number, 2);
}

#[tokio::test]
async fn a_grant_that_was_not_answered_is_given_back_when_the_caller_stops_asking() {
    let world = World::new();
    world.store.fail(Call::Claim, [Fault::After(ErrorKind::Indeterminate)]);
    // The give-back is best effort, not a single shot.
    world.store.fail(Call::Release, [Fault::Before(ErrorKind::Unavailable)]);
    {
        let id = op();
        let call = world.ledger.run(&id, intent(), |_| async { Ok(1) });
        let mut call = pin!(call);
        // It pauses before it repeats the claim.
        assert!(poll_once(call.as_mut()).is_pending());
        world.clock.until_sleepers(1).await;
        assert_eq!(world.store.state(), State::Processing);
    }
    let ledger = world.ledger.clone();
    let drained = tokio::spawn(async move { ledger.drain(secs(1)).await });
    world.clock.until_sleepers(2).await;
    world.clock.advance(idem_core::backoff::Backoff::default().cap / 2);
    assert!(drained.await.unwrap());
    assert_eq!(world.store.state(), State::Received);
    assert_eq!(world.store.count(Call::Release), 2);
}

#[tokio::test]
async fn a_grant_dropped_before_its_handler_started_is_given_back() {
    let world = World::new();
    let begun = world.ledger.claim(&op(), intent(), Intent::Run(OnLapse::Park)).await.unwrap();
    assert!(matches!(begun, Begin::Execute(_)));
    drop(begun);
    world.drained().await;
    let record = world.store.record();
    assert_eq!(record.state, State::Received);
    assert_eq!(record.current.unwrap().ended.unwrap().1, Ending::Released);
}

#[test]
fn a_grant_dropped_outside_of_a_runtime_lapses() {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let begun = runtime.block_on(world.ledger.claim(&op(), intent(), Intent::Run(OnLapse::Park))).unwrap();
    drop(runtime);
    drop(begun);
    assert_eq!(world.store.state(), State::Processing);
}

/// Drops a caller in the middle of its handler, and gives the downstream key that the handler saw.
async fn cut_in_the_middle(world: &World, ledger: &idem_core::ledger::Ledger) -> idem_core::DownstreamKey {
    let (told, tell) = tokio::sync::oneshot::channel();
    {
        let id = op();
        let call = ledger.run::<u32, _, _>(&id, intent(), |attempt| async move {
            attempt.checkpoint("sent", "charge 9").await?;
            told.send(attempt.downstream_key()).unwrap();
            std::future::pending().await
        });
        assert!(poll_once(pin!(call)).is_pending());
    }
    // Whatever it left in the background runs now; nothing of it may touch the record.
    tokio::task::yield_now().await;
    let record = world.store.record();
    assert_eq!(
        (record.state, record.version),
        (State::Processing, 2),
        "claim and checkpoint, and nothing else"
    );
    for call in [Call::Release, Call::Park, Call::Complete] {
        assert_eq!(world.store.count(call), 0);
    }
    assert!(matches!(world.rival(OnLapse::Park).await, Claimed::InProgress { .. }));
    world.clock.advance(LEASE);
    tell.await.unwrap()
}

#[tokio::test]
async fn an_opaque_effect_cut_in_the_middle_is_parked_by_the_next_call() {
    let world = World::new();
    cut_in_the_middle(&world, &world.ledger).await;
    let answer = world.ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::Uncertain { .. }));
    assert_eq!(world.store.record().attempt_number(), 1, "nobody was granted");
}

#[tokio::test]
async fn a_keyed_effect_cut_in_the_middle_is_run_again_with_the_same_downstream_key() {
    let world = World::new();
    let ledger = world.keyed(secs(3600));
    let first = cut_in_the_middle(&world, &ledger).await;
    let answer = ledger
        .run(&op(), intent(), |attempt| async move {
            assert_eq!(attempt.mode(), idem_core::Mode::Recover);
            assert_eq!(attempt.earlier().len(), 1);
            Ok(attempt.downstream_key().to_string())
        })
        .await
        .unwrap();
    assert_eq!(answer.into_result().unwrap(), first.to_string());
}

#[tokio::test]
async fn an_effect_cut_in_the_middle_is_reconciled_by_its_evidence() {
    let world = World::new();
    let first = cut_in_the_middle(&world, &world.ledger).await;
    let answer = world
        .ledger
        .call(&op(), intent())
        .reconcile(|recovery| async move {
            assert_eq!(recovery.downstream_key(), first);
            assert_eq!(recovery.earlier()[0].ended.unwrap().1, Ending::Lapsed);
            let fact = &recovery.checkpoints()[0];
            assert_eq!((fact.name.as_str(), &fact.value[..]), ("sent", &b"charge 9"[..]));
            Ok(Verdict::Happened(9))
        })
        .run(|_| async { panic!("it happened, so it is not run") })
        .await
        .unwrap();
    assert!(matches!(answer, Answer::Replayed(9)));
    let again = world.ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(again, Answer::Replayed(9)));
}

#[tokio::test]
async fn a_caller_dropped_while_it_completes_gives_nothing_back() {
    let world = World::new();
    let gate = Gate::new();
    world.store.fail(Call::Complete, [Fault::GateBefore(gate.clone())]);
    {
        let id = op();
        let call = world.ledger.run(&id, intent(), |_| async { Ok(1) });
        assert!(poll_once(pin!(call)).is_pending());
        gate.arrived().await;
    }
    world.drained().await;
    assert_eq!(
        world.store.state(),
        State::Processing,
        "it may have been stored, so it is not released (G-16)"
    );
    assert_eq!(world.store.count(Call::Release), 0);
}
