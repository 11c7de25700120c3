//! Who may write, and for how long (G-13 to G-16).

use idem_core::answer::{Checkpointed, Claimed, Completed, Parked, Released, Renewed};
use idem_core::request::{Park, Release, Renew, SaveCheckpoint};
use idem_core::{Grant, Mode, Record, Retention, Store, Ttl, View};

use crate::capability::Capability;
use crate::env::{
    Env, LAPSED_FOR_MS, claim, complete, completed, granted, id, label, lapse, lease_ms, record, recover,
    replayed, sweep_all, take, unchanged,
};
use crate::evidence::Fact;
use crate::failure::{Verdict, ensure, ensure_eq, ensure_let};
use crate::race::race;
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Lease,
        "LS-001",
        "a_live_lease_answers_in_progress",
        &["G-34", "G-13"],
        "While the lease runs, every other claim is told that the operation is in progress, when to come again and by \
         which attempt; nothing is written.",
        |env| Box::pin(a_live_lease_answers_in_progress(env)),
    )
    .evidence(&[(Fact::Checks, 11)]),
    Scenario::new(
        Family::Lease,
        "LS-002",
        "the_lease_ends_at_its_exact_instant",
        &["G-13", "G-60", "G-61"],
        "One millisecond before the deadline (with the guard) the lease is live, at the deadline it is not: for a \
         takeover, for a recovery and for a claim that parks.",
        |env| Box::pin(the_lease_ends_at_its_exact_instant(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 12)]),
    Scenario::new(
        Family::Lease,
        "LS-003",
        "takeover_raises_the_fence",
        &["G-14", "G-18"],
        "A grant over a lapsed lease has a higher fence, the next number and mode Recover.",
        |env| Box::pin(takeover_raises_the_fence(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 6)]),
    Scenario::new(
        Family::Lease,
        "LS-004",
        "fences_are_never_reused",
        &["G-14"],
        "After a release, over an identity that expired in place, after a purge, and after the clock stepped back, \
         every grant has a higher fence than all before.",
        |env| Box::pin(fences_are_never_reused(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 12)]),
    Scenario::new(
        Family::Lease,
        "LS-005",
        "renewal_counts_from_now",
        &["G-13"],
        "A renewal sets the deadline to now plus the lease: renewals do not add up, and a shorter one does not shorten.",
        |env| Box::pin(renewal_counts_from_now(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 8)]),
    Scenario::new(
        Family::Lease,
        "LS-006",
        "a_zombie_cannot_complete",
        &["G-15"],
        "A holder that was taken over cannot complete, neither while its successor runs nor after it completed.",
        |env| Box::pin(a_zombie_cannot_complete(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 8)]),
    Scenario::new(
        Family::Lease,
        "LS-007",
        "a_zombie_cannot_renew",
        &["G-15"],
        "A holder that was taken over can neither renew nor record a checkpoint, and its successor's lease is untouched.",
        |env| Box::pin(a_zombie_cannot_renew(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 6)]),
    Scenario::new(
        Family::Lease,
        "LS-008",
        "a_zombie_cannot_release",
        &["G-15"],
        "A holder that was taken over can neither release nor park what its successor holds.",
        |env| Box::pin(a_zombie_cannot_release(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 6)]),
    Scenario::new(
        Family::Lease,
        "LS-009",
        "takeover_race_has_one_winner",
        &["G-10", "G-18"],
        "Of the claims that race for a lapsed lease one is granted, and the others are told that it runs.",
        |env| Box::pin(takeover_race_has_one_winner(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Overlaps, 50), (Fact::Checks, 150)]),
    Scenario::new(
        Family::Lease,
        "LS-011",
        "held_writes_after_completion_are_refused",
        &["G-15", "G-16"],
        "After completion its own attempt can neither renew, record, release nor park; the record stays as it is.",
        |env| Box::pin(held_writes_after_completion_are_refused(env)),
    )
    .evidence(&[(Fact::Checks, 10)]),
    Scenario::new(
        Family::Lease,
        "LS-018",
        "a_repeated_claim_returns_what_remains",
        &["G-12"],
        "A claim that is repeated with its attempt id is told what remains of the lease, down to nothing after the \
         deadline, and does not renew it.",
        |env| Box::pin(a_repeated_claim_returns_what_remains(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 10)]),
];

