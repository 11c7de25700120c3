//! What a scenario is given: fresh sites, handles, names, a seeded generator and a place for its evidence.

use std::sync::{Arc, Mutex, PoisonError};

use idem_core::answer::{Claimed, Completed, Grant, Parked, Replay, Swept};
use idem_core::clock::{Clock, SystemClock};
use idem_core::request::{Complete, Intent, OnLapse, Park};
use idem_core::{
    Claim, Fingerprint, Label, Lease, OperationId, Outcome, Record, Retention, Store, Timestamp,
};
use tempfile::TempDir;

use crate::clock::SteppedClock;
use crate::evidence::{Evidence, Fact, Tally};
use crate::failure::{Failure, Verdict, ensure, ensure_let};
use crate::harness::Harness;
use crate::site::{Site, fresh_clock, fresh_namespace};
use crate::watched::Watched;

/// The world of one scenario.
#[derive(Debug)]
pub(crate) struct Env {
    harness: Arc<dyn Harness>,
    site: Site,
    clock: Option<SteppedClock>,
    seed: u64,
    brief: bool,
    tally: Arc<Tally>,
    /// Every site of the scenario, with the folder that lives as long.
    sites: Mutex<Vec<(Site, TempDir)>>,
}

impl Env {
    /// A world on a fresh site, with a stepped clock if `stepped`.
    pub(crate) fn new(harness: Arc<dyn Harness>, seed: u64, stepped: bool, brief: bool) -> Verdict<Self> {
        let clock = stepped.then(fresh_clock);
        let (site, dir) = make_site(clock.clone())?;
        Ok(Self {
            harness,
            site: site.clone(),
            clock,
            seed,
            brief,
            tally: Arc::new(Tally::default()),
            sites: Mutex::new(vec![(site, dir)]),
        })
    }

    /// The seed of this run of the scenario.
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    /// How much of something costly to do: `full`, or `brief` where the suite itself is being tested.
    pub(crate) const fn amount(&self, full: usize, brief: usize) -> usize {
        if self.brief { brief } else { full }
    }

    /// Counts evidence.
    pub(crate) fn saw(&self, fact: Fact, count: u64) {
        self.tally.add(fact, count);
    }

    /// What was seen so far.
    pub(crate) fn evidence(&self) -> Evidence {
        self.tally.evidence()
    }

    /// Gives back everything that was made.
    pub(crate) async fn tear_down(&self) {
        let sites = std::mem::take(&mut *self.sites.lock().unwrap_or_else(PoisonError::into_inner));
        for (site, _dir) in &sites {
            self.harness.teardown(site).await;
        }
    }

    /// The harness under test.
    pub(crate) fn harness(&self) -> &Arc<dyn Harness> {
        &self.harness
    }

    /// The site of the scenario.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }

    /// Another site, isolated from the first; on the same clock.
    pub(crate) fn other_site(&self) -> Verdict<Site> {
        let (site, dir) = make_site(self.clock.clone())?;
        self.sites.lock().unwrap_or_else(PoisonError::into_inner).push((site.clone(), dir));
        Ok(site)
    }

    /// A handle on the scenario's site.
    pub(crate) async fn open(&self) -> Verdict<Arc<dyn Store>> {
        self.open_at(&self.site).await
    }

    /// A handle on `site`.
    pub(crate) async fn open_at(&self, site: &Site) -> Verdict<Arc<dyn Store>> {
        let store = self.harness.open(site).await?;
        self.saw(Fact::Handles, 1);
        Ok(Arc::new(Watched::over(store, self.tally.clone())))
    }

    /// The clock that this scenario moves.
    pub(crate) fn clock(&self) -> Verdict<&SteppedClock> {
        self.clock
            .as_ref()
            .ok_or_else(|| Failure::new("a defect of the suite: the scenario does not need a clock"))
    }

    /// The wall time that decides, as the suite sees it.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.as_ref().map_or_else(|| SystemClock.now(), Clock::now)
    }
}

fn make_site(clock: Option<SteppedClock>) -> Verdict<(Site, TempDir)> {
    let namespace = fresh_namespace();
    let dir = tempfile::Builder::new()
        .prefix(&format!("{namespace}_"))
        .tempdir()
        .map_err(|error| Failure::new(format!("no temporary folder: {error}")))?;
    Ok((Site::new(namespace, dir.path().to_owned(), clock), dir))
}

/// The operation with this key, of the usual tenant and command.
pub(crate) fn id(key: &str) -> OperationId {
    id_of("tenant-a", "conformance/v1", key)
}

/// The operation with these parts, which are known to be fit.
pub(crate) fn id_of(tenant: &str, operation: &str, key: &str) -> OperationId {
    #[allow(
        clippy::expect_used,
        reason = "the suite's own names are fit; one that is not is a defect of the suite"
    )]
    OperationId::new(tenant, operation, key).expect("a name in the suite is fit")
}

