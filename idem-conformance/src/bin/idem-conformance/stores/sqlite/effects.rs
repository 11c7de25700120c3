//! Effects of an application in the same file.

use std::fmt;
use std::sync::mpsc;
use std::thread::JoinHandle;

use async_trait::async_trait;
use idem_conformance::{Effect, EffectTransaction, Effects};
use idem_core::answer::Completed;
use idem_core::local::{LocalRun, NotCompleted};
use idem_core::request::Complete;
use idem_core::{Claim, Claimed, Error, Result, Retention};
use idem_sqlite::SqliteStore;
use idem_sqlite::rusqlite::{self, Connection, Transaction, TransactionBehavior, params};

/// A table of texts beside the ledger.
#[derive(Debug)]
pub(crate) struct Table(SqliteStore);

/// What an application makes of an error of its own statement.
fn failed(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            Error::unavailable(format!("the file is locked: {error}"))
        }
        _ => Error::internal(error.to_string()),
    }
}

const INSERT: &str = "INSERT INTO effects (text) VALUES (?1)";

impl Table {
    pub(crate) fn make(store: SqliteStore) -> Result<Self> {
        let table = "CREATE TABLE IF NOT EXISTS effects (id INTEGER PRIMARY KEY, text TEXT NOT NULL)";
        store.connect()?.execute_batch(table).map_err(failed)?;
        Ok(Self(store))
    }
}

#[async_trait]
impl Effects for Table {
    async fn begin(&self) -> Result<Box<dyn EffectTransaction>> {
        let connection = self.0.connect()?;
        Ok(Box::new(Open::begin(self.0.clone(), connection).await?))
    }

    async fn run(&self, claim: &Claim, retention: Retention, effect: Effect) -> Result<LocalRun> {
        self.0
            .run_in_transaction(claim, retention, |transaction, _grant| {
                transaction.execute(INSERT, [&effect.text])?;
                effect.end()
            })
            .await
    }

    async fn committed(&self) -> Result<Vec<String>> {
        let connection = self.0.connect()?;
        let mut select = connection.prepare("SELECT text FROM effects").map_err(failed)?;
        let texts = select.query_map(params![], |row| row.get(0)).map_err(failed)?;
        texts.collect::<rusqlite::Result<_>>().map_err(failed)
    }
}

type Step = Box<dyn FnOnce(&SqliteStore, &Transaction<'_>) + Send>;

/// An open transaction. It borrows its connection, so both live on a thread that does what it is sent.
struct Open {
    steps: Option<mpsc::Sender<Step>>,
    thread: Option<JoinHandle<()>>,
}

impl Open {
    async fn begin(store: SqliteStore, mut connection: Connection) -> Result<Self> {
        let (steps, todo) = mpsc::channel::<Step>();
        let (begun, wait) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let transaction = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
                Ok(transaction) => transaction,
                Err(error) => return drop(begun.send(Err(failed(error)))),
            };
            drop(begun.send(Ok(())));
            for step in todo {
                step(&store, &transaction);
            }
            // Dropped without COMMIT, it is rolled back.
        });
        wait.await.map_err(|_| gone())??;
        Ok(Self { steps: Some(steps), thread: Some(thread) })
    }

    async fn step<T: Send + 'static>(
        &self,
        step: impl FnOnce(&SqliteStore, &Transaction<'_>) -> T + Send + 'static,
    ) -> Result<T> {
        let (answer, wait) = tokio::sync::oneshot::channel();
        let step: Step = Box::new(move |store, transaction| drop(answer.send(step(store, transaction))));
        self.steps.as_ref().ok_or_else(gone)?.send(step).map_err(|_| gone())?;
        wait.await.map_err(|_| gone())
    }

    fn end(&mut self) {
        drop(self.steps.take());
        // The lock is gone when this returns, as with a transaction on one's own thread.
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn gone() -> Error {
    Error::internal("the transaction's thread is gone")
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Open")
    }
}

#[async_trait]
impl EffectTransaction for Open {
    async fn claim(&mut self, claim: &Claim) -> Result<Claimed> {
        let claim = claim.clone();
        self.step(move |store, transaction| store.claim_in(transaction, &claim)).await?
    }

    async fn effect(&mut self, text: &str) -> Result<()> {
        let text = text.to_owned();
        self.step(move |_, transaction| transaction.execute(INSERT, [text]).map(drop).map_err(failed)).await?
    }

    async fn complete(&mut self, complete: &Complete) -> Result<Completed, NotCompleted> {
        let complete = complete.clone();
        self.step(move |store, transaction| store.complete_in(transaction, &complete)).await?
    }

    async fn commit(mut self: Box<Self>) -> Result<()> {
        let committed = self.step(|_, transaction| transaction.execute_batch("COMMIT")).await?;
        self.end();
        committed.map_err(failed)
    }

    async fn roll_back(mut self: Box<Self>) -> Result<()> {
        self.end();
        Ok(())
    }
}
