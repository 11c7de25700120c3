//! What happens after a holder is gone: takeover, parking, checkpoints, resolution (G-18 to G-23).

use idem_core::answer::{Checkpointed, Claimed, Parked, Released, Renewed, Resolved};
use idem_core::record::{AbsenceReason, Ending, ParkCause};
use idem_core::request::{Park, Release, Renew, Resolve, SaveCheckpoint, Verdict as Decision};
use idem_core::{EffectClass, ErrorKind, Grant, Mode, Outcome, Retention, State, Store, View};

use crate::capability::Capability;
use crate::env::{
    Env, claim, complete, completed, granted, id, label, lapse, lease_ms, parked, record, recover, replayed,
    take, unchanged,
};
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict, ensure, ensure_eq, ensure_let};
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Lease,
        "LS-010",
        "takeover_shows_what_went_before",
        &["G-18", "G-21"],
        "A takeover is given the attempts before it, how they ended, and every checkpoint that they recorded.",
        |env| Box::pin(takeover_shows_what_went_before(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 10)]),
    Scenario::new(
        Family::Lease,
        "LS-012",
        "the_limit_of_attempts_parks",
        &["G-23"],
        "A takeover beyond the claim's limit of attempts parks the operation instead; attempt, fence and number stay.",
        |env| Box::pin(the_limit_of_attempts_parks(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 7)]),
    Scenario::new(
        Family::Lease,
        "LS-013",
        "a_late_holder_is_still_the_holder",
        &["G-15"],
        "After its lease lapsed, and as long as nobody took over, the holder can renew, record and complete.",
        |env| Box::pin(a_late_holder_is_still_the_holder(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 5)]),
    Scenario::new(
        Family::Lease,
        "LS-014",
        "recovery_is_sticky",
        &["G-18"],
        "A recoverer that dies is followed by a recoverer, whatever the effect class of the claims; the effect is not \
         run again by a takeover.",
        |env| Box::pin(recovery_is_sticky(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 12)]),
    Scenario::new(
        Family::Lease,
        "LS-022",
        "the_class_is_that_of_the_whole_chain",
        &["G-19", "G-18"],
        "A takeover and a recovery are told, and leave on the record, what holds for all attempts since the operation \
         was last free to run: keyed only if each of them was, with the shortest memory. Once it is free, the class is \
         that of the next claim.",
        |env| Box::pin(the_class_is_that_of_the_whole_chain(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 30)]),
    Scenario::new(
        Family::Lease,
        "LS-015",
        "release_from_recovery_needs_a_reason",
        &["G-19"],
        "A recoverer cannot release without a reason why the effect may run again, nor before the bound of Quiesced \
         has passed; with a reason it can, and then the operation runs.",
        |env| Box::pin(release_from_recovery_needs_a_reason(env)),
    )
    .evidence(&[(Fact::Checks, 12)]),
    Scenario::new(
        Family::Lease,
        "LS-016",
        "parking_keeps_the_holders_right",
        &["G-23", "G-15", "G-22"],
        "A claim that cannot recover parks a lapsed operation and fences nobody out: the slow holder still completes.",
        |env| Box::pin(parking_keeps_the_holders_right(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 8)]),
    Scenario::new(
        Family::Lease,
        "LS-017",
        "ended_attempts_stay_ended",
        &["G-12", "G-16"],
        "The id of a released attempt is never granted again, neither while nobody holds the operation nor later.",
        |env| Box::pin(ended_attempts_stay_ended(env)),
    )
    .evidence(&[(Fact::Checks, 8)]),
    Scenario::new(
        Family::Lease,
        "LS-019",
        "checkpoints_are_facts",
        &["G-21"],
        "A checkpoint is recorded once, the same one again is a duplicate, another value under its name is refused, \
         and so is one too many or too large. Recording one renews the lease.",
        |env| Box::pin(checkpoints_are_facts(env)),
    )
    .evidence(&[(Fact::Checks, 9)]),
    Scenario::new(
        Family::Lease,
        "LS-020",
        "an_operator_resolves_with_an_outcome",
        &["G-22"],
        "An operator can give an uncertain operation its outcome, once, and only if nothing changed since it looked.",
        |env| Box::pin(an_operator_resolves_with_an_outcome(env)),
    )
    .evidence(&[(Fact::Checks, 12)]),
    Scenario::new(
        Family::Lease,
        "LS-021",
        "did_not_happen_waits_for_the_last_holder",
        &["G-22"],
        "The verdict that it did not happen is too early until the last holder's requests can no longer land; then \
         the operation runs again, under the same key.",
        |env| Box::pin(did_not_happen_waits_for_the_last_holder(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 9)]),
];

