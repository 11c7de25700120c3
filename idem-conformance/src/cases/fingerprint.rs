//! Which intent is which (G-04, G-05).

use idem_core::answer::{Claimed, Registered};
use idem_core::request::{Intent, OnLapse, Register};
use idem_core::{Claim, Fingerprint, Fingerprints, Mode, Outcome, Retention, Store, Ttl};

use crate::capability::Capability;
use crate::env::{
    Env, LAPSED_FOR_MS, claim, complete, complete_with, completed, granted, id, intent, label, lease_ms,
    other_intent, parked, replayed,
};
use crate::evidence::Fact;
use crate::failure::{Verdict, ensure, ensure_eq, ensure_let};
use crate::race::race_bare;
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Fingerprint,
        "FP-001",
        "conflict_while_running",
        &["G-05", "G-04"],
        "While an operation runs, a claim and a registration with another intent under its key are a conflict.",
        |env| Box::pin(conflict_while_running(env)),
    )
    .evidence(&[(Fact::Checks, 3)]),
    Scenario::new(
        Family::Fingerprint,
        "FP-002",
        "conflict_after_completion",
        &["G-05"],
        "After completion another intent is a conflict, and the original one is still replayed.",
        |env| Box::pin(conflict_after_completion(env)),
    )
    .evidence(&[(Fact::Checks, 6)]),
    Scenario::new(
        Family::Fingerprint,
        "FP-003",
        "takeover_with_another_intent_is_refused",
        &["G-05", "G-18"],
        "Over a lapsed lease another intent is a conflict, whether it would take over, park or recover; the stored \
         fingerprint is the same after a takeover.",
        |env| Box::pin(takeover_with_another_intent_is_refused(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 7)]),
    Scenario::new(
        Family::Fingerprint,
        "FP-004",
        "conflict_changes_nothing",
        &["G-05"],
        "A conflicting claim or registration leaves the record as it was, in every state.",
        |env| Box::pin(conflict_changes_nothing(env)),
    )
    .evidence(&[(Fact::Checks, 16)]),
    Scenario::new(
        Family::Fingerprint,
        "FP-005",
        "versions_are_explicit",
        &["G-05", "G-04"],
        "A claim that carries no fingerprint of the record's kind is a conflict; one that carries several agrees with \
         the one of its kind. A new record stores the first, and what is stored never changes.",
        |env| Box::pin(versions_are_explicit(env)),
    )
    .evidence(&[(Fact::Checks, 11)]),
    Scenario::new(
        Family::Fingerprint,
        "FP-006",
        "mixed_race_has_one_winner",
        &["G-05", "G-10"],
        "Claims with two intents race: one is granted, those of its intent are told that it runs, those of the other \
         intent are conflicts.",
        |env| Box::pin(mixed_race_has_one_winner(env)),
    )
    .evidence(&[(Fact::Overlaps, 60), (Fact::Checks, 120)]),
    Scenario::new(
        Family::Fingerprint,
        "FP-007",
        "conflict_on_expired_and_uncertain",
        &["G-05", "G-41", "G-22"],
        "Another intent is a conflict also when the response is expired, erased by its policy, and when nobody knows \
         what happened.",
        |env| Box::pin(conflict_on_expired_and_uncertain(env)),
    )
    .evidence(&[(Fact::Checks, 8)]),
];

/// A claim with another intent under the same id.
fn other_claim(key: &str) -> Claim {
    Claim::new(id(key), other_intent(), label("other")).lease(lease_ms(3_600_000))
}

/// Both a claim and a registration with another intent must be conflicts.
async fn both_conflict(env: &Env, store: &dyn Store, key: &str, when: &str) -> Verdict {
    let answer = store.claim(&other_claim(key)).await?;
    ensure_eq!(env, answer, Claimed::Conflict, "a claim with another intent {when}");
    let answer = store.register(&Register::new(id(key), other_intent()).payload("other")).await?;
    ensure_eq!(env, answer, Registered::Conflict, "a registration with another intent {when}");
    Ok(())
}

async fn conflict_while_running(env: &Env) -> Verdict {
    let store = env.open().await?;
    granted(env, &*store, &claim(&id("k")), "the claim").await?;
    both_conflict(env, &*store, "k", "while it runs").await
}

async fn conflict_after_completion(env: &Env) -> Verdict {
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("k")), "the claim").await?;
    completed(env, &*store, &complete(&grant, "done"), "it").await?;
    both_conflict(env, &*store, "k", "after completion").await?;
    let replay = replayed(env, &*store, &claim(&id("k")), "the original intent").await?;
    ensure_eq!(env, replay.outcome.body().map(|body| &body[..]), Some(&b"done"[..]), "the replayed body");
    Ok(())
}

async fn takeover_with_another_intent_is_refused(env: &Env) -> Verdict {
    let store = env.open().await?;
    granted(env, &*store, &claim(&id("k")).lease(lease_ms(1_000)), "the claim").await?;
    env.clock()?.advance_ms(1_000 + store.capabilities().guard_ms + LAPSED_FOR_MS);
    for intent in [Intent::Run(OnLapse::Take), Intent::Run(OnLapse::Park), Intent::Recover] {
        let answer = store.claim(&other_claim("k").intent(intent)).await?;
        ensure_eq!(env, answer, Claimed::Conflict, "another intent over a lapse ({intent:?})");
    }
    let take = claim(&id("k")).intent(Intent::Run(OnLapse::Take));
    let grant = granted(env, &*store, &take, "a takeover with the same intent").await?;
    ensure_eq!(env, grant.mode, Mode::Recover, "mode of the takeover");
    let record = store.get(&id("k")).await?;
    let stored = record.and_then(|record| record.fingerprint);
    ensure_eq!(env, stored, Some(intent()), "the fingerprint after the takeover");
    Ok(())
}

