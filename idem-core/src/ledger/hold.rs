//! A held attempt: its lease is kept alive while it works, and it ends in exactly one settling write (G-15, G-16).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::Inner;
use super::asking::Sent;
use super::limit::write;
use super::policy::Policy;
use super::repeat::Repeat;
use crate::answer::{Checkpointed, Completed, Grant, Parked, Released, Renewed};
use crate::attempt::{Fence, Label};
use crate::error::{Error, Result};
use crate::key::{DownstreamKey, OperationId};
use crate::observe::{self, Event};
use crate::outcome::Outcome;
use crate::record::{AbsenceReason, Attempt as PastAttempt, Checkpoint, Mode, View};
use crate::request::{Complete, Park, Release, Renew, SaveCheckpoint};
use crate::time::{Timestamp, whole_millis};

/// What a handler knows about the attempt that it is. Clones are the same attempt.
#[derive(Clone, Debug)]
pub struct Attempt(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    ledger: Arc<Inner>,
    policy: Arc<Policy>,
    grant: Grant,
    /// Monotonic microseconds until which the holder is alone.
    deadline_us: AtomicU64,
    /// Monotonic microseconds after which it stops all the same, whatever is left of its lease.
    stop_us: AtomicU64,
    /// Monotonic instant before the send of the claim that was answered.
    sent: Duration,
    /// Monotonic time after which the heartbeat lets go.
    ceiling: Duration,
    /// Whether the store said that this attempt is not the holder, or not alone, any more.
    lost: AtomicBool,
    lost_bell: Notify,
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Attempt {
    pub(super) fn new(ledger: Arc<Inner>, policy: Arc<Policy>, grant: Grant, sent: Sent) -> Self {
        let by_lease = sent.first + policy.lease.duration();
        let by_remaining = sent.latest + Duration::from_millis(grant.remaining_ms);
        let deadline_us = AtomicU64::new(micros(by_lease.min(by_remaining)));
        let ceiling = sent.first.saturating_add(policy.ceiling);
        Self(Arc::new(Shared {
            ledger,
            policy,
            grant,
            deadline_us,
            stop_us: AtomicU64::new(u64::MAX),
            sent: sent.latest,
            ceiling,
            lost: AtomicBool::new(false),
            lost_bell: Notify::new(),
        }))
    }

    /// The attempt's number, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.grant.number
    }

    /// The fencing token, for systems that can refuse an older one (G-14).
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.0.grant.fence
    }

    /// `Execute`, or `Recover` when an earlier attempt may have run the effect.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.0.grant.mode
    }

    /// The idempotency key for the systems that the handler calls: the same on every attempt (G-20).
    #[must_use]
    pub fn downstream_key(&self) -> DownstreamKey {
        self.0.grant.id.downstream_key()
    }

    /// What was registered with the operation (G-24).
    #[must_use]
    pub fn payload(&self) -> Option<&Bytes> {
        self.0.grant.payload.as_ref()
    }

    /// What earlier attempts recorded, oldest first.
    #[must_use]
    pub fn checkpoints(&self) -> &[Checkpoint] {
        &self.0.grant.checkpoints
    }

    /// The attempts before this one, oldest first.
    #[must_use]
    pub fn earlier(&self) -> &[PastAttempt] {
        &self.0.grant.earlier
    }

    /// The grant as the store gave it.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.0.grant
    }

    /// How much longer the holder may assume to be alone; zero when it may not any more.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.0.lost.load(Ordering::Acquire) {
            return Duration::ZERO;
        }
        self.deadline().saturating_sub(self.0.ledger.clock.elapsed())
    }

    /// Whether the holder may assume to be alone. Ask before every foreign step; a `false` means stop if you can.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Resolves when the holder may not assume to be alone any more.
    pub async fn lost(&self) {
        loop {
            let bell = self.0.lost_bell.notified();
            let mut bell = pin!(bell);
            bell.as_mut().enable();
            if !self.is_live() {
                return;
            }
            tokio::select! {
                biased;
                () = bell => {}
                () = self.0.ledger.clock.sleep_until(self.deadline()) => {}
            }
        }
    }

    /// Records a fact before the next foreign step, and renews the lease (G-21). Committed when this returns.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a bad name; those of the store. Repeating the same fact is answered `Duplicate`.
    pub async fn checkpoint(&self, name: &str, value: impl Into<Bytes>) -> Result<Checkpointed> {
        let request = SaveCheckpoint::new(self.0.grant.held(), Label::new(name)?, value, self.0.policy.lease);
        let mut repeat = Repeat::new(&self.0.ledger, self.0.policy.backoff, &self.0.grant.id);
        loop {
            let sent = self.0.ledger.clock.elapsed();
            let answer = match self.write(self.0.ledger.store.checkpoint(&request)).await {
                Ok(answer) => answer,
                Err(error) => {
                    repeat.after(error, false).await?;
                    continue;
                }
            };
            match answer {
                Checkpointed::Recorded { remaining_ms } | Checkpointed::Duplicate { remaining_ms } => {
                    self.extend(sent, remaining_ms);
                }
                Checkpointed::Parked => self.lose(),
                Checkpointed::Fenced(view) => self.fenced(view),
                Checkpointed::Differs | Checkpointed::Full | Checkpointed::Settled => {}
            }
            return Ok(answer);
        }
    }

    /// The deciding clock now, at the latest: its time at the grant, and all that passed since the claim was sent.
    pub(super) fn store_now(&self) -> Timestamp {
        let grant = &self.0.grant;
        let granted_ms = grant.lease_until.as_millis().saturating_sub(grant.remaining_ms);
        let passed = self.0.ledger.clock.elapsed().saturating_sub(self.0.sent);
        Timestamp::from_millis(granted_ms).plus_millis(whole_millis(passed))
    }

    /// The policy that the attempt was claimed under.
    pub(super) fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// The ledger that it belongs to.
    pub(super) fn ledger(&self) -> &Inner {
        &self.0.ledger
    }

    /// A write, waited for as long as the policy says.
    async fn write<A>(&self, call: impl Future<Output = Result<A>>) -> Result<A> {
        write(&*self.0.ledger.clock, self.0.policy.store_timeout, call).await
    }

    /// How long the heartbeat would still keep it alive.
    pub(super) fn until_ceiling(&self) -> Duration {
        self.0.ceiling.min(self.stop()).saturating_sub(self.0.ledger.clock.elapsed())
    }

    /// Lets the holder, and its heartbeat, go on for `rest` from now and no longer: renewals do not prolong that.
    pub(super) fn stop_after(&self, rest: Duration) {
        let stop = self.0.ledger.clock.elapsed().saturating_add(rest);
        self.0.stop_us.fetch_min(micros(stop), Ordering::AcqRel);
        // Whoever waits for the end has to reckon anew.
        self.0.lost_bell.notify_waiters();
    }

    fn stop(&self) -> Duration {
        Duration::from_micros(self.0.stop_us.load(Ordering::Acquire))
    }

    /// Until when the holder may act.
    fn deadline(&self) -> Duration {
        self.lease_deadline().min(self.stop())
    }

    /// Until when nobody else is granted the operation.
    fn lease_deadline(&self) -> Duration {
        Duration::from_micros(self.0.deadline_us.load(Ordering::Acquire))
    }

    /// The store said that `remaining_ms` of the lease were left. At most one lease counts: more can only come from a
    /// deciding clock that was set back, and would end when it is set right (G-12).
    fn extend(&self, sent: Duration, remaining_ms: u64) {
        let remaining = Duration::from_millis(remaining_ms).min(self.0.policy.lease.duration());
        self.0.deadline_us.fetch_max(micros(sent + remaining), Ordering::AcqRel);
    }

    fn fenced(&self, view: View) {
        self.0.ledger.observed.fenced(&self.0.grant.id, view);
        self.lose();
    }

    fn lose(&self) {
        self.0.lost.store(true, Ordering::Release);
        self.0.lost_bell.notify_waiters();
    }

    /// Renews once; gives whether the attempt is still the holder's.
    async fn renew(&self, request: &Renew) -> Result<bool> {
        let sent = self.0.ledger.clock.elapsed();
        let policy = &self.0.policy;
        let limit = policy.store_timeout.min(policy.lease.duration() / 3);
        let call = self.0.ledger.store.renew(request);
        match write(&*self.0.ledger.clock, limit, call).await? {
            Renewed::Renewed { remaining_ms } => {
                self.extend(sent, remaining_ms);
                Ok(true)
            }
            Renewed::Settled => Ok(false),
            Renewed::Parked => {
                self.lose();
                Ok(false)
            }
            Renewed::Fenced(view) => {
                self.fenced(view);
                Ok(false)
            }
        }
    }

    /// Renews an attempt whose grant came too late to be used; gives whether it is the holder's and alive.
    ///
    /// # Errors
    ///
    /// `Unavailable` when no answer comes within a lease; those of the store.
    pub(super) async fn revive(&self) -> Result<bool> {
        let request = Renew::new(self.0.grant.held(), self.0.policy.lease);
        let mut repeat = Repeat::new(&self.0.ledger, self.0.policy.backoff, &self.0.grant.id);
        loop {
            let error = match self.renew(&request).await {
                Ok(true) if !self.is_live() => Error::unavailable(
                    "the store answers later than the lease lasts: nothing was run; take a longer lease",
                ),
                Ok(held) => return Ok(held),
                Err(error) => error,
            };
            repeat.after(error, false).await?;
        }
    }

    /// Renews after a third of the lease, until the ceiling, or until the store says that the attempt is over.
    async fn heartbeat(&self) {
        let lease = self.0.policy.lease.duration();
        let request = Renew::new(self.0.grant.held(), self.0.policy.lease);
        // A grant that was repeated comes with less than a whole lease.
        let mut pause = self.remaining().min(lease) / 3;
        loop {
            self.0.ledger.sleep(pause).await;
            if self.until_ceiling().is_zero() {
                tracing::warn!(
                    attempt = self.number(),
                    "the heartbeat reached its ceiling and lets the lease lapse"
                );
                return;
            }
            match self.renew(&request).await {
                Ok(true) => pause = lease / 3,
                Ok(false) => return,
                Err(error) => {
                    self.0.ledger.observed.count(&self.0.grant.id, Event::StoreError);
                    tracing::warn!(%error, attempt = self.number(), "a lease could not be renewed");
                    // Sooner than usual, so that one lost message does not lose the lease.
                    pause = lease / 12;
                }
            }
        }
    }
}

