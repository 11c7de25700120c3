//! Recovery: find out before acting (G-18, G-19). There is no way from here to the effect that does not name a reason.

use std::time::Duration;

use super::answer::Failure;
use super::hold::{Attempt, Hold};
use crate::answer::{Completed, Parked, Released};
use crate::error::{Error, Result};
use crate::outcome::Outcome;
use crate::record::{AbsenceReason, EffectClass};

/// A grant in mode `Recover`: an earlier attempt may have run the effect.
///
/// It ends in [`complete`](Self::complete) with the outcome that was found, [`resume`](Self::resume) with the same
/// downstream key, [`absent`](Self::absent) with a reason, or [`park`](Self::park). Dropped, its lease lapses and the
/// next one recovers.
#[derive(Debug)]
#[must_use = "a recovery ends in a decision; dropped, its lease lapses"]
pub struct Recovery {
    hold: Hold,
}

impl Recovery {
    pub(super) const fn new(hold: Hold) -> Self {
        Self { hold }
    }

    /// The evidence: earlier attempts, checkpoints, payload, downstream key.
    #[must_use]
    pub const fn attempt(&self) -> &Attempt {
        self.hold.attempt()
    }

    /// Runs `work` (asking the downstream system, say) and renews the lease meanwhile.
    pub async fn keep<F: Future>(&self, work: F) -> F::Output {
        self.hold.keep(work).await
    }

    /// It had happened, with this outcome.
    ///
    /// # Errors
    ///
    /// Those of the store, as for [`Hold::complete`].
    pub async fn complete(self, outcome: Outcome) -> Result<Completed> {
        self.hold.store_outcome(outcome).await
    }

    /// Nobody can tell: an operator decides.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn park(self, note: &str) -> Result<Parked> {
        self.hold.park(note).await
    }

    /// It did not happen and cannot any more, for this reason: gives the operation back, so that it can be claimed and
    /// run again.
    ///
    /// # Errors
    ///
    /// Those of the store. `TooEarly` is an answer: keep the recovery and ask again then.
    pub async fn absent(&self, reason: AbsenceReason) -> Result<Released> {
        self.hold.release_because(reason).await
    }

    /// Goes on with the effect, with the same downstream key: only where this attempt and all that it follows are of class
    /// `Keyed`, and only while the downstream system certainly remembers the key (G-19): one lease before that ends, at the latest, the hold is
    /// [lost](Attempt::lost) and is not renewed any more, so that the last request is over when the key is forgotten.
    ///
    /// # Errors
    ///
    /// The recovery back, with the reason why it may not: park it, or find out.
    pub fn resume(self) -> std::result::Result<Hold, (Self, Error)> {
        let grant = self.hold.attempt().grant();
        let EffectClass::Keyed { remembers_for_ms } = grant.effect else {
            let declared = self.hold.attempt().policy().effect;
            return Err((self, Error::unsupported(why_not_keyed(declared))));
        };
        let attempt = self.hold.attempt();
        let remembered_until = grant.first_grant_at.plus_millis(remembers_for_ms);
        let lease_ms = attempt.policy().lease.as_millis();
        let rest_ms = remembered_until.millis_since(attempt.store_now().plus_millis(lease_ms));
        if rest_ms == 0 {
            let error = Error::unsupported("the downstream system may have forgotten the key already (G-19)");
            return Err((self, error));
        }
        attempt.stop_after(Duration::from_millis(rest_ms));
        Ok(self.hold)
    }
}

const fn why_not_keyed(declared: EffectClass) -> &'static str {
    match declared {
        EffectClass::Keyed { .. } => {
            "an attempt before this one did not send the downstream key: only what is Keyed throughout is resumed (G-19)"
        }
        EffectClass::Opaque | EffectClass::Local => "only an effect of class Keyed may be resumed (G-19)",
    }
}

/// What a reconciler found out.
#[derive(Debug)]
#[non_exhaustive]
pub enum Verdict<T> {
    /// It had happened, with this result.
    Happened(T),
    /// It had failed for good.
    Failed(Failure),
    /// Run it again with the same downstream key; only where all attempts were of class `Keyed` (G-19).
    Resume,
    /// It did not happen and cannot any more, for this reason: run it.
    Absent(AbsenceReason),
    /// It cannot be told now, but may be later (the other system is away): nothing is written, the lease lapses, and
    /// the next caller's reconciler tries again. Bound that by the policy's `attempts_max`, after which it is parked.
    Later,
    /// Nobody can tell; the note is for the operator.
    Unknown(String),
}
