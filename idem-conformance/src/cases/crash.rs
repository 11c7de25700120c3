//! Processes that are killed between two calls (G-10, G-15, G-18, G-19, G-62).

use idem_core::answer::{Claimed, Resolved};
use idem_core::request::{Resolve, Verdict as Decision};
use idem_core::{Mode, State, Store};

use crate::capability::Capability;
use crate::crash::worker::{LEASE_MS, attempt_of, downstream, first_claim};
use crate::crash::{Job, Provider, Work, run_child};
use crate::env::{Env, LAPSED_FOR_MS, claim, granted, id, label, record, recover, replayed, take, unchanged};
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict, ensure, ensure_eq, ensure_let};
use crate::registry::{Family, Scenario};

/// Killing needs another process, time that moves, and a store that is there afterwards.
pub(super) const P_D: &[Capability] = &[Capability::Process, Capability::Reopen, Capability::Clock];

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Crash,
        "CR-001",
        "killed_before_the_claim",
        &["G-10", "G-62"],
        "A worker that is killed before its claim leaves nothing: another one is granted, to execute (S-49).",
        |env| Box::pin(killed_before_the_claim(env)),
    )
    .needs(P_D)
    .evidence(&[(Fact::Kills, 1), (Fact::Checks, 5)]),
    Scenario::new(
        Family::Crash,
        "CR-003",
        "killed_after_the_claim",
        &["G-12", "G-18", "G-62"],
        "A worker that is killed after its claim leaves its lease: others wait, the same intent is granted again, and \
         after the lapse the operation is recovered, not run again (S-50).",
        |env| Box::pin(killed_after_the_claim(env)),
    )
    .needs(P_D)
    .evidence(&[(Fact::Kills, 1), (Fact::Checks, 10)]),
    Scenario::new(
        Family::Crash,
        "CR-006",
        "killed_before_the_acknowledgement",
        &["G-30", "G-62"],
        "A worker that is killed after its completion and before it told anybody leaves the outcome: it is replayed, and \
         the effect is not run again (S-51).",
        |env| Box::pin(killed_before_the_acknowledgement(env)),
    )
    .needs(P_D)
    .evidence(&[(Fact::Kills, 1), (Fact::Checks, 5)]),
    Scenario::new(
        Family::Crash,
        "CR-007",
        "killed_with_a_call_out",
        &["G-18", "G-22", "G-23"],
        "A worker is killed when its call to a system that does not deduplicate is out: nobody is ever granted to run it \
         again, the operation turns uncertain, and a reconciler finds the one effect (S-52).",
        |env| Box::pin(killed_with_a_call_out(env)),
    )
    .needs(P_D)
    .evidence(&[(Fact::Kills, 1), (Fact::Checks, 12)]),
    Scenario::new(
        Family::Crash,
        "CR-008",
        "killed_with_an_answer_unrecorded",
        &["G-19", "G-21", "G-20"],
        "A worker is killed when the answer of a system that deduplicates is not recorded yet: its successor sees that \
         the call was begun, makes it again under the same downstream key, and there is one effect.",
        |env| Box::pin(killed_with_an_answer_unrecorded(env)),
    )
    .needs(P_D)
    .evidence(&[(Fact::Kills, 1), (Fact::Checks, 6)]),
    Scenario::new(
        Family::Crash,
        "CR-012",
        "killed_again_during_recovery",
        &["G-18", "G-19", "G-21", "G-62"],
        "Worker killed at every boundary, its successor killed at every boundary of the recovery, in all pairs: the third \
         process ends it, with one effect and one outcome, and everybody was told the same.",
        |env| Box::pin(killed_again_during_recovery(env)),
    )
    .needs(P_D)
    .evidence(&[(Fact::Kills, 60), (Fact::Checks, 120), (Fact::Operations, 30)]),
];

fn work(key: &str, keyed: bool) -> Work {
    Work { key: key.to_owned(), keyed, kill_at: None }
}

impl Work {
    fn killed_at(&self, boundary: &str) -> Self {
        Self { kill_at: Some(boundary.to_owned()), ..self.clone() }
    }
}

/// Lets a worker die at `boundary`.
async fn kill_worker(env: &Env, work: &Work, boundary: &str) -> Verdict {
    let ended = run_child(env, env.site(), Job::Work(work.killed_at(boundary))).await?;
    ended.killed_at(Some(boundary))?;
    env.saw(Fact::Kills, 1);
    Ok(())
}

