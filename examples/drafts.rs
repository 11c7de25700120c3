//! One draft for every event, however often the event is delivered and whoever is killed in between.
//!
//! ```sh
//! cargo run -q -p idem-examples --example drafts -- d.sqlite3 evt-42 Hello
//! ```
//!
//! The row in `drafts`, the ledger's record and the answer are committed in one transaction: there is no draft without
//! its record, no record without its draft, and nothing to recover after a crash.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use idem_core::backoff::Backoff;
use idem_core::clock::{Clock as _, SystemClock};
use idem_core::ledger::{Answer, Policy};
use idem_core::{Error, ErrorKind, Fingerprint, OperationId};
use idem_sqlite::{SqliteConfig, SqliteStore};
use serde::{Deserialize, Serialize};

const USAGE: &str = "usage: drafts DB EVENT_ID BODY
environment: LOCK_WAIT_MS (5000), VERBOSE";

/// The first try and its repetitions while another process has the database locked. They share `LOCK_WAIT_MS`.
const TRIES: u32 = 4;

const UNAVAILABLE: u8 = 69;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(std::env::args_os().skip(1).collect()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed { exit, message }) => {
            eprintln!("{message}");
            ExitCode::from(exit)
        }
    }
}

async fn run(arguments: Vec<OsString>) -> Result<(), Failed> {
    let Ok([db, event_id, body]) = <[OsString; 3]>::try_from(arguments) else {
        return Err(Failed::new(64, USAGE));
    };
    let not_text = |_| Failed::new(64, "EVENT_ID and BODY have to be UTF-8");
    let event_id = event_id.into_string().map_err(not_text)?;
    let body = body.into_string().map_err(not_text)?;

    // The key is the event, and the intent is the body, byte for byte.
    let id = OperationId::new("local", "draft.create/v1", &event_id)?;
    let lock_wait = lock_wait()?;
    let config = SqliteConfig::new(db).busy_timeout(lock_wait / TRIES);

    match create_patiently(config, &id, &body, lock_wait).await? {
        Answer::Executed(draft) | Answer::Replayed(draft) => say(&draft),
        Answer::Conflict => Err(Failed::new(2, "Conflict: event_id already used with a different payload")),
        other => Err(Failed::new(70, format!("no draft was made: {other}"))),
    }
}

/// What is stored as the result, and answered ever after.
#[derive(Serialize, Deserialize)]
struct Draft {
    draft_id: i64,
    status: String,
}

/// Tries again while the store is away: the same key and the same body every time, so that a try whose answer got lost
/// is answered by what it did. Every answer ends it, a conflict like the others.
async fn create_patiently(
    config: SqliteConfig,
    id: &OperationId,
    body: &str,
    lock_wait: Duration,
) -> Result<Answer<Draft>, Failed> {
    let backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100), TRIES - 1);
    let mut turn = 0;
    loop {
        let error = match create(config.clone(), id, body).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(pause) = backoff.pause(turn).filter(|_| error.is_transient()) else {
            return Err(Failed::after(turn + 1, lock_wait, error));
        };
        turn += 1;
        if std::env::var_os("VERBOSE").is_some() {
            eprintln!("try {turn} of {TRIES}: {error}");
        }
        SystemClock.sleep_until(SystemClock.elapsed() + pause).await;
    }
}

/// Makes the draft, unless it is made already.
async fn create(config: SqliteConfig, id: &OperationId, body: &str) -> Result<Answer<Draft>, Error> {
    let store = SqliteStore::open_with(config).await?;
    let policy = Policy::default();
    let intent = Fingerprint::bytes(body.as_bytes());
    let (event_id, body) = (id.key().to_owned(), body.to_owned());
    let answer = store.transact(&policy, id, intent, move |transaction| {
        transaction.execute_batch(
            "CREATE TABLE IF NOT EXISTS drafts (
                 draft_id INTEGER PRIMARY KEY,
                 event_id TEXT NOT NULL,
                 body     TEXT NOT NULL,
                 status   TEXT NOT NULL DEFAULT 'draft'
             ) STRICT",
        )?;
        transaction.execute("INSERT INTO drafts (event_id, body) VALUES (?1, ?2)", (&event_id, &body))?;
        Ok(Draft { draft_id: transaction.last_insert_rowid(), status: "draft".to_owned() })
    });
    let answer = answer.await;
    store.close().await;
    answer
}

fn say(Draft { draft_id, status }: &Draft) -> Result<(), Failed> {
    let said = writeln!(std::io::stdout(), "{{\"draft_id\": {draft_id}, \"status\": \"{status}\"}}");
    said.map_err(|error| Failed::new(74, format!("the draft is stored, and could not be printed: {error}")))
}

fn lock_wait() -> Result<Duration, Failed> {
    let millis = match std::env::var_os("LOCK_WAIT_MS") {
        None => Some(5_000),
        Some(text) => text.to_str().and_then(|text| text.parse().ok()),
    };
    let complaint = "LOCK_WAIT_MS is not a number of milliseconds";
    millis.map(Duration::from_millis).ok_or_else(|| Failed::new(64, complaint))
}

/// What is said on standard error, and the exit status.
struct Failed {
    exit: u8,
    message: String,
}

impl Failed {
    fn new(exit: u8, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    fn after(tries: u32, lock_wait: Duration, error: Error) -> Self {
        let failed = Self::from(error);
        if failed.exit != UNAVAILABLE {
            return failed;
        }
        let waited = format!("{tries} tries in {} ms", lock_wait.as_millis());
        Self { message: format!("no draft was made, after {waited}: {}", failed.message), ..failed }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::InvalidInput => 64,
            ErrorKind::Unavailable => UNAVAILABLE,
            ErrorKind::Indeterminate => 76,
            ErrorKind::Configuration | ErrorKind::Unsupported => 78,
            _ => 70,
        };
        Self::new(exit, error.to_string())
    }
}
