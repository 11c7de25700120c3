//! Drives the built programs as processes.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use idem_core::clock::{Clock as _, SystemClock};
use idem_core::store::Store as _;
use idem_core::{OperationId, Record};
use idem_sqlite::SqliteStore;
use idem_sqlite::rusqlite::Connection;

/// How long a process may take to reach the point that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// An example of this package, with an environment of its own. Cargo builds the examples before it runs the tests of a
/// package, into the folder beside that of the test programs.
pub(crate) fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(program.is_file(), "{} is missing: cargo build -p idem-examples --examples", program.display());
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    for name in ["LOCK_WAIT_MS", "LEASE_MS", "VERBOSE"] {
        command.env_remove(name);
    }
    command
}

/// What a program said and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Option<i32>,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            exit: output.status.code(),
        }
    }
}

impl Ended {
    /// A success that said `stdout` and nothing else.
    pub(crate) fn success(stdout: &str) -> Self {
        Self { stdout: stdout.to_owned(), stderr: String::new(), exit: Some(0) }
    }

    /// A refusal that said `stderr`, one line, and nothing else.
    pub(crate) fn refusal(exit: i32, stderr: &str) -> Self {
        Self { stdout: String::new(), stderr: format!("{stderr}\n"), exit: Some(exit) }
    }
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    command.output().unwrap().into()
}

/// A program that is killed at the latest when the test ends.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child().try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }

    /// SIGKILL: nothing in it gets to run any more.
    pub(crate) fn kill(self) {}
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // One that ended by itself is no error.
            drop(child.kill());
            child.wait().unwrap();
        }
    }
}

/// A temporary folder.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        std::fs::read_dir(self.path()).unwrap().next().is_none()
    }
}

/// Asks again and again until there is an answer.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let give_up = SystemClock.elapsed() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(SystemClock.elapsed() < give_up, "never came to it: {what}");
        wait(async { SystemClock.sleep_until(SystemClock.elapsed() + Duration::from_millis(5)).await });
    }
}

fn wait<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

/// Holds the write lock of a database until it is dropped.
pub(crate) struct WriteLock(Connection);

impl WriteLock {
    pub(crate) fn take(path: impl AsRef<Path>) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }
}

/// Returns after SQLite has waited for `wait` for a write lock that is held all the time: what waits for much less than
/// that has ended by then, whatever the machine has to do.
pub(crate) fn wait_in_vain(path: impl AsRef<Path>, wait: Duration) {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(wait).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap_err();
}

/// One value from a database.
pub(crate) fn query<T: idem_sqlite::rusqlite::types::FromSql>(path: impl AsRef<Path>, sql: &str) -> T {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Runs statements on a database.
pub(crate) fn execute(path: impl AsRef<Path>, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(PATIENCE).unwrap();
    connection.execute_batch(sql).unwrap();
}

/// The ledger's record of an operation.
pub(crate) fn record(path: impl AsRef<Path>, id: &OperationId) -> Option<Record> {
    wait(async {
        let store = SqliteStore::open(path).await.unwrap();
        let record = store.get(id).await.unwrap();
        store.close().await;
        record
    })
}

/// The ledger's records.
pub(crate) fn records(path: impl AsRef<Path>) -> Vec<Record> {
    wait(async {
        let store = SqliteStore::open(path).await.unwrap();
        let page = store.list(&idem_core::request::Query::all()).await.unwrap();
        store.close().await;
        page.records
    })
}
