//! Plays one script on the store and on the decision table, and compares after every step.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use idem_core::answer::{Claimed, Stats};
use idem_core::request::{
    Claim, Complete, Erase, Held, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
    Verdict as Decision,
};
use idem_core::transition::{Context, Sweep, SweepStep, Transition, Write};
use idem_core::{
    AttemptId, Error, Fingerprint, OperationId, Outcome, Record, Result as StoreResult, Retention, Store,
    Timestamp, Ttl, View,
};

use super::blur::Blur;
use super::script::{HOLDER, Keep, Reach, Script, Step};
use crate::env::{Env, id_of, label, lease_ms};
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict};
use crate::site::Site;

/// A store on a site of its own, and what the decision table says is in it.
pub(super) struct World<'e> {
    env: &'e Env,
    reach: Reach,
    site: Site,
    store: Arc<dyn Store>,
    records: BTreeMap<OperationId, Record>,
    /// The attempt that a worker claimed an operation with last.
    attempts: BTreeMap<(OperationId, u8), AttemptId>,
    scripts: u32,
}

/// A mismatch, or an error of the suite.
fn parted(what: impl fmt::Display) -> Failure {
    Failure::new(what.to_string())
}

impl<'e> World<'e> {
    pub(super) async fn new(env: &'e Env, reach: Reach) -> Verdict<Self> {
        let site = env.other_site()?;
        let store = env.open_at(&site).await?;
        Ok(Self { env, reach, site, store, records: BTreeMap::new(), attempts: BTreeMap::new(), scripts: 0 })
    }

    /// Plays `script` under keys of its own; what earlier scripts left stays in the store and in the model.
    pub(super) async fn play(&mut self, script: &Script) -> Verdict {
        self.scripts += 1;
        for (index, step) in script.0.iter().enumerate() {
            let played = self.step(step).await;
            played.map_err(|failure| parted(format_args!("step {} ({step}): {failure}", index + 1)))?;
        }
        Ok(())
    }

    fn id(&self, key: u8) -> OperationId {
        id_of(&format!("script-{}", self.scripts), "model/v1", &format!("k{key}"))
    }

    fn held(&self, key: u8, worker: u8) -> Held {
        let id = self.id(key);
        let unknown = AttemptId::from_bytes([worker; 16]);
        let attempt = self.last_attempt(&id, worker).unwrap_or(unknown);
        Held::new(id, attempt)
    }

    /// The attempt that a worker's writes and repeated claims carry.
    fn last_attempt(&self, id: &OperationId, worker: u8) -> Option<AttemptId> {
        if worker == HOLDER {
            return self.records.get(id)?.current.as_ref().map(|current| current.id);
        }
        self.attempts.get(&(id.clone(), worker)).copied()
    }

    fn context(&self) -> Context {
        let capabilities = self.store.capabilities();
        Context::at(self.env.now())
            .guard_ms(capabilities.guard_ms)
            .step_ms(capabilities.step_ms)
            .limits(capabilities.limits)
    }

