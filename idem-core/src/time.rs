//! Time as the contract counts it: whole milliseconds (G-61), leases (G-13) and times to live (G-40).

use std::fmt;
use std::time::Duration;

use crate::error::{Error, Result};

/// Milliseconds since the Unix epoch, UTC, below 2^53 so that every store and JSON hold it exactly (G-61).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest instant that can be written: 2^53 - 1. Deadlines beyond it are cut to it.
    pub const MAX: Self = Self((1 << 53) - 1);
    /// The epoch.
    pub const EPOCH: Self = Self(0);

    /// An instant in milliseconds since the epoch; later than [`MAX`](Self::MAX) is cut to it.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        if millis > Self::MAX.0 { Self::MAX } else { Self(millis) }
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This instant and `millis` later, at the latest [`MAX`](Self::MAX).
    #[must_use]
    pub const fn plus_millis(self, millis: u64) -> Self {
        Self::from_millis(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to this instant; 0 when `earlier` is not earlier.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// RFC 3339 in UTC with milliseconds, as `2026-01-31T08:00:00.000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1000, self.0 % 1000);
        let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
        // Civil date from a day count, counting from 0000-03-01 in eras of 400 years (146,097 days).
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_index = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_index + 2) / 5 + 1;
        let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
            second_of_day / 3600,
            second_of_day / 60 % 60,
            second_of_day % 60
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// How long a holder may assume to be alone: 1 ms to 7 days, always finite (G-13).
///
/// ```
/// use std::time::Duration;
/// use idem_core::Lease;
///
/// assert_eq!(Lease::new(Duration::from_secs(30))?.as_millis(), 30_000);
/// assert!(Lease::new(Duration::ZERO).is_err());
/// # Ok::<(), idem_core::Error>(())
/// ```
#[doc(alias("lock", "lock_timeout", "visibility_timeout"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease(u64);

impl Lease {
    /// The longest lease: 7 days. Longer work renews its lease.
    pub const MAX: Self = Self(7 * 24 * 60 * 60 * 1000);

    /// A lease of `duration`, which must be 1 ms to 7 days. Fractions of a millisecond are dropped.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when it is shorter or longer; "no lease" does not exist (G-13).
    pub fn new(duration: Duration) -> Result<Self> {
        let millis = whole_millis(duration);
        if millis == 0 || millis > Self::MAX.0 {
            return Err(Error::invalid_input("a lease is 1 ms to 7 days: renew it for longer work (G-13)"));
        }
        Ok(Self(millis))
    }

    /// The length in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The length.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// 30 seconds.
impl Default for Lease {
    fn default() -> Self {
        Self(30_000)
    }
}

/// How long something is kept after completion.
#[doc(alias("expiry", "expiration"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Ttl {
    /// Never ends.
    #[default]
    Forever,
    /// Ends this many milliseconds after completion.
    Millis(u64),
}

impl Ttl {
    /// Ends `duration` after completion. Fractions of a millisecond are dropped.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Self::Millis(whole_millis(duration))
    }

    /// The deadline, counted from `completed`; `None` is never.
    #[must_use]
    pub const fn deadline(self, completed: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Forever => None,
            Self::Millis(millis) => Some(completed.plus_millis(millis)),
        }
    }

    const fn at_most(self, other: Self) -> bool {
        match (self, other) {
            (_, Self::Forever) => true,
            (Self::Forever, Self::Millis(_)) => false,
            (Self::Millis(this), Self::Millis(that)) => this <= that,
        }
    }
}

/// How long a completed operation is kept: its response, and its identity (G-40).
///
/// After `response` a claim is answered `Expired`; after `identity` the operation is as never seen, and the same key
/// *runs again*. That is why a finite identity must be [acknowledged](Self::forgetting_identity) (G-41).
///
/// ```
/// use std::time::Duration;
/// use idem_core::{Retention, Ttl};
///
/// let day = Duration::from_secs(86_400);
/// let retention = Retention::forever().response(Ttl::after(day))?;
/// assert_eq!(retention.response_ttl(), Ttl::after(day));
/// let finite = Retention::forgetting_identity(Ttl::after(day * 30), Ttl::after(day), Some(day * 7))?;
/// assert!(finite.response(Ttl::after(day * 31)).is_err());
/// # Ok::<(), idem_core::Error>(())
/// ```
#[doc(alias("expiry", "expiration"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Retention {
    response: Ttl,
    identity: Ttl,
}

