//! The compare-and-swap adapter against the suite, over a folder of files.

#[path = "../src/bin/idem-conformance/stores/file.rs"]
mod file;
#[path = "../src/bin/idem-conformance/stores/file_store.rs"]
mod file_store;

idem_conformance::main!(file::Folder);
