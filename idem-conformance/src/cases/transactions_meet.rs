//! Transactions that meet others: locks, takeovers, duplicates that wait (G-13, G-15, G-50, G-71).

use std::time::Duration;

use idem_core::answer::Claimed;
use idem_core::clock::{Clock, SystemClock};
use idem_core::local::{LocalRun, NotCompleted};
use idem_core::{Claim, Error, ErrorKind, Mode, Retention, Store};
use tokio::sync::Barrier;

use super::transaction::{
    T, absent, commit, completed_in, done, effects, effects_are, effects_at, granted_in, refused, replays,
    roll_back,
};
use crate::capability::Capability;
use crate::env::{Env, claim, complete, granted, id, lapse, record, take};
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict, ensure, ensure_eq, ensure_let};
use crate::hooks::{EffectTransaction, Effects};
use crate::race::together;
use crate::registry::{Family, Scenario};
use crate::runner::RUNTIME;

/// How long a handle waits for a lock that is not given up. Long beside what a call takes, short beside a scenario.
pub(super) const PATIENCE: Duration = Duration::from_millis(400);

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Transaction,
        "TX-005",
        "transactions_that_cross_can_be_repeated",
        &["G-71", "G-50"],
        "Two transactions that take the same two operations in opposite order end, one of them perhaps with an error that \
         says to retry; repeated, both come through, and every operation has one effect.",
        |env| Box::pin(transactions_that_cross_can_be_repeated(env)),
    )
    .needs(T)
    .evidence(&[(Fact::Transactions, 3), (Fact::Checks, 6)]),
    Scenario::new(
        Family::Transaction,
        "TX-006",
        "the_fence_is_checked_inside",
        &["G-70", "G-15"],
        "A holder that was taken over, before its transaction or while it is open, cannot complete in it, and its effect is \
         rolled back; where the takeover had to wait for the transaction, the holder completes.",
        |env| Box::pin(the_fence_is_checked_inside(env)),
    )
    .needs(&[Capability::Transaction, Capability::Clock, Capability::Handles])
    .evidence(&[(Fact::Transactions, 2), (Fact::Checks, 8)]),
    Scenario::new(
        Family::Transaction,
        "TX-007",
        "an_uncommitted_claim_is_waited_for",
        &["G-71", "G-10"],
        "While a claim is not committed, nobody else is granted or answered from it: others wait, bounded, and are then \
         replayed, or granted if it was rolled back, or told to retry.",
        |env| Box::pin(an_uncommitted_claim_is_waited_for(env)),
    )
    .needs(&[Capability::Transaction, Capability::Handles])
    .evidence(&[(Fact::Transactions, 3), (Fact::Waiters, 3), (Fact::Checks, 12)]),
    Scenario::new(
        Family::Transaction,
        "TX-009",
        "a_lease_begins_when_it_is_granted",
        &["G-13", "G-70"],
        "A claim late in a transaction has its whole lease before it: the deadline is counted from the claim, not from the \
         beginning of the transaction.",
        |env| Box::pin(a_lease_begins_when_it_is_granted(env)),
    )
    .needs(T)
    .evidence(&[(Fact::Transactions, 1), (Fact::Checks, 4)]),
    Scenario::new(
        Family::Faults,
        "NF-009",
        "a_lock_is_an_error_and_then_success",
        &["G-50", "G-51", "G-71"],
        "What a transaction of somebody else has locked is waited for, bounded; then the store says that it is unavailable, \
         and neither that the operation runs nor that it is absent. Repeated after the transaction, the same call \
         succeeds.",
        |env| Box::pin(a_lock_is_an_error_and_then_success(env)),
    )
    .needs(&[Capability::Transaction, Capability::Handles])
    .evidence(&[(Fact::Faults, 2), (Fact::Checks, 8)]),
];

/// Whether the error says that nothing, or nobody knows what, happened: repeat it.
pub(super) fn to_retry(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate)
}

