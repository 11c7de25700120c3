//! From the command's end to the one settling write, and the answer.

use std::io;

use idem_core::answer::{Completed, Parked, Released};
use idem_core::ledger::{Attempt, Hold};
use idem_core::record::{AbsenceReason, Mode, View};
use idem_core::{Error, Result};

use super::answer::Answer;
use super::begin::is_keyed;
use super::child::{End, Ran, Stop};
use super::prepare::Plan;
use super::signals;
use crate::args::OnFailure;
use crate::{exit, outcome, say};

/// What becomes of an exit status.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Complete,
    Release,
    Park,
}

impl Plan {
    fn fate(&self, status: u8) -> Fate {
        match self.on_failure {
            _ if status == 0 => Fate::Complete,
            _ if self.release_on.contains(&status) => Fate::Release,
            OnFailure::Replay => Fate::Complete,
            OnFailure::Release => Fate::Release,
            OnFailure::Park => Fate::Park,
        }
    }
}

/// Settles a command that ran.
pub(crate) async fn settle(hold: Hold, plan: &Plan, ran: &Ran) -> Answer {
    let attempt = hold.attempt().clone();
    let answer = match &ran.end {
        End::Exited(status) => match plan.fate(*status) {
            Fate::Complete => complete(hold, plan, *status, ran).await,
            Fate::Release => release(hold, plan, *status).await,
            Fate::Park => {
                let why = format!("exit status {status} (--on-failure park)");
                park(hold, plan, &why).await
            }
        },
        End::Interrupted(signal) => {
            let parked = park(hold, plan, &format!("interrupted by {}", signals::name(*signal))).await;
            Answer { exit: exit::Exit::Signal(*signal), own: false, ..parked }
        }
        End::Died(signal) => park(hold, plan, &format!("killed by {}", signals::name(*signal))).await,
        End::Stopped(Stop::TimedOut) => {
            let limit = plan.deadlines.timeout.unwrap_or_default();
            park(hold, plan, &format!("stopped after {} s (--timeout)", limit.as_secs_f64())).await
        }
        End::Stopped(Stop::LeaseLost) => park(hold, plan, "stopped because its lease was lost").await,
        End::Unknown(error) => park(hold, plan, &format!("its exit status is unknown: {error}")).await,
    };
    answer.attempt(&attempt).bytes(ran.stdout.total + ran.stderr.total)
}

async fn complete(hold: Hold, plan: &Plan, status: u8, ran: &Ran) -> Answer {
    let outcome = outcome::of(status, &ran.stdout, &ran.stderr);
    let executed = Answer::of_command("executed", status).state(View::Completed);
    match hold.complete(outcome).await {
        Ok(Completed::Completed { body_omitted: true, .. }) => executed.line(
            "the output is larger than the ledger keeps: later calls with this key get 77, its length and its digest",
        ),
        Ok(Completed::Completed { .. } | Completed::AlreadyCompleted) => executed,
        Ok(Completed::OutcomeConflict) => unrecorded(
            plan,
            View::Completed,
            "the command ran, but the operation is completed with another result, which stays",
        ),
        Ok(Completed::Fenced(view)) => fenced(plan, view),
        Ok(_) => unconfirmed(plan, &Error::internal("the store answered something unknown")),
        Err(error) => unconfirmed(plan, &error),
    }
}

async fn release(hold: Hold, plan: &Plan, status: u8) -> Answer {
    match give_back(hold, false).await {
        None => {
            let reason = format!("exit status {status} (--on-failure release)");
            Answer::uncertain("parked", uncertain_line(plan, &format!("{reason}, after an earlier attempt")))
        }
        Some(Ok(Released::Released { .. } | Released::AlreadyReleased)) => {
            Answer::of_command("released", status)
                .state(View::Received)
                .line(format!("exit status {status}: given back, the same key runs again"))
        }
        Some(Ok(Released::Fenced(view))) => fenced(plan, view),
        Some(Ok(Released::Parked)) => fenced(plan, View::Uncertain),
        Some(Ok(_)) => unconfirmed(plan, &Error::internal("the store answered something unknown")),
        Some(Err(error)) => unconfirmed(plan, &error),
    }
}

