//! Drafts as their users see them (S-02 to S-24).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that fails says where"
)]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use idem_core::record::State;
use idem_core::{Fingerprint, OperationId};
use idem_sqlite::rusqlite::Connection;
use support::{
    Ended, Folder, Running, WriteLock, example, execute, query, record, records, run, until, wait_in_vain,
};

const CONFLICT: &str = "Conflict: event_id already used with a different payload";

/// The databases of one test.
struct Drafts {
    folder: Folder,
}

impl Drafts {
    fn new() -> Self {
        Self { folder: Folder::new() }
    }

    fn db(&self) -> PathBuf {
        self.folder.file("d.sqlite3")
    }

    fn drafting(&self, event_id: &str, body: &str) -> Command {
        let mut command = example("drafts");
        command.arg(self.db()).args([event_id, body]);
        command
    }

    fn draft(&self, event_id: &str, body: &str) -> Ended {
        run(&mut self.drafting(event_id, body))
    }

    /// Everything that the program keeps: the drafts, and the ledger's records.
    fn kept(&self) -> (Vec<Row>, Vec<idem_core::Record>) {
        (rows(&self.db()), records(self.db()))
    }

    fn rows(&self) -> i64 {
        query(self.db(), "SELECT count(*) FROM drafts")
    }
}

/// Draft id, event id, body and status.
type Row = (i64, String, String, String);

fn rows(db: &Path) -> Vec<Row> {
    let connection = Connection::open(db).unwrap();
    let all = "SELECT draft_id, event_id, body, status FROM drafts ORDER BY draft_id";
    let mut statement = connection.prepare(all).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

fn id(event_id: &str) -> OperationId {
    OperationId::new("local", "draft.create/v1", event_id).unwrap()
}

/// The success that names draft `number`, byte for byte.
fn made(number: u32) -> Ended {
    Ended::success(&format!("{{\"draft_id\": {number}, \"status\": \"draft\"}}\n"))
}

/// A pipe that is full, so that whoever writes to it next waits; and what it was filled with.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter, usize) {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let (reader, mut writer) = std::io::pipe().unwrap();
    let blocking = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, blocking | OFlags::NONBLOCK).unwrap();
    let mut filled = 0;
    for chunk in [4096, 1] {
        loop {
            match writer.write(&vec![b'#'; chunk]) {
                Ok(written) => filled += written,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    fcntl_setfl(&writer, blocking).unwrap();
    (reader, writer, filled)
}

#[test]
fn s_02_killed_after_the_commit_and_before_printing_the_rerun_prints_the_original() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-1", "another"), made(1));
    let (mut reader, writer, filled) = full_pipe();
    let mut command = drafts.drafting("evt-42", "Hello");
    let program = Running::start(command.stdout(writer));
    // The command still holds the pipe's other end.
    drop(command);
    let committed = || record(drafts.db(), &id("evt-42")).filter(|record| record.state == State::Completed);
    until("the draft is committed", || committed().map(|_| ()));
    program.kill();
    let mut said = Vec::new();
    reader.read_to_end(&mut said).unwrap();
    assert_eq!(said.len(), filled, "it printed nothing");
    let before = drafts.kept();

    assert_eq!(drafts.draft("evt-42", "Hello"), made(2));
    assert_eq!(drafts.kept(), before);
    assert_eq!(drafts.draft("evt-43", "Hello"), made(3), "the killed one holds no lock");
}

#[test]
fn s_02_an_output_that_nobody_reads_any_more_is_said_and_the_rerun_prints_it() {
    let drafts = Drafts::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = drafts.drafting("evt-42", "Hello");
    let ended = Running::start(command.stdout(writer).stderr(Stdio::piped())).end();
    assert_eq!(ended.exit, Some(74));
    assert!(ended.stderr.starts_with("the draft is stored, and could not be printed: "), "{}", ended.stderr);
    assert_eq!(drafts.draft("evt-42", "Hello"), made(1));
}

#[test]
fn s_07_an_edit_of_white_space_case_or_normal_form_is_another_payload() {
    let drafts = Drafts::new();
    let edits: [(&str, &[&str]); 3] = [
        (
            "Hello",
            &["Hello ", " Hello", "Hello\n", "Hel lo", "hello", "HELLO", "Ｈello", "Hello\u{200b}", ""],
        ),
        // NFC and NFD of the same text, each against the other.
        ("caf\u{e9}", &["cafe\u{301}", "CAF\u{c9}"]),
        ("cafe\u{301}", &["caf\u{e9}"]),
    ];
    for (number, (body, edits)) in (1_u32..).zip(edits) {
        let event_id = format!("evt-{number}");
        assert_eq!(drafts.draft(&event_id, body), made(number));
        for edit in edits {
            assert_eq!(drafts.draft(&event_id, edit), Ended::refusal(2, CONFLICT), "{body:?} as {edit:?}");
        }
        assert_eq!(drafts.draft(&event_id, body), made(number));
    }
    assert_eq!(drafts.rows(), 3);
}

#[test]
fn s_08_a_fresh_database_gets_the_first_draft() {
    let drafts = Drafts::new();
    let mut command = example("drafts");
    command.current_dir(drafts.folder.path()).args(["d.sqlite3", "evt-42", "Hello"]);
    assert_eq!(run(&mut command), Ended::success("{\"draft_id\": 1, \"status\": \"draft\"}\n"));
}

#[test]
fn s_09_the_same_command_again_says_the_same() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-42", "Hello"), made(1));
    let before = drafts.kept();
    for _ in 0..3 {
        assert_eq!(drafts.draft("evt-42", "Hello"), made(1));
    }
    assert_eq!(drafts.kept(), before);
}

