//! Four ledgers on one clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use idem_core::answer::Stats;
use idem_core::cas::CasStore as _;
use idem_core::clock::{Clock as _, ManualClock};
use idem_core::request::Query;
use idem_core::store::{Capabilities, Limits};
use idem_core::transition::{
    Context, DEFAULT_STEP_MS as STEP_MS, Sweep, SweepStep, Transition as _, Write, invariants,
};
use idem_core::{CasAdapter, EffectClass, ErrorKind, MemoryStore, OperationId, Record, Store, View};
use idem_sqlite::{SqliteConfig, SqliteStore, Synchronous};

use crate::map_store::MapStore;
use crate::requests::{Answer, Past, Request, random};
use crate::rng::Rng;

/// The answers that a run must have seen.
pub(crate) const ANSWERS: &[&str] = &[
    "Registered Created",
    "Registered Exists",
    "Registered Conflict",
    "Claimed Granted",
    "Claimed InProgress",
    "Claimed Replay",
    "Claimed Conflict",
    "Claimed Expired",
    "Claimed Uncertain",
    "Claimed Ended",
    "Claimed Nothing",
    "Renewed Renewed",
    "Renewed Settled",
    "Renewed Parked",
    "Renewed Fenced",
    "Checkpointed Recorded",
    "Checkpointed Duplicate",
    "Checkpointed Differs",
    "Checkpointed Full",
    "Checkpointed Settled",
    "Checkpointed Parked",
    "Checkpointed Fenced",
    "Completed Completed",
    "Completed AlreadyCompleted",
    "Completed OutcomeConflict",
    "Completed Fenced",
    "Released Released",
    "Released AlreadyReleased",
    "Released TooEarly",
    "Released Settled",
    "Released Parked",
    "Released Fenced",
    "Parked Parked",
    "Parked AlreadyParked",
    "Parked Settled",
    "Parked Fenced",
    "Resolved Resolved",
    "Resolved NotFound",
    "Resolved NotUncertain",
    "Resolved Stale",
    "Resolved TooEarly",
    "Erased Erased",
    "Erased AlreadyErased",
    "Erased NotFound",
    "Erased Unfinished",
    "Failed InvalidInput",
    "Failed Unsupported",
    "swept erased",
    "swept purged",
];

const START_MS: u64 = 1_700_000_000_000;

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.body_bytes_max = 512;
    limits.payload_bytes_max = 256;
    limits.checkpoints_max = 3;
    limits.checkpoint_bytes_max = 64;
    limits
}

pub(crate) struct World {
    pub(crate) steps: u64,
    rng: Rng,
    clock: ManualClock,
    /// The ids that requests are about now, and what was claimed under them.
    ids: Vec<(OperationId, Past)>,
    model: BTreeMap<OperationId, Record>,
    memory: MemoryStore,
    cas: CasAdapter<MapStore>,
    sqlite: SqliteStore,
    seen: BTreeMap<String, u64>,
    _folder: tempfile::TempDir,
}

/// In memory where there is such a file system: this test is about what is stored, not about a disk.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Ids that a sloppy store confuses.
fn ids() -> Vec<(OperationId, Past)> {
    let long = "k".repeat(512);
    let parts = [
        ("acme", "charge/v1", "order-1"),
        ("acme", "charge/v1", "ORDER-1"),
        ("acme", "charge/v1", "order-1 "),
        ("acme", "charge/v1", "Order-1"),
        ("acmec", "harge/v1", "order-1"),
        ("acme", "charge/v1o", "rder-1"),
        ("ACME", "charge/v1", "order-1"),
        ("t", "o", "e\u{301}"),
        ("t", "o", "\u{e9}"),
        ("t", "o", "'; DROP TABLE idem_operations; --"),
        ("t", "o", "%"),
        ("t", "o", "_"),
        ("t", "%", "?1"),
        ("t", "o", &long),
        ("t", "o", &long[..511]),
        ("\u{10ffff}", "\u{fffd}", "\u{feff}k"),
    ];
    parts.iter().map(|(t, o, k)| (OperationId::new(t, o, k).unwrap(), Past::default())).collect()
}

