//! Random scripts against the decision table (section 11 of the contract).

use crate::capability::Capability;
use crate::evidence::Fact;
use crate::model::{Reach, explore};
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Model,
        "PB-001",
        "random_scripts",
        &["G-10", "G-05", "G-12", "G-15", "G-16", "G-18", "G-22", "G-24", "G-31", "G-44"],
        "64 random scripts of up to 60 steps are answered as the decision table answers them, and leave what it \
         leaves. A script that is not is shortened and printed.",
        |env| Box::pin(async { explore(env, Reach::Timeless) }),
    )
    .evidence(&[(Fact::Scripts, 64), (Fact::Checks, 1_000)]),
    Scenario::new(
        Family::Model,
        "PB-002",
        "random_scripts_with_reopening",
        &["G-62", "G-10", "G-15"],
        "The same, closing and opening the store between the steps.",
        |env| Box::pin(async { explore(env, Reach::Reopening) }),
    )
    .needs(&[Capability::Reopen])
    .evidence(&[(Fact::Scripts, 64), (Fact::Checks, 1_000), (Fact::Handles, 64)]),
    Scenario::new(
        Family::Model,
        "PB-003",
        "random_scripts_with_time_travel",
        &["G-13", "G-18", "G-19", "G-23", "G-40", "G-41", "G-42", "G-43", "G-60", "G-61"],
        "The same on a stepped clock: lapses, takeovers, expiries and purges, compared to the millisecond.",
        |env| Box::pin(async { explore(env, Reach::Timed) }),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Scripts, 64), (Fact::Checks, 1_000)]),
];
