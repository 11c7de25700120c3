//! What the ledger tells about itself: counters through the `metrics` facade (G-90), spans and events through `tracing`
//! (G-91).
//!
//! Every counter and the histogram carry the label `operation` and no other: keys and tenants are never labels. Install
//! a recorder before the first call; a ledger registers the meters of an operation once.
//!
//! | name | counts |
//! |---|---|
//! | `idem_executions_total` | handlers whose outcome was stored |
//! | `idem_replays_total` | calls answered with a stored outcome |
//! | `idem_conflicts_total` | calls whose key was in use for another intent |
//! | `idem_in_progress_total` | calls that left because another attempt was running, after their wait |
//! | `idem_recoveries_total` | grants in mode Recover: leases that had lapsed, or Uncertain operations |
//! | `idem_uncertain_total` | calls that were answered Uncertain, and attempts that were parked |
//! | `idem_expired_total` | calls whose operation was done and whose result is no longer kept |
//! | `idem_releases_total` | attempts that were given back: nothing had happened |
//! | `idem_fenced_writes_total` | writes of attempts that were no longer the holder |
//! | `idem_lost_records_total` | writes of attempts whose record was not there any more (G-15) |
//! | `idem_store_errors_total` | calls to the store that failed, repetitions included |
//! | `idem_attempt_seconds` | a histogram: from the claim of an attempt to its execution, release or parking |
//!
//! Handlers and reconcilers run in the span `idem.attempt`, which names the operation, a keyed digest of the key, attempt
//! number, mode, fence and downstream key. Bodies, payloads, keys and tenants are in none of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{LazyLock, PoisonError, RwLock};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use metrics::{Counter, Histogram};
use sha2::Sha256;

use crate::answer::Stats;
use crate::attempt::AttemptId;
use crate::key::{OperationId, hex};
use crate::ledger::Attempt;
use crate::record::View;

/// What is counted by operation; the number is the place of its counter.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    Execution,
    Replay,
    Conflict,
    InProgress,
    Recovery,
    Uncertain,
    Expired,
    Release,
    FencedWrite,
    LostRecord,
    StoreError,
}

/// The names of the counters, in the order of [`Event`].
const COUNTERS: [&str; 11] = [
    "idem_executions_total",
    "idem_replays_total",
    "idem_conflicts_total",
    "idem_in_progress_total",
    "idem_recoveries_total",
    "idem_uncertain_total",
    "idem_expired_total",
    "idem_releases_total",
    "idem_fenced_writes_total",
    "idem_lost_records_total",
    "idem_store_errors_total",
];

/// The most operation names with meters of their own. A name is a kind of command, of which there are few; where an
/// application puts more into it, the rest is counted as `other`.
const OPERATIONS_MAX: usize = 1000;

/// The counters of one operation name.
struct Meters {
    counters: [Counter; COUNTERS.len()],
    attempt_seconds: Histogram,
}

impl Meters {
    fn new(operation: &str) -> Self {
        Self {
            counters: COUNTERS.map(|name| metrics::counter!(name, "operation" => operation.to_owned())),
            attempt_seconds: metrics::histogram!("idem_attempt_seconds", "operation" => operation.to_owned()),
        }
    }

    fn count(&self, event: Event) {
        if let Some(counter) = self.counters.get(event as usize) {
            counter.increment(1);
        }
    }
}

/// The meters of a ledger, by operation name: few, so comparing beats hashing on every call.
#[derive(Default)]
pub(crate) struct Observed(RwLock<BTreeMap<Box<str>, Meters>>);

impl Observed {
    pub(crate) fn count(&self, id: &OperationId, event: Event) {
        self.with(id.operation(), |meters| meters.count(event));
    }

    /// A held write was refused, and the operation is `view` now.
    pub(crate) fn fenced(&self, id: &OperationId, view: View) {
        self.count(id, Event::FencedWrite);
        if view == View::Absent {
            self.count(id, Event::LostRecord);
        }
    }