/// Moves the clock until every lease of a worker has lapsed.
fn pass_the_lease(env: &Env, store: &dyn Store) -> Verdict {
    env.clock()?.advance_ms(LEASE_MS + store.capabilities().guard_ms + LAPSED_FOR_MS);
    Ok(())
}

/// Lets another process bring the operation to its end.
async fn recover_in_a_child(env: &Env, work: &Work) -> Verdict {
    run_child(env, env.site(), Job::Recover(work.clone())).await?.finished()
}

/// The same, and where that ends uncertain, an operator who finds that the provider knows nothing says so and lets the
/// operation run.
async fn recover_to_the_end(env: &Env, store: &dyn Store, work: &Work) -> Verdict {
    recover_in_a_child(env, work).await?;
    let seen = record(store, &id(&work.key)).await?;
    if seen.state != State::Uncertain {
        return Ok(());
    }
    let effects = Provider::of(env.site())?.effects(&downstream(work));
    ensure_eq!(env, effects.len(), 0, "effects of {}, which nobody could decide about", work.key);
    pass_the_lease(env, store)?;
    let verdict = Decision::DidNotHappen { settle_ms: 0 };
    let resolve = Resolve::new(&seen, verdict, label("operator"), label("the provider knows nothing"));
    ensure_let!(env, store.resolve(&resolve).await?; Resolved::Resolved { .. }, "the operator's verdict");
    recover_in_a_child(env, work).await
}

/// One effect, replayed to whoever asks, and the same in every receipt.
async fn one_effect(env: &Env, work: &Work) -> Verdict {
    let provider = Provider::of(env.site())?;
    let effects = provider.effects(&downstream(work));
    ensure_eq!(env, effects.len(), 1, "effects of {}", work.key);
    let store = env.open().await?;
    let replay = replayed(env, &*store, &claim(&id(&work.key)), "the operation in the end").await?;
    let body = replay.outcome.body().map(|body| String::from_utf8_lossy(body).into_owned());
    ensure_eq!(env, body.as_ref(), effects.first(), "the outcome of {}", work.key);
    let receipts = provider.receipts(&work.key);
    ensure!(
        env,
        receipts.iter().all(|told| Some(told) == body.as_ref()),
        "what callers were told: {receipts:?}"
    );
    Ok(())
}

async fn killed_before_the_claim(env: &Env) -> Verdict {
    let work = work("k", false);
    kill_worker(env, &work, "before-claim").await?;
    let store = env.open().await?;
    ensure!(
        env,
        store.get(&id("k")).await?.is_none(),
        "a worker that was killed before its claim left a record"
    );
    let grant = granted(env, &*store, &claim(&id("k")), "the claim of another").await?;
    ensure_eq!(env, (grant.mode, grant.number), (Mode::Execute, 1), "mode and number");
    let calls = Provider::of(env.site())?.calls(&downstream(&work));
    ensure_eq!(env, calls, 0, "calls to the provider");
    crate::env::completed(env, &*store, &crate::env::complete(&grant, "done"), "it").await
}

async fn killed_after_the_claim(env: &Env) -> Verdict {
    let work = work("k", false);
    kill_worker(env, &work, "claimed").await?;
    let store = env.open().await?;
    let stored = record(&*store, &id("k")).await?;
    stored.check()?;
    ensure_eq!(env, stored.state, State::Processing, "the state that the worker left");
    let holder = stored.current.as_ref().map(|attempt| attempt.id);
    ensure_eq!(env, holder, Some(attempt_of("k")), "the attempt that the worker left");
    let other = store.claim(&take(&id("k"))).await?;
    ensure_let!(env, other; Claimed::InProgress { .. }, "the claim of another before the lapse");
    let again = granted(env, &*store, &first_claim(&work), "the same intent, started again").await?;
    let shown = (Some(again.fence), again.mode, again.again);
    let left = stored.current.as_ref().map(|attempt| attempt.fence);
    ensure_eq!(env, shown, (left, Mode::Execute, true), "fence, mode and repetition of the same intent");
    unchanged(env, &*store, &stored, "looking at what the worker left").await?;
    pass_the_lease(env, &*store)?;
    recover_in_a_child(env, &work).await?;
    let after = record(&*store, &id("k")).await?;
    // The recovery found no note of a call, gave the operation back, and ran it: attempts 2 and 3.
    ensure_eq!(env, after.attempt_number(), 3, "the number of attempts");
    let modes: Vec<_> = after.earlier.iter().map(|attempt| attempt.mode).collect();
    ensure_eq!(env, modes[..], [Mode::Execute, Mode::Recover], "the modes of the attempts before the last");
    one_effect(env, &work).await
}