/// A granted attempt that has started: the effect may have happened from here on.
///
/// Dropping it writes nothing (G-15): the lease lapses, and the next claim recovers or parks.
#[derive(Debug)]
#[must_use = "a hold ends in complete, release or park; dropped, its lease lapses"]
pub struct Hold {
    attempt: Attempt,
}

impl Hold {
    pub(super) const fn new(attempt: Attempt) -> Self {
        Self { attempt }
    }

    /// The attempt, for the handler.
    #[must_use]
    pub const fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// Runs `work` and renews the lease meanwhile, in the same task: dropping this drops both.
    #[doc(alias("heartbeat"))]
    pub async fn keep<F: Future>(&self, work: F) -> F::Output {
        let span = observe::span(&self.attempt, &self.attempt.policy().log_key);
        let mut work = pin!(work);
        // In place: `Instrument` would move the handler's future once more.
        let mut work = poll_fn(move |cx| {
            let _entered = span.enter();
            work.as_mut().poll(cx)
        });
        tokio::select! {
            biased;
            output = &mut work => output,
            // The heartbeat has let go; the work goes on all the same.
            () = self.attempt.heartbeat() => work.await,
        }
    }

    /// Stores the outcome. Repeated while the store is away, until the lease ends and the policy's repetitions are used
    /// up; never turned into a release (G-16).
    ///
    /// # Errors
    ///
    /// Those of the store, when it did not confirm in time: the outcome may be stored.
    pub async fn complete(self, outcome: Outcome) -> Result<Completed> {
        let completed = self.store_outcome(outcome).await?;
        if matches!(completed, Completed::Completed { .. } | Completed::AlreadyCompleted) {
            self.ended(Event::Execution);
        }
        Ok(completed)
    }

