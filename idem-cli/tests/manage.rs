//! The commands for whoever looks after a ledger.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that fails says where")]

mod common;

use common::Place;

/// Replaces what differs from run to run: times, fences, owners and digests.
fn fixed(text: &str) -> String {
    let mut fixed = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let (digits, after) = number.split_at(end);
        fixed.push_str(before);
        fixed.push_str(if digits.len() > 9 { "MS" } else { digits });
        rest = after;
    }
    fixed + rest
}

/// Three operations: one completed, one released, one uncertain.
fn filled() -> Place {
    let place = Place::new();
    place.sh("--key done", "echo hello; echo err >&2; exit 3");
    place.sh("--key back --on-failure release", "exit 1");
    place.sh("--key parked --tenant acme --operation charge/v1 --on-failure park", "exit 1");
    place
}

#[test]
fn a_record_for_programs_keeps_its_names() {
    let place = filled();
    let text = place.idem(["show", "--json", "--key", "done"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let owner = json["attempts"][0]["owner"].as_str().unwrap();
    let digest = json["outcome"]["digest"].as_str().unwrap();
    let key = json["downstream_key"].as_str().unwrap();
    let text = text.replace(owner, "OWNER").replace(digest, "DIGEST").replace(key, "KEY");
    assert_eq!(
        fixed(&text),
        r#"{"tenant":"default","operation":"cli/sh","key":"done","state":"completed","attempt":1,"fence":MS,"version":2,"effect":"opaque","registered":false,"payload_bytes":null,"downstream_key":"KEY","created_ms":MS,"updated_ms":MS,"first_grant_ms":MS,"completed_ms":MS,"response_until_ms":null,"identity_until_ms":null,"attempts":[{"number":1,"owner":"OWNER","mode":"execute","fence":MS,"started_ms":MS,"lease_until_ms":MS,"ended_ms":MS,"ended":"completed","absence":null}],"checkpoints":[],"parked":null,"resolution":null,"outcome":{"kind":"failure","class":"exit-3","exit":3,"reference":null,"digest":"DIGEST","stdout_bytes":6,"stderr_bytes":4,"omitted":null,"omitted_bytes":null}}
"#
    );
    let parked = place.idem(["show", "--json", "--tenant", "acme", "--key", "parked"]).json();
    let names: Vec<_> = parked["parked"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["by", "cause", "note", "since_ms"]);
    let stats = place.idem(["stats", "--json"]).stdout;
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    let names: Vec<_> = stats.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "completed",
            "expired",
            "lapsed",
            "now_ms",
            "oldest_processing_age_ms",
            "oldest_uncertain_age_ms",
            "received",
            "running",
            "uncertain"
        ]
    );
    assert_eq!(
        (&stats["completed"], &stats["received"], &stats["uncertain"]),
        (&1.into(), &1.into(), &1.into())
    );
}

