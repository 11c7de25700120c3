//! The command as a process: started, watched, and told to stop when it must.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use idem_core::clock::{Clock, SystemClock};
use idem_core::ledger::Attempt;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use super::pump::{Ended, pump};
use super::signals::Signals;
use super::spool::Recorded;
use super::streams::Streams;
use crate::defect;

/// The longest time between TERM and KILL once somebody else may be running the same operation.
const LOST_GRACE_MAX: Duration = Duration::from_secs(1);

/// Starts `argv` with `environment` on top of ours. No descriptor of ours but the three streams reaches it: every
/// other one is closed on exec.
pub(crate) fn spawn(
    argv: &[OsString],
    stdin: Stdio,
    environment: Vec<(&'static str, String)>,
) -> io::Result<Child> {
    let (name, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let child = Command::new(name)
        .args(arguments)
        .envs(environment)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    defect::command_began();
    Ok(child)
}

/// When a command is told to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    /// This long after its start it gets TERM,
    pub(crate) timeout: Option<Duration>,
    /// and this long after that KILL.
    pub(crate) kill_after: Duration,
    /// The lease: a quarter before its end the command gets TERM, an eighth before its end KILL.
    pub(crate) lease: Duration,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) enum End {
    /// With this status.
    Exited(u8),
    /// By a signal that idem had received as well.
    Interrupted(i32),
    /// By a signal from elsewhere.
    Died(i32),
    /// It was told to stop.
    Stopped(Stop),
    /// Its status could not be read.
    Unknown(io::Error),
}

/// Why a command was told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It had taken longer than it may.
    TimedOut,
    /// Its lease was about to end, or was lost.
    LeaseLost,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) end: End,
    /// The signals that came meanwhile.
    pub(crate) received: Vec<i32>,
    /// One that came after the command's end: whoever sent it wants idem to end.
    pub(crate) hurry: Option<i32>,
    pub(crate) stdout: Recorded,
    pub(crate) stderr: Recorded,
}

/// Watches `child` to its end, passes signals on to it, and stops it when `deadlines` or its lease say so. Reads its
/// output until the pipes end, or for at most a second after the child did.
pub(crate) async fn supervise(
    mut child: Child,
    streams: &mut Streams,
    attempt: &Attempt,
    signals: &mut Signals,
    deadlines: Deadlines,
) -> Ran {
    let ended = Ended::default();
    let (out_pipe, err_pipe) = (child.stdout.take(), child.stderr.take());
    let (out, err) = (streams.out.clone(), streams.err.clone());
    // A pipe that cannot be read any more is one that has ended.
    let out_pump = async {
        if let Some(pipe) = out_pipe {
            let _ = pump(pipe, &out, &ended).await;
        }
    };
    let err_pump = async {
        if let Some(pipe) = err_pipe {
            let _ = pump(pipe, &err, &ended).await;
        }
    };
    let mut pumps = pin!(async { tokio::join!(out_pump, err_pump) });
    let mut pumping = true;
    let mut watch = Watch::new(deadlines);
    let status = loop {
        tokio::select! {
            biased;
            status = child.wait() => break status,
            _ = &mut pumps, if pumping => pumping = false,
            due = watch.next(attempt, signals) => match due {
                Due::Forward(signal) => send(&child, signal),
                // A command that has ended is not stopped, also where this program stood still in the meantime and
                // hears of its deadline first.
                Due::Stop(stop) => match child.try_wait() {
                    Ok(Some(status)) => break Ok(status),
                    _ => {
                        watch.stop(stop);
                        send(&child, Signal::TERM);
                    }
                },
                Due::Kill => send(&child, Signal::KILL),
            }
        }
    };
    ended.ring();
    // What ended the command may reach us behind the news of its end.
    let late = signals.pending().map(|received| received.signal);
    watch.received.extend(late);
    let end = watch.end(status);
    let mut hurry = late.filter(|late| !matches!(end, End::Interrupted(signal) if signal == *late));
    while pumping {
        tokio::select! {
            biased;
            _ = &mut pumps => pumping = false,
            received = signals.next() => {
                // Only our own reader is waited for, and the user wants an end.
                streams.cut_short = Some(received.signal);
                hurry = Some(received.signal);
                out.deafen();
                err.deafen();
            }
        }
    }
    let (stdout, stderr) = streams.close();
    Ran { end, received: watch.received, hurry, stdout, stderr }
}

/// Sends `signal` to the command, unless it has ended: its number may be another process's then.
fn send(child: &Child, signal: Signal) {
    if let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
        // It may have changed its user; then it is not ours to stop, and its lease says when it has to have stopped.
        let _ = kill_process(pid, signal);
    }
}

/// What is to be done about a running command.
enum Due {
    /// Pass this signal on.
    Forward(Signal),
    /// Tell it to stop.
    Stop(Stop),
    /// Make it stop.
    Kill,
}

