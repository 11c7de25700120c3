//! Claiming: one intent, repeated while the store is away, waiting while a duplicate runs (G-12, G-34, G-53).

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::hold::{Attempt, Hold};
use super::policy::Policy;
use super::recovery::Recovery;
use super::{Inner, Ledger};
use crate::answer::{Claimed, Expired, Grant, Replay};
use crate::attempt::AttemptId;
use crate::backoff::jitter;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprints;
use crate::key::OperationId;
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
pub(super) struct GiveBack(Option<(Arc<Inner>, Held)>);

impl GiveBack {
    fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        let Some((ledger, held)) = self.0.take() else { return };
        // Outside of a runtime nothing can be sent; the lease then lapses by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let tasks = ledger.tasks.clone();
            tasks.spawn_on(
                async move {
                    if let Err(error) = ledger.store.release(&Release::new(held)).await {
                        tracing::debug!(%error, "a claim that nobody waits for could not be given back");
                    }
                },
                &runtime,
            );
        }
    }
}

/// The longest first pause between two looks at a running duplicate, and the longest pause at all. A store that wakes
/// its waiters makes most of them unnecessary.
const LOOK: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How many ended attempt ids a claim meets before something else must be wrong.
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
        if self.inner.tasks.is_closed() {
            return Err(Error::unavailable("the ledger is shutting down: nothing was run"));
        }
        let policy = &self.policy;
        let clock = &self.inner.clock;
        let mut claim = Claim::new(id.clone(), fingerprints, policy.owner.clone())
            .intent(intent)
            .lease(policy.lease)
            .effect(policy.effect);
        claim.attempts_max = policy.attempts_max;
        let give_up = clock.elapsed() + policy.wait;
        let mut first_sent = None;
        let (mut looks, mut intents) = (0, 0);
        loop {
            let sent = clock.elapsed();
            let first = *first_sent.get_or_insert(sent);
            let not_run = match self.send(&claim).await? {
                (Claimed::Granted(grant), sent) => return Ok(self.begin(*grant, first, sent)),
                (Claimed::InProgress { retry_after_ms, attempt_number, version }, _) => {
                    if clock.elapsed() >= give_up {
                        return Ok(Begin::NotRun(NotRun::InProgress { retry_after_ms, attempt_number }));
                    }
                    self.await_change(id, version, retry_after_ms, looks, give_up).await;
                    looks += 1;
                    // The wait is not part of any grant: a grant that comes now counts from its own send (G-12).
                    first_sent = None;
                    continue;
                }
                (Claimed::Ended, _) => {
                    intents += 1;
                    if intents == INTENTS_MAX {
                        return Err(Error::internal(
                            "the store says of every new attempt that it is ended (G-12)",
                        ));
                    }
                    claim.attempt = AttemptId::random();
                    first_sent = None;
                    continue;
                }
                (Claimed::Replay(replay), _) => NotRun::Replay(replay),
                (Claimed::Conflict, _) => NotRun::Conflict,
                (Claimed::Expired(expired), _) => NotRun::Expired(expired),
                (Claimed::Uncertain { since }, _) => NotRun::Uncertain { since },
                (Claimed::Nothing, _) => NotRun::Nothing,
            };
            return Ok(Begin::NotRun(not_run));
        }
    }

    fn begin(&self, grant: Grant, first_sent: Duration, sent: Duration) -> Begin {
        let held = grant.held();
        let mode = grant.mode;
        let policy: Arc<Policy> = Arc::clone(&self.policy);
        let attempt = Attempt::new(Arc::clone(&self.inner), policy, grant, first_sent, sent);
        match mode {
            Mode::Execute => Begin::Execute(Granted {
                attempt,
                unstarted: GiveBack(Some((Arc::clone(&self.inner), held))),
            }),
            Mode::Recover => Begin::Recover(Recovery::new(Hold::new(attempt))),
        }
    }

    /// Sends the claim, again with the same attempt id while the store is away (G-52); gives the instant before the
    /// send that was answered. Dropped before its answer, the claim is given back in the background (G-53).
    async fn send(&self, claim: &Claim) -> Result<(Claimed, Duration)> {
        let clock = &self.inner.clock;
        let mut turn = 0;
        let mut undelivered = GiveBack(Some((Arc::clone(&self.inner), claim.held())));
        loop {
            let sent = clock.elapsed();
            match self.inner.store.claim(claim).await {
                Ok(answer) => {
                    undelivered.disarm();
                    return Ok((answer, sent));
                }
                Err(error) => match self.policy.backoff.pause(turn).filter(|_| error.is_transient()) {
                    Some(pause) => clock.sleep_until(clock.elapsed() + pause).await,
                    None => {
                        if error.kind() != crate::error::ErrorKind::Indeterminate {
                            undelivered.disarm();
                        }
                        return Err(error);
                    }
                },
            }
            turn += 1;
        }
    }

    /// Until the record changes, the lease can have lapsed, it is time for another look, or the wait is over.
    async fn await_change(
        &self,
        id: &OperationId,
        version: u64,
        retry_after_ms: u64,
        looks: u32,
        give_up: Duration,
    ) {
        let clock = &self.inner.clock;
        let (first, longest) = LOOK;
        let ceiling = first.saturating_mul(1_u32.checked_shl(looks).unwrap_or(u32::MAX)).min(longest);
        // Half fixed and half random: waiters spread out, and none comes back at once.
        let pause = ceiling / 2 + jitter(ceiling / 2);
        let until = (clock.elapsed() + pause.min(Duration::from_millis(retry_after_ms))).min(give_up);
        let mut changed = pin!(self.inner.store.changed(id, version));
        let mut slept = clock.sleep_until(until);
        poll_fn(|cx| {
            if changed.as_mut().poll(cx).is_ready() || slept.as_mut().poll(cx).is_ready() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