#[test]
fn lists_are_filtered() {
    let place = filled();
    let keys = |options: &[&str]| {
        let out = place.idem(["list", "--json"].iter().chain(options));
        assert_eq!((out.code, out.stderr.as_str()), (Some(0), ""));
        let lines = out.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let mut keys: Vec<_> = lines.map(|record| record["key"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        keys.join(" ")
    };
    assert_eq!(keys(&[]), "back done parked");
    assert_eq!(keys(&["--stuck"]), "parked");
    assert_eq!(keys(&["--state", "received"]), "back");
    assert_eq!(keys(&["--state", "received,completed"]), "back done");
    assert_eq!(keys(&["--state", "lapsed"]), "");
    assert_eq!(keys(&["--tenant", "acme"]), "parked");
    assert_eq!(keys(&["--operation", "cli/sh"]), "back done");
    assert_eq!(keys(&["--limit", "2"]).split(' ').count(), 2);
    let table = place.idem(["list", "--stuck"]).stdout;
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines[0], "STATE      ATTEMPT  SINCE                     TENANT  OPERATION  KEY");
    assert!(
        lines[1].starts_with("uncertain  1        2") && lines[1].ends_with("Z  acme    charge/v1  parked")
    );
    place.idem(["list", "--state", "gone"]).says(64, "invalid value 'gone' for '--state <STATE>'");
}

#[test]
fn everything_is_listed_however_many_pages_it_takes() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store =
            std::sync::Arc::new(idem_sqlite::SqliteStore::open(place.path("ledger.db")).await.unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..2001 {
            let store = std::sync::Arc::clone(&store);
            tasks.spawn(async move {
                let id = idem_core::OperationId::new("default", "o", &format!("k{number:04}")).unwrap();
                let request = idem_core::request::Register::new(id, idem_core::Fingerprint::bytes(b""));
                idem_core::Store::register(&*store, &request).await.unwrap();
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    });
    let keys = |out: common::Out| {
        let mut keys: Vec<_> =
            out.stdout.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
        keys.sort();
        keys.dedup();
        keys
    };
    let all = keys(place.idem(["list"]));
    assert_eq!((all.len(), all[0].as_str(), all[2001].as_str()), (2002, "KEY", "k2000"));
    assert_eq!(keys(place.idem(["list", "--limit", "1500"])).len(), 1501);
    assert_eq!(place.show("k2000")["state"], "received");
}

#[test]
fn an_operation_is_found_by_its_key_where_that_is_enough() {
    let place = filled();
    let show = |args: &[&str]| place.idem(["show"].iter().chain(args));
    let out = show(&["--key", "parked"]);
    assert!(
        out.stdout.starts_with("operation   charge/v1\ntenant      acme\nkey         parked\n"),
        "{out:?}"
    );
    place.sh("--key done --operation other", "true");
    place.sh("--key done --tenant acme", "true");
    show(&["--key", "done"]).says(
        64,
        "3 operations have the key `done`; choose one: `--tenant acme --operation cli/sh --key done`, \
         `--tenant default --operation cli/sh --key done`, `--tenant default --operation other --key done`",
    );
    show(&["--key", "done", "--tenant", "default"])
        .says(64, "2 operations have the key `done`; choose one: ");
    show(&["--key", "done", "--operation", "cli/sh"])
        .says(64, "2 operations have the key `done`; choose one: ");
    let out = show(&["--key", "done", "--operation", "other"]);
    assert!(out.stdout.starts_with("operation   other\ntenant      default\nkey         done\n"), "{out:?}");
    let out = show(&["--key", "done", "--tenant", "default", "--operation", "cli/sh"]);
    assert!(
        out.stdout.contains("\noutcome     failure of class exit-3, exit status 3, stdout 6 bytes, "),
        "{out:?}"
    );
    show(&["--key", ""]).says(64, "the idempotency key is empty");
}

#[test]
fn an_operation_that_is_not_there_is_told_with_those_that_are() {
    let place = filled();
    place.sh("--key done --tenant acme", "true");
    let show = |args: &[&str]| place.idem(["show"].iter().chain(args));
    show(&["--key", "missing"])
        .says(1, "there is no operation of any name of any tenant with the key `missing`");
    let full = ["--key", "missing", "--tenant", "acme", "--operation", "x"];
    show(&full).says(
        1,
        "there is no operation `x` of tenant `acme` with the key `missing`, and none of another tenant or name",
    );
    show(&["--key", "parked", "--tenant", "default"]).says(
        1,
        "there is no operation of any name of tenant `default` with the key `parked`; another one has the key: \
         `--tenant acme --operation charge/v1 --key parked`",
    );
    show(&["--key", "done", "--operation", "x"]).says(
        1,
        "there is no operation `x` of any tenant with the key `done`; 2 others have the key: `--tenant acme \
         --operation cli/sh --key done`, `--tenant default --operation cli/sh --key done`",
    );
    for tenant in 0..6 {
        place.sh(&format!("--key done --tenant t{tenant}"), "true");
    }
    let out = show(&["--key", "done", "--operation", "x"]);
    assert!(
        out.stderr.contains("; 8 others have the key: ") && out.stderr.ends_with(", and 3 more\n"),
        "{out:?}"
    );
}

#[test]
fn list_and_show_agree_on_what_is_there() {
    let place = filled();
    let listed = place.idem(["list", "--json"]).stdout;
    for line in listed.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(place.show(record["key"].as_str().unwrap())["fence"], record["fence"]);
    }
    assert_eq!(listed.lines().count(), 3);
    let stats = place.idem(["stats", "--json"]).json();
    assert_eq!(stats["completed"].as_u64().unwrap() + stats["received"].as_u64().unwrap(), 2);
}

#[test]
fn no_file_is_left_that_only_an_open_ledger_needs() {
    let place = filled();
    let check = |what: &str| {
        let names = std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["ledger.db"], "after {what}");
    };
    check("run");
    for (command, code) in [
        ("list", 0),
        ("stats", 0),
        ("sweep", 0),
        ("migrate", 0),
        ("show --key done", 0),
        ("show --key missing", 1),
        ("erase --key done", 0),
        ("erase --key back", 1),
        ("resolve --key parked --completed --no-output --reason r", 0),
        ("resolve --key parked --completed --no-output --reason r", 1),
        ("register --key new --input /dev/null", 0),
        ("run --key done -- sh -c true", 65),
        ("run --key lost -- no-such-command", 127),
    ] {
        assert_eq!(place.idem(command.split(' ')).code, Some(code), "{command}");
        check(command);
    }
}

