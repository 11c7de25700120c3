//! Signals, time limits and lost leases.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails says where")]

mod common;

use std::process::{Command, Stdio};

use common::{Place, WAITING, alive, finish, kill, until};

/// `idem run` with every signal at its default, whatever this test was started with.
fn with_default_signals(place: &Place, options: &str, script: &str) -> Command {
    let inner = place.sh_command(options, script);
    let mut command = Command::new("env");
    command
        .arg("--default-signal=INT,TERM,HUP,QUIT")
        .arg(inner.get_program())
        .args(inner.get_args())
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Says that it runs, and then is one process that dies of any signal.
const SLEEPING: &str = "echo run >> runs.txt; echo $$ > pid.new; mv pid.new pid; exec sleep 60";

/// Runs until it gets TERM, and then does `on_term`.
fn trapping(on_term: &str) -> String {
    format!("trap '{on_term}' TERM; {WAITING}")
}

#[test]
fn idem_dies_of_the_signal_that_its_command_died_of() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("QUIT", 3)] {
        let place = Place::new();
        let idem = with_default_signals(&place, "--key k --report report.json", SLEEPING).spawn().unwrap();
        until("the command runs", || place.path("pid").exists());
        kill(&idem.id().to_string(), name);
        let out = finish(idem);
        assert_eq!((out.code, out.signal), (None, Some(number)), "{out:?}");
        assert!(out.stderr.starts_with(&format!("idem: uncertain: interrupted by {name}; ")), "{out:?}");
        assert!(!alive(place.read("pid").trim()));
        let shown = place.show("k");
        assert_eq!(shown["state"], "uncertain");
        assert_eq!(shown["parked"]["note"], format!("interrupted by {name}"));
        let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
        assert_eq!((&report["answer"], &report["exit"]), (&"parked".into(), &(128 + number).into()));
        place.sh("--key k", SLEEPING).says(76, "uncertain since ");
        assert_eq!(place.runs(), 1);
    }
}

#[test]
fn a_command_that_handles_the_signal_ends_as_it_likes() {
    let place = Place::new();
    let script = trapping("echo stopped; exit 4");
    let idem = with_default_signals(&place, "--key k", &script).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    kill(&idem.id().to_string(), "TERM");
    assert_eq!(finish(idem).parts(), (Some(4), "stopped\n", ""));
    assert_eq!(place.sh("--key k", &script).parts(), (Some(4), "stopped\n", ""));
}

#[test]
fn a_shell_that_says_that_its_command_died_of_the_signal_is_believed() {
    let place = Place::new();
    let idem = with_default_signals(&place, "--key k", &trapping("exit 143")).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    kill(&idem.id().to_string(), "TERM");
    let out = finish(idem);
    assert_eq!(out.signal, Some(15), "{out:?}");
    assert_eq!(place.show("k")["state"], "uncertain");
}

#[test]
fn a_command_that_somebody_else_kills_is_uncertain() {
    let place = Place::new();
    place.sh("--key k", "kill -9 $$").says(76, "uncertain: killed by KILL; find out whether it happened");
    place.sh("--key t", "kill -TERM $$").says(76, "uncertain: killed by TERM");
    assert_eq!(place.show("k")["parked"]["note"], "killed by KILL");
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let place = Place::new();
    let mut command = Command::new("sh");
    let inner = place.sh_command("--key k", WAITING);
    let child = command
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env("IDEM_STORE", "ledger.db")
        .current_dir(place.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the command runs", || place.path("pid").exists());
    kill(&child.id().to_string(), "HUP");
    kill(place.read("pid").trim(), "HUP");
    place.write("go", "");
    assert_eq!(finish(child).parts(), (Some(0), "done\n", ""));
}

#[test]
fn exit_statuses_arrive_where_they_would_be_thrown_away() {
    let place = Place::new();
    let inner = place.sh_command("--key k", "exit 3");
    // The kernel keeps no exit status of the children of a process that ignores SIGCHLD.
    let out = Command::new("env")
        .arg("--ignore-signal=CHLD")
        .arg(inner.get_program())
        .args(inner.get_args())
        .env("IDEM_STORE", "ledger.db")
        .current_dir(place.path(""))
        .output()
        .unwrap();
    assert_eq!(common::Out::from(out).parts(), (Some(3), "", ""));
}

#[test]
fn a_signal_ends_the_wait_for_a_reader_once_the_result_is_stored() {
    let place = Place::new();
    let idem = with_default_signals(&place, "--key k", "head -c 600000 /dev/zero").spawn().unwrap();
    let completed = || place.has_ledger() && place.idem(["show", "--key", "k"]).stdout.contains("completed");
    until("the operation is completed", completed);
    kill(&idem.id().to_string(), "TERM");
    until("idem dies of it", || !alive(&idem.id().to_string()));
    assert_eq!(finish(idem).signal, Some(15));
    assert_eq!(place.sh("--key k", "head -c 600000 /dev/zero").stdout.len(), 600_000);
}

#[test]
fn a_signal_ends_the_wait_for_a_reader_of_an_output_that_is_not_kept() {
    let place = Place::new();
    // Printed by a process that signals do not reach, and more than the pipes and the record hold.
    let script = "head -c 3000000 /dev/zero & echo $$ > pid.new; mv pid.new pid; wait";
    let idem = with_default_signals(&place, "--key k", script).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    // The first one ends the command, a later one the wait for the reader.
    until("idem dies of it", || {
        kill(&idem.id().to_string(), "TERM");
        !alive(&idem.id().to_string())
    });
    assert_eq!(finish(idem).signal, Some(15));
    assert_eq!(place.show("k")["parked"]["note"], "interrupted by TERM");
}

#[test]
fn a_signal_while_waiting_runs_nothing_and_takes_nothing() {
    let place = Place::new();
    let holder = place.sh_command("--key k", WAITING).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    let waiter = with_default_signals(&place, "--key k --wait 1m", WAITING).spawn().unwrap();
    let listening = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", waiter.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:").map(str::trim));
        caught.is_some_and(|mask| u64::from_str_radix(mask, 16).unwrap() >> 14 & 1 == 1)
    };
    until("the waiter listens to signals", listening);
    kill(&waiter.id().to_string(), "TERM");
    let out = finish(waiter);
    assert_eq!((out.signal, out.stdout.as_str()), (Some(15), ""));
    assert_eq!(out.stderr, "idem: stopped by TERM; the command was not run\n");
    place.write("go", "");
    assert_eq!(finish(holder).parts(), (Some(0), "done\n", ""));
    assert_eq!(place.show("k")["attempt"], 1);
}

