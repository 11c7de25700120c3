//! `idem run`: once per key, and the same answer for everybody.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails says where")]

mod common;

use common::Place;

const HELLO: &str = "echo run >> runs.txt; echo hello";

#[test]
fn the_second_call_gets_the_first_output() {
    let place = Place::new();
    for _ in 0..2 {
        assert_eq!(place.sh("--key evt-42", HELLO).parts(), (Some(0), "hello\n", ""));
    }
    assert_eq!(place.runs(), 1);
}

#[test]
fn a_changed_command_is_a_conflict() {
    let place = Place::new();
    place.sh("--key evt-42", HELLO);
    let out = place.sh("--key evt-42", "echo run >> runs.txt; echo changed");
    assert_eq!(
        out.parts(),
        (
            Some(65),
            "",
            "idem: the key was used for another command or input: use a new key for a new intent\n"
        )
    );
    assert_eq!(place.runs(), 1);
}

#[test]
fn keys_tenants_and_operations_are_told_apart() {
    let place = Place::new();
    let names = ["--key a", "--key b", "--key a --tenant t", "--key a --operation o", "--key A"];
    for options in names.iter().chain(&names) {
        assert_eq!(place.sh(options, HELLO).code, Some(0));
    }
    assert_eq!(place.runs(), 5);
}

#[test]
fn stdout_stderr_and_exit_status_are_replayed_byte_by_byte() {
    let place = Place::new();
    let script = r"echo run >> runs.txt; printf 'a\000\377\r\n'; printf 'e\200' >&2; exit 3";
    for _ in 0..2 {
        let out = place.sh_command("--key bytes", script).output().unwrap();
        assert_eq!(out.status.code(), Some(3));
        assert_eq!(out.stdout, b"a\0\xff\r\n");
        assert_eq!(out.stderr, b"e\x80");
    }
    assert_eq!(place.runs(), 1);
}

#[test]
fn every_exit_status_comes_back() {
    let place = Place::new();
    for status in [0, 1, 2, 75, 126, 127, 130, 255] {
        for _ in 0..2 {
            let out = place.sh(&format!("--key s{status}"), &format!("echo run >> runs.txt; exit {status}"));
            assert_eq!(out.parts(), (Some(status), "", ""));
        }
    }
    assert_eq!(place.runs(), 8);
}

#[test]
fn the_command_knows_its_attempt() {
    let place = Place::new();
    let out = place.sh(
        "--key evt-42 --tenant acme --operation greet/v1",
        "echo \"$IDEM_KEY $IDEM_TENANT $IDEM_OPERATION $IDEM_ATTEMPT $IDEM_MODE\"; \
         echo $IDEM_FENCE; echo $IDEM_DOWNSTREAM_KEY; echo $IDEM_LEASE_UNTIL_MS",
    );
    let lines: Vec<_> = out.stdout.lines().collect();
    assert_eq!(lines[0], "evt-42 acme greet/v1 1 execute");
    let record = place.idem(["show", "--json", "--tenant", "acme", "--key", "evt-42"]).json();
    assert_eq!(lines[1], record["fence"].to_string());
    assert_eq!(lines[2], record["downstream_key"].as_str().unwrap());
    assert!(lines[3].parse::<u64>().unwrap() > record["created_ms"].as_u64().unwrap());
}

#[test]
fn bad_keys_are_refused_and_nothing_is_stored() {
    let place = Place::new();
    let long = "x".repeat(513);
    let wrong = [
        (vec!["--key", ""], "the idempotency key is empty"),
        (vec!["--key", " \u{2003}"], "the idempotency key is only white space"),
        (vec!["--key", "a\nb"], "the idempotency key holds a control character"),
        (vec!["--key", "a\u{9b}b"], "the idempotency key holds a control character"),
        (vec!["--key", &long], "the idempotency key has 513 bytes, more than 512"),
        (vec!["--key", "k", "--tenant", ""], "the tenant is empty"),
        (vec!["--key", "k", "--operation", ""], "the operation name is empty"),
        (vec![], "the following required arguments were not provided: --key <KEY>"),
        (vec!["--kye", "k"], "unexpected argument '--kye' found"),
        (vec!["--key", "k", "--lease", "0s"], "a lease is 1 ms to 7 days"),
        (vec!["--key", "k", "--lease", "8d"], "a lease is 1 ms to 7 days"),
        (vec!["--key", "k", "--wait", "soon"], "invalid value 'soon' for '--wait <D>'"),
        (vec!["--key", "k", "--input", "missing"], "the input missing cannot be read"),
        (vec!["--key", "k", "--fingerprint-file", "missing"], "missing cannot be read"),
        (vec!["--key", "k", "--on-crash", "rerun", "--reconcile", "true"], "--reconcile finds out"),
        (vec!["--key", "k", "--identity-ttl", "0s"], "identity_ttl is zero"),
        (vec!["--key", "k", "-E", "0"], "invalid value '0' for '-E <N>'"),
    ];
    for (options, sentence) in wrong {
        let args = ["run"].into_iter().chain(options).chain(["--", "sh", "-c", HELLO]);
        place.idem(args).says(64, sentence);
    }
    place.idem(["run", "--key", "k"]).says(64, "the following required arguments were not provided");
    place.idem(["run", "--key", "k", "sh", "-c", HELLO]).says(64, "unexpected argument 'sh' found");
    assert_eq!(place.runs(), 0);
    assert!(!place.has_ledger());
}

