//! The ledger on the injected clock, as an application uses it.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;
use std::time::Duration;

use idem_core::clock::ManualClock;
use idem_core::ledger::{Answer, Failure, Ledger};
use idem_core::{Fingerprint, Limits, MemoryStore, OperationId};

fn ledger() -> (Ledger, ManualClock) {
    let clock = ManualClock::at(1_000_000);
    let store = MemoryStore::with(Arc::new(clock.clone()), Limits::default());
    (Ledger::shared(Arc::new(store), Arc::new(clock.clone())), clock)
}

fn op() -> OperationId {
    OperationId::new("acme", "invoice.create/v1", "order-418").unwrap()
}

#[tokio::test]
async fn the_second_caller_gets_the_first_result() {
    let (ledger, _clock) = ledger();
    let intent = Fingerprint::bytes(b"10 EUR");
    let answer = ledger.run(&op(), intent, |attempt| async move { Ok(attempt.number()) }).await.unwrap();
    assert!(matches!(answer, Answer::Executed(1)));
    let answer = ledger.run(&op(), intent, |_| async { Ok(99) }).await.unwrap();
    assert!(matches!(answer, Answer::Replayed(1)));
    let answer = ledger.run(&op(), Fingerprint::bytes(b"11 EUR"), |_| async { Ok(99) }).await.unwrap();
    assert!(matches!(answer, Answer::Conflict));
}

#[tokio::test]
async fn a_failure_is_kept_given_back_or_parked_by_its_class() {
    let (ledger, _clock) = ledger();
    let intent = Fingerprint::bytes(b"10 EUR");
    let answer = ledger
        .run::<u32, _, _>(&op(), intent, |_| async { Err(Failure::no_effect("no route")) })
        .await
        .unwrap();
    assert!(matches!(answer, Answer::Released { .. }));
    let answer = ledger
        .run::<u32, _, _>(&op(), intent, |_| async { Err(Failure::permanent("declined")) })
        .await
        .unwrap();
    assert!(matches!(answer, Answer::Failed { replayed: false, .. }));
    let answer = ledger.run(&op(), intent, |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::Failed { replayed: true, .. }));
    let other = OperationId::new("acme", "invoice.create/v1", "order-419").unwrap();
    let answer = ledger
        .run(&other, intent, |_| async {
            let number: u32 = "x".parse()?;
            Ok(number)
        })
        .await
        .unwrap();
    assert!(matches!(answer, Answer::Parked { .. }));
    let answer = ledger.run(&other, intent, |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::Uncertain { .. }));
}

#[tokio::test]
async fn the_heartbeat_outlives_the_lease_while_the_handler_runs() {
    let (ledger, clock) = ledger();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let task = ledger.run_detached(&op(), Fingerprint::bytes(b""), |attempt| async move {
        let _ = gone.await;
        Ok(attempt.is_live())
    });
    for _ in 0..20 {
        clock.until_sleepers(1).await;
        clock.advance(Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
    go.send(()).unwrap();
    assert!(matches!(task.await.unwrap(), Answer::Executed(true)));
}