    /// An attempt ended, so long after its claim.
    pub(crate) fn ended(&self, id: &OperationId, event: Event, after: Duration) {
        self.with(id.operation(), |meters| {
            meters.count(event);
            meters.attempt_seconds.record(after.as_secs_f64());
        });
    }

    fn with(&self, operation: &str, tell: impl FnOnce(&Meters)) {
        {
            let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(meters) = known.get(operation) {
                return tell(meters);
            }
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let name = if known.len() < OPERATIONS_MAX { operation } else { "other" };
        tell(known.entry(name.into()).or_insert_with(|| Meters::new(name)));
    }
}

/// Sets the gauges from what [`Store::stats`](crate::Store::stats) counted: `idem_operations` by `view`, and the ages
/// `idem_oldest_processing_seconds` and `idem_oldest_uncertain_seconds`, 0 when there is none. For a loop of yours, as
/// often as the store should be asked.
pub fn gauges(stats: &Stats) {
    let views = [
        (View::Received, stats.received),
        (View::Running, stats.running),
        (View::Lapsed, stats.lapsed),
        (View::Completed, stats.completed),
        (View::Expired, stats.expired),
        (View::Uncertain, stats.uncertain),
    ];
    for (view, count) in views {
        #[allow(clippy::cast_precision_loss, reason = "a gauge is a float; counts are far below 2^53")]
        metrics::gauge!("idem_operations", "view" => view.name()).set(count as f64);
    }
    let age = |since: Option<crate::Timestamp>| {
        Duration::from_millis(since.map_or(0, |since| stats.now.millis_since(since))).as_secs_f64()
    };
    metrics::gauge!("idem_oldest_processing_seconds").set(age(stats.oldest_processing));
    metrics::gauge!("idem_oldest_uncertain_seconds").set(age(stats.oldest_uncertain));
}

/// The secret under which keys are digested for logs (G-91): whoever reads them can tell two keys apart and not guess
/// one. Random for each process unless set; set the same one in all processes whose logs are to be joined by it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogKey([u8; 32]);

impl LogKey {
    /// This secret.
    #[must_use]
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// 16 hexadecimal digits for the operation's tenant, name and key together.
    #[must_use]
    pub fn digest(&self, id: &OperationId) -> String {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(id.encode().as_bytes());
        hex(mac.finalize().into_bytes().get(..8).unwrap_or_default())
    }
}

impl Default for LogKey {
    fn default() -> Self {
        static OF_THIS_PROCESS: LazyLock<LogKey> = LazyLock::new(|| {
            let mut secret = [0; 32];
            let halves = [AttemptId::random(), AttemptId::random()];
            let random = halves.iter().flat_map(AttemptId::as_bytes);
            secret.iter_mut().zip(random).for_each(|(byte, random)| *byte = *random);
            LogKey(secret)
        });
        *OF_THIS_PROCESS
    }
}

impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogKey(…)")
    }
}

/// The span of an attempt. Nothing of it is computed unless somebody subscribes.
pub(crate) fn span(attempt: &Attempt, log_key: &LogKey) -> tracing::Span {
    tracing::info_span!(
        "idem.attempt",
        operation = attempt.grant().id.operation(),
        key = %log_key.digest(&attempt.grant().id),
        attempt = attempt.number(),
        mode = ?attempt.mode(),
        fence = attempt.fence().get(),
        downstream_key = %attempt.downstream_key(),
    )
}

/// A write ended an attempt, or was refused.
pub(crate) fn settled(attempt: &Attempt, log_key: &LogKey, result: &'static str) {
    tracing::debug!(
        operation = attempt.grant().id.operation(),
        key = %log_key.digest(&attempt.grant().id),
        attempt = attempt.number(),
        fence = attempt.fence().get(),
        downstream_key = %attempt.downstream_key(),
        result,
        "an attempt was settled"
    );
}

/// A call was answered without running anything.
pub(crate) fn answered(id: &OperationId, log_key: &LogKey, result: &'static str) {
    tracing::debug!(operation = id.operation(), key = %log_key.digest(id), result, "answered without running");
}
