mod numbers;
mod properties;
mod shapes;

use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;
use crate::error::ErrorKind;

fn of_text(text: &str) -> Result<String> {
    canonical(|writer| parser::text(writer, text)).map(|bytes| String::from_utf8(bytes).unwrap())
}

fn of_value<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    canonical(|writer| value.serialize(Serializer { writer, place: Place::Value }))
        .map(|bytes| String::from_utf8(bytes).unwrap())
}

/// Why `refused` was refused.
fn why<T: fmt::Debug>(refused: Result<T>) -> String {
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("G-04"));
    error.to_string()
}

const TOO_LARGE: &str = "beyond 2^53 - 1";
const TOO_PRECISE: &str = "more digits than a double holds";
const DUPLICATE: &str = "two members of one name";

/// RFC 8785, section 3.2.2, with the two numbers left out that the next test shows refused.
#[test]
fn the_example_of_the_standard() {
    let text = r#"{
        "numbers": [333333333.3333333, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let expected = concat!(
        r#"{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27],"#,
        r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
    );
    assert_eq!(of_text(text).unwrap(), expected);
    assert_eq!(of_text(expected).unwrap(), expected);
}

/// RFC 8785, section 3.2.3.
#[test]
fn members_are_sorted_by_utf_16_code_units() {
    let text = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
        "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#;
    let expected = concat!(
        r#"{"\r":"Carriage Return","1":"One","#,
        "\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",",
        "\"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}"
    );
    assert_eq!(of_text(text).unwrap(), expected);
    let map: HashMap<String, String> = serde_json::from_str(text).unwrap();
    assert_eq!(of_value(&map).unwrap(), expected);
}

/// The seed cases of the request ledger (S-81).
#[test]
fn known_digests() {
    #[derive(Serialize)]
    struct Payload<'a> {
        service: &'a str,
        message: &'a str,
    }
    let cases = [
        ("Review a fictional inquiry.", "436a70c9b6cba6583915f2d9ab8f5bcb435f08347f0ca59d10138e36b6fbac21"),
        ("A different request.", "c7be8b3a7f3b70d2195da8ec99aed098f4df24f087d78c7a4411bde0ccd5581a"),
    ];
    for (message, digest) in cases {
        let expected: Fingerprint = format!("json/1:{digest}").parse().unwrap();
        assert_eq!(Fingerprint::json(&Payload { service: "automation", message }).unwrap(), expected);
        let text = format!(r#"{{ "service": "automation", "message": "{message}" }}"#);
        assert_eq!(Fingerprint::json_text(&text).unwrap(), expected);
    }
}

#[test]
fn text_that_is_not_json_is_refused() {
    let bad = [
        "",
        " ",
        "nul",
        "nulll",
        "True",
        "NaN",
        "Infinity",
        "-Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x10",
        "1_000",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "}",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{'a':1}",
        "{1:1}",
        "{null:1}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "\"",
        "\"a",
        "'a'",
        "\"\\\"",
        "\"\\x41\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u+123\"",
        "\"\\U0041\"",
        "\"\n\"",
        "\"\t\"",
        "\"\u{1f}\"",
        "1 2",
        "{} {}",
        "[] x",
        "/**/1",
        "1//",
        "\u{feff}1",
        "\u{a0}1",
        "\u{c}1",
        "[1}",
        "{\"a\":1]",
        "\"\\u00e9",
        "\"\\u\u{e9}\u{e9}\"",
        "nullnull",
        "\"a\"\"b\"",
    ];
    for text in bad {
        assert!(of_text(text).is_err(), "{text:?}");
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text:?} is JSON");
    }
    assert!(why(of_text("[1, 2, x]")).contains("at byte 7"));
}

#[test]
fn surrogates_come_in_pairs() {
    assert_eq!(of_text(r#""\ud83d\uDE00""#).unwrap(), "\"\u{1f600}\"");
    assert_eq!(of_text(r#""\uD800\uDC00\uDBFF\uDFFF""#).unwrap(), "\"\u{10000}\u{10ffff}\"");
    let lone = [
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ude00\ud83d""#,
        r#""\ud83d\ud83d""#,
        r#""\ud83dx""#,
        r#""\ud83d\n""#,
        r#""\ud83d\u0041""#,
        r#""\ud83d\ue000""#,
        r#""\udfff""#,
        r#"{"\ud800":1}"#,
    ];
    for text in lone {
        assert!(why(of_text(text)).contains("half of a surrogate pair"), "{text}");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(of_text(&nested(128)).is_ok());
    assert!(why(of_text(&nested(129))).contains("deeper than 128"));
    assert!(why(of_text(&"[".repeat(1_000_000))).contains("deeper than 128"));
    assert!(why(of_text(&r#"{"a":"#.repeat(1_000_000))).contains("deeper than 128"));
    // Depth is not a count of containers.
    assert!(of_text(&format!("[{}{{}}]", "[],".repeat(1000))).is_ok());

    let value = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({ "a": inner }));
    assert!(of_value(&value(128)).is_ok());
    assert!(why(of_value(&value(129))).contains("deeper than 128"));
}
