//! What callers send.

use idem_core::Result;
use idem_core::answer::Registered;
use idem_core::request::Register;

use crate::bent::{Bend, Handle};

/// Payloads of any size are kept.
#[derive(Debug)]
pub(crate) struct PayloadUnlimited;

impl Bend for PayloadUnlimited {
    fn register(&self, at: &Handle, request: &Register) -> Result<Registered> {
        let mut context = at.context();
        context.limits.payload_bytes_max = usize::MAX;
        at.apply_in(request, &context)
    }
}

/// An empty payload is no payload.
#[derive(Debug)]
pub(crate) struct EmptyPayloadIsNone;

impl Bend for EmptyPayloadIsNone {
    fn register(&self, at: &Handle, request: &Register) -> Result<Registered> {
        let mut request = request.clone();
        request.payload = request.payload.filter(|payload| !payload.is_empty());
        at.apply(&request)
    }
}

/// Payloads are kept as text.
#[derive(Debug)]
pub(crate) struct PayloadIsText;

impl Bend for PayloadIsText {
    fn register(&self, at: &Handle, request: &Register) -> Result<Registered> {
        let mut request = request.clone();
        request.payload = request.payload.map(|bytes| String::from_utf8_lossy(&bytes).into_owned().into());
        at.apply(&request)
    }
}

/// Class Local is taken from everybody.
#[derive(Debug)]
pub(crate) struct LocalAccepted;

impl Bend for LocalAccepted {
    fn refuses_local(&self) -> bool {
        false
    }
}
