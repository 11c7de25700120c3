//! Waiters, and callers that go away in the middle of a call (G-34, G-53).

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use idem_core::answer::{Claimed, Completed, Released};
use idem_core::request::Release;
use idem_core::{OperationId, Store};

use crate::capability::Capability;
use crate::env::{Env, claim, complete, completed, granted, id, record, replayed};
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict, ensure, ensure_eq, ensure_let};
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Concurrency,
        "CC-004",
        "waiters_all_get_the_same_bytes",
        &["G-34", "G-30"],
        "Everybody who waits for a running operation is woken by its completion and is replayed the same bytes; a \
         change between asking and waiting is not missed.",
        |env| Box::pin(waiters_all_get_the_same_bytes(env)),
    )
    .needs(&[Capability::Wait])
    .evidence(&[(Fact::Waiters, 160), (Fact::Checks, 160)]),
    Scenario::new(
        Family::Concurrency,
        "CC-011",
        "a_dropped_future_leaves_no_half_state",
        &["G-53", "G-12"],
        "A claim or a completion that is dropped after any number of polls was applied as a whole or not at all; the \
         handle goes on working, and repeating the call settles it.",
        |env| Box::pin(a_dropped_future_leaves_no_half_state(env)),
    )
    .evidence(&[(Fact::Drops, 2), (Fact::Checks, 44)]),
    Scenario::new(
        Family::Load,
        "LD-002",
        "a_hot_key_has_no_stampede",
        &["G-34"],
        "64 waiters on one key get its bytes with a bounded number of claims, and after a release exactly one of them is \
         granted.",
        |env| Box::pin(a_hot_key_has_no_stampede(env)),
    )
    .needs(&[Capability::Wait])
    .evidence(&[(Fact::Waiters, 128), (Fact::Checks, 66)]),
];

/// How long a waiter waits before it counts as forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);

/// What a waiter learns in the end, and how many claims it took.
struct Woken {
    answer: Claimed,
    claims: u64,
}

/// Claims until something else than "in progress" is answered, waiting to be woken in between, never polling.
async fn wait(store: Arc<dyn Store>, id: OperationId, waiting: Arc<AtomicU64>) -> Verdict<Woken> {
    const CLAIMS_MAX: u64 = 100;
    let mut asked = false;
    for claims in 1..=CLAIMS_MAX {
        let answer = store.claim(&claim(&id)).await?;
        let Claimed::InProgress { version, .. } = answer else {
            if let Claimed::Granted(grant) = &answer {
                // The others wait for this one now.
                store.complete(&complete(grant, "after all")).await?;
            }
            return Ok(Woken { answer, claims });
        };
        if !asked {
            asked = true;
            waiting.fetch_add(1, Ordering::SeqCst);
        }
        let woken = tokio::time::timeout(FORGOTTEN_AFTER, store.changed(&id, version)).await;
        woken.map_err(|_| Failure::new(format!("a waiter was never woken: it saw version {version}")))?;
    }
    Err(Failure::new(format!("a waiter was woken {CLAIMS_MAX} times for nothing")))
}

/// Starts waiters on `id`, and gives them once every one has been told that the operation is in progress.
async fn start_waiters(
    store: &Arc<dyn Store>,
    id: &OperationId,
    count: u64,
) -> Vec<tokio::task::JoinHandle<Verdict<Woken>>> {
    let waiting = Arc::new(AtomicU64::new(0));
    let waiters =
        (0..count).map(|_| tokio::spawn(wait(store.clone(), id.clone(), waiting.clone()))).collect();
    while waiting.load(Ordering::SeqCst) < count {
        tokio::task::yield_now().await;
    }
    waiters
}

async fn end_of(waiter: tokio::task::JoinHandle<Verdict<Woken>>) -> Verdict<Woken> {
    waiter.await.map_err(|_| Failure::new("a waiter panicked"))?
}

async fn waiters_all_get_the_same_bytes(env: &Env) -> Verdict {
    let store = env.open().await?;
    for round in 0..20 {
        let key = format!("k{round}");
        let grant = granted(env, &*store, &claim(&id(&key)), "the claim").await?;
        let running = record(&*store, &id(&key)).await?.version;
        let waiters = start_waiters(&store, &id(&key), 8).await;
        completed(env, &*store, &complete(&grant, &key), "it").await?;
        for waiter in waiters {
            let woken = end_of(waiter).await?;
            let replay =
                ensure_let!(env, woken.answer; Claimed::Replay(replay) => replay, "a waiter's answer");
            let body = replay.outcome.body().map(|body| &body[..]);
            ensure_eq!(env, body, Some(key.as_bytes()), "the bytes that a waiter got");
            env.saw(Fact::Waiters, 1);
        }
        // Whoever asked before the completion and waits after it must not wait at all.
        let late = tokio::time::timeout(FORGOTTEN_AFTER, store.changed(&id(&key), running)).await;
        ensure!(
            env,
            late.is_ok(),
            "a waiter was never woken: the change came between its question and its waiting"
        );
    }
    Ok(())
}

