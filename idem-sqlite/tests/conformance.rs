//! The SQLite store against the suite, with the harness that the suite's own runner uses.

#[path = "../../idem-conformance/src/bin/idem-conformance/stores/sqlite/mod.rs"]
mod sqlite;

idem_conformance::main!(sqlite::Sqlite::default());
