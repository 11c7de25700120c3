//! Every command on a ledger in Redis. Skipped, with the reason on the error output, where no server can be had.

#![cfg(feature = "redis")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that fails says where"
)]

mod common;

use std::sync::OnceLock;

use common::{Out, Place, WAITING, finish, until};
use idem_provision::{Ending, Private, Provision, Server, Software, required};

/// What to do without a server. Only a missing program is a reason to skip.
fn had<T>(server: Result<T, idem_provision::Error>) -> Option<T> {
    match server {
        Ok(server) => Some(server),
        Err(error) if error.is_unavailable() && !required(Software::Redis) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A ledger of its own in the server that these tests share.
fn place() -> Option<Place> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| had(idem_provision::redis())).as_ref()?;
    Some(Place::at(&format!("{}?prefix={}", server.url(), fresh())))
}

/// A prefix that nothing in the server has, also where the server is somebody's and stays.
fn fresh() -> String {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().file_name().unwrap().to_string_lossy();
    format!("cli-{}{name}", std::process::id())
}

/// A ledger in a server of its own, which may be stopped.
fn own() -> Option<(Private, Place)> {
    let provision =
        Provision::of(Software::Redis).setting("appendonly", "yes").setting("appendfsync", "always");
    let server = had(provision.start_private())?;
    let place = Place::at(server.url());
    Some((server, place))
}

/// Three operations: one completed, one released, one uncertain.
fn filled() -> Option<Place> {
    let place = place()?;
    place.sh("--key done", "echo hello; echo err >&2; exit 3");
    place.sh("--key back --on-failure release", "exit 1");
    place.sh("--key parked --tenant acme --operation charge/v1 --on-failure park", "exit 1");
    Some(place)
}

#[test]
fn a_command_runs_once_and_is_replayed_byte_by_byte() {
    let Some(place) = place() else { return };
    let script = r"echo run >> runs.txt; printf 'a\000\377\r\n'; printf 'e\200' >&2; exit 3";
    for _ in 0..2 {
        let out = place.sh_command("--key k", script).output().unwrap();
        assert_eq!(out.status.code(), Some(3));
        assert_eq!((&out.stdout[..], &out.stderr[..]), (&b"a\0\xff\r\n"[..], &b"e\x80"[..]));
    }
    place.sh("--key k", "echo changed").says(65, "the key was used for another command or input");
    place.idem(["run", "--key", "lost", "--", "./missing"]).says(127, "./missing was not found");
    assert_eq!(place.sh("--key lost --operation cli/missing", "echo free").parts(), (Some(0), "free\n", ""));
    assert_eq!(place.runs(), 1);
    assert!(!place.has_ledger());
}

#[test]
fn what_just_fits_is_replayed_and_one_byte_more_is_not_kept() {
    let Some(place) = place() else { return };
    let room = (1 << 20) - "exit255stderr".len();
    for (key, size, again) in [("fits", room, Some(0)), ("more", room + 1, Some(77))] {
        let script = format!("head -c {size} /dev/zero | tr '\\0' x");
        assert_eq!(place.sh(&format!("--key {key}"), &script).stdout.len(), size);
        let out = place.sh(&format!("--key {key}"), &script);
        assert_eq!((out.code, out.stdout.len()), (again, if again == Some(0) { size } else { 0 }));
    }
}

#[test]
fn of_many_processes_one_runs_and_all_get_its_output() {
    let Some(place) = place() else { return };
    let script = "echo run >> runs.txt; sleep 0.3; echo \"by $IDEM_ATTEMPT $$\"; exit 3";
    let children: Vec<_> =
        (0..16).map(|_| place.sh_command("--key k --wait 30s", script).spawn().unwrap()).collect();
    let outs: Vec<_> = children.into_iter().map(finish).collect();
    assert_eq!(place.runs(), 1);
    assert!(outs[0].stdout.starts_with("by 1 ") && outs[0].code == Some(3), "{:?}", outs[0]);
    assert!(outs.iter().all(|out| *out == outs[0]), "{outs:?}");
}

