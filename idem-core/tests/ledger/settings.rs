//! What a policy says reaches the record: retention, limits, owner, payload (G-24, G-31, G-33, G-40).

use idem_core::answer::Registered;
use idem_core::ledger::{Answer, Failure, Unrecorded};
use idem_core::record::View;
use idem_core::request::{OnLapse, Register};
use idem_core::{
    EffectClass, ErrorKind, Fingerprint, Label, Limits, Omission, Outcome, Retention, State, Ttl,
};

use crate::support::{Call, World, intent, millis, op, secs};

#[tokio::test]
async fn the_retention_of_the_policy_is_carried() {
    let world = World::new();
    let ledger = world.policy(|policy| {
        policy.retention =
            Retention::forgetting_identity(Ttl::Millis(5000), Ttl::Millis(2000), None).unwrap();
        policy.owner = Label::new("worker 7").unwrap();
    });
    let answer = ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::Executed(1)));
    let record = world.store.record();
    let completed_at = record.completed_at.unwrap();
    assert_eq!(record.response_until, Some(completed_at.plus_millis(2000)));
    assert_eq!(record.identity_until, Some(completed_at.plus_millis(5000)));
    assert_eq!(record.current.unwrap().owner.as_str(), "worker 7");

    world.clock.advance(millis(1999));
    assert!(matches!(ledger.run(&op(), intent(), |_| async { Ok(2) }).await.unwrap(), Answer::Replayed(1)));
    world.clock.advance(millis(1));
    match ledger.run(&op(), intent(), |_| async { Ok(2) }).await.unwrap() {
        Answer::Expired(expired) => assert_eq!(expired.completed_at, completed_at),
        other => panic!("{other:?}"),
    }
    world.clock.advance(millis(3000));
    let answer = ledger.run(&op(), Fingerprint::bytes(b"11 EUR"), |_| async { Ok(3) }).await.unwrap();
    assert!(matches!(answer, Answer::Executed(3)), "the identity is over, so it is a new operation");
}

#[tokio::test]
async fn a_response_that_is_not_kept_answers_expired() {
    let world = World::new();
    let ledger =
        world.policy(|policy| policy.retention = Retention::forever().response(Ttl::Millis(0)).unwrap());
    assert!(matches!(ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap(), Answer::Executed(1)));
    assert!(matches!(ledger.run(&op(), intent(), |_| async { Ok(2) }).await.unwrap(), Answer::Expired(_)));
    assert!(world.store.record().outcome.unwrap().body().is_none(), "never stored");
}

#[tokio::test]
async fn a_result_that_is_too_large_is_executed_once_and_omitted_afterwards() {
    let clock = idem_core::clock::ManualClock::at(1_000_000);
    let mut limits = Limits::default();
    limits.body_bytes_max = 10;
    let world = World::with(clock.clone(), clock, true, limits);
    let long = || async { Ok("x".repeat(9)) };
    assert!(matches!(world.ledger.run(&op(), intent(), |_| long()).await.unwrap(), Answer::Executed(_)));
    match world.ledger.run(&op(), intent(), |_| long()).await.unwrap() {
        Answer::Omitted { outcome, .. } => {
            assert_eq!(outcome.omission(), Some(Omission::TooLarge));
            assert!(outcome.digest.is_some());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_failure_whose_body_is_not_kept_says_so() {
    let clock = idem_core::clock::ManualClock::at(1_000_000);
    let mut limits = Limits::default();
    limits.body_bytes_max = 10;
    let world = World::with(clock.clone(), clock, true, limits);
    let outcome = || Outcome::failure("declined").body("x".repeat(11));
    let call = |_| async { Err::<u32, _>(Failure::permanent_outcome(outcome(), "declined")) };
    for omission in [None, Some(Omission::TooLarge)] {
        let answer = world.ledger.run(&op(), intent(), call).await.unwrap();
        let Answer::Failed { failure, .. } = answer else { panic!("{answer:?}") };
        assert_eq!((failure.body.is_none(), failure.omission), (omission.is_some(), omission));
    }
}

#[tokio::test]
async fn times_without_end_are_times_too() {
    let world = World::new();
    world.clock.advance(millis(1));
    let ledger = world.policy(|policy| {
        policy.wait = std::time::Duration::MAX;
        policy.ceiling = std::time::Duration::MAX;
    });
    let answer = ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::Executed(1)));
    let running = ledger.run_detached(&op(), intent(), |_| async { Ok(2) });
    assert!(ledger.drain(std::time::Duration::MAX).await);
    assert!(matches!(running.await, Ok(Answer::Replayed(1)) | Err(_)));
}

#[tokio::test]
async fn a_value_that_json_cannot_hold_is_executed_once() {
    let world = World::new();
    let handler = |_| async { Ok(std::collections::BTreeMap::from([((1, 2), 3)])) };
    let first = world.ledger.run(&op(), intent(), handler).await.unwrap();
    assert!(
        matches!(&first, Answer::Unrecorded { result: Ok(map), why: Unrecorded::Unreadable(error) }
            if map.len() == 1 && error.kind() == ErrorKind::InvalidInput),
        "{first:?}"
    );
    assert!(matches!(world.ledger.run(&op(), intent(), handler).await.unwrap(), Answer::Omitted { .. }));
}

#[tokio::test]
async fn a_result_of_another_type_is_corrupt_and_stays() {
    let world = World::new();
    assert!(world.ledger.run(&op(), intent(), |_| async { Ok("text".to_owned()) }).await.is_ok());
    let error = world.ledger.run(&op(), intent(), |_| async { Ok(1_u32) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(!format!("{error} {error:?}").contains("text"), "an error quotes no body: {error:?}");
    assert_eq!(world.store.state(), State::Completed);
}

#[tokio::test]
async fn a_forgotten_release_lets_a_corrected_request_use_the_key() {
    let world = World::new();
    let answer = world
        .ledger
        .run::<u32, _, _>(&op(), intent(), |_| async { Err(Failure::no_effect_forget("no such customer")) })
        .await
        .unwrap();
    assert!(matches!(answer, Answer::Released { .. }));
    assert_eq!(world.store.record().fingerprint, None);
    let corrected = Fingerprint::bytes(b"11 EUR");
    let answer = world.ledger.run(&op(), corrected, |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::Executed(1)));
    let answer = world.ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::Conflict));
}

