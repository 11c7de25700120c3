//! After a lapse: every verdict of a reconciler, and what each may do (G-18, G-19, G-31).

use std::time::Duration;

use idem_core::answer::Checkpointed;
use idem_core::clock::Clock;
use idem_core::ledger::{Answer, Begin, Failure, Ledger, Policy, Verdict};
use idem_core::record::{AbsenceReason, ParkCause};
use idem_core::request::{Intent, OnLapse};
use idem_core::{EffectClass, Mode, OutcomeKind, Result, State};

use crate::support::{Call, Fault, Gate, LEASE, World, intent, millis, op, secs};

/// Runs the call with a reconciler that says `verdict`; the handler gives the attempt's number and mode.
async fn reconcile(
    ledger: &Ledger,
    verdict: std::result::Result<Verdict<String>, Failure>,
) -> Result<Answer<String>> {
    ledger
        .call(&op(), intent())
        .reconcile(|_| async { verdict })
        .run(|attempt| async move { Ok(format!("{} {:?}", attempt.number(), attempt.mode())) })
        .await
}

async fn after_lapse(verdict: std::result::Result<Verdict<String>, Failure>) -> (World, Answer<String>) {
    let world = World::new();
    world.lapsed(&world.ledger).await;
    let answer = reconcile(&world.ledger, verdict).await.unwrap();
    (world, answer)
}

fn note(world: &World) -> String {
    let parked = world.store.record().parked.unwrap();
    assert_eq!(parked.cause, ParkCause::Holder);
    parked.note.unwrap().to_string()
}

#[tokio::test]
async fn it_had_happened() {
    let (world, answer) = after_lapse(Ok(Verdict::Happened("charge 9".to_owned()))).await;
    assert!(matches!(&answer, Answer::Replayed(found) if found == "charge 9"));
    let record = world.store.record();
    assert_eq!((record.state, record.attempt_number()), (State::Completed, 2));
    assert_eq!(record.current.unwrap().mode, Mode::Recover);
}

#[tokio::test]
async fn it_had_failed_for_good() {
    let (world, answer) = after_lapse(Ok(Verdict::Failed(Failure::permanent("declined")))).await;
    match answer {
        Answer::Failed { failure, replayed: true } => assert_eq!(failure.class.unwrap().as_str(), "declined"),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store.record().outcome.unwrap().kind, OutcomeKind::Failure);
}

#[tokio::test]
async fn it_cannot_be_told_now_and_the_next_reconciler_tries_again() {
    let (world, answer) = after_lapse(Ok(Verdict::Later)).await;
    match answer {
        Answer::InProgress { retry_after, attempt_number: 2 } => assert_eq!(retry_after, LEASE),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store.record().state, State::Processing, "nothing is parked");
    world.clock.advance(LEASE);
    let answer = reconcile(&world.ledger, Ok(Verdict::Happened("charge 9".to_owned()))).await.unwrap();
    assert!(matches!(&answer, Answer::Replayed(found) if found == "charge 9"));
    assert_eq!(world.store.record().attempt_number(), 3);
}

#[tokio::test]
async fn nobody_can_tell() {
    let cases: [(_, &str); 4] = [
        (Ok(Verdict::Unknown("the provider is down".to_owned())), "the provider is down"),
        (Err(Failure::unknown("a time-out")), "a time-out"),
        // "Looked and saw nothing" is no reason to run it (G-19).
        (Ok(Verdict::Failed(Failure::no_effect("saw nothing"))), "saw nothing"),
        (Ok(Verdict::Failed(Failure::unknown("hm"))), "hm"),
    ];
    for (verdict, text) in cases {
        let (world, answer) = after_lapse(verdict).await;
        assert!(matches!(answer, Answer::Uncertain { .. }), "{answer:?}");
        assert_eq!(note(&world), text);
    }
}

#[tokio::test]
async fn it_did_not_happen_and_cannot_any_more() {
    for reason in [AbsenceReason::Deduplicated, AbsenceReason::FencedOff] {
        let (world, answer) = after_lapse(Ok(Verdict::Absent(reason))).await;
        assert!(matches!(&answer, Answer::Executed(ran) if ran == "3 Execute"), "{answer:?}");
        assert_eq!(world.store.record().earlier[1].absence, Some(reason));
    }
}

#[tokio::test]
async fn an_opaque_effect_is_not_resumed() {
    let (world, answer) = after_lapse(Ok(Verdict::Resume)).await;
    assert!(matches!(answer, Answer::Uncertain { .. }));
    assert_eq!(note(&world), "only an effect of class Keyed may be resumed (G-19)");
}

