//! Processes that are killed in the middle of a call, or at any time (G-43, G-53, G-62).

use std::time::Duration;

use idem_core::answer::Claimed;
use idem_core::clock::{Clock, SystemClock};
use idem_core::request::Query;
use idem_core::{Retention, State, Store, Ttl, View};

use super::crash::P_D;
use crate::capability::Capability;
use crate::crash::child::end_of;
use crate::crash::worker::attempt_of;
use crate::crash::{Ended, Flight, Job, Provider, run_child, start_child};
use crate::env::{
    Env, claim, complete, completed, granted, id, record, replayed, sweep_all, take, unchanged,
};
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict, ensure, ensure_eq, ensure_let};
use crate::registry::{Family, Scenario};
use crate::site::Site;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Concurrency,
        "CC-003",
        "one_winner_over_processes",
        &["G-10"],
        "Three processes race for the same operations; each is granted to exactly one of them.",
        |env| Box::pin(one_winner_over_processes(env)),
    )
    .needs(&[Capability::Process])
    .evidence(&[(Fact::Overlaps, 5), (Fact::Checks, 100)]),
    Scenario::new(
        Family::Crash,
        "CR-002",
        "killed_during_a_claim_or_a_completion",
        &["G-10", "G-53", "G-62"],
        "A process is killed at several moments of a claim and of a completion: each was applied as a whole or not at \
         all, and the operation goes on from there.",
        |env| Box::pin(killed_during_a_call(env)),
    )
    .needs(P_D)
    .evidence(&[(Fact::Kills, 20), (Fact::Checks, 50)]),
    Scenario::new(
        Family::Crash,
        "CR-013",
        "killed_during_a_purge",
        &["G-43", "G-62"],
        "A process is killed at several moments of a sweep: every record is whole or gone, what is unfinished is \
         untouched, and the next sweep finishes.",
        |env| Box::pin(killed_during_a_purge(env)),
    )
    .needs(P_D)
    .evidence(&[(Fact::Kills, 6), (Fact::Checks, 60)]),
    Scenario::new(
        Family::Crash,
        "CR-014",
        "killed_during_the_first_opening",
        &["G-62", "G-102"],
        "A process is killed at several moments of the first opening, with its migrations: the next one opens the store, \
         and it works.",
        |env| Box::pin(killed_during_the_first_opening(env)),
    )
    .needs(P_D)
    .evidence(&[(Fact::Kills, 8), (Fact::Checks, 24)]),
    Scenario::new(
        Family::Crash,
        "CR-015",
        "killed_at_random_times",
        &["G-62", "G-30"],
        "A process that completes operation after operation is killed at a random time: everything that it had been told \
         is completed is replayed, and nothing is half there.",
        |env| Box::pin(killed_at_random_times(env)),
    )
    .needs(P_D)
    .evidence(&[(Fact::Kills, 5), (Fact::Operations, 25), (Fact::Checks, 50)]),
];

async fn one_winner_over_processes(env: &Env) -> Verdict {
    const RACERS: u64 = 3;
    const OPERATIONS: u64 = 100;
    const ROUNDS_MAX: u64 = 20;
    let mut overlaps = 0;
    for round in 0..ROUNDS_MAX {
        let mut children = Vec::new();
        for racer in 0..RACERS {
            let job = Job::Race { racer, racers: RACERS, operations: OPERATIONS, round };
            children.push(start_child(env, env.site(), job)?);
        }
        let mut winners: Vec<Vec<usize>> = (0..OPERATIONS).map(|_| Vec::new()).collect();
        for (racer, child) in children.into_iter().enumerate() {
            let ended = end_of(child).await?;
            ended.finished()?;
            let won = ended.said("won").unwrap_or_default();
            for operation in won.split(',').filter_map(|number| number.parse::<usize>().ok()) {
                winners.get_mut(operation).ok_or_else(|| Failure::new("an unknown operation"))?.push(racer);
            }
        }
        for (operation, winners) in winners.iter().enumerate() {
            ensure_eq!(env, winners.len(), 1, "processes that were granted operation {operation}");
        }
        // Where the winner changes from one operation to the next, both were at it at that time.
        overlaps += winners.windows(2).filter(|pair| pair.first() != pair.last()).count();
        if overlaps >= 5 {
            env.saw(Fact::Overlaps, overlaps as u64);
            return Ok(());
        }
    }
    Err(Failure::new(format!("no race: the winner changed only {overlaps} times in {ROUNDS_MAX} rounds")))
}

