//! A store that is away or does not say: repeated, bounded, with the same attempt id (G-12, G-16, G-52).

use std::collections::HashSet;

use idem_core::answer::Registered;
use idem_core::backoff::Backoff;
use idem_core::ledger::{Answer, Failure, Ledger, Unrecorded};
use idem_core::record::View;
use idem_core::request::{OnLapse, Register, Resolve, Verdict};
use idem_core::{ErrorKind, Fingerprint, Label, Outcome, Result, Retention, State, Store};
use tokio::task::JoinHandle;

use crate::support::{Call, Fault, LEASE, World, intent, millis, op, secs};

const FAULTS: [Fault; 3] = [
    Fault::Before(ErrorKind::Unavailable),
    Fault::Before(ErrorKind::Indeterminate),
    Fault::After(ErrorKind::Indeterminate),
];

fn start(ledger: &Ledger) -> JoinHandle<Result<Answer<u32>>> {
    let ledger = ledger.clone();
    tokio::spawn(
        async move { ledger.run(&op(), intent(), |attempt| async move { Ok(attempt.number()) }).await },
    )
}

/// Moves the clock until the task has ended.
async fn ended<T>(world: &World, task: JoinHandle<T>) -> T {
    while !task.is_finished() {
        if world.clock.sleepers() > 0 {
            world.clock.advance(millis(5));
        }
        tokio::task::yield_now().await;
    }
    task.await.unwrap()
}

fn one_attempt(world: &World, call: Call) {
    let ids: HashSet<_> = world.store.attempts(call).into_iter().collect();
    assert_eq!(ids.len(), 1, "the same attempt id on every repetition of {call:?}");
}

#[tokio::test]
async fn a_claim_is_repeated_under_its_attempt_id_and_run_once() {
    // Every order of three faults, before and after application.
    for first in &FAULTS {
        for second in &FAULTS {
            for third in &FAULTS {
                let world = World::new();
                world.store.fail(Call::Claim, [first.clone(), second.clone(), third.clone()]);
                let answer = ended(&world, start(&world.ledger)).await.unwrap();
                assert!(matches!(answer, Answer::Executed(1)), "{answer:?}");
                assert_eq!(world.store.count(Call::Claim), 4);
                one_attempt(&world, Call::Claim);
                assert_eq!(world.store.record().attempt_number(), 1);
            }
        }
    }
}

