//! The small values that options take: durations, times to live, exit codes.

use std::time::Duration;

use idem_core::Ttl;

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 24 * 3_600_000)];

/// Reads `30` (seconds), `500ms`, `30s`, `5m`, `2h` or `7d`.
///
/// # Errors
///
/// A sentence for the user when it is anything else, or longer than 2^64 milliseconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    let unit_ms = match unit {
        "" => Some(1000),
        unit => UNITS.iter().find(|(name, _)| *name == unit).map(|(_, unit_ms)| *unit_ms),
    };
    let complaint = || "write seconds, or a whole number with a unit: 500ms, 30s, 5m, 2h, 7d".to_owned();
    let count: u64 = digits.parse().map_err(|_| complaint())?;
    let ms = count.checked_mul(unit_ms.ok_or_else(complaint)?).ok_or("that is too long")?;
    Ok(Duration::from_millis(ms))
}

/// Reads `forever` or a [`duration`].
///
/// # Errors
///
/// As [`duration`].
pub(crate) fn ttl(text: &str) -> Result<Ttl, String> {
    if text == "forever" {
        return Ok(Ttl::Forever);
    }
    duration(text).map(Ttl::after).map_err(|complaint| format!("{complaint}; or write forever"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_with_a_unit() {
        let cases = [("0", 0), ("30", 30_000), ("500ms", 500), ("30s", 30_000), ("5m", 300_000)];
        for (text, ms) in cases.into_iter().chain([("2h", 7_200_000), ("7d", 604_800_000)]) {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "",
            "s",
            "-1",
            "1.5s",
            "1 s",
            "1S",
            "1w",
            "+1",
            "1s1",
            "99999999999999999999",
            "9999999999999999d",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_to_live_may_be_forever() {
        assert_eq!(ttl("forever"), Ok(Ttl::Forever));
        assert_eq!(ttl("0"), Ok(Ttl::Millis(0)));
        assert_eq!(ttl("7d"), Ok(Ttl::Millis(604_800_000)));
        assert!(ttl("never").is_err());
    }
}
