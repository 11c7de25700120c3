//! The static registry of scenarios.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::LazyLock;

use crate::capability::Capability;
use crate::cases;
use crate::env::Env;
use crate::evidence::Fact;
use crate::failure::Failure;

/// A group of scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Family {
    /// Which operation is which.
    Identity,
    /// Which intent is which.
    Fingerprint,
    /// Many callers at once.
    Concurrency,
    /// Who may write, and for how long.
    Lease,
    /// Processes that are killed.
    Crash,
    /// The same answer again.
    Replay,
    /// What is kept, and for how long.
    Retention,
    /// Whose clock, and what it does.
    Clock,
    /// The caller's transaction.
    Transaction,
    /// Messages that go out with the effect.
    Outbox,
    /// Connections, servers and disks that fail.
    Faults,
    /// What callers send.
    Input,
    /// Many operations.
    Load,
    /// Recorded histories and the linearizability checker.
    Histories,
    /// Random scripts against the decision table.
    Model,
}

impl Family {
    /// All families, in the order of the catalogue.
    pub const ALL: [Self; 15] = [
        Self::Identity,
        Self::Fingerprint,
        Self::Concurrency,
        Self::Lease,
        Self::Crash,
        Self::Replay,
        Self::Retention,
        Self::Clock,
        Self::Transaction,
        Self::Outbox,
        Self::Faults,
        Self::Input,
        Self::Load,
        Self::Histories,
        Self::Model,
    ];

    /// The word for people, filters and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Fingerprint => "fingerprint",
            Self::Concurrency => "concurrency",
            Self::Lease => "lease",
            Self::Crash => "crash",
            Self::Replay => "replay",
            Self::Retention => "retention",
            Self::Clock => "clock",
            Self::Transaction => "transaction",
            Self::Outbox => "outbox",
            Self::Faults => "faults",
            Self::Input => "input",
            Self::Load => "load",
            Self::Histories => "histories",
            Self::Model => "model",
        }
    }

    /// The letters with which ids of this family begin.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Identity => "ID",
            Self::Fingerprint => "FP",
            Self::Concurrency => "CC",
            Self::Lease => "LS",
            Self::Crash => "CR",
            Self::Replay => "RP",
            Self::Retention => "EX",
            Self::Clock => "CK",
            Self::Transaction => "TX",
            Self::Outbox => "OB",
            Self::Faults => "NF",
            Self::Input => "IN",
            Self::Load => "LD",
            Self::Histories => "LZ",
            Self::Model => "PB",
        }
    }
}

/// What a scenario does.
pub(crate) type Body = for<'e> fn(&'e Env) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + 'e>>;

/// One scenario: an id that is never used again, what it shows, and by which rules a store must pass it.
#[derive(Clone, Copy)]
pub struct Scenario {
    id: &'static str,
    title: &'static str,
    family: Family,
    rules: &'static [&'static str],
    shows: &'static str,
    needs: &'static [Capability],
    minimum: &'static [(Fact, u64)],
    body: Body,
}

/// What every scenario must have seen.
const MINIMUM: &[(Fact, u64)] = &[(Fact::Checks, 1), (Fact::Calls, 1)];

impl Scenario {
    /// A scenario without needs, that must have seen one check and one call.
    pub(crate) const fn new(
        family: Family,
        id: &'static str,
        title: &'static str,
        rules: &'static [&'static str],
        shows: &'static str,
        body: Body,
    ) -> Self {
        Self { id, title, family, rules, shows, needs: &[], minimum: MINIMUM, body }
    }

    /// The same, run only where these are supported.
    pub(crate) const fn needs(mut self, needs: &'static [Capability]) -> Self {
        self.needs = needs;
        self
    }

    /// The same, failing unless it saw at least this.
    pub(crate) const fn evidence(mut self, minimum: &'static [(Fact, u64)]) -> Self {
        self.minimum = minimum;
        self
    }

    /// The id, such as `CC-001`.
    #[must_use]
    pub const fn id(&self) -> &'static str {
        self.id
    }

    /// A few words, joined by underscores.
    #[must_use]
    pub const fn title(&self) -> &'static str {
        self.title
    }

    /// The family.
    #[must_use]
    pub const fn family(&self) -> Family {
        self.family
    }

    /// The rules of the contract that it holds a store to, the first one first.
    #[must_use]
    pub const fn rules(&self) -> &'static [&'static str] {
        self.rules
    }

    /// What it shows, in one or two sentences.
    #[must_use]
    pub const fn shows(&self) -> &'static str {
        self.shows
    }

    /// Where it runs.
    #[must_use]
    pub const fn capabilities(&self) -> &'static [Capability] {
        self.needs
    }

    /// What it must have seen to pass.
    #[must_use]
    pub const fn minimum(&self) -> &'static [(Fact, u64)] {
        self.minimum
    }

    /// `backend::ID::title`.
    #[must_use]
    pub fn name(&self, backend: &str) -> String {
        format!("{backend}::{}::{}", self.id, self.title)
    }

    /// Whether time is moved by hand.
    pub(crate) fn steps_time(&self) -> bool {
        self.needs.contains(&Capability::Clock)
    }

    pub(crate) const fn body(&self) -> Body {
        self.body
    }

    /// The same scenario with a body that does nothing: for the test that such a scenario fails.
    #[must_use]
    pub fn hollow(mut self) -> Self {
        self.body = |_| Box::pin(async { Ok(()) });
        self
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.id, self.title)
    }
}

/// Every scenario, in the order of the catalogue.
pub fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    static SORTED: LazyLock<Vec<&'static Scenario>> = LazyLock::new(|| {
        let mut all: Vec<_> = cases::ALL.iter().flat_map(|file| file.iter()).collect();
        all.sort_by_key(|scenario| (scenario.family, scenario.id));
        all
    });
    SORTED.iter().copied()
}

/// The scenario with this id.
#[must_use]
pub fn scenario(id: &str) -> Option<&'static Scenario> {
    scenarios().find(|scenario| scenario.id() == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rules::{Proof, RULES, rule};

    #[test]
    fn ids_and_titles_are_well_formed_and_unique() {
        let mut seen = BTreeSet::new();
        for scenario in scenarios() {
            let (prefix, number) = scenario.id().split_once('-').unwrap();
            assert_eq!(prefix, scenario.family().prefix(), "{scenario:?}");
            assert!(
                number.len() == 3 && number.parse::<u16>().is_ok_and(|number| number > 0),
                "{scenario:?}"
            );
            assert!(
                scenario
                    .title()
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            );
            assert!(scenario.shows().ends_with('.'), "{scenario:?}");
            assert!(!scenario.rules().is_empty(), "{scenario:?}");
            assert!(seen.insert(scenario.id()), "{} is used twice", scenario.id());
        }
    }

    #[test]
    fn every_rule_that_a_scenario_cites_is_one_that_the_suite_proves() {
        for scenario in scenarios() {
            for id in scenario.rules() {
                let rule = rule(id).unwrap_or_else(|| panic!("{scenario:?} cites {id}, which is no rule"));
                assert_eq!(rule.proof, Proof::Suite, "{scenario:?} cites {id}");
            }
        }
        assert!(RULES.len() > 40);
    }
}