async fn takeover_shows_what_went_before(env: &Env) -> Verdict {
    let store = env.open().await?;
    let mut owner = claim(&id("k")).lease(lease_ms(1_000));
    owner.owner = label("first-owner");
    let first = granted(env, &*store, &owner, "the claim").await?;
    for (name, value) in [("sent", &b"\x00\xff"[..]), ("remote-id", b"r-17")] {
        let fact = SaveCheckpoint::new(first.held(), label(name), value, lease_ms(1_000));
        store.checkpoint(&fact).await?;
    }
    lapse(env, &*store, &first)?;
    let second = granted(env, &*store, &take(&id("k")).lease(lease_ms(1_000)), "the first takeover").await?;
    let fact = SaveCheckpoint::new(second.held(), label("sent"), "again", lease_ms(1_000));
    ensure_let!(env, store.checkpoint(&fact).await?; Checkpointed::Recorded { .. }, "a checkpoint of the successor");
    lapse(env, &*store, &second)?;
    let third = granted(env, &*store, &take(&id("k")), "the second takeover").await?;
    let went_before: Vec<_> = third
        .earlier
        .iter()
        .map(|attempt| (attempt.number, attempt.id, attempt.fence, attempt.mode))
        .collect();
    let expected =
        [(1, first.attempt, first.fence, Mode::Execute), (2, second.attempt, second.fence, Mode::Recover)];
    ensure_eq!(env, went_before[..], expected, "number, id, fence and mode of the attempts before");
    let first_shown = third.earlier.first().ok_or_else(|| Failure::new("no attempt before"))?;
    ensure_eq!(env, first_shown.owner, label("first-owner"), "the owner of the first attempt");
    ensure_eq!(env, first_shown.lease_until, first.lease_until, "the deadline of the first attempt");
    let endings: Vec<_> = third.earlier.iter().filter_map(|attempt| attempt.ended).collect();
    ensure!(
        env,
        endings.iter().all(|(_, ending)| *ending == Ending::Lapsed) && endings.len() == 2,
        "{endings:?}"
    );
    let facts: Vec<_> = third
        .checkpoints
        .iter()
        .map(|fact| (fact.attempt_number, fact.name.as_str(), &fact.value[..]))
        .collect();
    let expected = [(1, "sent", &b"\x00\xff"[..]), (1, "remote-id", b"r-17"), (2, "sent", b"again")];
    ensure_eq!(env, facts[..], expected, "the checkpoints of the attempts before");
    ensure_eq!(env, third.first_grant_at, first.first_grant_at, "the time of the first grant");
    Ok(())
}

async fn the_limit_of_attempts_parks(env: &Env) -> Verdict {
    let store = env.open().await?;
    let limited = || take(&id("k")).lease(lease_ms(1_000)).attempts_max(2);
    let first = granted(env, &*store, &limited(), "the claim").await?;
    lapse(env, &*store, &first)?;
    let second = granted(env, &*store, &limited(), "the takeover within the limit").await?;
    lapse(env, &*store, &second)?;
    let third = store.claim(&limited()).await?;
    ensure_let!(env, third; Claimed::Uncertain { .. }, "a takeover beyond the limit must park");
    let stored = record(&*store, &id("k")).await?;
    ensure_eq!(env, stored.state, State::Uncertain, "the state beyond the limit");
    let holder = stored.current.as_ref().map(|attempt| (attempt.number, attempt.id, attempt.fence));
    ensure_eq!(env, holder, Some((2, second.attempt, second.fence)), "the holder of the parked operation");
    let cause = stored.parked.as_ref().map(|parked| parked.cause);
    ensure_eq!(env, cause, Some(ParkCause::AttemptsExhausted), "the cause");
    let recovery = granted(env, &*store, &recover(&id("k")), "a recovery is not limited").await?;
    ensure_eq!(env, recovery.number, 3, "the number of the recovery");
    Ok(())
}