/// What is watched beside the command itself.
struct Watch {
    deadlines: Deadlines,
    timeout_at: Option<Duration>,
    kill_at: Option<Duration>,
    stopped: Option<Stop>,
    received: Vec<i32>,
}

impl Watch {
    fn new(deadlines: Deadlines) -> Self {
        let timeout_at = deadlines.timeout.map(|timeout| SystemClock.elapsed().saturating_add(timeout));
        Self { deadlines, timeout_at, kill_at: None, stopped: None, received: Vec::new() }
    }

    /// What is due next. May be dropped and asked again.
    async fn next(&mut self, attempt: &Attempt, signals: &mut Signals) -> Due {
        let lease_watched = self.stopped != Some(Stop::LeaseLost);
        loop {
            tokio::select! {
                received = signals.next() => {
                    self.received.push(received.signal);
                    // What the terminal sends goes to the whole group, so the command has it. Twice would mean "at
                    // once" to many programs.
                    if !received.by_terminal && let Some(signal) = Signal::from_named_raw(received.signal) {
                        return Due::Forward(signal);
                    }
                }
                () = at(self.timeout_at) => return Due::Stop(Stop::TimedOut),
                () = lease_is_short(attempt, self.deadlines.lease / 4), if lease_watched => {
                    return Due::Stop(Stop::LeaseLost);
                }
                () = at(self.kill_at) => {
                    self.kill_at = None;
                    return Due::Kill;
                }
            }
        }
    }

    /// The command is told to stop, and killed if it does not.
    fn stop(&mut self, stop: Stop) {
        self.timeout_at = None;
        let grace = match stop {
            Stop::TimedOut => self.deadlines.kill_after,
            Stop::LeaseLost => (self.deadlines.lease / 8).min(LOST_GRACE_MAX),
        };
        let at = SystemClock.elapsed().saturating_add(grace);
        self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
        self.stopped = Some(stop);
    }

    /// What the status means. A status of 128 + n after signal n is how shells pass on that a command of theirs died
    /// of it.
    fn end(&self, status: io::Result<ExitStatus>) -> End {
        let status = match (self.stopped, status) {
            (Some(stop), _) => return End::Stopped(stop),
            (None, Err(error)) => return End::Unknown(error),
            (None, Ok(status)) => status,
        };
        let received = |signal: i32| self.received.contains(&signal);
        match (status.signal(), status.code()) {
            (Some(signal), _) if received(signal) => End::Interrupted(signal),
            (Some(signal), _) => End::Died(signal),
            (None, Some(code)) if received(code - 128) => End::Interrupted(code - 128),
            (None, Some(code)) => u8::try_from(code)
                .map_or_else(|_| End::Unknown(io::Error::other(format!("exit status {code}"))), End::Exited),
            (None, None) => End::Unknown(io::Error::other("neither an exit status nor a signal")),
        }
    }
}

/// Resolves at `deadline`; never without one.
async fn at(deadline: Option<Duration>) {
    match deadline {
        Some(deadline) => SystemClock.sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Resolves when no more than `margin` of the lease is left: the heartbeat has failed for most of it.
async fn lease_is_short(attempt: &Attempt, margin: Duration) {
    loop {
        let spare = attempt.remaining().saturating_sub(margin);
        if spare.is_zero() {
            return;
        }
        tokio::select! {
            () = attempt.lost() => return,
            () = SystemClock.sleep_until(SystemClock.elapsed() + spare) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(received: &[i32], stop: Option<Stop>) -> Watch {
        let second = Duration::from_secs(1);
        let mut watch = Watch::new(Deadlines { timeout: None, kill_after: second, lease: second });
        watch.received = received.to_vec();
        watch.stopped = stop;
        watch
    }

    #[test]
    fn the_end_of_a_command_is_told_apart() {
        let end = |received: &[i32], raw| watch(received, None).end(Ok(ExitStatus::from_raw(raw)));
        assert!(matches!(end(&[], 0), End::Exited(0)));
        assert!(matches!(end(&[15], 3 << 8), End::Exited(3)));
        assert!(matches!(end(&[], 143 << 8), End::Exited(143)));
        assert!(matches!(end(&[15], 143 << 8), End::Interrupted(15)));
        assert!(matches!(end(&[2, 15], 15), End::Interrupted(15)));
        assert!(matches!(end(&[2], 15), End::Died(15)));
        assert!(matches!(end(&[], 9), End::Died(9)));
        let unknown = watch(&[], None).end(Err(io::Error::other("lost")));
        assert!(matches!(unknown, End::Unknown(_)));
        let stopped = watch(&[15], Some(Stop::TimedOut)).end(Ok(ExitStatus::from_raw(0)));
        assert!(matches!(stopped, End::Stopped(Stop::TimedOut)));
    }
}
