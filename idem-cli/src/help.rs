//! Help, completions and the man page.

use clap::CommandFactory;

use crate::args::Cli;
use crate::exit::{self, Exit};
use crate::say;

/// The topic that is not a command.
const EXIT_CODES: &str = "exit-codes";

/// `idem help [TOPIC]`.
pub(crate) fn help(topic: Option<&str>) -> Exit {
    let mut command = Cli::command();
    // Builds the usage lines of the subcommands, which say `idem run` and not `run`.
    command.build();
    let text = match topic {
        Some(EXIT_CODES) => exit::table(),
        None => command.render_long_help().to_string(),
        Some(topic) => match command.find_subcommand_mut(topic) {
            Some(found) => found.render_long_help().to_string(),
            None => return unknown(topic),
        },
    };
    say::print(&text)
}

/// `idem completions SHELL`.
pub(crate) fn completions(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "idem", &mut script);
    say::print(&String::from_utf8_lossy(&script))
}

/// `idem man [COMMAND]`: the page of one command, or of idem with the exit codes under it.
pub(crate) fn man(command: Option<&str>) -> Exit {
    let mut idem = Cli::command().after_long_help(exit::table());
    idem.build();
    let page_of = match command {
        None => Some(idem),
        // Once built, it knows that its page is called `idem-run`.
        Some(name) => idem.find_subcommand(name).cloned(),
    };
    let Some(page_of) = page_of else { return unknown(command.unwrap_or_default()) };
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = clap_mangen::Man::new(page_of).render(&mut page);
    say::print(&String::from_utf8_lossy(&page))
}

fn unknown(topic: &str) -> Exit {
    say::line(&format!("there is no help about `{topic}`: see `idem help`"));
    Exit::Code(exit::USAGE)
}