async fn a_late_holder_is_still_the_holder(env: &Env) -> Verdict {
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("k")).lease(lease_ms(1_000)), "the claim").await?;
    lapse(env, &*store, &grant)?;
    env.clock()?.advance_ms(60_000);
    let answer = store.renew(&Renew::new(grant.held(), lease_ms(1_000))).await?;
    ensure_eq!(env, answer, Renewed::Renewed { remaining_ms: 1_000 }, "a late renewal");
    env.clock()?.advance_ms(60_000);
    let fact = SaveCheckpoint::new(grant.held(), label("sent"), "x", lease_ms(1_000));
    ensure_let!(env, store.checkpoint(&fact).await?; Checkpointed::Recorded { .. }, "a late checkpoint");
    env.clock()?.advance_ms(60_000);
    completed(env, &*store, &complete(&grant, "late"), "a late holder's operation").await?;
    replayed(env, &*store, &claim(&id("k")), "the operation").await?;
    Ok(())
}

async fn recovery_is_sticky(env: &Env) -> Verdict {
    let store = env.open().await?;
    let keyed = EffectClass::Keyed { remembers_for_ms: 1_000_000 };
    for (key, classes) in [
        ("opaque", [EffectClass::Opaque, EffectClass::Opaque, EffectClass::Opaque]),
        ("keyed", [keyed, EffectClass::Opaque, keyed]),
    ] {
        let [first, second, third] = classes;
        let lease = lease_ms(1_000);
        let holder = granted(env, &*store, &claim(&id(key)).lease(lease).effect(first), "the claim").await?;
        lapse(env, &*store, &holder)?;
        let again = take(&id(key)).lease(lease).effect(second);
        let recoverer = granted(env, &*store, &again, "the takeover").await?;
        ensure_eq!(env, recoverer.mode, Mode::Recover, "mode of a takeover ({key})");
        let repeated = granted(env, &*store, &again, "the repeated takeover").await?;
        ensure_eq!(env, repeated.mode, Mode::Recover, "mode of a repeated takeover ({key})");
        lapse(env, &*store, &recoverer)?;
        let next =
            granted(env, &*store, &take(&id(key)).lease(lease).effect(third), "the next takeover").await?;
        ensure_eq!(env, next.mode, Mode::Recover, "mode of a takeover from a recoverer ({key})");
        store.park(&Park::new(next.held())).await?;
        let last = granted(env, &*store, &recover(&id(key)), "a recovery of what was parked").await?;
        ensure_eq!(env, last.mode, Mode::Recover, "mode of a recovery of what was parked ({key})");
    }
    Ok(())
}