#[test]
fn looking_does_not_make_a_ledger() {
    let place = Place::new();
    for command in [
        vec!["show", "--key", "k"],
        vec!["list"],
        vec!["stats"],
        vec!["sweep"],
        vec!["erase", "--key", "k"],
        vec!["resolve", "--key", "k", "--did-not-happen", "--reason", "r"],
    ] {
        place.idem(command).says(78, "there is no ledger at ledger.db");
    }
    assert!(!place.has_ledger());
    let out = place.idem(["migrate"]);
    assert_eq!(out.parts(), (Some(0), "ledger.db: sqlite ledger, up to date\n", ""));
    assert_eq!(place.idem(["list"]).parts(), (Some(0), "", ""));
}

#[test]
fn an_intent_is_registered_once() {
    let place = Place::new();
    place.write("payload", "for the worker");
    let register = |args: &[&str]| place.idem(["register"].iter().chain(args));
    let of = ["--key", "k", "--input", "payload", "--", "sh", "-c", "cat"];
    assert_eq!(register(&of).parts(), (Some(0), "created received\n", ""));
    assert_eq!(register(&of).parts(), (Some(0), "existing received\n", ""));
    let out = place.sh("--key k --input payload", "cat");
    assert_eq!(out.parts(), (Some(0), "for the worker", ""), "the command that was registered may run");
    assert_eq!(register(&of).parts(), (Some(0), "existing completed\n", ""));
    let json = ["--json", "--key", "j", "--input", "payload"];
    assert_eq!(register(&json).stdout, "{\"created\":true,\"state\":\"received\"}\n");
    assert_eq!(place.show("j")["operation"], "cli/register");
    assert_eq!(place.show("j")["payload_bytes"], 14);
    place.write("payload", "changed");
    register(&of).says(65, "the key was used for another intent");
    register(&json).says(65, "the key was used for another intent");
    register(&["--key", "", "--input", "payload"]).says(64, "the idempotency key is empty");
    register(&["--key", "x", "--input", "missing"]).says(64, "the input missing cannot be read");
    place.write("payload", vec![b'x'; (1 << 18) + 1]);
    register(&["--key", "x", "--input", "payload"]).says(64, "the payload has 262145 bytes, more than");
}

#[test]
fn a_wrong_registration_makes_no_ledger() {
    let place = Place::new();
    place.idem(["register", "--key", "", "--input", "-"]).says(64, "the idempotency key is empty");
    assert!(!place.has_ledger());
}

