//! Parsing, and what is said when a command line is wrong.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::Cli;
use crate::exit::{Exit, USAGE};
use crate::say;

/// What a command line came to.
pub(crate) enum Parsed {
    /// Do this.
    Command(Box<Cli>),
    /// Everything is said.
    Exit(Exit),
}

/// Parses the command line. Help goes to stdout; a wrong one gets one line on stderr and exit 64.
pub(crate) fn parse(args: &[OsString]) -> Parsed {
    let error = match Cli::try_parse_from(args) {
        Ok(cli) => return Parsed::Command(Box::new(cli)),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Parsed::Exit(say::print(&error.render().to_string()))
        }
        _ => {
            say::line(&format!("{}; see `{}`", one_line(&error), help(args)));
            Parsed::Exit(Exit::Code(own_exit(args).unwrap_or(USAGE)))
        }
    }
}

/// The first paragraph of clap's text, without its label.
fn one_line(error: &clap::Error) -> String {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand
    ) {
        return "no command is given".to_owned();
    }
    let text = error.render().to_string();
    let paragraph = text.split("\n\n").next().unwrap_or(&text);
    let words: Vec<_> = paragraph.strip_prefix("error:").unwrap_or(paragraph).split_whitespace().collect();
    words.join(" ")
}

/// Where the help for this command line is.
fn help(args: &[OsString]) -> String {
    let known = Cli::command();
    let named = args.iter().skip(1).filter_map(|arg| arg.to_str());
    let command = named.take_while(|arg| *arg != "--").find(|arg| known.find_subcommand(arg).is_some());
    command.map_or_else(|| "idem help".to_owned(), |command| format!("idem help {command}"))
}

/// `-E N` of a command line that is wrong elsewhere: it covers this answer too.
fn own_exit(args: &[OsString]) -> Option<u8> {
    let matches = Cli::command().ignore_errors(true).try_get_matches_from(args).ok()?;
    let (name, run) = matches.subcommand()?;
    if name != "run" {
        return None;
    }
    run.try_get_one::<u8>("own_exit").ok().flatten().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_wrong_line_is_told_in_one_line() {
        let error = Cli::try_parse_from(args("idem run --kye a -- true")).unwrap_err();
        let text = one_line(&error);
        assert!(text.starts_with("unexpected argument '--kye' found"), "{text}");
        assert_eq!(help(&args("idem --store x run --kye a -- list")), "idem help run");
        assert_eq!(help(&args("idem nothing")), "idem help");
    }

    #[test]
    fn the_exit_that_was_asked_for_covers_usage_errors() {
        assert_eq!(own_exit(&args("idem run -E 9 --kye a -- true")), Some(9));
        assert_eq!(own_exit(&args("idem run --kye a -- true")), None);
        assert_eq!(own_exit(&args("idem run --kye a -- true -E 9")), None);
    }
}
