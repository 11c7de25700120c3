//! O: messages that are written with the effect and published later (G-80, G-81).

use std::fmt;

use async_trait::async_trait;
use idem_core::{Error, Result};

/// A message for the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Messages with the same ordering key are published in the order of their transactions.
    pub ordering: String,
    /// What is published.
    pub body: Vec<u8>,
}

impl Message {
    #[allow(dead_code, reason = "the scenarios that use it follow")]
    pub(crate) fn new(ordering: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { ordering: ordering.into(), body: body.into() }
    }
}

/// A message that a relay publishes, or has set aside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Delivery {
    /// The id by which receivers recognise a second delivery: the same for every delivery of the message.
    pub id: String,
    /// The ordering key of the message.
    pub ordering: String,
    /// What is published.
    pub body: Vec<u8>,
}

impl Delivery {
    /// A message as it leaves the outbox.
    #[must_use]
    pub fn new(id: impl Into<String>, ordering: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Self { id: id.into(), ordering: ordering.into(), body: body.into() }
    }
}

/// Where a relay publishes to.
#[async_trait]
pub trait Publisher: Send + Sync + fmt::Debug {
    /// Publishes a message; an error is a refusal.
    async fn publish(&self, delivery: &Delivery) -> Result<(), Error>;
}

/// The outbox of one site, as its relays see it.
#[async_trait]
pub trait Outbox: Send + Sync + fmt::Debug {
    /// One pass of one relay: publishes what is due, marks what was acknowledged, and gives how many that were. A refusal
    /// is no error of the pass.
    async fn relay(&self, publisher: &dyn Publisher) -> Result<u64>;

    /// Messages that were refused too often and are set aside.
    async fn set_aside(&self) -> Result<Vec<Delivery>>;

    /// An operator's decision on one that was set aside: it is tried again, or skipped for good.
    async fn decide(&self, id: &str, again: bool) -> Result<()>;
}
