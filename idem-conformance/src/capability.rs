//! What a harness can do beside opening its store: each capability supported, or declined with a reason.

use std::fmt;

/// Something that a group of scenarios needs and not every store or harness has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Capability {
    /// K: the store decides by the clock that the [site](crate::Site) gives, so that scenarios move time.
    Clock,
    /// D: what was acknowledged is there after the store was closed and opened again. What that rests on can be read
    /// back: [`durability`](crate::Harness::durability).
    Reopen,
    /// P: another process can open the same site, so that a process can be killed in the middle of a call.
    Process,
    /// M: the site can be opened more than once at the same time.
    Handles,
    /// T: claim and completion can join the caller's transaction (G-70): [`effects`](crate::Harness::effects).
    Transaction,
    /// O: the store has an outbox (G-80): [`outbox`](crate::Harness::outbox).
    Outbox,
    /// N: the store is reached over a connection that can go through a proxy:
    /// [`proxy_target`](crate::Harness::proxy_target), and handles that go [`via`](crate::Site::via) it.
    Proxy,
    /// R: the server can be restarted: [`server`](crate::Harness::server).
    Restart,
    /// F: the storage can be filled up, made read-only and cut short: [`storage`](crate::Harness::storage).
    StorageFaults,
    /// W: waiters are woken when a record changes, instead of polling.
    Wait,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 10] = [
        Self::Clock,
        Self::Reopen,
        Self::Process,
        Self::Handles,
        Self::Transaction,
        Self::Outbox,
        Self::Proxy,
        Self::Restart,
        Self::StorageFaults,
        Self::Wait,
    ];

    /// The letter that the catalogue uses.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Clock => 'K',
            Self::Reopen => 'D',
            Self::Process => 'P',
            Self::Handles => 'M',
            Self::Transaction => 'T',
            Self::Outbox => 'O',
            Self::Proxy => 'N',
            Self::Restart => 'R',
            Self::StorageFaults => 'F',
            Self::Wait => 'W',
        }
    }

    /// A few words for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clock => "injected clock",
            Self::Reopen => "reopen",
            Self::Process => "other processes",
            Self::Handles => "several handles",
            Self::Transaction => "shared transaction",
            Self::Outbox => "outbox",
            Self::Proxy => "proxy",
            Self::Restart => "server restart",
            Self::StorageFaults => "storage faults",
            Self::Wait => "woken waiters",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.letter(), self.name())
    }
}

/// What a harness says about one capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// Scenarios that need it run.
    Supported,
    /// They are skipped, for this reason.
    Declined(&'static str),
}

/// What a harness says about every capability. One about which nothing is said fails the run.
///
/// ```
/// use idem_conformance::{Capability, Declared};
///
/// let declared = Declared::supports(&[Capability::Clock, Capability::Handles, Capability::Wait])
///     .declines(&[Capability::Reopen, Capability::Process], "everything is gone with the process")
///     .declines(
///         &[
///             Capability::Transaction,
///             Capability::Outbox,
///             Capability::Proxy,
///             Capability::Restart,
///             Capability::StorageFaults,
///         ],
///         "there is no server and no storage",
///     );
/// assert!(declared.unsaid().is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Declared {
    said: Vec<(Capability, Support)>,
}

impl Declared {
    /// These are supported.
    #[must_use]
    pub fn supports(capabilities: &[Capability]) -> Self {
        Self { said: capabilities.iter().map(|capability| (*capability, Support::Supported)).collect() }
    }

    /// These are not, for this reason. What is said first stands.
    #[must_use]
    pub fn declines(mut self, capabilities: &[Capability], reason: &'static str) -> Self {
        self.said.extend(capabilities.iter().map(|capability| (*capability, Support::Declined(reason))));
        self
    }

    /// What is said about `capability`; `None` when nothing is.
    #[must_use]
    pub fn of(&self, capability: Capability) -> Option<Support> {
        self.said.iter().find(|(said, _)| *said == capability).map(|(_, support)| *support)
    }

    /// Whether `capability` is supported.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        self.of(capability) == Some(Support::Supported)
    }

    /// The capabilities about which nothing is said.
    #[must_use]
    pub fn unsaid(&self) -> Vec<Capability> {
        Capability::ALL.into_iter().filter(|capability| self.of(*capability).is_none()).collect()
    }

    /// Why a scenario with these needs is skipped; `None` when it runs.
    #[must_use]
    pub fn lacks(&self, needs: &[Capability]) -> Option<String> {
        needs.iter().find_map(|need| match self.of(*need) {
            Some(Support::Supported) => None,
            Some(Support::Declined(reason)) => Some(format!("needs {need}, declined: {reason}")),
            None => Some(format!("needs {need}, about which the harness says nothing")),
        })
    }
}
