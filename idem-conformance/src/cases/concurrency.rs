//! Many callers at once (G-10, G-12, G-16).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use idem_core::answer::{Claimed, Completed, Released, Renewed};
use idem_core::request::{Complete, Held, Release, Renew};
use idem_core::{AttemptId, Lease, Mode, Outcome, Retention, Store, Ttl, View};

use crate::capability::Capability;
use crate::env::{
    Env, LAPSED_FOR_MS, claim, complete, complete_with, completed, granted, id, lease_ms, record, replayed,
    take, unchanged,
};
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict, ensure, ensure_eq, ensure_let};
use crate::race::{race, race_bare, race_singly, racers, together};
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Concurrency,
        "CC-001",
        "one_winner",
        &["G-10"],
        "Of the claims that race for a new operation exactly one is granted; the others are told that it runs, and the \
         record names the winner.",
        |env| Box::pin(one_winner(env)),
    )
    .evidence(&[(Fact::Overlaps, 100), (Fact::Checks, 300)]),
    Scenario::new(
        Family::Concurrency,
        "CC-002",
        "one_winner_over_handles",
        &["G-10"],
        "The same with every racer on its own handle.",
        |env| Box::pin(one_winner_over_handles(env)),
    )
    .needs(&[Capability::Handles])
    .evidence(&[(Fact::Overlaps, 100), (Fact::Checks, 300), (Fact::Handles, 3)]),
    Scenario::new(
        Family::Concurrency,
        "CC-005",
        "many_keys_do_not_cross_talk",
        &["G-10", "G-30"],
        "Operations that run at the same time under neighbouring keys keep their own outcomes.",
        |env| Box::pin(many_keys_do_not_cross_talk(env)),
    )
    .evidence(&[(Fact::Overlaps, 60), (Fact::Operations, 120), (Fact::Checks, 480)]),
    Scenario::new(
        Family::Concurrency,
        "CC-006",
        "fences_grow_under_churn",
        &["G-14"],
        "While callers claim and release one operation in turn, every grant has a higher fence than all grants that were \
         given before it was asked for, and no fence is given twice.",
        |env| Box::pin(fences_grow_under_churn(env)),
    )
    .evidence(&[(Fact::Operations, 100), (Fact::Checks, 100)]),
    Scenario::new(
        Family::Concurrency,
        "CC-007",
        "the_same_attempt_is_granted_again",
        &["G-12"],
        "A claim that is repeated with its attempt id is granted again, with the same fence, mode and number, and writes \
         nothing; also when it is repeated by several threads at once.",
        |env| Box::pin(the_same_attempt_is_granted_again(env)),
    )
    .evidence(&[(Fact::Overlaps, 30), (Fact::Checks, 60)]),
    Scenario::new(
        Family::Concurrency,
        "CC-008",
        "completing_again_changes_nothing",
        &["G-16"],
        "The same completion again is recognised, another one is refused, and the first outcome stays; also when \
         different completions race.",
        |env| Box::pin(completing_again_changes_nothing(env)),
    )
    .evidence(&[(Fact::Overlaps, 30), (Fact::Checks, 60)]),
    Scenario::new(
        Family::Concurrency,
        "CC-009",
        "completion_against_takeover",
        &["G-15", "G-10"],
        "A late completion races with takeovers: either it is stored and they replay it, or one of them is granted and it \
         is fenced.",
        |env| Box::pin(completion_against_takeover(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Overlaps, 50), (Fact::Checks, 100)]),
    Scenario::new(
        Family::Concurrency,
        "CC-010",
        "renewal_against_takeover",
        &["G-15", "G-13"],
        "A late renewal races with takeovers: either it is renewed and they wait, or one of them is granted and it is \
         fenced.",
        |env| Box::pin(renewal_against_takeover(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Overlaps, 50), (Fact::Checks, 100)]),
    Scenario::new(
        Family::Concurrency,
        "CC-012",
        "a_purge_between_the_steps_of_a_claim",
        &["G-10", "G-43"],
        "Sweeps run while an operation whose identity expired is claimed: there is one winner, its row is there, and it \
         can complete.",
        |env| Box::pin(a_purge_between_the_steps_of_a_claim(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Overlaps, 40), (Fact::Checks, 120)]),
];

