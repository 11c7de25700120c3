//! The operation ledger in one SQLite file.

mod config;
mod error;
mod group;
mod place;
mod readers;
mod schema;
mod session;
mod statements;
mod store;
mod writer;

pub use config::{OnRisk, SqliteConfig, Synchronous};
pub use rusqlite;
pub use store::SqliteStore;
