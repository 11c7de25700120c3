//! What becomes of an operation whose `idem` was killed while its command ran.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails says where")]

mod common;

use common::{Place, WAITING, until};

/// Asks with the given options until the lease of the crashed attempt has lapsed.
fn ask_until_lapsed(place: &Place, options: &str) -> common::Out {
    let mut out = place.sh(options, WAITING);
    let mut in_progress = 0;
    until("the lease lapses", || {
        if out.code != Some(75) {
            return true;
        }
        out.says(75, "attempt 1 is running it: ask again in ");
        in_progress += 1;
        out = place.sh(options, WAITING);
        false
    });
    assert!(in_progress > 0, "the lease was still running when the first question came");
    out
}

#[test]
fn a_crash_is_in_progress_until_the_lapse_and_uncertain_from_then_on() {
    let place = Place::new();
    let _crashed = place.crash("--key k --lease 2s");
    assert_eq!(place.show("k")["state"], "running");
    let out = ask_until_lapsed(&place, "--key k --lease 2s");
    out.says(76, "uncertain since ");
    let options = "--tenant default --operation cli/sh --key k";
    assert!(out.stderr.contains(&format!("`idem resolve {options} --did-not-happen ")), "{out:?}");
    place.write("go", "");
    for _ in 0..3 {
        place.sh("--key k", WAITING).says(76, "uncertain since ");
    }
    assert_eq!(place.runs(), 1, "never a silent second run");

    let shown = place.show("k");
    assert_eq!((&shown["state"], &shown["attempt"]), (&"uncertain".into(), &1.into()));
    let attempt = &shown["attempts"][0];
    assert_eq!((&attempt["mode"], &attempt["ended"]), (&"execute".into(), &"parked".into()));
    assert!(attempt["lease_until_ms"].as_u64() <= shown["parked"]["since_ms"].as_u64());
    assert_eq!(shown["parked"]["cause"], "lapse");
    let (holder, parker) = (attempt["owner"].as_str().unwrap(), shown["parked"]["by"].as_str().unwrap());
    assert!(holder.starts_with("tester@") && parker.starts_with("tester@") && holder != parker);
    let told = place.idem(["show", "--key", "k"]).stdout;
    for part in [
        "state       uncertain since 2".to_owned(),
        format!("parked      by {parker} when it met the lapsed lease\n"),
        format!("attempt 1   execute by {holder}, started 2"),
        format!("            idem resolve {options} --completed --stdout FILE --reason TEXT\n"),
    ] {
        assert!(told.contains(&part), "{part} in {told}");
    }
}

#[test]
fn an_operator_says_that_it_happened() {
    let place = Place::new();
    let _crashed = place.crash("--key k --lease 1s");
    place.sh("--key k --wait 1m", WAITING).says(76, "uncertain since ");
    place.write("out", "what it printed\n");
    place.write("err", "and this\n");
    let out = place.idem([
        "resolve",
        "--key",
        "k",
        "--completed",
        "--stdout",
        "out",
        "--stderr",
        "err",
        "--exit",
        "3",
        "--actor",
        "alice",
        "--reason",
        "found it in the log",
    ]);
    assert_eq!(out.parts(), (Some(0), "completed: later calls get this output and exit status\n", ""));
    let out = place.sh("--key k", WAITING);
    assert_eq!(out.parts(), (Some(3), "what it printed\n", "and this\n"));
    let resolution = &place.show("k")["resolution"];
    assert_eq!(
        (&resolution["actor"], &resolution["reason"], &resolution["happened"]),
        (&"alice".into(), &"found it in the log".into(), &true.into())
    );
    let out = place.idem(["resolve", "--key", "k", "--did-not-happen", "--reason", "oops"]);
    out.says(1, "it is completed, and only an uncertain operation is resolved; alice resolved it at 2");
    assert_eq!(place.runs(), 1);
}

