//! Many processes, one key.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails says where")]

mod common;

use common::{Place, finish};

#[test]
fn of_32_processes_on_a_missing_ledger_one_runs_and_all_get_its_output() {
    let place = Place::new();
    let script = "echo run >> runs.txt; sleep 0.3; echo \"by $IDEM_ATTEMPT $$\"; echo err >&2; exit 3";
    let children: Vec<_> =
        (0..32).map(|_| place.sh_command("--key k --wait 30s", script).spawn().unwrap()).collect();
    let outs: Vec<_> = children.into_iter().map(finish).collect();
    assert_eq!(place.runs(), 1);
    assert!(outs[0].stdout.starts_with("by 1 "), "{:?}", outs[0]);
    assert_eq!((outs[0].code, outs[0].stderr.as_str()), (Some(3), "err\n"));
    for out in &outs {
        assert_eq!(out, &outs[0]);
    }
}

#[test]
fn without_a_wait_all_but_one_are_told_that_it_is_in_progress() {
    let place = Place::new();
    place.idem(["migrate"]);
    let script = "echo run >> runs.txt; while [ ! -e go ]; do sleep 0.02; done";
    let holder = place.sh_command("--key k", script).spawn().unwrap();
    common::until("the command runs", || place.runs() == 1);
    for options in ["--key k", "--key k -n", "--key k --wait 100ms"] {
        place.sh(options, script).says(75, "attempt 1 is running it: ask again in ");
    }
    let waiting = place.sh_command("--key k --wait 1m", script).spawn().unwrap();
    place.write("go", "");
    for child in [holder, waiting] {
        assert_eq!(finish(child).parts(), (Some(0), "", ""));
    }
    assert_eq!(place.runs(), 1);
}

#[test]
fn after_a_release_one_waiter_runs_and_the_others_get_its_output() {
    let place = Place::new();
    place.idem(["migrate"]);
    // The first run fails without effect, every later one succeeds.
    let script = "echo run >> runs.txt; while [ ! -e go ]; do sleep 0.02; done; \
        if mkdir failed 2> /dev/null; then exit 75; fi; echo \"by $IDEM_ATTEMPT\"";
    let first = place.sh_command("--key k --release-on 75", script).spawn().unwrap();
    common::until("the command runs", || place.runs() == 1);
    let waiters: Vec<_> = (0..8)
        .map(|_| place.sh_command("--key k --release-on 75 --wait 1m", script).spawn().unwrap())
        .collect();
    place.write("go", "");
    finish(first).says(75, "exit status 75: given back");
    for waiter in waiters {
        assert_eq!(finish(waiter).parts(), (Some(0), "by 2\n", ""));
    }
    assert_eq!(place.runs(), 2);
}
