//! Exact, or refused.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;

/// RFC 8785, appendix B; `None` is what the contract or the standard refuses.
#[test]
fn the_numbers_of_the_standard() {
    let numbers = [
        (0x0000_0000_0000_0000, Some("0")),
        (0x8000_0000_0000_0000, Some("0")),
        (0x0000_0000_0000_0001, Some("5e-324")),
        (0x8000_0000_0000_0001, Some("-5e-324")),
        (0x7fef_ffff_ffff_ffff, None),
        (0xffef_ffff_ffff_ffff, None),
        (0x433f_ffff_ffff_ffff, Some("9007199254740991")),
        (0x4340_0000_0000_0000, None),
        (0xc340_0000_0000_0000, None),
        (0x4430_0000_0000_0000, None),
        (0x7fff_ffff_ffff_ffff, None),
        (0x7ff0_0000_0000_0000, None),
        (0xfff0_0000_0000_0000, None),
        (0x44b5_2d02_c7e1_4af6, None),
        (0x444b_1ae4_d6e2_ef50, None),
        (0x3eb0_c6f7_a0b5_ed8c, Some("9.999999999999997e-7")),
        (0x3eb0_c6f7_a0b5_ed8d, Some("0.000001")),
        (0x41b3_de43_5555_5553, Some("333333333.3333332")),
        (0x41b3_de43_5555_5554, Some("333333333.33333325")),
        (0x41b3_de43_5555_5555, Some("333333333.3333333")),
        (0x41b3_de43_5555_5556, Some("333333333.3333334")),
        (0x41b3_de43_5555_5557, Some("333333333.33333343")),
        (0xbecb_f647_612f_3696, Some("-0.0000033333333333333333")),
        (0x4314_3ff3_c1cb_0959, Some("1424953923781206.2")),
    ];
    for (bits, expected) in numbers {
        assert_eq!(of_value(&f64::from_bits(bits)).ok().as_deref(), expected, "{bits:x}");
        if let Some(expected) = expected {
            assert_eq!(of_text(expected).unwrap(), expected);
        }
    }
}

/// The standard rounds these; the contract does not (G-04).
#[test]
fn where_we_are_stricter_than_the_standard() {
    assert!(why(of_text("333333333.33333329")).contains(TOO_PRECISE));
    assert!(why(of_text("1E30")).contains(TOO_LARGE));
}

#[test]
fn one_number_has_one_form_however_it_is_spelt() {
    let same = [
        ("0", vec!["-0", "0.0", "-0.000", "0e5", "-0E-999999999999999999999", "0.0e99999999999999999999"]),
        ("1", vec!["1.0", "1e0", "10e-1", "0.1e1", "0.1E+1", "1.000000000000000000000000000000"]),
        ("-0.1", vec!["-1e-1", "-0.10", "-100e-3"]),
        ("9007199254740991", vec!["9007199254740991.0", "9.007199254740991e15", "90071992547409910e-1"]),
        ("1e-7", vec!["0.0000001", "0.00000010", "10E-8"]),
        ("5e-324", vec!["0.5e-323"]),
    ];
    for (canonical, spellings) in same {
        for spelling in spellings {
            assert_eq!(of_text(spelling).unwrap(), canonical, "{spelling}");
        }
    }
}

#[test]
fn no_number_is_rounded_into_equality() {
    let large = [
        "9007199254740992",
        "9007199254740993",
        "-9007199254740992",
        "9007199254740993.0",
        "9.007199254740993e15",
        "9007199254740992e0",
        "900719925474099300e-2",
        "18446744073709551616",
        "9223372036854775808",
        "1e16",
        "1e300",
        "1e400",
        "-1e400",
        "1e99999999999999999999",
        "9007199254740991.5",
    ];
    for literal in large {
        assert!(why(of_text(literal)).contains(TOO_LARGE), "{literal}");
    }
    let precise = [
        "0.10000000000000001",
        "0.1000000000000000055511151231257827",
        "1234567890123456.78",
        "1234567890123456.79",
        "9007199254740991.2",
        "9007199254740990.9",
        "1e-400",
        "4e-324",
        "1e-99999999999999999999",
        "0.3000000000000000444089209850062616169452667236328125",
    ];
    for literal in precise {
        assert!(why(of_text(literal)).contains(TOO_PRECISE), "{literal}");
    }
}

#[test]
fn numbers_of_every_type_are_exact_or_refused() {
    const LARGEST: i64 = (1 << 53) - 1;
    assert_eq!(of_value(&LARGEST).unwrap(), "9007199254740991");
    assert_eq!(of_value(&-i128::from(LARGEST)).unwrap(), "-9007199254740991");
    assert_eq!(of_value(&LARGEST.cast_unsigned()).unwrap(), "9007199254740991");
    let large = [
        of_value(&(LARGEST + 1)),
        of_value(&(-LARGEST - 1)),
        of_value(&i64::MIN),
        of_value(&u64::MAX),
        of_value(&(LARGEST.cast_unsigned() + 1)),
        of_value(&i128::MIN),
        of_value(&u128::MAX),
        of_value(&1e300),
        of_value(&9_007_199_254_740_992.0),
        of_value(&f32::MAX),
        of_value(&json!([{"deep": u64::MAX}])),
    ];
    for refused in large {
        assert!(why(refused).contains(TOO_LARGE));
    }
    let endless = [
        of_value(&f64::NAN),
        of_value(&f32::NAN),
        of_value(&f64::INFINITY),
        of_value(&f32::NEG_INFINITY),
        of_value(&BTreeMap::from([("a", [Some(f64::NAN)])])),
    ];
    for refused in endless {
        assert!(why(refused).contains("NaN or infinite"));
    }
    // The shortest digits that mean this very `f32`, as `serde_json` writes it.
    assert_eq!(of_value(&[0.1_f32, 16_777_216.0, 1e-10, -0.0]).unwrap(), "[0.1,16777216,1e-10,0]");
}
