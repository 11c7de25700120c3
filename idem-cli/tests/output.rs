//! What the command prints: all of it, live, recorded within bounds, and whoever reads it.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails says where")]

mod common;

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Command, Stdio};

use common::{Place, WAITING, alive, finish, kill, until};

/// What a ledger keeps of one output unless it is told otherwise, less what idem adds.
const ROOM: usize = (1 << 20) - "exit255stderr".len();

fn digest(program: &str, bytes: &[u8]) -> String {
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), bytes).unwrap();
    let out = child.wait_with_output().unwrap();
    String::from_utf8(out.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn what_just_fits_is_replayed_and_one_byte_more_is_not_kept() {
    let place = Place::new();
    let script = "echo run >> runs.txt; head -c $(cat size) /dev/zero | tr '\\0' x; printf eee >&2; exit 4";
    place.write("size", (ROOM - 3).to_string());
    let first = place.sh("--key fits", script);
    assert_eq!((first.code, first.stdout.len(), first.stderr.as_str()), (Some(4), ROOM - 3, "eee"));
    assert_eq!(place.sh("--key fits", script), first);
    assert_eq!(place.runs(), 1);

    place.write("size", (ROOM - 2).to_string());
    let first = place.sh("--key more", script);
    assert_eq!((first.code, first.stdout.len()), (Some(4), ROOM - 2), "the first run passes everything on");
    assert!(
        first.stderr.starts_with("eeeidem: the output is larger than the ledger keeps"),
        "{}",
        first.stderr
    );
    let second = place.sh("--key more", script);
    second.says(
        77,
        &format!("done with exit status 4; its output was too large to be kept: {} bytes", ROOM + 1),
    );
    let sha256 = digest("sha256sum", first.stdout.as_bytes());
    assert!(second.stderr.contains(&format!("(stdout {} bytes sha256:{sha256}; stderr 3 bytes", ROOM - 2)));
    assert_eq!(second.stdout, "");
    assert_eq!(place.runs(), 2);
}

#[test]
fn a_large_output_passes_through_bounded_memory() {
    let place = Place::new();
    // The high-water mark of idem, seen by its command at the end of a large output.
    let script =
        "head -c 100000000 /dev/zero; head -c 1000000 /dev/zero >&2; grep VmHWM /proc/$PPID/status > peak";
    let mut child = place.sh_command("--key k", script).stderr(Stdio::null()).spawn().unwrap();
    let mut pipe = child.stdout.take().unwrap();
    let mut total = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = pipe.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        total += read;
    }
    assert_eq!((child.wait().unwrap().code(), total), (Some(0), 100_000_000));
    let peak_kib: usize = place.read("peak").split_whitespace().nth(1).unwrap().parse().unwrap();
    eprintln!("peak memory: {peak_kib} KiB");
    // Not counted: the pages of the program itself, of which an unoptimised build has many.
    let program_kib = usize::try_from(idle_kib(&place)).unwrap();
    assert!(peak_kib < program_kib + (1 << 10) + (8 << 10), "{peak_kib} KiB, idle {program_kib} KiB");
}

/// The peak memory of an idem whose command prints nothing.
fn idle_kib(place: &Place) -> u64 {
    place.sh("--key idle", "grep VmHWM /proc/$PPID/status > idle");
    place.read("idle").split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn output_arrives_while_the_command_runs() {
    let place = Place::new();
    let script = format!("echo early; echo early >&2; {WAITING}");
    let mut child = place.sh_command("--key k", &script).spawn().unwrap();
    let (mut out, mut err) = ([0; 6], [0; 6]);
    child.stdout.as_mut().unwrap().read_exact(&mut out).unwrap();
    child.stderr.as_mut().unwrap().read_exact(&mut err).unwrap();
    assert_eq!((&out, &err), (b"early\n", b"early\n"));
    until("the command runs", || place.path("pid").exists());
    assert!(alive(place.read("pid").trim()));
    place.write("go", "");
    assert_eq!(finish(child).parts(), (Some(0), "done\n", ""));
    assert_eq!(place.sh("--key k", &script).stdout, "early\ndone\n");
}

#[test]
fn a_grandchild_that_holds_the_pipes_does_not_hang_idem() {
    let place = Place::new();
    let script = "sleep 300 & echo $! > pid; echo hello; echo err >&2; exit 5";
    let out = finish_reading(&place, script);
    assert_eq!(out, (Some(5), "hello\n".to_owned()));
    let pid = place.read("pid").trim().to_owned();
    assert!(alive(&pid), "it is left alone");
    kill(&pid, "KILL");
    assert_eq!(place.sh("--key k", script).parts(), (Some(5), "hello\n", "err\n"));
    until("it is gone", || !alive(&pid));
}

/// The exit status and stdout of a run, without waiting for the pipes to end: a grandchild has our stderr's copy, but
/// not the pipes that we read.
fn finish_reading(place: &Place, script: &str) -> (Option<i32>, String) {
    let out = File::create(place.path("stdout")).unwrap();
    let child = place.sh_command("--key k", script).stdout(out).stderr(Stdio::null()).spawn().unwrap();
    let code = finish(child).code;
    (code, place.read("stdout"))
}

#[test]
fn a_slow_reader_delays_neither_the_command_nor_the_record() {
    let place = Place::new();
    let script = "head -c 500000 /dev/zero; echo $IDEM_ATTEMPT > ran";
    let child = place.sh_command("--key k", script).spawn().unwrap();
    // Nobody reads, and a pipe holds much less.
    until("the operation is completed", || {
        place.path("ran").exists() && place.show("k")["state"] == "completed"
    });
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), out.stdout.len()), (Some(0), 500_000));
}

