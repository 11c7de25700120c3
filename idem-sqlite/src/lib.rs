//! The operation ledger in one SQLite file.

mod bells;
mod config;
mod error;
mod group;
mod local;
mod place;
mod ran;
mod readers;
mod schema;
mod session;
mod statements;
mod store;
#[cfg(test)]
mod tests;
mod typed;
mod writer;

pub use config::{OnRisk, SqliteConfig, Synchronous};
pub use idem_core::local::{BoxError, EffectFailure, Executed, LocalRun, NotCompleted};
pub use rusqlite;
pub use store::SqliteStore;
