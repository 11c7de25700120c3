//! Commands of cargo, as far as cargo knows before it runs them.

use super::Repository;
use crate::jobs;
use idem_provision::Software;

/// What cargo can do by itself.
const BUILT_IN: [&str; 10] =
    ["build", "check", "run", "test", "bench", "clippy", "fmt", "doc", "install", "tree"];

/// What the developer commands install or skip without.
const TOOLS: [&str; 3] = ["nextest", "mutants", "deny"];

/// What is wrong with a command line, which begins with `cargo`.
pub(super) fn wrong(repository: &Repository, line: &str) -> Option<String> {
    let words: Vec<_> = line.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", "xtask", words @ ..] => xtask(repository, words),
        ["cargo", command, words @ ..] if BUILT_IN.contains(command) || TOOLS.contains(command) => {
            arguments(repository, words)
        }
        _ => Some("cargo has no such command".to_owned()),
    }
    .map(|wrong| format!("`{line}`: {wrong}"))
}

/// The developer commands: as `main` takes them.
fn xtask(repository: &Repository, words: &[&str]) -> Option<String> {
    match words {
        [] | ["test" | "help"] => None,
        ["test", "--after", names @ ..] | ["ci", names @ ..] if !names.is_empty() => {
            let names: Vec<_> = names.iter().copied().filter(|name| !stands_for_another(name)).collect();
            jobs::resolve(&names).err().map(|error| error.to_string())
        }
        ["up", words @ ..] if !words.is_empty() => {
            let (names, command) = match words.iter().position(|word| *word == "--") {
                Some(at) => (words.get(..at)?, words.get(at + 1..)?),
                None => (words, &[][..]),
            };
            let unknown =
                names.iter().find(|name| !stands_for_another(name) && Software::named(name).is_none());
            match unknown {
                Some(name) => Some(format!("no server is called {name}")),
                None if command.first() == Some(&"cargo") => wrong(repository, &command.join(" ")),
                None => None,
            }
        }
        _ => Some("cargo xtask has no such command".to_owned()),
    }
}

/// The arguments by which cargo finds something: packages, their targets, and folders.
fn arguments(repository: &Repository, words: &[&str]) -> Option<String> {
    let words: Vec<_> = words.iter().copied().take_while(|word| *word != "--").collect();
    let given = |names: [&str; 2]| {
        let at = words.iter().position(|word| names.contains(word))?;
        words.get(at + 1).copied().filter(|value| !stands_for_another(value))
    };
    let package = given(["-p", "--package"]);
    if let Some(name) = package.filter(|name| repository.members.iter().all(|member| member.name != *name)) {
        return Some(format!("no member is called {name}"));
    }
    for kind in ["example", "test", "bench", "bin"] {
        let Some(name) = given([&format!("--{kind}"), ""]) else { continue };
        let members =
            repository.members.iter().filter(|member| package.is_none_or(|package| member.name == package));
        let mut targets = members.flat_map(|member| &member.targets);
        if !targets.any(|(of_kind, target)| of_kind == kind && target == name) {
            return Some(format!("there is no {kind} {name}"));
        }
    }
    let folder = given(["--path", ""])?;
    (!repository.root.join(folder).join("Cargo.toml").exists()).then(|| format!("{folder} is no package"))
}

/// Whether a word says what is to be put in its place.
fn stands_for_another(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

#[test]
fn a_command_that_is_not_there_is_seen() {
    let repository = Repository::load();
    for right in [
        "cargo test -p xtask documents",
        "cargo run -q -p idem-cli -- run --key k -p none",
        "cargo nextest run -p PACKAGE",
        "cargo xtask ci all",
        "cargo xtask ci JOB",
        "cargo xtask test --after fmt clippy",
        "cargo xtask up postgres -- cargo test -p xtask",
        "cargo install --path idem-cli",
        "cargo test -p idem-sqlite --test conformance -- CC-001",
    ] {
        assert_eq!(wrong(&repository, right), None);
    }
    for bad in [
        "cargo xtest",
        "cargo test -p nothing",
        "cargo run --package nothing",
        "cargo run --example nothing",
        "cargo test -p xtask --test conformance",
        "cargo xtask ci everything",
        "cargo xtask all",
        "cargo xtask up mysql",
        "cargo xtask up postgres -- cargo test -p nothing",
        "cargo install --path nothing",
    ] {
        assert!(wrong(&repository, bad).is_some(), "{bad}");
    }
}