#[test]
fn a_command_that_cannot_be_started_leaves_the_key_free() {
    let place = Place::new();
    place.write("not-executable", "text");
    place
        .idem(["run", "--key", "k", "--operation", "o", "--", "./missing"])
        .says(127, "./missing was not found");
    place
        .idem(["run", "--key", "k", "--operation", "o", "--", "./not-executable"])
        .says(126, "./not-executable cannot be executed");
    // Not even the fingerprint is kept: another command may use the key.
    let out = place.sh("--key k --operation o", HELLO);
    assert_eq!(out.parts(), (Some(0), "hello\n", ""));
    assert_eq!(place.show("k")["attempt"], 3);
}

#[test]
fn a_failure_is_kept_given_back_or_parked_as_the_caller_says() {
    let place = Place::new();
    let fails = "echo run >> runs.txt; echo failed; exit 1";
    for _ in 0..2 {
        assert_eq!(place.sh("--key kept", fails).parts(), (Some(1), "failed\n", ""));
    }
    assert_eq!(place.runs(), 1);
    for _ in 0..2 {
        let out = place.sh("--key back --on-failure release", fails);
        out.says(1, "exit status 1: given back, the same key runs again");
        assert_eq!(out.stdout, "failed\n");
    }
    assert_eq!(place.runs(), 3);
    let out = place.sh("--key parked --on-failure park", fails);
    out.says(76, "uncertain: exit status 1 (--on-failure park)");
    assert_eq!(out.stdout, "failed\n");
    let out = place.sh("--key parked --on-failure park", fails);
    out.says(76, "uncertain since ");
    assert_eq!(out.stdout, "");
    assert_eq!(place.runs(), 4);
}

#[test]
fn some_exit_statuses_can_mean_that_nothing_happened() {
    let place = Place::new();
    let script = "echo run >> runs.txt; exit $(cat status)";
    for (status, says) in [("75", 75), ("111", 111)] {
        place.write("status", status);
        place.sh("--key k --release-on 75,111", script).says(says, "exit status");
    }
    place.write("status", "3");
    for _ in 0..2 {
        assert_eq!(place.sh("--key k --release-on 75,111", script).parts(), (Some(3), "", ""));
    }
    assert_eq!(place.runs(), 3);
}

#[test]
fn the_input_is_stdin_and_belongs_to_the_intent() {
    let place = Place::new();
    let script = "echo run >> runs.txt; cat";
    assert_eq!(place.sh("--key none", script).stdout, "", "stdin is empty unless it is given");
    place.write("in", "content");
    for _ in 0..2 {
        assert_eq!(place.sh("--key k --input in", script).parts(), (Some(0), "content", ""));
    }
    let out = place.sh_with_stdin("--key k --input -", script, b"content");
    assert_eq!(
        out.parts(),
        (Some(0), "content", ""),
        "it is the content that counts, not where it came from"
    );
    place.write("in", "changed");
    place.sh("--key k --input in", script).says(65, "the key was used for another");
    place.sh("--key k", script).says(65, "the key was used for another");
    place.sh("--key none --input /dev/null", script).says(65, "the key was used for another");
    assert_eq!(place.runs(), 2);
    let large = "x".repeat(300_000);
    let out = place.sh_with_stdin("--key large --input -", "wc -c", large.as_bytes());
    assert_eq!(out.stdout.trim(), "300000");
}

#[test]
fn variables_and_files_belong_to_the_intent_where_the_caller_says() {
    let place = Place::new();
    place.write("config", "1");
    let run = |options: &str, region: &str| {
        let options = format!("--key {options}");
        place.sh_command(&options, HELLO).env("REGION", region).output().unwrap().status.code()
    };
    assert_eq!(run("a", "north"), Some(0));
    assert_eq!(run("a", "south"), Some(0), "the environment is no part of the intent");
    assert_eq!(run("b --fingerprint-env REGION", "north"), Some(0));
    assert_eq!(run("b --fingerprint-env REGION", "north"), Some(0));
    assert_eq!(run("b --fingerprint-env REGION", "south"), Some(65));
    assert_eq!(run("c --fingerprint-file config", "north"), Some(0));
    place.write("config", "2");
    assert_eq!(run("c --fingerprint-file config", "north"), Some(65));
    assert_eq!(place.runs(), 3);
}