/// One transaction over `keys`, in this order, with an effect for each operation that it is granted; once more while it
/// is told to retry.
async fn over_both(effects: &dyn Effects, keys: [&str; 2], met: &Barrier) -> Verdict {
    const TRIES: usize = 50;
    let mut last = None;
    for _ in 0..TRIES {
        match try_both(effects, keys, met).await? {
            Ok(()) => return Ok(()),
            Err(error) if to_retry(&error) => last = Some(error),
            Err(error) => {
                return Err(Failure::new(format!("a transaction that met another was told: {error:?}")));
            }
        }
    }
    Err(Failure::new(format!("{TRIES} tries of a transaction, and the last was told: {last:?}")))
}

/// Errors of the store are for the caller to judge.
async fn try_both(effects: &dyn Effects, keys: [&str; 2], met: &Barrier) -> Verdict<Result<(), Error>> {
    let mut transaction = match effects.begin().await {
        Ok(transaction) => transaction,
        Err(error) => return Ok(Err(error)),
    };
    for (index, key) in keys.into_iter().enumerate() {
        match settle_in(&mut *transaction, key).await {
            Ok(()) => {}
            Err(NotCompleted::Failed(error)) => {
                // Whatever the transaction still is, it is over.
                drop(transaction.roll_back().await);
                return Ok(Err(error));
            }
            Err(refusal) => return Err(refused(refusal)),
        }
        if index == 0 {
            // Both have one operation and want the other, where the store lets both begin.
            drop(tokio::time::timeout(PATIENCE / 4, met.wait()).await);
        }
    }
    Ok(transaction.commit().await)
}

/// Claims, writes and completes what it is granted; leaves alone what is done.
async fn settle_in(transaction: &mut dyn EffectTransaction, key: &str) -> Result<(), NotCompleted> {
    match transaction.claim(&claim(&id(key))).await? {
        Claimed::Granted(grant) => {
            transaction.effect(key).await?;
            transaction.complete(&complete(&grant, key)).await.map(drop)
        }
        Claimed::Replay(_) => Ok(()),
        other => Err(Error::internal(format!("a claim that met another was answered {other:?}")).into()),
    }
}

async fn transactions_that_cross_can_be_repeated(env: &Env) -> Verdict {
    let store = env.open().await?;
    let effects = effects_at(env, &env.site().impatient(PATIENCE)).await?;
    let mut expected = Vec::new();
    for round in 0..3 {
        let keys = [format!("{round}/a"), format!("{round}/b")];
        let [first, second] = [keys[0].as_str(), keys[1].as_str()];
        let met = Barrier::new(2);
        let ended = together(2, async |racer| {
            let order = if racer == 0 { [first, second] } else { [second, first] };
            over_both(&*effects, order, &met).await
        })?;
        for verdict in ended {
            verdict?;
        }
        env.saw(Fact::Transactions, 1);
        expected.extend(keys);
    }
    for key in &expected {
        replays(env, &*store, key, key).await?;
    }
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    effects_are(env, &*effects, &expected, "of operations that two transactions wanted").await
}