/// Fails unless exactly one of a round's claims was granted, the others are in progress, and the record names it.
async fn one_winner_of(
    env: &Env,
    store: &dyn Store,
    key: &str,
    answers: Vec<idem_core::Result<Claimed>>,
) -> Verdict {
    let mut winners = Vec::new();
    for answer in answers {
        match answer? {
            Claimed::Granted(grant) => winners.push(grant),
            other => ensure_let!(env, other; Claimed::InProgress { .. }, "a loser of {key}"),
        }
    }
    ensure_eq!(env, winners.len(), 1, "winners of {key}");
    let stored = record(store, &id(key)).await?.current.map(|attempt| (attempt.id, attempt.fence));
    let winner = winners.first().map(|grant| (grant.attempt, grant.fence));
    ensure_eq!(env, stored, winner, "attempt and fence that are stored for {key}");
    Ok(())
}

async fn one_winner(env: &Env) -> Verdict {
    let store = env.open().await?;
    let rounds =
        race_bare(env, 100, async |round, _| store.claim(&claim(&id(&format!("k{round}")))).await).await?;
    for (round, answers) in rounds.into_iter().enumerate() {
        one_winner_of(env, &*store, &format!("k{round}"), answers).await?;
    }
    Ok(())
}

async fn one_winner_over_handles(env: &Env) -> Verdict {
    let mut handles = Vec::new();
    for _ in 0..racers() {
        handles.push(env.open().await?);
    }
    let rounds = race_bare(env, 100, async |round, racer| match handles.get(racer) {
        Some(handle) => handle.claim(&claim(&id(&format!("k{round}")))).await,
        None => Err(idem_core::Error::internal("a racer without handle")),
    })
    .await?;
    let reader = env.open().await?;
    for (round, answers) in rounds.into_iter().enumerate() {
        one_winner_of(env, &*reader, &format!("k{round}"), answers).await?;
    }
    Ok(())
}

async fn many_keys_do_not_cross_talk(env: &Env) -> Verdict {
    let store = env.open().await?;
    let rounds = race_bare(env, 60, async |round, racer| -> Verdict {
        let key = format!("{round}-{racer}");
        let grant = granted(env, &*store, &claim(&id(&key)), "the claim").await?;
        completed(env, &*store, &complete(&grant, &key), "it").await?;
        let replay = replayed(env, &*store, &claim(&id(&key)), "the operation").await?;
        let body = replay.outcome.body().map(|body| &body[..]);
        ensure_eq!(env, body, Some(key.as_bytes()), "the body of {key}");
        env.saw(Fact::Operations, 1);
        Ok(())
    })
    .await?;
    rounds.into_iter().flatten().collect()
}

async fn fences_grow_under_churn(env: &Env) -> Verdict {
    const GRANTS: usize = 40;
    const CLAIMS_MAX: usize = 200_000;
    let store = env.open().await?;
    let highest = AtomicU64::new(0);
    let run = async |_: usize| -> Verdict<Vec<u64>> {
        let mut fences = Vec::new();
        for _ in 0..CLAIMS_MAX {
            // Whatever was granted before this claim was sent must have a lower fence.
            let before = highest.load(Ordering::SeqCst);
            let Claimed::Granted(grant) = store.claim(&claim(&id("k"))).await? else {
                std::thread::yield_now();
                continue;
            };
            let fence = grant.fence.get();
            highest.fetch_max(fence, Ordering::SeqCst);
            ensure!(env, fence > before, "fence {fence} was granted after fence {before}");
            let released = store.release(&Release::new(grant.held())).await?;
            ensure_let!(env, released; Released::Released { .. }, "the release");
            env.saw(Fact::Operations, 1);
            fences.push(fence);
            if fences.len() == GRANTS {
                break;
            }
        }
        Ok(fences)
    };
    let mut all = Vec::new();
    for fences in together(3, run)? {
        all.extend(fences?);
    }
    let granted = all.len();
    all.sort_unstable();
    all.dedup();
    ensure_eq!(env, all.len(), granted, "different fences among all grants");
    Ok(())
}

