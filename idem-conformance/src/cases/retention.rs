//! What is kept, and for how long (G-40 to G-44).

use idem_core::answer::{Claimed, Completed, Erased, Registered, Renewed, Resolved, Swept};
use idem_core::request::{Erase, Query, Register, Renew, Resolve, Verdict as Decision};
use idem_core::{Grant, Lease, Omission, Outcome, OutcomeKind, Retention, Store, Ttl, View};

use crate::capability::Capability;
use crate::env::{
    Env, claim, complete_with, completed, granted, id, intent, label, lapse, lease_ms, other_intent, parked,
    record, replayed, sweep_all, unchanged,
};
use crate::evidence::Fact;
use crate::failure::{Verdict, ensure, ensure_eq, ensure_let};
use crate::race::race_singly;
use crate::registry::{Family, Scenario};

const K: &[Capability] = &[Capability::Clock];

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Retention,
        "EX-001",
        "nothing_is_purged_early",
        &["G-14", "G-41", "G-43"],
        "A sweep removes nothing before the identity deadline, nor before the clock has passed the last fence by the \
         declared step; then it does.",
        |env| Box::pin(nothing_is_purged_early(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 12)]),
    Scenario::new(
        Family::Retention,
        "EX-002",
        "a_tombstone_answers_expired",
        &["G-41", "G-43"],
        "What is left after a sweep erased the content answers Expired with kind, class and reference, and is never \
         granted again.",
        |env| Box::pin(a_tombstone_answers_expired(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 8)]),
    Scenario::new(
        Family::Retention,
        "EX-003",
        "a_tombstone_still_conflicts",
        &["G-05", "G-41"],
        "Another intent is a conflict also after the content was erased by a sweep.",
        |env| Box::pin(a_tombstone_still_conflicts(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 5)]),
    Scenario::new(
        Family::Retention,
        "EX-004",
        "forever_survives_every_purge",
        &["G-40", "G-43"],
        "What is kept for ever is replayed after centuries and after every sweep.",
        |env| Box::pin(forever_survives_every_purge(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 4)]),
    Scenario::new(
        Family::Retention,
        "EX-005",
        "a_purge_is_bounded_and_resumable",
        &["G-43"],
        "One sweep does at most as much as it is asked to, says that there is more, and repeated sweeps finish.",
        |env| Box::pin(a_purge_is_bounded_and_resumable(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 8)]),
    Scenario::new(
        Family::Retention,
        "EX-006",
        "a_purge_spares_what_is_unfinished",
        &["G-42", "G-43"],
        "Registered, running, lapsed and uncertain operations are there after centuries and after every sweep, as they \
         were.",
        |env| Box::pin(a_purge_spares_what_is_unfinished(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 9)]),
    Scenario::new(
        Family::Retention,
        "EX-007",
        "purging_never_fails_a_claim",
        &["G-43", "G-10"],
        "Sweeps that race with claims of the very operations that they purge never make a claim fail, and never remove \
         what was just granted.",
        |env| Box::pin(purging_never_fails_a_claim(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Overlaps, 40), (Fact::Checks, 120)]),
    Scenario::new(
        Family::Retention,
        "EX-008",
        "expiry_does_not_wait_for_a_sweep",
        &["G-41", "G-14"],
        "From its identity deadline on an operation is absent for every request, although nothing has removed it; a \
         grant in its place starts anew, with a higher fence.",
        |env| Box::pin(expiry_does_not_wait_for_a_sweep(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 14)]),
    Scenario::new(
        Family::Retention,
        "EX-009",
        "erasing_keeps_the_identity",
        &["G-44"],
        "Erasing removes body, headers, payload and checkpoint values; the operation answers Expired, still conflicts, \
         and is not erased while it is unfinished.",
        |env| Box::pin(erasing_keeps_the_identity(env)),
    )
    .evidence(&[(Fact::Checks, 20)]),
    Scenario::new(
        Family::Retention,
        "EX-010",
        "a_new_grant_outlives_the_old_expiry",
        &["G-42", "G-41"],
        "A grant over an identity that expired in place is not removed by the expiry of what was there before, neither \
         while it runs nor after it completed for ever.",
        |env| Box::pin(a_new_grant_outlives_the_old_expiry(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 8)]),
    Scenario::new(
        Family::Retention,
        "EX-011",
        "a_response_of_zero_is_never_stored",
        &["G-40"],
        "With a response time of zero the content is not stored at all: the next claim answers Expired, and a \
         repeated completion is still recognised.",
        |env| Box::pin(a_response_of_zero_is_never_stored(env)),
    )
    .evidence(&[(Fact::Checks, 5)]),
];