/// Measures how long a call takes in a child, and gives moments from its beginning to a little after its end.
async fn moments(env: &Env, site: &Site, call: crate::crash::flight::Call, count: u64) -> Verdict<Vec<u64>> {
    let ended = run_child(env, site, Job::Flight(Flight { call, kill_after_us: None })).await?;
    ended.finished()?;
    let took_us = ended.said("took").and_then(|text| text.parse::<u64>().ok());
    let took_us =
        took_us.ok_or_else(|| Failure::new(format!("the child did not say how long it took: {ended}")))?;
    Ok((0..count).map(|index| took_us * index / (count - 2).max(1)).collect())
}

/// Kills a child so long after it began a call.
async fn kill_in_flight(
    env: &Env,
    site: &Site,
    call: crate::crash::flight::Call,
    after_us: u64,
) -> Verdict<Ended> {
    let flight = Flight { call, kill_after_us: Some(after_us) };
    let ended = run_child(env, site, Job::Flight(flight)).await?;
    ended.killed_at(None)?;
    env.saw(Fact::Kills, 1);
    Ok(ended)
}

async fn killed_during_a_call(env: &Env) -> Verdict {
    use crate::crash::flight::Call;
    let store = env.open().await?;
    let key = |kind: &str, index: usize| format!("{kind}-{index}");
    let claims = moments(env, env.site(), Call::Claim { key: "dry-claim".into() }, 10).await?;
    for (index, after_us) in claims.into_iter().enumerate() {
        let key = key("claim", index);
        let ended = kill_in_flight(env, env.site(), Call::Claim { key: key.clone() }, after_us).await?;
        let stored = store.get(&id(&key)).await?;
        ensure!(env, ended.said("took").is_none() || stored.is_some(), "an answered claim must be there");
        if let Some(stored) = stored {
            stored.check()?;
            let holder = stored.current.as_ref().map(|attempt| attempt.id);
            ensure_eq!(env, holder, Some(attempt_of(&key)), "the attempt that a killed claim left");
        }
        let work = Call::work(&key);
        let grant =
            granted(env, &*store, &crate::crash::worker::first_claim(&work), "the same intent").await?;
        completed(env, &*store, &complete(&grant, "done"), "it").await?;
    }
    let completions = moments(env, env.site(), Call::Complete { key: "dry-complete".into() }, 10).await?;
    for (index, after_us) in completions.into_iter().enumerate() {
        let key = key("complete", index);
        let ended = kill_in_flight(env, env.site(), Call::Complete { key: key.clone() }, after_us).await?;
        let stored = record(&*store, &id(&key)).await?;
        stored.check()?;
        let done = stored.state == State::Completed;
        ensure!(env, ended.said("took").is_none() || done, "an answered completion must be there");
        let answer = store.claim(&claim(&id(&key))).await?;
        if done {
            let replay =
                ensure_let!(env, answer; Claimed::Replay(replay) => replay, "what a killed completion left");
            ensure_eq!(env, replay.outcome.body().map(|body| &body[..]), Some(key.as_bytes()), "its body");
        } else {
            ensure_let!(env, answer; Claimed::InProgress { .. }, "what a killed completion left");
        }
    }
    Ok(())
}

