//! What a run found, as data: every other form of report is made of this one.

mod shard;
mod text;
mod timeline;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::backend::{Backend, Probed};
use crate::capability::{Capability, Support};
use crate::registry::{Family, Scenario};
use crate::runner::Ended;

pub(crate) use shard::write_shard;
pub use shard::{REPORT_DIR, merge, read_shards};
pub use text::skips_by_reason;
pub(crate) use text::{looks_like_a_scenario, print_skips};
pub use timeline::{Moment, Timeline};

/// The form of the JSON; another number means that readers have to change.
pub const SCHEMA: u32 = 1;

/// One run of the suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of the suite.
    pub suite: String,
    /// The revision of the source that was tested, where it is known.
    pub revision: Option<String>,
    /// Operating system and processor.
    pub platform: String,
    /// How many threads can run at once.
    pub cores: usize,
    /// The seed of the run; `None` where it was put together from runs with different ones.
    pub seed: Option<u64>,
    /// Milliseconds since the Unix epoch.
    pub began_at_ms: u64,
    /// From the first scenario to the end of the last.
    pub took_ms: u64,
    /// The backends, in the order in which they were named.
    pub stores: Vec<StoreReport>,
}

/// One backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoreReport {
    /// Its name.
    pub name: String,
    /// Why it could not be reached; then everything is skipped.
    pub unavailable: Option<String>,
    /// What it declares, in the order of the catalogue.
    pub capabilities: Vec<CapabilityReport>,
    /// What is declared and not there; `None` when all is as it is said, or was not looked at.
    pub misdeclared: Option<String>,
    /// Letters of what is declined although it works.
    pub under_claimed: String,
    /// The scenarios that were to run or are skipped, in the order of the catalogue.
    pub scenarios: Vec<ScenarioReport>,
}

/// What a backend says about one capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CapabilityReport {
    /// The letter of the catalogue.
    pub letter: char,
    /// A few words.
    pub name: String,
    /// Why it is declined; `None` when it is supported.
    pub declined: Option<String>,
}

/// How a scenario ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum State {
    /// It ran, and saw what it had to see.
    Passed,
    /// It ran, and the store broke a rule or the evidence is missing.
    Failed,
    /// It did not run, for a reason.
    Skipped,
    /// It was to run, and nothing is known of it: a failure.
    Unknown,
}

/// One scenario on one backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScenarioReport {
    /// Such as `CC-001`.
    pub id: String,
    /// A few words, joined by underscores.
    pub title: String,
    /// The name of its family.
    pub family: String,
    /// The rules that it holds the store to.
    pub rules: Vec<String>,
    /// What it shows.
    pub shows: String,
    /// How it ended.
    pub state: State,
    /// Why it failed, was skipped or is unknown.
    pub reason: Option<String>,
    /// The history of one operation, where that is what failed.
    pub timeline: Option<Timeline>,
    /// What it saw, by the names of the facts.
    pub evidence: BTreeMap<String, u64>,
    /// Microseconds.
    pub took_us: u64,
    /// The scenario's own seed.
    pub seed: Option<u64>,
    /// The line that runs it again.
    pub rerun: Option<String>,
}

/// How many scenarios ended in which way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Skipped.
    pub skipped: usize,
    /// Unknown.
    pub unknown: usize,
}

impl Counts {
    /// Counts one more.
    pub fn add(&mut self, state: State) {
        let slot = match state {
            State::Passed => &mut self.passed,
            State::Failed => &mut self.failed,
            State::Skipped => &mut self.skipped,
            State::Unknown => &mut self.unknown,
        };
        *slot = slot.saturating_add(1);
    }

    /// Those that ran to an end.
    #[must_use]
    pub const fn executed(&self) -> usize {
        self.passed.saturating_add(self.failed)
    }

    /// All of them.
    #[must_use]
    pub const fn all(&self) -> usize {
        self.executed().saturating_add(self.skipped).saturating_add(self.unknown)
    }

    /// Whether nothing failed and everything that was to run did.
    #[must_use]
    pub const fn clean(&self) -> bool {
        self.failed == 0 && self.unknown == 0
    }
}