/// A century.
const CENTURY_MS: u64 = 100 * 365 * 86_400_000;

/// Identity and response kept for so long.
fn finite(identity_ms: u64, response_ms: u64) -> Verdict<Retention> {
    Ok(Retention::forgetting_identity(Ttl::Millis(identity_ms), Ttl::Millis(response_ms), None)?)
}

/// Claims and completes `key`, as a failure with everything that an outcome can have.
async fn finish(env: &Env, store: &dyn Store, key: &str, retention: Retention) -> Verdict<Grant> {
    let grant = granted(env, store, &claim(&id(key)), "the claim").await?;
    let outcome = Outcome::failure("declined").body("secret").header("a", "b").reference("r-1");
    let mut request = complete_with(&grant, outcome);
    request.retention = retention;
    completed(env, store, &request, key).await?;
    Ok(grant)
}

async fn nothing_is_purged_early(env: &Env) -> Verdict {
    let store = env.open().await?;
    let step_ms = store.capabilities().step_ms;
    let grant = finish(env, &*store, "k", finite(10_000, 10_000)?).await?;
    for after_ms in [0, 5_000, 4_999] {
        env.clock()?.advance_ms(after_ms);
        ensure_eq!(env, sweep_all(env, &*store).await?, Swept::default(), "a sweep before every deadline");
        replayed(env, &*store, &claim(&id("k")), "the operation after a sweep").await?;
    }
    // The identity is over from here on, but the fence must be remembered: the clock may step back.
    env.clock()?.advance_ms(1);
    let kept = sweep_all(env, &*store).await?;
    ensure_eq!(
        env,
        kept.purged,
        0,
        "records purged while their fence may still be reached by a backward step"
    );
    env.clock()?.set_ms(grant.fence.get() + step_ms);
    ensure_eq!(
        env,
        sweep_all(env, &*store).await?.purged,
        0,
        "records purged one millisecond before they may be"
    );
    env.clock()?.advance_ms(1);
    ensure_eq!(env, sweep_all(env, &*store).await?.purged, 1, "records purged when they may be");
    ensure!(env, store.get(&id("k")).await?.is_none(), "what was purged must not be there");
    Ok(())
}

async fn a_tombstone_answers_expired(env: &Env) -> Verdict {
    let store = env.open().await?;
    finish(env, &*store, "k", Retention::forever().response(Ttl::Millis(1_000))?).await?;
    let completed_at = env.now();
    env.clock()?.advance_ms(1_000);
    let swept = sweep_all(env, &*store).await?;
    ensure_eq!(env, (swept.erased, swept.purged), (1, 0), "what the sweep erased and purged");
    ensure_eq!(env, sweep_all(env, &*store).await?, Swept::default(), "a second sweep");
    for after_ms in [0, CENTURY_MS] {
        env.clock()?.advance_ms(after_ms);
        let answer = store.claim(&crate::env::take(&id("k"))).await?;
        let expired =
            ensure_let!(env, answer; Claimed::Expired(expired) => expired, "a claim of a tombstone");
        let shown = (expired.kind, expired.class, expired.reference.as_deref(), expired.completed_at);
        let expected = (OutcomeKind::Failure, Some(label("declined")), Some("r-1"), completed_at);
        ensure_eq!(env, shown, expected, "kind, class, reference and time of a tombstone");
        sweep_all(env, &*store).await?;
    }
    Ok(())
}

