//! Input that nobody would give on purpose, and stores that are not there.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails says where")]

mod common;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use common::{Place, finish, until};

#[test]
fn arguments_need_not_be_text() {
    let place = Place::new();
    let odd = OsStr::from_bytes(b"\xff\xfe");
    let run = |word: &OsStr| {
        let fixed = ["run", "--key", "k", "--", "printf", "%s"].map(OsString::from);
        let out = place.command(fixed.iter().map(OsString::as_os_str).chain([word])).output().unwrap();
        (out.status.code(), out.stdout)
    };
    for _ in 0..2 {
        assert_eq!(run(odd), (Some(0), b"\xff\xfe".to_vec()));
    }
    assert_eq!(run(OsStr::from_bytes(b"\xff\xfd")).0, Some(65));
    let args = [OsStr::new("run"), OsStr::new("--key"), odd, OsStr::new("--"), OsStr::new("true")];
    place.idem(args).says(64, "the key is not UTF-8");
    let args = [OsStr::new("run"), OsStr::new("--key"), OsStr::new("k"), OsStr::new("--"), odd];
    place.idem(args).says(64, "the command's name is not UTF-8: name the operation with --operation");
}

#[test]
fn hostile_keys_and_options_of_the_command_are_taken_as_they_are() {
    let place = Place::new();
    for key in
        ["'; DROP TABLE operations; --", "$(touch owned)", "-k", "../../etc", "\u{202e}", "ключ", "%s%n"]
    {
        let key_option = format!("--key={key}");
        let args = ["run", &key_option, "--", "sh", "-c", "printf %s \"$IDEM_KEY\"", "--key", "-E", "--"];
        for _ in 0..2 {
            assert_eq!(place.idem(args).parts(), (Some(0), key, ""));
        }
        let shown = place.idem(["show", "--json", &key_option]).json();
        assert_eq!(shown["key"], key);
    }
    assert!(!place.path("owned").exists());
}

#[test]
fn a_huge_command_line_is_fingerprinted_and_run() {
    let place = Place::new();
    let word = "x".repeat(100_000);
    let mut args = vec!["run", "--key", "k", "--", "sh", "-c", "echo $# ${#1}", "sh"];
    args.extend(std::iter::repeat_n(word.as_str(), 10));
    for _ in 0..2 {
        assert_eq!(place.idem(&args).parts(), (Some(0), "10 100000\n", ""));
    }
    args.pop();
    place.idem(&args).says(65, "the key was used for another command");
}

#[test]
fn a_ledger_that_cannot_be_is_told_before_anything_runs() {
    let place = Place::new();
    std::fs::create_dir(place.path("folder")).unwrap();
    std::os::unix::fs::symlink("loop", place.path("loop")).unwrap();
    place.write("file", "x");
    place.write("garbage", [7; 5000]);
    for store in [
        "folder",
        "file/ledger.db",
        "missing/ledger.db",
        "garbage",
        "sqlite:",
        "loop",
        "/dev/null",
        "/dev/full",
    ] {
        let out =
            place.idem(["run", "--key", "k", "--store", store, "--", "sh", "-c", "echo run >> runs.txt"]);
        out.says(78, "");
        assert!(out.stderr.ends_with("; the command was not run\n"), "{out:?}");
    }
    let mut schemes = vec![
        ("postgres://host/db", "this build of idem has no store for postgres: URLs (feature `postgres`)"),
        ("dynamodb:table", "this build of idem has no store for dynamodb: URLs (feature `dynamodb`)"),
        ("mysql://host", "there is no store for mysql: URLs"),
    ];
    if !cfg!(feature = "redis") {
        schemes.push(("redis://host", "this build of idem has no store for redis: URLs (feature `redis`)"));
    }
    for (store, says) in schemes {
        place.idem(["run", "--key", "k", "--store", store, "--", "true"]).says(78, says);
        place.idem(["list", "--store", store]).says(78, says);
    }
    assert_eq!(place.runs(), 0);
    assert_eq!(std::fs::read(place.path("garbage")).unwrap(), [7; 5000]);
}