async fn a_hot_key_has_no_stampede(env: &Env) -> Verdict {
    const WAITERS: u64 = 64;
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("k")), "the claim").await?;
    let waiters = start_waiters(&store, &id("k"), WAITERS).await;
    completed(env, &*store, &complete(&grant, "hot"), "it").await?;
    let mut claims = 0;
    for waiter in waiters {
        let woken = end_of(waiter).await?;
        ensure_let!(env, woken.answer; Claimed::Replay(_), "a waiter's answer");
        claims += woken.claims;
        env.saw(Fact::Waiters, 1);
    }
    // Two claims each, and some for bells that are shared with a neighbour.
    ensure!(env, claims <= WAITERS * 4, "{WAITERS} waiters needed {claims} claims");

    let grant = granted(env, &*store, &claim(&id("released")), "the claim").await?;
    let waiters = start_waiters(&store, &id("released"), WAITERS).await;
    let released = store.release(&Release::new(grant.held())).await?;
    ensure_let!(env, released; Released::Released { .. }, "the release");
    let mut grants = 0;
    for waiter in waiters {
        match end_of(waiter).await?.answer {
            Claimed::Granted(_) => grants += 1,
            other => ensure_let!(env, other; Claimed::Replay(_), "a waiter's answer after the release"),
        }
        env.saw(Fact::Waiters, 1);
    }
    ensure_eq!(env, grants, 1, "waiters that were granted after the release");
    Ok(())
}

/// Polls `future` at most `polls` times, each time when it asks for it, and then drops it.
async fn drop_after<T>(polls: u32, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        let Some(next) = left.checked_sub(1) else { return std::task::Poll::Ready(None) };
        left = next;
        match future.as_mut().poll(context) {
            std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
            std::task::Poll::Pending if left == 0 => std::task::Poll::Ready(None),
            std::task::Poll::Pending => std::task::Poll::Pending,
        }
    })
    .await
}

async fn a_dropped_future_leaves_no_half_state(env: &Env) -> Verdict {
    const POLLS_MAX: u32 = 10;
    let store = env.open().await?;
    for polls in 0..=POLLS_MAX {
        let key = format!("claim-{polls}");
        let own = claim(&id(&key));
        let answered = drop_after(polls, store.claim(&own)).await.transpose()?;
        env.saw(Fact::Drops, u64::from(answered.is_none()));
        if let Some(stored) = store.get(&id(&key)).await? {
            stored.check()?;
            let holder = stored.current.as_ref().map(|attempt| attempt.id);
            ensure_eq!(
                env,
                holder,
                Some(own.attempt),
                "the attempt on the record of a dropped claim ({polls} polls)"
            );
        }
        settle_after_a_dropped_claim(env, &*store, &own, &key).await?;

        let key = format!("complete-{polls}");
        let grant = granted(env, &*store, &claim(&id(&key)), "the claim").await?;
        let request = complete(&grant, &key);
        let answered = drop_after(polls, store.complete(&request)).await.transpose()?;
        env.saw(Fact::Drops, u64::from(answered.is_none()));
        let again = store.complete(&request).await?;
        ensure_let!(
            env, again; Completed::Completed { .. } | Completed::AlreadyCompleted,
            "a completion that is repeated after it was dropped"
        );
        let replay = replayed(env, &*store, &claim(&id(&key)), "the operation").await?;
        ensure_eq!(
            env,
            replay.outcome.body().map(|body| &body[..]),
            Some(key.as_bytes()),
            "the body of {key}"
        );
    }
    Ok(())
}

/// A dropped claim may not have been applied, may have been, or may be given back in the background. In every case the
/// operation can be completed, by its own attempt or by another.
async fn settle_after_a_dropped_claim(
    env: &Env,
    store: &dyn Store,
    own: &idem_core::Claim,
    key: &str,
) -> Verdict {
    const TRIES_MAX: u32 = 1_000;
    for _ in 0..TRIES_MAX {
        let answer = match store.claim(own).await? {
            Claimed::Ended => store.claim(&claim(&own.id)).await?,
            answer => answer,
        };
        if let Claimed::Granted(grant) = answer {
            let settled = store.complete(&complete(&grant, key)).await?;
            if matches!(settled, Completed::Completed { .. }) {
                replayed(env, store, &claim(&own.id), "the operation").await?;
                return Ok(());
            }
        }
        tokio::task::yield_now().await;
    }
    Err(Failure::new(format!("after a dropped claim nobody could settle {key}")))
}