async fn a_tombstone_still_conflicts(env: &Env) -> Verdict {
    let store = env.open().await?;
    finish(env, &*store, "k", Retention::forever().response(Ttl::Millis(1_000))?).await?;
    env.clock()?.advance_ms(1_000);
    ensure_eq!(env, sweep_all(env, &*store).await?.erased, 1, "erased records");
    let mut other = claim(&id("k"));
    other.fingerprints = other_intent().into();
    ensure_eq!(env, store.claim(&other).await?, Claimed::Conflict, "another intent against a tombstone");
    let answer = store.register(&Register::new(id("k"), other_intent())).await?;
    ensure_eq!(env, answer, Registered::Conflict, "a registration with another intent against a tombstone");
    Ok(())
}

async fn forever_survives_every_purge(env: &Env) -> Verdict {
    let store = env.open().await?;
    finish(env, &*store, "k", Retention::forever()).await?;
    let before = record(&*store, &id("k")).await?;
    env.clock()?.advance_ms(5 * CENTURY_MS);
    sweep_all(env, &*store).await?;
    unchanged(env, &*store, &before, "five centuries and a sweep").await?;
    replayed(env, &*store, &claim(&id("k")), "what is kept for ever").await?;
    Ok(())
}

async fn a_purge_is_bounded_and_resumable(env: &Env) -> Verdict {
    const RECORDS: u64 = 25;
    let store = env.open().await?;
    for index in 0..RECORDS {
        finish(env, &*store, &format!("k{index}"), finite(1_000, 1_000)?).await?;
    }
    granted(env, &*store, &claim(&id("running")), "a running one").await?;
    env.clock()?.advance_ms(1_000 + store.capabilities().step_ms + RECORDS);
    let first = store.sweep(10).await?;
    ensure!(env, first.purged <= 10, "a sweep of 10 purged {}", first.purged);
    ensure!(env, first.more, "a sweep of 10 among {RECORDS} must say that there is more");
    let mut purged = first.purged;
    for _ in 0..RECORDS {
        let swept = store.sweep(10).await?;
        ensure!(env, swept.purged <= 10, "a sweep of 10 purged {}", swept.purged);
        purged += swept.purged;
        if !swept.more {
            break;
        }
    }
    ensure_eq!(env, purged, RECORDS, "purged by all sweeps");
    let left = store.list(&Query::all()).await?;
    ensure_eq!(env, left.records.len(), 1, "records left");
    ensure_eq!(env, store.sweep(0).await?.purged, 0, "purged by a sweep of nothing");
    Ok(())
}

async fn a_purge_spares_what_is_unfinished(env: &Env) -> Verdict {
    let store = env.open().await?;
    store.register(&Register::new(id("received"), intent()).payload("mine")).await?;
    let lapsed =
        granted(env, &*store, &claim(&id("lapsed")).lease(lease_ms(1)), "the claim that lapses").await?;
    parked(env, &*store, "uncertain").await?;
    lapse(env, &*store, &lapsed)?;
    env.clock()?.advance_ms(5 * CENTURY_MS);
    granted(env, &*store, &claim(&id("running")), "the claim that runs").await?;
    let mut before = Vec::new();
    for key in ["received", "lapsed", "uncertain", "running"] {
        before.push(record(&*store, &id(key)).await?);
    }
    ensure_eq!(env, sweep_all(env, &*store).await?, Swept::default(), "a sweep over unfinished operations");
    for record in &before {
        unchanged(env, &*store, record, "a sweep").await?;
    }
    Ok(())
}