/// The first attempt was begun by a caller that sends no downstream key, as before a change of the policy (G-18, G-19).
#[tokio::test]
async fn what_an_opaque_attempt_began_is_not_resumed_by_a_keyed_caller() {
    for reconciled in [false, true] {
        let world = World::new();
        let keyed = world.keyed(secs(3600));
        world.lapsed(&world.ledger).await;
        let answer = if reconciled {
            reconcile(&keyed, Ok(Verdict::Resume)).await.unwrap()
        } else {
            keyed.run(&op(), intent(), |_| async { Ok("ran again".to_owned()) }).await.unwrap()
        };
        assert!(matches!(answer, Answer::Uncertain { .. }), "{answer:?}");
        assert_eq!(
            note(&world),
            "an attempt before this one did not send the downstream key: only what is Keyed throughout is resumed (G-19)"
        );
    }
}

/// What the downstream system remembers is the shorter of what two callers say that it does.
#[tokio::test]
async fn the_shorter_memory_counts() {
    for (first, second) in [(100, 3600), (3600, 100)] {
        for (after, resumed) in [(69_999, true), (70_000, false)] {
            let world = World::new();
            world.lapsed(&world.keyed(secs(first))).await;
            world.clock.advance(millis(after) - LEASE);
            let answer = reconcile(&world.keyed(secs(second)), Ok(Verdict::Resume)).await.unwrap();
            assert_eq!(
                matches!(answer, Answer::Executed(_)),
                resumed,
                "{first} {second} {after}: {answer:?}"
            );
        }
    }
}

/// A keyed call `after` so long from the first grant, whose downstream remembers for 100 s.
async fn resumed_after(after: Duration) -> Answer<String> {
    let world = World::new();
    let ledger = world.keyed(secs(100));
    world.lapsed(&ledger).await;
    world.clock.advance(after - LEASE);
    reconcile(&ledger, Ok(Verdict::Resume)).await.unwrap()
}

#[tokio::test]
async fn a_keyed_effect_is_resumed_only_while_its_key_is_remembered() {
    // now < first grant + remembers_for - lease = 70 s.
    for after in [LEASE, millis(69_999)] {
        let answer = resumed_after(after).await;
        assert!(matches!(&answer, Answer::Executed(ran) if ran == "2 Recover"), "{after:?}: {answer:?}");
    }
    for after in [secs(70), secs(700)] {
        assert!(matches!(resumed_after(after).await, Answer::Uncertain { .. }), "{after:?}");
    }
}

/// Neither the heartbeat nor a checkpoint prolongs what was resumed: all of it is over one lease before the key is
/// forgotten, at 70 s.
#[tokio::test]
async fn what_was_resumed_ends_while_its_key_is_remembered() {
    let world = World::new();
    let ledger = world.keyed(secs(100));
    world.lapsed(&ledger).await;
    world.clock.advance(secs(20));
    let clock = world.clock.clone();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let call = ledger.run_detached(&op(), intent(), |attempt| async move {
        assert_eq!(attempt.remaining(), secs(20), "of a lease of 30 s");
        attempt.lost().await;
        let lost_at = clock.elapsed();
        gone.await.unwrap();
        let saved = attempt.checkpoint("still here", "1").await?;
        assert!(matches!(saved, Checkpointed::Recorded { .. }), "{saved:?}");
        assert!(!attempt.is_live(), "a renewal does not give the key back");
        Ok(lost_at)
    });
    // Renewed after a third of what remained, then after a third of the lease; the third time would be too late.
    for pause_ms in [6_667, 10_000, 3_332] {
        world.clock.until_sleepers(2).await;
        world.clock.advance(millis(pause_ms));
    }
    tokio::task::yield_now().await;
    assert_eq!((world.elapsed(), world.store.count(Call::Renew)), (millis(69_999), 2));
    assert_eq!(world.store.state(), State::Processing, "the handler is still at it");
    world.clock.advance(millis(1));
    tokio::task::yield_now().await;
    world.clock.advance(secs(20));
    tokio::task::yield_now().await;
    assert_eq!(world.store.count(Call::Renew), 2, "the heartbeat has let go");
    let record = world.store.record();
    let held_for_ms = record.last_lease_until().millis_since(record.first_grant_at.unwrap());
    assert_eq!(held_for_ms, 96_667, "less than 100 s");
    go.send(()).unwrap();
    let answer = call.await.unwrap();
    assert!(matches!(answer, Answer::Executed(at) if at == secs(70)), "{answer:?}");
}

/// An end that is nearer than the lease's reaches a handler, or a reconciler, that waits for it already.
#[tokio::test]
async fn who_waits_for_the_end_already_is_told_in_time() {
    let world = World::new();
    let ledger = world.keyed(secs(100));
    world.lapsed(&ledger).await;
    world.clock.advance(secs(30));
    let begin = ledger.claim(&op(), intent(), Intent::Run(OnLapse::Take)).await.unwrap();
    let Begin::Recover(recovery) = begin else { panic!("{begin:?}") };
    let attempt = recovery.attempt().clone();
    let clock = world.clock.clone();
    let waiter = tokio::spawn(async move {
        attempt.lost().await;
        clock.elapsed()
    });
    world.clock.until_sleepers(1).await;
    let hold = recovery.resume().unwrap();
    tokio::task::yield_now().await;
    world.clock.advance(secs(10));
    assert_eq!(waiter.await.unwrap(), secs(70));
    drop(hold);
}

