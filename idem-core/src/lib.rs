#![doc = include_str!("../README.md")]

pub mod answer;
mod attempt;
pub mod backoff;
pub mod batch;
pub mod cas;
pub mod clock;
pub mod codec;
mod debug;
mod error;
mod fingerprint;
mod key;
pub mod ledger;
pub mod local;
mod memory;
pub mod observe;
mod outcome;
pub mod record;
pub mod request;
pub mod store;
mod sync;
mod time;
pub mod transition;
pub mod wake;

pub use answer::{Claimed, Grant};
pub use attempt::{AttemptId, Fence, Label};
pub use cas::{CasAdapter, CasStore};
pub use error::{Error, ErrorKind, Result};
pub use fingerprint::{Fingerprint, FingerprintKey, FingerprintKind, Fingerprints, Scheme};
pub use key::{DownstreamKey, OperationId, PART_BYTES_MAX};
pub use ledger::Ledger;
pub use memory::MemoryStore;
pub use outcome::{
    Content, Header, Omission, Outcome, OutcomeDigest, OutcomeKind, REFERENCE_BYTES_MAX, StoredOutcome,
};
pub use record::{EffectClass, Mode, Record, State, View};
pub use request::Claim;
pub use store::{Capabilities, Limits, Store};
pub use time::{Lease, Retention, Timestamp, Ttl};