async fn the_fence_is_checked_inside(env: &Env) -> Verdict {
    let (store, effects) = (env.open().await?, effects(env).await?);
    let late = granted(env, &*store, &claim(&id("a")), "the first claim").await?;
    lapse(env, &*store, &late)?;
    let successor = granted(env, &*store, &take(&id("a")), "the takeover").await?;
    let mut transaction = effects.begin().await?;
    transaction.effect("late").await?;
    let refusal = transaction.complete(&complete(&late, "late")).await;
    ensure_let!(env, refusal; Err(NotCompleted::Fenced(_)), "the completion of who was taken over");
    roll_back(env, transaction).await?;
    effects_are(env, &*effects, &[], "of who was taken over").await?;
    crate::env::completed(env, &*store, &complete(&successor, "right"), "its successor").await?;

    let holder = granted(env, &*store, &claim(&id("b")), "the second claim").await?;
    let mut transaction = effects.begin().await?;
    transaction.effect("holder").await?;
    lapse(env, &*store, &holder)?;
    let impatient = env.open_at(&env.site().impatient(PATIENCE)).await?;
    let takeover = take(&id("b"));
    let taken = match impatient.claim(&takeover).await {
        Ok(Claimed::Granted(grant)) => Some(grant),
        Err(error) if to_retry(&error) => None,
        other => return Err(Failure::new(format!("a takeover beside a transaction was answered {other:?}"))),
    };
    match (taken, transaction.complete(&complete(&holder, "holder")).await) {
        (Some(grant), Err(NotCompleted::Fenced(_))) => {
            roll_back(env, transaction).await?;
            effects_are(env, &*effects, &[], "of who was taken over meanwhile").await?;
            crate::env::completed(env, &*store, &complete(&grant, "taken"), "who took over").await?;
            replays(env, &*store, "b", "taken").await
        }
        (None, Ok(_)) => {
            commit(env, transaction).await?;
            effects_are(env, &*effects, &["holder"], "of who was not taken over").await?;
            let answer = store.claim(&takeover).await?;
            ensure_let!(env, answer; Claimed::Replay(_), "the takeover that had to wait");
            replays(env, &*store, "b", "holder").await
        }
        (taken, completed) => Err(Failure::new(format!(
            "taken over meanwhile: {}, and the completion was answered {completed:?}",
            taken.is_some()
        ))),
    }
}

/// Asks as an impatient caller while the transaction is open; fails if it is answered from it.
async fn not_yet(env: &Env, store: &dyn Store, request: &Claim) -> Verdict {
    match store.claim(request).await {
        Err(error) if to_retry(&error) => env.saw(Fact::Checks, 1),
        other => {
            return Err(Failure::new(format!("a claim beside an open transaction was answered {other:?}")));
        }
    }
    Ok(())
}

async fn an_uncommitted_claim_is_waited_for(env: &Env) -> Verdict {
    let (store, effects) = (env.open().await?, effects(env).await?);
    let impatient = env.open_at(&env.site().impatient(PATIENCE)).await?;
    for commits in [true, false] {
        let key = if commits { "committed" } else { "rolled back" };
        let mut transaction = effects.begin().await?;
        let grant = granted_in(env, &mut *transaction, key).await?;
        transaction.effect(key).await?;
        completed_in(env, &mut *transaction, &grant, key).await?;
        let other = claim(&id(key));
        not_yet(env, &*impatient, &other).await?;
        // Whoever has more patience is answered when the transaction ends.
        let (patient, waiting) = (env.open().await?, other.clone());
        let waiter = RUNTIME.spawn(async move { patient.claim(&waiting).await });
        if commits {
            commit(env, transaction).await?;
        } else {
            roll_back(env, transaction).await?;
        }
        let answer = waiter.await.map_err(|error| Failure::new(format!("the waiter was lost: {error}")))?;
        let answer = match answer {
            Err(error) if to_retry(&error) => store.claim(&other).await?,
            answer => answer?,
        };
        env.saw(Fact::Waiters, 1);
        if commits {
            ensure_let!(env, answer; Claimed::Replay(_), "the claim that waited for a commit");
            replays(env, &*store, key, key).await?;
        } else {
            let grant = ensure_let!(env, answer; Claimed::Granted(grant) => grant, "the claim that waited for a roll-back");
            ensure_eq!(env, (grant.number, grant.mode), (1, Mode::Execute), "its number and mode");
        }
    }
    effects_are(env, &*effects, &["committed"], "of claims that others waited for").await?;

    let mut transaction = effects.begin().await?;
    let grant = granted_in(env, &mut *transaction, "run").await?;
    transaction.effect("run").await?;
    completed_in(env, &mut *transaction, &grant, "run").await?;
    let waiting = super::transaction::effects(env).await?;
    let waiter = RUNTIME.spawn(async move {
        let mut answer = waiting.run(&claim(&id("run")), Retention::forever(), done("again")).await;
        while answer.as_ref().is_err_and(to_retry) {
            answer = waiting.run(&claim(&id("run")), Retention::forever(), done("again")).await;
        }
        answer
    });
    commit(env, transaction).await?;
    let answer = waiter.await.map_err(|error| Failure::new(format!("the waiter was lost: {error}")))??;
    env.saw(Fact::Waiters, 1);
    ensure_let!(env, answer; LocalRun::Answered(Claimed::Replay(_)), "a closure whose operation was committed meanwhile");
    effects_are(env, &*effects, &["committed", "run"], "in the end").await
}