    async fn step(&mut self, step: &Step) -> Verdict {
        let store = self.store.clone();
        match step {
            Step::Register { key, intent, payload } => {
                let mut request = Register::new(self.id(*key), fingerprint(*intent));
                request.payload = payload.map(|payload| vec![payload; usize::from(payload)].into());
                let answer = store.register(&request).await;
                self.compare(&request, answer).await
            }
            Step::Claim { .. } => self.claim(step).await,
            Step::Renew { key, worker, lease_ms: lease } => {
                let request = Renew::new(self.held(*key, *worker), lease_ms(*lease));
                let answer = store.renew(&request).await;
                self.compare(&request, answer).await
            }
            Step::Checkpoint { key, worker, name, value, lease_ms: lease } => {
                let (name, value) = (label(&format!("fact-{name}")), vec![*value; usize::from(*value)]);
                let request = SaveCheckpoint::new(self.held(*key, *worker), name, value, lease_ms(*lease));
                let answer = store.checkpoint(&request).await;
                self.compare(&request, answer).await
            }
            Step::Complete { key, worker, outcome, keep } => {
                let request =
                    Complete::new(self.held(*key, *worker), outcome_of(*outcome), retention(*keep)?);
                let answer = store.complete(&request).await;
                self.compare(&request, answer).await
            }
            Step::Release { key, worker, forget, absence } => {
                let mut request = Release::new(self.held(*key, *worker));
                request.forget = *forget;
                request.absence = *absence;
                let answer = store.release(&request).await;
                self.compare(&request, answer).await
            }
            Step::Park { key, worker } => {
                let request = Park::new(self.held(*key, *worker)).note("a note");
                let answer = store.park(&request).await;
                self.compare(&request, answer).await
            }
            Step::Resolve { .. } => self.resolve(step).await,
            Step::Erase { key, reference } => {
                let mut request = Erase::new(self.id(*key));
                request.reference = *reference;
                let answer = store.erase(&request).await;
                self.compare(&request, answer).await
            }
            Step::Sweep => self.sweep().await,
            Step::List { view } => self.list(*view).await,
            Step::Stats => self.stats().await,
            Step::Advance { ms } => {
                self.env.clock()?.advance_ms(*ms);
                self.compare_all().await
            }
            Step::Reopen => {
                self.store = self.env.open_at(&self.site).await?;
                drop(store);
                self.compare_all().await
            }
        }
    }

    async fn claim(&mut self, step: &Step) -> Verdict {
        let Step::Claim { key, worker, again, intent, want, lease_ms: lease, effect, max } = step else {
            return Err(parted("a defect of the suite: not a claim"));
        };
        let id = self.id(*key);
        let attempt = match self.last_attempt(&id, *worker) {
            Some(attempt) if *again => attempt,
            _ => AttemptId::random(),
        };
        self.attempts.insert((id.clone(), *worker), attempt);
        let mut request = Claim::new(id, fingerprint(*intent), label(&format!("w{worker}")));
        request.attempt = attempt;
        request.intent = *want;
        request.lease = lease_ms(*lease);
        request.effect = *effect;
        request.attempts_max = *max;
        let answer = self.store.claim(&request).await;
        self.compare(&request, answer).await
    }

    async fn resolve(&mut self, step: &Step) -> Verdict {
        let Step::Resolve { key, happened, settle_ms, stale } = step else {
            return Err(parted("a defect of the suite: not a verdict"));
        };
        let verdict = match happened {
            Some(outcome) => {
                Decision::Completed { outcome: outcome_of(*outcome), retention: Retention::forever() }
            }
            None => Decision::DidNotHappen { settle_ms: *settle_ms },
        };
        let nothing = Record::new(self.id(*key), Timestamp::EPOCH);
        let seen = self.records.get(&nothing.id).unwrap_or(&nothing);
        let mut request = Resolve::new(seen, verdict, label("operator"), label("looked"));
        if *stale {
            request.version = request.version.wrapping_add(1);
        }
        let answer = self.store.resolve(&request).await;
        self.compare(&request, answer).await
    }

    /// Compares an answer of the store with the table's, and then what is stored.
    async fn compare<T>(&mut self, request: &T, answer: StoreResult<T::Answer>) -> Verdict
    where
        T: Transition,
        T::Answer: Adopt + Blur + Clone + PartialEq + fmt::Debug,
    {
        let id = request.id().clone();
        let context = self.context();
        let before = self.records.get(&id);
        let expected = request.apply(before, &context);
        let (step, actual) = match (expected, answer) {
            (Ok(step), Ok(actual)) => (step, actual),
            (Err(expected), Err(actual)) if expected.kind() == actual.kind() => {
                return self.compare_stored(&id).await;
            }
            (expected, actual) => {
                let expected = expected.map(|step| step.answer);
                return Err(parted(format_args!("the table says {expected:?}, the store {actual:?}")));
            }
        };
        let mut expected = step.answer;
        let mut write = step.write;
        if let Write::Put(record) = &mut write {
            let floor = before.map_or(0, |before| before.fence().get());
            expected.adopt(&actual, floor, record)?;
        }
        let (mut shown, mut wanted) = (actual.clone(), expected.clone());
        if self.reach != Reach::Timed {
            shown.blur();
            wanted.blur();
        }
        if shown != wanted {
            return Err(parted(format_args!("the table says {expected:?}, the store {actual:?}")));
        }
        self.env.saw(Fact::Checks, 1);
        self.write(&id, write).await?;
        self.compare_stored(&id).await
    }

