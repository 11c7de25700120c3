//! Processes that are killed inside of the ledger's own transaction (G-62, G-70).

use idem_core::{Mode, State, Store};

use super::transaction::{absent, effects, replays};
use crate::capability::Capability;
use crate::crash::local::{BOUNDARIES, Local};
use crate::crash::{Ended, Job, run_child};
use crate::env::{Env, claim, granted, id, record};
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict, ensure, ensure_eq};
use crate::registry::{Family, Scenario};

const NEEDS: &[Capability] =
    &[Capability::Process, Capability::Reopen, Capability::Clock, Capability::Transaction];

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Crash,
        "CR-004",
        "killed_with_an_effect_uncommitted",
        &["G-70", "G-62"],
        "A process is killed at every boundary of its transaction before the commit, and at several moments of the commit: \
         there is no effect without its record, and what was not committed is as never asked for.",
        |env| Box::pin(killed_with_an_effect_uncommitted(env)),
    )
    .needs(NEEDS)
    .evidence(&[(Fact::Kills, 11), (Fact::Checks, 40)]),
    Scenario::new(
        Family::Crash,
        "CR-005",
        "killed_with_a_completion_uncommitted",
        &["G-70", "G-62", "G-30"],
        "A process is killed between the completion in its transaction and the commit: there is no record without its \
         effect. Killed right after the commit, both are there, and a retry is replayed.",
        |env| Box::pin(killed_with_a_completion_uncommitted(env)),
    )
    .needs(NEEDS)
    .evidence(&[(Fact::Kills, 4), (Fact::Checks, 16)]),
];

async fn run(env: &Env, local: Local) -> Verdict<Ended> {
    run_child(env, env.site(), Job::Local(local)).await
}

fn local(key: &str) -> Local {
    Local { key: key.to_owned(), kill_at: None, kill_in_commit_us: None }
}

async fn killed_at(env: &Env, key: &str, boundary: &str) -> Verdict {
    let killed = Local { kill_at: Some(boundary.to_owned()), ..local(key) };
    run(env, killed).await?.killed_at(Some(boundary))?;
    env.saw(Fact::Kills, 1);
    Ok(())
}

/// Fails unless `key` has effect and record, or neither; says which.
async fn both_or_neither(env: &Env, store: &dyn Store, key: &str) -> Verdict<bool> {
    let effects = effects(env).await?.committed().await?;
    let count = effects.iter().filter(|text| *text == key).count();
    let found = store.get(&id(key)).await?;
    let state = found.as_ref().map(|record| record.state);
    match (count, state) {
        (0, None) | (1, Some(State::Completed)) => ensure!(env, true, "both or neither"),
        _ => {
            return Err(Failure::new(format!(
                "after the kill there are {count} effects of {key}, and its record is {state:?}"
            )));
        }
    }
    Ok(count == 1)
}

/// Runs what a kill left undone, and what it left done once more.
async fn goes_on(env: &Env, store: &dyn Store, key: &str, done: bool) -> Verdict {
    if !done {
        run(env, local(key)).await?.finished()?;
        let stored = record(store, &id(key)).await?;
        ensure_eq!(
            env,
            (stored.state, stored.attempt_number()),
            (State::Completed, 1),
            "state and attempts of {key}"
        );
    }
    ensure!(env, both_or_neither(env, store, key).await?, "{key} is not done in the end");
    replays(env, store, key, key).await
}

async fn killed_with_an_effect_uncommitted(env: &Env) -> Verdict {
    let store = env.open().await?;
    let dry = run(env, local("dry")).await?;
    dry.finished()?;
    ensure_eq!(env, dry.passed()[..], BOUNDARIES, "the boundaries of the transaction");
    let took_us: u64 = dry.said("took").and_then(|text| text.parse().ok()).unwrap_or(1_000);
    for boundary in ["begun", "claimed", "written"] {
        killed_at(env, boundary, boundary).await?;
        let done = both_or_neither(env, &*store, boundary).await?;
        ensure!(env, !done, "{boundary} was killed before its commit, and is committed");
        goes_on(env, &*store, boundary, done).await?;
    }
    let moments = env.amount(24, 10) as u64;
    for moment in 0..moments {
        let key = format!("commit/{moment}");
        let kill_in_commit_us = Some(took_us.saturating_mul(moment) / (moments / 2));
        let ended = run(env, Local { kill_in_commit_us, ..local(&key) }).await?;
        ended.killed_at(None)?;
        env.saw(Fact::Kills, 1);
        let done = both_or_neither(env, &*store, &key).await?;
        ensure!(
            env,
            done || ended.passed().last().is_none_or(|last| last != "committed"),
            "{key} was told that it is committed, and is not"
        );
        goes_on(env, &*store, &key, done).await?;
    }
    Ok(())
}

async fn killed_with_a_completion_uncommitted(env: &Env) -> Verdict {
    let store = env.open().await?;
    for round in 0..2 {
        let key = format!("uncommitted/{round}");
        killed_at(env, &key, "completed").await?;
        let done = both_or_neither(env, &*store, &key).await?;
        ensure!(env, !done, "{key} was killed before its commit, and is committed");
        absent(env, &*store, &key, "after the kill").await?;
        if round == 0 {
            goes_on(env, &*store, &key, done).await?;
        } else {
            let grant = granted(env, &*store, &claim(&id(&key)), "the claim of another").await?;
            ensure_eq!(env, (grant.number, grant.mode), (1, Mode::Execute), "number and mode");
        }
        let key = format!("committed/{round}");
        killed_at(env, &key, "committed").await?;
        let done = both_or_neither(env, &*store, &key).await?;
        ensure!(env, done, "{key} was killed after its commit, and is not committed");
        goes_on(env, &*store, &key, done).await?;
    }
    Ok(())
}