#[test]
fn what_has_expired_is_said_and_never_run_again() {
    let place = Place::new();
    assert_eq!(place.sh("--key k --response-ttl 0s", "echo run >> runs.txt; exit 3").code, Some(3));
    let out = place.sh("--key k", "echo run >> runs.txt; exit 3");
    out.says(77, "done at 2");
    assert!(out.stderr.contains("with exit status 3; its output is no longer kept"), "{out:?}");
    assert_eq!(place.runs(), 1);
}

#[test]
fn a_key_whose_identity_has_expired_runs_again() {
    let place = Place::new();
    for _ in 0..2 {
        assert_eq!(place.sh("--key k --identity-ttl 1ms", HELLO).code, Some(0));
    }
    assert_eq!(place.runs(), 2);
}

#[test]
fn all_answers_of_idem_can_have_one_exit_status() {
    let place = Place::new();
    assert_eq!(place.sh("--key k -E 99", "exit 75").code, Some(75), "the command's own");
    assert_eq!(place.sh("--key k -E 99", "exit 75").code, Some(75), "and replayed");
    for (out, sentence) in [
        (place.sh("--key k -E 99", HELLO), "the key was used"),
        (place.sh("-E 99 --key ", HELLO), "a value is required"),
        (place.idem(["run", "-E", "99", "--key", "", "--", "true"]), "the idempotency key is empty"),
        (place.sh("-E 99 --kye k", HELLO), "unexpected argument '--kye' found"),
        (place.idem(["run", "-E", "99", "--key", "m", "--", "./missing"]), "./missing was not found"),
        (
            place.idem(["run", "-E", "99", "--key", "m", "--store", "mysql:x", "--", "true"]),
            "there is no store",
        ),
    ] {
        out.says(99, sentence);
    }
}

#[test]
fn idem_is_quiet_when_told() {
    let place = Place::new();
    place.sh("--key k", HELLO);
    assert_eq!(place.sh("--key k -q", "exit 1").parts(), (Some(65), "", ""));
    assert_eq!(place.idem(["run", "--quiet", "--key", "", "--", "true"]).parts(), (Some(64), "", ""));
}

#[test]
fn the_report_tells_what_happened() {
    let place = Place::new();
    let report = |options: &str, script: &str| {
        let out = place.sh(&format!("--report report.json {options}"), script);
        let json: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
        std::fs::remove_file(place.path("report.json")).unwrap();
        assert_eq!(json["exit"].as_i64(), out.code.map(i64::from), "{json} {out:?}");
        let keys: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        let mut names = ["answer", "state", "attempt", "fence", "exit", "bytes"].map(str::to_owned).to_vec();
        names.sort();
        let mut sorted = keys;
        sorted.sort();
        assert_eq!(sorted, names);
        json
    };
    let json = report("--key k", "echo hello; echo err >&2; exit 3");
    let fence = json["fence"].as_u64().unwrap();
    let expected = |answer: &str, exit: u8| {
        serde_json::json!({
            "answer": answer, "state": "completed", "attempt": 1, "fence": fence, "exit": exit, "bytes": 10
        })
    };
    assert_eq!(json, expected("executed", 3));
    assert_eq!(report("--key k", "echo hello; echo err >&2; exit 3"), expected("replayed", 3));
    let json = report("--key k", "true");
    assert_eq!((json["answer"].as_str(), json["state"].as_str()), (Some("conflict"), None));
    let json = report("--key p --on-failure park", "exit 1");
    assert_eq!((json["answer"].as_str(), json["state"].as_str()), (Some("parked"), Some("uncertain")));
    let json = report("--key p", "exit 1");
    assert_eq!((json["answer"].as_str(), json["state"].as_str()), (Some("uncertain"), Some("uncertain")));
    let json = report("--key r --on-failure release", "exit 1");
    assert_eq!((json["answer"].as_str(), json["state"].as_str()), (Some("released"), Some("received")));
    let json = report("--key x\u{1}", "exit 1");
    assert_eq!((json["answer"].as_str(), json["attempt"].as_u64()), (Some("usage"), None));
}

#[test]
fn a_report_that_cannot_be_written_runs_nothing() {
    let place = Place::new();
    let out = place.sh("--key k --report missing/report.json", HELLO);
    out.says(78, "the report cannot be written");
    assert_eq!((place.runs(), place.has_ledger()), (0, false));
}