impl Report {
    /// An empty report of this suite on this machine.
    #[must_use]
    pub fn new(seed: Option<u64>, began_at_ms: u64) -> Self {
        Self {
            schema: SCHEMA,
            suite: env!("CARGO_PKG_VERSION").to_owned(),
            revision: None,
            platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            seed,
            began_at_ms,
            took_ms: 0,
            stores: Vec::new(),
        }
    }

    /// The sums over all backends.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.stores.iter().flat_map(|store| &store.scenarios).for_each(|one| counts.add(one.state));
        counts
    }

    /// The backend with this name.
    #[must_use]
    pub fn store(&self, name: &str) -> Option<&StoreReport> {
        self.stores.iter().find(|store| store.name == name)
    }
}

impl StoreReport {
    /// A backend of which nothing has run yet.
    #[must_use]
    pub fn new(backend: &Backend) -> Self {
        let declared = backend.declared();
        let capability = |capability: Capability| CapabilityReport {
            letter: capability.letter(),
            name: capability.name().to_owned(),
            declined: match declared.of(capability) {
                Some(Support::Supported) => None,
                Some(Support::Declined(reason)) => Some(reason.to_owned()),
                None => Some("nothing is said about it".to_owned()),
            },
        };
        Self {
            name: backend.name().to_owned(),
            unavailable: backend.unavailable().map(str::to_owned),
            capabilities: Capability::ALL.into_iter().map(capability).collect(),
            misdeclared: None,
            under_claimed: String::new(),
            scenarios: Vec::new(),
        }
    }

    /// Takes over what the probe found.
    pub fn probed(&mut self, probed: &Probed) {
        self.misdeclared.clone_from(&probed.failure);
        self.under_claimed = probed.under_claimed.iter().map(|capability| capability.letter()).collect();
    }

    /// The sums of one family, or of all.
    #[must_use]
    pub fn counts(&self, family: Option<Family>) -> Counts {
        let mut counts = Counts::default();
        let of_family = |one: &&ScenarioReport| family.is_none_or(|family| one.family == family.name());
        self.scenarios.iter().filter(of_family).for_each(|one| counts.add(one.state));
        counts
    }

    /// Brings the scenarios into the order of the catalogue.
    pub fn sort(&mut self) {
        let place = |family: &str| Family::ALL.iter().position(|known| known.name() == family);
        self.scenarios
            .sort_by(|one, other| (place(&one.family), &one.id).cmp(&(place(&other.family), &other.id)));
    }
}

impl ScenarioReport {
    /// A scenario of which nothing is known.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        Self {
            id: scenario.id().to_owned(),
            title: scenario.title().to_owned(),
            family: scenario.family().name().to_owned(),
            rules: scenario.rules().iter().map(|rule| (*rule).to_owned()).collect(),
            shows: scenario.shows().to_owned(),
            state: State::Unknown,
            reason: Some("nothing is known of it: its process ended before it said anything".to_owned()),
            timeline: None,
            evidence: BTreeMap::new(),
            took_us: 0,
            seed: None,
            rerun: None,
        }
    }

    /// The same, skipped.
    #[must_use]
    pub fn skipped(mut self, reason: String) -> Self {
        self.state = State::Skipped;
        self.reason = Some(reason);
        self
    }

    /// The same, as it ended; `rerun` is the line that runs it again.
    #[must_use]
    pub fn ended(mut self, ended: Ended, rerun: String) -> Self {
        self.evidence =
            ended.evidence.facts().iter().map(|(fact, count)| (fact.name().to_owned(), *count)).collect();
        self.took_us = u64::try_from(ended.took.as_micros()).unwrap_or(u64::MAX);
        self.seed = Some(ended.seed);
        self.rerun = Some(rerun);
        self.state = if ended.failure.is_none() { State::Passed } else { State::Failed };
        self.reason = ended.failure.as_ref().map(|failure| failure.message().to_owned());
        self.timeline = ended.failure.and_then(|failure| failure.timeline().cloned());
        self
    }
}