async fn a_live_lease_answers_in_progress(env: &Env) -> Verdict {
    let store = env.open().await?;
    granted(env, &*store, &claim(&id("k")).lease(lease_ms(60_000)), "the claim").await?;
    let before = record(&*store, &id("k")).await?;
    for other in [claim(&id("k")), take(&id("k")), recover(&id("k"))] {
        let answer = store.claim(&other).await?;
        let (retry_after_ms, number, version) = ensure_let!(
            env, answer;
            Claimed::InProgress { retry_after_ms, attempt_number, version } => (retry_after_ms, attempt_number, version),
            "a claim ({:?}) while the lease runs must be told that it is in progress", other.intent
        );
        let latest_ms = 60_000 + store.capabilities().guard_ms;
        ensure!(
            env,
            (1..=latest_ms).contains(&retry_after_ms),
            "retry after {retry_after_ms} ms of a lease of 60 s"
        );
        ensure_eq!(env, (number, version), (1, before.version), "attempt and version of the answer");
    }
    unchanged(env, &*store, &before, "a claim while the lease runs").await
}

async fn the_lease_ends_at_its_exact_instant(env: &Env) -> Verdict {
    let store = env.open().await?;
    let guard_ms = store.capabilities().guard_ms;
    for (key, other) in
        [("take", take(&id("take"))), ("recover", recover(&id("recover"))), ("park", claim(&id("park")))]
    {
        let grant = granted(env, &*store, &claim(&id(key)).lease(lease_ms(5_000)), "the claim").await?;
        ensure_eq!(env, grant.lease_until, env.now().plus_millis(5_000), "the deadline of a lease of 5 s");
        let ends_ms = grant.lease_until.as_millis() + guard_ms;
        env.clock()?.set_ms(ends_ms - 1);
        let answer = store.claim(&other).await?;
        let retry_after_ms = ensure_let!(
            env, answer; Claimed::InProgress { retry_after_ms, .. } => retry_after_ms,
            "a claim one millisecond before the end of the lease"
        );
        ensure_eq!(env, retry_after_ms, 1, "milliseconds to the end");
        env.clock()?.set_ms(ends_ms);
        let answer = store.claim(&other).await?;
        if key == "park" {
            ensure_let!(env, answer; Claimed::Uncertain { .. }, "a claim that parks at the end of the lease");
        } else {
            ensure_let!(env, answer; Claimed::Granted(_), "a claim ({key}) at the end of the lease");
        }
    }
    Ok(())
}

async fn takeover_raises_the_fence(env: &Env) -> Verdict {
    let store = env.open().await?;
    let mut last = granted(env, &*store, &claim(&id("k")).lease(lease_ms(1)), "the claim").await?;
    for _ in 0..2 {
        lapse(env, &*store, &last)?;
        let next = granted(env, &*store, &take(&id("k")).lease(lease_ms(1)), "the takeover").await?;
        ensure!(
            env,
            next.fence > last.fence,
            "the fence went from {} to {} in a takeover",
            last.fence,
            next.fence
        );
        ensure_eq!(
            env,
            (next.number, next.mode),
            (last.number + 1, Mode::Recover),
            "number and mode of a takeover"
        );
        last = next;
    }
    Ok(())
}

async fn fences_are_never_reused(env: &Env) -> Verdict {
    let store = env.open().await?;
    let clock = env.clock()?;
    let operation = id("k");
    let mut last = None;
    let finite = Retention::forgetting_identity(Ttl::Millis(1_000), Ttl::Millis(1_000), None)?;
    let mut next = async |what: &str| -> Verdict<Grant> {
        let grant = granted(env, &*store, &claim(&operation), what).await?;
        let before = last.replace(grant.fence);
        ensure!(env, Some(grant.fence) > before, "{what}: fence {} follows {before:?}", grant.fence);
        Ok(grant)
    };
    let finish = async |grant: &Grant| -> Verdict {
        let mut request = complete(grant, "done");
        request.retention = finite;
        completed(env, &*store, &request, "it").await
    };
    let grant = next("the first grant").await?;
    store.release(&Release::new(grant.held())).await?;
    let grant = next("a grant after a release").await?;
    finish(&grant).await?;
    clock.advance_ms(1_000);
    let grant = next("a grant over an identity that expired in place").await?;
    ensure_eq!(env, grant.number, 1, "the number over an expired identity");
    finish(&grant).await?;
    let step_ms = store.capabilities().step_ms;
    clock.advance_ms(1_000 + step_ms + 1_000);
    ensure_eq!(env, sweep_all(env, &*store).await?.purged, 1, "purged records");
    clock.set_ms(env.now().as_millis() - step_ms);
    next("a grant after a purge and a backward step").await?;
    Ok(())
}