async fn conflict_changes_nothing(env: &Env) -> Verdict {
    let store = env.open().await?;
    store.register(&Register::new(id("received"), intent()).payload("mine")).await?;
    granted(env, &*store, &claim(&id("running")), "the running one").await?;
    let grant = granted(env, &*store, &claim(&id("completed")), "the completed one").await?;
    completed(env, &*store, &complete(&grant, "done"), "it").await?;
    parked(env, &*store, "uncertain").await?;
    for key in ["received", "running", "completed", "uncertain"] {
        let before = store.get(&id(key)).await?;
        ensure!(env, before.is_some(), "the {key} record must be there");
        both_conflict(env, &*store, key, key).await?;
        let after = store.get(&id(key)).await?;
        ensure!(env, before == after, "a conflict changed the {key} record: from {before:?} to {after:?}");
    }
    Ok(())
}

async fn versions_are_explicit(env: &Env) -> Verdict {
    let store = env.open().await?;
    let (one, two) = (Fingerprint::bytes(b"as v1"), Fingerprint::bytes(b"as v2").version(2));
    let keyed = Fingerprint::from_parts(idem_core::Scheme::Bytes, 1, Some(7), *one.digest());
    let carrying = |key: &str, first, others: &[Fingerprint]| -> Verdict<Claim> {
        Ok(Claim::new(id(key), Fingerprints::new(first, others)?, label("suite")).lease(lease_ms(3_600_000)))
    };
    granted(env, &*store, &carrying("old", one, &[])?, "a claim with version 1").await?;
    for (claim, what) in [
        (carrying("old", two, &[])?, "version 2 alone"),
        (carrying("old", keyed, &[])?, "the same digest under a key id"),
        (carrying("old", one.version(2), &[])?, "the same digest as version 2"),
        (carrying("old", other_intent(), &[two])?, "another intent with an alternate"),
    ] {
        ensure_eq!(
            env,
            store.claim(&claim).await?,
            Claimed::Conflict,
            "{what} against a record of version 1"
        );
    }
    let both = store.claim(&carrying("old", two, &[one])?).await?;
    ensure_let!(env, both; Claimed::InProgress { .. }, "version 2 with version 1 as an alternate must agree");
    let stored = store.get(&id("old")).await?.and_then(|record| record.fingerprint);
    ensure_eq!(env, stored, Some(one), "the fingerprint after a claim with alternates");

    granted(env, &*store, &carrying("new", two, &[one])?, "a claim with both versions").await?;
    let stored = store.get(&id("new")).await?.and_then(|record| record.fingerprint);
    ensure_eq!(env, stored, Some(two), "the fingerprint of a new record");
    let old = store.claim(&carrying("new", one, &[])?).await?;
    ensure_eq!(env, old, Claimed::Conflict, "version 1 alone against a record of version 2");
    let all = store.claim(&carrying("new", one, &[keyed, two])?).await?;
    ensure_let!(env, all; Claimed::InProgress { .. }, "a claim with three kinds must agree with the one of the record");
    Ok(())
}

async fn mixed_race_has_one_winner(env: &Env) -> Verdict {
    let store = env.open().await?;
    // Every mixture of intents comes up, also on two cores.
    let is_usual = |round: usize, racer: usize| (round >> racer).is_multiple_of(2);
    let rounds = race_bare(env, 60, async |round, racer| {
        let key = format!("k{round}");
        let claim = if is_usual(round, racer) { claim(&id(&key)) } else { other_claim(&key) };
        store.claim(&claim).await
    })
    .await?;
    for (round, answers) in rounds.into_iter().enumerate() {
        let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
        let winners: Vec<_> = (0..answers.len())
            .filter(|racer| matches!(answers.get(*racer), Some(Claimed::Granted(_))))
            .collect();
        let [winner] = winners[..] else {
            return Err(crate::failure::Failure::new(format!("round {round} has {} winners", winners.len())));
        };
        for (racer, answer) in answers.into_iter().enumerate() {
            match answer {
                Claimed::Granted(_) => ensure!(env, racer == winner, "two winners"),
                Claimed::InProgress { .. } => {
                    ensure!(
                        env,
                        is_usual(round, racer) == is_usual(round, winner),
                        "racer {racer} of the other intent was told that it runs"
                    );
                }
                Claimed::Conflict => {
                    ensure!(
                        env,
                        is_usual(round, racer) != is_usual(round, winner),
                        "racer {racer} of the winner's intent got a conflict"
                    );
                }
                other => ensure!(env, false, "racer {racer} of round {round} was answered {other:?}"),
            }
        }
    }
    Ok(())
}

async fn conflict_on_expired_and_uncertain(env: &Env) -> Verdict {
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("expired")), "the claim").await?;
    let mut request = complete_with(&grant, Outcome::success().body("gone at once"));
    request.retention = Retention::forever().response(Ttl::Millis(0))?;
    completed(env, &*store, &request, "it").await?;
    both_conflict(env, &*store, "expired", "after its response expired").await?;
    parked(env, &*store, "uncertain").await?;
    both_conflict(env, &*store, "uncertain", "while it is uncertain").await?;
    let recover = store.claim(&other_claim("uncertain").intent(Intent::Recover)).await?;
    ensure_eq!(env, recover, Claimed::Conflict, "a recovery with another intent");
    Ok(())
}