async fn the_same_attempt_is_granted_again(env: &Env) -> Verdict {
    let store = env.open().await?;
    let own = claim(&id("k"));
    let first = granted(env, &*store, &own, "the claim").await?;
    ensure!(env, !first.again, "a first grant must not say that it is a repetition");
    let before = record(&*store, &id("k")).await?;
    for _ in 0..3 {
        let again = granted(env, &*store, &own, "the repeated claim").await?;
        ensure!(env, again.again, "a repeated grant must say so");
        let shown = (again.fence, again.mode, again.number, again.lease_until);
        ensure_eq!(
            env,
            shown,
            (first.fence, first.mode, first.number, first.lease_until),
            "the repeated grant"
        );
    }
    unchanged(env, &*store, &before, "a repeated claim").await?;

    let attempt = |round: usize| AttemptId::from_bytes((round as u128 + 1).to_be_bytes());
    let rounds = race_bare(env, 30, async |round, _| {
        store.claim(&claim(&id(&format!("k{round}"))).attempt(attempt(round))).await
    })
    .await?;
    for (round, answers) in rounds.into_iter().enumerate() {
        let mut fences = Vec::new();
        let mut firsts = 0;
        for answer in answers {
            let grant =
                ensure_let!(env, answer?; Claimed::Granted(grant) => grant, "one attempt, claimed by many");
            firsts += u32::from(!grant.again);
            fences.push(grant.fence);
        }
        fences.dedup();
        ensure_eq!(env, (fences.len(), firsts), (1, 1), "fences and first grants of round {round}");
    }
    Ok(())
}

async fn completing_again_changes_nothing(env: &Env) -> Verdict {
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("k")), "the claim").await?;
    let first = complete_with(&grant, Outcome::success().body("first").reference("r"));
    completed(env, &*store, &first, "it").await?;
    let before = record(&*store, &id("k")).await?;
    for (request, expected) in [
        (first.clone(), Completed::AlreadyCompleted),
        (complete_with(&grant, Outcome::success().body("second").reference("r")), Completed::OutcomeConflict),
        (complete_with(&grant, Outcome::success().body("first").reference("s")), Completed::OutcomeConflict),
        (complete_with(&grant, Outcome::success().body("first")), Completed::OutcomeConflict),
        (first, Completed::AlreadyCompleted),
    ] {
        ensure_eq!(
            env,
            store.complete(&request).await?,
            expected,
            "a completion after the first ({request:?})"
        );
        unchanged(env, &*store, &before, "a completion after the first").await?;
    }
    let attempt = |round: usize| AttemptId::from_bytes((round as u128 + 1).to_be_bytes());
    let prepare = async |rounds: Range<usize>| -> Verdict {
        for round in rounds {
            store.claim(&claim(&id(&format!("k{round}"))).attempt(attempt(round))).await?;
        }
        Ok(())
    };
    let rounds = race(env, 30, prepare, async |round, racer| {
        let held = Held::new(id(&format!("k{round}")), attempt(round));
        let outcome = Outcome::success().body(format!("by {racer}"));
        store.complete(&Complete::new(held, outcome, Retention::forever())).await
    })
    .await?;
    for (round, answers) in rounds.into_iter().enumerate() {
        let mut stored = None;
        for (racer, answer) in answers.into_iter().enumerate() {
            match answer? {
                Completed::Completed { .. } => {
                    ensure!(env, stored.replace(racer).is_none(), "round {round} was completed twice");
                }
                other => ensure_eq!(env, other, Completed::OutcomeConflict, "a loser of round {round}"),
            }
        }
        let winner = stored.ok_or_else(|| Failure::new(format!("round {round} was not completed")))?;
        let replay = replayed(env, &*store, &claim(&id(&format!("k{round}"))), "the operation").await?;
        let body = replay.outcome.body().map(|body| body.to_vec());
        ensure_eq!(env, body, Some(format!("by {winner}").into_bytes()), "the body of round {round}");
    }
    Ok(())
}

/// The attempt that holds the operation of a round.
fn holder_of(round: usize) -> Held {
    Held::new(id(&format!("k{round}")), AttemptId::from_bytes((round as u128 + 1).to_be_bytes()))
}

/// Claims every round's operation for its holder, and lets the leases lapse.
async fn lapsed_holders(env: &Env, store: &dyn Store, rounds: Range<usize>) -> Verdict {
    for round in rounds {
        let held = holder_of(round);
        store.claim(&claim(&held.id).attempt(held.attempt).lease(lease_ms(1))).await?;
    }
    env.clock()?.advance_ms(1 + store.capabilities().guard_ms + LAPSED_FOR_MS);
    Ok(())
}

/// What one racer of a held write against takeovers was answered.
enum Raced<T> {
    Held(T),
    Taken(Claimed),
}

