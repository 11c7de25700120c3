//! What idem itself says: one line on stderr, and what it prints on stdout.

use std::error::Error as _;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use idem_core::{Error, ErrorKind};

use crate::exit::{self, Exit};

/// Prints `idem: …` as one line on stderr. That stderr is closed is nothing that could be told anybody.
pub(crate) fn line(text: &str) {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let _ = writeln!(io::stderr().lock(), "idem: {text}");
}

/// An error and its causes as one line. Where the error's own sentence cannot say what to do, its kind does.
pub(crate) fn error(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let source_text = source.to_string();
        if !text.contains(&source_text) {
            let _ = write!(text, ": {source_text}");
        }
        cause = source.source();
    }
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::Configuration | ErrorKind::Unavailable => text,
        kind => format!("{text} ({})", kind.advice()),
    }
}

/// Prints on stdout. A reader that has gone away wants no more; any other failure is reported, and the exit says so.
pub(crate) fn print(text: &str) -> Exit {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Exit::Code(0),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Code(0),
        Err(error) => {
            line(&format!("the output could not be written: {error}"));
            Exit::Code(exit::OUTPUT_LOST)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_to_do() {
        let cause = |kind| Error::with_source(kind, "the database is locked", io::Error::other("busy"));
        assert_eq!(error(&cause(ErrorKind::Unavailable)), "the database is locked: busy");
        assert_eq!(
            error(&cause(ErrorKind::Corrupt)),
            "the database is locked: busy (inspect the stored row by hand; nothing was changed)"
        );
    }
}
