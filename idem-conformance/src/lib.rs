#![doc = include_str!("../README.md")]

mod backend;
mod capability;
mod cases;
mod clock;
mod crash;
mod env;
mod evidence;
mod failure;
mod harness;
mod history;
mod hooks;
mod model;
mod probe;
mod program;
pub mod proxy;
mod race;
mod registry;
pub mod report;
mod rules;
mod runner;
mod site;
mod watched;

pub use backend::{Backend, Probed};
pub use capability::{Capability, Declared, Support};
pub use clock::SteppedClock;
pub use crash::child::dispatch;
pub use evidence::{Evidence, Fact};
pub use failure::Failure;
pub use harness::Harness;
pub use hooks::{
    Delivery, Effect, EffectTransaction, Effects, End, Ending, Message, Outbox, Publisher, Server, Setting,
    Storage,
};
pub use program::{Program, main};
pub use registry::{Family, Scenario, scenario, scenarios};
pub use rules::{Proof, RULES, Rule, rule};
pub use runner::{Ended, Options, run, scenario_seed};
pub use site::Site;

/// Makes the `main` of a test program that runs every scenario on these harnesses.
///
/// The target needs `harness = false` in `Cargo.toml`, because the program reads the arguments and prints the results
/// itself.
#[macro_export]
macro_rules! main {
    ($($harness:expr),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::main(
                $crate::Program::new(env!("CARGO_PKG_NAME"), env!("CARGO_CRATE_NAME")),
                ::std::vec![$(::std::sync::Arc::new($harness)),+],
            )
        }
    };
}
