//! The scenarios, one file a family. They act through [`Store`](idem_core::Store) alone.

mod fingerprint;
mod identity;
mod lease;
mod recovery;

use crate::registry::Scenario;

/// The files; the registry sorts by family and id.
pub(crate) const ALL: &[&[Scenario]] =
    &[identity::SCENARIOS, fingerprint::SCENARIOS, lease::SCENARIOS, recovery::SCENARIOS];
