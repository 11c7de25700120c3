//! Claiming: until there is something to run, or an answer.

use std::time::Duration;

use idem_core::answer::{Expired, Replay};
use idem_core::clock::{Clock, SystemClock};
use idem_core::ledger::{Begin, Hold, Ledger, NotRun, Policy};
use idem_core::record::{EffectClass, View};
use idem_core::request::{Intent, OnLapse};
use idem_core::{Content, Error, StoredOutcome};

use super::answer::Answer;
use super::prepare::Plan;
use super::recover::{self, Recovered};
use super::signals::Signals;
use super::{refused, unstarted};
use crate::args::OnCrash;
use crate::exit;
use crate::outcome::{self, Output};

/// What a claim came to.
pub(crate) enum Begun {
    /// Run the command.
    Run(Hold),
    /// Print this, and answer that.
    Print(Answer, Output),
    /// Answer.
    Answer(Answer),
}

/// How often one call claims: once, again after a recovery, and again where somebody was quicker in between.
const TURNS_MAX: u32 = 8;

/// Claims, recovers and claims again. The wait is one budget over all of it.
pub(crate) async fn begin(ledger: &Ledger, plan: &Plan, signals: &mut Signals) -> Begun {
    let give_up = SystemClock.elapsed().saturating_add(plan.policy.wait);
    let mut intent = Intent::Run(on_lapse(plan));
    for _ in 0..TURNS_MAX {
        let wait = give_up.saturating_sub(SystemClock.elapsed());
        let ledger = ledger.with(with_wait(&plan.policy, wait));
        let claimed = tokio::select! {
            biased;
            received = signals.next() => return Begun::Answer(unstarted(received.signal)),
            claimed = ledger.claim(&plan.id, plan.fingerprint, intent) => claimed,
        };
        let recovery = match claimed {
            Err(error) => return Begun::Answer(refused(&error)),
            Ok(Begin::Execute(granted)) => match signals.pending() {
                // Dropped before its start, the grant is given back.
                Some(received) => return Begun::Answer(unstarted(received.signal)),
                None => return Begun::Run(granted.start()),
            },
            Ok(Begin::NotRun(NotRun::Uncertain { .. })) if may_reconcile(plan, intent) => {
                intent = Intent::Recover;
                continue;
            }
            Ok(Begin::NotRun(NotRun::Nothing)) => {
                intent = Intent::Run(on_lapse(plan));
                continue;
            }
            Ok(Begin::NotRun(not_run)) => return answered(plan, not_run),
            Ok(Begin::Recover(recovery)) => recovery,
            Ok(_) => return Begun::Answer(refused(&Error::internal("a claim came to something unknown"))),
        };
        match recover::recover(recovery, plan, &ledger, signals).await {
            Recovered::Begun(begun) => return begun,
            Recovered::ClaimAgain => intent = Intent::Run(on_lapse(plan)),
        }
    }
    Begun::Answer(refused(&Error::unavailable("others were quicker again and again")))
}

fn with_wait(policy: &Policy, wait: Duration) -> Policy {
    let mut policy = policy.clone();
    policy.wait = wait;
    policy
}

/// Only a caller that can recover takes over (G-23).
fn on_lapse(plan: &Plan) -> OnLapse {
    if plan.reconcile.is_some() || plan.on_crash == OnCrash::Rerun { OnLapse::Take } else { OnLapse::Park }
}

/// A reconciler may also decide about what is parked already (G-22).
fn may_reconcile(plan: &Plan, intent: Intent) -> bool {
    plan.reconcile.is_some() && intent != Intent::Recover
}

/// The answer where nothing is run.
fn answered(plan: &Plan, not_run: NotRun) -> Begun {
    Begun::Answer(match not_run {
        NotRun::Replay(replay) => return replayed(&replay),
        NotRun::InProgress { retry_after_ms, attempt_number } => {
            let seconds = retry_after_ms.div_ceil(1000);
            let line = format!(
                "attempt {attempt_number} is running it: ask again in {seconds} s, or wait for it with --wait"
            );
            let answer = Answer::own("in-progress", exit::IN_PROGRESS, line).state(View::Running);
            Answer { attempt: Some(attempt_number), ..answer }
        }
        NotRun::Conflict => Answer::own(
            "conflict",
            exit::CONFLICT,
            "the key was used for another command or input: use a new key for a new intent",
        ),
        NotRun::Expired(expired) => expired_answer(&expired),
        NotRun::Uncertain { since } => Answer::uncertain(
            "uncertain",
            format!(
                "uncertain since {since}: look at `{}`, find out whether it happened, and tell it with {}",
                plan.hints.show(&plan.id),
                plan.hints.resolve(&plan.id)
            ),
        ),
        _ => refused(&Error::internal("a claim was answered with something unknown")),
    })
}

fn replayed(replay: &Replay) -> Begun {
    let about = |answer: Answer| Answer {
        attempt: Some(replay.attempt_number),
        fence: Some(replay.fence.get()),
        state: Some(View::Completed),
        ..answer
    };
    match outcome::output(&replay.outcome) {
        Some(output) => {
            let bytes = (output.stdout.len() + output.stderr.len()) as u64;
            Begun::Print(about(Answer::of_command("replayed", output.exit).bytes(bytes)), output)
        }
        None => Begun::Answer(about(omitted(&replay.outcome))),
    }
}

/// The answer where the output was too large to be kept (G-33).
pub(crate) fn omitted(outcome: &StoredOutcome) -> Answer {
    let bytes = match outcome.content {
        Content::Omitted { content_bytes, .. } => content_bytes,
        _ => 0,
    };
    let mut line = format!(
        "done{}; its output was too large to be kept: {bytes} bytes",
        status(outcome.class.as_ref().map(idem_core::Label::as_str))
    );
    if let Some(digest) = &outcome.digest {
        line.push_str(&format!(", outcome digest {digest}"));
    }
    if let Some(reference) = &outcome.reference {
        line.push_str(&format!(" ({reference})"));
    }
    Answer::own("omitted", exit::GONE, line).bytes(bytes)
}

fn expired_answer(expired: &Expired) -> Answer {
    let mut line = format!(
        "done at {}{}; its output is no longer kept: use a new key for a new intent",
        expired.completed_at,
        status(expired.class.as_ref().map(idem_core::Label::as_str))
    );
    if let Some(reference) = &expired.reference {
        line.push_str(&format!(" ({reference})"));
    }
    Answer::own("expired", exit::GONE, line).state(View::Expired)
}

/// What the class says about the exit status.
fn status(class: Option<&str>) -> String {
    match class {
        None => " with exit status 0".to_owned(),
        Some(class) => match class.strip_prefix("exit-") {
            Some(code) => format!(" with exit status {code}"),
            None => format!(" with failure {class}"),
        },
    }
}

/// Whether an effect may be run again with the same downstream key.
pub(crate) const fn is_keyed(effect: EffectClass) -> bool {
    matches!(effect, EffectClass::Keyed { .. })
}
