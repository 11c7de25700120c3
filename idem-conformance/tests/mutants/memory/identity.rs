//! Which operation is which.

use idem_core::answer::Claimed;
use idem_core::request::Claim;
use idem_core::{OperationId, Result};

use crate::bent::{Bend, Handle};

fn id(tenant: &str, operation: &str, key: &str) -> OperationId {
    #[allow(clippy::expect_used, reason = "parts of a fit id are fit")]
    OperationId::new(tenant, operation, key).expect("parts of a fit id are fit")
}

/// All tenants share their keys.
#[derive(Debug)]
pub(crate) struct TenantIgnored;

impl Bend for TenantIgnored {
    fn keep_under(&self, of: &OperationId) -> OperationId {
        id("everybody", of.operation(), of.key())
    }
}

/// All operations share their keys.
#[derive(Debug)]
pub(crate) struct OperationIgnored;

impl Bend for OperationIgnored {
    fn keep_under(&self, of: &OperationId) -> OperationId {
        id(of.tenant(), "everything", of.key())
    }
}

/// The parts are joined with a colon, and nothing escapes the colons in them.
#[derive(Debug)]
pub(crate) struct DelimiterJoin;

impl Bend for DelimiterJoin {
    fn keep_under(&self, of: &OperationId) -> OperationId {
        if of.tenant() == "joined" {
            return of.clone();
        }
        // A digest, because the joined text may be longer than a part.
        let joined = format!("{}:{}:{}", of.tenant(), of.operation(), of.key());
        let digest = idem_core::Fingerprint::bytes(joined.as_bytes());
        let text: String = digest.digest().iter().map(|byte| format!("{byte:02x}")).collect();
        id("joined", "joined", &text)
    }
}

/// A collation that does not tell upper from lower case.
#[derive(Debug)]
pub(crate) struct CaseFold;

impl Bend for CaseFold {
    fn keep_under(&self, of: &OperationId) -> OperationId {
        id(&of.tenant().to_ascii_lowercase(), of.operation(), &of.key().to_ascii_lowercase())
    }
}

/// A column of 255 bytes that cuts what is longer.
#[derive(Debug)]
pub(crate) struct TruncatedKey;

impl Bend for TruncatedKey {
    fn keep_under(&self, of: &OperationId) -> OperationId {
        let mut end = of.key().len().min(255);
        while !of.key().is_char_boundary(end) {
            end -= 1;
        }
        id(of.tenant(), of.operation(), &of.key()[..end])
    }
}

/// The first attempt has number 0.
#[derive(Debug)]
pub(crate) struct CountsFromZero;

impl Bend for CountsFromZero {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let mut answer = at.apply(request)?;
        if let Claimed::Granted(grant) = &mut answer {
            grant.number -= 1;
        }
        Ok(answer)
    }
}