#[test]
fn a_crash_is_in_progress_then_uncertain_and_then_what_an_operator_says() {
    for happened in [true, false] {
        let Some(place) = place() else { return };
        let crashed = place.crash("--key k --lease 2s");
        assert_eq!(place.show("k")["state"], "running");
        place.sh("--key k", WAITING).says(75, "attempt 1 is running it: ask again in ");
        place.sh("--key k --wait 1m", WAITING).says(76, "uncertain since ");
        assert_eq!((place.show("k")["parked"]["cause"].as_str(), place.runs()), (Some("lapse"), 1));
        drop(crashed);
        place.write("go", "");
        let resolve =
            |args: &[&str]| place.idem(["resolve", "--key", "k", "--reason", "looked"].iter().chain(args));
        if happened {
            place.write("found", "as it was\n");
            assert_eq!(resolve(&["--completed", "--stdout", "found", "--exit", "4"]).code, Some(0));
            assert_eq!(place.sh("--key k", WAITING).parts(), (Some(4), "as it was\n", ""));
            assert_eq!(place.runs(), 1);
        } else {
            resolve(&["--did-not-happen", "--settle", "1h"])
                .says(75, "a request of its last holder may still land");
            assert_eq!(resolve(&["--did-not-happen"]).parts().0, Some(0));
            assert_eq!(place.sh("--key k", WAITING).parts(), (Some(0), "done\n", ""));
            assert_eq!(place.runs(), 2);
        }
        resolve(&["--did-not-happen"])
            .says(1, "it is completed, and only an uncertain operation is resolved");
    }
}

#[test]
fn a_keyed_effect_is_run_again_and_a_reconciler_is_asked() {
    let Some(place) = place() else { return };
    let script = "echo \"$IDEM_MODE $IDEM_DOWNSTREAM_KEY\" >> seen; [ -e go ] || kill -9 $PPID; echo done";
    place.sh("--key rerun --lease 1s --on-crash rerun", script);
    place.sh("--key ask --lease 1s", script);
    place.write("go", "");
    let out = place.sh("--key rerun --on-crash rerun --wait 1m", script);
    assert_eq!(out.parts(), (Some(0), "done\n", ""));
    let seen = place.read("seen");
    let keys: Vec<_> = seen.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!((keys.len(), keys[2]), (3, ("recover", keys[0].1)));
    let reconcile =
        ["run", "--key", "ask", "--wait", "1m", "--reconcile", "echo found", "--", "sh", "-c", script];
    assert_eq!(place.idem(reconcile).parts(), (Some(0), "found\n", ""));
    assert_eq!(place.sh("--key ask", script).parts(), (Some(0), "found\n", ""));
}

