//! What a ledger does unless a call says otherwise.

use std::time::Duration;

use crate::attempt::Label;
use crate::backoff::Backoff;
use crate::observe::LogKey;
use crate::record::EffectClass;
use crate::time::{Lease, Retention};

/// How a [`Ledger`](super::Ledger) claims, waits, keeps and retries.
///
/// ```
/// use std::time::Duration;
/// use idem_core::ledger::Policy;
/// use idem_core::{Lease, MemoryStore, ledger::Ledger};
///
/// let mut policy = Policy::default();
/// policy.lease = Lease::new(Duration::from_secs(10))?;
/// policy.wait = Duration::from_secs(2);
/// let ledger = Ledger::new(MemoryStore::new()).with(policy);
/// # Ok::<(), idem_core::Error>(())
/// ```
#[doc(alias("config", "options"))]
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Policy {
    /// How long a holder may assume to be alone; renewed while the handler runs (G-13). 30 s.
    pub lease: Lease,
    /// The longest time from its grant for which an attempt is kept alive by the heartbeat. A handler that hangs then
    /// loses its lease. 1 hour.
    pub ceiling: Duration,
    /// How long a call waits for a running duplicate before it answers `InProgress` (G-34). Zero: not at all.
    pub wait: Duration,
    /// What kind of effect it is: what may be done after a crash in the middle (G-18, G-19). Opaque.
    pub effect: EffectClass,
    /// How long a completed operation is kept (G-40). For good.
    pub retention: Retention,
    /// A takeover beyond so many attempts parks instead (G-23). No limit.
    pub attempts_max: Option<u32>,
    /// Who we are, for people who read the record.
    pub owner: Label,
    /// The longest wait for one answer of the store. A write that is not answered by then is `Indeterminate`: it is
    /// repeated with the same attempt id, as [`backoff`](Self::backoff) says (G-12, G-52). A renewal is waited for no
    /// longer than a third of the lease, so that another one fits. Longer than the store's own waiting, which is 5 s for
    /// SQLite's lock. 10 s.
    pub store_timeout: Duration,
    /// How calls to the store are repeated when it is away (G-52).
    pub backoff: Backoff,
    /// The secret under which keys are digested for logs (G-91).
    pub log_key: LogKey,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            lease: Lease::default(),
            ceiling: Duration::from_secs(3600),
            wait: Duration::ZERO,
            effect: EffectClass::Opaque,
            retention: Retention::forever(),
            attempts_max: None,
            owner: default_owner(),
            store_timeout: Duration::from_secs(10),
            backoff: Backoff::default(),
            log_key: LogKey::default(),
        }
    }
}

impl Policy {
    /// The policy for effects whose downstream system deduplicates on our downstream key for `remembers_for` after the
    /// first call: an attempt that lapsed is run again with the same key, within that time (G-19).
    #[must_use]
    pub fn keyed(remembers_for: Duration) -> Self {
        let remembers_for_ms = crate::time::whole_millis(remembers_for);
        Self { effect: EffectClass::Keyed { remembers_for_ms }, ..Self::default() }
    }
}

fn default_owner() -> Label {
    let text = format!("process {}", std::process::id());
    #[allow(clippy::unreachable, reason = "the text above is never empty, so a label is left")]
    Label::cut(&text).0.unwrap_or_else(|| unreachable!())
}
