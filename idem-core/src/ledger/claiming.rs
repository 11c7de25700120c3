//! Claiming: one intent, repeated while the store is away, waiting while a duplicate runs (G-12, G-34, G-53).

use std::sync::Arc;
use std::time::Duration;

use super::Ledger;
use super::asking::{Asking, GiveBack, Sent};
use super::hold::{Attempt, Hold};
use super::recovery::Recovery;
use super::waiting::{Busy, Waiter};
use crate::answer::{Claimed, Expired, Grant, Replay};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprints;
use crate::key::OperationId;
use crate::observe::{self, Event};
use crate::record::Mode;
use crate::request::{Claim, Intent};
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
    /// Spawned when this is dropped; taken out at the start.
    unstarted: Option<GiveBack>,
}

impl Granted {
    /// Begins: from here on the effect may have happened, and dropping the hold writes nothing.
    pub fn start(mut self) -> Hold {
        self.unstarted = None;
        Hold::new(self.attempt.clone())
    }

    /// The attempt that would start.
    #[must_use]
    pub const fn attempt(&self) -> &Attempt {
        &self.attempt
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if let Some(unstarted) = self.unstarted.take() {
            unstarted.spawn();
        }
    }
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
    #[doc(alias("lock", "acquire"))]
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
        let mut asking = Asking::new(self, claim);
        let mut waiter = Waiter::new(&self.inner, id, give_up);
        let mut intents = 0;
        while intents < INTENTS_MAX {
            // A wait is not part of any grant: one that comes now counts from its own first send (G-12).
            let not_run = match asking.send().await? {
                (Claimed::Granted(grant), sent) => match self.begin(*grant, sent, &mut asking).await? {
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
            asking.another();
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
    async fn begin(&self, grant: Grant, sent: Sent, asking: &mut Asking) -> Result<Option<Begin>> {
        let unstarted = asking.taken();
        let mode = grant.mode;
        let attempt = Attempt::new(Arc::clone(&self.inner), Arc::clone(&self.policy), grant, sent);
        let begin = match mode {
            Mode::Execute => Begin::Execute(Granted { attempt: attempt.clone(), unstarted: Some(unstarted) }),
            Mode::Recover => {
                self.inner.observed.count(&attempt.grant().id, Event::Recovery);
                Begin::Recover(Recovery::new(Hold::new(attempt.clone())))
            }
        };
        // An effect that begins after its lease breaks what a recoverer may assume about a stopped holder (G-19).
        let live = attempt.is_live() || attempt.revive().await?;
        Ok(live.then_some(begin))
    }
}
