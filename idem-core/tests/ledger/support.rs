//! A ledger on a manual clock over a store that counts its calls and fails where a test says.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use idem_core::clock::{Clock, ManualClock};
use idem_core::ledger::{Ledger, Policy};
use idem_core::request::{
    Complete, Erase, Held, Intent, OnLapse, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use idem_core::{
    AttemptId, Capabilities, Claim, Error, ErrorKind, Fingerprint, Grant, Label, Limits, MemoryStore,
    OperationId, Record, Result, State, Store,
};
use tokio::sync::{Notify, Semaphore};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn op() -> OperationId {
    OperationId::new("acme", "invoice.create/v1", "order-418").unwrap()
}

pub(crate) fn intent() -> Fingerprint {
    Fingerprint::bytes(b"10 EUR")
}

/// The methods that a fault can be injected into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Register,
    Claim,
    Renew,
    Checkpoint,
    Complete,
    Release,
    Park,
}

/// What happens to one call.
#[derive(Clone)]
pub(crate) enum Fault {
    /// The request is not applied, and this is answered.
    Before(ErrorKind),
    /// The request is applied, and this is answered.
    After(ErrorKind),
    /// The request waits at the gate and is applied then.
    GateBefore(Arc<Gate>),
    /// The request is applied and its answer waits at the gate.
    GateAfter(Arc<Gate>),
    /// The request is never applied and never answered.
    Never,
    /// The request is applied and its answer waits at the gate. If its caller goes away meanwhile, the store gives back
    /// what it granted, as stores do (G-53).
    Watched(Arc<Gate>),
    /// The answer arrives so much later.
    Slow(Duration),
    /// The request is applied and its answer is lost so much later, when the deciding clock stands at `wall_ms`.
    Lost { after: Duration, wall_ms: u64 },
}

/// A place where a call waits until the test lets it pass.
pub(crate) struct Gate {
    arrived: Notify,
    open: Semaphore,
}

impl Gate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { arrived: Notify::new(), open: Semaphore::new(0) })
    }

    async fn pass(&self) {
        self.arrived.notify_one();
        self.open.acquire().await.unwrap().forget();
    }

    /// Resolves once a call stands at the gate.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Lets one call pass.
    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }
}

/// A `MemoryStore` behind a wire that fails as scripted.
#[derive(Clone)]
pub(crate) struct Wired(Arc<Wire>);

struct Wire {
    inner: MemoryStore,
    /// The ledger's clock, which a slow answer moves.
    clock: ManualClock,
    deciding: ManualClock,
    capabilities: Capabilities,
    log: Mutex<Vec<(Call, AttemptId)>>,
    faults: Mutex<HashMap<Call, VecDeque<Fault>>>,
    /// A fault for every call that no scripted one is left for.
    always: Mutex<HashMap<Call, Fault>>,
}

impl std::fmt::Debug for Wired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wired")
    }
}

impl Wired {
    pub(crate) fn inner(&self) -> &MemoryStore {
        &self.0.inner
    }

    /// The next calls of this kind meet these faults, in order.
    pub(crate) fn fail(&self, call: Call, faults: impl IntoIterator<Item = Fault>) {
        self.0.faults.lock().unwrap().entry(call).or_default().extend(faults);
    }

    /// Every further call of this kind meets this fault.
    pub(crate) fn fail_always(&self, call: Call, fault: Fault) {
        self.0.always.lock().unwrap().insert(call, fault);
    }

    pub(crate) fn heal(&self) {
        self.0.always.lock().unwrap().clear();
        self.0.faults.lock().unwrap().clear();
    }

    /// How many calls of this kind came in.
    pub(crate) fn count(&self, call: Call) -> usize {
        self.attempts(call).len()
    }

    /// The attempt ids of the calls of this kind.
    pub(crate) fn attempts(&self, call: Call) -> Vec<AttemptId> {
        let log = self.0.log.lock().unwrap();
        log.iter().filter(|(kind, _)| *kind == call).map(|(_, attempt)| *attempt).collect()
    }

    pub(crate) fn record(&self) -> Record {
        self.0.inner.stored(&op()).expect("a record is stored")
    }

    pub(crate) fn state(&self) -> State {
        self.record().state
    }

    async fn wired<T>(
        &self,
        call: Call,
        attempt: AttemptId,
        apply: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.0.log.lock().unwrap().push((call, attempt));
        let scripted = self.0.faults.lock().unwrap().get_mut(&call).and_then(VecDeque::pop_front);
        let fault = scripted.or_else(|| self.0.always.lock().unwrap().get(&call).cloned());
        match fault {
            None => apply.await,
            Some(Fault::Before(kind)) => Err(Error::new(kind, "injected before")),
            Some(Fault::After(kind)) => {
                apply.await?;
                Err(Error::new(kind, "injected after"))
            }
            Some(Fault::GateBefore(gate)) => {
                gate.pass().await;
                apply.await
            }
            Some(Fault::GateAfter(gate)) => {
                let answer = apply.await;
                gate.pass().await;
                answer
            }
            Some(Fault::Never) => std::future::pending().await,
            Some(Fault::Watched(gate)) => {
                let answer = apply.await;
                let mut orphaned = Orphaned(Some((self, attempt)));
                gate.pass().await;
                orphaned.0 = None;
                answer
            }
            Some(Fault::Slow(by)) => {
                let answer = apply.await;
                self.0.clock.advance(by);
                answer
            }
            Some(Fault::Lost { after, wall_ms }) => {
                apply.await?;
                self.0.clock.advance(after);
                self.0.deciding.set_wall(wall_ms);
                Err(Error::indeterminate("injected loss"))
            }
        }
    }
}

