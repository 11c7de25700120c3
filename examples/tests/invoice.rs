//! The program that the README shows is the one that is here, and does what the README says.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod support;

use support::{Ended, Folder, example, run};

#[test]
fn the_readme_shows_this_program() {
    let readme = include_str!("../../README.md");
    let shown = readme.split("```rust,no_run\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let (about, program) = include_str!("../invoice.rs").split_once("\n\n").unwrap();
    assert!(about.starts_with("//! "), "{about}");
    assert_eq!(program, shown);
}

#[test]
fn the_invoice_is_created_once() {
    let folder = Folder::new();
    let call = || run(example("invoice").current_dir(folder.path()));
    let first = call();
    assert_eq!((first.exit, first.stderr.as_str()), (Some(0), ""));
    assert!(first.stdout.starts_with("creating the invoice for "), "{first:?}");
    assert!(first.stdout.ends_with("\ninvoice 2026-001\n"), "{first:?}");
    assert_eq!(call(), Ended::success("invoice 2026-001\n"));
}
