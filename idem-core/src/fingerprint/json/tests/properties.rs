//! Any value and any text, against `serde_json` and another canonical writer.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// A name or text with characters of every width, and with all that has to be escaped.
fn text() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        '"',
        '\\',
        '/',
        '\n',
        '\u{0}',
        '\u{1f}',
        '\u{7f}',
        '\u{e000}',
        '\u{1f600}',
    ]);
    prop::collection::vec(
        prop_oneof![3 => prop::char::range('a', 'e'), 2 => special, 1 => any::<char>()],
        0..6,
    )
    .prop_map(|chars| chars.into_iter().collect())
}

/// Any float that a fingerprint admits, most of them unround.
fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        -1e6..1e6_f64,
        (any::<i32>(), 0..8).prop_map(|(mantissa, digits)| f64::from(mantissa) / 10_f64.powi(digits)),
    ]
    .prop_filter("beyond 2^53 - 1", |float| float.abs() <= 9_007_199_254_740_991.0)
}

fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_991..=9_007_199_254_740_991_i64).prop_map(Value::from),
        float().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
        .boxed()
    })
    .boxed()
}

/// The same value in other words: members the other way round, every character escaped, space everywhere.
fn respell(value: &Value) -> String {
    let quote = |text: &str| {
        let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
        format!("\t\"{units}\"\n")
    };
    match value {
        Value::Array(items) => {
            format!(" [{}] ", items.iter().map(respell).collect::<Vec<_>>().join("\r,"))
        }
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().rev().map(|(k, v)| format!("{}:{}", quote(k), respell(v))).collect();
            format!("{{ {} }}", members.join(" , "))
        }
        Value::String(text) => quote(text),
        Value::Number(number) if number.is_f64() => {
            let digits = number.to_string();
            if digits.contains('e') { digits.replace('e', "E") } else { format!("{digits}e0") }
        }
        other => format!(" {other} "),
    }
}

/// Whether two spellings have the same digits, wherever the point is.
fn same_digits(one: &str, other: &str) -> bool {
    let digits = |text: &str| {
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        digits.trim_matches('0').to_owned()
    };
    digits(one) == digits(other)
}

/// 694081844200929.25 lies half-way between its two shortest spellings. The canonical one ends in an even digit; the
/// other, which Rust writes, is another number, and a double holds it only by rounding.
#[test]
fn the_other_of_two_shortest_spellings_is_another_number() {
    let tie = 694_081_844_200_929.0 + 0.25;
    assert_eq!(of_value(&tie).unwrap(), "694081844200929.2");
    assert_eq!(of_text("694081844200929.2").unwrap(), "694081844200929.2");
    assert!(of_text("694081844200929.3").is_err());
}

proptest! {
    #[test]
    fn values_and_texts_agree_with_each_other_and_with_another_writer(value in value()) {
        let canonical = of_value(&value).unwrap();
        prop_assert_eq!(&canonical, &serde_json_canonicalizer::to_string(&value).unwrap());
        prop_assert_eq!(&canonical, &of_text(&value.to_string()).unwrap());
        prop_assert_eq!(&canonical, &of_text(&respell(&value)).unwrap());
        prop_assert_eq!(&canonical, &of_text(&canonical).unwrap());
    }

    #[test]
    fn every_float_is_admitted_in_the_spellings_of_its_language(float in float()) {
        let canonical = of_value(&float).unwrap();
        prop_assert_eq!(canonical.parse::<f64>().unwrap(), float);
        // Of two spellings that are as short and as near, Rust may take the other one.
        prop_assume!(same_digits(&canonical, &format!("{float:e}")));
        for spelling in [format!("{float}"), format!("{float:e}"), format!("{float:E}")] {
            prop_assert_eq!(&canonical, &of_text(&spelling).unwrap());
        }
    }

    #[test]
    fn every_f32_is_written_as_serde_json_writes_it(float in any::<f32>()) {
        let text = serde_json::to_string(&float).unwrap();
        prop_assert_eq!(of_value(&float).ok(), of_text(&text).ok());
    }

    /// Two literals of one form are one number; both are scaled to whole numbers to compare them.
    #[test]
    fn different_numbers_have_different_forms(
        mantissa in 0..100_000_000_000_000_000_i128,
        nearby in -3..=3_i128,
        exponents in (-10..=10_i32, -10..=10_i32),
        zeros in 0..3_u32,
    ) {
        let other = (mantissa + nearby).max(0) * 10_i128.pow(zeros);
        let scaled = |mantissa: i128, exponent: i32| mantissa * 10_i128.pow((exponent + 10).cast_unsigned());
        let spelt = [format!("{mantissa}e{}", exponents.0), format!("{other}E{}", exponents.1)];
        if let [Ok(one), Ok(two)] = spelt.map(|literal| of_text(&literal)) {
            prop_assert_eq!(one == two, scaled(mantissa, exponents.0) == scaled(other, exponents.1));
        }
    }

    /// Damaged JSON: we take nothing that another parser refuses, and refuse nothing but for the reasons of G-04.
    #[test]
    fn another_parser_takes_the_same_texts(
        value in value(),
        position in any::<prop::sample::Index>(),
        noise in r#"[\[\]{}:,"\\ 0-9eE.+\-untrfalsD8\u{0}-\u{1f}é]{0,3}"#,
        removed in 0..3_usize,
    ) {
        let mut text: Vec<char> = value.to_string().chars().collect();
        let start = position.index(text.len());
        let end = text.len().min(start + removed);
        text.splice(start..end, noise.chars());
        let text: String = text.into_iter().collect();
        match (of_text(&text), serde_json::from_str::<Value>(&text)) {
            (Ok(ours), Ok(theirs)) => {
                prop_assert_eq!(ours, serde_json_canonicalizer::to_string(&theirs).unwrap());
            }
            (Ok(_), Err(error)) => prop_assert!(false, "{text:?} is no JSON: {error}"),
            (Err(error), Ok(_)) => {
                let error = error.to_string();
                let ours = [TOO_LARGE, TOO_PRECISE, DUPLICATE].iter().any(|reason| error.contains(reason));
                prop_assert!(ours, "{text:?}: {error}");
            }
            (Err(_), Err(_)) => {}
        }
    }
}