#[test]
fn an_operator_says_that_it_did_not_happen() {
    let place = Place::new();
    let crashed = place.crash("--key k --lease 1s");
    let resolve = |more: &[&str]| {
        let args = ["resolve", "--key", "k", "--did-not-happen", "--reason", "looked"];
        place.idem(args.iter().chain(more))
    };
    resolve(&[]).says(1, "it is running, and only an uncertain operation is resolved");
    place.sh("--key k --wait 1m", WAITING).says(76, "uncertain since ");
    resolve(&["--settle", "1h"]).says(75, "a request of its last holder may still land: try again at 2");
    let seen = place.show("k");
    let (fence, version) = (seen["fence"].to_string(), seen["version"].to_string());
    resolve(&["--fence", "1", "--version", &version]).says(75, "it changed since you looked");
    let out = resolve(&["--fence", &fence, "--version", &version]);
    assert_eq!(out.parts(), (Some(0), "did not happen: the same key runs again\n", ""));
    drop(crashed);
    place.write("go", "");
    assert_eq!(place.sh("--key k", WAITING).parts(), (Some(0), "done\n", ""));
    let shown = place.show("k");
    assert_eq!((&shown["attempt"], &shown["resolution"]["actor"]), (&2.into(), &"tester".into()));
    assert_eq!(place.runs(), 2);
}

#[test]
fn a_holder_that_was_only_slow_still_completes_what_was_parked() {
    let place = Place::new();
    let holder = place.sh_command("--key k --lease 2s", WAITING).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    let pid = holder.id().to_string();
    common::kill(&pid, "STOP");
    place.sh("--key k --wait 1m", WAITING).says(76, "uncertain since ");
    // The command ends while its idem stands still, so that idem finds it ended and not its lease lost.
    place.write("go", "");
    let command = place.read("pid").trim().to_owned();
    until("the command ends", || !common::alive(&command));
    common::kill(&pid, "CONT");
    assert_eq!(common::finish(holder).parts(), (Some(0), "done\n", ""));
    assert_eq!(place.sh("--key k", WAITING).parts(), (Some(0), "done\n", ""));
    assert_eq!(place.runs(), 1);
}

/// An `idem` that is killed while its command runs, which then ends by itself.
fn killed_in_the_middle(place: &Place, options: &str, script: &str) {
    let mut child = place.sh_command(options, script).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    place.write("go", "");
    let first = place.read("pid").trim().to_owned();
    until("the command ends", || !common::alive(&first));
}

#[test]
fn what_was_begun_without_a_key_is_not_run_again() {
    let place = Place::new();
    killed_in_the_middle(&place, "--key k --lease 1s", WAITING);
    let out = place.sh("--key k --on-crash rerun --wait 1m", WAITING);
    out.says(76, "uncertain: an attempt before this one did not send the downstream key");
    assert_eq!(place.show("k")["effect"], "opaque");
    assert_eq!(place.runs(), 1);
}

#[test]
fn a_keyed_effect_is_run_again_with_the_same_downstream_key() {
    let place = Place::new();
    let script = format!("echo $IDEM_MODE $IDEM_ATTEMPT $IDEM_DOWNSTREAM_KEY >> seen.txt; {WAITING}");
    killed_in_the_middle(&place, "--key k --lease 1s --on-crash rerun", &script);
    let out = place.sh("--key k --on-crash rerun --wait 1m", &script);
    assert_eq!(out.parts(), (Some(0), "done\n", ""));
    let seen = place.read("seen.txt");
    let seen: Vec<Vec<_>> = seen.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!((seen.len(), &seen[0][..2], &seen[1][..2]), (2, &["execute", "1"][..], &["recover", "2"][..]));
    assert_eq!(seen[0][2], seen[1][2]);
    assert_eq!(place.sh("--key k", &script).parts(), (Some(0), "done\n", ""));
    assert_eq!(place.runs(), 2);
}

#[test]
fn a_rerun_that_fails_without_effect_is_given_back() {
    let place = Place::new();
    let script = format!("[ $IDEM_MODE = execute ] || exit 9; {WAITING}");
    killed_in_the_middle(&place, "--key k --lease 1s --on-crash rerun", &script);
    place
        .sh("--key k --on-crash rerun --on-failure release --wait 1m", &script)
        .says(9, "exit status 9: given back");
    assert_eq!(place.show("k")["attempts"][1]["absence"], "deduplicated");
    assert_eq!(place.sh("--key k", &script).parts(), (Some(0), "done\n", ""));
}

#[test]
fn there_are_no_more_attempts_than_allowed() {
    let place = Place::new();
    let _crashed = place.crash("--key k --lease 1s");
    let out = place.sh("--key k --on-crash rerun --max-attempts 1 --wait 1m", WAITING);
    out.says(76, "uncertain since ");
    assert_eq!(place.show("k")["parked"]["cause"], "attempts-exhausted");
    assert_eq!(place.runs(), 1);
}

