//! Any `Serialize` value straight into the canonical writer, in the shape that `serde_json` gives it.

use serde::ser::{self, Serialize};

use super::writer::{ObjectStart, Writer};
use super::{Refusal, number, parser};

/// The names under which `serde_json` hands over a number by its literal (its feature `arbitrary_precision`) and a piece
/// of JSON text (`RawValue`): structs of one string, of the same name as its field.
const VERBATIM: [&str; 2] = ["$serde_json::private::Number", "$serde_json::private::RawValue"];

/// Where the next value goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Value,
    /// The name of a member: texts stand for themselves; integers, booleans and unit variants are written as texts.
    Name,
    /// A text that is JSON.
    Verbatim,
}

pub(super) struct Serializer<'a> {
    pub(super) writer: &'a mut Writer,
    pub(super) place: Place,
}

impl<'a> Serializer<'a> {
    fn value(writer: &'a mut Writer) -> Self {
        Self { writer, place: Place::Value }
    }

    fn text(self, text: &str) -> Result<(), Refusal> {
        match self.place {
            Place::Value => self.writer.string(text),
            Place::Name => self.writer.name(text),
            Place::Verbatim => return parser::text(self.writer, text),
        }
        Ok(())
    }

    /// The writer, for a value that cannot be the name of a member.
    fn only_value(self) -> Result<&'a mut Writer, Refusal> {
        if self.place == Place::Value {
            Ok(self.writer)
        } else {
            Err(Refusal::new("a map has a key that is no text, integer or boolean"))
        }
    }

    fn integer(self, integer: impl TryInto<i64> + ToString) -> Result<(), Refusal> {
        match self.place {
            Place::Value => self.writer.integer(integer.try_into().map_err(|_| number::too_large())?),
            _ => self.text(&integer.to_string()),
        }
    }

    fn array(self) -> Result<Container<'a>, Refusal> {
        let writer = self.only_value()?;
        writer.begin_array()?;
        Ok(Container { writer, shape: Shape::Array, variant: None })
    }

    fn object(self) -> Result<Container<'a>, Refusal> {
        let writer = self.only_value()?;
        let object = writer.begin_object()?;
        Ok(Container { writer, shape: Shape::Object(object), variant: None })
    }

    /// `{"variant":`, before the value of a variant.
    fn variant(self, variant: &str) -> Result<(&'a mut Writer, ObjectStart), Refusal> {
        let writer = self.only_value()?;
        let object = writer.begin_object()?;
        writer.name(variant);
        Ok((writer, object))
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty),+) => {$(
        fn $method(self, integer: $type) -> Result<(), Refusal> {
            self.integer(integer)
        }
    )+};
}

impl<'a> ser::Serializer for Serializer<'a> {
    type Ok = ();
    type Error = Refusal;
    type SerializeSeq = Container<'a>;
    type SerializeTuple = Container<'a>;
    type SerializeTupleStruct = Container<'a>;
    type SerializeTupleVariant = Container<'a>;
    type SerializeMap = Container<'a>;
    type SerializeStruct = Container<'a>;
    type SerializeStructVariant = Container<'a>;

    integers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128
    }

    fn serialize_bool(self, value: bool) -> Result<(), Refusal> {
        let word = if value { "true" } else { "false" };
        match self.place {
            Place::Value => self.writer.plain(word),
            _ => return self.text(word),
        }
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Refusal> {
        self.only_value()?.float(value)
    }

    fn serialize_f64(self, value: f64) -> Result<(), Refusal> {
        self.only_value()?.float(value)
    }

    fn serialize_char(self, value: char) -> Result<(), Refusal> {
        self.text(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Refusal> {
        self.text(value)
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Refusal> {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Result<(), Refusal> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Refusal> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Refusal> {
        self.only_value()?.plain("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), Refusal> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), Refusal> {
        self.text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), Refusal> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Refusal> {
        let (writer, object) = self.variant(variant)?;
        value.serialize(Serializer::value(writer))?;
        writer.end_member(&object);
        writer.end_object(&object)
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Container<'a>, Refusal> {
        self.array()
    }

    fn serialize_tuple(self, _length: usize) -> Result<Container<'a>, Refusal> {
        self.array()
    }

    fn serialize_tuple_struct(self, _name: &'static str, _length: usize) -> Result<Container<'a>, Refusal> {
        self.array()
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Container<'a>, Refusal> {
        let (writer, object) = self.variant(variant)?;
        Ok(Container { variant: Some(object), ..Serializer::value(writer).array()? })
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Container<'a>, Refusal> {
        self.object()
    }

    fn serialize_struct(self, name: &'static str, _length: usize) -> Result<Container<'a>, Refusal> {
        if VERBATIM.contains(&name) {
            return Ok(Container { writer: self.only_value()?, shape: Shape::Verbatim, variant: None });
        }
        self.object()
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Container<'a>, Refusal> {
        let (writer, object) = self.variant(variant)?;
        Ok(Container { variant: Some(object), ..Serializer::value(writer).object()? })
    }
}

/// An open array, object, or struct of [`VERBATIM`].
pub(super) struct Container<'a> {
    writer: &'a mut Writer,
    shape: Shape,
    /// The object around it that names its variant.
    variant: Option<ObjectStart>,
}

enum Shape {
    Array,
    Object(ObjectStart),
    Verbatim,
}

impl Container<'_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refusal> {
        self.writer.element();
        value.serialize(Serializer::value(self.writer))
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Refusal> {
        match &self.shape {
            Shape::Verbatim => value.serialize(Serializer { writer: self.writer, place: Place::Verbatim }),
            _ => {
                self.writer.name(name);
                self.member_value(value)
            }
        }
    }

    fn member_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refusal> {
        value.serialize(Serializer::value(self.writer))?;
        if let Shape::Object(object) = &self.shape {
            self.writer.end_member(object);
        }
        Ok(())
    }

    fn close(self) -> Result<(), Refusal> {
        match &self.shape {
            Shape::Array => self.writer.end_array(),
            Shape::Object(object) => self.writer.end_object(object)?,
            Shape::Verbatim => {}
        }
        if let Some(object) = &self.variant {
            self.writer.end_member(object);
            self.writer.end_object(object)?;
        }
        Ok(())
    }
}

macro_rules! arrays {
    ($($trait:ident: $method:ident),+) => {$(
        impl ser::$trait for Container<'_> {
            type Ok = ();
            type Error = Refusal;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refusal> {
                self.element(value)
            }

            fn end(self) -> Result<(), Refusal> {
                self.close()
            }
        }
    )+};
}

arrays! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field
}

macro_rules! objects {
    ($($trait:ident),+) => {$(
        impl ser::$trait for Container<'_> {
            type Ok = ();
            type Error = Refusal;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Refusal> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Refusal> {
                self.close()
            }
        }
    )+};
}

objects! { SerializeStruct, SerializeStructVariant }

impl ser::SerializeMap for Container<'_> {
    type Ok = ();
    type Error = Refusal;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refusal> {
        key.serialize(Serializer { writer: self.writer, place: Place::Name })
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refusal> {
        self.member_value(value)
    }

    fn end(self) -> Result<(), Refusal> {
        self.close()
    }
}