#[test]
fn a_look_changes_no_file_that_is_no_ledger() {
    let place = Place::new();
    let app = rusqlite::Connection::open(place.path("ledger.db")).unwrap();
    app.execute_batch("CREATE TABLE mine (a)").unwrap();
    drop(app);
    let before = std::fs::read(place.path("ledger.db")).unwrap();
    for content in [before.as_slice(), b""] {
        place.write("ledger.db", content);
        for command in [
            "list",
            "stats",
            "sweep",
            "show --key k",
            "erase --key k",
            "resolve --key k --did-not-happen --reason r",
        ] {
            place.idem(command.split(' ')).says(78, "there is no ledger in ");
            assert_eq!(std::fs::read(place.path("ledger.db")).unwrap(), content, "{command}");
        }
        assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 1);
    }
    assert_eq!(
        place.sh("--key k", "echo hello").parts(),
        (Some(0), "hello\n", ""),
        "whoever runs may make one"
    );
}

#[test]
fn a_process_that_may_open_few_files_is_told_so_or_does_all() {
    let place = Place::new();
    place.write("in", "x");
    let idem = env!("CARGO_BIN_EXE_idem");
    let (mut refused, mut done) = (0, 0);
    // With fewer the program itself is not loaded.
    for limit in 6..44 {
        let options = format!("--key k{limit} --input in --fingerprint-file in --report report.json");
        for command in [format!("run {options} -- sh -c 'echo run >> runs.txt'"), "migrate".to_owned()] {
            let limited = format!("ulimit -n {limit}; exec {idem} {command}");
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &limited]).current_dir(place.path("")).env("IDEM_STORE", "ledger.db");
            let out: common::Out = shell.output().unwrap().into();
            if out.code == Some(0) {
                done += 1;
            } else {
                refused += 1;
                out.says(69, "fewer than 32 more files can be opened: raise the limit (ulimit -n)");
            }
        }
    }
    assert!(refused > 0 && done > 0, "{refused} {done}");
    assert_eq!(place.idem(["list", "--json"]).stdout.lines().count(), place.runs());
    let states = place.idem(["stats", "--json"]).json();
    assert_eq!(states["completed"].as_u64(), u64::try_from(place.runs()).ok());
}

#[test]
fn the_default_ledger_is_in_a_private_folder_of_the_state_directory() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let run = |name: &str, value: &OsStr| {
        let mut command = place.command(["run", "--key", "k", "--", "echo", "hello"]);
        command.env("IDEM_STORE", "").env_remove("HOME").env(name, value).output().unwrap()
    };
    assert_eq!(run("XDG_STATE_HOME", place.path("state").as_os_str()).stdout, b"hello\n");
    let folder = place.path("state/idem");
    assert!(folder.join("ledger.db").exists());
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(run("HOME", place.path("home").as_os_str()).stdout, b"hello\n");
    assert!(place.path("home/.local/state/idem/ledger.db").exists());
    let out: common::Out = run("HOME", OsStr::new("")).into();
    out.says(78, "neither XDG_STATE_HOME nor HOME is set");
}

#[test]
fn a_ledger_that_is_locked_is_unavailable_before_the_claim() {
    let place = Place::new();
    place.idem(["migrate"]);
    let store = rusqlite::Connection::open(place.path("ledger.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    let out = place.sh("--key k", "echo run >> runs.txt");
    store.execute_batch("ROLLBACK").unwrap();
    out.says(69, "");
    assert!(out.stderr.ends_with("; the command was not run\n"), "{out:?}");
    assert_eq!(place.runs(), 0);
    assert_eq!(place.sh("--key k", "echo run >> runs.txt").code, Some(0));
}

#[test]
fn a_ledger_that_goes_away_after_the_command_began_is_uncertain() {
    let place = Place::new();
    place.idem(["migrate"]);
    let script = "echo run >> runs.txt; while [ ! -e go ]; do sleep 0.02; done; echo done";
    let holder = place.sh_command("--key k --lease 3s", script).spawn().unwrap();
    until("the command runs", || place.runs() == 1);
    let store = rusqlite::Connection::open(place.path("ledger.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    place.write("go", "");
    let out = finish(holder);
    store.execute_batch("ROLLBACK").unwrap();
    out.says(76, "the command ran, and the store did not confirm its end");
    assert_eq!(out.stdout, "done\n");
    place.sh("--key k --wait 1m", script).says(76, "uncertain since ");
    assert_eq!(place.runs(), 1);
}