#[tokio::test]
async fn a_release_without_forgetting_keeps_the_fingerprint() {
    let world = World::new();
    let failing = |_| async { Err::<u32, _>(Failure::no_effect("no route")) };
    assert!(matches!(world.ledger.run(&op(), intent(), failing).await.unwrap(), Answer::Released { .. }));
    let corrected = Fingerprint::bytes(b"11 EUR");
    assert!(matches!(world.ledger.run(&op(), corrected, failing).await.unwrap(), Answer::Conflict));
}

#[tokio::test]
async fn a_run_of_a_registered_operation_gets_its_payload() {
    let world = World::new();
    let register = Register::new(op(), intent()).payload("what to do");
    assert_eq!(world.ledger.register(&register).await.unwrap(), Registered::Created);
    let exists = Registered::Exists { view: View::Received };
    assert_eq!(world.ledger.register(&register).await.unwrap(), exists);
    let handler = |attempt: idem_core::ledger::Attempt| async move {
        Ok(String::from_utf8(attempt.payload().unwrap().to_vec())?)
    };
    let answer = world.ledger.run(&op(), intent(), handler).await.unwrap();
    assert_eq!(answer.into_result().unwrap(), "what to do");
    assert_eq!(world.ledger.register(&register).await.unwrap(), Registered::Exists { view: View::Completed });
    let other = Register::new(op(), Fingerprint::bytes(b"11 EUR"));
    assert_eq!(world.ledger.register(&other).await.unwrap(), Registered::Conflict);
}

#[tokio::test]
async fn a_takeover_beyond_the_limit_of_attempts_parks() {
    let world = World::new();
    let ledger = world.policy(|policy| {
        policy.effect = EffectClass::Keyed { remembers_for_ms: 3_600_000 };
        policy.attempts_max = Some(1);
    });
    world.lapsed(&ledger).await;
    let answer = ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::Uncertain { .. }));
}

#[tokio::test]
async fn the_class_local_is_refused_before_anything_runs() {
    let world = World::new();
    let ledger = world.policy(|policy| policy.effect = EffectClass::Local);
    let error = ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(world.store.inner().is_empty());
}

#[tokio::test]
async fn each_step_takes_one_trip() {
    let world = World::new();
    let handler = |_| async { Ok(1) };
    assert!(matches!(world.ledger.run(&op(), intent(), handler).await.unwrap(), Answer::Executed(1)));
    assert_eq!((world.store.count(Call::Claim), world.store.count(Call::Complete)), (1, 1));
    assert!(matches!(world.ledger.run(&op(), intent(), handler).await.unwrap(), Answer::Replayed(1)));
    assert_eq!((world.store.count(Call::Claim), world.store.count(Call::Complete)), (2, 1));
    world.rival(OnLapse::Park).await;
    for call in [Call::Renew, Call::Release, Call::Park, Call::Checkpoint] {
        assert_eq!(world.store.count(call), 0);
    }
    world.clock.advance(secs(1));
}
