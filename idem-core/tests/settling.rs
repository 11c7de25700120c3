//! The level below `Ledger::run`, as a caller uses it that settles by itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says where")]

use std::sync::Arc;
use std::time::Duration;

use idem_core::answer::{Completed, Released};
use idem_core::clock::ManualClock;
use idem_core::ledger::{Begin, Ledger, NotRun, Policy};
use idem_core::record::AbsenceReason;
use idem_core::request::{Intent, OnLapse};
use idem_core::{Content, Fingerprint, Limits, MemoryStore, Omission, OperationId, Outcome};

fn ledger(policy: Policy) -> (Ledger, ManualClock) {
    let clock = ManualClock::at(1_000_000);
    let store = MemoryStore::with(Arc::new(clock.clone()), Limits::default());
    (Ledger::shared(Arc::new(store), Arc::new(clock.clone())).with(policy), clock)
}

fn op() -> OperationId {
    OperationId::new("acme", "invoice.create/v1", "order-418").unwrap()
}

async fn begin(ledger: &Ledger) -> Begin {
    ledger.claim(&op(), Fingerprint::bytes(b""), Intent::Run(OnLapse::Take)).await.unwrap()
}

#[tokio::test]
async fn a_content_that_was_never_held_is_answered_with_its_length() {
    let (ledger, _clock) = ledger(Policy::default());
    let Begin::Execute(granted) = begin(&ledger).await else { panic!("granted") };
    let settled = granted.start().complete(Outcome::success().too_large(1 << 40, [7; 32])).await.unwrap();
    assert!(matches!(settled, Completed::Completed { body_omitted: true, .. }));
    let Begin::NotRun(NotRun::Replay(replay)) = begin(&ledger).await else { panic!("replayed") };
    let length = Content::Omitted { content_bytes: 1 << 40, why: Omission::TooLarge };
    assert_eq!(replay.outcome.content, length);
}

#[tokio::test]
async fn a_resumed_effect_without_result_is_given_back_with_a_reason_only() {
    let (ledger, clock) = ledger(Policy::keyed(Duration::from_secs(3600)));
    let Begin::Execute(granted) = begin(&ledger).await else { panic!("granted") };
    drop(granted.start());
    clock.advance(Duration::from_secs(30));
    let Begin::Recover(recovery) = begin(&ledger).await else { panic!("recovered") };
    let Ok(hold) = recovery.resume() else { panic!("resumed") };
    assert!(matches!(
        hold.release_because(AbsenceReason::Deduplicated).await.unwrap(),
        Released::Released { forgotten: false }
    ));
    assert!(matches!(begin(&ledger).await, Begin::Execute(_)), "the same key runs again");
}
