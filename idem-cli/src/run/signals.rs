//! Signals that end a program, received so that they can be passed on to the command.

use std::io;
use std::pin::pin;
use std::time::Duration;

use idem_core::clock::{Clock, SystemClock};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use tokio::sync::mpsc;

/// The signals that are passed on.
const FORWARDED: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// How many signals wait for their turn; more of them say nothing new.
const PENDING_MAX: usize = 16;

/// How long a signal waits for what is on its way to the store: an end that is stored is worth a moment.
const ARRIVING: Duration = Duration::from_secs(1);

/// A signal that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) signal: i32,
    /// The terminal (or the kernel for another reason) sent it to the whole process group, so the command has it.
    pub(crate) by_terminal: bool,
}

/// Receives the signals from its making on.
pub(crate) struct Signals {
    receiver: mpsc::Receiver<Received>,
    /// One that has ended something: what comes after it is short as well.
    ended_by: Option<i32>,
}

impl Signals {
    /// Receives INT, TERM, HUP and QUIT instead of dying of them, except those that we were told to ignore (`nohup`):
    /// the command inherits that.
    pub(crate) fn listen() -> io::Result<Self> {
        let ignored = ignored();
        let wanted = FORWARDED.into_iter().filter(|signal| !ignored.contains(signal));
        // Not to be ignored either: where SIGCHLD is, the kernel throws the exit status of children away.
        let mut signals = SignalsInfo::<WithOrigin>::new(wanted.chain([SIGCHLD]))?;
        let (sender, receiver) = mpsc::channel(PENDING_MAX);
        std::thread::Builder::new().name("idem-signals".to_owned()).spawn(move || {
            for origin in signals.forever().filter(|origin| origin.signal != SIGCHLD) {
                let by_terminal = origin.cause == Cause::Kernel;
                // Full: enough of them are on their way.
                let _ = sender.try_send(Received { signal: origin.signal, by_terminal });
            }
        })?;
        Ok(Self { receiver, ended_by: None })
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Received {
        match self.receiver.recv().await {
            Some(received) => received,
            // The thread lives as long as the process.
            None => std::future::pending().await,
        }
    }

    /// Does what may take as long as a lease lasts, unless a signal ends it: one that has come already, or the next. What
    /// is on its way then has [`ARRIVING`] to arrive, however many more signals come.
    ///
    /// # Errors
    ///
    /// The signal that ended it: what was to be done may be done or not.
    pub(crate) async fn end<T>(
        &mut self,
        come: Option<i32>,
        work: impl Future<Output = T>,
    ) -> Result<T, i32> {
        let mut work = pin!(work);
        let signal = match come.or(self.ended_by) {
            Some(signal) => signal,
            None => tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                received = self.next() => received.signal,
            },
        };
        let moment = SystemClock.elapsed().saturating_add(ARRIVING);
        tokio::select! {
            biased;
            done = &mut work => Ok(done),
            () = SystemClock.sleep_until(moment) => {
                self.ended_by = Some(signal);
                Err(signal)
            }
        }
    }

    /// A signal that has come already.
    pub(crate) fn pending(&mut self) -> Option<Received> {
        self.receiver.try_recv().ok()
    }
}

/// The forwarded signals that this process was started to ignore. Only Linux tells without asking for trouble.
fn ignored() -> Vec<i32> {
    ignored_in(&std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

fn ignored_in(status: &str) -> Vec<i32> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    FORWARDED.into_iter().filter(|signal| mask >> (signal - 1) & 1 == 1).collect()
}

/// `TERM` for 15, and so on.
pub(crate) fn name(signal: i32) -> String {
    match signal_hook::low_level::signal_name(signal) {
        Some(name) => name.trim_start_matches("SIG").to_owned(),
        None => format!("number {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        assert_eq!(
            (name(15), name(9), name(200)),
            ("TERM".to_owned(), "KILL".to_owned(), "number 200".to_owned())
        );
    }

    #[test]
    fn ignored_signals_are_read_from_the_mask() {
        assert_eq!(ignored_in("Name:\tidem\nSigIgn:\t0000000000001001\n"), [SIGHUP]);
        assert_eq!(ignored_in("SigIgn:\t0000000000000006"), [SIGINT, SIGQUIT]);
        assert_eq!(ignored_in(""), [0; 0]);
    }
}
