//! Effects in the ledger's own transaction: together or not at all (G-31, G-70).

use std::sync::Arc;

use idem_core::answer::{Claimed, Completed, Released};
use idem_core::local::{LocalRun, NotCompleted};
use idem_core::request::{Complete, Held, Release};
use idem_core::{AttemptId, Grant, Mode, Outcome, OutcomeKind, Retention, State, Store};

use crate::capability::Capability;
use crate::env::{Env, claim, complete, granted, id, other_intent, record, replayed, unchanged};
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict, ensure, ensure_eq, ensure_let};
use crate::hooks::{Effect, EffectTransaction, Effects, End};
use crate::registry::{Family, Scenario};
use crate::site::Site;

pub(super) const T: &[Capability] = &[Capability::Transaction];

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Transaction,
        "TX-001",
        "committed_together",
        &["G-70"],
        "Effect, record and outcome of one transaction are seen by nobody before its commit and by everybody after it, \
         whether the caller commits or the store; a duplicate replays and runs nothing.",
        |env| Box::pin(committed_together(env)),
    )
    .needs(T)
    .evidence(&[(Fact::Transactions, 2), (Fact::Checks, 16)]),
    Scenario::new(
        Family::Transaction,
        "TX-002",
        "rolled_back_together",
        &["G-70", "G-31"],
        "A transaction that is rolled back, dropped, or run by the store and failed leaves no effect and no record: the \
         key is as never used, and a lease that was taken outside is still held.",
        |env| Box::pin(rolled_back_together(env)),
    )
    .needs(T)
    .evidence(&[(Fact::Transactions, 5), (Fact::Checks, 20)]),
    Scenario::new(
        Family::Transaction,
        "TX-003",
        "a_refused_completion_is_an_error",
        &["G-70", "G-15", "G-16"],
        "A completion that does not apply (another holder, another outcome, no record) is an error, so that the effect in \
         the same transaction goes with it; and a closure whose claim is not granted does not run.",
        |env| Box::pin(a_refused_completion_is_an_error(env)),
    )
    .needs(T)
    .evidence(&[(Fact::Transactions, 4), (Fact::Checks, 16)]),
    Scenario::new(
        Family::Transaction,
        "TX-004",
        "a_failure_is_stored_without_the_effect",
        &["G-70", "G-31"],
        "A closure that fails for good, after it wrote, leaves its failure, which is replayed, and nothing that it wrote; \
         one that panics leaves nothing at all.",
        |env| Box::pin(a_failure_is_stored_without_the_effect(env)),
    )
    .needs(T)
    .evidence(&[(Fact::Transactions, 3), (Fact::Checks, 12)]),
    Scenario::new(
        Family::Transaction,
        "TX-008",
        "a_duplicate_leaves_the_transaction_alone",
        &["G-71", "G-70"],
        "A replay, a conflict and an operation in progress inside of a transaction do not abort it: what was written before \
         and after them is committed.",
        |env| Box::pin(a_duplicate_leaves_the_transaction_alone(env)),
    )
    .needs(T)
    .evidence(&[(Fact::Transactions, 1), (Fact::Checks, 10)]),
];

/// The effects of `site`.
pub(super) async fn effects_at(env: &Env, site: &Site) -> Verdict<Arc<dyn Effects>> {
    Ok(env.harness().effects(site).await?)
}

/// The effects of the scenario's site.
pub(super) async fn effects(env: &Env) -> Verdict<Arc<dyn Effects>> {
    effects_at(env, env.site()).await
}

/// Claims in the transaction, and fails unless it is granted.
pub(super) async fn granted_in(
    env: &Env,
    transaction: &mut dyn EffectTransaction,
    key: &str,
) -> Verdict<Grant> {
    let answer = transaction.claim(&claim(&id(key))).await?;
    env.saw(Fact::Calls, 1);
    Ok(*ensure_let!(env, answer; Claimed::Granted(grant) => grant, "the claim of {key} in the transaction"))
}