async fn the_class_is_that_of_the_whole_chain(env: &Env) -> Verdict {
    let store = env.open().await?;
    let keyed = |remembers_for_ms| EffectClass::Keyed { remembers_for_ms };
    let (hour, day) = (keyed(3_600_000), keyed(86_400_000));
    for (key, declared, holds) in [
        ("keyed over opaque", [EffectClass::Opaque, day, day], [EffectClass::Opaque; 3]),
        (
            "opaque over keyed",
            [day, EffectClass::Opaque, day],
            [day, EffectClass::Opaque, EffectClass::Opaque],
        ),
        ("keyed throughout", [day, day, day], [day; 3]),
        ("a shorter memory", [day, hour, day], [day, hour, hour]),
        ("a longer memory", [hour, day, day], [hour; 3]),
    ] {
        let lease = lease_ms(1_000);
        let asks = [claim(&id(key)), take(&id(key)), recover(&id(key))];
        let mut last = None;
        for (turn, (ask, (declared, holds))) in
            asks.into_iter().zip(declared.into_iter().zip(holds)).enumerate()
        {
            let ask = ask.lease(lease).effect(declared);
            let grant = granted(env, &*store, &ask, "the claim").await?;
            ensure_eq!(env, grant.effect, holds, "the class that grant {turn} tells ({key})");
            let again = granted(env, &*store, &ask, "the repeated claim").await?;
            ensure_eq!(env, again.effect, holds, "the class that grant {turn} tells again ({key})");
            ensure_eq!(env, record(&*store, &id(key)).await?.effect, holds, "the stored class ({key})");
            if turn == 0 {
                lapse(env, &*store, &grant)?;
            } else {
                store.park(&Park::new(grant.held())).await?;
            }
            last = Some(grant);
        }
        let last = last.ok_or_else(|| Failure::new("nothing was granted"))?;
        env.clock()?.set_ms(last.lease_until.as_millis() + store.capabilities().guard_ms);
        let decision = Decision::DidNotHappen { settle_ms: 0 };
        let answer = store.resolve(&verdict_on(&*store, key, decision).await?).await?;
        ensure_eq!(env, answer, Resolved::Resolved { view: View::Received }, "the verdict ({key})");
        let next = granted(env, &*store, &claim(&id(key)).effect(day), "a claim after the verdict").await?;
        ensure_eq!(env, next.effect, day, "the class once the operation was free again ({key})");
    }
    Ok(())
}

async fn release_from_recovery_needs_a_reason(env: &Env) -> Verdict {
    let store = env.open().await?;
    for (key, reason) in [("fenced", AbsenceReason::FencedOff), ("deduplicated", AbsenceReason::Deduplicated)]
    {
        parked(env, &*store, key).await?;
        let recoverer = granted(env, &*store, &recover(&id(key)), "the recovery").await?;
        let before = record(&*store, &id(key)).await?;
        let refused = store.release(&Release::new(recoverer.held())).await;
        let kind = refused.as_ref().err().map(idem_core::Error::kind);
        ensure_eq!(env, kind, Some(ErrorKind::InvalidInput), "a release without reason ({refused:?})");
        // The last holder's lease ran for an hour, so nobody can have waited for its requests to land yet.
        let quiesced = AbsenceReason::Quiesced { settle_ms: 3_600_000 };
        let early = store.release(&Release::new(recoverer.held()).absence(quiesced)).await?;
        ensure_let!(env, early; Released::TooEarly { .. }, "a release before the bound");
        unchanged(env, &*store, &before, "a refused release").await?;
        let released = store.release(&Release::new(recoverer.held()).absence(reason)).await?;
        ensure_let!(env, released; Released::Released { .. }, "a release with a reason ({reason:?})");
        let shown = record(&*store, &id(key)).await?.current.and_then(|attempt| attempt.absence);
        ensure_eq!(env, shown, Some(reason), "the reason in the record");
        let next = granted(env, &*store, &claim(&id(key)), "a claim after the release").await?;
        ensure_eq!(env, (next.mode, next.number), (Mode::Execute, 3), "mode and number after the release");
    }
    Ok(())
}

async fn parking_keeps_the_holders_right(env: &Env) -> Verdict {
    let store = env.open().await?;
    let holder = granted(env, &*store, &claim(&id("k")).lease(lease_ms(1_000)), "the claim").await?;
    lapse(env, &*store, &holder)?;
    let since = env.now();
    let answer = store.claim(&claim(&id("k"))).await?;
    ensure_eq!(env, answer, Claimed::Uncertain { since }, "a claim that cannot recover, over a lapse");
    env.clock()?.advance_ms(5_000);
    let answer = store.claim(&take(&id("k"))).await?;
    ensure_eq!(env, answer, Claimed::Uncertain { since }, "a later claim to run");
    let stored = record(&*store, &id("k")).await?;
    let shown = stored.current.as_ref().map(|attempt| (attempt.number, attempt.id, attempt.fence));
    ensure_eq!(env, shown, Some((1, holder.attempt, holder.fence)), "the holder of the parked operation");
    let renewed = store.renew(&Renew::new(holder.held(), lease_ms(1_000))).await?;
    ensure_eq!(env, renewed, Renewed::Parked, "a renewal by the parked holder");
    completed(env, &*store, &complete(&holder, "slow"), "the slow holder's operation").await?;
    let replay = replayed(env, &*store, &claim(&id("k")), "the operation").await?;
    ensure_eq!(env, replay.fence, holder.fence, "the fence of the outcome");
    Ok(())
}

