//! What an operation ended with: the outcome as the caller gives it, and as the ledger keeps it (G-30 to G-33).

use std::fmt;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::attempt::{Label, fit};
use crate::time::{Retention, Ttl};

/// The most bytes of an outcome's reference; a longer one is cut and flagged (G-17).
pub const REFERENCE_BYTES_MAX: usize = 512;

/// Whether the operation did what it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutcomeKind {
    /// It did.
    Success,
    /// It ended for good without doing it, and the failure is the answer from now on (`Permanent`, G-31).
    Failure,
}

/// One header of a response: kept in order, with duplicates, byte for byte (G-30).
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Header {
    /// The name as it was given.
    pub name: Bytes,
    /// The value, any bytes.
    pub value: Bytes,
}

impl Header {
    /// A header.
    pub fn new(name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: <{} bytes>", self.name, self.value.len())
    }
}

/// The end of an operation, as its holder reports it.
///
/// An absent body, an empty one, `null`, `false` and bytes that are not UTF-8 are all different, and replayed as they
/// were (G-30). `Debug` shows lengths, not contents (G-91).
///
/// ```
/// use idem_core::{Outcome, OutcomeKind};
///
/// let outcome = Outcome::success().body("paid").reference("invoice-9").header("content-type", "text/plain");
/// assert_eq!(outcome.kind(), OutcomeKind::Success);
/// assert_ne!(Outcome::success().digest(), Outcome::success().body("").digest());
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Outcome {
    kind: OutcomeKind,
    class: Option<Label>,
    reference: Option<Box<str>>,
    body: Option<Bytes>,
    headers: Vec<Header>,
    cut: bool,
    too_large: Option<TooLarge>,
}

/// What stands for a content that was never held as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
struct TooLarge {
    content_bytes: u64,
    content_digest: [u8; 32],
}

impl Outcome {
    /// A success without a body.
    #[must_use]
    pub const fn success() -> Self {
        Self::empty(OutcomeKind::Success, None, false)
    }

    /// A failure of `class` (a short name that programs can match, such as `card_declined`). An overlong class is cut
    /// and flagged (G-17).
    #[must_use]
    pub fn failure(class: &str) -> Self {
        let (class, cut) = Label::cut(class);
        Self::empty(OutcomeKind::Failure, class, cut)
    }

    const fn empty(kind: OutcomeKind, class: Option<Label>, cut: bool) -> Self {
        Self { kind, class, reference: None, body: None, headers: Vec::new(), cut, too_large: None }
    }

    /// The same as a failure: what a handler returns as a permanent failure is one, whatever it was built from.
    #[must_use]
    pub const fn into_failure(mut self) -> Self {
        self.kind = OutcomeKind::Failure;
        self
    }

    /// The same with a body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// The same with a business reference (an invoice number, a URL) that outlives the body. An overlong one is cut
    /// and flagged (G-17).
    #[must_use]
    pub fn reference(mut self, reference: &str) -> Self {
        let (fitted, changed) = fit(reference, REFERENCE_BYTES_MAX);
        self.cut |= changed;
        self.reference = Some(fitted.into());
        self
    }