/// Completes in the transaction with `body`, and fails unless it is applied.
pub(super) async fn completed_in(
    env: &Env,
    transaction: &mut dyn EffectTransaction,
    grant: &Grant,
    body: &str,
) -> Verdict {
    let answer = transaction.complete(&complete(grant, body)).await.map_err(refused)?;
    env.saw(Fact::Calls, 1);
    ensure_let!(env, answer; Completed::Completed { .. }, "the completion in the transaction");
    Ok(())
}

/// A completion that was refused where it was due.
pub(super) fn refused(refusal: NotCompleted) -> Failure {
    Failure::new(format!("the completion in the transaction was refused: {refusal:?}"))
}

/// Commits, and counts it.
pub(super) async fn commit(env: &Env, transaction: Box<dyn EffectTransaction>) -> Verdict {
    transaction.commit().await?;
    env.saw(Fact::Transactions, 1);
    Ok(())
}

/// Rolls back, and counts it.
pub(super) async fn roll_back(env: &Env, transaction: Box<dyn EffectTransaction>) -> Verdict {
    transaction.roll_back().await?;
    env.saw(Fact::Transactions, 1);
    Ok(())
}

/// Fails unless exactly these effects are committed.
pub(super) async fn effects_are(env: &Env, effects: &dyn Effects, expected: &[&str], when: &str) -> Verdict {
    let mut seen = effects.committed().await?;
    seen.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    ensure_eq!(env, seen, expected, "the effects {when}");
    Ok(())
}

/// Fails unless nothing is stored under `key`.
pub(super) async fn absent(env: &Env, store: &dyn Store, key: &str, when: &str) -> Verdict {
    let found = store.get(&id(key)).await?;
    ensure!(env, found.is_none(), "the record of {key} is there {when}: {found:?}");
    Ok(())
}

/// Fails unless whoever claims `key` is replayed `body`.
pub(super) async fn replays(env: &Env, store: &dyn Store, key: &str, body: &str) -> Verdict {
    let replay = replayed(env, store, &claim(&id(key)), "it").await?;
    let stored = replay.outcome.body().map(|body| String::from_utf8_lossy(body).into_owned());
    ensure_eq!(env, stored.as_deref(), Some(body), "the body that is replayed for {key}");
    Ok(())
}

/// A closure that writes `text` and ends well with it.
pub(super) fn done(text: &str) -> Effect {
    Effect::new(text, End::Done(Outcome::success().body(text.to_owned())))
}

async fn committed_together(env: &Env) -> Verdict {
    let (store, effects) = (env.open().await?, effects(env).await?);
    let mut transaction = effects.begin().await?;
    let grant = granted_in(env, &mut *transaction, "a").await?;
    ensure_eq!(env, (grant.number, grant.mode), (1, Mode::Execute), "number and mode of the grant");
    transaction.effect("one").await?;
    effects_are(env, &*effects, &[], "before the completion").await?;
    completed_in(env, &mut *transaction, &grant, "one").await?;
    effects_are(env, &*effects, &[], "before the commit").await?;
    absent(env, &*store, "a", "before the commit").await?;
    commit(env, transaction).await?;
    effects_are(env, &*effects, &["one"], "after the commit").await?;
    let stored = record(&*store, &id("a")).await?;
    stored.check()?;
    ensure_eq!(env, stored.state, State::Completed, "the state after the commit");
    replays(env, &*store, "a", "one").await?;

    for again in [false, true] {
        let run = effects.run(&claim(&id("b")), Retention::forever(), done("two")).await?;
        env.saw(Fact::Calls, 1);
        if again {
            let answer = ensure_let!(env, run; LocalRun::Answered(claimed) => claimed, "the same run again");
            ensure_let!(env, answer; Claimed::Replay(_), "what the same run is answered");
        } else {
            let executed =
                ensure_let!(env, run; LocalRun::Executed(executed) => executed, "the store's own commit");
            ensure_eq!(env, executed.attempt_number, 1, "the number of the attempt");
            env.saw(Fact::Transactions, 1);
        }
        effects_are(env, &*effects, &["one", "two"], "of both").await?;
    }
    replays(env, &*store, "b", "two").await
}