#[test]
fn s_10_a_changed_payload_is_a_conflict_and_changes_nothing() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-42", "Hello"), made(1));
    let before = drafts.kept();
    let expected = "Conflict: event_id already used with a different payload\n";
    let ended = drafts.draft("evt-42", "Changed");
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str(), ended.exit), ("", expected, Some(2)));
    assert_eq!(drafts.kept(), before);
}

#[test]
fn s_10_usage_errors_have_another_status() {
    let drafts = Drafts::new();
    for arguments in
        [&[][..], &["d.sqlite3"], &["d.sqlite3", "evt-42"], &["d.sqlite3", "evt-42", "Hello", "x"]]
    {
        let ended = run(example("drafts").args(arguments).current_dir(drafts.folder.path()));
        assert_eq!((ended.stdout.as_str(), ended.exit), ("", Some(64)), "{arguments:?}");
        assert!(ended.stderr.starts_with("usage: drafts DB EVENT_ID BODY\n"), "{}", ended.stderr);
    }
    let mut odd = drafts.drafting("evt-42", "Hello");
    let refused = Ended::refusal(64, "LOCK_WAIT_MS is not a number of milliseconds");
    assert_eq!(run(odd.env("LOCK_WAIT_MS", "5s")), refused);
    assert!(drafts.folder.is_empty(), "nothing was made");
}

#[test]
fn s_12_deleting_the_database_forgets() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-1", "another"), made(1));
    assert_eq!(drafts.draft("evt-42", "Hello"), made(2));
    for suffix in ["", "-wal", "-shm"] {
        // The last process to close the database removes the other two, if it was not killed.
        drop(std::fs::remove_file(drafts.folder.file(&format!("d.sqlite3{suffix}"))));
    }
    assert!(drafts.folder.is_empty());
    assert_eq!(drafts.draft("evt-42", "Changed"), made(1));
}

#[test]
fn s_15_hostile_event_ids_are_stored_verbatim() {
    let drafts = Drafts::new();
    let longest = "é".repeat(256);
    let hostile = [
        "'; DROP TABLE drafts; --",
        "\" OR 1=1 --",
        "\\'; DELETE FROM idem_operations; --",
        "evt-%_*?",
        "--help",
        "-",
        "NULL",
        "0",
        "00",
        " evt",
        "evt ",
        "EVT",
        "evt",
        "../../etc/passwd",
        "{\"draft_id\": 7}",
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{202e}tve",
        "\u{feff}evt",
        "🦀\u{200d}🦀",
        longest.as_str(),
    ];
    for (number, event_id) in (1..).zip(hostile) {
        assert_eq!(drafts.draft(event_id, event_id), made(number), "{event_id:?}");
    }
    for (number, event_id) in (1..).zip(hostile) {
        assert_eq!(drafts.draft(event_id, event_id), made(number), "{event_id:?} again");
        assert_eq!(drafts.draft(event_id, "Changed"), Ended::refusal(2, CONFLICT), "{event_id:?} changed");
    }
    let (rows, records) = drafts.kept();
    let ids: Vec<_> = rows.iter().map(|(_, event_id, ..)| event_id.as_str()).collect();
    let bodies: Vec<_> = rows.iter().map(|(_, _, body, _)| body.as_str()).collect();
    assert_eq!((ids, bodies), (hostile.to_vec(), hostile.to_vec()));
    let mut keys: Vec<_> = records.iter().map(|record| record.id.key()).collect();
    let mut hostile = hostile.to_vec();
    keys.sort_unstable();
    hostile.sort_unstable();
    assert_eq!(keys, hostile);
}

