//! The command lines that people are told to type, complete and as one would type them in a shell.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use idem_core::OperationId;

use crate::store::redacted;

/// What goes into every one of them: how the ledger was named.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hints {
    store: Option<OsString>,
}

impl Hints {
    /// For the ledger that was named so. One that a bare `idem` finds as well, by IDEM_STORE, need not be told.
    pub(crate) fn of(store: Option<&OsStr>) -> Self {
        Self::unless(store, std::env::var_os("IDEM_STORE").as_deref())
    }

    fn unless(store: Option<&OsStr>, found: Option<&OsStr>) -> Self {
        Self { store: store.filter(|store| !store.is_empty() && Some(*store) != found).map(OsStr::to_owned) }
    }

    /// The command line that shows the operation.
    pub(crate) fn show(&self, id: &OperationId) -> String {
        self.line("show", id)
    }

    /// The command lines that decide about it: that it happened, and that it did not. FILE and TEXT are for whoever
    /// types them.
    pub(crate) fn verdicts(&self, id: &OperationId) -> [String; 2] {
        let resolve = self.line("resolve", id);
        [
            format!("{resolve} --completed --stdout FILE --reason TEXT"),
            format!("{resolve} --did-not-happen --reason TEXT"),
        ]
    }

    /// The same in the middle of a sentence.
    pub(crate) fn resolve(&self, id: &OperationId) -> String {
        let [happened, did_not_happen] = self.verdicts(id);
        format!("`{happened}` or `{did_not_happen}`")
    }

    fn line(&self, command: &str, id: &OperationId) -> String {
        let mut text = format!("idem {command} ");
        if let Some(store) = &self.store {
            let _ = write!(text, "{} ", option("store", &redacted(&store.to_string_lossy())));
        }
        text.push_str(&options(id));
        text
    }
}

/// The options that name `id`. All of them: where one is left out, another operation may have the key too.
pub(crate) fn options(id: &OperationId) -> String {
    let parts = [("tenant", id.tenant()), ("operation", id.operation()), ("key", id.key())];
    parts.map(|(name, word)| option(name, word)).join(" ")
}

fn option(name: &str, word: &str) -> String {
    // What begins with a dash would be taken for an option of its own.
    let between = if word.starts_with('-') { '=' } else { ' ' };
    format!("--{name}{between}{}", quoted(word))
}

/// A word as one would type it in a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("evt-42"), "evt-42");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        let id = OperationId::new("default", "cli/sh", "$x").unwrap();
        assert_eq!(options(&id), "--tenant default --operation cli/sh --key '$x'");
    }

    #[test]
    fn every_command_line_is_one_that_idem_understands() {
        use crate::args::{Cli, Command};
        use clap::Parser;

        let words = ["plain", "-n", "--key", "it's $HOME", "a\\b `c` \"d\"", "ключ", "-", "--"];
        for (word, store) in words.into_iter().flat_map(|word| [(word, None), (word, Some(OsStr::new(word)))])
        {
            let id = OperationId::new(word, word, word).unwrap();
            let hints = Hints::unless(store, None);
            for line in [hints.show(&id)].iter().chain(&hints.verdicts(&id)) {
                let cli = Cli::try_parse_from(shlex::split(line).unwrap())
                    .unwrap_or_else(|e| panic!("{line}: {e}"));
                assert_eq!(cli.store.as_deref(), store, "{line}");
                let found = match &cli.command {
                    Command::Show(args) => &args.id,
                    Command::Resolve(args) => &args.id,
                    other => panic!("{other:?}"),
                };
                let word = Some(OsStr::new(word));
                let parts =
                    [found.tenant.as_deref(), found.operation.as_deref(), Some(found.key.as_os_str())];
                assert_eq!(parts, [word; 3], "{line}");
            }
        }
    }

    #[test]
    fn a_ledger_that_is_found_anyway_is_not_told() {
        let id = OperationId::new("t", "o", "k").unwrap();
        let line = |store: Option<&str>, found: Option<&str>| {
            Hints::unless(store.map(OsStr::new), found.map(OsStr::new)).show(&id)
        };
        assert_eq!(line(None, None), "idem show --tenant t --operation o --key k");
        assert_eq!(line(Some("a b"), None), "idem show --store 'a b' --tenant t --operation o --key k");
        assert_eq!(line(Some("a"), Some("a")), line(None, None));
        assert_eq!(line(Some("a"), Some("b")), "idem show --store a --tenant t --operation o --key k");
        assert!(line(Some("redis://u:secret@h"), None).contains(" --store redis://u:PASSWORD@h --tenant"));
    }
}