async fn killed_during_a_purge(env: &Env) -> Verdict {
    use crate::crash::flight::Call;
    const RECORDS: usize = 30;
    let store = env.open().await?;
    let short = Retention::forgetting_identity(Ttl::Millis(1_000), Ttl::Millis(1_000), None)?;
    let tombstone = Retention::forever().response(Ttl::Millis(1_000))?;
    let fill = async |round: usize| -> Verdict {
        for index in 0..RECORDS {
            let key = format!("{round}/{index}");
            let grant = granted(env, &*store, &claim(&id(&key)), "the claim").await?;
            let mut request = complete(&grant, &key);
            request.retention = if index % 2 == 0 { short } else { tombstone };
            completed(env, &*store, &request, "it").await?;
        }
        env.clock()?.advance_ms(1_000 + store.capabilities().step_ms + 100);
        Ok(())
    };
    granted(env, &*store, &claim(&id("running")), "a running one").await?;
    let running = record(&*store, &id("running")).await?;
    fill(0).await?;
    let moments = moments(env, env.site(), Call::Sweep, 6).await?;
    for (index, after_us) in moments.into_iter().enumerate() {
        let round = index + 1;
        fill(round).await?;
        kill_in_flight(env, env.site(), Call::Sweep, after_us).await?;
        for index in 0..RECORDS {
            let key = id(&format!("{round}/{index}"));
            let gone = index % 2 == 0;
            let stored = store.get(&key).await?;
            ensure_eq!(env, stored.is_none(), gone, "whether record {index} is gone, during a purge");
            if let Some(stored) = stored {
                stored.check()?;
                ensure_eq!(
                    env,
                    stored.view(env.now(), 0),
                    View::Expired,
                    "the tombstone {index}, during a purge"
                );
            }
        }
        sweep_all(env, &*store).await?;
        unchanged(env, &*store, &running, "a purge that was killed").await?;
        let left = store.list(&Query::all()).await?.records.len();
        ensure_eq!(env, left, 1 + (round + 1) * RECORDS / 2, "records that are left after the next purge");
    }
    Ok(())
}

async fn killed_during_the_first_opening(env: &Env) -> Verdict {
    use crate::crash::flight::Call;
    let moments = moments(env, &env.other_site()?, Call::Open, 8).await?;
    for after_us in moments {
        let site = env.other_site()?;
        kill_in_flight(env, &site, Call::Open, after_us).await?;
        let store = env.open_at(&site).await?;
        let grant = granted(env, &*store, &claim(&id("k")), "the first claim").await?;
        completed(env, &*store, &complete(&grant, "done"), "it").await?;
        replayed(env, &*env.open_at(&site).await?, &claim(&id("k")), "the operation").await?;
    }
    Ok(())
}

async fn killed_at_random_times(env: &Env) -> Verdict {
    const ROUNDS: u64 = 5;
    const PATIENCE: Duration = Duration::from_secs(30);
    let provider = Provider::of(env.site())?;
    let mut rng = fastrand::Rng::with_seed(env.seed());
    for round in 0..ROUNDS {
        let key = format!("stream-{round}");
        let mut child = start_child(env, env.site(), Job::Stream { key: key.clone() })?;
        let enough = rng.usize(5..40);
        let started = SystemClock.elapsed();
        while provider.receipts(&key).len() < enough {
            if SystemClock.elapsed().saturating_sub(started) > PATIENCE {
                return Err(Failure::new(format!("the child completed nothing: {:?}", end_of(child).await)));
            }
            tokio::task::yield_now().await;
        }
        child.start_kill().map_err(|error| Failure::new(format!("the child cannot be killed: {error}")))?;
        end_of(child).await?.killed_at(None)?;
        env.saw(Fact::Kills, 1);
        let store = env.open().await?;
        let told = provider.receipts(&key).len();
        for number in 0..told {
            let operation = format!("{key}/{number}");
            let replay =
                replayed(env, &*store, &claim(&id(&operation)), "what the child had been told").await?;
            let body = replay.outcome.body().map(|body| &body[..]);
            ensure_eq!(env, body, Some(operation.as_bytes()), "the outcome of {operation}");
            env.saw(Fact::Operations, 1);
        }
        the_one_in_flight(env, &*store, &format!("{key}/{told}")).await?;
        let beyond = id(&format!("{key}/{}", told + 1));
        ensure!(env, store.get(&beyond).await?.is_none(), "an operation that the child never began is there");
    }
    Ok(())
}

/// The operation that the child was at may be absent, held or completed, and nothing else.
async fn the_one_in_flight(env: &Env, store: &dyn Store, operation: &str) -> Verdict {
    let Some(stored) = store.get(&id(operation)).await? else { return Ok(()) };
    stored.check()?;
    let answer = store.claim(&take(&id(operation))).await?;
    match stored.state {
        State::Completed => {
            ensure_let!(env, answer; Claimed::Replay(_), "the operation that was being completed")
        }
        _ => ensure_let!(env, answer; Claimed::InProgress { .. }, "the operation that was being claimed"),
    }
    Ok(())
}