    /// Writes to the model, with the version that the store gave the record: it may skip numbers, not repeat them.
    async fn write(&mut self, id: &OperationId, write: Write) -> Verdict {
        match write {
            Write::Put(mut record) => {
                let before = self.records.get(id).map_or(0, |before| before.version);
                if let Some(stored) = self.store.get(id).await? {
                    if stored.version <= before {
                        return Err(parted(format_args!(
                            "a write left version {} after {before}",
                            stored.version
                        )));
                    }
                    record.version = stored.version;
                }
                self.records.insert(id.clone(), *record);
            }
            Write::Remove => {
                self.records.remove(id);
            }
            _ => {}
        }
        Ok(())
    }

    /// Compares what is read under `id`.
    async fn compare_stored(&self, id: &OperationId) -> Verdict {
        let now = self.env.now();
        let mut expected = self.records.get(id).cloned().and_then(|record| record.as_read(now));
        let mut actual = self.store.get(id).await?;
        if self.reach != Reach::Timed {
            if let Some(record) = &mut expected {
                record.blur();
            }
            if let Some(record) = &mut actual {
                record.blur();
            }
        }
        if expected != actual {
            return Err(parted(format_args!("the table leaves {expected:?}, the store {actual:?}")));
        }
        self.env.saw(Fact::Checks, 1);
        Ok(())
    }

    /// Compares the records of the script that runs.
    async fn compare_all(&self) -> Verdict {
        for key in 0..2 {
            self.compare_stored(&self.id(key)).await?;
        }
        Ok(())
    }

    /// Sweeps until there is no more to do; the sums must be the table's.
    async fn sweep(&mut self) -> Verdict {
        const SWEEPS_MAX: u32 = 1_000;
        let mut actual = (0, 0);
        let mut ended = false;
        for _ in 0..SWEEPS_MAX {
            let swept = self.store.sweep(100).await?;
            actual = (actual.0 + swept.erased, actual.1 + swept.purged);
            ended = !swept.more;
            if ended {
                break;
            }
        }
        if !ended {
            return Err(parted(format_args!("{SWEEPS_MAX} sweeps and still more to do")));
        }
        let context = self.context();
        let mut expected = (0, 0);
        for id in self.records.keys().cloned().collect::<Vec<_>>() {
            let step = Sweep::new(id.clone()).apply(self.records.get(&id), &context)?;
            match step.answer {
                SweepStep::Erased => expected.0 += 1,
                SweepStep::Purged => expected.1 += 1,
                _ => continue,
            }
            self.write(&id, step.write).await?;
            self.compare_stored(&id).await?;
        }
        if expected != actual {
            return Err(parted(format_args!(
                "the table erases and purges {expected:?}, the store {actual:?}"
            )));
        }
        self.compare_all().await
    }