/// A label that is known to be fit.
pub(crate) fn label(text: &str) -> Label {
    #[allow(
        clippy::expect_used,
        reason = "the suite's own labels are fit; one that is not is a defect of the suite"
    )]
    Label::new(text).expect("a label in the suite is fit")
}

/// A lease that is known to be fit.
pub(crate) fn lease_ms(millis: u64) -> Lease {
    #[allow(
        clippy::expect_used,
        reason = "the suite's own leases are fit; one that is not is a defect of the suite"
    )]
    Lease::new(std::time::Duration::from_millis(millis)).expect("a lease in the suite is fit")
}

/// The usual intent.
pub(crate) fn intent() -> Fingerprint {
    Fingerprint::bytes(b"transfer 10")
}

/// Another intent.
pub(crate) fn other_intent() -> Fingerprint {
    Fingerprint::bytes(b"transfer 11")
}

/// A claim for the usual intent, which lasts long enough for every scenario on the system's clock.
pub(crate) fn claim(id: &OperationId) -> Claim {
    Claim::new(id.clone(), intent(), label("suite")).lease(lease_ms(3_600_000))
}

/// A completion of `grant` with `body`, kept for ever.
pub(crate) fn complete(grant: &Grant, body: &str) -> Complete {
    complete_with(grant, Outcome::success().body(body.to_owned()))
}

/// A completion of `grant` with `outcome`, kept for ever.
pub(crate) fn complete_with(grant: &Grant, outcome: Outcome) -> Complete {
    Complete::new(grant.held(), outcome, Retention::forever())
}

/// Claims, and fails unless it is granted.
pub(crate) async fn granted(env: &Env, store: &dyn Store, claim: &Claim, what: &str) -> Verdict<Grant> {
    let answer = store.claim(claim).await?;
    Ok(*ensure_let!(env, answer; Claimed::Granted(grant) => grant, "{what} must be granted"))
}

/// Completes, and fails unless it is applied.
pub(crate) async fn completed(env: &Env, store: &dyn Store, request: &Complete, what: &str) -> Verdict {
    let answer = store.complete(request).await?;
    ensure_let!(env, answer; Completed::Completed { .. }, "{what} must be completed");
    Ok(())
}

/// Claims, and fails unless it is replayed.
pub(crate) async fn replayed(env: &Env, store: &dyn Store, claim: &Claim, what: &str) -> Verdict<Replay> {
    let answer = store.claim(claim).await?;
    Ok(*ensure_let!(env, answer; Claimed::Replay(replay) => replay, "{what} must be replayed"))
}

/// Claims `key` and parks it, so that it is Uncertain; gives the grant of the holder.
pub(crate) async fn parked(env: &Env, store: &dyn Store, key: &str) -> Verdict<Grant> {
    let grant = granted(env, store, &claim(&id(key)), "the claim to park").await?;
    let answer = store.park(&Park::new(grant.held())).await?;
    ensure_let!(env, answer; Parked::Parked { .. }, "the operation must be parked");
    Ok(grant)
}

/// What is stored under `id`; fails when nothing is.
pub(crate) async fn record(store: &dyn Store, id: &OperationId) -> Verdict<Record> {
    store.get(id).await?.ok_or_else(|| Failure::new(format!("the record of {id:?} is not there")))
}

/// Fails unless what is stored is still `before`.
pub(crate) async fn unchanged(env: &Env, store: &dyn Store, before: &Record, what: &str) -> Verdict {
    let after = record(store, &before.id).await?;
    ensure!(env, after == *before, "{what} changed the record: from {before:?} to {after:?}");
    Ok(())
}

/// A claim that takes over a lapsed lease.
pub(crate) fn take(id: &OperationId) -> Claim {
    claim(id).intent(Intent::Run(OnLapse::Take))
}

/// A claim that only recovers.
pub(crate) fn recover(id: &OperationId) -> Claim {
    claim(id).intent(Intent::Recover)
}

/// Moves the clock a second past the instant at which `grant` can be taken over. The instant itself is the business of
/// LS-002 and the clock family alone, so that a store which is wrong about it does not fail everywhere.
pub(crate) fn lapse(env: &Env, store: &dyn Store, grant: &Grant) -> Verdict {
    let takeable = grant.lease_until.plus_millis(store.capabilities().guard_ms);
    env.clock()?.set_ms(env.now().max(takeable).as_millis() + LAPSED_FOR_MS);
    Ok(())
}

/// How far past the end of a lease the clock is moved.
pub(crate) const LAPSED_FOR_MS: u64 = 1_000;

/// Sweeps until nothing more is said to be there; gives the sums.
pub(crate) async fn sweep_all(env: &Env, store: &dyn Store) -> Verdict<Swept> {
    let mut sum = Swept::default();
    for _ in 0..1_000 {
        let swept = store.sweep(100).await?;
        sum.erased += swept.erased;
        sum.purged += swept.purged;
        if !swept.more {
            return Ok(sum);
        }
    }
    ensure!(env, false, "a thousand sweeps and still more to do: {sum:?}");
    Ok(sum)
}
