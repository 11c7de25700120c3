//! What one `idem run` comes to: for the caller, for people, and for the report.

use idem_core::ledger::Attempt;
use idem_core::record::View;

use crate::exit::Exit;

/// The answer of a run.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its name in the report.
    pub(crate) name: &'static str,
    pub(crate) exit: Exit,
    /// Whether the exit is idem's own, and not the command's.
    pub(crate) own: bool,
    /// What idem says about it on stderr.
    pub(crate) line: Option<String>,
    /// What the operation is now, as far as this call knows.
    pub(crate) state: Option<View>,
    pub(crate) attempt: Option<u32>,
    pub(crate) fence: Option<u64>,
    /// Bytes of stdout and stderr.
    pub(crate) bytes: u64,
}

impl Answer {
    /// An answer with the command's exit.
    pub(crate) const fn of_command(name: &'static str, exit: u8) -> Self {
        Self {
            name,
            exit: Exit::Code(exit),
            own: false,
            line: None,
            state: None,
            attempt: None,
            fence: None,
            bytes: 0,
        }
    }

    /// An answer of idem's own.
    pub(crate) fn own(name: &'static str, exit: u8, line: impl Into<String>) -> Self {
        Self { own: true, ..Self::of_command(name, exit) }.line(line)
    }

    /// An answer about an operation that nobody knows the end of.
    pub(crate) fn uncertain(name: &'static str, line: impl Into<String>) -> Self {
        Self::own(name, crate::exit::UNCERTAIN, line).state(View::Uncertain)
    }

    /// Dies of `signal`.
    pub(crate) fn signal(name: &'static str, signal: i32, line: impl Into<String>) -> Self {
        Self { exit: Exit::Signal(signal), ..Self::of_command(name, 0) }.line(line)
    }

    /// The same, saying this.
    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.line = Some(line.into());
        self
    }

    /// The same with the operation in this state.
    pub(crate) const fn state(mut self, state: View) -> Self {
        self.state = Some(state);
        self
    }

    /// The same about this attempt.
    pub(crate) fn attempt(mut self, attempt: &Attempt) -> Self {
        self.attempt = Some(attempt.number());
        self.fence = Some(attempt.fence().get());
        self
    }

    /// The same with so many bytes of output.
    pub(crate) const fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }
}