    async fn list(&self, view: Option<View>) -> Verdict {
        let context = self.context();
        let mut query = Query::all();
        query.limit = 50;
        query.views = view.into_iter().collect();
        let mut actual = Vec::new();
        for _ in 0..=self.records.len() {
            let page = self.store.list(&query).await?;
            actual.extend(page.records);
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
        actual.sort_by(|one, other| one.id.cmp(&other.id));
        let admitted = |record: &&Record| query.admits(&record.id, context.view(Some(record)));
        let listed = self.records.values().filter(admitted).cloned().map(Record::without_content);
        let mut expected: Vec<_> = listed.collect();
        if self.reach != Reach::Timed {
            expected.iter_mut().for_each(Blur::blur);
            actual.iter_mut().for_each(Blur::blur);
        }
        if expected != actual {
            return Err(parted(format_args!("the table lists {expected:?}, the store {actual:?}")));
        }
        Ok(())
    }

    async fn stats(&self) -> Verdict {
        let context = self.context();
        let mut expected = Stats::at(context.now);
        for record in self.records.values() {
            expected.count(record, context.guard_ms);
        }
        let mut actual = self.store.stats().await?;
        if self.reach != Reach::Timed {
            for stats in [&mut expected, &mut actual] {
                stats.now = Timestamp::EPOCH;
                stats.oldest_processing = stats.oldest_processing.map(|_| Timestamp::EPOCH);
                stats.oldest_uncertain = stats.oldest_uncertain.map(|_| Timestamp::EPOCH);
            }
        }
        if expected != actual {
            return Err(parted(format_args!("the table counts {expected:?}, the store {actual:?}")));
        }
        Ok(())
    }
}

/// What an answer tells of choices that the contract leaves to the store.
pub(super) trait Adopt: Sized {
    /// Takes the store's choices over into the table's answer and record, if they are allowed.
    fn adopt(&mut self, _actual: &Self, _floor: u64, _record: &mut Record) -> Verdict {
        Ok(())
    }
}

impl Adopt for Claimed {
    /// A fence is at least what the table says; it may be more (G-14).
    fn adopt(&mut self, actual: &Self, floor: u64, record: &mut Record) -> Verdict {
        let (Self::Granted(expected), Self::Granted(actual)) = (self, actual) else { return Ok(()) };
        let Some(current) = &mut record.current else { return Ok(()) };
        if actual.fence.get() <= floor {
            return Err(parted(format_args!("a grant with fence {} follows fence {floor}", actual.fence)));
        }
        // On the system's clock the model looks a moment later than the store.
        let least =
            expected.fence.get().min(expected.lease_until.as_millis().saturating_sub(3_600_000 + 60_000));
        if actual.fence.get() < least {
            return Err(parted(format_args!("the fence {} is below the milliseconds", actual.fence)));
        }
        expected.fence = actual.fence;
        current.fence = actual.fence;
        Ok(())
    }
}

macro_rules! nothing_to_adopt {
    ($($answer:ty),+) => { $(impl Adopt for $answer {})+ };
}

nothing_to_adopt!(
    idem_core::answer::Registered,
    idem_core::answer::Renewed,
    idem_core::answer::Checkpointed,
    idem_core::answer::Completed,
    idem_core::answer::Released,
    idem_core::answer::Parked,
    idem_core::answer::Resolved,
    idem_core::answer::Erased
);

fn fingerprint(intent: u8) -> Fingerprint {
    Fingerprint::bytes(&[intent])
}

fn outcome_of(number: u8) -> Outcome {
    match number {
        0 => Outcome::success(),
        1 => Outcome::success().body("").header("a", "1").header("a", "2"),
        2 => Outcome::failure("declined").body(&b"\0\xff"[..]).reference("r-2"),
        _ => Outcome::success().body("three").reference("r-3"),
    }
}

fn retention(keep: Keep) -> Result<Retention, Error> {
    match keep {
        Keep::Forever => Ok(Retention::forever()),
        Keep::NoResponse => Retention::forever().response(Ttl::Millis(0)),
        Keep::Response(response_ms) => Retention::forever().response(Ttl::Millis(response_ms)),
        Keep::Identity { identity_ms, response_ms } => {
            Retention::forgetting_identity(Ttl::Millis(identity_ms), Ttl::Millis(response_ms), None)
        }
    }
}