impl Retention {
    /// Keeps response and identity for good.
    #[must_use]
    pub const fn forever() -> Self {
        Self { response: Ttl::Forever, identity: Ttl::Forever }
    }

    /// The same, with the response kept for `response`. Zero is allowed: the body is never stored.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the response would outlive the identity.
    pub fn response(self, response: Ttl) -> Result<Self> {
        if !response.at_most(self.identity) {
            return Err(Error::invalid_input(
                "the response would be kept longer than the identity: shorten response_ttl (G-40)",
            ));
        }
        Ok(Self { response, ..self })
    }

    /// A retention after whose `identity` the operation is forgotten and the same key runs *again* (G-41). Calling
    /// this is the acknowledgement of that. `longest_path`, where given, is the longest time after which an old
    /// request can still come back (a queue's retention, a client's last retry), and identity may not be shorter (G-45).
    ///
    /// # Errors
    ///
    /// `InvalidInput` when identity is zero, shorter than the response, or shorter than `longest_path`.
    pub fn forgetting_identity(identity: Ttl, response: Ttl, longest_path: Option<Duration>) -> Result<Self> {
        if identity == Ttl::Millis(0) {
            return Err(Error::invalid_input("identity_ttl is zero: nothing would be deduplicated (G-40)"));
        }
        if let (Ttl::Millis(identity_ms), Some(path)) = (identity, longest_path)
            && identity_ms < whole_millis(path)
        {
            return Err(Error::invalid_input(
                "identity_ttl is shorter than the longest path by which an old request returns (G-45)",
            ));
        }
        Self { response: Ttl::Millis(0), identity }.response(response)
    }

    /// How long the response is kept.
    #[must_use]
    pub const fn response_ttl(self) -> Ttl {
        self.response
    }

    /// How long the identity is kept.
    #[must_use]
    pub const fn identity_ttl(self) -> Ttl {
        self.identity
    }
}

/// Whole milliseconds, cut to what a [`Timestamp`] can hold.
#[must_use]
pub(crate) fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(Timestamp::MAX.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_as_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_001, "2024-02-29T23:59:59.001Z"),
            (1_796_007_405_678, "2026-11-30T02:56:45.678Z"),
        ];
        for (millis, text) in cases {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
        }
    }

    #[test]
    fn deadlines_saturate_below_2_to_the_53() {
        assert_eq!(Timestamp::MAX.plus_millis(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_millis(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::EPOCH.millis_since(Timestamp::MAX), 0);
    }

    #[test]
    fn a_lease_is_positive_and_bounded() {
        assert!(Lease::new(Duration::from_micros(999)).is_err());
        assert!(Lease::new(Duration::MAX).is_err());
        assert_eq!(Lease::new(Duration::from_millis(1)).unwrap().as_millis(), 1);
        assert_eq!(Lease::new(Lease::MAX.duration()).unwrap(), Lease::MAX);
    }

    #[test]
    fn identity_outlives_the_response() {
        let minute = Duration::from_secs(60);
        assert!(Retention::forgetting_identity(Ttl::Millis(0), Ttl::Millis(0), None).is_err());
        assert!(Retention::forgetting_identity(Ttl::after(minute), Ttl::Forever, None).is_err());
        assert!(
            Retention::forgetting_identity(Ttl::after(minute), Ttl::Millis(0), Some(minute * 2)).is_err()
        );
        assert!(Retention::forgetting_identity(Ttl::after(minute), Ttl::after(minute), Some(minute)).is_ok());
        assert_eq!(Retention::forever().response(Ttl::Millis(0)).unwrap().response_ttl(), Ttl::Millis(0));
    }
}
