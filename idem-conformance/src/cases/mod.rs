//! The scenarios, one file a family. They act through [`Store`](idem_core::Store) alone.

mod clock;
mod concurrency;
mod crash;
mod crash_in_transaction;
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
mod transaction;
mod transactions_meet;
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
    crash_in_transaction::SCENARIOS,
    replay::SCENARIOS,
    retention::SCENARIOS,
    clock::SCENARIOS,
    transaction::SCENARIOS,
    transactions_meet::SCENARIOS,
    input::SCENARIOS,
    load::SCENARIOS,
    histories::SCENARIOS,
    model::SCENARIOS,
];
