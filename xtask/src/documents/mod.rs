//! What the documents name is there: files of the repository, sections of other documents, and commands of cargo.

mod commands;
mod parse;
mod paths;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{process, workspace};
use parse::Document;

/// One member, as far as documents speak of it.
pub(super) struct Member {
    name: String,
    folder: PathBuf,
    /// Kind and name of what cargo builds of it.
    targets: Vec<(String, String)>,
}

/// The repository.
pub(super) struct Repository {
    root: PathBuf,
    members: Vec<Member>,
}

impl Repository {
    fn load() -> Self {
        let text =
            process::capture(process::cargo().args(["metadata", "--format-version", "1", "--no-deps"]))
                .unwrap();
        let metadata: Value = serde_json::from_str(&text).unwrap();
        let text = |value: &Value, field: &str| value[field].as_str().unwrap().to_owned();
        let member = |package: &Value| {
            let targets = package["targets"].as_array().unwrap().iter().flat_map(|target| {
                let kinds = target["kind"].as_array().unwrap().iter();
                kinds.map(|kind| (kind.as_str().unwrap().to_owned(), text(target, "name")))
            });
            let folder = Path::new(&text(package, "manifest_path")).parent().unwrap().to_owned();
            Member { name: text(package, "name"), folder, targets: targets.collect() }
        };
        let members = metadata["packages"].as_array().unwrap().iter().map(member).collect();
        Self { root: workspace::root().to_owned(), members }
    }

    /// Every document, wherever it is.
    fn documents(&self) -> Vec<Document> {
        let mut documents = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy();
                if path.is_dir() {
                    // What is built and what git keeps is nobody's document.
                    if !name.starts_with("target") && name != ".git" {
                        folders.push(path);
                    }
                } else if path.extension().is_some_and(|extension| extension == "md") {
                    documents.push(Document::read(path));
                }
            }
        }
        documents
    }
}

/// Checks every document, and that there was something to check.
fn check(least: usize, wrong: impl Fn(&Repository, &Document) -> (usize, Vec<String>)) {
    let repository = Repository::load();
    let documents = repository.documents();
    let (mut checked, mut complaints) = (0, Vec::new());
    for document in &documents {
        let (found, wrong) = wrong(&repository, document);
        checked += found;
        let name = document.path.strip_prefix(&repository.root).unwrap().display();
        complaints.extend(wrong.iter().map(|wrong| format!("{name}: {wrong}")));
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert!(checked >= least, "only {checked} were found in {} documents", documents.len());
}

/// How many there are, and what is wrong with them.
fn all<'a, T: 'a>(them: &'a [T], wrong: impl Fn(&'a T) -> Option<String>) -> (usize, Vec<String>) {
    (them.len(), them.iter().filter_map(wrong).collect())
}

#[test]
fn every_path_that_a_document_names_exists() {
    check(30, |repository, document| {
        let paths: Vec<_> =
            document.spans.iter().filter(|span| paths::is_path(repository, document, span)).collect();
        all(&paths, |path| paths::missing(repository, document, path))
    });
}

#[test]
fn every_link_leads_somewhere() {
    check(15, |_, document| all(&document.links, |link| paths::dead(document, link)));
}

#[test]
fn every_command_of_cargo_that_a_document_names_exists() {
    check(25, |repository, document| all(&document.commands, |line| commands::wrong(repository, line)));
}

/// rustdoc hides them, and every other reader of a README sees them.
#[test]
fn no_example_has_hidden_lines() {
    check(5, |_, document| {
        all(&document.rust, |block| {
            let hidden = block.lines().find(|line| *line == "#" || line.starts_with("# "));
            hidden.map(|line| format!("a hidden line: {line}"))
        })
    });
}
