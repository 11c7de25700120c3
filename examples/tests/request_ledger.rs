//! The request ledger as its users see it (S-78 to S-92).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails says where"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use idem_core::OperationId;
use idem_core::record::State;
use idem_core::store::Store as _;
use idem_sqlite::SqliteStore;
use sha2::{Digest as _, Sha256};
use support::{
    Ended, Folder, Running, WriteLock, example, execute, query, record, records, run, until, wait_in_vain,
};

const INQUIRY: &str = r#"{"service": "automation", "message": "Review a fictional inquiry."}"#;
const CANONICAL: &str = r#"{"message":"Review a fictional inquiry.","service":"automation"}"#;
const OTHER: &str = r#"{"service": "automation", "message": "A different request."}"#;
const CREATED: &str = "{'created': True, 'status': 'pending'}\n";
const PENDING: &str = "{'created': False, 'status': 'pending'}\n";

/// A ledger and a CRM in a folder of their own.
struct Intake {
    folder: Folder,
}

impl Intake {
    fn new() -> Self {
        Self { folder: Folder::new() }
    }

    fn ledger(&self) -> PathBuf {
        self.folder.file("requests.sqlite3")
    }

    fn crm(&self) -> PathBuf {
        self.folder.file("crm.sqlite3")
    }

    fn registering(&self, tenant: &str, key: &str, payload: &str) -> Command {
        registering(&self.ledger(), tenant, key, payload)
    }

    fn register(&self, tenant: &str, key: &str, payload: &str) -> Ended {
        run(&mut self.registering(tenant, key, payload))
    }

    fn working(&self) -> Command {
        let mut command = example("request_ledger");
        command.arg("work").arg(self.ledger()).arg(self.crm());
        command
    }

    /// One pass of a worker that had nothing to complain about; what it did.
    fn work(&self) -> String {
        let ended = run(&mut self.working());
        assert_eq!((ended.stderr.as_str(), ended.exit), ("", Some(0)));
        ended.stdout
    }

    /// What the program tells an operator under `name`.
    fn shown(&self, key: &str, name: &str) -> Option<String> {
        let mut command = example("request_ledger");
        let ended = run(command.arg("status").arg(self.ledger()).args(["acme", key]));
        assert_eq!((ended.stderr.as_str(), ended.exit), ("", Some(0)));
        let prefix = format!("{name}: ");
        ended.stdout.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
    }

    fn status(&self, key: &str) -> String {
        self.shown(key, "status").unwrap()
    }

    fn filed(&self) -> i64 {
        query(self.crm(), "SELECT count(*) FROM requests")
    }

    /// A worker that has claimed the one pending request and waits for the CRM, which `crm` has locked.
    fn worker_at_the_crm(&self, _crm: &WriteLock) -> Running {
        let mut command = self.working();
        command.env("LOCK_WAIT_MS", "600000").env("LEASE_MS", "300");
        let worker = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let claimed =
            || records(self.ledger()).iter().any(|record| record.state == State::Processing).then_some(());
        until("the worker claims", claimed);
        worker
    }

    /// Works until the lease of the dead worker has lapsed and somebody did something; what that was.
    fn work_until_done(&self) -> String {
        until("the lease lapses", || Some(self.work()).filter(|done| !done.is_empty()))
    }
}

fn registering(ledger: &Path, tenant: &str, key: &str, payload: &str) -> Command {
    let mut command = example("request_ledger");
    command.arg("register").arg(ledger).args([tenant, key, payload]);
    command
}

#[test]
fn s_78_tenant_and_key_have_1_to_100_characters() {
    let intake = Intake::new();
    let longest = "é".repeat(100);
    let too_long = "é".repeat(101);
    for bad in ["", too_long.as_str(), "a\u{1f}b", " \u{a0}"] {
        let refused = Ended::refusal(64, "invalid tenant or key");
        assert_eq!(intake.register(bad, "order-1", INQUIRY), refused, "tenant {bad:?}");
        assert_eq!(intake.register("acme", bad, INQUIRY), refused, "key {bad:?}");
    }
    assert!(records(intake.ledger()).is_empty(), "a refused request leaves no record");
    assert_eq!(intake.register(&longest, &longest, INQUIRY), Ended::success(CREATED));
}

