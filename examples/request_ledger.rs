//! Requests are registered as pending; a separate worker files each of them in a CRM exactly once.
//!
//! ```sh
//! cargo run -q -p idem-examples --example request_ledger                 # the demonstration
//! cargo run -q -p idem-examples --example request_ledger -- register r.sqlite3 acme order-1 \
//!     '{"service": "automation", "message": "Review a fictional inquiry."}'
//! cargo run -q -p idem-examples --example request_ledger -- work r.sqlite3 crm.sqlite3
//! cargo run -q -p idem-examples --example request_ledger -- status r.sqlite3 acme order-1
//! ```
//!
//! Two files are two ledgers that know nothing of each other: SQLite's `Capabilities::shared` is `false`. Where processes
//! on several hosts have to agree, take a store that is shared.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use idem_core::answer::Registered;
use idem_core::backoff::Backoff;
use idem_core::clock::{Clock as _, SystemClock};
use idem_core::ledger::{Answer, Attempt, Failure, Ledger, Policy, Verdict};
use idem_core::record::AbsenceReason;
use idem_core::request::{Query, Register};
use idem_core::{ErrorKind, Fingerprint, Lease, OperationId, Record, View};
use idem_sqlite::rusqlite::{self, Connection, ErrorCode, OptionalExtension as _};
use idem_sqlite::{SqliteConfig, SqliteStore};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const OPERATION: &str = "crm.file-request/v1";
const USAGE: &str = "usage: request_ledger [demo]
       request_ledger register DB TENANT KEY PAYLOAD
       request_ledger work DB CRM_DB
       request_ledger status DB TENANT KEY
environment: LOCK_WAIT_MS (2000), LEASE_MS (30000)";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(std::env::args_os().skip(1)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed { exit, message }) => {
            eprintln!("{message}");
            ExitCode::from(exit)
        }
    }
}

async fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), Failed> {
    let usage = || Failed::new(64, USAGE);
    let arguments: Vec<String> =
        arguments.map(OsString::into_string).collect::<Result<_, _>>().map_err(|_| usage())?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] | ["demo"] => demonstrate().await,
        ["register", db, tenant, key, payload] => {
            let receipt = on_ledger(db, async |ledger| register(ledger, tenant, key, payload).await).await?;
            println!("{receipt}");
            Ok(())
        }
        ["work", db, crm] => {
            let crm = Crm::open(crm)?;
            on_ledger(db, async |ledger| work(ledger, &crm).await).await
        }
        ["status", db, tenant, key] => on_ledger(db, async |ledger| show(ledger, tenant, key).await).await,
        _ => Err(usage()),
    }
}

/// Registers a request twice, then another one under the same key; leaves no file behind.
async fn demonstrate() -> Result<(), Failed> {
    let folder = tempfile::tempdir().map_err(|error| Failed::new(73, error.to_string()))?;
    on_ledger(folder.path().join("requests.sqlite3"), async |ledger| {
        let first = r#"{"service": "automation", "message": "Review a fictional inquiry."}"#;
        let other = r#"{"service": "automation", "message": "A different request."}"#;
        for payload in [first, first, other] {
            match register(ledger, "acme", "request-1", payload).await {
                Ok(receipt) => println!("{receipt}"),
                Err(Failed { exit: CONFLICT, message }) => println!("{message}"),
                Err(failed) => return Err(failed),
            }
        }
        Ok(())
    })
    .await
}

/// Does `work` on the ledger in the file at `path`, and closes the file.
async fn on_ledger<T>(
    path: impl AsRef<Path>,
    work: impl AsyncFnOnce(&Ledger) -> Result<T, Failed>,
) -> Result<T, Failed> {
    let store = SqliteStore::open_with(SqliteConfig::new(path).busy_timeout(lock_wait()?)).await?;
    let mut policy = Policy::default();
    policy.lease = Lease::new(milliseconds("LEASE_MS", 30_000)?)?;
    // The wait for SQLite's lock is all the patience there is; a caller that wants more calls again.
    policy.backoff = Backoff::new(Duration::ZERO, Duration::ZERO, 0);
    let ledger = Ledger::new(store.clone()).with(policy);
    let done = work(&ledger).await;
    drop(ledger);
    // Its writer has then ended, and the last connection to close writes the log back into the one file.
    store.close().await;
    done
}

/// What a caller is told. `created: False` does not mean that it was done: that is what the status is for.
struct Receipt {
    created: bool,
    status: &'static str,
}

