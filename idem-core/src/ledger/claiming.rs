//! Claiming: one intent, repeated while the store is away, waiting while a duplicate runs (G-12, G-34, G-53).

use std::sync::Arc;
use std::time::Duration;

use super::hold::{Attempt, Hold};
use super::recovery::Recovery;
use super::repeat::Repeat;
use super::waiting::{Busy, Waiter};
use super::{Inner, Ledger};
use crate::answer::{Claimed, Expired, Grant, Replay};
use crate::attempt::AttemptId;
use crate::backoff::Backoff;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprints;
use crate::key::OperationId;
use crate::observe::{self, Event};
use crate::record::Mode;
use crate::request::{Claim, Held, Intent, Release};
use crate::time::Timestamp;

/// What a claim came to.
#[derive(Debug)]
#[must_use = "a grant that is dropped is given back"]
#[non_exhaustive]
pub enum Begin {
    /// Granted: run it.
    Execute(Granted),
    /// Granted for recovery: find out first (G-18).
    Recover(Recovery),
    /// Not granted.
    NotRun(NotRun),
}

/// Why a claim was not granted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum NotRun {
    /// It was done: here is the outcome.
    Replay(Box<Replay>),
    /// Another attempt is running it, also after the wait.
    InProgress {
        /// When it is worth asking again.
        retry_after_ms: u64,
        /// The holder's attempt number.
        attempt_number: u32,
    },
    /// The key is in use for another intent.
    Conflict,
    /// It was done, and its content is gone.
    Expired(Box<Expired>),
    /// Nobody knows whether it was done.
    Uncertain {
        /// Since when.
        since: Timestamp,
    },
    /// There is nothing to recover.
    Nothing,
}

impl NotRun {
    /// What an answer other than a grant says; `None` for a grant, and for an attempt id that is used up.
    pub(super) fn of(answer: Claimed) -> Option<Self> {
        Some(match answer {
            Claimed::Granted(_) | Claimed::Ended => return None,
            Claimed::Replay(replay) => Self::Replay(replay),
            Claimed::InProgress { retry_after_ms, attempt_number, .. } => {
                Self::InProgress { retry_after_ms, attempt_number }
            }
            Claimed::Conflict => Self::Conflict,
            Claimed::Expired(expired) => Self::Expired(expired),
            Claimed::Uncertain { since } => Self::Uncertain { since },
            Claimed::Nothing => Self::Nothing,
        })
    }
}

/// A grant in mode `Execute` whose effect has not begun. Dropped before [`start`](Self::start) it is given back in the
/// background, best effort: nothing can have happened (G-53).
#[derive(Debug)]
pub struct Granted {
    attempt: Attempt,
    unstarted: GiveBack,
}

impl Granted {
    /// Begins: from here on the effect may have happened, and dropping the hold writes nothing.
    pub fn start(mut self) -> Hold {
        self.unstarted.disarm();
        Hold::new(self.attempt.clone())
    }

    /// The attempt that would start.
    #[must_use]
    pub const fn attempt(&self) -> &Attempt {
        &self.attempt
    }
}

/// Releases an attempt in the background when dropped armed.
#[derive(Debug)]
pub(super) struct GiveBack(Option<(Arc<Inner>, Held, Backoff)>);

impl GiveBack {
    fn arm(ledger: &Ledger, held: Held) -> Self {
        Self(Some((Arc::clone(&ledger.inner), held, ledger.policy.backoff)))
    }

    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        let Some((ledger, held, backoff)) = self.0.take() else { return };
        // Outside of a runtime nothing can be sent; the lease then lapses by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let tasks = ledger.tasks.clone();
            tasks.spawn_on(give_back(ledger, held, backoff), &runtime);
        }
    }
}

async fn give_back(ledger: Arc<Inner>, held: Held, backoff: Backoff) {
    let request = Release::new(held);
    let mut repeat = Repeat::new(&ledger, backoff, &request.held.id);
    while let Err(error) = ledger.store.release(&request).await {
        if let Err(error) = repeat.after(error, false).await {
            tracing::debug!(%error, "a claim that nobody waits for could not be given back; its lease lapses");
            return;
        }
    }
}

/// The monotonic instants before the first send of a claim and before the one that was answered (G-12).
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) first: Duration,
    pub(super) latest: Duration,
}

/// How many attempt ids a claim uses up before something else must be wrong.
const INTENTS_MAX: u32 = 8;

impl Ledger {
    /// Claims `id`: the first of the two levels, for callers that settle themselves.
    ///
    /// Waits up to the policy's `wait` for a running duplicate; one budget, also over a lapse. Takes over a lapsed lease
    /// for recovery only where `intent` says so.
    ///
    /// # Errors
    ///
    /// `Unavailable` when the store is away or the ledger is shutting down: nothing was run. `Indeterminate` when the
    /// store did not say: nothing was run here, and the claim may hold its lease until it lapses.
    pub async fn claim(
        &self,
        id: &OperationId,
        fingerprints: impl Into<Fingerprints>,
        intent: Intent,
    ) -> Result<Begin> {
        self.claim_until(id, fingerprints.into(), intent, self.give_up()).await
    }