#[test]
fn content_is_erased_and_swept() {
    let place = filled();
    assert_eq!(place.idem(["erase", "--key", "done"]).parts(), (Some(0), "erased\n", ""));
    assert_eq!(place.idem(["erase", "--key", "done"]).parts(), (Some(0), "erased before\n", ""));
    let out = place.sh("--key done", "echo hello; echo err >&2; exit 3");
    out.says(77, "done at 2");
    assert!(out.stderr.contains(" with exit status 3; its output is no longer kept"), "{out:?}");
    assert_eq!(place.show("done")["state"], "expired");
    place.idem(["erase", "--key", "back"]).says(1, "it is received, and only what is finished can be erased");
    place
        .idem(["erase", "--key", "parked"])
        .says(1, "it is uncertain, and only what is finished can be erased: decide");
    place.idem(["erase", "--key", "missing"]).says(1, "there is no operation of any name");
    place.sh("--key short --response-ttl 1ms", "echo secret");
    assert_eq!(place.idem(["sweep"]).parts(), (Some(0), "erased 1, purged 0\n", ""));
    assert_eq!(place.idem(["sweep", "--json"]).stdout, "{\"erased\":0,\"purged\":0}\n");
}

#[test]
fn a_verdict_needs_its_parts() {
    let place = filled();
    let resolve = |args: &[&str]| {
        let fixed = ["resolve", "--tenant", "acme", "--key", "parked"];
        place.idem(fixed.iter().chain(args))
    };
    resolve(&["--reason", "r"]).says(64, "the following required arguments were not provided");
    for (given, missing) in [
        (vec!["--completed", "--no-output"], "--reason <TEXT>"),
        (vec!["--completed", "--reason", "r"], "<--stdout <FILE>|--no-output>"),
        (vec!["--completed", "--reason", "r", "--stderr", "large"], "<--stdout <FILE>|--no-output>"),
        (vec!["--no-output", "--reason", "r"], "<--completed|--did-not-happen>"),
    ] {
        resolve(&given).says(64, &format!("the following required arguments were not provided: {missing}"));
    }
    let twice = ["--completed", "--reason", "r", "--no-output", "--stdout", "large"];
    resolve(&twice).says(64, "the argument '--no-output' cannot be used with '--stdout <FILE>'");
    let twice = ["--completed", "--reason", "r", "--stdout", "-", "--stderr", "-"];
    resolve(&twice).says(64, "only one of --stdout and --stderr can be stdin");
    resolve(&["--completed", "--did-not-happen", "--reason", "r"])
        .says(64, "the argument '--completed' cannot be used");
    resolve(&["--completed", "--no-output", "--reason", ""]).says(64, "a label is 1 to 128 bytes");
    resolve(&["--completed", "--reason", "r", "--stdout", "missing"]).says(64, "missing cannot be read");
    place.write("large", vec![b'x'; 1 << 20]);
    resolve(&["--completed", "--reason", "r", "--stdout", "large"])
        .says(64, "large is larger than the ledger keeps");
    assert_eq!(resolve(&["--did-not-happen", "--reason", "r"]).code, Some(75), "its lease may still run");
    assert_eq!(
        place.idem(["show", "--json", "--tenant", "acme", "--key", "parked"]).json()["state"],
        "uncertain"
    );
    assert_eq!(resolve(&["--completed", "--no-output", "--reason", "r"]).code, Some(0));
    let out = place.sh("--key parked --tenant acme --operation charge/v1", "exit 1");
    assert_eq!(out.parts(), (Some(0), "", ""));
}

#[test]
fn the_output_of_what_happened_may_come_from_stdin() {
    let place = filled();
    let args = ["resolve", "--key", "parked", "--completed", "--stdout", "-", "--reason", "r", "--exit", "4"];
    let mut resolve = place.command(args).stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut resolve.stdin.take().unwrap(), b"found\n").unwrap();
    assert_eq!(common::finish(resolve).code, Some(0));
    let out = place.sh("--key parked --tenant acme --operation charge/v1", "exit 1");
    assert_eq!(out.parts(), (Some(4), "found\n", ""));
}

/// The command lines that idem tells people to type, with something in the place of FILE and TEXT.
fn told(text: &str) -> Vec<String> {
    let spans = text.split('`').skip(1).step_by(2);
    let spans = spans.chain(text.lines().map(str::trim_start)).filter(|line| line.starts_with("idem "));
    spans.map(|line| line.replace(" FILE ", " found ").replace(" TEXT", " 'I looked'")).collect()
}