#[test]
fn operations_are_shown_listed_and_counted() {
    let Some(place) = filled() else { return };
    let keys = |options: &[&str]| {
        let out = place.idem(["list", "--json"].iter().chain(options));
        assert_eq!((out.code, out.stderr.as_str()), (Some(0), ""));
        let record = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let mut keys: Vec<_> =
            out.stdout.lines().map(|line| record(line)["key"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        keys.join(" ")
    };
    assert_eq!(keys(&[]), "back done parked");
    assert_eq!(keys(&["--stuck"]), "parked");
    assert_eq!(keys(&["--state", "received,completed"]), "back done");
    assert_eq!(keys(&["--tenant", "acme"]), "parked");
    assert_eq!(keys(&["--limit", "2"]).split(' ').count(), 2);
    assert!(place.idem(["list"]).stdout.starts_with("STATE "));
    let shown = place.idem(["show", "--key", "done"]).stdout;
    assert!(
        shown.contains("\noutcome     failure of class exit-3, exit status 3, stdout 6 bytes, "),
        "{shown}"
    );
    place
        .idem(["show", "--key", "missing"])
        .says(1, "there is no operation of any name of any tenant with the key");
    place
        .idem(["show", "--key", "done", "--tenant", "acme"])
        .says(1, "there is no operation of any name of tenant");
    let stats = place.idem(["stats", "--json"]).json();
    let counts = ["received", "completed", "uncertain", "running"].map(|name| stats[name].as_u64());
    assert_eq!(counts, [Some(1), Some(1), Some(1), Some(0)]);
}

#[test]
fn content_is_erased_and_swept() {
    let Some(place) = filled() else { return };
    assert_eq!(place.idem(["erase", "--key", "done"]).parts(), (Some(0), "erased\n", ""));
    assert_eq!(place.idem(["erase", "--key", "done"]).parts(), (Some(0), "erased before\n", ""));
    place.sh("--key done", "echo hello; echo err >&2; exit 3").says(77, "done at 2");
    place
        .idem(["erase", "--key", "parked"])
        .says(1, "it is uncertain, and only what is finished can be erased");
    place.sh("--key short --response-ttl 1ms", "echo secret");
    assert_eq!(place.idem(["sweep"]).parts(), (Some(0), "erased 1, purged 0\n", ""));
    assert_eq!(place.idem(["sweep", "--json"]).stdout, "{\"erased\":0,\"purged\":0}\n");
    for _ in 0..2 {
        let out = place.sh("--key forgotten --identity-ttl 1ms", "echo run >> runs.txt");
        assert_eq!(out.parts(), (Some(0), "", ""));
    }
    assert_eq!(place.runs(), 2);
}

#[test]
fn an_intent_is_registered_once_and_then_run() {
    let Some(place) = place() else { return };
    place.write("payload", "for the worker");
    let register = || place.idem(["register", "--key", "k", "--input", "payload", "--", "sh", "-c", "cat"]);
    assert_eq!(register().parts(), (Some(0), "created received\n", ""));
    assert_eq!(register().parts(), (Some(0), "existing received\n", ""));
    assert_eq!(place.show("k")["payload_bytes"], 14);
    assert_eq!(place.sh("--key k --input payload", "cat").parts(), (Some(0), "for the worker", ""));
    assert_eq!(register().parts(), (Some(0), "existing completed\n", ""));
    place.write("payload", "changed");
    register().says(65, "the key was used for another intent");
}

#[test]
fn ledgers_of_different_prefixes_know_nothing_of_each_other() {
    let (Some(one), Some(other)) = (place(), place()) else { return };
    for place in [&one, &other] {
        assert_eq!(place.sh("--key k", "echo run >> runs.txt").code, Some(0));
        assert_eq!((place.runs(), place.idem(["list", "--json"]).stdout.lines().count()), (1, 1));
    }
}

#[test]
fn the_password_is_never_shown() {
    let Some((server, place)) = own() else { return };
    let url = server.url();
    let password = url.split_once("default:").unwrap().1.split_once('@').unwrap().0;
    let shown = |url: &str| url.replace(password, "PASSWORD");
    let migrated = place.idem(["migrate"]);
    let expected = format!("{}: redis ledger, up to date\n", shown(url));
    assert_eq!(migrated.parts(), (Some(0), expected.as_str(), ""));
    // Told with the ledger, as nothing else names it.
    let run = |url: &str| -> Out {
        let args = ["run", "--store", url, "--key", "k", "--on-failure", "park", "--", "sh", "-c", "exit 1"];
        place.command(args).env_remove("IDEM_STORE").output().unwrap().into()
    };
    let parked = run(url);
    parked.says(76, "uncertain: ");
    assert!(parked.stderr.contains(&format!("`idem resolve --store {} --tenant", shown(url))), "{parked:?}");
    let mut outs = vec![migrated, parked];
    for wrong in [
        url.replace(password, &format!("{password}x")),
        format!("{url}?prefx=a"),
        format!("{url}?prefix="),
        url.replacen("127.0.0.1:", "127.0.0.1:x", 1),
        url.replacen("redis:", "redis+else:", 1),
    ] {
        let out = run(&wrong);
        out.says(78, "");
        outs.push(out);
    }
    for out in outs {
        assert!(!format!("{out:?}").contains(password), "{out:?}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_unavailable_before_the_claim() {
    let Some((mut server, place)) = own() else { return };
    server.stop(Ending::Orderly).unwrap();
    let out = place.sh("--key k", "echo run >> runs.txt");
    out.says(69, "Redis cannot be reached");
    assert!(out.stderr.ends_with("; the command was not run\n"), "{out:?}");
    for command in ["list", "stats", "sweep", "migrate", "show --key k", "erase --key k"] {
        place.idem(command.split(' ')).says(69, "Redis cannot be reached");
    }
    server.start().unwrap();
    assert_eq!(place.sh("--key k", "echo run >> runs.txt").code, Some(0));
    assert_eq!(place.runs(), 1);
}

#[test]
fn an_end_is_stored_once_the_server_is_back_within_the_lease() {
    let Some((mut server, place)) = own() else { return };
    let holder = place.sh_command("--key k --lease 2m", WAITING).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    server.stop(Ending::Kill).unwrap();
    let command = place.read("pid").trim().to_owned();
    place.write("go", "");
    until("the command ends", || !common::alive(&command));
    server.start().unwrap();
    assert_eq!(finish(holder).parts(), (Some(0), "done\n", ""));
    assert_eq!(place.sh("--key k", WAITING).parts(), (Some(0), "done\n", ""));
    assert_eq!(place.runs(), 1);
}

#[test]
fn an_end_that_a_server_never_confirms_is_uncertain() {
    let Some((mut server, place)) = own() else { return };
    let holder = place.sh_command("--key k --lease 3s", WAITING).spawn().unwrap();
    until("the command runs", || place.path("pid").exists());
    server.stop(Ending::Kill).unwrap();
    let command = place.read("pid").trim().to_owned();
    place.write("go", "");
    until("the command ends", || !common::alive(&command));
    let out = finish(holder);
    out.says(76, "the command ran, and the store did not confirm its end");
    assert_eq!(out.stdout, "done\n");
    server.start().unwrap();
    place.sh("--key k --wait 1m", WAITING).says(76, "uncertain since ");
    assert_eq!(place.runs(), 1);
}
