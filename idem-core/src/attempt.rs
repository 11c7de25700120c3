//! What a grant starts: the attempt id, the fencing token and the labels that name people and processes.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng};

use crate::error::{Error, Result};

/// The fence of a grant: strictly greater than that of every earlier grant of the same operation (G-14).
///
/// Send it to systems that can refuse an older one. Below 2^53, so that scripts and JSON hold it exactly.
#[doc(alias("fencing_token"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Fence(u64);

impl Fence {
    /// Wraps a stored fence.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// 128 random bits that name one claim intent (G-12).
///
/// A claim that is repeated after an ambiguous error carries the same id and is granted *again*; nobody else can be
/// granted under it. Ids are secrets of their holder: whoever knows one may settle the operation, so `Debug` hides
/// the value and it is never shown to callers (G-100).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptId([u8; 16]);

/// A generator seeded by the operating system, and the process that seeded it: a child of `fork` seeds anew, so that
/// two processes never share a sequence.
struct Seeded {
    process: u32,
    rng: StdRng,
}

impl Seeded {
    fn new(process: u32) -> Self {
        let rng = StdRng::try_from_rng(&mut SysRng).unwrap_or_else(|error| {
            // Without randomness two claims could share an id and both believe that they won (G-12, G-100).
            #[allow(clippy::panic, reason = "there is no safe answer without randomness from the system")]
            {
                panic!("the operating system gives no random bytes: {error}")
            }
        });
        Self { process, rng }
    }
}

thread_local! {
    static GENERATOR: RefCell<Option<Seeded>> = const { RefCell::new(None) };
}

/// Runs `use_rng` on this thread's generator.
pub(crate) fn with_rng<T>(use_rng: impl FnOnce(&mut StdRng) -> T) -> T {
    let process = std::process::id();
    GENERATOR.with_borrow_mut(|slot| {
        if slot.as_ref().is_some_and(|seeded| seeded.process != process) {
            *slot = None;
        }
        use_rng(&mut slot.get_or_insert_with(|| Seeded::new(process)).rng)
    })
}

impl AttemptId {
    /// A new id. One per claim intent, never one per repetition of the same claim.
    ///
    /// # Panics
    ///
    /// When the operating system has no randomness to give.
    #[must_use]
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        with_rng(|rng| rng.fill_bytes(&mut bytes));
        Self(bytes)
    }

    /// Wraps a stored id.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, for stores.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AttemptId(…)")
    }
}

/// A short text for people: who owns an attempt, who resolved, the name of a checkpoint, an error class.
///
/// 1 to 128 bytes of UTF-8 without control characters. Cloning is a reference count.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(Arc<str>);

impl Label {
    /// The most bytes in a label.
    pub const BYTES_MAX: usize = 128;

    /// Checks and wraps a text.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when it is empty, longer than 128 bytes, or holds a control character.
    pub fn new(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > Self::BYTES_MAX || text.chars().any(char::is_control) {
            return Err(Error::invalid_input(format!(
                "a label is 1 to {} bytes without control characters; this one has {} bytes",
                Self::BYTES_MAX,
                text.len()
            )));
        }
        Ok(Self(text.into()))
    }

    /// The text made to fit: control characters become spaces, the end is cut at a character. `None` when nothing is
    /// left. The flag tells whether anything was changed (G-17).
    #[must_use]
    pub fn cut(text: &str) -> (Option<Self>, bool) {
        let (fitted, changed) = fit(text, Self::BYTES_MAX);
        ((!fitted.is_empty()).then(|| Self(fitted.into())), changed)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// At most `bytes_max` bytes of `text`, ending at a character, with control characters replaced by spaces.
pub(crate) fn fit(text: &str, bytes_max: usize) -> (String, bool) {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = text.get(..end).unwrap_or_default();
    let fitted: String = kept.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let changed = fitted != text;
    (fitted, changed)
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::str::FromStr for Label {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempt_ids_are_random_and_hidden() {
        let ids: std::collections::HashSet<_> = (0..1000).map(|_| AttemptId::random()).collect();
        assert_eq!(ids.len(), 1000);
        assert_eq!(format!("{:?}", AttemptId::from_bytes([7; 16])), "AttemptId(…)");
    }

    #[test]
    fn labels_are_cut_at_a_character() {
        let long = "é".repeat(65);
        assert!(Label::new(&long).is_err());
        let (label, changed) = Label::cut(&long);
        assert_eq!((label.unwrap().as_str().len(), changed), (128, true));
        let (label, changed) = Label::cut("a\nb");
        assert_eq!((label.unwrap().as_str(), changed), ("a b", true));
        assert_eq!(Label::cut(""), (None, false));
        assert!(Label::new("a\u{1b}").is_err());
    }
}
