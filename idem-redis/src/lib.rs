#![doc = include_str!("../README.md")]

mod config;
mod error;
mod head;
mod keys;
mod link;
mod row;
mod scan;
mod scripts;
mod store;

pub use config::RedisConfig;
pub use store::RedisStore;
