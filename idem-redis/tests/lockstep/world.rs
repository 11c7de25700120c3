//! The model and the store on one clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use idem_core::answer::Stats;
use idem_core::clock::{Clock as _, ManualClock};
use idem_core::record::AbsenceReason;
use idem_core::request::{Held, Query, Release, SaveCheckpoint};
use idem_core::store::Limits;
use idem_core::transition::{
    Context, DEFAULT_STEP_MS as STEP_MS, Sweep, SweepStep, Transition as _, Write, invariants,
};
use idem_core::{EffectClass, ErrorKind, Label, Lease, Mode, OperationId, Record, State, Store as _, View};
use idem_redis::{RedisConfig, RedisStore};

use crate::requests::{Answer, Past, Request, random};
use crate::rng::Rng;

/// The answers that a run must have seen.
#[rustfmt::skip]
pub(crate) const ANSWERS: &[&str] = &[
    "Registered Created", "Registered Exists", "Registered Conflict",
    "Claimed Granted", "Claimed InProgress", "Claimed Replay", "Claimed Conflict", "Claimed Expired",
    "Claimed Uncertain", "Claimed Ended", "Claimed Nothing",
    "Renewed Renewed", "Renewed Settled", "Renewed Parked", "Renewed Fenced",
    "Checkpointed Recorded", "Checkpointed Duplicate", "Checkpointed Differs", "Checkpointed Full",
    "Checkpointed Settled", "Checkpointed Parked", "Checkpointed Fenced",
    "Completed Completed", "Completed AlreadyCompleted", "Completed OutcomeConflict", "Completed Fenced",
    "Released Released", "Released AlreadyReleased", "Released TooEarly", "Released Settled", "Released Parked",
    "Released Fenced",
    "Parked Parked", "Parked AlreadyParked", "Parked Settled", "Parked Fenced",
    "Resolved Resolved", "Resolved NotFound", "Resolved NotUncertain", "Resolved Stale", "Resolved TooEarly",
    "Erased Erased", "Erased AlreadyErased", "Erased NotFound", "Erased Unfinished",
    "Failed InvalidInput", "Failed Unsupported", "swept erased", "swept purged",
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
    redis: RedisStore,
    seen: BTreeMap<String, u64>,
}

/// Ids that a sloppy store confuses: in one key, in a pattern, in a hash tag.
fn ids() -> Vec<(OperationId, Past)> {
    let long = "k".repeat(512);
    let parts = [
        ("acme", "charge/v1", "order-1"),
        ("acme", "charge/v1", "ORDER-1"),
        ("acme", "charge/v1", "order-1 "),
        ("acmec", "harge/v1", "order-1"),
        ("acme", "charge/v1o", "rder-1"),
        ("a{cme}", "charge/v1", "}{"),
        ("a%7Bcme%7D", "charge/v1", "}{"),
        ("a*", "c?arge/v1", "[a-z]"),
        ("t", "o", "e\u{301}"),
        ("t", "o", "\u{e9}"),
        ("t", "o", "' .. redis.call('FLUSHALL') .. '"),
        ("t", "o", "{}"),
        ("t", "o", &long),
        ("t", "o", &long[..511]),
        ("\u{10ffff}", "\u{fffd}", "\u{feff}k"),
    ];
    parts.iter().map(|(t, o, k)| (OperationId::new(t, o, k).unwrap(), Past::default())).collect()
}

/// What only a holder is answered, and chance rarely asks.
fn of_holder(rng: &mut Rng, record: &Record) -> Request {
    let current = record.current.as_ref().unwrap();
    let held = Held::new(record.id.clone(), current.id);
    if current.mode == Mode::Recover && rng.one_in(2) {
        let reason = AbsenceReason::Quiesced { settle_ms: rng.below(3000) };
        return Request::Release(Release::new(held).absence(reason));
    }
    let name = Label::new(rng.pick::<&str>(&["sent", "b\u{e9}", "{}", "sen"])).unwrap();
    let lease = Lease::new(Duration::from_millis(1 + rng.below(3000))).unwrap();
    Request::Checkpoint(SaveCheckpoint::new(held, name, *rng.pick::<&[u8]>(&[b"1", b"1", b"\0"]), lease))
}

impl World {
    pub(crate) async fn new(rng: Rng, url: &str) -> Self {
        let clock = ManualClock::at(START_MS);
        let prefix = format!("lockstep-{}", std::process::id());
        let config = RedisConfig::new(url)
            .prefix(&prefix)
            .clock(Arc::new(clock.clone()))
            .limits(limits())
            .step_ms(STEP_MS);
        let redis = RedisStore::open_with(config).await.unwrap();
        Self { steps: 0, rng, ids: ids(), model: BTreeMap::new(), redis, seen: BTreeMap::new(), clock }
    }

    fn context(&self) -> Context {
        Context::at(self.clock.now()).step_ms(STEP_MS).limits(limits())
    }

