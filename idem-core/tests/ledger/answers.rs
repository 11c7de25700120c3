//! Every answer is reached, and explains itself (G-32, G-50).

use idem_core::ledger::{Answer, Failure, Ledger, Unrecorded};
use idem_core::record::View;
use idem_core::request::{OnLapse, Resolve, Verdict};
use idem_core::{Error, ErrorKind, Fingerprint, Label, Limits, Outcome, Retention, Store, Ttl};

use crate::support::{Call, Fault, LEASE, World, intent, op};

async fn run(ledger: &Ledger, result: Result<u32, Failure>) -> Answer<u32> {
    ledger.run(&op(), intent(), |_| async { result }).await.unwrap()
}

#[tokio::test]
async fn executed_and_replayed() {
    let world = World::new();
    let answer = run(&world.ledger, Ok(1)).await;
    assert_eq!(answer.to_string(), "executed now, and the result is stored");
    let answer = run(&world.ledger, Ok(2)).await;
    assert_eq!(answer.to_string(), "done before: this is the stored result");
    assert_eq!(answer.into_result().unwrap(), 1);
}

#[tokio::test]
async fn failed_now_and_before() {
    let world = World::new();
    let outcome = Outcome::failure("declined").body("no funds").reference("charge 9");
    let answer = run(&world.ledger, Err(Failure::permanent_outcome(outcome, "declined by the bank"))).await;
    assert_eq!(
        answer.to_string(),
        "failed for good now (declined): the failure is stored and is the answer from now on"
    );
    let again = run(&world.ledger, Ok(1)).await;
    assert_eq!(
        again.to_string(),
        "failed for good before (declined): the failure is stored and is the answer from now on"
    );
    match (answer, again) {
        (Answer::Failed { failure: now, .. }, Answer::Failed { failure: before, .. }) => {
            assert_eq!(now, before);
            assert!(!format!("{before:?}").contains("no funds"), "Debug shows no body");
            assert_eq!(before.body.unwrap(), "no funds");
            assert_eq!(before.reference.as_deref(), Some("charge 9"));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn released_and_parked_and_uncertain() {
    let world = World::new();
    let answer = run(&world.ledger, Err(Failure::no_effect("no route"))).await;
    assert_eq!(answer.to_string(), "nothing happened, the same key may run again: no route");
    let answer = run(&world.ledger, Err(Failure::unknown("a time-out"))).await;
    assert_eq!(
        answer.to_string(),
        "nobody knows whether it happened (a time-out): recover or resolve it before running again"
    );
    let answer = run(&world.ledger, Ok(1)).await;
    assert_eq!(
        answer.to_string(),
        "uncertain since 1970-01-01T00:16:40.000Z: recover or resolve it before running again"
    );
    let not_done = answer.into_result().unwrap_err();
    assert!(not_done.to_string().starts_with("uncertain since"));
    assert!(matches!(not_done.answer(), Answer::Uncertain { .. }));
    assert!(matches!(not_done.into_answer(), Answer::Uncertain { .. }));
}

#[tokio::test]
async fn in_progress_and_conflict() {
    let world = World::new();
    world.rival_grant(OnLapse::Park).await;
    let answer = run(&world.ledger, Ok(1)).await;
    assert_eq!(answer.to_string(), "attempt 1 is running it: ask again in 30000 ms");
    let other = Fingerprint::bytes(b"11 EUR");
    let answer = world.ledger.run(&op(), other, |_| async { Ok(1) }).await.unwrap();
    assert_eq!(answer.to_string(), "the key was used for another request: use a new key for a new intent");
}

#[tokio::test]
async fn expired() {
    let world = World::new();
    let ledger =
        world.policy(|policy| policy.retention = Retention::forever().response(Ttl::Millis(0)).unwrap());
    let _ = run(&ledger, Ok(1)).await;
    let answer = run(&ledger, Ok(1)).await;
    assert_eq!(answer.to_string(), "done at 1970-01-01T00:16:40.000Z, and the result is no longer kept");
}

#[tokio::test]
async fn omitted() {
    let clock = idem_core::clock::ManualClock::at(1_000_000);
    let mut limits = Limits::default();
    limits.body_bytes_max = 0;
    let world = World::with(clock.clone(), clock, true, limits);
    let _ = run(&world.ledger, Ok(1)).await;
    let answer = run(&world.ledger, Ok(1)).await;
    assert_eq!(
        answer.to_string(),
        "done at 1970-01-01T00:16:40.000Z, and the result was too large to be kept"
    );

    // An operator who knows that it happened may not have a result to give.
    let world = World::new();
    let _ = run(&world.ledger, Err(Failure::unknown("hm"))).await;
    let verdict = Verdict::Completed { outcome: Outcome::success(), retention: Retention::forever() };
    let (actor, reason) = (Label::new("ada").unwrap(), Label::new("looked").unwrap());
    let resolve = Resolve::new(&world.store.record(), verdict, actor, reason);
    world.store.resolve(&resolve).await.unwrap();
    let answer = run(&world.ledger, Ok(1)).await;
    assert_eq!(answer.to_string(), "done at 1970-01-01T00:16:40.000Z, and it has no result");
}

#[tokio::test]
async fn unrecorded() {
    let world = World::new();
    let clock = world.clock.clone();
    let store = world.store.clone();
    let answer = world
        .ledger
        .run(&op(), intent(), |_| async move {
            clock.advance(LEASE);
            let claim = idem_core::Claim::new(op(), intent(), Label::new("rival")?)
                .intent(idem_core::request::Intent::Run(OnLapse::Take));
            store.inner().claim(&claim).await?;
            Ok(1)
        })
        .await
        .unwrap();
    assert_eq!(
        answer.to_string(),
        "it ran here, but the lease was lost and the operation is running: look at its record"
    );
    assert!(matches!(answer, Answer::Unrecorded { result: Ok(1), why: Unrecorded::Fenced(View::Running) }));

    let world = World::new();
    world.store.fail_always(Call::Complete, Fault::Before(ErrorKind::Corrupt));
    let answer = run(&world.ledger, Ok(1)).await;
    assert_eq!(
        answer.to_string(),
        "it ran here, but the store did not confirm the result (injected before): ask again"
    );

    let conflict: Answer<u32> = Answer::Unrecorded { result: Ok(1), why: Unrecorded::OutcomeConflict };
    assert_eq!(
        conflict.to_string(),
        "it ran here, but the operation is completed with another result, which stays"
    );
}

#[tokio::test]
async fn an_error_is_not_an_answer() {
    let world = World::new();
    world.store.fail_always(Call::Claim, Fault::Before(ErrorKind::Corrupt));
    let error: Error = world.ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "when the store cannot answer nothing is run (G-51)");
}