/// Releases an attempt when it is dropped: what a store does for a caller that went away before its grant arrived.
struct Orphaned<'w>(Option<(&'w Wired, AttemptId)>);

impl Drop for Orphaned<'_> {
    fn drop(&mut self) {
        let Some((wired, attempt)) = self.0.take() else { return };
        let release = Release::new(Held::new(op(), attempt));
        let released = wired.0.inner.release(&release);
        let mut released = std::pin::pin!(released);
        let noop = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(released.as_mut().poll(noop).is_ready(), "a store in memory answers at once");
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Wired {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        let none = AttemptId::from_bytes([0; 16]);
        self.wired(Call::Register, none, self.0.inner.register(request)).await
    }

    async fn claim(&self, request: &Claim) -> Result<Claimed> {
        self.wired(Call::Claim, request.attempt, self.0.inner.claim(request)).await
    }

    async fn renew(&self, request: &Renew) -> Result<Renewed> {
        self.wired(Call::Renew, request.held.attempt, self.0.inner.renew(request)).await
    }

    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed> {
        self.wired(Call::Checkpoint, request.held.attempt, self.0.inner.checkpoint(request)).await
    }

    async fn complete(&self, request: &Complete) -> Result<Completed> {
        self.wired(Call::Complete, request.held.attempt, self.0.inner.complete(request)).await
    }

    async fn release(&self, request: &Release) -> Result<Released> {
        self.wired(Call::Release, request.held.attempt, self.0.inner.release(request)).await
    }

    async fn park(&self, request: &Park) -> Result<Parked> {
        self.wired(Call::Park, request.held.attempt, self.0.inner.park(request)).await
    }

    async fn resolve(&self, request: &Resolve) -> Result<Resolved> {
        self.0.inner.resolve(request).await
    }

    async fn erase(&self, request: &Erase) -> Result<Erased> {
        self.0.inner.erase(request).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>> {
        self.0.inner.get(id).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.0.inner.list(query).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.0.inner.stats().await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.0.inner.sweep(limit).await
    }

    async fn changed(&self, id: &OperationId, version: u64) {
        if self.0.capabilities.wakes {
            self.0.inner.changed(id, version).await;
        } else {
            std::future::pending::<()>().await;
        }
    }
}

/// A ledger, its store and its clocks.
pub(crate) struct World {
    pub(crate) ledger: Ledger,
    pub(crate) store: Wired,
    /// The ledger's clock.
    pub(crate) clock: ManualClock,
    /// The deciding clock: the same one, unless the world has two.
    pub(crate) deciding: ManualClock,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::at(1_000_000);
        Self::with(clock.clone(), clock, true, Limits::default())
    }

    /// A world whose store decides by a clock of its own. Move both for the time that passes in both.
    pub(crate) fn two_clocks() -> Self {
        Self::with(ManualClock::at(1_000_000), ManualClock::at(5_000_000), true, Limits::default())
    }

    pub(crate) fn that_does_not_wake() -> Self {
        let clock = ManualClock::at(1_000_000);
        Self::with(clock.clone(), clock, false, Limits::default())
    }

    pub(crate) fn with(clock: ManualClock, deciding: ManualClock, wakes: bool, limits: Limits) -> Self {
        let inner = MemoryStore::with(Arc::new(deciding.clone()), limits);
        let mut capabilities = inner.capabilities().clone();
        capabilities.wakes = wakes;
        let store = Wired(Arc::new(Wire {
            inner,
            clock: clock.clone(),
            deciding: deciding.clone(),
            capabilities,
            log: Mutex::default(),
            faults: Mutex::default(),
            always: Mutex::default(),
        }));
        let ledger = Ledger::shared(Arc::new(store.clone()), Arc::new(clock.clone()));
        Self { ledger, store, clock, deciding }
    }

    /// The ledger under the default policy, changed by `change`.
    pub(crate) fn policy(&self, change: impl FnOnce(&mut Policy)) -> Ledger {
        let mut policy = Policy::default();
        change(&mut policy);
        self.ledger.with(policy)
    }

    pub(crate) fn keyed(&self, remembers_for: Duration) -> Ledger {
        self.ledger.with(Policy::keyed(remembers_for))
    }

    /// Seconds on the ledger's clock since the world began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Waits for the background work of cancelled calls. The ledger takes no calls afterwards.
    pub(crate) async fn drained(&self) {
        assert!(self.ledger.drain(secs(1)).await, "nothing is left in the background");
    }

    /// Another process claims straight at the store.
    pub(crate) async fn rival(&self, on_lapse: OnLapse) -> Claimed {
        let claim = Claim::new(op(), intent(), Label::new("rival").unwrap()).intent(Intent::Run(on_lapse));
        self.store.inner().claim(&claim).await.unwrap()
    }

    pub(crate) async fn rival_grant(&self, on_lapse: OnLapse) -> Grant {
        match self.rival(on_lapse).await {
            Claimed::Granted(grant) => *grant,
            other => panic!("the rival got {other:?}"),
        }
    }

    /// A first attempt whose holder is gone: its lease has just lapsed.
    pub(crate) async fn lapsed(&self, ledger: &Ledger) {
        let hold = match ledger.claim(&op(), intent(), Intent::Run(OnLapse::Park)).await.unwrap() {
            idem_core::ledger::Begin::Execute(granted) => granted.start(),
            other => panic!("the first claim got {other:?}"),
        };
        drop(hold);
        self.clock.advance(LEASE);
    }
}