async fn purging_never_fails_a_claim(env: &Env) -> Verdict {
    let store = env.open().await?;
    let step_ms = store.capabilities().step_ms;
    let retention = finite(1_000, 1_000)?;
    // One round at a time: a sweep takes whatever is due, also what a later round wants to race for.
    let prepare = async |round: usize| -> Verdict {
        finish(env, &*store, &format!("k{round}"), retention).await?;
        env.clock()?.advance_ms(1_000 + step_ms + 1_000);
        Ok(())
    };
    let rounds = race_singly(env, 40, prepare, async |round, racer| {
        if racer == 0 {
            return store.sweep(100).await.map(|_| None);
        }
        store.claim(&claim(&id(&format!("k{round}"))).lease(Lease::MAX)).await.map(Some)
    })
    .await?;
    for (round, answers) in rounds.into_iter().enumerate() {
        let mut fence = None;
        for answer in answers {
            match answer? {
                None => ensure!(env, true, "a sweep"),
                Some(Claimed::Granted(grant)) => {
                    ensure!(env, fence.replace(grant.fence).is_none(), "round {round} has two winners");
                }
                Some(other) => {
                    ensure_let!(env, other; Claimed::InProgress { .. }, "a loser of round {round}")
                }
            }
        }
        let stored = record(&*store, &id(&format!("k{round}"))).await?;
        ensure_eq!(env, Some(stored.fence()), fence, "the fence that is stored after round {round}");
    }
    Ok(())
}

async fn expiry_does_not_wait_for_a_sweep(env: &Env) -> Verdict {
    let store = env.open().await?;
    let old = finish(env, &*store, "k", finite(1_000, 500)?).await?;
    env.clock()?.advance_ms(999);
    ensure_let!(env, store.claim(&claim(&id("k"))).await?; Claimed::Expired(_), "a claim before the identity deadline");
    let seen = record(&*store, &id("k")).await?;
    env.clock()?.advance_ms(1);
    ensure!(env, store.get(&id("k")).await?.is_none(), "an expired identity must not be read");
    ensure!(
        env,
        store.list(&Query::all()).await?.records.is_empty(),
        "an expired identity must not be listed"
    );
    let stats = store.stats().await?;
    ensure_eq!(
        env,
        (stats.completed, stats.expired),
        (0, 0),
        "completed and expired operations in the statistics"
    );
    ensure_eq!(
        env,
        store.erase(&Erase::new(id("k"))).await?,
        Erased::NotFound,
        "erasing an expired identity"
    );
    let verdict = Decision::DidNotHappen { settle_ms: 0 };
    let resolve = Resolve::new(&seen, verdict, label("operator"), label("late"));
    ensure_eq!(env, store.resolve(&resolve).await?, Resolved::NotFound, "resolving an expired identity");
    let late = store.renew(&Renew::new(old.held(), lease_ms(1))).await?;
    ensure_eq!(env, late, Renewed::Fenced(View::Absent), "the old holder's renewal");
    let nothing = store.claim(&crate::env::recover(&id("k"))).await?;
    ensure_eq!(env, nothing, Claimed::Nothing, "recovering an expired identity");
    let mut anew = claim(&id("k"));
    anew.fingerprints = other_intent().into();
    let grant = granted(env, &*store, &anew, "another intent over an expired identity").await?;
    ensure_eq!(
        env,
        (grant.number, grant.earlier.len()),
        (1, 0),
        "number and history over an expired identity"
    );
    ensure!(
        env,
        grant.fence > old.fence,
        "fence {} follows {} over an expired identity",
        grant.fence,
        old.fence
    );
    let late = store.renew(&Renew::new(old.held(), lease_ms(1))).await?;
    ensure_eq!(env, late, Renewed::Fenced(View::Running), "the old holder's renewal after the new grant");
    Ok(())
}

