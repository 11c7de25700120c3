//! `idem-conformance`: runs the suite on the stores of this workspace, and says what it found.

mod arguments;
mod explain;
mod list;
mod matrix;
mod progress;
mod run;
mod stores;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::Parser;

fn main() -> ExitCode {
    match begin() {
        Ok(code) => code,
        Err(complaint) => {
            eprintln!("error: {complaint}");
            ExitCode::from(2)
        }
    }
}

/// An `Err` means that nothing was run: something cannot be understood, or is not there.
fn begin() -> Result<ExitCode, String> {
    // A child of a crash scenario has a task and no arguments.
    if let Some(ended) = idem_conformance::dispatch(&stores::all()?) {
        return Ok(ended);
    }
    match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::List(selection) => {
            print!("{}", list::list(&selection));
            Ok(ExitCode::SUCCESS)
        }
        Command::Explain { id } => {
            print!("{}", explain::explain(&id)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}
