//! The scenarios, one file a family. They act through [`Store`](idem_core::Store) alone.

mod clock;
mod concurrency;
mod crash;
mod fingerprint;
mod histories;
mod identity;
mod input;
mod kills;
mod lease;
mod load;
mod model;
mod recovery;
mod replay;
mod retention;
mod waiting;

use crate::registry::Scenario;

/// The files; the registry sorts by family and id.
pub(crate) const ALL: &[&[Scenario]] = &[
    identity::SCENARIOS,
    fingerprint::SCENARIOS,
    concurrency::SCENARIOS,
    waiting::SCENARIOS,
    lease::SCENARIOS,
    recovery::SCENARIOS,
    crash::SCENARIOS,
    kills::SCENARIOS,
    replay::SCENARIOS,
    retention::SCENARIOS,
    clock::SCENARIOS,
    input::SCENARIOS,
    load::SCENARIOS,
    histories::SCENARIOS,
    model::SCENARIOS,
];
