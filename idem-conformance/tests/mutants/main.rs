//! Broken stores that the suite must catch, and stores that are only slow or odd, which it must not.
//!
//! Every mutant is pinned to the scenarios that fail on it. `IDEM_MUTANT=name` runs one of them as a backend of its own.

mod bent;
#[path = "../../src/bin/idem-conformance/stores/file_store.rs"]
mod file_store;
mod folder;
mod ground;
mod memory;
mod table;
mod verdicts;

use std::process::ExitCode;
use std::sync::Arc;

use idem_conformance::{Harness, Program};

fn main() -> ExitCode {
    let program = Program::new(env!("CARGO_PKG_NAME"), env!("CARGO_CRATE_NAME"));
    let mutants: Vec<Arc<dyn Harness>> =
        table::mutants().chain(table::variants()).map(|mutant| mutant.harness()).collect();
    if let Some(ended) = idem_conformance::dispatch(&mutants) {
        return ended;
    }
    match std::env::var("IDEM_MUTANT") {
        Ok(name) => match mutants.into_iter().find(|mutant| mutant.name() == name) {
            Some(mutant) => idem_conformance::main(program, vec![mutant]),
            None => {
                eprintln!("error: there is no mutant called {name:?}");
                ExitCode::from(101)
            }
        },
        Err(_) => verdicts::main(),
    }
}