#[test]
fn s_15_what_is_no_key_is_refused_before_anything_is_made() {
    let drafts = Drafts::new();
    let too_long = "x".repeat(513);
    for bad in ["", " ", "\u{2003}\u{a0}", "evt\n", "evt\u{7f}", "\u{85}evt", too_long.as_str()] {
        let ended = drafts.draft(bad, "Hello");
        assert_eq!((ended.stdout.as_str(), ended.exit), ("", Some(64)), "{bad:?}");
        assert!(ended.stderr.contains("(G-02)"), "{}", ended.stderr);
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let mut command = example("drafts");
        command.arg(drafts.db()).arg(std::ffi::OsStr::from_bytes(b"evt-\xff")).arg("Hello");
        assert_eq!(run(&mut command), Ended::refusal(64, "EVENT_ID and BODY have to be UTF-8"));
    }
    assert!(drafts.folder.is_empty(), "nothing was made");
}

#[test]
fn s_17_the_same_line_after_others_have_made_later_drafts() {
    let drafts = Drafts::new();
    for number in 1..=5 {
        assert_eq!(drafts.draft(&format!("evt-{number}"), "Hello"), made(number));
    }
    for number in 1..=5 {
        assert_eq!(drafts.draft(&format!("evt-{number}"), "Hello"), made(number));
    }
    assert_eq!(drafts.rows(), 5);
}

#[test]
fn s_18_a_draft_is_one_row_and_one_completed_record() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-42", "Hello"), made(1));
    let (rows, records) = drafts.kept();
    assert_eq!(rows, [(1, "evt-42".to_owned(), "Hello".to_owned(), "draft".to_owned())]);
    assert_eq!(records.len(), 1);
    assert_eq!((&records[0].id, records[0].state), (&id("evt-42"), State::Completed));
    assert_eq!(records[0].fingerprint, Some(Fingerprint::bytes(b"Hello")));
    let record = record(drafts.db(), &id("evt-42")).unwrap();
    assert_eq!(record.outcome.unwrap().body().unwrap(), "{\"draft_id\":1,\"status\":\"draft\"}");
}

#[test]
fn s_19_processes_at_the_same_time_make_one_draft_and_say_the_same() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-1", "another"), made(1));
    // While it is held nobody can be done before all have started.
    let lock = WriteLock::take(drafts.db());
    let start = |_| {
        let mut command = drafts.drafting("evt-42", "Hello");
        command.env("LOCK_WAIT_MS", "600000").stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::start(&mut command)
    };
    let programs: Vec<_> = (0..8).map(start).collect();
    drop(lock);
    for program in programs {
        assert_eq!(program.end(), made(2));
    }
    assert_eq!((drafts.rows(), records(drafts.db()).len()), (2, 2));
}

#[test]
fn s_19_processes_at_the_same_time_make_the_missing_database_together() {
    let drafts = Drafts::new();
    let start = |_| {
        let mut command = drafts.drafting("evt-42", "Hello");
        command.env("LOCK_WAIT_MS", "600000").stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::start(&mut command)
    };
    let programs: Vec<_> = (0..8).map(start).collect();
    for program in programs {
        assert_eq!(program.end(), made(1));
    }
    assert_eq!((drafts.rows(), records(drafts.db()).len()), (1, 1));
}

#[test]
fn s_20_data_is_unchanged_after_a_conflict_between_replays() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-42", "Hello"), made(1));
    let before = drafts.kept();
    for _ in 0..2 {
        assert_eq!(drafts.draft("evt-42", "Changed"), Ended::refusal(2, CONFLICT));
        assert_eq!(drafts.draft("evt-42", "Hello"), made(1));
    }
    assert_eq!(drafts.kept(), before);
}

#[test]
fn s_21_two_events_with_the_same_body_make_two_drafts() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-42", "Hello"), made(1));
    assert_eq!(drafts.draft("evt-43", "Hello"), made(2));
    assert_eq!((drafts.rows(), records(drafts.db()).len()), (2, 2));
}