#[test]
fn a_reader_that_has_gone_away_does_not_cost_the_record() {
    let place = Place::new();
    let script = "echo run >> runs.txt; echo first; while [ ! -e go ]; do sleep 0.02; done; \
        head -c 200000 /dev/zero | tr '\\0' x; echo run >> runs.txt";
    let mut child = place.sh_command("--key k", script).spawn().unwrap();
    let mut first = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    drop(child.stdout.take());
    place.write("go", "");
    assert_eq!(finish(child).parts(), (Some(0), "", ""));
    assert_eq!(place.runs(), 2, "the command was not cut short");
    let out = place.sh("--key k", script);
    assert_eq!((out.code, out.stdout.len()), (Some(0), 200_006));
}

#[test]
fn a_reader_that_goes_away_in_a_replay_is_no_error() {
    let place = Place::new();
    let script = "head -c 500000 /dev/zero";
    place.sh("--key k", script);
    let mut child = place.sh_command("--key k", script).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(finish(child).parts(), (Some(0), "", ""));
}

#[test]
fn a_full_disk_under_stdout_is_told_and_the_result_is_kept() {
    let place = Place::new();
    for _ in 0..2 {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child =
            place.sh_command("--key k", "echo run >> runs.txt; echo hello").stdout(full).spawn().unwrap();
        finish(child).says(74, "the output could not be written: No space left on device");
    }
    let out = place.sh("--key k", "echo run >> runs.txt; echo hello");
    assert_eq!(out.parts(), (Some(0), "hello\n", ""));
    assert_eq!(place.runs(), 1);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = place.command(["list"]).stdout(full).spawn().unwrap();
    finish(child).says(74, "the output could not be written");
}

#[test]
fn a_full_disk_does_not_make_a_released_command_look_stored() {
    let place = Place::new();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child =
        place.sh_command("--key k --on-failure release", "echo no; exit 3").stdout(full).spawn().unwrap();
    let out = finish(child);
    assert!(
        out.stderr.contains("given back, the same key runs again") && !out.stderr.contains("stored"),
        "{}",
        out.stderr
    );
    out.says(74, "the output could not be written");
}

#[test]
fn closed_streams_are_no_obstacle() {
    let place = Place::new();
    let idem = env!("CARGO_BIN_EXE_idem");
    let script = format!("{idem} run --key k -- sh -c 'echo hello; echo err >&2' <&- >&- 2>&-");
    let status = Command::new("sh")
        .args(["-c", &script])
        .env("IDEM_STORE", "ledger.db")
        .current_dir(place.path(""))
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    let out = place.sh("--key k", "echo hello; echo err >&2");
    assert_eq!(out.parts(), (Some(0), "hello\n", "err\n"));
}

#[test]
fn no_descriptor_of_idem_reaches_the_command() {
    let place = Place::new();
    place.write("in", "x");
    let script = "for fd in /proc/$$/fd/*; do echo \"${fd##*/}\"; done";
    // What this test itself was started with reaches every program.
    let inherited = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap();
    let inherited = String::from_utf8(inherited.stdout).unwrap();
    assert!(inherited.starts_with("0\n1\n"), "{inherited}");
    for options in ["--key a", "--key b --input in --report report.json --fingerprint-file in"] {
        assert_eq!(place.sh(options, script).parts(), (Some(0), inherited.as_str(), ""));
    }
}
