//! One isolated place for one scenario's records.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use idem_core::clock::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use crate::clock::{EPOCH_MS, SkewedClock, SteppedClock};

/// How to find a site again, also from another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Locator {
    namespace: String,
    dir: PathBuf,
    /// Where a stepped clock stands; `None` is the system's clock.
    wall_ms: Option<u64>,
    skew_ms: i64,
    zone: Option<String>,
    via: Option<SocketAddr>,
    own_server: bool,
    patience_ms: Option<u64>,
}

/// One isolated namespace: what is opened with one site sees nothing of another, and everything of the same.
///
/// A harness opens it as often as it is asked to, from several threads and from other processes (where it declares
/// [`Process`](crate::Capability::Process)), and derives everything from what is here:
///
/// - [`namespace`](Self::namespace) for a server: a schema, a key prefix, a table name;
/// - [`dir`](Self::dir) for files; it is there and empty at the start, and is removed at the end;
/// - [`clock`](Self::clock) for a store whose server or host decides about time, and
///   [`client_clock`](Self::client_clock) for one whose callers do (G-60).
#[derive(Debug, Clone)]
pub struct Site {
    locator: Locator,
    stepped: Option<SteppedClock>,
}

impl Site {
    /// A site with files under `dir`; its clock is stepped, or the system's.
    pub(crate) fn new(namespace: String, dir: PathBuf, stepped: Option<SteppedClock>) -> Self {
        let locator = Locator {
            namespace,
            dir,
            wall_ms: None,
            skew_ms: 0,
            zone: None,
            via: None,
            own_server: false,
            patience_ms: None,
        };
        Self { locator, stepped }
    }

    /// The name: lower-case letters, digits and underscores, at most 30 of them, a letter first. Never used before.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.locator.namespace
    }

    /// A folder of this site alone.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.locator.dir
    }

    /// The clock that decides, for a store that is decided by its server or its host. The same for all handles.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        match &self.stepped {
            Some(clock) => Arc::new(clock.clone()),
            None => Arc::new(SystemClock),
        }
    }

    /// The clock that the scenario steps; `None` where it runs on the real one. For a store that is decided by its
    /// server: without a stepped clock it is to be left to the server's own.
    #[must_use]
    pub fn stepped_clock(&self) -> Option<Arc<dyn Clock>> {
        self.stepped.as_ref().map(|clock| Arc::new(clock.clone()) as Arc<dyn Clock>)
    }

    /// The clock of this handle's own process: for a store that is decided by its callers. Some scenarios skew it, by
    /// at most the [guard](idem_core::Capabilities::guard_ms) that such a store declares, or by hours for a store that
    /// must not look at it.
    #[must_use]
    pub fn client_clock(&self) -> Arc<dyn Clock> {
        match self.locator.skew_ms {
            0 => self.clock(),
            skew_ms => Arc::new(SkewedClock { inner: self.clock(), skew_ms }),
        }
    }

    /// The time zone that this handle's session is to be set to, where a store's sessions have one: an IANA name, such
    /// as `Pacific/Kiritimati`. Time zones change nothing (G-60).
    #[must_use]
    pub fn session_zone(&self) -> Option<&str> {
        self.locator.zone.as_deref()
    }

    /// N: where this handle is to connect instead of [`proxy_target`](crate::Harness::proxy_target), over one connection,
    /// so that what is counted on it is what the handle says.
    #[must_use]
    pub const fn via(&self) -> Option<SocketAddr> {
        self.locator.via
    }

    /// R: whether this site is on the server that the suite [stops and starts](crate::Harness::server).
    #[must_use]
    pub const fn own_server(&self) -> bool {
        self.locator.own_server
    }

    /// How long this handle is to wait for what does not answer or is locked before it fails; `None`: as long as the
    /// store does by itself. Scenarios about waits that must end set it, so that they do not take minutes.
    #[must_use]
    pub fn patience(&self) -> Option<Duration> {
        self.locator.patience_ms.map(Duration::from_millis)
    }

    /// The same site for a handle that goes through a proxy.
    #[allow(dead_code, reason = "the scenarios that use it follow")]
    pub(crate) fn through(&self, proxy: SocketAddr) -> Self {
        let mut site = self.clone();
        site.locator.via = Some(proxy);
        site
    }

    /// The same site on the server that is stopped and started.
    #[allow(dead_code, reason = "the scenarios that use it follow")]
    pub(crate) fn on_own_server(&self) -> Self {
        let mut site = self.clone();
        site.locator.own_server = true;
        site
    }

    /// The same site for a handle that gives up soon.
    pub(crate) fn impatient(&self, patience: Duration) -> Self {
        let mut site = self.clone();
        site.locator.patience_ms = Some(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX));
        site
    }

    /// The same site for a handle whose process is `skew_ms` ahead.
    pub(crate) fn skewed_ms(&self, skew_ms: i64) -> Self {
        let mut site = self.clone();
        site.locator.skew_ms = skew_ms;
        site
    }

    /// The same site for a handle whose session is in `zone`.
    pub(crate) fn in_zone(&self, zone: &str) -> Self {
        let mut site = self.clone();
        site.locator.zone = Some(zone.to_owned());
        site
    }

    /// What another process needs to open this site as it is now.
    pub(crate) fn locator(&self) -> Locator {
        let mut locator = self.locator.clone();
        locator.wall_ms = self.stepped.as_ref().map(|clock| clock.now().as_millis());
        locator
    }

    /// The site that `locator` names.
    pub(crate) fn located(locator: Locator) -> Self {
        let stepped = locator.wall_ms.map(SteppedClock::at);
        Self { locator, stepped }
    }
}

/// A namespace that was never used: random, so that runs on one server do not meet.
pub(crate) fn fresh_namespace() -> String {
    format!("idem_{:016x}", fastrand::u64(..))
}

/// A stepped clock at its start.
pub(crate) fn fresh_clock() -> SteppedClock {
    SteppedClock::at(EPOCH_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_found_again_by_its_locator() {
        let site = Site::new(fresh_namespace(), "/nowhere".into(), Some(fresh_clock())).skewed_ms(-7);
        assert!(site.stepped_clock().is_some());
        let text = serde_json::to_string(&site.locator()).unwrap();
        let again = Site::located(serde_json::from_str(&text).unwrap());
        assert_eq!((again.namespace(), again.dir()), (site.namespace(), site.dir()));
        assert_eq!(again.clock().now().as_millis(), EPOCH_MS);
        assert_eq!(again.client_clock().now().as_millis(), EPOCH_MS - 7);
    }

    #[test]
    fn a_namespace_fits_every_identifier() {
        let name = fresh_namespace();
        assert!(
            name.len() <= 30
                && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        );
        assert_ne!(name, fresh_namespace());
    }
}
