//! The contract of the operation ledger, and everything in it that is the same for every store.

pub mod answer;
mod attempt;
mod error;
mod fingerprint;
mod key;
mod outcome;
pub mod record;
pub mod request;
pub mod store;
mod time;
pub mod transition;

pub use answer::{Claimed, Grant};
pub use attempt::{AttemptId, Fence, Label};
pub use error::{Error, ErrorKind, Result};
pub use fingerprint::{Fingerprint, FingerprintKind, Fingerprints, Scheme};
pub use key::{DownstreamKey, OperationId, PART_BYTES_MAX};
pub use outcome::{
    Content, Header, Omission, Outcome, OutcomeDigest, OutcomeKind, REFERENCE_BYTES_MAX, StoredOutcome,
};
pub use record::{EffectClass, Mode, Record, State, View};
pub use request::Claim;
pub use store::{Capabilities, Limits, Store};
pub use time::{Lease, Retention, Timestamp, Ttl};
