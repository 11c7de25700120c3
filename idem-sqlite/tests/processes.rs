//! Several processes on one file, some of which are killed. Each test runs this program again as its children.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says where")]

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use idem_core::request::Complete;
use idem_core::{AttemptId, Claim, Claimed, Fingerprint, Label, OperationId, Outcome, Retention, Store as _};
use idem_sqlite::SqliteStore;

/// The file that a child works on; without it the test is the parent.
const CHILD: &str = "IDEM_SQLITE_TEST_CHILD";

fn child_of() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// A child that runs the test `name`. It is killed when it is dropped.
struct Running {
    child: Child,
    stdin: ChildStdin,
    said: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(name: &str, path: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture", "--quiet"]).env(CHILD, path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { stdin: child.stdin.take().unwrap(), said, child }
    }

    fn go(&mut self) {
        self.stdin.write_all(b"go\n").unwrap();
    }

    /// The lines that it says, each after the mark, to the end of its life.
    fn said(&mut self) -> impl Iterator<Item = String> {
        let lines = self.said.by_ref().map_while(Result::ok);
        lines.filter_map(|line| line.split_once(MARK).map(|(_, said)| said.to_owned()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// Tells a child's own words from those of the test harness.
const MARK: &str = "child says: ";

fn say(what: &str) {
    println!("{MARK}{what}");
    std::io::stdout().flush().unwrap();
}

fn wait_for_go() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn claim(key: &str) -> Claim {
    let id = OperationId::new("acme", "charge/v1", key).unwrap();
    Claim::new(id, Fingerprint::bytes(b"10 EUR"), Label::new("worker").unwrap())
}

#[test]
fn thirty_two_processes_open_a_missing_file_at_once_and_one_is_granted() {
    let name = "thirty_two_processes_open_a_missing_file_at_once_and_one_is_granted";
    if let Some(path) = child_of() {
        wait_for_go();
        let answer = runtime().block_on(async {
            let store = SqliteStore::open(path).await?;
            store.claim(&claim("one")).await
        });
        return say(match answer {
            Ok(Claimed::Granted(_)) => "granted",
            Ok(Claimed::InProgress { .. }) => "in progress",
            other => panic!("{other:?}"),
        });
    }
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let mut children: Vec<_> = (0..32).map(|_| Running::start(name, &path)).collect();
        children.iter_mut().for_each(Running::go);
        let said: Vec<String> = children.iter_mut().map(|child| child.said().next().unwrap()).collect();
        assert_eq!(said.iter().filter(|said| *said == "granted").count(), 1, "{said:?}");
        assert_eq!(said.iter().filter(|said| *said == "in progress").count(), 31, "{said:?}");
    }
}

/// What a child completes its operations with: it tells key and attempt.
fn body(key: &str) -> String {
    format!("the body of {key}, {}", "x".repeat(key.len() * 20))
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_nothing_is_half_there() {
    let name = "what_was_acknowledged_survives_a_kill_and_nothing_is_half_there";
    if let Some(path) = child_of() {
        return runtime().block_on(work_forever(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut acknowledged = Vec::new();
    for round in 0..6 {
        let mut children: Vec<_> = (0..3).map(|_| Running::start(name, &path)).collect();
        for child in &mut children {
            acknowledged.extend(child.said().take(40 + 7 * round));
            // SIGKILL, in the middle of whatever the tasks of this child are doing.
            child.child.kill().unwrap();
            acknowledged.extend(child.said());
        }
    }
    assert!(acknowledged.len() > 6 * 3 * 40, "the children worked: {}", acknowledged.len());
    runtime().block_on(verify(&path, &acknowledged));
}

/// Claims and completes from eight tasks, and says which keys are done.
async fn work_forever(path: &Path) {
    let store = SqliteStore::open(path).await.unwrap();
    let mut tasks = Vec::new();
    for task in 0..8 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move {
            for turn in 0_u64.. {
                let key = format!("{}-{task}-{turn}", std::process::id());
                let claim = claim(&key);
                assert!(matches!(store.claim(&claim).await.unwrap(), Claimed::Granted(_)));
                let outcome = Outcome::success().body(body(&key));
                store.complete(&Complete::new(claim.held(), outcome, Retention::forever())).await.unwrap();
                say(&key);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

async fn verify(path: &Path, acknowledged: &[String]) {
    let store = SqliteStore::open(path).await.unwrap();
    for key in acknowledged {
        let Claimed::Replay(replay) = store.claim(&claim(key)).await.unwrap() else {
            panic!("{key} was acknowledged and is not completed")
        };
        assert_eq!(replay.outcome.body().unwrap().as_ref(), body(key).as_bytes(), "{key}");
    }
    let stats = store.stats().await.unwrap();
    assert!(stats.completed >= acknowledged.len() as u64, "{stats:?}");
    let connection = store.connect().unwrap();
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    // What was running in a killed process is in progress until its lease ends, and parks then.
    assert_eq!(stats.received + stats.expired + stats.uncertain, 0, "{stats:?}");
}

#[test]
fn two_processes_under_load_both_go_on() {
    let name = "two_processes_under_load_both_go_on";
    if let Some(path) = child_of() {
        return runtime().block_on(work_forever(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut children: Vec<_> = (0..4).map(|_| Running::start(name, &path)).collect();
    // A process that was starved would die of `Unavailable` after the busy timeout, and say no more.
    for child in &mut children {
        assert_eq!(child.said().take(300).count(), 300);
    }
}

#[test]
fn an_attempt_of_a_killed_process_is_repeated_by_its_id() {
    let name = "an_attempt_of_a_killed_process_is_repeated_by_its_id";
    let attempt = AttemptId::from_bytes([7; 16]);
    if let Some(path) = child_of() {
        return runtime().block_on(async {
            let store = SqliteStore::open(path).await.unwrap();
            let granted = store.claim(&claim("k").attempt(attempt)).await.unwrap();
            assert!(matches!(granted, Claimed::Granted(_)));
            say("granted");
            std::future::pending::<()>().await;
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let mut child = Running::start(name, &path);
    assert_eq!(child.said().next().unwrap(), "granted");
    drop(child);
    runtime().block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        let Claimed::Granted(grant) = store.claim(&claim("k").attempt(attempt)).await.unwrap() else {
            panic!()
        };
        assert!(grant.again);
        assert!(matches!(store.claim(&claim("k")).await.unwrap(), Claimed::InProgress { .. }));
    });
}
