//! The numbers that a fingerprint admits, and their canonical form (RFC 8785, section 3.2.2.3).
//!
//! Two rules, the same for every way in which a number arrives:
//!
//! 1. Nothing beyond 2^53 - 1 in either direction, whether it is an integer, a float, `9007199254740993.0` or `1e300`:
//!    out there a double no longer tells whole numbers apart (G-04).
//! 2. The canonical form denotes the same number as the literal. `0.10` and `1e-1` are `0.1`; a literal that a double
//!    can only hold by rounding is refused, so that `1234567890123456.78` never equals `1234567890123456.79`.

use std::io::Write as _;

use super::Refusal;

/// 2^53 - 1.
const MAGNITUDE_MAX: u64 = (1 << 53) - 1;

/// `f64`, and `f32` by its own shortest digits: 0.1 is `0.1` in both.
pub(super) trait Float: ryu_js::Float + Into<f64> {}
impl Float for f32 {}
impl Float for f64 {}

pub(super) fn integer(out: &mut Vec<u8>, integer: i64) -> Result<(), Refusal> {
    if integer.unsigned_abs() > MAGNITUDE_MAX {
        return Err(too_large());
    }
    write!(out, "{integer}").map_err(|_| Refusal::new("out of memory"))
}

pub(super) fn float<F: Float>(out: &mut Vec<u8>, float: F) -> Result<(), Refusal> {
    let value: f64 = float.into();
    if !value.is_finite() {
        return Err(Refusal::new("a number is NaN or infinite"));
    }
    if is_too_large(value) {
        return Err(too_large());
    }
    out.extend_from_slice(ryu_js::Buffer::new().format_finite(float).as_bytes());
    Ok(())
}

/// A number as JSON spells it.
pub(super) fn literal(out: &mut Vec<u8>, literal: &str) -> Result<(), Refusal> {
    if let Ok(small) = literal.parse::<i64>() {
        return integer(out, small);
    }
    let value: f64 = literal.parse().map_err(|_| Refusal::new("a number is misspelt"))?;
    if !value.is_finite() || is_too_large(value) {
        return Err(too_large());
    }
    let mut buffer = ryu_js::Buffer::new();
    let canonical = buffer.format_finite(value);
    if Decimal::of(literal) != Decimal::of(canonical) {
        return Err(Refusal::new("a number has more digits than a double holds: write it as a string"));
    }
    out.extend_from_slice(canonical.as_bytes());
    Ok(())
}

const fn is_too_large(value: f64) -> bool {
    #[allow(clippy::cast_precision_loss, reason = "2^53 - 1 is exact in a double")]
    let magnitude_max = MAGNITUDE_MAX as f64;
    value.abs() > magnitude_max
}

#[cold]
pub(super) fn too_large() -> Refusal {
    Refusal::new("a number is beyond 2^53 - 1, where doubles are not exact: write it as a string")
}

/// A decimal number in a form that is equal if and only if the number is: sign, and digits without zeros at either end
/// as a fraction times a power of ten.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    fn of(literal: &str) -> Self {
        let (negative, unsigned) = literal.strip_prefix('-').map_or((false, literal), |rest| (true, rest));
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = || whole.bytes().chain(fraction.bytes());
        let leading_zeros = digits().take_while(|digit| *digit == b'0').count();
        let mut digits: Vec<u8> = digits().skip(leading_zeros).collect();
        digits.truncate(digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1));
        if digits.is_empty() {
            return Self { negative: false, digits, exponent: 0 };
        }
        // An exponent beyond 64 bits is beyond every double too: it compares unequal to all that are canonical.
        let exponent = exponent.parse().unwrap_or(i64::MAX);
        let shift = i64::try_from(whole.len()).ok().zip(i64::try_from(leading_zeros).ok());
        let shift = shift.map_or(i64::MAX, |(whole, zeros)| whole - zeros);
        Self { negative, digits, exponent: shift.saturating_add(exponent) }
    }
}