#[tokio::test]
async fn the_time_that_a_reconciler_takes_counts() {
    let world = World::new();
    let ledger = world.keyed(secs(100));
    world.lapsed(&ledger).await;
    let clock = world.clock.clone();
    let answer = ledger
        .call(&op(), intent())
        .reconcile(|_| async move {
            clock.advance(secs(40));
            Ok(Verdict::Resume)
        })
        .run(|_| async { Ok(1) })
        .await
        .unwrap();
    assert!(matches!(answer, Answer::Uncertain { .. }), "{answer:?}");
}

#[tokio::test]
async fn a_resumed_effect_without_effect_is_parked() {
    // That this attempt had none says nothing about the one before it.
    let world = World::new();
    let ledger = world.keyed(secs(3600));
    world.lapsed(&ledger).await;
    for failure in [Failure::no_effect("refused"), Failure::no_effect_forget("refused")] {
        let answer = ledger.run::<u32, _, _>(&op(), intent(), |_| async { Err(failure) }).await.unwrap();
        match answer {
            Answer::Parked { cause } => assert_eq!(cause.to_string(), "refused"),
            Answer::Uncertain { .. } => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(world.store.state(), State::Uncertain);
    }
    assert_eq!(world.store.count(Call::Release), 0);
}

#[tokio::test]
async fn a_resumed_failure_for_good_is_stored() {
    let world = World::new();
    let ledger = world.keyed(secs(3600));
    world.lapsed(&ledger).await;
    let handler = |_| async { Err::<u32, _>(Failure::permanent("declined")) };
    let answer = ledger.run(&op(), intent(), handler).await.unwrap();
    assert!(matches!(answer, Answer::Failed { replayed: false, .. }));
}

fn quiesced(settle: Duration) -> std::result::Result<Verdict<String>, Failure> {
    let settle_ms = u64::try_from(settle.as_millis()).unwrap();
    Ok(Verdict::Absent(AbsenceReason::Quiesced { settle_ms }))
}

#[tokio::test]
async fn a_settle_time_is_waited_for_and_kept_alive() {
    let world = World::new();
    world.lapsed(&world.ledger).await;
    let ledger = world.ledger.clone();
    let call = tokio::spawn(async move { reconcile(&ledger, quiesced(secs(45))).await });
    // The settle time and the heartbeat; the lapse was at 30 s, so it may run from 75 s on.
    while world.elapsed() < secs(75) {
        world.clock.until_sleepers(2).await;
        assert_eq!(world.store.state(), State::Processing);
        world.clock.advance(secs(5));
    }
    let answer = call.await.unwrap().unwrap();
    assert!(matches!(&answer, Answer::Executed(ran) if ran == "3 Execute"), "{answer:?}");
    assert!(world.store.count(Call::Renew) >= 3);
}

#[tokio::test]
async fn a_settle_time_beyond_the_ceiling_is_parked() {
    let world = World::new();
    let ledger = world.policy(|policy| policy.ceiling = secs(40));
    world.lapsed(&ledger).await;
    let answer = reconcile(&ledger, quiesced(secs(40))).await.unwrap();
    assert!(matches!(answer, Answer::Uncertain { .. }));
    assert_eq!(note(&world), "the effect cannot be ruled out before the settle time");
}

#[tokio::test]
async fn a_settle_time_by_a_clock_that_was_set_back_is_asked_for_with_growing_pauses() {
    let world = World::two_clocks();
    world.lapsed(&world.ledger).await;
    world.deciding.advance(LEASE);
    let gate = Gate::new();
    world.store.fail(Call::Release, [Fault::GateBefore(gate.clone())]);
    let ledger = world.ledger.clone();
    let call = tokio::spawn(async move { reconcile(&ledger, quiesced(secs(0))).await });
    gate.arrived().await;
    // Between its grant and its release the deciding clock is set back by 5 minutes.
    world.deciding.set_wall(5_000_000 + 30_000 - 300_000);
    gate.open();
    let began = world.elapsed();
    while !call.is_finished() {
        world.clock.until_sleepers(2).await;
        world.clock.advance(millis(20));
        world.deciding.advance(millis(20));
        tokio::task::yield_now().await;
    }
    let answer = call.await.unwrap().unwrap();
    assert!(matches!(&answer, Answer::Executed(ran) if ran == "3 Execute"), "{answer:?}");
    let releases = world.store.count(Call::Release);
    assert!(releases < 2000, "{releases} in {:?}", world.elapsed() - began);
}

#[tokio::test]
async fn a_recovery_that_is_parked_by_others_or_taken_over_does_not_run() {
    for on_lapse in [OnLapse::Park, OnLapse::Take] {
        let world = World::new();
        world.lapsed(&world.ledger).await;
        let gate = Gate::new();
        world.store.fail(Call::Release, [Fault::GateBefore(gate.clone())]);
        let ledger = world.ledger.clone();
        let verdict = Ok(Verdict::Absent(AbsenceReason::FencedOff));
        let call = tokio::spawn(async move { reconcile(&ledger, verdict).await });
        gate.arrived().await;
        world.clock.advance(LEASE);
        world.rival(on_lapse).await;
        gate.open();
        match (on_lapse, call.await.unwrap().unwrap()) {
            (OnLapse::Park, Answer::Uncertain { .. })
            | (OnLapse::Take, Answer::InProgress { attempt_number: 3, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_claim_after_an_absence_waits_within_the_same_budget() {
    let world = World::that_does_not_wake();
    let ledger = world.policy(|policy| policy.wait = secs(20));
    world.lapsed(&ledger).await;
    let gate = Gate::new();
    world.store.fail(Call::Release, [Fault::GateAfter(gate.clone())]);
    let verdict = Ok(Verdict::Absent(AbsenceReason::FencedOff));
    let call = tokio::spawn(async move { reconcile(&ledger, verdict).await });
    gate.arrived().await;
    // It is given back, and a rival is faster; the call has 20 s in all, of which 15 are gone.
    assert_eq!(world.rival_grant(OnLapse::Park).await.number, 3);
    world.clock.advance(secs(15));
    gate.open();
    world.clock.until_sleepers(1).await;
    while !call.is_finished() {
        world.clock.advance(millis(50));
        tokio::task::yield_now().await;
    }
    let answer = call.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::InProgress { .. }), "{answer:?}");
    assert!(world.elapsed() < LEASE + secs(21), "{:?}", world.elapsed());
}

#[tokio::test]
async fn a_recoverer_that_dies_is_followed_by_a_recoverer() {
    let world = World::new();
    let ledger = world.keyed(secs(3600));
    world.lapsed(&ledger).await;
    match ledger.claim(&op(), intent(), Intent::Run(OnLapse::Take)).await.unwrap() {
        Begin::Recover(recovery) => drop(recovery),
        other => panic!("{other:?}"),
    }
    tokio::task::yield_now().await;
    assert_eq!(world.store.state(), State::Processing, "a recovery that is dropped gives nothing back");
    world.clock.advance(LEASE);
    let answer = reconcile(&ledger, Ok(Verdict::Unknown("hm".to_owned()))).await.unwrap();
    assert!(matches!(answer, Answer::Uncertain { .. }));
    assert_eq!(world.store.record().attempt_number(), 3);
}

#[tokio::test]
async fn an_uncertain_operation_can_be_claimed_for_recovery() {
    let world = World::new();
    let answer = world
        .ledger
        .run::<u32, _, _>(&op(), intent(), |_| async { Err(Failure::unknown("hm")) })
        .await
        .unwrap();
    assert!(matches!(answer, Answer::Parked { .. }));
    let recovery = match world.ledger.claim(&op(), intent(), Intent::Recover).await.unwrap() {
        Begin::Recover(recovery) => recovery,
        other => panic!("{other:?}"),
    };
    let (recovery, error) = recovery.resume().unwrap_err();
    assert!(error.to_string().contains("G-19"));
    let (found, looked) = (idem_core::Outcome::success().body("7"), secs(15));
    let found = recovery
        .keep(async {
            world.clock.advance(looked);
            found
        })
        .await;
    recovery.complete(found).await.unwrap();
    assert!(matches!(
        world.ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap(),
        Answer::Replayed(7)
    ));
    match world.ledger.claim(&op(), intent(), Intent::Recover).await.unwrap() {
        Begin::NotRun(idem_core::ledger::NotRun::Replay(_)) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_a_recoverer_found_and_could_not_store_is_unrecorded() {
    let world = World::new();
    world.lapsed(&world.ledger).await;
    world.store.fail_always(Call::Complete, Fault::Before(idem_core::ErrorKind::Corrupt));
    let answer = reconcile(&world.ledger, Ok(Verdict::Happened("9".to_owned()))).await.unwrap();
    assert!(matches!(answer, Answer::Unrecorded { result: Ok(_), .. }), "{answer:?}");
}

#[test]
fn a_keyed_policy_says_for_how_long() {
    let policy = Policy::keyed(secs(100));
    assert_eq!(policy.effect, EffectClass::Keyed { remembers_for_ms: 100_000 });
}
