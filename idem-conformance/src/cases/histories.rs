//! Recorded histories and the linearizability checker (G-10, G-15, G-30).

use std::sync::Arc;
use std::time::Duration;

use idem_core::Store;
use idem_core::clock::{Clock, SystemClock};

use crate::capability::Capability;
use crate::env::Env;
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict, ensure};
use crate::history::{Checked, Event, Plan, broken, check, overlaps, record, timeline};
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Histories,
        "LZ-001",
        "histories_are_linearizable",
        &["G-10", "G-15", "G-16", "G-30"],
        "What 8 clients on real threads were answered by 120 calls each, over 48 operations, can be explained by one \
         record at a time, in an order that keeps what was over before what began later.",
        |env| Box::pin(histories_are_linearizable(env)),
    )
    .evidence(&[(Fact::Histories, 48), (Fact::Operations, 960), (Fact::Overlaps, 100)]),
    Scenario::new(
        Family::Histories,
        "LZ-004",
        "long_histories_keep_their_invariants",
        &["G-10", "G-14", "G-30"],
        "In histories too long for the search: a fence belongs to one attempt and grows, an outcome is one, and \
         whoever asks after it was seen gets it; over several handles.",
        |env| Box::pin(long_histories_keep_their_invariants(env)),
    )
    .needs(&[Capability::Handles])
    .evidence(&[(Fact::Histories, 16), (Fact::Operations, 4_800), (Fact::Overlaps, 100)]),
];

/// How many calls must have run beside a call of another client.
const OVERLAPS_MIN: usize = 100;
/// How long histories are recorded for them.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// Records histories until enough of their calls overlapped, and looks at every operation of each.
async fn histories(
    env: &Env,
    stores: &[Arc<dyn Store>],
    plan: Plan,
    mut look: impl FnMut(&[Event], usize) -> Verdict,
) -> Verdict {
    let started = SystemClock.elapsed();
    let mut overlapped = 0;
    let mut number = 0;
    while overlapped < OVERLAPS_MIN {
        if SystemClock.elapsed().saturating_sub(started) > GIVE_UP_AFTER {
            return Err(Failure::new(format!(
                "no concurrency: {overlapped} calls overlapped in {number} histories"
            )));
        }
        let history = record(stores, Plan { number, ..plan })?;
        overlapped += overlaps(&history);
        number += 1;
        for key in 0..plan.keys {
            look(&history, key)?;
            env.saw(Fact::Histories, 1);
        }
        env.saw(Fact::Operations, history.len() as u64);
    }
    env.saw(Fact::Overlaps, overlapped as u64);
    Ok(())
}

async fn histories_are_linearizable(env: &Env) -> Verdict {
    let stores = [env.open().await?];
    let plan = Plan { clients: 8, laps: 12, calls_per_lap: 10, keys: 48, seed: env.seed(), number: 0 };
    histories(env, &stores, plan, |history, key| {
        let longest = match check(history, key) {
            Checked::Linearizable { .. } => {
                env.saw(Fact::Checks, 1);
                return Ok(());
            }
            Checked::Violation { longest } => longest,
            Checked::Unknown => {
                return Err(Failure::new(format!("the search for operation {key} ran out of steps")));
            }
        };
        let failure = Failure::new(format!("the history of operation {key} is not linearizable"));
        Err(failure.with_timeline(timeline(history, key, &longest)))
    })
    .await
}

async fn long_histories_keep_their_invariants(env: &Env) -> Verdict {
    let stores = [env.open().await?, env.open().await?];
    let plan = Plan { clients: 8, laps: 20, calls_per_lap: 30, keys: 16, seed: env.seed(), number: 0 };
    histories(env, &stores, plan, |history, key| {
        if let Some(what) = broken(history, key) {
            let failure = Failure::new(format!("operation {key}: {what}"));
            return Err(failure.with_timeline(timeline(history, key, &[])));
        }
        ensure!(env, true, "the invariants of operation {key}");
        Ok(())
    })
    .await
}
