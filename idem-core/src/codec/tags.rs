//! The numbers of variants in stored bytes. A number is never changed and never used again.

use crate::fingerprint::Scheme;
use crate::outcome::{Omission, OutcomeKind};
use crate::record::{Ending, Mode, ParkCause, State};

/// A type whose variants have numbers, in the codec and in the columns of stores that keep such a value in one.
///
/// ```
/// use idem_core::State;
/// use idem_core::codec::Tagged;
///
/// assert_eq!(State::from_tag(State::Processing.tag()), Some(State::Processing));
/// assert_eq!(State::from_tag(200), None);
/// ```
pub trait Tagged: Sized + Copy {
    /// The number of this variant: below 128, and the same in every version of the program.
    fn tag(self) -> u8;
    /// The variant with this number; `None` is a number that this program does not know.
    fn from_tag(tag: u8) -> Option<Self>;
}

/// One table for both directions: a variant without a number does not compile.
macro_rules! tagged {
    ($($name:ident { $($variant:ident = $tag:literal),+ $(,)? })+) => {$(
        impl Tagged for $name {
            fn tag(self) -> u8 {
                match self { $(Self::$variant => $tag),+ }
            }

            fn from_tag(tag: u8) -> Option<Self> {
                match tag { $($tag => Some(Self::$variant),)+ _ => None }
            }
        }
    )+};
}

tagged! {
    State { Received = 0, Processing = 1, Completed = 2, Uncertain = 3 }
    Scheme { Json = 0, Bytes = 1, Custom = 2 }
    Mode { Execute = 0, Recover = 1 }
    Ending { Completed = 0, Released = 1, Parked = 2, Lapsed = 3, Resolved = 4 }
    ParkCause { Holder = 0, Lapse = 1, AttemptsExhausted = 2 }
    OutcomeKind { Success = 0, Failure = 1 }
    Omission { TooLarge = 0, Expired = 1, Erased = 2, Unread = 3 }
}

/// [`EffectClass`](crate::record::EffectClass): `Keyed` is followed by its milliseconds.
pub(super) mod effect {
    pub(in crate::codec) const OPAQUE: u8 = 0;
    pub(in crate::codec) const KEYED: u8 = 1;
    pub(in crate::codec) const LOCAL: u8 = 2;
}

/// [`AbsenceReason`](crate::record::AbsenceReason): `Quiesced` is followed by its milliseconds.
pub(super) mod absence {
    pub(in crate::codec) const DEDUPLICATED: u8 = 0;
    pub(in crate::codec) const FENCED_OFF: u8 = 1;
    pub(in crate::codec) const QUIESCED: u8 = 2;
}

/// [`Content`](crate::outcome::Content).
pub(super) mod content {
    pub(in crate::codec) const KEPT: u8 = 0;
    pub(in crate::codec) const OMITTED: u8 = 1;
}