    /// The same with one more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.headers.push(Header::new(name, value));
        self
    }

    /// The same without body and headers, for a content that was too large to be held in memory: every store keeps
    /// `content_bytes` and no content (G-33). `content_digest`, in the caller's own way over all of the content, stands
    /// for it in [`digest`](Self::digest).
    ///
    /// ```
    /// use idem_core::Outcome;
    ///
    /// let outcome = Outcome::success().too_large(1 << 40, [7; 32]);
    /// assert!(outcome.is_larger_than(usize::MAX));
    /// assert_ne!(outcome.digest(), Outcome::success().too_large(1 << 40, [8; 32]).digest());
    /// ```
    #[must_use]
    pub fn too_large(mut self, content_bytes: u64, content_digest: [u8; 32]) -> Self {
        self.body = None;
        self.headers = Vec::new();
        self.too_large = Some(TooLarge { content_bytes, content_digest });
        self
    }

    /// Success or failure.
    #[must_use]
    pub const fn kind(&self) -> OutcomeKind {
        self.kind
    }

    /// Whether a store that keeps `body_bytes_max` bytes of body and headers completes without them (G-33).
    #[must_use]
    pub fn is_larger_than(&self, body_bytes_max: usize) -> bool {
        self.too_large.is_some() || self.content_bytes() > body_bytes_max
    }

    /// Bytes of body and headers together, which a store's limit is compared with (G-33).
    #[must_use]
    pub fn content_bytes(&self) -> usize {
        if let Some(too_large) = self.too_large {
            return usize::try_from(too_large.content_bytes).unwrap_or(usize::MAX);
        }
        let headers: usize = self.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
        self.body.as_ref().map_or(0, Bytes::len) + headers
    }

    /// SHA-256 over kind, class, reference, body and headers, every part length-prefixed: two outcomes are the same
    /// if and only if their digests are (G-16).
    #[must_use]
    pub fn digest(&self) -> OutcomeDigest {
        let mut hash = Sha256::new();
        hash.update([match self.kind {
            OutcomeKind::Success => 1,
            OutcomeKind::Failure => 2,
        }]);
        let mut part = |bytes: Option<&[u8]>| match bytes {
            None => hash.update([0]),
            Some(bytes) => {
                hash.update([1]);
                hash.update((bytes.len() as u64).to_be_bytes());
                hash.update(bytes);
            }
        };
        part(self.class.as_ref().map(|class| class.as_str().as_bytes()));
        part(self.reference.as_deref().map(str::as_bytes));
        part(self.body.as_deref());
        if let Some(TooLarge { content_bytes, content_digest }) = self.too_large {
            hash.update([2]);
            hash.update(content_bytes.to_be_bytes());
            hash.update(content_digest);
            return OutcomeDigest(hash.finalize().into());
        }
        for header in &self.headers {
            part(Some(&header.name));
            part(Some(&header.value));
        }
        OutcomeDigest(hash.finalize().into())
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("kind", &self.kind)
            .field("class", &self.class)
            .field("reference", &self.reference)
            .field("body_bytes", &self.body.as_ref().map(Bytes::len))
            .field("headers", &self.headers.len())
            .field("content_bytes", &self.content_bytes())
            .finish_non_exhaustive()
    }
}

/// The digest of an [`Outcome`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OutcomeDigest([u8; 32]);

impl OutcomeDigest {
    /// Wraps a stored digest.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for OutcomeDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::key::hex(&self.0))
    }
}

impl fmt::Debug for OutcomeDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The outcome in a record: what it was, and its content as long as that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoredOutcome {
    /// Success or failure.
    pub kind: OutcomeKind,
    /// The class of a failure.
    pub class: Option<Label>,
    /// The business reference.
    pub reference: Option<Box<str>>,
    /// Whether class or reference were cut to fit (G-17).
    pub cut: bool,
    /// The digest, until it is erased.
    pub digest: Option<OutcomeDigest>,
    /// Body and headers, or why they are not there.
    pub content: Content,
}

/// Body and headers of a stored outcome.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// As they were given.
    Kept {
        /// The body; absent and empty are different.
        body: Option<Bytes>,
        /// The headers, in order.
        headers: Vec<Header>,
    },
    /// Not there.
    Omitted {
        /// Bytes of body and headers that the outcome had.
        content_bytes: u64,
        /// Why.
        why: Omission,
    },
}

/// Why a stored outcome has no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Omission {
    /// It was larger than the store keeps; the operation is still fresh (G-33).
    TooLarge,
    /// The response time to live is zero or has ended (G-40, G-43).
    Expired,
    /// It was erased by request (G-44).
    Erased,
    /// A listing leaves it out: read the record itself to see it. Never stored.
    Unread,
}

impl StoredOutcome {
    /// What a record keeps of `outcome`: all of it, or without content for the reason `omit`.
    #[must_use]
    pub fn of(outcome: &Outcome, digest: OutcomeDigest, omit: Option<Omission>) -> Self {
        let content = match omit.or(outcome.too_large.map(|_| Omission::TooLarge)) {
            None => Content::Kept { body: outcome.body.clone(), headers: outcome.headers.clone() },
            Some(why) => Content::Omitted { content_bytes: outcome.content_bytes() as u64, why },
        };
        Self {
            kind: outcome.kind,
            class: outcome.class.clone(),
            reference: outcome.reference.clone(),
            cut: outcome.cut,
            digest: Some(digest),
            content,
        }
    }

    /// What a store that keeps `body_bytes_max` bytes of body and headers keeps of `outcome` at its completion: without
    /// content if that is larger (G-33) or is to be forgotten at once (G-40).
    #[must_use]
    pub fn within(
        outcome: &Outcome,
        digest: OutcomeDigest,
        retention: Retention,
        body_bytes_max: usize,
    ) -> Self {
        let omit = if retention.response_ttl() == Ttl::Millis(0) {
            Some(Omission::Expired)
        } else {
            outcome.is_larger_than(body_bytes_max).then_some(Omission::TooLarge)
        };
        Self::of(outcome, digest, omit)
    }

