//! Paths of the repository, in code spans and in links.

use std::path::Path;

use super::Repository;
use super::parse::Document;

/// What reads like a path of the repository and is none.
const OTHERS: [(&str, &str); 2] = [
    ("idem-cli/intent/v1", "a text that fingerprints begin with"),
    ("target/debug/deps", "where cargo builds"),
];

/// Files that are named by their ending alone, without a folder.
const ENDINGS: [&str; 9] = [".rs", ".json", ".md", ".toml", ".yml", ".sql", ".lua", ".sh", ".lock"];

/// Whether a code span is meant to be a path of the repository: it ends as files do, or begins with something that is
/// there.
pub(super) fn is_path(repository: &Repository, document: &Document, span: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    if !span.chars().all(allowed) || OTHERS.iter().any(|(other, _)| *other == span) {
        return false;
    }
    if ENDINGS.iter().any(|ending| span.ends_with(ending) && span != *ending) {
        return true;
    }
    let Some((first, _)) = span.split_once('/') else { return false };
    first.starts_with("idem-")
        || bases(repository, document).any(|base| !first.is_empty() && base.join(first).exists())
}

/// Where a path may begin: at the root, beside the document, in the folder of a member.
fn bases<'a>(repository: &'a Repository, document: &'a Document) -> impl Iterator<Item = &'a Path> {
    let members = repository.members.iter().map(|member| member.folder.as_path());
    [repository.root.as_path()].into_iter().chain(document.path.parent()).chain(members)
}

pub(super) fn missing(repository: &Repository, document: &Document, path: &str) -> Option<String> {
    let there = bases(repository, document).any(|base| base.join(path).exists());
    (!there).then(|| {
        format!("`{path}` is neither in the repository nor beside the document nor in a member's folder; if it is no path, OTHERS says so")
    })
}

/// Whether a link leads nowhere.
pub(super) fn dead(document: &Document, link: &str) -> Option<String> {
    let (path, section) = link.split_once('#').map_or((link, None), |(path, section)| (path, Some(section)));
    let target = if path.is_empty() { document.path.clone() } else { document.path.parent()?.join(path) };
    if !target.exists() {
        return Some(format!("{link}: there is no such file"));
    }
    let known = |section: &str| Document::read(target.clone()).anchors.iter().any(|anchor| anchor == section);
    section.filter(|section| !known(section)).map(|_| format!("{link}: there is no such section"))
}

#[test]
fn a_path_that_is_not_there_is_seen() {
    let repository = Repository::load();
    let document = Document { path: repository.root.join("docs/errors.md"), ..Document::default() };
    let wrong =
        |span| is_path(&repository, &document, span) && missing(&repository, &document, span).is_some();
    for there in ["README.md", "xtask/src", "errors.md", "src/documents/paths.rs", ".ci/run", "docs/adr/"] {
        assert!(is_path(&repository, &document, there) && !wrong(there), "{there}");
    }
    for bad in
        ["docs/error.md", "nothing.rs", "idem-nothing/src", "docs/nothing", "xtask/src/documents/none.rs"]
    {
        assert!(wrong(bad), "{bad}");
    }
    for other in ["charge/v1", "a b.rs x", "run", ".rs", "~/.local/state", "idem-cli/intent/v1"] {
        assert!(!is_path(&repository, &document, other), "{other}");
    }
    assert_eq!(dead(&document, "guarantees.md"), None);
    for bad in ["guarantee.md", "errors.md#nothing", "#nothing"] {
        assert!(dead(&document, bad).is_some(), "{bad}");
    }
}