async fn erasing_keeps_the_identity(env: &Env) -> Verdict {
    let store = env.open().await?;
    store.register(&Register::new(id("k"), intent()).payload("secret")).await?;
    let grant = granted(env, &*store, &claim(&id("k")), "the claim").await?;
    let fact =
        idem_core::request::SaveCheckpoint::new(grant.held(), label("sent"), "secret", lease_ms(1_000));
    store.checkpoint(&fact).await?;
    let outcome = Outcome::failure("declined").body("secret").header("a", "secret").reference("r-1");
    let request = complete_with(&grant, outcome);
    let running = store.erase(&Erase::new(id("k"))).await?;
    ensure_eq!(env, running, Erased::Unfinished { view: View::Running }, "erasing a running operation");
    completed(env, &*store, &request, "it").await?;
    let retained = record(&*store, &id("k")).await?;
    ensure_eq!(env, retained.payload.as_deref(), Some(&b"secret"[..]), "the payload before erasing");

    ensure_eq!(env, store.erase(&Erase::new(id("k"))).await?, Erased::Erased, "erasing");
    let erased = record(&*store, &id("k")).await?;
    ensure_eq!(env, erased.payload, None, "the payload after erasing");
    let values: Vec<_> =
        erased.checkpoints.iter().map(|fact| (fact.name.as_str(), fact.value.len())).collect();
    ensure_eq!(env, values[..], [("sent", 0)], "the checkpoints after erasing");
    let outcome = erased.outcome.as_deref().cloned();
    let shown = outcome.as_ref().map(|outcome| (outcome.omission(), outcome.digest));
    ensure_eq!(env, shown, Some((Some(Omission::Erased), None)), "content and digest after erasing");
    let answer = store.claim(&claim(&id("k"))).await?;
    let expired = ensure_let!(env, answer; Claimed::Expired(expired) => expired, "a claim after erasing");
    let shown = (expired.kind, expired.class, expired.reference.as_deref());
    ensure_eq!(env, shown, (OutcomeKind::Failure, Some(label("declined")), Some("r-1")), "what stays");
    let mut other = claim(&id("k"));
    other.fingerprints = other_intent().into();
    ensure_eq!(env, store.claim(&other).await?, Claimed::Conflict, "another intent after erasing");
    ensure_eq!(env, store.complete(&request).await?, Completed::AlreadyCompleted, "the completion again");
    ensure_eq!(env, store.erase(&Erase::new(id("k"))).await?, Erased::AlreadyErased, "erasing again");
    let with_reference = Erase::new(id("k")).with_reference();
    ensure_eq!(env, store.erase(&with_reference).await?, Erased::Erased, "erasing the reference too");
    let answer = store.claim(&claim(&id("k"))).await?;
    let expired = ensure_let!(env, answer; Claimed::Expired(expired) => expired, "a claim after that");
    ensure_eq!(env, expired.reference, None, "the reference after that");
    ensure_eq!(env, store.erase(&with_reference).await?, Erased::AlreadyErased, "erasing that again");
    parked(env, &*store, "uncertain").await?;
    let uncertain = store.erase(&Erase::new(id("uncertain"))).await?;
    ensure_eq!(
        env,
        uncertain,
        Erased::Unfinished { view: View::Uncertain },
        "erasing an uncertain operation"
    );
    Ok(())
}

async fn a_new_grant_outlives_the_old_expiry(env: &Env) -> Verdict {
    let store = env.open().await?;
    let step_ms = store.capabilities().step_ms;
    for (key, ends) in [("running", false), ("completed", true)] {
        finish(env, &*store, key, finite(1_000, 1_000)?).await?;
        env.clock()?.advance_ms(1_000);
        let grant = granted(env, &*store, &claim(&id(key)), "a grant over an expired identity").await?;
        if ends {
            completed(env, &*store, &complete_with(&grant, Outcome::success().body("new")), "it").await?;
        }
        let before = record(&*store, &id(key)).await?;
        env.clock()?.advance_ms(CENTURY_MS + step_ms);
        sweep_all(env, &*store).await?;
        unchanged(env, &*store, &before, "the expiry of what was there before").await?;
    }
    Ok(())
}

async fn a_response_of_zero_is_never_stored(env: &Env) -> Verdict {
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("k")), "the claim").await?;
    let mut request = complete_with(&grant, Outcome::success().body("secret").reference("r-1"));
    request.retention = Retention::forever().response(Ttl::Millis(0))?;
    completed(env, &*store, &request, "it").await?;
    let answer = store.claim(&claim(&id("k"))).await?;
    let expired = ensure_let!(env, answer; Claimed::Expired(expired) => expired, "the next claim");
    ensure_eq!(env, expired.reference.as_deref(), Some("r-1"), "the reference");
    ensure_eq!(env, store.complete(&request).await?, Completed::AlreadyCompleted, "the completion again");
    Ok(())
}