async fn renewal_counts_from_now(env: &Env) -> Verdict {
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("k")).lease(lease_ms(10_000)), "the claim").await?;
    // Milliseconds to move, the lease that is asked for, and what must then remain.
    for (after_ms, lease, remains_ms) in [
        (0, 10_000, 10_000),
        (0, 10_000, 10_000),
        (3_000, 10_000, 10_000),
        (0, 1_000, 10_000),
        (0, 20_000, 20_000),
    ] {
        env.clock()?.advance_ms(after_ms);
        let answer = store.renew(&Renew::new(grant.held(), lease_ms(lease))).await?;
        ensure_eq!(env, answer, Renewed::Renewed { remaining_ms: remains_ms }, "a renewal by {lease} ms");
    }
    let stored = record(&*store, &id("k")).await?;
    let until = stored.current.map(|attempt| attempt.lease_until);
    ensure_eq!(env, until, Some(env.now().plus_millis(20_000)), "the stored deadline");
    let other = store.claim(&claim(&id("k"))).await?;
    ensure_let!(env, other; Claimed::InProgress { .. }, "another claim after the renewals");
    Ok(())
}

/// Claims, lapses, takes over: the zombie, its successor and the record between them.
async fn zombie(env: &Env, store: &dyn Store) -> Verdict<(Grant, Grant, Record)> {
    let zombie = granted(env, store, &claim(&id("k")).lease(lease_ms(1_000)), "the claim").await?;
    lapse(env, store, &zombie)?;
    let successor = granted(env, store, &take(&id("k")), "the takeover").await?;
    let record = record(store, &id("k")).await?;
    Ok((zombie, successor, record))
}

async fn a_zombie_cannot_complete(env: &Env) -> Verdict {
    let store = env.open().await?;
    let (zombie, successor, before) = zombie(env, &*store).await?;
    let answer = store.complete(&complete(&zombie, "zombie")).await?;
    ensure_eq!(
        env,
        answer,
        Completed::Fenced(View::Running),
        "a zombie's completion while its successor runs"
    );
    unchanged(env, &*store, &before, "a zombie's completion").await?;
    completed(env, &*store, &complete(&successor, "successor"), "the successor").await?;
    let answer = store.complete(&complete(&zombie, "zombie")).await?;
    ensure_eq!(
        env,
        answer,
        Completed::Fenced(View::Completed),
        "a zombie's completion after its successor's"
    );
    let answer = store.complete(&complete(&zombie, "successor")).await?;
    ensure_eq!(
        env,
        answer,
        Completed::Fenced(View::Completed),
        "a zombie's completion with its successor's outcome"
    );
    let replay = replayed(env, &*store, &claim(&id("k")), "the operation").await?;
    ensure_eq!(
        env,
        replay.outcome.body().map(|body| &body[..]),
        Some(&b"successor"[..]),
        "the replayed body"
    );
    Ok(())
}

async fn a_zombie_cannot_renew(env: &Env) -> Verdict {
    let store = env.open().await?;
    let (zombie, _, before) = zombie(env, &*store).await?;
    let answer = store.renew(&Renew::new(zombie.held(), lease_ms(9_000_000))).await?;
    ensure_eq!(env, answer, Renewed::Fenced(View::Running), "a zombie's renewal");
    unchanged(env, &*store, &before, "a zombie's renewal").await?;
    let fact = SaveCheckpoint::new(zombie.held(), label("sent"), "x", lease_ms(9_000_000));
    let answer = store.checkpoint(&fact).await?;
    ensure_eq!(env, answer, Checkpointed::Fenced(View::Running), "a zombie's checkpoint");
    unchanged(env, &*store, &before, "a zombie's checkpoint").await
}