#[test]
fn what_the_terminal_sends_reaches_the_command_once() {
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: script(1) is not installed, and nothing else makes a terminal");
        return;
    }
    let place = Place::new();
    // Each INT adds a line; a second one would come before the shell has left `wait`.
    let script = "trap 'echo int >> ints' INT; echo $$ > pid.new; mv pid.new pid; \
        while [ ! -e go ]; do sleep 0.05; done; echo end";
    let inner = with_default_signals(&place, "--key k", script);
    let words: Vec<_> = [inner.get_program()]
        .into_iter()
        .chain(inner.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''")))
        .collect();
    let mut terminal = Command::new("script")
        .args(["-qec", &words.join(" "), "/dev/null"])
        .env("IDEM_STORE", "ledger.db")
        .current_dir(place.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    until("the command runs", || place.path("pid").exists());
    let mut keyboard = terminal.stdin.take().unwrap();
    std::io::Write::write_all(&mut keyboard, b"\x03").unwrap();
    until("the command is interrupted", || !place.read("ints").is_empty());
    place.write("go", "");
    let out = finish(terminal);
    drop(keyboard);
    assert!(out.stdout.contains("end"), "{out:?}");
    assert_eq!(
        place.read("ints"),
        "int\n",
        "the group got it from the terminal, and idem did not pass it on"
    );
}

/// Nobody can write to the ledger while this lives.
fn locked(place: &Place) -> rusqlite::Connection {
    let store = rusqlite::Connection::open(place.path("ledger.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    store
}

/// Whether a process is gone, and whoever started it knows.
fn reaped(pid: &str) -> bool {
    !std::path::Path::new("/proc").join(pid.trim()).exists()
}

#[test]
fn a_signal_after_the_end_ends_the_wait_for_the_store() {
    let failing = format!("{WAITING}; exit 1");
    for (options, script) in [("", WAITING), ("--on-failure release", failing.as_str())] {
        let place = Place::new();
        let options = format!("--key k --lease 1h --report report.json {options}");
        let idem = with_default_signals(&place, &options, script).spawn().unwrap();
        until("the command runs", || place.path("pid").exists());
        let lock = locked(&place);
        place.write("go", "");
        until("the command is gone", || reaped(&place.read("pid")));
        kill(&idem.id().to_string(), "INT");
        let out = finish(idem);
        out.says(76, "stopped by INT while the result was being stored, and it may not be: ask again with");
        assert!(out.stderr.contains("`idem show --tenant default --operation cli/sh --key k`"), "{out:?}");
        assert_eq!(out.stdout, "done\n");
        let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
        assert_eq!((&report["answer"], &report["state"]), (&"unrecorded".into(), &serde_json::Value::Null));
        drop(lock);
        place.sh("--key k", script).says(75, "attempt 1 is running it");
        assert_eq!(place.runs(), 1);
    }
}

#[test]
fn a_second_signal_ends_the_wait_for_the_store() {
    let place = Place::new();
    let idem = with_default_signals(&place, "--key k --lease 1h", SLEEPING).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    let lock = locked(&place);
    kill(&idem.id().to_string(), "INT");
    until("the command is gone", || reaped(&place.read("pid")));
    kill(&idem.id().to_string(), "INT");
    finish(idem).says(76, "stopped by INT while the result was being stored");
    drop(lock);
    place.sh("--key k", SLEEPING).says(75, "attempt 1 is running it");
}

#[test]
fn a_signal_ends_the_wait_of_a_reconciler_for_the_store() {
    let place = Place::new();
    let script = format!("{WAITING}; exit 1");
    place.write("go", "");
    place.sh("--key k --on-failure park", &script);
    let reconcile =
        "echo $$ > pid.new; mv pid.new pid; while [ ! -e found ]; do sleep 0.05; done; echo found";
    let inner = place.sh_command("--key k --lease 1h", &script);
    let mut command = Command::new("env");
    let words: Vec<_> = inner.get_args().skip(1).collect();
    command.args(["--default-signal=INT"]).arg(inner.get_program()).args(["run", "--reconcile", reconcile]);
    command.args(words).env("IDEM_STORE", "ledger.db").current_dir(place.path(""));
    std::fs::remove_file(place.path("pid")).unwrap();
    let idem = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the reconciler runs", || place.path("pid").exists());
    let lock = locked(&place);
    place.write("found", "");
    until("the reconciler is gone", || reaped(&place.read("pid")));
    kill(&idem.id().to_string(), "INT");
    finish(idem).says(76, "stopped by INT while the result was being stored");
    drop(lock);
    assert_eq!(place.show("k")["attempt"], 2);
}

#[test]
fn a_signal_at_the_end_does_not_keep_the_end_from_being_stored() {
    let place = Place::new();
    // Its last deed is to interrupt idem, which hears of it before, with or after the end.
    let script = "trap '' INT; echo hello; kill -INT $PPID";
    with_default_signals(&place, "--key k", script).output().unwrap();
    assert_eq!(place.show("k")["state"], "completed");
    assert_eq!(place.sh("--key k", script).parts(), (Some(0), "hello\n", ""));
}

#[test]
fn a_command_that_takes_too_long_is_stopped_and_then_killed() {
    let place = Place::new();
    let out = place.sh("--key term --timeout 200ms", SLEEPING);
    out.says(76, "uncertain: stopped after 0.2 s (--timeout)");
    let out = place.sh("--key kill --timeout 200ms --kill-after 100ms", &trapping(""));
    out.says(76, "uncertain: stopped after 0.2 s (--timeout)");
    let out = place.sh("--key polite --timeout 200ms", &trapping("echo bye; exit 0"));
    out.says(76, "uncertain: stopped after 0.2 s (--timeout)");
    assert_eq!(out.stdout, "bye\n");
    assert!(!alive(place.read("pid").trim()));
    for key in ["term", "kill", "polite"] {
        let shown = place.show(key);
        assert_eq!((&shown["state"], &shown["parked"]["cause"]), (&"uncertain".into(), &"holder".into()));
    }
}

#[test]
fn a_command_that_ends_in_time_is_not_disturbed() {
    let place = Place::new();
    assert_eq!(place.sh("--key k --timeout 1m", "echo quick").parts(), (Some(0), "quick\n", ""));
}

#[test]
fn the_lease_is_renewed_while_the_command_runs() {
    let place = Place::new();
    let holder = place.sh_command("--key k --lease 2s", WAITING).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    let first = place.show("k")["attempts"][0]["lease_until_ms"].as_u64().unwrap();
    until("the lease is renewed three times", || {
        let shown = place.show("k");
        assert_eq!(shown["state"], "running");
        shown["attempts"][0]["lease_until_ms"].as_u64().unwrap() > first + 1900
    });
    place.write("go", "");
    assert_eq!(finish(holder).parts(), (Some(0), "done\n", ""));
}

#[test]
fn a_command_whose_lease_was_lost_is_killed() {
    let place = Place::new();
    // Deaf to TERM.
    let holder = place.sh_command("--key k --lease 2s", &trapping("")).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    let command = place.read("pid").trim().to_owned();
    let pid = holder.id().to_string();
    kill(&pid, "STOP");
    place.sh("--key k --wait 1m", &trapping("")).says(76, "uncertain since ");
    assert!(alive(&command));
    kill(&pid, "CONT");
    finish(holder).says(76, "uncertain: stopped because its lease was lost");
    assert!(!alive(&command));
    assert_eq!(place.show("k")["state"], "uncertain");
    assert_eq!(place.runs(), 1);
}

#[test]
fn a_command_is_stopped_before_its_lease_ends_when_the_store_is_away() {
    let place = Place::new();
    let on_term = "date +%s%3N > term.new; mv term.new term; exit 0";
    let holder = place.sh_command("--key k --lease 4s", &trapping(on_term)).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    let store = rusqlite::Connection::open(place.path("ledger.db")).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    until("the command is stopped", || place.path("term").exists());
    store.execute_batch("ROLLBACK").unwrap();
    finish(holder).says(76, "uncertain: stopped because its lease was lost");
    let shown = place.show("k");
    let lease_until: u64 = shown["attempts"][0]["lease_until_ms"].as_u64().unwrap();
    let stopped: u64 = place.read("term").trim().parse().unwrap();
    assert!(stopped < lease_until, "{stopped} is before {lease_until}");
    assert_eq!((&shown["state"], &shown["parked"]["cause"]), (&"uncertain".into(), &"holder".into()));
}