impl World {
    pub(crate) async fn new(rng: Rng) -> Self {
        let clock = ManualClock::at(START_MS);
        let folder = folder();
        let mut memory_like = Capabilities::new("cas", "nothing");
        memory_like.limits = limits();
        memory_like.step_ms = STEP_MS;
        let config = SqliteConfig::new(folder.path().join("ledger.db"))
            .clock(Arc::new(clock.clone()))
            .limits(limits())
            .step_ms(STEP_MS)
            .synchronous(Synchronous::Normal);
        Self {
            steps: 0,
            rng,
            ids: ids(),
            model: BTreeMap::new(),
            memory: MemoryStore::with(Arc::new(clock.clone()), limits()),
            cas: CasAdapter::with(MapStore::default(), memory_like, Arc::new(clock.clone())),
            sqlite: SqliteStore::open_with(config).await.unwrap(),
            seen: BTreeMap::new(),
            clock,
            _folder: folder,
        }
    }

    fn context(&self, step_ms: u64) -> Context {
        Context::at(self.clock.now()).step_ms(step_ms).limits(limits())
    }

    /// Some time, and then one step, several at once, or a look at everything.
    pub(crate) async fn turn(&mut self) {
        self.pass_time();
        match self.rng.below(400) {
            0..=1 => self.sweep().await,
            2 if self.rng.one_in(4) => self.compare_all().await,
            2..=12 => self.renew_id(),
            13..=80 => self.step_together().await,
            _ => self.step().await,
        }
    }

    /// A completed operation is the end for its id, so that a new one takes its place from time to time.
    fn renew_id(&mut self) {
        let (old, past) = self.rng.pick_mut(&mut self.ids);
        let key = format!("{}-{}", self.steps, old.key());
        let key: String = key.chars().take(200).collect();
        *old = OperationId::new(old.tenant(), old.operation(), &key).unwrap();
        *past = Past::default();
    }

    fn pass_time(&mut self) {
        match self.rng.below(40) {
            // A jump of the wall clock back, within what is declared.
            0 => {
                let back = self.rng.below(2000);
                self.clock.set_wall(self.clock.now().as_millis() - back);
            }
            1 if self.rng.one_in(4) => self.clock.advance(Duration::from_millis(self.rng.below(2 * STEP_MS))),
            1 => self.clock.advance(Duration::from_millis(self.rng.below(20_000))),
            2..=20 => self.clock.advance(Duration::from_millis(self.rng.below(400))),
            // The same instant: deadlines are met exactly.
            _ => {}
        }
    }

    fn request(&mut self, at: usize) -> Request {
        let (id, past) = &mut self.ids[at];
        random(&mut self.rng, id, self.model.get(id), past)
    }

    async fn step(&mut self) {
        let at = self.rng.below(self.ids.len() as u64) as usize;
        let request = self.request(at);
        let answer = request.ask(&self.sqlite).await;
        self.compare(&request, &answer).await;
    }

    /// Several requests at once about different ids: the group commit answers each as if it were alone.
    async fn step_together(&mut self) {
        let count = 2 + self.rng.below(6) as usize;
        let first = self.rng.below(self.ids.len() as u64) as usize;
        let requests: Vec<Request> =
            (0..count).map(|offset| self.request((first + offset) % self.ids.len())).collect();
        let asked: Vec<_> = requests
            .iter()
            .map(|request| {
                let (request, sqlite) = (request.clone(), self.sqlite.clone());
                tokio::spawn(async move { request.ask(&sqlite).await })
            })
            .collect();
        for (request, answer) in requests.iter().zip(asked) {
            self.compare(request, &answer.await.unwrap()).await;
        }
    }

    /// The other three do the same; then answers and records are held against each other.
    async fn compare(&mut self, request: &Request, sqlite: &Answer) {
        self.steps += 1;
        let id = request.id().clone();
        let expected = match request {
            // Every store refuses this class outside of its transactions (G-18).
            Request::Claim(claim) if claim.effect == EffectClass::Local => {
                Answer::Failed(ErrorKind::Unsupported)
            }
            _ => {
                let context = self.context(STEP_MS);
                let before = self.model.remove(&id);
                let mut after = before.clone();
                let answer = request.decide(&mut after, &context);
                invariants::check(before.as_ref(), after.as_ref(), &context)
                    .unwrap_or_else(|broken| panic!("step {}: {broken}: {request:?}", self.steps));
                if let Some(after) = after {
                    self.model.insert(id.clone(), after);
                }
                answer
            }
        };
        *self.seen.entry(expected.name()).or_default() += 1;
        let step = self.steps;
        let memory = request.ask(&self.memory).await;
        let cas = request.ask(&self.cas).await;
        assert_eq!(memory, expected, "memory, step {step}: {request:?}");
        assert_eq!(cas, expected, "adapter, step {step}: {request:?}");
        assert_eq!(*sqlite, expected, "SQLite, step {step}: {request:?}");
        self.compare_record(&id).await;
    }

