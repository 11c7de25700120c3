//! Every shape that a `Serialize` value can have.

use std::collections::{BTreeMap, HashMap};

use super::*;

/// A map from its pairs, as they come.
struct Pairs<K, V>(Vec<(K, V)>);

impl<K: Serialize, V: Serialize> Serialize for Pairs<K, V> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Key {
    Number(u128),
    Text(&'static str),
    Bool(bool),
    Char(char),
    Some(Option<Box<Key>>),
    Float(f64),
    Unit(()),
    Bytes(Vec<u8>),
    Map(BTreeMap<String, u8>),
}

#[test]
fn keys_of_maps_are_texts_or_are_written_as_texts() {
    let one = |key| of_value(&Pairs(vec![(key, 1)]));
    let good = [
        (Key::Number(u128::MAX), r#"{"340282366920938463463374607431768211455":1}"#),
        (Key::Text("a"), r#"{"a":1}"#),
        (Key::Bool(true), r#"{"true":1}"#),
        (Key::Char('\n'), r#"{"\n":1}"#),
        (Key::Some(Some(Box::new(Key::Number(7)))), r#"{"7":1}"#),
    ];
    for (key, expected) in good {
        assert_eq!(one(key).unwrap(), expected);
    }
    let bad =
        [Key::Float(1.5), Key::Unit(()), Key::Some(None), Key::Bytes(vec![1]), Key::Map(BTreeMap::new())];
    for key in bad {
        assert!(why(one(key)).contains("a map has a key that is no text"));
    }
}

#[derive(Serialize)]
struct Unit;
#[derive(Serialize)]
struct Newtype(u8);
#[derive(Serialize)]
struct Tuple(u8, String);
#[derive(Serialize)]
enum Variants {
    Unit,
    Newtype(f32),
    Tuple(bool, Option<u8>),
    Struct { z: i8, a: (u16, char) },
}

/// Every shape that serde knows.
#[derive(Serialize)]
struct Everything {
    unit: Unit,
    none: Option<u8>,
    newtype: Newtype,
    tuple: Tuple,
    variants: Vec<Variants>,
    keyed: BTreeMap<Newtype2, ()>,
    #[serde(serialize_with = "as_bytes")]
    bytes: Vec<u8>,
    #[serde(flatten)]
    flat: HashMap<String, f64>,
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Newtype2(i64);

fn as_bytes<S: serde::Serializer>(bytes: &[u8], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

#[test]
fn every_shape_of_serde_is_that_of_serde_json() {
    let value = Everything {
        unit: Unit,
        none: None,
        newtype: Newtype(1),
        tuple: Tuple(2, "é\"\u{7f}".to_owned()),
        variants: vec![
            Variants::Unit,
            Variants::Newtype(0.3),
            Variants::Tuple(false, Some(3)),
            Variants::Struct { z: -1, a: (65535, '\u{1f600}') },
        ],
        keyed: BTreeMap::from([(Newtype2(-5), ()), (Newtype2(40), ())]),
        bytes: vec![0, 255],
        flat: HashMap::from([("a".to_owned(), 0.5), ("zz".to_owned(), -0.0)]),
    };
    let expected = concat!(
        r#"{"a":0.5,"bytes":[0,255],"keyed":{"-5":null,"40":null},"newtype":1,"none":null,"tuple":[2,"é\"#,
        "\"\u{7f}\"],",
        r#""unit":null,"variants":["Unit",{"Newtype":0.3},{"Tuple":[false,3]},{"Struct":{"a":[65535,"😀"],"z":-1}}],"zz":0}"#
    );
    assert_eq!(of_value(&value).unwrap(), expected);
    assert_eq!(of_text(&serde_json::to_string(&value).unwrap()).unwrap(), expected);
}

/// What `serde_json` hands over when a program turns on its features `arbitrary_precision` or `raw_value`: a feature of
/// somebody else's never changes a fingerprint.
#[test]
fn numbers_by_literal_and_raw_text_are_read_as_json() {
    #[derive(Serialize)]
    #[serde(rename = "$serde_json::private::Number")]
    struct Number {
        #[serde(rename = "$serde_json::private::Number")]
        literal: &'static str,
    }
    #[derive(Serialize)]
    #[serde(rename = "$serde_json::private::RawValue")]
    struct Raw {
        #[serde(rename = "$serde_json::private::RawValue")]
        json: &'static str,
    }
    assert_eq!(of_value(&[Number { literal: "1.50" }, Number { literal: "-0" }]).unwrap(), "[1.5,0]");
    assert!(why(of_value(&Number { literal: "9007199254740993" })).contains(TOO_LARGE));
    let raw = BTreeMap::from([("raw", Raw { json: r#" {"b": 1e0, "a": [] } "# })]);
    assert_eq!(of_value(&raw).unwrap(), r#"{"raw":{"a":[],"b":1}}"#);
    assert!(why(of_value(&Raw { json: r#"{"a":1,"a":1}"# })).contains(DUPLICATE));
    assert!(of_value(&Raw { json: "[1" }).is_err());
    assert!(of_value(&Pairs(vec![(Raw { json: "1" }, 1)])).is_err());
}

#[test]
fn errors_of_a_value_are_told() {
    struct Failing;
    impl Serialize for Failing {
        fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no projection"))
        }
    }
    assert!(why(of_value(&[Failing])).contains("no projection"));
}

#[test]
fn members_of_one_name_are_refused_at_every_depth() {
    let bad = [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"a":3}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"[[{"x":{"":1,"":2}}]]"#,
        r#"{"b":1,"a":{"d":1,"c":2,"d":3}}"#,
        "{\"\u{e9}\":1,\"z\":1,\"\\u00e9\":2}",
    ];
    for text in bad {
        assert!(why(of_text(text)).contains(DUPLICATE), "{text}");
    }
    // The same name in different objects, composed and decomposed, and in another case.
    assert!(of_text("{\"a\":{\"a\":{\"a\":1}},\"A\":1,\"\u{e9}\":1,\"e\u{301}\":1}").is_ok());
    assert!(of_text(r#"[{"a":1},{"a":2}]"#).is_ok());

    #[derive(Serialize)]
    struct Inner {
        amount: u8,
    }
    #[derive(Serialize)]
    struct Outer {
        amount: u8,
        #[serde(flatten)]
        inner: Inner,
    }
    #[derive(Serialize)]
    struct Open {
        amount: u8,
        #[serde(flatten)]
        more: BTreeMap<&'static str, u8>,
    }
    let twice = [("deep", [Outer { amount: 1, inner: Inner { amount: 1 } }])];
    assert!(why(of_value(&HashMap::from(twice))).contains(DUPLICATE));
    let open = |name| Open { amount: 1, more: BTreeMap::from([(name, 2)]) };
    assert!(why(of_value(&open("amount"))).contains(DUPLICATE));
    assert_eq!(of_value(&open("Amount")).unwrap(), r#"{"Amount":2,"amount":1}"#);
    // Keys that differ as values and are the same as names.
    assert!(why(of_value(&Pairs(vec![(Key::Number(1), 1), (Key::Text("1"), 2)]))).contains(DUPLICATE));
}
