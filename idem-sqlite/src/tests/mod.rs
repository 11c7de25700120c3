//! What only the inside can see: when answers are given, and what they are when SQLite fails.

mod cancel;
mod commit;
mod failure;
mod local;
mod log;
mod opening;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use idem_core::clock::{Clock as _, ManualClock, SystemClock};
use idem_core::request::Complete;
use idem_core::{Claim, Claimed, Fingerprint, Grant, Label, OperationId, Outcome, Retention, Store as _};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::{SqliteConfig, SqliteStore};

/// A store in a folder of its own, on a clock that stands still.
struct Fixture {
    store: SqliteStore,
    clock: ManualClock,
    folder: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(|config| config).await
    }

    async fn with(change: impl FnOnce(SqliteConfig) -> SqliteConfig) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(1_700_000_000_000);
        let config = SqliteConfig::new(folder.path().join("ledger.db")).clock(Arc::new(clock.clone()));
        let store = SqliteStore::open_with(change(config)).await.unwrap();
        Self { store, clock, folder }
    }

    /// Another process, as far as SQLite can tell.
    fn stranger(&self) -> Connection {
        let connection = Connection::open(self.folder.path().join("ledger.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection
    }

    /// Runs SQL on the connection that writes.
    fn on_writer(&self, sql: &str) {
        self.store.shared().session().connection().execute_batch(sql).unwrap();
    }

    /// Starts requests while the connection that writes is held, so that all are in one group; then lets it go.
    async fn in_one_group<T>(&self, mut asked: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
        self.store.shared().crowd();
        {
            let _held = self.store.shared().session();
            for request in &mut asked {
                assert!(poll(request.as_mut()).is_pending(), "the writer is held");
            }
        }
        let mut answers = Vec::new();
        for request in asked {
            answers.push(request.await);
        }
        answers
    }

    async fn granted(&self, key: &str) -> Grant {
        granted(self.store.claim(&claim(key)).await.unwrap())
    }

    async fn completed(&self, key: &str, body: &'static [u8]) {
        let grant = self.granted(key).await;
        let complete = Complete::new(grant.held(), Outcome::success().body(body), Retention::forever());
        self.store.complete(&complete).await.unwrap();
    }
}

fn id(key: &str) -> OperationId {
    OperationId::new("acme", "charge/v1", key).unwrap()
}

fn claim(key: &str) -> Claim {
    Claim::new(id(key), Fingerprint::bytes(b"10 EUR"), Label::new("worker-1").unwrap())
}

fn granted(claimed: Claimed) -> Grant {
    match claimed {
        Claimed::Granted(grant) => *grant,
        other => panic!("not granted: {other:?}"),
    }
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets other tasks and threads go on until `done`; the number of turns is a backstop against hanging.
async fn until(mut done: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if done() {
            return;
        }
        // The writer is a thread that no injected clock moves.
        SystemClock.sleep_until(SystemClock.elapsed() + Duration::from_millis(1)).await;
    }
    panic!("this never happened");
}