async fn killed_before_the_acknowledgement(env: &Env) -> Verdict {
    let work = work("k", false);
    kill_worker(env, &work, "completed").await?;
    let provider = Provider::of(env.site())?;
    ensure!(env, provider.receipts("k").is_empty(), "nobody can have been told yet");
    one_effect(env, &work).await?;
    recover_in_a_child(env, &work).await?;
    ensure_eq!(env, provider.receipts("k").len(), 1, "receipts after the retry");
    ensure_eq!(env, provider.calls(&downstream(&work)), 1, "calls to the provider");
    one_effect(env, &work).await
}

async fn killed_with_a_call_out(env: &Env) -> Verdict {
    let work = work("k", false);
    kill_worker(env, &work, "called").await?;
    let store = env.open().await?;
    let provider = Provider::of(env.site())?;
    let early = store.claim(&claim(&id("k"))).await?;
    ensure_let!(env, early; Claimed::InProgress { .. }, "a claim before the lapse");
    pass_the_lease(env, &*store)?;
    for attempt in 0..3 {
        let answer = store.claim(&claim(&id("k"))).await?;
        ensure_let!(env, answer; Claimed::Uncertain { .. }, "claim {attempt} of a caller that cannot recover");
        env.clock()?.advance_ms(60_000);
    }
    let grant = granted(env, &*store, &recover(&id("k")), "the reconciler's claim").await?;
    ensure_eq!(env, grant.mode, Mode::Recover, "the reconciler's mode");
    let notes: Vec<_> = grant.checkpoints.iter().map(|fact| fact.name.as_str()).collect();
    ensure_eq!(env, notes[..], ["sending"], "what the worker noted");
    let found = provider.lookup(&downstream(&work));
    let found = found.ok_or_else(|| Failure::new("the provider lost the effect"))?;
    crate::env::completed(env, &*store, &crate::env::complete(&grant, &found), "what was found").await?;
    ensure_eq!(env, provider.calls(&downstream(&work)), 1, "calls to the provider");
    one_effect(env, &work).await
}

async fn killed_with_an_answer_unrecorded(env: &Env) -> Verdict {
    let work = work("k", true);
    kill_worker(env, &work, "called").await?;
    let store = env.open().await?;
    pass_the_lease(env, &*store)?;
    recover_in_a_child(env, &work).await?;
    let calls = Provider::of(env.site())?.calls(&downstream(&work));
    ensure_eq!(env, calls, 2, "calls to the provider, both under one key");
    let stored = record(&*store, &id("k")).await?;
    let modes: Vec<_> = stored.earlier.iter().chain(&stored.current).map(|attempt| attempt.mode).collect();
    ensure_eq!(env, modes[..], [Mode::Execute, Mode::Recover], "the modes of all attempts");
    one_effect(env, &work).await
}

async fn killed_again_during_recovery(env: &Env) -> Verdict {
    let dry = run_child(env, env.site(), Job::Work(work("dry", true))).await?;
    dry.finished()?;
    let firsts = dry.passed();
    ensure!(env, firsts.len() >= 7, "a worker passes only {firsts:?}");
    let store = env.open().await?;
    for (index, first) in firsts.iter().enumerate() {
        // What a recovery passes depends on where the worker died: one that is left alone tells.
        let probe = work(&format!("{first}/dry"), index % 2 == 0);
        kill_worker(env, &probe, first).await?;
        pass_the_lease(env, &*store)?;
        let dry = run_child(env, env.site(), Job::Recover(probe.clone())).await?;
        dry.finished()?;
        recover_to_the_end(env, &*store, &probe).await?;
        one_effect(env, &probe).await?;
        for second in dry.passed() {
            let pair = work(&format!("{first}/{second}"), index % 2 == 0);
            kill_worker(env, &pair, first).await?;
            pass_the_lease(env, &*store)?;
            let ended = run_child(env, env.site(), Job::Recover(pair.killed_at(&second))).await?;
            ended.killed_at(Some(&second))?;
            env.saw(Fact::Kills, 1);
            pass_the_lease(env, &*store)?;
            recover_to_the_end(env, &*store, &pair).await?;
            one_effect(env, &pair).await?;
            env.saw(Fact::Operations, 1);
        }
    }
    Ok(())
}