impl fmt::Display for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let created = if self.created { "True" } else { "False" };
        write!(f, "{{'created': {created}, 'status': '{}'}}", self.status)
    }
}

/// Records a request as pending, once.
async fn register(ledger: &Ledger, tenant: &str, key: &str, payload: &str) -> Result<Receipt, Failed> {
    let id = operation(tenant, key)?;
    let request = Request::parse(payload)?;
    let register = Register::new(id, Fingerprint::json(&request)?).payload(request.canonical()?);
    match ledger.register(&register).await? {
        Registered::Created => Ok(Receipt { created: true, status: status(View::Received) }),
        Registered::Exists { view } => Ok(Receipt { created: false, status: status(view) }),
        Registered::Conflict => Err(Failed::new(CONFLICT, "key reused with different content")),
        other => Err(Failed::new(70, format!("an answer that this program does not know: {other:?}"))),
    }
}

/// The ledger admits more than this intake does.
fn operation(tenant: &str, key: &str) -> Result<OperationId, Failed> {
    let invalid = || Failed::new(64, "invalid tenant or key");
    if [tenant, key].iter().any(|part| !(1..=100).contains(&part.chars().count())) {
        return Err(invalid());
    }
    OperationId::new(tenant, OPERATION, key).map_err(|_| invalid())
}

/// What is asked for. The fields are in the order of RFC 8785, so that its JSON is the canonical form.
#[derive(Serialize, Deserialize)]
struct Request {
    message: String,
    service: String,
}

impl Request {
    fn parse(text: &str) -> Result<Self, Failed> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            service: Value,
            message: Value,
        }
        let fields: Fields =
            serde_json::from_str(text).map_err(|_| Failed::new(64, "expected service and message"))?;
        match (fields.service, fields.message) {
            (Value::String(service), Value::String(message))
                if [&service, &message].iter().all(|value| (1..=4000).contains(&value.chars().count())) =>
            {
                Ok(Self { message, service })
            }
            _ => Err(Failed::new(64, "invalid payload values")),
        }
    }

    fn canonical(&self) -> Result<Vec<u8>, Failed> {
        serde_json::to_vec(self).map_err(|error| Failed::new(70, error.to_string()))
    }
}

/// The words of this program for what the ledger says about a record.
const fn status(view: View) -> &'static str {
    match view {
        View::Received => "pending",
        View::Running => "processing",
        View::Lapsed => "interrupted",
        View::Completed | View::Expired => "completed",
        View::Uncertain => "uncertain",
        _ => "unknown",
    }
}

/// One pass over everything that is pending or was left by a worker that died.
async fn work(ledger: &Ledger, crm: &Crm) -> Result<(), Failed> {
    let mut query = Query::all();
    query.operation = Some(OPERATION.to_owned());
    query.views = vec![View::Received, View::Lapsed];
    loop {
        let page = ledger.store().list(&query).await?;
        for record in &page.records {
            let answer = file(ledger, crm, record).await?;
            println!("{} {}: {answer}", record.id.tenant(), record.id.key());
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(());
        }
    }
}

/// Files one request in the CRM: at most once, whoever died in the middle.
async fn file(ledger: &Ledger, crm: &Crm, record: &Record) -> Result<String, Failed> {
    let fingerprint =
        record.fingerprint.ok_or_else(|| Failed::new(70, "a registered request has no fingerprint"))?;
    let answer = ledger
        .call(&record.id, fingerprint)
        .reconcile(|attempt: Attempt| async move {
            Ok(match crm.find(&attempt).await? {
                Some(crm_id) => Verdict::Happened(crm_id),
                // A slow worker may still file it, and the CRM then keeps one of the two: external ids are unique there.
                None => Verdict::Absent(AbsenceReason::Deduplicated),
            })
        })
        .run(|attempt| async move { crm.create(&attempt).await })
        .await?;
    Ok(match answer {
        Answer::Executed(crm_id) => format!("created as {crm_id} in the CRM"),
        Answer::Replayed(crm_id) => format!("found as {crm_id} in the CRM"),
        other => other.to_string(),
    })
}

/// The system that the worker calls: another database, to which no transaction of the ledger reaches.
#[derive(Clone)]
struct Crm {
    path: PathBuf,
    lock_wait: Duration,
}