#[test]
fn the_command_lines_that_are_told_do_what_they_say() {
    let place = Place::new();
    place.write("found", "as it was\n");
    // The ledger is named by an option, so it has to be named by what is told too.
    let store = ["--store", "o'ther.db"];
    let run = |key: &str| {
        let args = ["--key", key, "--tenant=-a $b", "--on-failure", "park", "--", "sh", "-c", "exit 1"];
        place
            .command(["run"].iter().chain(&store).chain(&args))
            .env_remove("IDEM_STORE")
            .output()
            .map(common::Out::from)
            .unwrap()
    };
    let type_in = |line: &str| {
        let idem = env!("CARGO_BIN_EXE_idem");
        let typed = format!("idem() {{ '{idem}' \"$@\"; }}; {line}");
        let shell =
            std::process::Command::new("sh").args(["-c", &typed]).current_dir(place.path("")).output();
        common::Out::from(shell.unwrap())
    };
    for key in ["it happened", "it's not so"] {
        let parked = told(&run(key).stderr);
        let again = told(&run(key).stderr);
        assert_eq!((parked.len(), again.len()), (2, 3), "{parked:?} {again:?}");
        assert_eq!(parked, again[1..]);
        let shown = type_in(&again[0]);
        assert!(
            shown.stdout.contains(&format!("\nkey         {key}\nstate       uncertain since ")),
            "{shown:?}"
        );
        assert_eq!(told(&shown.stdout), parked);
    }
    let [happened, _] = told(&run("it happened").stderr).split_off(1).try_into().unwrap();
    assert_eq!(type_in(&happened).parts().0, Some(0), "{happened}");
    assert_eq!(run("it happened").parts(), (Some(0), "as it was\n", ""));
    let [_, did_not_happen] = told(&run("it's not so").stderr).split_off(1).try_into().unwrap();
    // Its lease may still run: the verdict is understood, and too early.
    type_in(&did_not_happen).says(75, "a request of its last holder may still land");
}

#[test]
fn help_completions_and_the_man_page_are_there() {
    let place = Place::new();
    let codes = place.idem(["help", "exit-codes"]);
    assert_eq!((codes.code, codes.stderr.as_str()), (Some(0), ""));
    for code in ["its own", "64", "65", "69", "70", "75", "76", "77", "78", "126", "127"] {
        assert!(codes.stdout.lines().any(|line| line.starts_with(&format!("  {code} "))), "{code}");
    }
    for (args, part) in [
        (vec!["help"], "Usage: idem [OPTIONS] <COMMAND>"),
        (vec!["--help"], "Usage: idem [OPTIONS] <COMMAND>"),
        (vec!["help", "run"], "Usage: idem run [OPTIONS] --key <KEY> -- <CMD>..."),
        (vec!["run", "--help"], "Usage: idem run [OPTIONS] --key <KEY> -- <CMD>..."),
        (vec!["--version"], concat!("idem ", env!("CARGO_PKG_VERSION"))),
        (vec!["completions", "bash"], "complete -F _idem"),
        (vec!["completions", "zsh"], "#compdef idem"),
        (vec!["completions", "fish"], "complete -c idem"),
        (vec!["man"], ".TH idem 1"),
        (vec!["man", "run"], ".TH idem-run 1"),
        (vec!["man", "run"], "\\-\\-reconcile"),
    ] {
        let out = place.idem(&args);
        assert!(
            out.stdout.contains(part) && out.stderr.is_empty() && out.code == Some(0),
            "{args:?}: {out:?}"
        );
    }
    place.idem(["help", "nothing"]).says(64, "there is no help about `nothing`");
    place.idem(["man", "nothing"]).says(64, "there is no help about `nothing`");
    place.idem(["completions", "tcsh"]).says(64, "invalid value 'tcsh' for '<SHELL>'");
    place.idem(["nothing"]).says(64, "unrecognized subcommand 'nothing'; see `idem help`");
    place.command::<&str>([]).output().map(common::Out::from).unwrap().says(64, "no command is given");
}