async fn rolled_back_together(env: &Env) -> Verdict {
    let (store, effects) = (env.open().await?, effects(env).await?);
    for dropped in [false, true] {
        let mut transaction = effects.begin().await?;
        let grant = granted_in(env, &mut *transaction, "a").await?;
        transaction.effect("one").await?;
        completed_in(env, &mut *transaction, &grant, "one").await?;
        if dropped {
            drop(transaction);
            env.saw(Fact::Transactions, 1);
        } else {
            roll_back(env, transaction).await?;
        }
        effects_are(env, &*effects, &[], "after the roll-back").await?;
        absent(env, &*store, "a", "after the roll-back").await?;
    }

    // A lease that was taken before the transaction is not the transaction's to give up.
    let grant = granted(env, &*store, &claim(&id("b")), "the claim outside").await?;
    let held = record(&*store, &id("b")).await?;
    let mut transaction = effects.begin().await?;
    transaction.effect("two").await?;
    completed_in(env, &mut *transaction, &grant, "two").await?;
    roll_back(env, transaction).await?;
    effects_are(env, &*effects, &[], "after the roll-back of what a lease holds").await?;
    unchanged(env, &*store, &held, "a completion that was rolled back").await?;
    let mut transaction = effects.begin().await?;
    transaction.effect("two").await?;
    completed_in(env, &mut *transaction, &grant, "two").await?;
    commit(env, transaction).await?;
    replays(env, &*store, "b", "two").await?;

    let gives_up = Effect::new("three", End::NoEffect);
    let run = effects.run(&claim(&id("c")), Retention::forever(), gives_up).await?;
    ensure_let!(env, run; LocalRun::RolledBack(_), "a closure that gives up");
    env.saw(Fact::Transactions, 1);
    absent(env, &*store, "c", "after its closure gave up").await?;
    for key in ["a", "c"] {
        let grant = granted(env, &*store, &claim(&id(key)), "the next claim").await?;
        ensure_eq!(env, (grant.number, grant.mode), (1, Mode::Execute), "number and mode of the next grant");
    }
    effects_are(env, &*effects, &["two"], "in the end").await
}

async fn a_refused_completion_is_an_error(env: &Env) -> Verdict {
    let (store, effects) = (env.open().await?, effects(env).await?);
    let released = granted(env, &*store, &claim(&id("a")), "the claim to release").await?;
    let answer = store.release(&Release::new(released.held())).await?;
    ensure_let!(env, answer; Released::Released { .. }, "the release");
    let settled = granted(env, &*store, &claim(&id("b")), "the claim to complete").await?;
    crate::env::completed(env, &*store, &complete(&settled, "first"), "it").await?;
    let nobody =
        Complete::new(Held::new(id("c"), AttemptId::random()), Outcome::success(), Retention::forever());
    for (what, request) in [
        ("of a released attempt", complete(&released, "late")),
        ("with another outcome", complete(&settled, "second")),
        ("of nobody's attempt", nobody),
    ] {
        let mut transaction = effects.begin().await?;
        transaction.effect(what).await?;
        let refusal = transaction.complete(&request).await;
        env.saw(Fact::Calls, 1);
        match refusal {
            Err(NotCompleted::Fenced(_) | NotCompleted::OutcomeConflict) => env.saw(Fact::Checks, 1),
            other => return Err(Failure::new(format!("a completion {what} was answered {other:?}"))),
        }
        roll_back(env, transaction).await?;
        effects_are(env, &*effects, &[], "of transactions whose completion was refused").await?;
    }
    ensure_eq!(
        env,
        record(&*store, &id("a")).await?.state,
        State::Received,
        "the state of what was released"
    );
    replays(env, &*store, "b", "first").await?;
    absent(env, &*store, "c", "although nobody claimed it").await?;

    granted(env, &*store, &claim(&id("d")), "the claim of another").await?;
    let held = record(&*store, &id("d")).await?;
    let run = effects.run(&claim(&id("d")), Retention::forever(), done("four")).await?;
    let answer =
        ensure_let!(env, run; LocalRun::Answered(claimed) => claimed, "a closure for what another holds");
    ensure_let!(env, answer; Claimed::InProgress { .. }, "what its caller is told");
    env.saw(Fact::Transactions, 1);
    unchanged(env, &*store, &held, "a closure that did not run").await?;
    effects_are(env, &*effects, &[], "in the end").await
}