impl Crm {
    fn open(path: &str) -> Result<Self, Failed> {
        let crm = Self { path: path.into(), lock_wait: lock_wait()? };
        let made = crm.connect().and_then(|connection| {
            connection.execute_batch(
                "CREATE TABLE IF NOT EXISTS requests (
                     crm_id      INTEGER PRIMARY KEY,
                     external_id TEXT NOT NULL UNIQUE,
                     service     TEXT NOT NULL,
                     message     TEXT NOT NULL
                 ) STRICT",
            )
        });
        made.map_err(|error| Failed::new(UNAVAILABLE, format!("the CRM cannot be opened: {error}")))?;
        Ok(crm)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(self.lock_wait)?;
        Ok(connection)
    }

    /// Files the request under the downstream key, which is the same on all attempts.
    async fn create(&self, attempt: &Attempt) -> Result<i64, Failure> {
        let payload = attempt.payload().ok_or_else(|| Failure::no_effect("the request has no payload"))?;
        let request: Request =
            serde_json::from_slice(payload).map_err(|error| Failure::no_effect(error.to_string()))?;
        let external_id = attempt.downstream_key().to_string();
        let filed = self.ask(move |connection| {
            connection.query_row(
                "INSERT INTO requests (external_id, service, message) VALUES (?1, ?2, ?3)
                     ON CONFLICT (external_id) DO UPDATE SET external_id = excluded.external_id
                     RETURNING crm_id",
                (&external_id, &request.service, &request.message),
                |row| row.get(0),
            )
        });
        filed.await
    }

    /// Looks the request up by its external id.
    async fn find(&self, attempt: &Attempt) -> Result<Option<i64>, Failure> {
        let external_id = attempt.downstream_key().to_string();
        let found = self.ask(move |connection| {
            let query = "SELECT crm_id FROM requests WHERE external_id = ?1";
            connection.query_row(query, [&external_id], |row| row.get(0)).optional()
        });
        found.await
    }

    /// Runs one statement off the runtime, so that the heartbeat goes on while the CRM is slow.
    async fn ask<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let crm = self.clone();
        let asked = tokio::task::spawn_blocking(move || run(&crm.connect()?)).await?;
        asked.map_err(|error| match error.sqlite_error_code() {
            // The one statement never had its lock: the request stays pending, and the next pass tries again.
            Some(ErrorCode::DatabaseBusy) => Failure::no_effect("the CRM is locked"),
            _ => Failure::from(error),
        })
    }
}

/// What the ledger has about a request, for its operator.
async fn show(ledger: &Ledger, tenant: &str, key: &str) -> Result<(), Failed> {
    let store = ledger.store();
    let record =
        store.get(&operation(tenant, key)?).await?.ok_or_else(|| Failed::new(1, "no such request"))?;
    // The clock that SQLite's ledger decides by is the host's.
    println!("status: {}", status(record.view(SystemClock.now(), store.capabilities().guard_ms)));
    println!("attempts: {}", record.attempt_number());
    if let Some(fingerprint) = record.fingerprint {
        println!("fingerprint: {fingerprint}");
    }
    if let Some(payload) = &record.payload {
        println!("payload: {}", String::from_utf8_lossy(payload));
    }
    if let Some(crm_id) = record.outcome.as_ref().and_then(|outcome| outcome.body()) {
        println!("crm_id: {}", String::from_utf8_lossy(crm_id));
    }
    Ok(())
}

fn lock_wait() -> Result<Duration, Failed> {
    milliseconds("LOCK_WAIT_MS", 2_000)
}

/// A time from the environment.
fn milliseconds(name: &str, default_ms: u64) -> Result<Duration, Failed> {
    let millis = match std::env::var_os(name) {
        None => Some(default_ms),
        Some(text) => text.to_str().and_then(|text| text.parse().ok()),
    };
    millis
        .map(Duration::from_millis)
        .ok_or_else(|| Failed::new(64, format!("{name} is not a number of milliseconds")))
}

const CONFLICT: u8 = 2;
const UNAVAILABLE: u8 = 69;

/// What is said on standard error, and the exit status.
struct Failed {
    exit: u8,
    message: String,
}

impl Failed {
    fn new(exit: u8, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}

impl From<idem_core::Error> for Failed {
    fn from(error: idem_core::Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::InvalidInput => 64,
            ErrorKind::Unavailable => UNAVAILABLE,
            ErrorKind::Indeterminate => 76,
            ErrorKind::Configuration | ErrorKind::Unsupported => 78,
            _ => 70,
        };
        let waited = match lock_wait() {
            Ok(wait) if exit == UNAVAILABLE => format!(" (waited for {} ms)", wait.as_millis()),
            _ => String::new(),
        };
        Self::new(exit, format!("{error}{waited}"))
    }
}