/// Makes an insert into `table` fail as `how` says, and checks that nothing is left of a draft; then that the same
/// command works once the fault is gone.
fn fails_without_a_trace(table: &str, how: &str, says: &str) {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-1", "another"), made(1));
    let before = drafts.kept();
    execute(
        drafts.db(),
        &format!("CREATE TRIGGER fault AFTER INSERT ON {table} BEGIN SELECT RAISE({how}, 'injected'); END"),
    );
    for _ in 0..2 {
        let ended = run(drafts.drafting("evt-42", "Hello").env("VERBOSE", "1"));
        assert_eq!((ended.stdout.as_str(), ended.exit), ("", Some(70)), "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
        assert_eq!(
            ended.stderr.lines().count(),
            1,
            "a fault that lasts is not tried again: {}",
            ended.stderr
        );
        assert_eq!(drafts.kept(), before, "{how} in {table} left something");
    }
    assert_eq!(drafts.draft("evt-1", "another"), made(1), "a replay writes nothing");
    execute(drafts.db(), "DROP TRIGGER fault");
    assert_eq!(drafts.draft("evt-42", "Hello"), made(2));
}

#[test]
fn s_22_a_failure_in_the_bookkeeping_leaves_no_orphan_draft() {
    for how in ["ABORT", "FAIL", "ROLLBACK"] {
        fails_without_a_trace("idem_operations", how, "SQLite refused a statement of the ledger");
    }
}

#[test]
fn s_22_a_failure_in_the_draft_leaves_no_record() {
    for how in ["ABORT", "FAIL", "ROLLBACK"] {
        fails_without_a_trace(
            "drafts",
            how,
            "no draft was made: nothing happened, the same key may run again: injected",
        );
    }
}

#[test]
fn s_23_a_held_write_lock_is_waited_for_and_then_said() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-1", "another"), made(1));
    let before = drafts.kept();
    let lock = WriteLock::take(drafts.db());
    // Twice: with a short wait, and with the wait that it has when nobody says anything.
    for wait_ms in [Some("40"), None] {
        let mut command = drafts.drafting("evt-42", "Hello");
        let ended = run(match wait_ms {
            Some(wait_ms) => command.env("LOCK_WAIT_MS", wait_ms),
            None => &mut command,
        });
        assert_eq!((ended.stdout.as_str(), ended.exit), ("", Some(69)));
        let waited = format!("no draft was made, after 4 tries in {} ms: ", wait_ms.unwrap_or("5000"));
        assert!(ended.stderr.starts_with(&waited), "{}", ended.stderr);
        assert!(ended.stderr.contains("locked by another process"), "{}", ended.stderr);
    }
    // What needs no write does not wait for it.
    assert_eq!(drafts.draft("evt-1", "another"), made(1));
    assert_eq!(drafts.draft("evt-1", "Changed"), Ended::refusal(2, CONFLICT));
    drop(lock);
    assert_eq!(drafts.kept(), before);
    assert_eq!(drafts.draft("evt-42", "Hello"), made(2));
}

#[test]
fn s_23_all_tries_together_wait_as_long_as_it_says() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-1", "another"), made(1));
    let _lock = WriteLock::take(drafts.db());
    let mut command = drafts.drafting("evt-42", "Hello");
    let mut program = Running::start(command.env("LOCK_WAIT_MS", "1500").stderr(Stdio::null()));
    wait_in_vain(drafts.db(), Duration::from_millis(4500));
    assert!(program.has_ended(), "it goes on waiting");
    assert_eq!(program.end().exit, Some(69));
}

#[test]
fn s_24_a_retry_keeps_key_and_payload() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-1", "another"), made(1));
    let lock = WriteLock::take(drafts.db());
    let mut command = drafts.drafting("evt-42", "Hello");
    // The first of the four tries fails after 3 s; the others wait for the lock, which is free long before they end.
    command.env("LOCK_WAIT_MS", "12000").env("VERBOSE", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut program = Running::start(&mut command);
    let mut stderr = BufReader::new(program.child().stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    assert!(first.starts_with("try 1 of 4: "), "{first}");
    drop(lock);
    assert_eq!(program.end(), made(2));
    let (rows, records) = drafts.kept();
    assert_eq!(rows[1..], [(2, "evt-42".to_owned(), "Hello".to_owned(), "draft".to_owned())]);
    assert_eq!(records.len(), 2);
    let record = record(drafts.db(), &id("evt-42")).unwrap();
    assert_eq!(record.fingerprint, Some(Fingerprint::bytes(b"Hello")));
    assert_eq!((record.attempt_number(), record.earlier.len()), (1, 0));
}

#[test]
fn s_24_a_conflict_is_never_retried_and_retries_are_bounded() {
    let drafts = Drafts::new();
    assert_eq!(drafts.draft("evt-42", "Hello"), made(1));
    let mut changed = drafts.drafting("evt-42", "Changed");
    assert_eq!(run(changed.env("VERBOSE", "1")), Ended::refusal(2, CONFLICT));
    let _lock = WriteLock::take(drafts.db());
    let mut new = drafts.drafting("evt-43", "Hello");
    let ended = run(new.env("VERBOSE", "1").env("LOCK_WAIT_MS", "40"));
    let said: Vec<_> = ended.stderr.lines().map(|line| line.split(':').next().unwrap()).collect();
    let tries = ["try 1 of 4", "try 2 of 4", "try 3 of 4", "no draft was made, after 4 tries in 40 ms"];
    assert_eq!(said, tries);
}