#[test]
fn s_79_a_payload_has_exactly_the_two_fields() {
    let intake = Intake::new();
    let bad = [
        "",
        "null",
        "[]",
        "\"automation\"",
        "{}",
        r#"{"service": "automation"}"#,
        r#"{"message": "x"}"#,
        r#"{"service": "automation", "message": "x", "urgent": true}"#,
        r#"{"service": "automation", "message": "x", "message": "y"}"#,
        r#"{"service": "automation", "message": "x"} "#.trim_end().strip_suffix('}').unwrap(),
        r#"{"Service": "automation", "message": "x"}"#,
    ];
    for payload in bad {
        let refused = Ended::refusal(64, "expected service and message");
        assert_eq!(intake.register("acme", "order-1", payload), refused, "{payload}");
    }
    assert!(records(intake.ledger()).is_empty(), "a refused request leaves no record");
}

#[test]
fn s_80_each_value_has_1_to_4000_characters() {
    let intake = Intake::new();
    let payload = |service: &str, message: &str| format!(r#"{{"service": {service}, "message": {message}}}"#);
    let text = |characters: usize| format!("\"{}\"", "ß".repeat(characters));
    let (empty, longest, too_long) = (text(0), text(4000), text(4001));
    for bad in [empty.as_str(), &too_long, "null", "1", "true", "[\"x\"]", "{\"x\": \"y\"}"] {
        let refused = Ended::refusal(64, "invalid payload values");
        assert_eq!(intake.register("acme", "order-1", &payload(bad, "\"x\"")), refused, "service {bad:.20}");
        assert_eq!(intake.register("acme", "order-1", &payload("\"x\"", bad)), refused, "message {bad:.20}");
    }
    assert!(records(intake.ledger()).is_empty(), "a refused request leaves no record");
    assert_eq!(intake.register("acme", "order-1", &payload(&longest, &longest)), Ended::success(CREATED));
}

#[test]
fn s_81_the_fingerprint_is_the_digest_of_the_canonical_payload() {
    let intake = Intake::new();
    let digests = [
        (INQUIRY, "436a70c9b6cba6583915f2d9ab8f5bcb435f08347f0ca59d10138e36b6fbac21"),
        (OTHER, "c7be8b3a7f3b70d2195da8ec99aed098f4df24f087d78c7a4411bde0ccd5581a"),
    ];
    for (key, (payload, digest)) in ["one", "two"].into_iter().zip(digests) {
        assert_eq!(intake.register("acme", key, payload), Ended::success(CREATED));
        assert_eq!(intake.shown(key, "fingerprint").unwrap(), format!("json/1:{digest}"));
    }
    assert_eq!(intake.shown("one", "payload").unwrap(), CANONICAL);
    // Another spelling of the same request is the same request.
    let spelt = "{\"message\": \"Review a fictional inquir\\u0079.\",\n\t\"service\": \"automation\"}";
    assert_eq!(intake.register("acme", "one", spelt), Ended::success(PENDING));
}

#[test]
fn s_81_what_is_stored_is_canonical_whatever_it_says() {
    let intake = Intake::new();
    let payload =
        r#"{"service": "\u0001\b\t\n\f\r\u001f\u007f \"\\\/ \u2028 €", "message": "\ud83d\ude00 e\u0301 é"}"#;
    assert_eq!(intake.register("acme", "order-1", payload), Ended::success(CREATED));
    let record = record(intake.ledger(), &id("order-1")).unwrap();
    let digest: [u8; 32] = Sha256::digest(record.payload.unwrap()).into();
    assert_eq!(record.fingerprint.unwrap().digest(), &digest);
}

fn id(key: &str) -> OperationId {
    OperationId::new("acme", "crm.file-request/v1", key).unwrap()
}

#[test]
fn s_82_the_demonstration_says_three_lines_and_leaves_no_file() {
    for arguments in [&[][..], &["demo"]] {
        let (here, temporary) = (Folder::new(), Folder::new());
        let mut command = example("request_ledger");
        command.args(arguments).current_dir(here.path()).env("TMPDIR", temporary.path());
        let said = "{'created': True, 'status': 'pending'}\n\
                    {'created': False, 'status': 'pending'}\n\
                    key reused with different content\n";
        assert_eq!(run(&mut command), Ended::success(said));
        assert!(here.is_empty() && temporary.is_empty());
    }
}

#[test]
fn s_84_of_eight_concurrent_calls_one_creates_the_one_record() {
    let intake = Intake::new();
    assert_eq!(intake.register("acme", "another", INQUIRY), Ended::success(CREATED));
    // While it is held nobody can be done before all have started.
    let lock = WriteLock::take(intake.ledger());
    let calls: Vec<_> = (0..8)
        .map(|_| {
            let mut command = intake.registering("acme", "order-1", INQUIRY);
            command.env("LOCK_WAIT_MS", "600000").stdout(Stdio::piped()).stderr(Stdio::piped());
            Running::start(&mut command)
        })
        .collect();
    drop(lock);
    let mut said: Vec<_> = calls.into_iter().map(Running::end).collect();
    said.sort_by(|one, other| other.stdout.cmp(&one.stdout));
    assert_eq!(said[0], Ended::success(CREATED));
    assert!(said[1..].iter().all(|ended| *ended == Ended::success(PENDING)), "{said:?}");
    assert_eq!(records(intake.ledger()).iter().filter(|record| record.id.key() == "order-1").count(), 1);
}

#[test]
fn s_85_changed_content_is_rejected_and_the_stored_payload_stays() {
    let intake = Intake::new();
    assert_eq!(intake.register("acme", "order-1", INQUIRY), Ended::success(CREATED));
    let before = record(intake.ledger(), &id("order-1"));
    let rejected = Ended::refusal(2, "key reused with different content");
    assert_eq!(intake.register("acme", "order-1", OTHER), rejected);
    assert_eq!(record(intake.ledger(), &id("order-1")), before);
    assert_eq!(intake.shown("order-1", "payload").unwrap(), CANONICAL);
    // Also when it is finished.
    assert_eq!(intake.work(), "acme order-1: created as 1 in the CRM\n");
    assert_eq!(intake.register("acme", "order-1", OTHER), rejected);
    assert_eq!(query::<String>(intake.crm(), "SELECT message FROM requests"), "Review a fictional inquiry.");
}

#[test]
fn s_86_a_second_tenant_is_independent() {
    let intake = Intake::new();
    assert_eq!(intake.register("acme", "order-1", INQUIRY), Ended::success(CREATED));
    assert_eq!(intake.register("bolt", "order-1", OTHER), Ended::success(CREATED));
    // A tenant and a key that join to the same text.
    assert_eq!(intake.register("acmeo", "rder-1", OTHER), Ended::success(CREATED));
    assert_eq!(intake.work().lines().count(), 3);
    assert_eq!(query::<i64>(intake.crm(), "SELECT count(DISTINCT external_id) FROM requests"), 3);
}

#[test]
fn s_87_a_held_write_lock_ends_in_no_receipt_and_the_retry_creates() {
    let intake = Intake::new();
    assert_eq!(intake.register("acme", "another", INQUIRY), Ended::success(CREATED));
    let lock = WriteLock::take(intake.ledger());
    // Twice: with a short wait, and with the wait that it has when nobody says anything.
    for wait_ms in [Some("50"), None] {
        let mut command = intake.registering("acme", "order-1", INQUIRY);
        let ended = run(match wait_ms {
            Some(wait_ms) => command.env("LOCK_WAIT_MS", wait_ms),
            None => &mut command,
        });
        assert_eq!((ended.stdout.as_str(), ended.exit), ("", Some(69)));
        assert!(ended.stderr.contains("locked by another process"), "{}", ended.stderr);
        let waited = format!("(waited for {} ms)\n", wait_ms.unwrap_or("2000"));
        assert!(ended.stderr.ends_with(&waited), "{}", ended.stderr);
    }
    drop(lock);
    assert_eq!(record(intake.ledger(), &id("order-1")), None);
    assert_eq!(intake.register("acme", "order-1", INQUIRY), Ended::success(CREATED));
}

#[test]
fn s_87_a_held_write_lock_is_waited_for_once() {
    let intake = Intake::new();
    assert_eq!(intake.register("acme", "another", INQUIRY), Ended::success(CREATED));
    let _lock = WriteLock::take(intake.ledger());
    let mut command = intake.registering("acme", "order-1", INQUIRY);
    let mut program = Running::start(command.env("LOCK_WAIT_MS", "1000").stderr(Stdio::null()));
    wait_in_vain(intake.ledger(), Duration::from_millis(4500));
    assert!(program.has_ended(), "it goes on waiting");
    assert_eq!(program.end().exit, Some(69));
}

#[test]
fn s_88_a_backup_is_inspected_restored_and_replayed() {
    let intake = Intake::new();
    assert_eq!(intake.register("acme", "order-1", INQUIRY), Ended::success(CREATED));
    let (early, late) = (intake.folder.file("early.sqlite3"), intake.folder.file("late.sqlite3"));
    execute(intake.ledger(), &format!("VACUUM INTO '{}'", early.display()));
    assert_eq!(intake.work(), "acme order-1: created as 1 in the CRM\n");
    execute(intake.ledger(), &format!("VACUUM INTO '{}'", late.display()));
    assert_eq!(intake.shown("order-1", "crm_id").unwrap(), "1");

    restore(&late, &intake.ledger());
    assert_eq!(intake.shown("order-1", "payload").unwrap(), CANONICAL);
    assert_eq!(intake.shown("order-1", "crm_id").unwrap(), "1");
    let replayed = Ended::success("{'created': False, 'status': 'completed'}\n");
    assert_eq!(intake.register("acme", "order-1", INQUIRY), replayed);
    assert_eq!(intake.work(), "");

    // A backup from before the work has forgotten it; the CRM has not, and knows the downstream key.
    restore(&early, &intake.ledger());
    assert_eq!(intake.register("acme", "order-1", INQUIRY), Ended::success(PENDING));
    assert_eq!(intake.work(), "acme order-1: created as 1 in the CRM\n");
    assert_eq!(intake.filed(), 1);
}

/// Puts a backup in the place of a database whose processes have all ended.
fn restore(backup: &Path, database: &Path) {
    for suffix in ["-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        assert!(!Path::new(&name).exists(), "the last process to close a database writes its log back");
    }
    std::fs::copy(backup, database).unwrap();
}

#[test]
fn s_89_created_false_does_not_mean_finished() {
    let intake = Intake::new();
    assert_eq!(intake.register("acme", "order-1", INQUIRY), Ended::success(CREATED));
    assert_eq!(intake.register("acme", "order-1", INQUIRY), Ended::success(PENDING));
    assert_eq!((intake.status("order-1").as_str(), intake.shown("order-1", "crm_id")), ("pending", None));

    assert_eq!(intake.work(), "acme order-1: created as 1 in the CRM\n");
    assert_eq!(intake.register("acme", "order-2", INQUIRY), Ended::success(CREATED));
    let crm = WriteLock::take(intake.crm());
    let mut command = intake.working();
    let worker = Running::start(command.env("LOCK_WAIT_MS", "600000").stdout(Stdio::piped()));
    until("the worker claims", || (intake.status("order-2") == "processing").then_some(()));
    let processing = Ended::success("{'created': False, 'status': 'processing'}\n");
    assert_eq!(intake.register("acme", "order-2", INQUIRY), processing);
    drop(crm);
    assert_eq!(worker.end(), Ended::success("acme order-2: created as 2 in the CRM\n"));
    let completed = Ended::success("{'created': False, 'status': 'completed'}\n");
    assert_eq!(intake.register("acme", "order-2", INQUIRY), completed);
}

#[test]
fn s_90_after_a_crash_behind_the_crm_write_the_next_worker_finds_it() {
    let intake = Intake::new();
    assert_eq!(intake.work(), "", "it makes the CRM");
    assert_eq!(intake.register("acme", "order-1", INQUIRY), Ended::success(CREATED));
    let crm = WriteLock::take(intake.crm());
    let worker = intake.worker_at_the_crm(&crm);
    // From here on the worker can write to the CRM, and not to the ledger.
    let ledger = WriteLock::take(intake.ledger());
    drop(crm);
    until("the CRM has the request", || (intake.filed() == 1).then_some(()));
    worker.kill();
    drop(ledger);

    assert_eq!(intake.work_until_done(), "acme order-1: found as 1 in the CRM\n");
    assert_eq!(intake.filed(), 1);
    assert_eq!(intake.status("order-1"), "completed");
    assert_eq!(intake.shown("order-1", "attempts").unwrap(), "2");
    let external_id: String = query(intake.crm(), "SELECT external_id FROM requests");
    assert_eq!(external_id, id("order-1").downstream_key().to_string());
}

#[test]
fn s_90_after_a_crash_before_the_crm_write_the_next_worker_files_it() {
    let intake = Intake::new();
    assert_eq!(intake.work(), "", "it makes the CRM");
    assert_eq!(intake.register("acme", "order-1", INQUIRY), Ended::success(CREATED));
    let crm = WriteLock::take(intake.crm());
    intake.worker_at_the_crm(&crm).kill();
    drop(crm);

    assert_eq!(intake.work_until_done(), "acme order-1: created as 1 in the CRM\n");
    assert_eq!((intake.filed(), intake.status("order-1").as_str()), (1, "completed"));
}

#[test]
fn a_locked_crm_leaves_the_request_pending() {
    let intake = Intake::new();
    assert_eq!(intake.work(), "", "it makes the CRM");
    assert_eq!(intake.register("acme", "order-1", INQUIRY), Ended::success(CREATED));
    let crm = WriteLock::take(intake.crm());
    let ended = run(intake.working().env("LOCK_WAIT_MS", "50"));
    let said = "acme order-1: nothing happened, the same key may run again: the CRM is locked\n";
    assert_eq!(ended, Ended::success(said));
    assert_eq!(intake.status("order-1"), "pending");
    drop(crm);
    assert_eq!(intake.work(), "acme order-1: created as 1 in the CRM\n");
}

#[test]
fn every_pending_request_is_filed_once() {
    let intake = Intake::new();
    for number in 0..5 {
        assert_eq!(intake.register("acme", &format!("order-{number}"), INQUIRY), Ended::success(CREATED));
    }
    assert_eq!(intake.work().lines().count(), 5);
    assert_eq!(intake.work(), "");
    assert_eq!(intake.filed(), 5);
}

#[test]
fn s_92_two_files_are_two_ledgers() {
    let folder = Folder::new();
    let (one, other) = (folder.file("one.sqlite3"), folder.file("other.sqlite3"));
    assert_eq!(run(&mut registering(&one, "acme", "order-1", INQUIRY)), Ended::success(CREATED));
    assert_eq!(run(&mut registering(&other, "acme", "order-1", OTHER)), Ended::success(CREATED));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let shared = runtime.block_on(async { SqliteStore::open(one).await.unwrap().capabilities().shared });
    assert!(!shared);
}

#[test]
fn what_is_no_command_and_no_request_is_said() {
    let intake = Intake::new();
    for arguments in [&["register"][..], &["work", "x"], &["demo", "x"], &["--help"], &["status", "a", "b"]] {
        let ended = run(example("request_ledger").args(arguments).current_dir(intake.folder.path()));
        assert_eq!((ended.stdout.as_str(), ended.exit), ("", Some(64)), "{arguments:?}");
        assert!(ended.stderr.starts_with("usage: request_ledger "), "{}", ended.stderr);
    }
    let mut unknown = example("request_ledger");
    unknown.arg("status").arg(intake.ledger()).args(["acme", "order-1"]);
    assert_eq!(run(&mut unknown), Ended::refusal(1, "no such request"));
    let mut odd = intake.registering("acme", "order-1", INQUIRY);
    let refused = Ended::refusal(64, "LOCK_WAIT_MS is not a number of milliseconds");
    assert_eq!(run(odd.env("LOCK_WAIT_MS", "2s")), refused);
}
