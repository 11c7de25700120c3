//! `idem run`: claim, run, settle.

pub(crate) mod answer;
mod begin;
mod child;
mod environment;
pub(crate) mod fingerprint;
pub(crate) mod input;
pub(crate) mod prepare;
mod pump;
mod recover;
mod report;
mod settle;
mod signals;
mod sink;
pub(crate) mod spool;
mod streams;

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use idem_core::Error;
use idem_core::clock::SystemClock;
use idem_core::ledger::{Hold, Ledger};

use crate::args::RunArgs;
use crate::exit::{self, Exit};
use crate::hint::Hints;
use crate::store::Location;
use crate::{outcome, runtime, say};
use answer::Answer;
use begin::Begun;
use child::{spawn, supervise};
use prepare::Plan;
use report::Report;
use signals::Signals;
use streams::{Flushed, Streams};

/// How long claims that nobody waits for any more have to be given back.
const GIVE_BACK: Duration = Duration::from_secs(1);

/// Runs `idem run`.
pub(crate) fn run(store: Option<&OsStr>, args: RunArgs) -> Exit {
    let (quiet, own_exit) = (args.quiet, args.own_exit);
    let (report, mut answer) = match Report::open(args.report.as_deref()) {
        Ok(report) => (report, answer(store, args)),
        Err(error) => {
            let line = format!("the report cannot be written: {error}; nothing was run");
            (Report::None, Answer::own("configuration", exit::CONFIGURATION, line))
        }
    };
    if let Some(code) = own_exit.filter(|_| answer.own) {
        answer.exit = Exit::Code(code);
    }
    if let Some(line) = answer.line.as_deref().filter(|_| !quiet) {
        say::line(line);
    }
    if let Err(error) = report.write(&answer)
        && !quiet
    {
        say::line(&format!("the report could not be written: {error}"));
    }
    answer.exit
}

fn answer(store: Option<&OsStr>, args: RunArgs) -> Answer {
    let planned = Location::of(store).and_then(|location| Ok((location, Plan::of(args, Hints::of(store))?)));
    let (location, plan) = match planned {
        Ok(planned) => planned,
        Err(error) => return refused(&error),
    };
    let work = async {
        match Signals::listen() {
            Ok(mut signals) => open_and_drive(&location, plan, &mut signals).await,
            // The system has no more threads or files for us.
            Err(error) => refused(&Error::unavailable(format!("signals cannot be received: {error}"))),
        }
    };
    runtime::block_on(work).unwrap_or_else(|error| refused(&error))
}

/// The answer to an error before the command was run.
fn refused(error: &Error) -> Answer {
    let name = match exit::of_error(error) {
        exit::USAGE => "usage",
        exit::UNAVAILABLE => "unavailable",
        exit::CONFIGURATION => "configuration",
        _ => "internal",
    };
    Answer::own(name, exit::of_error(error), format!("{}; the command was not run", say::error(error)))
}

async fn open_and_drive(location: &Location, plan: Plan, signals: &mut Signals) -> Answer {
    let opened = tokio::select! {
        biased;
        received = signals.next() => return unstarted(received.signal),
        opened = location.open() => opened,
    };
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) => return refused(&error),
    };
    let ledger = Ledger::shared(opened.store(), Arc::new(SystemClock)).with(plan.policy.clone());
    let answer = drive(&ledger, plan, signals).await;
    let closing = async {
        ledger.drain(GIVE_BACK).await;
        drop(ledger);
        opened.close().await;
    };
    // Nothing of the answer depends on it any more.
    let _hurried = signals.end(None, closing).await;
    answer
}

/// The answer when a signal came before the command was started.
fn unstarted(signal: i32) -> Answer {
    let line = format!("stopped by {}; the command was not run", signals::name(signal));
    Answer::signal("interrupted", signal, line)
}

async fn drive(ledger: &Ledger, mut plan: Plan, signals: &mut Signals) -> Answer {
    match begin::begin(ledger, &plan, signals).await {
        Begun::Answer(answer) => answer,
        Begun::Print(answer, output) => match Streams::replay(&output.stdout, &output.stderr) {
            Ok(streams) => flushed(answer, streams, signals).await,
            Err(error) => unwritten(answer, &error),
        },
        Begun::Run(hold) => {
            let room = outcome::room(ledger.store().capabilities().limits.body_bytes_max);
            execute(hold, &mut plan, room, signals).await
        }
    }
}

async fn execute(hold: Hold, plan: &mut Plan, room: usize, signals: &mut Signals) -> Answer {
    let input = std::mem::replace(&mut plan.input, input::Input::None);
    let environment = environment::of(hold.attempt());
    let mut streams = match Streams::live(room) {
        Ok(streams) => streams,
        Err(error) => return not_started(hold, plan, &error, signals).await,
    };
    let child = match spawn(&plan.command, input.into_stdio(), environment) {
        Ok(child) => child,
        Err(error) => {
            streams.close();
            return not_started(hold, plan, &error, signals).await;
        }
    };
    let watched = supervise(child, &mut streams, hold.attempt(), signals, plan.deadlines);
    let ran = hold.keep(watched).await;
    let attempt = hold.attempt().clone();
    match signals.end(ran.hurry, settle::settle(hold, plan, &ran)).await {
        Ok(answer) => flushed(answer, streams, signals).await,
        // A reader that is slow as well is not waited for.
        Err(signal) => settle::unsettled(plan, &attempt, signal).bytes(ran.stdout.total + ran.stderr.total),
    }
}

async fn not_started(hold: Hold, plan: &Plan, error: &io::Error, signals: &mut Signals) -> Answer {
    let attempt = hold.attempt().clone();
    let not_started = settle::not_started(hold, plan, error);
    signals.end(None, not_started).await.unwrap_or_else(|signal| settle::unsettled(plan, &attempt, signal))
}

/// The answer once what was printed has arrived, or has not.
async fn flushed(answer: Answer, streams: Streams, signals: &mut Signals) -> Answer {
    match streams.flush(signals).await {
        Flushed::Done => answer,
        Flushed::Lost(error) => unwritten(answer, &error),
        Flushed::CutShort(signal) => Answer { exit: Exit::Signal(signal), own: false, ..answer },
    }
}

/// A result that did not arrive must not look like one that did.
fn unwritten(answer: Answer, error: &io::Error) -> Answer {
    if answer.own {
        return answer;
    }
    // What the answer says about the operation is true all the same.
    let next =
        answer.line.clone().unwrap_or_else(|| "it is stored, so ask again with the same key".to_owned());
    let line = format!("the output could not be written: {error}; {next}");
    Answer { exit: Exit::Code(exit::OUTPUT_LOST), own: true, ..answer }.line(line)
}
