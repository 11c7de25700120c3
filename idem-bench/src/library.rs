//! What is measured: a `Store` and a `Ledger`, each as a user of that level calls it.

use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use idem_core::answer::{Claimed, Completed};
use idem_core::ledger::Answer;
use idem_core::request::Complete;
use idem_core::{Claim, Fingerprint, Label, Ledger, OperationId, Outcome, Retention, Store};

use crate::keys::BODY_BYTES;
use crate::latency::Laps;
use crate::mix::Subject;
use crate::timing::Watch;

/// The intent of every operation, hashed before the clock runs.
pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::bytes(b"order 418, 10 EUR")
}

/// A result whose JSON has [`BODY_BYTES`] bytes.
pub(crate) fn value() -> String {
    "x".repeat(BODY_BYTES - 2)
}

/// The methods of a store, called as an adapter of a framework would.
#[derive(Debug)]
pub(crate) struct StoreSubject {
    store: Arc<dyn Store>,
    owner: Label,
    fingerprint: Fingerprint,
    body: Vec<u8>,
}

impl StoreSubject {
    pub(crate) fn new(store: Arc<dyn Store>) -> anyhow::Result<Self> {
        let (owner, body) = (Label::new("idem-bench")?, vec![b'x'; BODY_BYTES]);
        Ok(Self { store, owner, fingerprint: fingerprint(), body })
    }

    fn claim(&self, id: &OperationId) -> Claim {
        Claim::new(id.clone(), self.fingerprint, self.owner.clone())
    }
}

impl Subject for StoreSubject {
    async fn cycle(&self, id: &OperationId, laps: &mut Laps) -> anyhow::Result<()> {
        let mut watch = Watch::start();
        let claimed = self.store.claim(&self.claim(id)).await?;
        laps.claims.push(watch.lap_ns());
        let Claimed::Granted(grant) = claimed else { bail!("a new operation was not granted: {claimed:?}") };
        // The result is made anew each time, as a handler makes it.
        let outcome = Outcome::success().body(Bytes::copy_from_slice(&self.body));
        let request = Complete::new(grant.held(), outcome, Retention::forever());
        let completed = self.store.complete(&request).await?;
        laps.completes.push(watch.lap_ns());
        ensure!(matches!(completed, Completed::Completed { .. }), "a holder's completion: {completed:?}");
        Ok(())
    }

    async fn replay(&self, id: &OperationId) -> anyhow::Result<()> {
        let claimed = self.store.claim(&self.claim(id)).await?;
        let Claimed::Replay(replay) = claimed else { bail!("a completed operation: {claimed:?}") };
        let body = replay.outcome.body().context("a replay without body")?;
        ensure!(body.len() == BODY_BYTES, "a replay of {} bytes", body.len());
        Ok(())
    }

    async fn completed(&self) -> anyhow::Result<u64> {
        Ok(self.store.stats().await?.completed)
    }
}

/// A ledger with the default policy, called in one line as an application does.
#[derive(Debug)]
pub(crate) struct LedgerSubject {
    ledger: Ledger,
    fingerprint: Fingerprint,
    value: String,
}

impl LedgerSubject {
    pub(crate) fn new(store: impl Store + 'static) -> Self {
        Self { ledger: Ledger::new(store), fingerprint: fingerprint(), value: value() }
    }

    /// A cycle in a task of its own.
    pub(crate) async fn detached_cycle(&self, id: &OperationId) -> anyhow::Result<()> {
        let value = self.value.clone();
        let answer =
            self.ledger.run_detached(id, self.fingerprint, |_| std::future::ready(Ok(value))).await?;
        ensure!(matches!(answer, Answer::Executed(_)), "a new operation: {answer}");
        Ok(())
    }
}

impl Subject for LedgerSubject {
    async fn cycle(&self, id: &OperationId, laps: &mut Laps) -> anyhow::Result<()> {
        let mut watch = Watch::start();
        let (claims, watch_) = (&mut laps.claims, &mut watch);
        let handler = |_| {
            // The handler begins when the claim is answered, and ends at once: the rest of the call is the completion.
            claims.push(watch_.lap_ns());
            std::future::ready(Ok(self.value.clone()))
        };
        let answer = self.ledger.run(id, self.fingerprint, handler).await?;
        laps.completes.push(watch.lap_ns());
        ensure!(matches!(answer, Answer::Executed(_)), "a new operation: {answer}");
        Ok(())
    }

    async fn replay(&self, id: &OperationId) -> anyhow::Result<()> {
        let never = |_| std::future::ready(Ok(String::new()));
        let answer = self.ledger.run(id, self.fingerprint, never).await?;
        let Answer::Replayed(value) = answer else { bail!("a completed operation: {answer}") };
        ensure!(value.len() == self.value.len(), "a replay of {} bytes", value.len());
        Ok(())
    }

    async fn completed(&self) -> anyhow::Result<u64> {
        Ok(self.ledger.store().stats().await?.completed)
    }
}
