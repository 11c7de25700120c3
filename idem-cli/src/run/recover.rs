//! A recovery grant: find out, or run again with the same downstream key (G-19).

use idem_core::answer::{Completed, Released};
use idem_core::ledger::{Ledger, Recovery};
use idem_core::record::{AbsenceReason, View};
use idem_core::{Error, StoredOutcome};
use std::ffi::OsString;
use std::process::Stdio;

use super::answer::Answer;
use super::begin::{Begun, omitted};
use super::child::{End, spawn, supervise};
use super::prepare::Plan;
use super::settle::{uncertain_line, unsettled};
use super::signals::{self, Signals};
use super::spool::Recorded;
use super::streams::{Flushed, Streams};
use super::{environment, refused};
use crate::exit::Exit;
use crate::outcome;

/// What a recovery came to.
pub(crate) enum Recovered {
    Begun(Begun),
    /// It did not happen, and the operation was given back.
    ClaimAgain,
}

/// What the reconciler found out.
enum Verdict {
    Happened(Recorded),
    DidNotHappen,
    Unknown { why: String, signal: Option<i32> },
}

/// Decides about an earlier attempt.
pub(crate) async fn recover(
    recovery: Recovery,
    plan: &Plan,
    ledger: &Ledger,
    signals: &mut Signals,
) -> Recovered {
    let attempt = recovery.attempt().clone();
    let recovered = match &plan.reconcile {
        None => match recovery.resume() {
            Ok(hold) => return Recovered::Begun(Begun::Run(hold)),
            Err((recovery, error)) => {
                let why = error.to_string();
                signals.end(None, settle(recovery, plan, Verdict::Unknown { why, signal: None })).await
            }
        },
        Some(command) => {
            let room = outcome::room(ledger.store().capabilities().limits.body_bytes_max);
            let verdict = reconcile(&recovery, plan, command, room, signals).await;
            signals.end(None, settle(recovery, plan, verdict)).await
        }
    };
    recovered.unwrap_or_else(|signal| Recovered::Begun(Begun::Answer(unsettled(plan, &attempt, signal))))
}

/// Stores what was found out.
async fn settle(recovery: Recovery, plan: &Plan, verdict: Verdict) -> Recovered {
    match verdict {
        Verdict::Happened(stdout) => Recovered::Begun(happened(recovery, plan, &stdout).await),
        Verdict::DidNotHappen => did_not_happen(recovery, plan).await,
        Verdict::Unknown { why, signal } => {
            Recovered::Begun(Begun::Answer(park(recovery, plan, &why, signal).await))
        }
    }
}

/// Runs the reconciler in a shell, with the command's words as `$@`.
async fn reconcile(
    recovery: &Recovery,
    plan: &Plan,
    command: &OsString,
    room: usize,
    signals: &mut Signals,
) -> Verdict {
    let attempt = recovery.attempt();
    let unknown = |why: String| Verdict::Unknown { why, signal: None };
    let mut argv: Vec<OsString> = vec!["sh".into(), "-c".into(), command.clone(), "idem-reconcile".into()];
    argv.extend(plan.command.iter().cloned());
    let started = Streams::captured(room)
        .and_then(|streams| Ok((streams, spawn(&argv, Stdio::null(), environment::of_reconciler(attempt))?)));
    let (mut streams, child) = match started {
        Ok(started) => started,
        Err(error) => return unknown(format!("the reconciler could not be run: {error}")),
    };
    let ran = recovery.keep(supervise(child, &mut streams, attempt, signals, plan.deadlines)).await;
    let interrupted = match streams.flush(signals).await {
        Flushed::CutShort(signal) => Some(signal),
        Flushed::Done | Flushed::Lost(_) => ran.received.last().copied(),
    };
    match (ran.end, interrupted) {
        (End::Exited(0), _) => Verdict::Happened(ran.stdout),
        // Many programs exit with 1 when they are interrupted: that is no finding.
        (End::Exited(1), None) => Verdict::DidNotHappen,
        (_, Some(signal)) => Verdict::Unknown {
            why: format!("the reconciler was interrupted by {}", signals::name(signal)),
            signal: Some(signal),
        },
        (End::Exited(status), None) => unknown(format!("the reconciler cannot tell (exit status {status})")),
        (End::Died(signal) | End::Interrupted(signal), None) => {
            unknown(format!("the reconciler was killed by {}", signals::name(signal)))
        }
        (End::Stopped(_), None) => unknown("the reconciler took too long".to_owned()),
        (End::Unknown(error), None) => unknown(format!("the reconciler's exit status is unknown: {error}")),
    }
}

/// It had happened: what the reconciler printed is the output from now on.
async fn happened(recovery: Recovery, plan: &Plan, stdout: &Recorded) -> Begun {
    let attempt = recovery.attempt().clone();
    let outcome = outcome::of(0, stdout, &Recorded::nothing());
    let stored = StoredOutcome::of(&outcome, outcome.digest(), None);
    let why = match recovery.complete(outcome).await {
        Ok(Completed::Completed { .. } | Completed::AlreadyCompleted) => {
            return match outcome::output(&stored) {
                Some(output) => {
                    let answer = Answer::of_command("recovered", 0).state(View::Completed);
                    Begun::Print(answer.attempt(&attempt).bytes(stdout.total), output)
                }
                None => Begun::Answer(omitted(&stored).state(View::Completed).attempt(&attempt)),
            };
        }
        Ok(Completed::Fenced(view)) => format!("the reconciler says that it happened, but it is {view} now"),
        Ok(_) => "the reconciler says that it happened, but it ended otherwise".to_owned(),
        Err(error) => format!("the reconciler says that it happened, but that could not be stored ({error})"),
    };
    Begun::Answer(Answer::uncertain("unrecorded", uncertain_line(plan, &why)).attempt(&attempt))
}

/// It did not happen and cannot any more: whoever claims next runs it.
async fn did_not_happen(recovery: Recovery, plan: &Plan) -> Recovered {
    match recovery.absent(AbsenceReason::FencedOff).await {
        Ok(Released::Released { .. } | Released::AlreadyReleased | Released::Fenced(_)) => {
            Recovered::ClaimAgain
        }
        Ok(Released::Parked) => {
            let why = "it was parked while the reconciler ran";
            Recovered::Begun(Begun::Answer(Answer::uncertain("uncertain", uncertain_line(plan, why))))
        }
        Ok(_) => Recovered::Begun(Begun::Answer(refused(&Error::internal(
            "a recovery was settled by somebody else",
        )))),
        Err(error) => Recovered::Begun(Begun::Answer(refused(&error))),
    }
}

/// Nobody can tell: an operator decides.
async fn park(recovery: Recovery, plan: &Plan, why: &str, signal: Option<i32>) -> Answer {
    let attempt = recovery.attempt().clone();
    let line = match recovery.park(why).await {
        Ok(_) => uncertain_line(plan, why),
        Err(error) => uncertain_line(plan, &format!("{why}, and that could not be stored ({error})")),
    };
    let answer = Answer::uncertain("uncertain", line).attempt(&attempt);
    match signal {
        Some(signal) => Answer { exit: Exit::Signal(signal), own: false, ..answer },
        None => answer,
    }
}