async fn ended_attempts_stay_ended(env: &Env) -> Verdict {
    let store = env.open().await?;
    let own = claim(&id("k"));
    let first = granted(env, &*store, &own, "the claim").await?;
    ensure_let!(env, store.release(&Release::new(first.held())).await?; Released::Released { .. }, "the release");
    ensure_eq!(
        env,
        store.release(&Release::new(first.held())).await?,
        Released::AlreadyReleased,
        "the release again"
    );
    ensure_eq!(
        env,
        store.claim(&own).await?,
        Claimed::Ended,
        "the released attempt's claim, while nobody holds it"
    );
    let second = granted(env, &*store, &claim(&id("k")), "another claim").await?;
    let answer = store.claim(&own).await?;
    ensure_let!(env, answer; Claimed::InProgress { .. }, "the released attempt's claim, while another holds it");
    store.release(&Release::new(second.held())).await?;
    ensure_eq!(
        env,
        store.claim(&own).await?,
        Claimed::Ended,
        "the released attempt's claim, after another one's"
    );
    let late = store.complete(&complete(&first, "late")).await?;
    ensure_let!(env, late; idem_core::answer::Completed::Fenced(_), "the released attempt's completion");
    Ok(())
}

async fn checkpoints_are_facts(env: &Env) -> Verdict {
    let store = env.open().await?;
    let limits = store.capabilities().limits;
    let grant = granted(env, &*store, &claim(&id("k")).lease(lease_ms(1_000)), "the claim").await?;
    let fact = |name: &str, value: &[u8]| {
        SaveCheckpoint::new(grant.held(), label(name), value.to_vec(), lease_ms(3_600_000))
    };
    let recorded = store.checkpoint(&fact("a", b"1")).await?;
    let remaining_ms = ensure_let!(
        env, recorded; Checkpointed::Recorded { remaining_ms } => remaining_ms, "the first checkpoint"
    );
    ensure!(env, remaining_ms > 3_000_000, "a checkpoint must renew the lease, and {remaining_ms} ms remain");
    let duplicate = store.checkpoint(&fact("a", b"1")).await?;
    ensure_let!(env, duplicate; Checkpointed::Duplicate { .. }, "the same checkpoint again");
    ensure_eq!(
        env,
        store.checkpoint(&fact("a", b"2")).await?,
        Checkpointed::Differs,
        "another value under its name"
    );
    let longest = vec![7; limits.checkpoint_bytes_max];
    let recorded = store.checkpoint(&fact("longest", &longest)).await?;
    ensure_let!(env, recorded; Checkpointed::Recorded { .. }, "the longest value");
    let too_long = vec![7; limits.checkpoint_bytes_max + 1];
    ensure_eq!(
        env,
        store.checkpoint(&fact("too-long", &too_long)).await?,
        Checkpointed::Full,
        "a value too long"
    );
    for index in 2..limits.checkpoints_max {
        store.checkpoint(&fact(&format!("n{index}"), b"")).await?;
    }
    ensure_eq!(env, store.checkpoint(&fact("one-more", b"")).await?, Checkpointed::Full, "one too many");
    let stored = record(&*store, &id("k")).await?;
    ensure_eq!(env, stored.checkpoints.len(), limits.checkpoints_max, "the number of stored checkpoints");
    let values: Vec<_> = stored.checkpoints.iter().take(2).map(|fact| fact.value.to_vec()).collect();
    ensure!(env, values == [b"1".to_vec(), longest], "the stored values must be those that were recorded");
    Ok(())
}

/// An operator's verdict on what is stored now.
async fn verdict_on(store: &dyn Store, key: &str, decision: Decision) -> Verdict<Resolve> {
    let seen = record(store, &id(key)).await?;
    Ok(Resolve::new(&seen, decision, label("operator"), label("looked at the provider's console")))
}

