//! `idem`: runs a command once per key and gives every later caller its output and exit status.
//!
//! `args` is the command line, `run` the command that runs others, `manage` the commands for people who look after a
//! ledger, `store` the way from a URL to one, `defect` what becomes of a call in which idem itself fails.

#[cfg(not(unix))]
compile_error!("idem passes signals on to processes as Unix does, and is built for Unix only");

mod args;
mod defect;
mod exit;
mod help;
mod hint;
mod manage;
mod outcome;
mod run;
mod runtime;
mod say;
mod store;
mod values;

use std::process::ExitCode;

use args::{Cli, Command, Parsed};
use exit::Exit;

fn main() -> ExitCode {
    defect::tell();
    let exit = defect::guard(|| {
        let arguments: Vec<_> = std::env::args_os().collect();
        match args::parse(&arguments) {
            Parsed::Command(cli) => dispatch(*cli),
            Parsed::Exit(exit) => exit,
        }
    });
    exit.end()
}

fn dispatch(cli: Cli) -> Exit {
    let store = cli.store.as_deref();
    match cli.command {
        Command::Run(args) => run::run(store, *args),
        Command::Register(args) => manage::register(store, &args),
        Command::Show(args) => manage::show(store, &args),
        Command::List(args) => manage::list(store, &args),
        Command::Stats(args) => manage::stats(store, &args),
        Command::Resolve(args) => manage::resolve(store, args),
        Command::Sweep(args) => manage::sweep(store, &args),
        Command::Erase(args) => manage::erase(store, &args),
        Command::Migrate => manage::migrate(store),
        Command::Completions { shell } => help::completions(shell),
        Command::Man { command } => help::man(command.as_deref()),
        Command::Help { topic } => help::help(topic.as_deref()),
    }
}