    async fn compare_record(&self, id: &OperationId) {
        let expected = self.model.get(id);
        let step = self.steps;
        assert_eq!(self.memory.stored(id).as_ref(), expected, "memory's record after step {step}");
        let cas = self.cas.inner().load(id).await.unwrap().map(|(record, _)| record);
        assert_eq!(cas.as_ref(), expected, "the adapter's record after step {step}");
        let sqlite = self.sqlite.stored(id).unwrap();
        assert_eq!(sqlite.as_ref(), expected, "SQLite's record after step {step}");
        let read = expected.and_then(|record| record.clone().as_read(self.clock.now()));
        assert_eq!(self.sqlite.get(id).await.unwrap(), read, "SQLite's answer to get after step {step}");
    }

    async fn sweep(&mut self) {
        self.steps += 1;
        let context = self.context(STEP_MS);
        let (mut erased, mut purged) = (0, 0);
        let due = |record: &&Record| record.sweep_at(STEP_MS).is_some_and(|at| at <= context.now);
        let ids: Vec<_> = self.model.values().filter(due).map(|record| record.id.clone()).collect();
        for id in &ids {
            let step = Sweep::new(id.clone()).apply(self.model.get(id), &context).unwrap();
            match step.write {
                Write::Put(record) => {
                    self.model.insert(id.clone(), *record);
                }
                Write::Remove => {
                    self.model.remove(id);
                }
                _ => {}
            }
            match step.answer {
                SweepStep::Erased => erased += 1,
                SweepStep::Purged => purged += 1,
                _ => {}
            }
        }
        let stores: [&dyn Store; 3] = [&self.memory, &self.cas, &self.sqlite];
        for store in stores {
            let name = store.capabilities().name;
            assert_eq!(sweep_all(store).await, (erased, purged), "{name}");
        }
        *self.seen.entry("swept erased".to_owned()).or_default() += erased;
        *self.seen.entry("swept purged".to_owned()).or_default() += purged;
        for id in &ids {
            self.compare_record(id).await;
        }
    }

    /// Every record, the listing by each view, and the counts.
    async fn compare_all(&mut self) {
        self.steps += 1;
        let ids = self.ids.iter().map(|(id, _)| id).chain(self.model.keys());
        for id in ids {
            self.compare_record(id).await;
        }
        let now = self.clock.now();
        let mut stats = Stats::at(now);
        self.model.values().for_each(|record| stats.count(record, 0));
        let mut query = Query::all();
        if self.rng.one_in(2) {
            query.views = View::ALL.into_iter().filter(|_| self.rng.one_in(3)).collect();
        }
        if self.rng.one_in(3) {
            query.tenant = Some("acme".to_owned());
        }
        if self.rng.one_in(3) {
            query.operation = Some("charge/v1".to_owned());
        }
        let admitted = self.model.values().filter(|record| query.admits(&record.id, record.view(now, 0)));
        let listed: BTreeMap<OperationId, Record> =
            admitted.map(|record| (record.id.clone(), record.clone().without_content())).collect();
        let stores: [&dyn Store; 3] = [&self.memory, &self.cas, &self.sqlite];
        for store in stores {
            let name = store.capabilities().name;
            assert_eq!(store.stats().await.unwrap(), stats, "{name}");
            query.limit = 1 + self.rng.below(100) as usize;
            assert_eq!(pages(store, query.clone()).await, listed, "{name}: {query:?}");
        }
    }

    /// The last look, and what was seen.
    pub(crate) async fn finish(&mut self) -> BTreeMap<String, u64> {
        self.compare_all().await;
        self.sqlite.close().await;
        self.seen.clone()
    }
}

/// Sweeps until nothing is left to do.
async fn sweep_all(store: &dyn Store) -> (u64, u64) {
    let (mut erased, mut purged) = (0, 0);
    loop {
        let swept = store.sweep(500).await.unwrap();
        erased += swept.erased;
        purged += swept.purged;
        if !swept.more {
            return (erased, purged);
        }
    }
}

/// The whole listing, page by page; a record that comes twice is an error.
async fn pages(store: &dyn Store, mut query: Query) -> BTreeMap<OperationId, Record> {
    let mut all = BTreeMap::new();
    loop {
        let page = store.list(&query).await.unwrap();
        for record in page.records {
            assert!(all.insert(record.id.clone(), record).is_none(), "listed twice");
        }
        match page.next {
            Some(next) => query.after = Some(next),
            None => return all,
        }
    }
}