    /// Completes with an outcome that was executed here or found.
    pub(super) async fn store_outcome(&self, outcome: Outcome) -> Result<Completed> {
        let request = Complete::new(self.attempt.0.grant.held(), outcome, self.attempt.0.policy.retention);
        let completed = self.settle(|| self.attempt.0.ledger.store.complete(&request)).await?;
        self.tell(match completed {
            Completed::Completed { .. } | Completed::AlreadyCompleted => "completed",
            Completed::OutcomeConflict => "outcome conflict",
            Completed::Fenced(view) => self.fenced(view),
        });
        Ok(completed)
    }

    /// Gives the operation back: nothing happened. In mode `Recover` that is no reason: see
    /// [`release_because`](Self::release_because) (G-19).
    ///
    /// # Errors
    ///
    /// `InvalidInput` in mode `Recover`; those of the store.
    pub async fn release(self, forget: bool) -> Result<Released> {
        let request = Release::new(self.attempt.0.grant.held());
        self.send_release(if forget { request.forget() } else { request }).await
    }

    /// Makes the operation Uncertain.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn park(self, note: &str) -> Result<Parked> {
        let request = Park::new(self.attempt.0.grant.held()).note(note);
        let parked = self.settle(|| self.attempt.0.ledger.store.park(&request)).await?;
        self.tell(match parked {
            Parked::Parked { .. } | Parked::AlreadyParked => {
                self.ended(Event::Uncertain);
                "parked"
            }
            Parked::Fenced(view) => self.fenced(view),
            Parked::Settled => "completed before",
        });
        Ok(parked)
    }

    fn fenced(&self, view: View) -> &'static str {
        self.attempt.ledger().observed.fenced(self.id(), view);
        "fenced"
    }

    fn tell(&self, result: &'static str) {
        observe::settled(&self.attempt, &self.attempt.policy().log_key, result);
    }

    fn ended(&self, event: Event) {
        let ledger = self.attempt.ledger();
        let after = ledger.clock.elapsed().saturating_sub(self.attempt.0.sent);
        ledger.observed.ended(self.id(), event, after);
    }

    fn id(&self) -> &OperationId {
        &self.attempt.0.grant.id
    }

    /// Gives the operation back in mode `Recover`, too: whatever earlier attempts did, it may run again for `reason`
    /// (G-19). A resumed effect that ended without result is `Deduplicated`.
    ///
    /// # Errors
    ///
    /// Those of the store. `TooEarly` is an answer: keep the hold and ask again then.
    pub async fn release_because(&self, reason: AbsenceReason) -> Result<Released> {
        self.send_release(Release::new(self.attempt.0.grant.held()).absence(reason)).await
    }

    async fn send_release(&self, request: Release) -> Result<Released> {
        let released = self.settle(|| self.attempt.0.ledger.store.release(&request)).await?;
        self.tell(match released {
            Released::Released { .. } | Released::AlreadyReleased => {
                self.ended(Event::Release);
                "released"
            }
            Released::Fenced(view) => self.fenced(view),
            Released::TooEarly { .. } => "too early to release",
            Released::Settled => "completed before",
            Released::Parked => "parked before",
        });
        Ok(released)
    }

    /// Repeats a settling write. Its repetitions are idempotent (G-16), so an ambiguous error is simply asked again:
    /// as often as the policy says, and while the lease lasts.
    async fn settle<A, F: Future<Output = Result<A>>>(&self, mut send: impl FnMut() -> F) -> Result<A> {
        let ledger = self.attempt.ledger();
        let mut repeat = Repeat::new(ledger, self.attempt.policy().backoff, self.id());
        loop {
            match self.attempt.write(send()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    let alive = ledger.clock.elapsed() < self.attempt.lease_deadline();
                    repeat.after(error, alive).await?;
                }
            }
        }
    }
}
