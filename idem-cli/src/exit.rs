//! How the program ends, and what each of its exit codes means.

use std::fmt::Write as _;
use std::process::ExitCode;

use idem_core::{Error, ErrorKind};

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// With this code.
    Code(u8),
    /// By this signal, as the command did.
    Signal(i32),
}

pub(crate) const USAGE: u8 = 64;
pub(crate) const CONFLICT: u8 = 65;
pub(crate) const UNAVAILABLE: u8 = 69;
pub(crate) const INTERNAL: u8 = 70;
pub(crate) const OUTPUT_LOST: u8 = 74;
pub(crate) const IN_PROGRESS: u8 = 75;
pub(crate) const UNCERTAIN: u8 = 76;
pub(crate) const GONE: u8 = 77;
pub(crate) const CONFIGURATION: u8 = 78;
pub(crate) const CANNOT_EXECUTE: u8 = 126;
pub(crate) const NOT_FOUND: u8 = 127;
/// Of the commands other than `run`: what was asked for is not there, or not as it would have to be.
pub(crate) const NO: u8 = 1;

/// The exit statuses of `idem run`.
const OF_RUN: &str = "\
Exit status of `idem run`

  exit       meaning                                              did the command run now?
  its own    executed or replayed                                 yes / no
  64         usage, bad key                                       no
  65         conflict: the key was used for another intent        no
  69         store unavailable before the claim                   certainly no
  70         internal error, corrupt record                       no
  74         the output could not be written to where idem's      yes / no
             output goes (disk full); the result is stored,
             unless it was given back
  75         in progress                                          no
  76         uncertain: parked, killed by a signal, timed out,    perhaps
             lease lost, or the store failed after it began
  77         expired, erased, or its output was not kept          no
  78         configuration, unsupported                           no
  126        the command cannot be executed                       no: released, nothing stored
  127        the command was not found                            no: released, nothing stored

A command that died of a signal that idem passed on to it is uncertain (76 from then on), and idem dies of the same
signal. A command may exit with one of these numbers itself: `-E N` makes all of idem's own answers N, and
`--report FILE` tells them apart in JSON.
";

/// The commands that look after a ledger.
const MANAGING: [&str; 8] = ["show", "list", "stats", "resolve", "erase", "register", "sweep", "migrate"];

/// One exit status of them, what it means, and which of them end so.
struct Row(u8, &'static str, &'static [&'static str]);

const OF_MANAGING: [Row; 12] = [
    Row(0, "done", &MANAGING),
    Row(NO, "no operation has the key, or none of that tenant and name", &["show", "resolve", "erase"]),
    Row(NO, "it is not uncertain: there is nothing to decide", &["resolve"]),
    Row(NO, "it is not finished: there is nothing to remove", &["erase"]),
    Row(USAGE, "usage, bad key", &MANAGING),
    Row(USAGE, "several operations have the key: choose one", &["show", "resolve", "erase"]),
    Row(CONFLICT, "conflict: the key was used for another intent", &["register"]),
    Row(UNAVAILABLE, "store unavailable: ask again, which is safe", &MANAGING),
    Row(INTERNAL, "internal error, corrupt record", &MANAGING),
    Row(OUTPUT_LOST, "done, but the output could not be written", &MANAGING),
    Row(IN_PROGRESS, "too early, or changed since it was read: try again", &["resolve"]),
    Row(CONFIGURATION, "configuration, no ledger there, unsupported", &MANAGING),
];

/// `idem help exit-codes`.
pub(crate) fn table() -> String {
    let mut text =
        format!("{OF_RUN}\nExit status of the other commands\n\n  {:<5}{:<59}{}\n", "exit", "meaning", "of");
    for Row(code, meaning, commands) in OF_MANAGING {
        let of =
            if commands.len() == MANAGING.len() { "all of them".to_owned() } else { commands.join(", ") };
        let _ = writeln!(text, "  {code:<5}{meaning:<59}{of}");
    }
    let _ = write!(text, "\nAll of them: {}.\n", MANAGING.join(", "));
    text
}

/// The exit statuses of one of the commands that look after a ledger, for its help.
pub(crate) fn of_command(name: &str) -> String {
    let mut text = String::from("Exit status:");
    for Row(code, meaning, _) in OF_MANAGING.iter().filter(|Row(_, _, commands)| commands.contains(&name)) {
        let _ = write!(text, "\n  {code:<4}{meaning}");
    }
    text
}

impl Exit {
    /// What the shell makes of it: 128 + n for a signal.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => u8::try_from(signal).unwrap_or(127).saturating_add(128),
        }
    }

    /// Ends the program so. Returns only where it does not die of the signal.
    pub(crate) fn end(self) -> ExitCode {
        if let Self::Signal(signal) = self {
            // The same end as the command's, so that a shell loop or a supervisor sees the signal. Where raising it is
            // refused, the status that shells use for it is next best.
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
        ExitCode::from(self.status())
    }
}

/// The exit code for an error before the command was run (G-50).
pub(crate) fn of_error(error: &Error) -> u8 {
    match error.kind() {
        ErrorKind::InvalidInput => USAGE,
        ErrorKind::Configuration | ErrorKind::Unsupported => CONFIGURATION,
        ErrorKind::Unavailable | ErrorKind::Indeterminate => UNAVAILABLE,
        _ => INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_exit_code() {
        let cases = [
            (Error::invalid_input(""), 64),
            (Error::unavailable(""), 69),
            (Error::indeterminate(""), 69),
            (Error::internal(""), 70),
            (Error::corrupt(""), 70),
            (Error::configuration(""), 78),
            (Error::unsupported(""), 78),
        ];
        for (error, code) in cases {
            assert_eq!(of_error(&error), code, "{error:?}");
        }
    }

    #[test]
    fn a_signal_is_128_and_its_number_in_a_shell() {
        assert_eq!((Exit::Signal(15).status(), Exit::Code(3).status()), (143, 3));
    }
}
