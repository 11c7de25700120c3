//! One backend in a run: what it declares, whether it is there, and what it skips.

use std::sync::Arc;

use crate::capability::{Capability, Declared};
use crate::harness::Harness;
use crate::probe;
use crate::registry::Scenario;
use crate::runner::RUNTIME;

/// A harness that was asked what it can do, and whether its backend can be reached.
#[derive(Debug, Clone)]
pub struct Backend {
    harness: Arc<dyn Harness>,
    declared: Declared,
    unavailable: Option<String>,
}

/// What came of checking what a harness declares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Probed {
    /// What is declared and not there, or not declared at all; `None` when everything is as it is said.
    pub failure: Option<String>,
    /// What is declined although it works.
    pub under_claimed: Vec<Capability>,
}

impl Backend {
    /// Asks `harness`, once.
    #[must_use]
    pub fn new(harness: Arc<dyn Harness>) -> Self {
        let declared = harness.capabilities();
        let unavailable = RUNTIME.block_on(harness.available()).err();
        Self { harness, declared, unavailable }
    }

    /// The harness.
    #[must_use]
    pub fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// The backend's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.harness.name()
    }

    /// What it declares.
    #[must_use]
    pub fn declared(&self) -> &Declared {
        &self.declared
    }

    /// Why it cannot be reached, and what would help; `None` when it can.
    #[must_use]
    pub fn unavailable(&self) -> Option<&str> {
        self.unavailable.as_deref()
    }

    /// Why `scenario` is skipped on it; `None` when it runs.
    #[must_use]
    pub fn skips(&self, scenario: &Scenario) -> Option<String> {
        match &self.unavailable {
            Some(reason) => Some(format!("{} is not available: {reason}", self.name())),
            None => self.declared.lacks(scenario.capabilities()),
        }
    }

    /// Checks that what it declares is there.
    #[must_use]
    pub fn probe(&self) -> Probed {
        probe::probe(&self.harness, &self.declared)
    }
}
