//! T: effects in the ledger's own transaction (G-70 to G-72).

use std::fmt;

use async_trait::async_trait;
use idem_core::answer::Completed;
use idem_core::local::{EffectFailure, LocalRun, NotCompleted};
use idem_core::request::Complete;
use idem_core::{Claim, Claimed, Error, Outcome, Result, Retention};

use super::outbox::Message;

/// A place for effects beside the records of one site: a table of texts that the harness makes, in the same database.
#[async_trait]
pub trait Effects: Send + Sync + fmt::Debug {
    /// Begins a transaction of the caller's, as an application would: on a connection of its own.
    async fn begin(&self) -> Result<Box<dyn EffectTransaction>>;

    /// Runs `effect` by the method of the store that owns the commit: writes its [text](Effect::text) in the closure, and
    /// returns what [`Effect::end`] gives.
    async fn run(&self, claim: &Claim, retention: Retention, effect: Effect) -> Result<LocalRun>;

    /// The texts of all effects that are committed, in any order.
    async fn committed(&self) -> Result<Vec<String>>;
}

/// A transaction that is open. Dropped, it is rolled back.
///
/// Errors are those of the store; a failure of the harness's own statements is told as what the store would make of it.
#[async_trait]
pub trait EffectTransaction: Send + fmt::Debug {
    /// The store's `claim_in`.
    async fn claim(&mut self, claim: &Claim) -> Result<Claimed>;

    /// Writes an effect in the transaction.
    async fn effect(&mut self, text: &str) -> Result<()>;

    /// The store's `complete_in`.
    async fn complete(&mut self, complete: &Complete) -> Result<Completed, NotCompleted>;

    /// Puts a message into the outbox: needed for [`Outbox`](crate::Capability::Outbox) alone.
    async fn send(&mut self, _message: &Message) -> Result<()> {
        Err(Error::unsupported("this store has no outbox"))
    }

    /// Commits it.
    async fn commit(self: Box<Self>) -> Result<()>;

    /// Rolls it back.
    async fn roll_back(self: Box<Self>) -> Result<()>;
}

/// What a closure in the ledger's transaction is to do.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Effect {
    /// What it writes.
    pub text: String,
    end: End,
}

/// How a closure ends.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum End {
    /// Well, with this outcome.
    Done(Outcome),
    /// With a failure for good.
    Permanent(Outcome),
    /// With an error that is not for good.
    NoEffect,
    /// With a panic.
    Panic,
}

impl Effect {
    pub(crate) fn new(text: impl Into<String>, end: End) -> Self {
        Self { text: text.into(), end }
    }

    /// The end of the closure: return this from it.
    ///
    /// # Errors
    ///
    /// The failure that the scenario asks for.
    ///
    /// # Panics
    ///
    /// Where the scenario asks for that.
    pub fn end(self) -> Result<Outcome, EffectFailure> {
        match self.end {
            End::Done(outcome) => Ok(outcome),
            End::Permanent(outcome) => Err(EffectFailure::permanent(outcome)),
            End::NoEffect => Err("the effect gave up".into()),
            #[allow(clippy::panic, reason = "the scenario is about closures that panic")]
            End::Panic => panic!("a panic that the scenario asked for"),
        }
    }
}