    /// The end of the wait of a call that begins now.
    pub(super) fn give_up(&self) -> Duration {
        self.inner.clock.elapsed().saturating_add(self.policy.wait)
    }

    pub(super) async fn claim_until(
        &self,
        id: &OperationId,
        fingerprints: Fingerprints,
        intent: Intent,
        give_up: Duration,
    ) -> Result<Begin> {
        if self.inner.closing.is_cancelled() {
            return Err(Error::unavailable("the ledger is shutting down: nothing was run"));
        }
        let policy = &self.policy;
        let mut claim = Claim::new(id.clone(), fingerprints, policy.owner.clone())
            .intent(intent)
            .lease(policy.lease)
            .effect(policy.effect);
        claim.attempts_max = policy.attempts_max;
        let mut waiter = Waiter::new(&self.inner, id, give_up);
        let mut intents = 0;
        while intents < INTENTS_MAX {
            // A wait is not part of any grant: one that comes now counts from its own first send (G-12).
            let not_run = match self.send(&claim).await? {
                (Claimed::Granted(grant), sent) => match self.begin(*grant, sent).await? {
                    Some(begin) => return Ok(begin),
                    None => None,
                },
                (Claimed::InProgress { retry_after_ms, attempt_number, version }, _) => {
                    if waiter.wait(Busy { retry_after_ms, version }).await {
                        continue;
                    }
                    let not_run = NotRun::InProgress { retry_after_ms, attempt_number };
                    return Ok(self.not_run(id, not_run));
                }
                (answer, _) => NotRun::of(answer),
            };
            if let Some(not_run) = not_run {
                waiter.is_over();
                return Ok(self.not_run(id, not_run));
            }
            // This attempt id is used up; the next one is another intent (G-12).
            intents += 1;
            claim.attempt = AttemptId::random();
        }
        Err(Error::internal("the store ends every new attempt at once (G-12)"))
    }

    /// The answer to a claim that was not granted, counted and told.
    fn not_run(&self, id: &OperationId, not_run: NotRun) -> Begin {
        let (event, result) = match &not_run {
            NotRun::Replay(_) => (Some(Event::Replay), "replayed"),
            NotRun::InProgress { .. } => (Some(Event::InProgress), "in progress"),
            NotRun::Conflict => (Some(Event::Conflict), "conflict"),
            NotRun::Expired(_) => (Some(Event::Expired), "expired"),
            NotRun::Uncertain { .. } => (Some(Event::Uncertain), "uncertain"),
            NotRun::Nothing => (None, "nothing"),
        };
        if let Some(event) = event {
            self.inner.observed.count(id, event);
        }
        observe::answered(id, &self.policy.log_key, result);
        Begin::NotRun(not_run)
    }

    /// What the grant comes to; `None` when its attempt is over already.
    async fn begin(&self, grant: Grant, sent: Sent) -> Result<Option<Begin>> {
        let held = grant.held();
        let mode = grant.mode;
        let attempt = Attempt::new(Arc::clone(&self.inner), Arc::clone(&self.policy), grant, sent);
        let begin = match mode {
            Mode::Execute => {
                Begin::Execute(Granted { attempt: attempt.clone(), unstarted: GiveBack::arm(self, held) })
            }
            Mode::Recover => {
                self.inner.observed.count(&held.id, Event::Recovery);
                Begin::Recover(Recovery::new(Hold::new(attempt.clone())))
            }
        };
        // An effect that begins after its lease breaks what a recoverer may assume about a stopped holder (G-19).
        let live = attempt.is_live() || attempt.revive().await?;
        Ok(live.then_some(begin))
    }

    /// Sends the claim, again with the same attempt id while the store is away (G-52). Dropped before its answer, the
    /// claim is given back in the background (G-53).
    async fn send(&self, claim: &Claim) -> Result<(Claimed, Sent)> {
        let mut undelivered = GiveBack::arm(self, claim.held());
        let mut repeat = Repeat::new(&self.inner, self.policy.backoff, &claim.id);
        let first = self.inner.clock.elapsed();
        let mut latest = first;
        loop {
            let error = match self.inner.store.claim(claim).await {
                Ok(answer) => {
                    undelivered.disarm();
                    return Ok((answer, Sent { first, latest }));
                }
                Err(error) => error,
            };
            if let Err(error) = repeat.after(error, false).await {
                if !repeat.is_in_doubt() {
                    undelivered.disarm();
                }
                return Err(error);
            }
            latest = self.inner.clock.elapsed();
        }
    }
}