/// Counts the granted claims of a round; the others must be answered as `loser` says.
fn takeovers<T>(
    env: &Env,
    answers: Vec<idem_core::Result<Raced<T>>>,
    loser: impl Fn(&Claimed, &T) -> bool,
) -> Verdict<(T, usize)> {
    let (mut held, mut claims) = (None, Vec::new());
    for answer in answers {
        match answer? {
            Raced::Held(answer) => held = Some(answer),
            Raced::Taken(answer) => claims.push(answer),
        }
    }
    let held = held.ok_or_else(|| Failure::new("a defect of the suite: nobody held"))?;
    let mut granted = 0;
    for answer in claims {
        match answer {
            Claimed::Granted(grant) => {
                ensure_eq!(
                    env,
                    (grant.mode, grant.number),
                    (Mode::Recover, 2),
                    "mode and number of a takeover"
                );
                granted += 1;
            }
            other => ensure!(env, loser(&other, &held), "a takeover that lost was answered {other:?}"),
        }
    }
    Ok((held, granted))
}

async fn completion_against_takeover(env: &Env) -> Verdict {
    let store = env.open().await?;
    let rounds = race(
        env,
        50,
        async |rounds| lapsed_holders(env, &*store, rounds).await,
        async |round, racer| {
            let held = holder_of(round);
            if racer == 0 {
                let outcome = Outcome::success().body("late");
                let request = Complete::new(held, outcome, Retention::forever());
                return store.complete(&request).await.map(Raced::Held);
            }
            store.claim(&take(&held.id)).await.map(Raced::Taken)
        },
    )
    .await?;
    for (round, answers) in rounds.into_iter().enumerate() {
        let (answer, granted) = takeovers(env, answers, |other, held| match held {
            Completed::Completed { .. } => matches!(other, Claimed::Replay(_)),
            _ => matches!(other, Claimed::InProgress { .. }),
        })?;
        match answer {
            Completed::Completed { .. } => {
                ensure_eq!(env, granted, 0, "takeovers of a completed operation ({round})")
            }
            other => {
                ensure_eq!(
                    env,
                    other,
                    Completed::Fenced(View::Running),
                    "the late completion of round {round}"
                );
                ensure_eq!(env, granted, 1, "takeovers of round {round}");
            }
        }
    }
    Ok(())
}

async fn renewal_against_takeover(env: &Env) -> Verdict {
    let store = env.open().await?;
    let rounds = race(
        env,
        50,
        async |rounds| lapsed_holders(env, &*store, rounds).await,
        async |round, racer| {
            let held = holder_of(round);
            if racer == 0 {
                return store.renew(&Renew::new(held, lease_ms(3_600_000))).await.map(Raced::Held);
            }
            store.claim(&take(&held.id)).await.map(Raced::Taken)
        },
    )
    .await?;
    for (round, answers) in rounds.into_iter().enumerate() {
        let in_progress = |other: &Claimed, _: &Renewed| matches!(other, Claimed::InProgress { .. });
        let (answer, granted) = takeovers(env, answers, in_progress)?;
        match answer {
            Renewed::Renewed { .. } => ensure_eq!(env, granted, 0, "takeovers of a renewed lease ({round})"),
            other => {
                ensure_eq!(env, other, Renewed::Fenced(View::Running), "the late renewal of round {round}");
                ensure_eq!(env, granted, 1, "takeovers of round {round}");
            }
        }
    }
    Ok(())
}

async fn a_purge_between_the_steps_of_a_claim(env: &Env) -> Verdict {
    let store = env.open().await?;
    let retention = Retention::forgetting_identity(Ttl::Millis(1), Ttl::Millis(1), None)?;
    // One round at a time: a sweep takes whatever is due, also what a later round wants to race for.
    let prepare = async |round: usize| -> Verdict {
        let grant = granted(env, &*store, &claim(&id(&format!("k{round}"))), "the old claim").await?;
        let mut request = complete(&grant, "old");
        request.retention = retention;
        completed(env, &*store, &request, "the old operation").await?;
        env.clock()?.advance_ms(1_000 + store.capabilities().step_ms);
        Ok(())
    };
    let rounds = race_singly(env, 40, prepare, async |round, racer| {
        if racer == 0 {
            for _ in 0..3 {
                store.sweep(100).await?;
            }
        }
        store.claim(&claim(&id(&format!("k{round}"))).lease(Lease::MAX)).await
    })
    .await?;
    for (round, answers) in rounds.into_iter().enumerate() {
        let key = format!("k{round}");
        let winner = answers.iter().find_map(|answer| match answer {
            Ok(Claimed::Granted(grant)) => Some(grant.clone()),
            _ => None,
        });
        one_winner_of(env, &*store, &key, answers).await?;
        let winner = winner.ok_or_else(|| Failure::new("no winner"))?;
        completed(env, &*store, &complete(&winner, "new"), "the winner's operation").await?;
    }
    Ok(())
}