fn it_happened(body: &'static str) -> Decision {
    Decision::Completed { outcome: Outcome::success().body(body), retention: Retention::forever() }
}

async fn an_operator_resolves_with_an_outcome(env: &Env) -> Verdict {
    let store = env.open().await?;
    let holder: Grant = granted(env, &*store, &claim(&id("k")), "the claim").await?;
    let early = store.resolve(&verdict_on(&*store, "k", it_happened("early")).await?).await?;
    ensure_let!(env, early; Resolved::NotUncertain { view: View::Running, .. }, "a verdict on a running operation");
    let answer = store.park(&Park::new(holder.held()).note("timed out")).await?;
    ensure_let!(env, answer; Parked::Parked { .. }, "the parking");
    let stale = verdict_on(&*store, "k", it_happened("stale")).await?;
    let recoverer = granted(env, &*store, &recover(&id("k")), "a recovery").await?;
    store.park(&Park::new(recoverer.held())).await?;
    let before = record(&*store, &id("k")).await?;
    let answer = store.resolve(&stale).await?;
    let shown = Resolved::Stale { fence: before.fence(), version: before.version };
    ensure_eq!(env, answer, shown, "a verdict on what has changed since");
    unchanged(env, &*store, &before, "a stale verdict").await?;
    let answer = store.resolve(&verdict_on(&*store, "k", it_happened("found")).await?).await?;
    ensure_eq!(env, answer, Resolved::Resolved { view: View::Completed }, "the verdict");
    let replay = replayed(env, &*store, &claim(&id("k")), "a resolved operation").await?;
    ensure_eq!(
        env,
        replay.outcome.body().map(|body| &body[..]),
        Some(&b"found"[..]),
        "the outcome of the verdict"
    );
    let resolution = record(&*store, &id("k")).await?.resolution;
    let shown = resolution.map(|last| (last.happened, last.actor.clone()));
    ensure_eq!(env, shown, Some((true, label("operator"))), "the resolution in the record");
    let again = store.resolve(&verdict_on(&*store, "k", it_happened("again")).await?).await?;
    ensure_let!(env, again; Resolved::NotUncertain { last: Some(_), .. }, "a second verdict");
    let mut nowhere = stale;
    nowhere.id = id("nowhere");
    ensure_eq!(env, store.resolve(&nowhere).await?, Resolved::NotFound, "a verdict on nothing");
    Ok(())
}

async fn did_not_happen_waits_for_the_last_holder(env: &Env) -> Verdict {
    let store = env.open().await?;
    let holder = granted(env, &*store, &claim(&id("k")).lease(lease_ms(10_000)), "the claim").await?;
    store.park(&Park::new(holder.held())).await?;
    let did_not = Decision::DidNotHappen { settle_ms: 2_000 };
    let request = verdict_on(&*store, "k", did_not).await?;
    let until = holder.lease_until.plus_millis(2_000 + store.capabilities().guard_ms);
    for now in [env.now(), holder.lease_until, idem_core::Timestamp::from_millis(until.as_millis() - 1)] {
        env.clock()?.set_ms(now.as_millis());
        ensure_eq!(
            env,
            store.resolve(&request).await?,
            Resolved::TooEarly { until },
            "the verdict at {now:?}"
        );
    }
    env.clock()?.set_ms(until.as_millis());
    let answer = store.resolve(&request).await?;
    ensure_eq!(env, answer, Resolved::Resolved { view: View::Received }, "the verdict in time");
    let late = store.complete(&complete(&holder, "late")).await?;
    ensure_let!(env, late; idem_core::answer::Completed::Fenced(View::Received), "a completion after the verdict");
    ensure_eq!(env, store.claim(&recover(&id("k"))).await?, Claimed::Nothing, "a recovery after the verdict");
    let next = granted(env, &*store, &claim(&id("k")), "a claim after the verdict").await?;
    ensure_eq!(env, (next.mode, next.number), (Mode::Execute, 2), "mode and number after the verdict");
    Ok(())
}