/// Reconciles a crashed operation with this script.
fn reconcile(place: &Place, script: &str) -> common::Out {
    place.write("reconcile.sh", script);
    let options = ["run", "--key", "k", "--wait", "1m", "--reconcile", ". ./reconcile.sh", "--"];
    place.idem(options.iter().chain(&["sh", "-c", WAITING]))
}

#[test]
fn a_reconciler_finds_that_it_happened() {
    let place = Place::new();
    let _crashed = place.crash("--key k --lease 1s");
    let script = "echo \"$IDEM_MODE $IDEM_ATTEMPT $IDEM_DOWNSTREAM_KEY $1 $2\" > asked.txt; \
        echo \"$IDEM_EARLIER\" > earlier.txt; echo found; echo looking >&2; exit 0";
    assert_eq!(reconcile(&place, script).parts(), (Some(0), "found\n", "looking\n"));
    let shown = place.show("k");
    let key = shown["downstream_key"].as_str().unwrap();
    assert_eq!(place.read("asked.txt"), format!("recover 2 {key} sh -c\n"));
    let earlier: serde_json::Value = serde_json::from_str(&place.read("earlier.txt")).unwrap();
    for name in ["number", "owner", "fence", "started_ms", "lease_until_ms"] {
        assert_eq!(earlier[0][name], shown["attempts"][0][name], "{name}");
    }
    assert_eq!(
        place.sh("--key k", WAITING).parts(),
        (Some(0), "found\n", ""),
        "from now on it is the output"
    );
    assert_eq!(place.runs(), 1);
}

#[test]
fn a_reconciler_finds_that_it_did_not_happen() {
    let place = Place::new();
    let crashed = place.crash("--key k --lease 1s");
    place.write("go", "");
    assert_eq!(reconcile(&place, "echo nothing there; exit 1").parts(), (Some(0), "done\n", ""));
    drop(crashed);
    let shown = place.show("k");
    assert_eq!((&shown["attempt"], &shown["attempts"][1]["absence"]), (&3.into(), &"fenced-off".into()));
    assert_eq!(place.runs(), 2);
}

#[test]
fn a_reconciler_cannot_tell_and_is_asked_again() {
    let place = Place::new();
    let _crashed = place.crash("--key k --lease 1s");
    let out = reconcile(&place, "echo noise; exit 2");
    out.says(76, "uncertain: the reconciler cannot tell (exit status 2)");
    assert_eq!(out.stdout, "", "what it printed is no output");
    let shown = place.show("k");
    assert_eq!(shown["parked"]["note"], "the reconciler cannot tell (exit status 2)");
    place.sh("--key k", WAITING).says(76, "uncertain since ");
    reconcile(&place, "kill -9 $$").says(76, "uncertain: the reconciler was killed by KILL");
    assert_eq!(reconcile(&place, "echo found").parts(), (Some(0), "found\n", ""));
    assert_eq!(place.runs(), 1);
}

#[test]
fn an_interrupted_reconciler_has_found_nothing_out() {
    let place = Place::new();
    let _crashed = place.crash("--key k --lease 1s");
    // Exit 1 on TERM, as many programs do.
    place.write("reconcile.sh", "trap 'exit 1' TERM; echo $$ > asked; while :; do sleep 0.02; done");
    let options = ["run", "--key", "k", "--wait", "1m", "--reconcile", ". ./reconcile.sh", "--"];
    let idem = place.command(options.iter().chain(&["sh", "-c", WAITING])).spawn().unwrap();
    until("the reconciler runs", || place.path("asked").exists());
    common::kill(&idem.id().to_string(), "TERM");
    let out = common::finish(idem);
    assert_eq!(out.signal, Some(15), "{out:?}");
    let shown = place.show("k");
    assert_eq!(
        (&shown["state"], &shown["parked"]["note"]),
        (&"uncertain".into(), &"the reconciler was interrupted by TERM".into())
    );
    assert_eq!(place.runs(), 1);
}

#[test]
fn a_reconciler_that_takes_too_long_is_stopped() {
    let place = Place::new();
    let _crashed = place.crash("--key k --lease 1s");
    place.write("reconcile.sh", "exec sleep 60");
    let out = place.idem([
        "run",
        "--key",
        "k",
        "--wait",
        "1m",
        "--timeout",
        "200ms",
        "--reconcile",
        ". ./reconcile.sh",
        "--",
        "sh",
        "-c",
        WAITING,
    ]);
    out.says(76, "uncertain: the reconciler took too long");
    assert_eq!(place.runs(), 1);
}