    /// Some time, and then one step, or a look at everything.
    pub(crate) async fn turn(&mut self) {
        self.pass_time();
        match self.rng.below(400) {
            0..=1 => self.sweep().await,
            2 if self.rng.one_in(10) => self.compare_all().await,
            2..=40 => self.renew_id(),
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

    async fn step(&mut self) {
        self.steps += 1;
        let step = self.steps;
        let at = self.rng.below(self.ids.len() as u64) as usize;
        let (id, past) = &mut self.ids[at];
        let stored = self.model.get(id);
        let held = stored.filter(|record| record.state == State::Processing && self.rng.one_in(3));
        let request = match held {
            Some(record) => of_holder(&mut self.rng, record),
            None => random(&mut self.rng, id, stored, past),
        };
        let expected = self.expect(&request);
        *self.seen.entry(expected.name()).or_default() += 1;
        assert_eq!(request.ask(&self.redis).await, expected, "step {step}: {request:?}");
        self.compare_record(request.id()).await;
    }

    /// What the contract says, on the model's record.
    fn expect(&mut self, request: &Request) -> Answer {
        // Every store refuses this class outside of its transactions (G-18).
        if matches!(request, Request::Claim(claim) if claim.effect == EffectClass::Local) {
            return Answer::Failed(ErrorKind::Unsupported);
        }
        let context = self.context();
        let before = self.model.remove(request.id());
        let mut after = before.clone();
        let answer = request.decide(&mut after, &context);
        invariants::check(before.as_ref(), after.as_ref(), &context)
            .unwrap_or_else(|broken| panic!("step {}: {broken}: {request:?}", self.steps));
        if let Some(after) = after {
            self.model.insert(request.id().clone(), after);
        }
        answer
    }

    async fn compare_record(&self, id: &OperationId) {
        let expected = self.model.get(id);
        let step = self.steps;
        let stored = self.redis.stored(id).await.unwrap();
        assert_eq!(stored.as_ref(), expected, "the record after step {step}");
        let read = expected.and_then(|record| record.clone().as_read(self.clock.now()));
        assert_eq!(self.redis.get(id).await.unwrap(), read, "the answer to get after step {step}");
    }

    async fn sweep(&mut self) {
        self.steps += 1;
        let context = self.context();
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
        let limit = 1 + self.rng.below(600) as usize;
        assert_eq!(self.sweep_all(limit).await, (erased, purged), "after step {}", self.steps);
        *self.seen.entry("swept erased".to_owned()).or_default() += erased;
        *self.seen.entry("swept purged".to_owned()).or_default() += purged;
        for id in &ids {
            self.compare_record(id).await;
        }
    }

    /// Sweeps until nothing is left to do.
    async fn sweep_all(&self, limit: usize) -> (u64, u64) {
        let (mut erased, mut purged) = (0, 0);
        loop {
            let swept = self.redis.sweep(limit).await.unwrap();
            assert!(swept.erased + swept.purged <= limit as u64, "more than {limit}: {swept:?}");
            erased += swept.erased;
            purged += swept.purged;
            if !swept.more {
                return (erased, purged);
            }
        }
    }

    /// The counts, and the listing by some views.
    async fn compare_all(&mut self) {
        self.steps += 1;
        let (now, mut query) = (self.clock.now(), Query::all());
        let mut stats = Stats::at(now);
        self.model.values().for_each(|record| stats.count(record, 0));
        assert_eq!(self.redis.stats().await.unwrap(), stats);
        if self.rng.one_in(2) {
            query.views = View::ALL.into_iter().filter(|_| self.rng.one_in(3)).collect();
        }
        if self.rng.one_in(3) {
            query.tenant =
                Some((*self.rng.pick::<&str>(&["acme", "a*", "a{cme}", "a%7Bcme%7D", "t"])).to_owned());
        }
        if self.rng.one_in(3) {
            query.operation = Some((*self.rng.pick::<&str>(&["charge/v1", "c?arge/v1"])).to_owned());
        }
        query.limit = 1 + self.rng.below(100) as usize;
        let admitted = self.model.values().filter(|record| query.admits(&record.id, record.view(now, 0)));
        let listed: BTreeMap<OperationId, Record> =
            admitted.map(|record| (record.id.clone(), record.clone().without_content())).collect();
        assert_eq!(self.pages(query.clone()).await, listed, "{query:?}");
    }

    /// The whole listing, page by page; a record that comes twice is an error.
    async fn pages(&self, mut query: Query) -> BTreeMap<OperationId, Record> {
        let mut all = BTreeMap::new();
        loop {
            let page = self.redis.list(&query).await.unwrap();
            assert!(page.records.len() <= query.limit, "more than a page");
            for record in page.records {
                assert!(all.insert(record.id.clone(), record).is_none(), "listed twice");
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return all,
            }
        }
    }

    /// The answers that were wanted and did not come yet.
    pub(crate) fn unseen(&self) -> Vec<&'static str> {
        ANSWERS.iter().copied().filter(|wanted| !self.seen.contains_key(*wanted)).collect()
    }

    /// The last look, and what was seen.
    pub(crate) async fn finish(&mut self) -> &BTreeMap<String, u64> {
        self.compare_all().await;
        &self.seen
    }
}
