//! What a scenario saw. A scenario that saw less than it must did not test anything, and fails.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Something that is counted while a scenario runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fact {
    /// Assertions that held.
    Checks,
    /// Calls that the store answered.
    Calls,
    /// Handles that were opened.
    Handles,
    /// Rounds in which calls of several threads were running at the same time.
    Overlaps,
    /// Operations that went through their whole life.
    Operations,
    /// Processes that ended by SIGKILL at the place where they were to.
    Kills,
    /// Futures that were dropped while the store worked on them.
    Drops,
    /// Waiters that got an answer.
    Waiters,
    /// Histories that were checked to the end.
    Histories,
    /// Random scripts that were run against the model.
    Scripts,
    /// Bytes that went through unchanged.
    Bytes,
    /// Connections that were cut, silenced or slowed down at the byte where they were to be.
    Faults,
    /// Servers that were stopped and started again.
    Restarts,
    /// Transactions of the caller's that came to the end that they were to.
    Transactions,
    /// Messages that were published.
    Messages,
    /// States of the disk that were opened.
    Images,
}

impl Fact {
    /// All facts.
    pub const ALL: [Self; 16] = [
        Self::Checks,
        Self::Calls,
        Self::Handles,
        Self::Overlaps,
        Self::Operations,
        Self::Kills,
        Self::Drops,
        Self::Waiters,
        Self::Histories,
        Self::Scripts,
        Self::Bytes,
        Self::Faults,
        Self::Restarts,
        Self::Transactions,
        Self::Messages,
        Self::Images,
    ];

    /// The word for people and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Checks => "checks",
            Self::Calls => "calls",
            Self::Handles => "handles",
            Self::Overlaps => "overlaps",
            Self::Operations => "operations",
            Self::Kills => "kills",
            Self::Drops => "drops",
            Self::Waiters => "waiters",
            Self::Histories => "histories",
            Self::Scripts => "scripts",
            Self::Bytes => "bytes",
            Self::Faults => "faults",
            Self::Restarts => "restarts",
            Self::Transactions => "transactions",
            Self::Messages => "messages",
            Self::Images => "images",
        }
    }
}

/// Counts while a scenario runs.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: [AtomicU64; Fact::ALL.len()],
}

impl Tally {
    fn slot(&self, fact: Fact) -> Option<&AtomicU64> {
        Fact::ALL.iter().position(|known| *known == fact).and_then(|index| self.counts.get(index))
    }

    pub(crate) fn add(&self, fact: Fact, count: u64) {
        if let Some(slot) = self.slot(fact) {
            slot.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn evidence(&self) -> Evidence {
        let seen = |fact| self.slot(fact).map_or(0, |slot| slot.load(Ordering::Relaxed));
        Evidence {
            facts: Fact::ALL.into_iter().map(|fact| (fact, seen(fact))).filter(|(_, n)| *n > 0).collect(),
        }
    }
}

/// What a scenario saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    facts: Vec<(Fact, u64)>,
}

impl Evidence {
    /// How often `fact` was seen.
    #[must_use]
    pub fn count(&self, fact: Fact) -> u64 {
        self.facts.iter().find(|(seen, _)| *seen == fact).map_or(0, |(_, count)| *count)
    }

    /// Everything that was seen.
    #[must_use]
    pub fn facts(&self) -> &[(Fact, u64)] {
        &self.facts
    }

    /// What is missing of `minimum`, in words; `None` when nothing is.
    #[must_use]
    pub fn missing(&self, minimum: &[(Fact, u64)]) -> Option<String> {
        let short = minimum.iter().find(|(fact, least)| self.count(*fact) < *least);
        short.map(|(fact, least)| {
            format!(
                "not enough evidence: {} {} seen, at least {least} needed",
                self.count(*fact),
                fact.name()
            )
        })
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (fact, count)) in self.facts.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {}", fact.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_the_minimum_is_missing() {
        let tally = Tally::default();
        assert!(tally.evidence().missing(&[(Fact::Checks, 1)]).is_some());
        for fact in Fact::ALL {
            tally.add(fact, 2);
        }
        let evidence = tally.evidence();
        assert_eq!(evidence.missing(&[(Fact::Checks, 2), (Fact::Kills, 1)]), None);
        let missing = evidence.missing(&[(Fact::Kills, 3)]).unwrap();
        assert_eq!(missing, "not enough evidence: 2 kills seen, at least 3 needed");
        assert!(evidence.to_string().starts_with("2 checks, 2 calls"));
    }
}
