//! The scenarios, one file a family. They act through [`Store`](idem_core::Store) alone.

mod identity;

use crate::registry::Scenario;

/// The families, in the order of the catalogue.
pub(crate) const ALL: &[&[Scenario]] = &[identity::SCENARIOS];
