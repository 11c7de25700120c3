//! F: storage that is full, read-only or cut short, and D: the settings on which durability rests (G-62).

use std::fmt;

use async_trait::async_trait;
use idem_core::Result;

use crate::site::Site;

/// The storage below one site. Nobody has the site open while it is changed; handles that are opened afterwards see it
/// as it was made.
#[async_trait]
pub trait Storage: Send + Sync + fmt::Debug {
    /// There is no room for anything more: writes soon fail for want of it, not necessarily the first one.
    async fn fill(&self) -> Result<()>;

    /// It can be read and not written.
    async fn protect(&self) -> Result<()>;

    /// It is as it was before [`fill`](Self::fill) and [`protect`](Self::protect).
    async fn repair(&self) -> Result<()>;

    /// How many bytes have been appended to the log so far. Unlike the other methods, this and
    /// [`image`](Self::image) are asked while a handle is open.
    async fn log_bytes(&self) -> Result<u64>;

    /// Makes the empty site `image` what a machine would find that stopped when exactly `bytes` of the log had reached its
    /// disk.
    async fn image(&self, image: &Site, bytes: u64) -> Result<()>;
}

/// A setting on which durability rests: what the store relies on, and what is found when it is read back from where it
/// takes effect.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Its name there.
    pub name: String,
    /// What the store relies on.
    pub relied_on: String,
    /// What is found.
    pub found: String,
}

impl Setting {
    /// A setting that was read back.
    #[must_use]
    pub fn new(name: impl Into<String>, relied_on: impl Into<String>, found: impl Into<String>) -> Self {
        Self { name: name.into(), relied_on: relied_on.into(), found: found.into() }
    }
}