async fn a_failure_is_stored_without_the_effect(env: &Env) -> Verdict {
    let (store, effects) = (env.open().await?, effects(env).await?);
    let declined = Outcome::failure("declined").body("no money");
    let failing = Effect::new("paid", End::Permanent(declined));
    let run = effects.run(&claim(&id("a")), Retention::forever(), failing).await?;
    let executed =
        ensure_let!(env, run; LocalRun::Executed(executed) => executed, "a closure that fails for good");
    ensure_eq!(env, executed.outcome.kind(), OutcomeKind::Failure, "the kind of its outcome");
    env.saw(Fact::Transactions, 1);
    effects_are(env, &*effects, &[], "after a failure for good").await?;
    let replay = replayed(env, &*store, &claim(&id("a")), "the failure").await?;
    ensure_eq!(env, replay.outcome.kind, OutcomeKind::Failure, "the kind that is replayed");
    ensure_eq!(
        env,
        replay.outcome.body().map(|body| &body[..]),
        Some(&b"no money"[..]),
        "the failure's body"
    );
    let again = effects.run(&claim(&id("a")), Retention::forever(), done("paid")).await?;
    ensure_let!(env, again; LocalRun::Answered(Claimed::Replay(_)), "a run after a failure for good");

    let run = effects.run(&claim(&id("b")), Retention::forever(), Effect::new("paid", End::Panic)).await?;
    ensure_let!(env, run; LocalRun::RolledBack(_), "a closure that panics");
    env.saw(Fact::Transactions, 1);
    effects_are(env, &*effects, &[], "after a panic").await?;
    absent(env, &*store, "b", "after a panic").await?;
    let run = effects.run(&claim(&id("b")), Retention::forever(), done("paid")).await?;
    ensure_let!(env, run; LocalRun::Executed(_), "the next run of what panicked");
    env.saw(Fact::Transactions, 1);
    effects_are(env, &*effects, &["paid"], "in the end").await
}

async fn a_duplicate_leaves_the_transaction_alone(env: &Env) -> Verdict {
    let (store, effects) = (env.open().await?, effects(env).await?);
    let grant = granted(env, &*store, &claim(&id("done")), "the first").await?;
    crate::env::completed(env, &*store, &complete(&grant, "done"), "it").await?;
    granted(env, &*store, &claim(&id("held")), "the claim of another").await?;

    let mut transaction = effects.begin().await?;
    transaction.effect("before").await?;
    let duplicate = transaction.claim(&claim(&id("done"))).await?;
    ensure_let!(env, duplicate; Claimed::Replay(_), "a duplicate in the transaction");
    transaction.effect("between").await?;
    let mut conflicting = claim(&id("done"));
    conflicting.fingerprints = other_intent().into();
    let conflict = transaction.claim(&conflicting).await?;
    ensure_let!(env, conflict; Claimed::Conflict, "another intent in the transaction");
    let busy = transaction.claim(&claim(&id("held"))).await?;
    ensure_let!(env, busy; Claimed::InProgress { .. }, "what another holds, in the transaction");
    let grant = granted_in(env, &mut *transaction, "new").await?;
    transaction.effect("after").await?;
    completed_in(env, &mut *transaction, &grant, "after").await?;
    commit(env, transaction).await?;
    effects_are(env, &*effects, &["before", "between", "after"], "after the commit").await?;
    replays(env, &*store, "new", "after").await?;
    replays(env, &*store, "done", "done").await
}