#[tokio::test]
async fn a_store_that_stays_away_is_given_up_and_nothing_is_run() {
    let world = World::new();
    world.store.fail_always(Call::Claim, Fault::Before(ErrorKind::Unavailable));
    let error = ended(&world, start(&world.ledger)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(world.store.count(Call::Claim), 1 + 5, "bounded by the policy");
    one_attempt(&world, Call::Claim);
    world.drained().await;
    assert_eq!(world.store.count(Call::Release), 0, "certainly nothing was applied");
    assert!(world.store.inner().is_empty());
}

#[tokio::test]
async fn a_doubt_is_not_taken_back_by_a_later_certainty() {
    // The first send was applied without an answer; that the later ones were not says nothing about it.
    let world = World::new();
    world.store.fail(Call::Claim, [Fault::After(ErrorKind::Indeterminate)]);
    world.store.fail_always(Call::Claim, Fault::Before(ErrorKind::Unavailable));
    let error = ended(&world, start(&world.ledger)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    world.drained().await;
    assert_eq!(world.store.state(), State::Received, "what may hold a lease is given back");

    let world = World::new();
    world.store.fail(Call::Complete, [Fault::After(ErrorKind::Indeterminate)]);
    world.store.fail_always(Call::Complete, Fault::Before(ErrorKind::Unavailable));
    match ended(&world, start(&world.ledger)).await.unwrap() {
        Answer::Unrecorded { result: Ok(1), why: Unrecorded::Store(error) } => {
            assert_eq!(error.kind(), ErrorKind::Indeterminate);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store.state(), State::Completed);
}

#[tokio::test]
async fn no_kind_of_certainty_takes_a_doubt_back() {
    for kind in
        [ErrorKind::InvalidInput, ErrorKind::Configuration, ErrorKind::Unsupported, ErrorKind::Corrupt]
    {
        let world = World::new();
        world.store.fail(Call::Claim, [Fault::After(ErrorKind::Indeterminate), Fault::Before(kind)]);
        let error = ended(&world, start(&world.ledger)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{kind:?} says that nothing was stored");
    }
}

#[tokio::test]
async fn an_internal_error_of_a_claim_leaves_it_in_doubt() {
    let world = World::new();
    world.store.fail(Call::Claim, [Fault::After(ErrorKind::Internal)]);
    let error = ended(&world, start(&world.ledger)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(world.store.count(Call::Claim), 1, "a defect is not repeated");
    world.drained().await;
    assert_eq!(world.store.state(), State::Received);
}

#[tokio::test]
async fn what_is_certainly_wrong_is_not_repeated() {
    for kind in
        [ErrorKind::InvalidInput, ErrorKind::Configuration, ErrorKind::Unsupported, ErrorKind::Corrupt]
    {
        let world = World::new();
        world.store.fail_always(Call::Claim, Fault::Before(kind));
        let error = ended(&world, start(&world.ledger)).await.unwrap_err();
        assert_eq!((error.kind(), world.store.count(Call::Claim)), (kind, 1));
    }
}

#[tokio::test]
async fn a_conflict_is_never_repeated() {
    let world = World::new();
    let _ = ended(&world, start(&world.ledger)).await.unwrap();
    let before = world.store.count(Call::Claim);
    let ledger = world.policy(|policy| policy.wait = secs(60));
    let answer = ledger.run(&op(), Fingerprint::bytes(b"11 EUR"), |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(answer, Answer::Conflict));
    assert_eq!(world.store.count(Call::Claim), before + 1);
    let register = Register::new(op(), Fingerprint::bytes(b"11 EUR"));
    assert_eq!(ledger.register(&register).await.unwrap(), Registered::Conflict);
    assert_eq!(world.store.count(Call::Register), 1);
}

#[tokio::test]
async fn a_completion_is_repeated_as_the_same_one() {
    for first in &FAULTS {
        for second in &FAULTS {
            let world = World::new();
            world.store.fail(Call::Complete, [first.clone(), second.clone()]);
            let answer = ended(&world, start(&world.ledger)).await.unwrap();
            assert!(
                matches!(answer, Answer::Executed(1)),
                "AlreadyCompleted is as good as Completed: {answer:?}"
            );
            assert_eq!(world.store.count(Call::Complete), 3);
            one_attempt(&world, Call::Complete);
        }
    }
}

#[tokio::test]
async fn a_completion_is_repeated_until_the_lease_ends_and_never_becomes_a_release() {
    let world = World::new();
    let ledger = world.policy(|policy| policy.backoff = Backoff::new(millis(10), secs(1), 2));
    world.store.fail_always(Call::Complete, Fault::Before(ErrorKind::Unavailable));
    match ended(&world, start(&ledger)).await.unwrap() {
        Answer::Unrecorded { result: Ok(1), why: Unrecorded::Store(error) } => {
            assert_eq!(error.kind(), ErrorKind::Unavailable);
        }
        other => panic!("{other:?}"),
    }
    let elapsed = world.elapsed();
    assert!(elapsed >= LEASE && elapsed < LEASE + secs(2), "{elapsed:?}");
    // Pauses grow to the policy's longest, so 30 s take some 60 of them and not thousands.
    let sends = world.store.count(Call::Complete);
    assert!((20..300).contains(&sends), "{sends}");
    world.drained().await;
    assert_eq!((world.store.count(Call::Release), world.store.count(Call::Park)), (0, 0));
    assert_eq!(world.store.state(), State::Processing);
}

#[tokio::test]
async fn a_completion_beyond_the_lease_is_still_tried_as_often_as_the_policy_says() {
    let world = World::new();
    world.store.fail_always(Call::Complete, Fault::Before(ErrorKind::Unavailable));
    let clock = world.clock.clone();
    let ledger = world.ledger.clone();
    let task = tokio::spawn(async move {
        let handler = |_| async move {
            clock.advance(LEASE);
            Ok(1)
        };
        ledger.run(&op(), intent(), handler).await
    });
    let answer = ended(&world, task).await.unwrap();
    assert!(matches!(answer, Answer::Unrecorded { .. }));
    assert_eq!(world.store.count(Call::Complete), 1 + 5);
}

#[tokio::test]
async fn releases_and_parkings_are_repeated_too() {
    for (call, failure) in [(Call::Release, true), (Call::Park, false)] {
        for fault in &FAULTS {
            let world = World::new();
            world.store.fail(call, [fault.clone(), fault.clone()]);
            let ledger = world.ledger.clone();
            let task = tokio::spawn(async move {
                let handler = |_| async move {
                    Err::<u32, _>(if failure { Failure::no_effect("no") } else { Failure::unknown("hm") })
                };
                ledger.run(&op(), intent(), handler).await
            });
            let answer = ended(&world, task).await.unwrap();
            match call {
                Call::Release => assert!(matches!(answer, Answer::Released { .. }), "{answer:?}"),
                _ => assert!(matches!(answer, Answer::Parked { .. }), "{answer:?}"),
            }
            assert_eq!(world.store.count(call), 3);
            one_attempt(&world, call);
        }
    }
}

#[tokio::test]
async fn checkpoints_and_registrations_are_repeated_too() {
    for fault in &FAULTS {
        let world = World::new();
        world.store.fail(Call::Checkpoint, [fault.clone(), fault.clone()]);
        world.store.fail(Call::Register, [fault.clone(), fault.clone()]);
        let ledger = world.ledger.clone();
        let task = tokio::spawn(async move {
            ledger.register(&Register::new(op(), intent())).await?;
            let handler = |attempt: idem_core::ledger::Attempt| async move {
                attempt.checkpoint("sent", "1").await?;
                Ok(attempt.number())
            };
            ledger.run(&op(), intent(), handler).await
        });
        assert!(matches!(ended(&world, task).await.unwrap(), Answer::Executed(1)));
        assert_eq!((world.store.count(Call::Checkpoint), world.store.count(Call::Register)), (3, 3));
        assert_eq!(world.store.record().checkpoints.len(), 1);
    }
}

/// The handler ran, and before its result arrives an operator or a rival has moved the record on.
async fn unrecorded_after(meddle: impl AsyncFnOnce(&World), failure: Option<Failure>) -> Answer<u32> {
    let world = World::new();
    let (go, gone) = tokio::sync::oneshot::channel();
    let call = world.ledger.run_detached(&op(), intent(), |_| async move {
        gone.await.unwrap();
        failure.map_or(Ok(1), Err)
    });
    world.clock.until_sleepers(1).await;
    world.clock.advance(LEASE);
    meddle(&world).await;
    go.send(()).unwrap();
    call.await.unwrap()
}

async fn take_over(world: &World) {
    world.rival_grant(OnLapse::Take).await;
}

async fn resolve_otherwise(world: &World) {
    world.rival(OnLapse::Park).await;
    let verdict =
        Verdict::Completed { outcome: Outcome::success().body("2"), retention: Retention::forever() };
    let (actor, reason) = (Label::new("ada").unwrap(), Label::new("looked").unwrap());
    let resolve = Resolve::new(&world.store.record(), verdict, actor, reason);
    world.store.resolve(&resolve).await.unwrap();
}

#[tokio::test]
async fn what_could_not_be_recorded_says_why() {
    let failures = || [None, Some(Failure::permanent("declined")), Some(Failure::no_effect("no"))];
    for failure in failures().into_iter().chain([Some(Failure::unknown("hm"))]) {
        let answer = unrecorded_after(take_over, failure).await;
        assert!(
            matches!(answer, Answer::Unrecorded { why: Unrecorded::Fenced(View::Running), .. }),
            "{answer:?}"
        );
    }
    for failure in failures() {
        let answer = unrecorded_after(resolve_otherwise, failure).await;
        assert!(matches!(answer, Answer::Unrecorded { why: Unrecorded::OutcomeConflict, .. }), "{answer:?}");
    }
    // Parked by a claim that met the lapse: a release does not undo that.
    let park = async |world: &World| {
        world.rival(OnLapse::Park).await;
    };
    let answer = unrecorded_after(park, Some(Failure::no_effect("no"))).await;
    assert!(
        matches!(answer, Answer::Unrecorded { why: Unrecorded::Fenced(View::Uncertain), .. }),
        "{answer:?}"
    );
    let answer = unrecorded_after(park, Some(Failure::unknown("hm"))).await;
    assert!(matches!(answer, Answer::Parked { .. }), "{answer:?}");
}
