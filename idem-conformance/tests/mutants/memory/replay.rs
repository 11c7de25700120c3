//! The same answer again.

use bytes::Bytes;
use idem_core::answer::{Claimed, Completed};
use idem_core::request::{Claim, Complete};
use idem_core::{Content, Error, Outcome, Record, Result, State, View};

use crate::bent::{Bend, Handle};

/// Changes the body of an outcome that is being stored.
fn with_body(before: Option<&Record>, after: &mut Record, change: impl FnOnce(&mut Option<Bytes>)) {
    let fresh = before.is_none_or(|before| before.state != State::Completed);
    if let Some(outcome) = after.outcome.as_mut().filter(|_| fresh)
        && let Content::Kept { body, .. } = &mut outcome.content
    {
        change(body);
    }
}

/// Keeps bodies as text, and replaces what is not.
#[derive(Debug)]
pub(crate) struct LossyText;

impl Bend for LossyText {
    fn stores(&self, _at: &Handle, before: Option<&Record>, after: &mut Record) {
        with_body(before, after, |body| {
            if let Some(bytes) = body {
                *bytes = String::from_utf8_lossy(bytes).into_owned().into();
            }
        });
    }
}

/// A body ends at its first zero byte.
#[derive(Debug)]
pub(crate) struct NulTruncation;

impl Bend for NulTruncation {
    fn stores(&self, _at: &Handle, before: Option<&Record>, after: &mut Record) {
        with_body(before, after, |body| {
            if let Some(bytes) = body {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                bytes.truncate(end);
            }
        });
    }
}

/// An empty body is no body.
#[derive(Debug)]
pub(crate) struct EmptyBecomesAbsent;

impl Bend for EmptyBecomesAbsent {
    fn stores(&self, _at: &Handle, before: Option<&Record>, after: &mut Record) {
        with_body(before, after, |body| *body = body.take().filter(|body| !body.is_empty()));
    }
}

/// Line ends are made the same.
#[derive(Debug)]
pub(crate) struct LineEnds;

impl Bend for LineEnds {
    fn stores(&self, _at: &Handle, before: Option<&Record>, after: &mut Record) {
        with_body(before, after, |body| {
            if let Some(text) = body.as_ref().and_then(|bytes| std::str::from_utf8(bytes).ok()) {
                *body = Some(text.replace("\r\n", "\n").into());
            }
        });
    }
}

/// Headers are a map: sorted, and one a name.
#[derive(Debug)]
pub(crate) struct HeadersAsMap;

impl Bend for HeadersAsMap {
    fn stores(&self, _at: &Handle, _before: Option<&Record>, after: &mut Record) {
        if let Some(outcome) = &mut after.outcome
            && let Content::Kept { headers, .. } = &mut outcome.content
        {
            headers.sort_by(|one, other| one.name.cmp(&other.name));
            headers.dedup_by(|one, other| one.name == other.name);
        }
    }
}

/// Texts are quoted by hand, and end at a quote.
#[derive(Debug)]
pub(crate) struct StringBuilt;

impl Bend for StringBuilt {
    fn stores(&self, _at: &Handle, _before: Option<&Record>, after: &mut Record) {
        if let Some(outcome) = &mut after.outcome
            && let Some(reference) = &mut outcome.reference
            && let Some(end) = reference.find('\'')
        {
            *reference = reference[..end].into();
        }
    }
}

/// What is too large is cut, and nobody is told.
#[derive(Debug)]
pub(crate) struct SizeClamp;

impl Bend for SizeClamp {
    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        let limit = at.capabilities.limits.body_bytes_max;
        if request.outcome.content_bytes() <= limit {
            return at.apply(request);
        }
        let mut request = request.clone();
        request.outcome = Outcome::success().body(vec![0xa5; limit]);
        at.apply(&request)
    }
}

/// What is too large is refused, so that the caller runs the effect again.
#[derive(Debug)]
pub(crate) struct RefusesTooLarge;

impl Bend for RefusesTooLarge {
    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        if request.outcome.content_bytes() > at.capabilities.limits.body_bytes_max {
            return Err(Error::invalid_input("the result is too large"));
        }
        at.apply(request)
    }
}

/// A replay says that it was completed now.
#[derive(Debug)]
pub(crate) struct LiveClock;

impl Bend for LiveClock {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let mut answer = at.apply(request)?;
        if let Claimed::Replay(replay) = &mut answer {
            replay.completed_at = at.context().now;
        }
        Ok(answer)
    }
}

/// A response is served until a sweep removes it.
#[derive(Debug)]
pub(crate) struct ServedUntilSwept;

impl Bend for ServedUntilSwept {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let context = at.context();
        let stored = at.stored(&request.id).filter(|record| context.view(Some(record)) == View::Expired);
        match stored.and_then(|record| record.completed_at) {
            Some(completed_at) => at.apply_in(request, &at.context_at(completed_at)),
            None => at.apply(request),
        }
    }
}