async fn a_lease_begins_when_it_is_granted(env: &Env) -> Verdict {
    const APART: Duration = Duration::from_millis(80);
    let (store, effects) = (env.open().await?, effects(env).await?);
    let mut transaction = effects.begin().await?;
    // Whatever takes the transaction's time, takes it now.
    transaction.effect("begun").await?;
    let first = granted_in(env, &mut *transaction, "a").await?;
    SystemClock.sleep_until(SystemClock.elapsed().saturating_add(APART)).await;
    let second = granted_in(env, &mut *transaction, "b").await?;
    let later_ms = second.lease_until.as_millis().saturating_sub(first.lease_until.as_millis());
    ensure!(
        env,
        u128::from(later_ms) >= APART.as_millis(),
        "two claims that are {APART:?} apart in one transaction have deadlines that are {later_ms} ms apart"
    );
    completed_in(env, &mut *transaction, &first, "a").await?;
    completed_in(env, &mut *transaction, &second, "b").await?;
    commit(env, transaction).await?;
    let stored = record(&*store, &id("b")).await?;
    let made = record(&*store, &id("a")).await?;
    let apart_ms = stored.created_at.as_millis().saturating_sub(made.created_at.as_millis());
    ensure!(env, u128::from(apart_ms) >= APART.as_millis(), "their records are {apart_ms} ms apart");
    Ok(())
}

async fn a_lock_is_an_error_and_then_success(env: &Env) -> Verdict {
    let (store, effects) = (env.open().await?, effects(env).await?);
    let impatient = env.open_at(&env.site().impatient(PATIENCE)).await?;
    let mut transaction = effects.begin().await?;
    granted_in(env, &mut *transaction, "new").await?;
    let request = claim(&id("new"));
    for _ in 0..2 {
        match impatient.claim(&request).await {
            // Certainly not applied: the lock was never had.
            Err(error) if error.kind() == ErrorKind::Unavailable => env.saw(Fact::Faults, 1),
            other => return Err(Failure::new(format!("a claim of what is locked was answered {other:?}"))),
        }
        ensure!(env, true, "the lock was waited for and told");
    }
    // Who only looks is not held up.
    absent(env, &*impatient, "new", "while its claim is not committed").await?;
    roll_back(env, transaction).await?;
    let grant = granted(env, &*impatient, &request, "the same call after the lock").await?;
    ensure_eq!(env, (grant.number, grant.again), (1, false), "its number, and whether it is a repetition");

    let mut transaction = effects.begin().await?;
    transaction.effect("x").await?;
    completed_in(env, &mut *transaction, &grant, "x").await?;
    let held = crate::env::complete(&grant, "y");
    match impatient.complete(&held).await {
        Err(error) if to_retry(&error) => env.saw(Fact::Faults, 1),
        other => return Err(Failure::new(format!("a completion of what is locked was answered {other:?}"))),
    }
    roll_back(env, transaction).await?;
    crate::env::completed(env, &*impatient, &held, "the same completion after the lock").await?;
    replays(env, &*store, "new", "y").await
}
