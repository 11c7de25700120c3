//! Every command line that a document or a help shows is one that the parser takes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::Cli;

/// What stands for something else in what is shown, and something to put in its place.
const PLACES: [(&str, &str); 4] = [("SHELL", "bash"), ("N", "3"), ("COMMAND", "run"), ("STATE", "completed")];

/// How a document begins a line for this program.
const BEGINNINGS: [&str; 2] = ["idem ", "cargo run -q -p idem-cli -- "];

/// The command lines in `text`: in code spans, in fenced blocks, and in lines that are set in by four. A comment behind one is left out.
fn lines(text: &str) -> Vec<String> {
    let (mut lines, mut fenced) = (Vec::new(), false);
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let own = (fenced || line.starts_with("    ")).then(|| line.trim_start_matches([' ', '$']));
        for line in line.split('`').skip(1).step_by(2).chain(own) {
            if let Some(rest) = BEGINNINGS.iter().find_map(|beginning| line.strip_prefix(beginning)) {
                lines.push(rest.split(" # ").next().unwrap_or(rest).trim_end().to_owned());
            }
        }
    }
    lines
}

/// The lines that `line` stands for: without what is in brackets, and with each of it.
fn variants(line: &str) -> Vec<String> {
    let mut rest = line;
    let (mut plain, mut optional) = (String::new(), Vec::new());
    while let Some((before, (inside, after))) =
        rest.split_once(" [").and_then(|(before, after)| Some((before, after.split_once(']')?)))
    {
        plain.push_str(before);
        optional.push(inside);
        rest = after;
    }
    plain.push_str(rest);
    let with_each = optional.iter().map(|option| format!("{plain} {option}"));
    let with_each: Vec<_> = with_each.collect();
    [vec![plain.clone()], with_each].concat()
}

/// What is wrong with a command line. One that is the name of a command alone speaks about the command.
fn wrong(line: &str) -> Option<String> {
    let known = Cli::command();
    if known.find_subcommand(line).is_some() {
        return None;
    }
    variants(line).iter().find_map(|line| {
        let Some(words) = shlex::split(line) else { return Some(format!("{line}: an open quote")) };
        let words = words.into_iter().map(|word| {
            let place = PLACES.iter().find(|(name, _)| *name == word);
            place.map_or(word, |(_, instead)| (*instead).to_owned())
        });
        // A shell takes what follows for itself.
        let words = words.take_while(|word| ![";", "&&", "|", "<"].contains(&word.trim_end_matches(';')));
        match Cli::try_parse_from(["idem".to_owned()].into_iter().chain(words)) {
            // Without a key it speaks about an option; with one it is a line that somebody may type.
            Err(error) if error.kind() == ErrorKind::MissingRequiredArgument && !line.contains("--key") => {
                None
            }
            Err(error) if error.use_stderr() => Some(format!("idem {line}: {error}")),
            _ => None,
        }
    })
}

/// The documents of the repository, and those beside the manifest.
fn documents() -> BTreeSet<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().unwrap();
    let folders = [root.to_owned(), root.join("docs"), root.join("docs/adr"), here.to_owned()];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .collect()
}

#[test]
fn every_command_line_in_a_document_is_right() {
    let mut found = 0;
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        for line in lines(&text) {
            found += 1;
            assert_eq!(wrong(&line), None, "in {}", path.display());
        }
    }
    assert!(found > 40, "{found} command lines were found");
}

#[test]
fn every_command_line_in_a_help_is_right() {
    let mut idem = Cli::command();
    idem.build();
    let mut found = 0;
    let names: Vec<_> = idem.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        let help = idem.find_subcommand_mut(&name).unwrap().render_long_help().to_string();
        for line in lines(&help) {
            found += 1;
            assert_eq!(wrong(&line), None, "in the help of {name}");
        }
    }
    for line in lines(&crate::exit::table()) {
        assert_eq!(wrong(&line), None, "in the table of exit statuses");
    }
    assert!(found > 5, "{found} command lines were found");
}

#[test]
fn a_wrong_command_line_is_seen() {
    let text = "Type `idem show --key k` or\n\n    idem list --stuck   # what waits\n\nand `idem resolve`.";
    assert_eq!(lines(text), ["show --key k", "list --stuck", "resolve"]);
    assert_eq!(variants("list [--state STATE] [--stuck]"), ["list", "list --state STATE", "list --stuck"]);
    for right in [
        "resolve",
        "list [--state STATE] [--stuck]",
        "run --key k -- sh -c 'a; b'",
        "help exit-codes",
        "run --on-crash rerun",
    ] {
        assert_eq!(wrong(right), None);
    }
    for bad in ["resolve --key k --completed", "list --all", "list [--all]", "nothing", "show --key 'k"] {
        assert!(wrong(bad).is_some(), "{bad}");
    }
}