    /// A stored outcome without class, reference and digest, for stores that read one from their columns.
    #[must_use]
    pub const fn from_parts(kind: OutcomeKind, content: Content) -> Self {
        Self { kind, class: None, reference: None, cut: false, digest: None, content }
    }

    /// The body, where there is one and it is kept.
    #[must_use]
    pub fn body(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Kept { body, .. } => body.as_ref(),
            Content::Omitted { .. } => None,
        }
    }

    /// The headers that are kept.
    #[must_use]
    pub fn headers(&self) -> &[Header] {
        match &self.content {
            Content::Kept { headers, .. } => headers,
            Content::Omitted { .. } => &[],
        }
    }

    /// Why the content is not there, if it is not.
    #[must_use]
    pub const fn omission(&self) -> Option<Omission> {
        match self.content {
            Content::Kept { .. } => None,
            Content::Omitted { why, .. } => Some(why),
        }
    }

    /// Drops the content for the reason `why`; a content that is already gone keeps its length.
    pub(crate) fn omit(&mut self, why: Omission) {
        self.content = Content::Omitted { content_bytes: self.content.bytes(), why };
    }
}

impl Content {
    /// Bytes of body and headers together, there or not.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Kept { body, headers } => {
                let headers: usize =
                    headers.iter().map(|header| header.name.len() + header.value.len()).sum();
                (body.as_ref().map_or(0, Bytes::len) + headers) as u64
            }
            Self::Omitted { content_bytes, .. } => *content_bytes,
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept { body, headers } => f
                .debug_struct("Kept")
                .field("body_bytes", &body.as_ref().map(Bytes::len))
                .field("headers", &headers.len())
                .finish(),
            Self::Omitted { content_bytes, why } => {
                f.debug_struct("Omitted").field("content_bytes", content_bytes).field("why", why).finish()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_tells_everything_apart() {
        let outcomes = [
            Outcome::success(),
            Outcome::failure("a"),
            Outcome::failure(""),
            Outcome::success().body(""),
            Outcome::success().body("null"),
            Outcome::success().body(&b"\xff"[..]),
            Outcome::success().reference("a"),
            Outcome::success().reference(""),
            Outcome::success().header("a", "b"),
            Outcome::success().header("ab", ""),
            Outcome::success().header("a", "b").header("a", "b"),
            Outcome::success().header("a", "b").header("c", "d"),
            Outcome::success().header("c", "d").header("a", "b"),
            Outcome::success().body("a").header("b", "c"),
            Outcome::success().too_large(1, [1; 32]),
            Outcome::success().too_large(2, [1; 32]),
            Outcome::success().too_large(1, [2; 32]),
        ];
        let digests: std::collections::HashSet<_> = outcomes.iter().map(Outcome::digest).collect();
        assert_eq!(digests.len(), outcomes.len());
    }

    #[test]
    fn what_is_too_long_is_cut_and_flagged() {
        let long = "x".repeat(600);
        let outcome = Outcome::failure(&long).reference(&long);
        let stored = StoredOutcome::of(&outcome, outcome.digest(), None);
        assert!(stored.cut);
        assert_eq!(stored.class.unwrap().as_str().len(), Label::BYTES_MAX);
        assert_eq!(stored.reference.unwrap().len(), REFERENCE_BYTES_MAX);
    }

    #[test]
    fn a_content_that_was_never_held_is_kept_as_its_length() {
        let outcome = Outcome::failure("exit-3").body("gone").header("a", "b").too_large(1 << 40, [1; 32]);
        assert!(outcome.is_larger_than(usize::MAX));
        let stored = StoredOutcome::of(&outcome, outcome.digest(), None);
        assert_eq!(stored.content, Content::Omitted { content_bytes: 1 << 40, why: Omission::TooLarge });
        assert_eq!(stored.digest, Some(outcome.digest()));
        assert!(!Outcome::success().body("ab").is_larger_than(2));
        assert!(Outcome::success().body("ab").is_larger_than(1));
    }

    #[test]
    fn debug_shows_no_content() {
        let outcome = Outcome::success().body("secret").header("cookie", "secret");
        let stored = StoredOutcome::of(&outcome, outcome.digest(), None);
        assert!(!format!("{outcome:?} {stored:?} {:?}", stored.headers()).contains("secret"));
    }
}
