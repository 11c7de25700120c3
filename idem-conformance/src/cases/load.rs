//! Many operations (G-10, G-43).

use std::time::Duration;

use idem_core::clock::{Clock, SystemClock};
use idem_core::request::Query;
use idem_core::{Retention, Ttl, View};

use crate::capability::Capability;
use crate::env::{Env, claim, complete, completed, granted, id, replayed, sweep_all};
use crate::evidence::Fact;
use crate::failure::{Verdict, ensure, ensure_eq};
use crate::race::together;
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Load,
        "LD-001",
        "many_operations_without_violation",
        &["G-10", "G-30"],
        "10,000 operations by 4 threads (fewer, at least 500, where they take more than 4 seconds) are claimed, completed \
         and replayed, each with its own outcome; the statistics count them.",
        |env| Box::pin(many_operations_without_violation(env)),
    )
    .evidence(&[(Fact::Operations, 500), (Fact::Checks, 2_000)]),
    Scenario::new(
        Family::Load,
        "LD-003",
        "a_soak_leaves_nothing",
        &["G-43", "G-90"],
        "Waves of operations with a short identity leave nothing behind once they are swept, and pages list every \
         record exactly once before that.",
        |env| Box::pin(a_soak_leaves_nothing(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Operations, 600), (Fact::Checks, 1_200)]),
];

async fn many_operations_without_violation(env: &Env) -> Verdict {
    const THREADS: usize = 4;
    const OPERATIONS_MIN: usize = 500 / THREADS;
    const LONGEST: Duration = Duration::from_secs(4);
    let operations = env.amount(10_000, 500) / THREADS;
    let store = env.open().await?;
    let started = SystemClock.elapsed();
    let run = async |thread: usize| -> Verdict<u64> {
        let mut done = 0;
        for index in 0..operations {
            if index >= OPERATIONS_MIN && SystemClock.elapsed().saturating_sub(started) > LONGEST {
                break;
            }
            let key = format!("{thread}/{index}");
            let grant = granted(env, &*store, &claim(&id(&key)), "the claim").await?;
            completed(env, &*store, &complete(&grant, &key), "it").await?;
            let replay = replayed(env, &*store, &claim(&id(&key)), "the operation").await?;
            let body = replay.outcome.body().map(|body| &body[..]);
            ensure_eq!(env, body, Some(key.as_bytes()), "the body of {key}");
            env.saw(Fact::Operations, 1);
            done += 1;
        }
        Ok(done)
    };
    let mut done = 0;
    for count in together(THREADS, run)? {
        done += count?;
    }
    let stats = store.stats().await?;
    ensure_eq!(env, (stats.completed, stats.running), (done, 0), "completed and running operations");
    Ok(())
}

async fn a_soak_leaves_nothing(env: &Env) -> Verdict {
    const WAVES: u64 = 3;
    const RECORDS: u64 = 200;
    let store = env.open().await?;
    let retention = Retention::forgetting_identity(Ttl::Millis(1_000), Ttl::Millis(1_000), None)?;
    for wave in 0..WAVES {
        for index in 0..RECORDS {
            let grant = granted(env, &*store, &claim(&id(&format!("{wave}/{index}"))), "the claim").await?;
            let mut request = complete(&grant, "x");
            request.retention = retention;
            completed(env, &*store, &request, "it").await?;
            env.saw(Fact::Operations, 1);
        }
        let mut query = Query::all();
        query.limit = 7;
        query.views = vec![View::Completed];
        let mut listed = Vec::new();
        for _ in 0..=RECORDS {
            let page = store.list(&query).await?;
            ensure!(env, page.records.len() <= 7, "a page of 7 has {} records", page.records.len());
            listed.extend(page.records.into_iter().map(|record| record.id));
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        let (shown, before) = (listed.len() as u64, RECORDS);
        listed.sort();
        listed.dedup();
        ensure_eq!(
            env,
            (shown, listed.len() as u64),
            (before, before),
            "records on all pages, and different ones"
        );
        env.clock()?.advance_ms(1_000 + store.capabilities().step_ms + RECORDS);
        sweep_all(env, &*store).await?;
        let left = store.list(&Query::all()).await?.records.len();
        ensure_eq!(env, left, 0, "records that are left after wave {wave}");
    }
    let stats = store.stats().await?;
    let counts =
        [stats.received, stats.running, stats.lapsed, stats.completed, stats.expired, stats.uncertain];
    ensure_eq!(env, counts, [0; 6], "operations that are counted after the last wave");
    Ok(())
}