/// Gives the operation back; parks it, and gives `None`, where an earlier attempt may have had its effect and nothing
/// makes it safe to run again (G-19).
async fn give_back(hold: Hold, forget: bool) -> Option<Result<Released>> {
    let grant = hold.attempt().grant();
    if grant.mode == Mode::Execute {
        return Some(hold.release(forget).await);
    }
    if is_keyed(grant.effect) {
        return Some(hold.release_because(AbsenceReason::Deduplicated).await);
    }
    match hold.park("nothing happened now; an earlier attempt may have").await {
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    }
}

/// Makes the operation uncertain.
async fn park(hold: Hold, plan: &Plan, why: &str) -> Answer {
    match hold.park(why).await {
        Ok(Parked::Parked { .. } | Parked::AlreadyParked) => {
            Answer::uncertain("parked", uncertain_line(plan, why))
        }
        Ok(Parked::Settled) => unconfirmed(plan, &Error::internal("the attempt was settled already")),
        Ok(Parked::Fenced(view)) => fenced(plan, view),
        Ok(_) => unconfirmed(plan, &Error::internal("the store answered something unknown")),
        Err(error) => unconfirmed(plan, &error),
    }
}

pub(crate) fn uncertain_line(plan: &Plan, why: &str) -> String {
    format!(
        "uncertain: {why}; find out whether it happened, and tell it with {}",
        plan.hints.resolve(&plan.id)
    )
}

fn unrecorded(plan: &Plan, view: View, why: &str) -> Answer {
    let line = format!("{why}; look at `{}`", plan.hints.show(&plan.id));
    Answer::uncertain("unrecorded", line).state(view)
}

fn fenced(plan: &Plan, view: View) -> Answer {
    unrecorded(
        plan,
        view,
        &format!("the command ran, but its lease was lost and the operation is {view} now"),
    )
}

/// A signal came before it was confirmed that the result is stored.
pub(crate) fn unsettled(plan: &Plan, attempt: &Attempt, signal: i32) -> Answer {
    let line = format!(
        "stopped by {} while the result was being stored, and it may not be: ask again with the same key, or \
         look at `{}`",
        signals::name(signal),
        plan.hints.show(&plan.id)
    );
    let answer = Answer { state: None, ..Answer::uncertain("unrecorded", line) };
    answer.attempt(attempt)
}

/// The store did not confirm the settling write: the lease covers the operation until it lapses (G-16).
fn unconfirmed(plan: &Plan, error: &Error) -> Answer {
    let line = format!(
        "the command ran, and the store did not confirm its end ({}); ask again with the same key, or look at `{}`",
        say::error(error),
        plan.hints.show(&plan.id)
    );
    Answer { state: None, ..Answer::uncertain("unrecorded", line) }
}

/// A command that could not be started: nothing happened, and nothing of it is kept (G-31).
pub(crate) async fn not_started(hold: Hold, plan: &Plan, error: &io::Error) -> Answer {
    let attempt: Attempt = hold.attempt().clone();
    let name = plan.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
    let (answer, code, what) = match error.kind() {
        io::ErrorKind::NotFound => ("not-found", exit::NOT_FOUND, "was not found"),
        _ => ("not-executable", exit::CANNOT_EXECUTE, "cannot be executed"),
    };
    let line = format!("{name} {what} ({error}): nothing was run and the key is free");
    let released = give_back(hold, true).await;
    let answer = match released {
        Some(Ok(Released::Released { .. } | Released::AlreadyReleased)) => {
            Answer::own(answer, code, line).state(View::Received)
        }
        Some(Ok(_)) => Answer::own(
            answer,
            code,
            format!("{name} {what} ({error}): nothing was run; the key was no longer ours to give back"),
        ),
        None => Answer::own(answer, code, format!("{name} {what} ({error}): nothing was run now"))
            .state(View::Uncertain),
        Some(Err(error)) => Answer::own(
            answer,
            code,
            format!(
                "{name} {what}, and the key could not be given back ({error}): it is free once its lease lapses"
            ),
        ),
    };
    answer.attempt(&attempt)
}