async fn a_zombie_cannot_release(env: &Env) -> Verdict {
    let store = env.open().await?;
    let (zombie, _, before) = zombie(env, &*store).await?;
    let answer = store.release(&Release::new(zombie.held())).await?;
    ensure_eq!(env, answer, Released::Fenced(View::Running), "a zombie's release");
    unchanged(env, &*store, &before, "a zombie's release").await?;
    let answer = store.park(&Park::new(zombie.held())).await?;
    ensure_eq!(env, answer, Parked::Fenced(View::Running), "a zombie's parking");
    unchanged(env, &*store, &before, "a zombie's parking").await
}

async fn takeover_race_has_one_winner(env: &Env) -> Verdict {
    let store = env.open().await?;
    let prepare = async |rounds: std::ops::Range<usize>| -> Verdict {
        for round in rounds {
            store.claim(&claim(&id(&format!("k{round}"))).lease(lease_ms(1))).await?;
        }
        env.clock()?.advance_ms(1 + store.capabilities().guard_ms + LAPSED_FOR_MS);
        Ok(())
    };
    let rounds = race(env, 50, prepare, async |round, racer| {
        let operation = id(&format!("k{round}"));
        let claim = if racer == 0 { recover(&operation) } else { take(&operation) };
        store.claim(&claim).await
    })
    .await?;
    for (round, answers) in rounds.into_iter().enumerate() {
        let mut winners = 0;
        for answer in answers {
            match answer? {
                Claimed::Granted(grant) => {
                    winners += 1;
                    ensure_eq!(
                        env,
                        (grant.number, grant.mode),
                        (2, Mode::Recover),
                        "number and mode of the winner"
                    );
                }
                other => ensure_let!(env, other; Claimed::InProgress { .. }, "a loser of round {round}"),
            }
        }
        ensure_eq!(env, winners, 1, "winners of round {round}");
    }
    Ok(())
}

async fn held_writes_after_completion_are_refused(env: &Env) -> Verdict {
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("k")), "the claim").await?;
    completed(env, &*store, &complete(&grant, "done"), "it").await?;
    let before = record(&*store, &id("k")).await?;
    let answer = store.renew(&Renew::new(grant.held(), lease_ms(9_000_000))).await?;
    ensure_eq!(env, answer, Renewed::Settled, "a renewal after completion");
    unchanged(env, &*store, &before, "a renewal after completion").await?;
    let fact = SaveCheckpoint::new(grant.held(), label("sent"), "x", lease_ms(9_000_000));
    ensure_eq!(env, store.checkpoint(&fact).await?, Checkpointed::Settled, "a checkpoint after completion");
    unchanged(env, &*store, &before, "a checkpoint after completion").await?;
    let answer = store.release(&Release::new(grant.held())).await?;
    ensure_eq!(env, answer, Released::Settled, "a release after completion");
    unchanged(env, &*store, &before, "a release after completion").await?;
    let answer = store.park(&Park::new(grant.held())).await?;
    ensure_eq!(env, answer, Parked::Settled, "a parking after completion");
    unchanged(env, &*store, &before, "a parking after completion").await
}

async fn a_repeated_claim_returns_what_remains(env: &Env) -> Verdict {
    let store = env.open().await?;
    let own = claim(&id("k")).lease(lease_ms(10_000));
    let first = granted(env, &*store, &own, "the claim").await?;
    ensure_eq!(env, (first.remaining_ms, first.again), (10_000, false), "what remains at first");
    let before = record(&*store, &id("k")).await?;
    for (after_ms, remains_ms) in [(4_000, 6_000), (5_999, 1), (1, 0), (20_000, 0)] {
        env.clock()?.advance_ms(after_ms);
        let again = granted(env, &*store, &own, "the repeated claim").await?;
        let expected = (remains_ms, true, first.fence, first.lease_until);
        let got = (again.remaining_ms, again.again, again.fence, again.lease_until);
        ensure_eq!(env, got, expected, "what remains, again, fence and deadline of a repeated claim");
    }
    unchanged(env, &*store, &before, "a repeated claim").await
}
