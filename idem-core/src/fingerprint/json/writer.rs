//! Writes RFC 8785 canonical JSON: one pass, objects sorted in place when they end.

use std::cmp::Ordering;
use std::ops::Range;

use super::number;
use super::{DEPTH_MAX, Refusal};

/// What most fingerprinted values take, so that they need one allocation.
const TYPICAL_BYTES: usize = 256;

/// The canonical bytes so far.
pub(super) struct Writer {
    out: Vec<u8>,
    depth: usize,
    /// The unescaped names of the members of all open objects, one after the other.
    names: String,
    /// The members of all open objects, those of the innermost last.
    members: Vec<Member>,
}

/// A member of an open object.
struct Member {
    /// Where its name is in `names`.
    name: Range<usize>,
    /// Where `"name":value` begins in `out`, and ends as soon as it is known.
    written: Range<usize>,
}

/// Where an open object begins, in `out`, `members` and `names`.
pub(super) struct ObjectStart {
    out: usize,
    members: usize,
    names: usize,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { out: Vec::with_capacity(TYPICAL_BYTES), depth: 0, names: String::new(), members: Vec::new() }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// `null`, `true`, `false` or a number in its canonical form.
    pub(super) fn plain(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(super) fn integer(&mut self, integer: i64) -> Result<(), Refusal> {
        number::integer(&mut self.out, integer)
    }

    pub(super) fn float<F: number::Float>(&mut self, float: F) -> Result<(), Refusal> {
        number::float(&mut self.out, float)
    }

    pub(super) fn literal(&mut self, literal: &str) -> Result<(), Refusal> {
        number::literal(&mut self.out, literal)
    }

    pub(super) fn string(&mut self, text: &str) {
        self.out.push(b'"');
        let mut rest = text.as_bytes();
        while let Some(position) = rest.iter().position(|byte| needs_escape(*byte)) {
            let (clean, tail) = rest.split_at(position);
            self.out.extend_from_slice(clean);
            let Some((byte, tail)) = tail.split_first() else { break };
            self.escape(*byte);
            rest = tail;
        }
        self.out.extend_from_slice(rest);
        self.out.push(b'"');
    }

    /// RFC 8785, section 3.2.2.2: the short escape where there is one, else `\u00xx` in lower case.
    fn escape(&mut self, byte: u8) {
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            control => {
                self.plain("\\u00");
                self.plain(&crate::key::hex(&[control]));
                return;
            }
        };
        self.out.extend_from_slice(&[b'\\', short]);
    }

    pub(super) fn begin_array(&mut self) -> Result<(), Refusal> {
        self.deeper()?;
        self.out.push(b'[');
        Ok(())
    }

    /// Comes before every element.
    pub(super) fn element(&mut self) {
        self.separate(b'[');
    }

    pub(super) fn end_array(&mut self) {
        self.out.push(b']');
        self.depth -= 1;
    }

    pub(super) fn begin_object(&mut self) -> Result<ObjectStart, Refusal> {
        self.deeper()?;
        self.out.push(b'{');
        Ok(ObjectStart { out: self.out.len(), members: self.members.len(), names: self.names.len() })
    }

    /// Comes before every value of an object.
    pub(super) fn name(&mut self, name: &str) {
        self.separate(b'{');
        let (name_start, start) = (self.names.len(), self.out.len());
        self.names.push_str(name);
        self.members.push(Member { name: name_start..self.names.len(), written: start..start });
        self.string(name);
        self.out.push(b':');
    }

    /// Comes after every value of an object.
    pub(super) fn end_member(&mut self, object: &ObjectStart) {
        // An inner object has taken its own members away, so that the last one is this object's.
        if let Some(member) = self.members.get_mut(object.members..).and_then(<[Member]>::last_mut) {
            member.written.end = self.out.len();
        }
    }

    /// Sorts the members by the UTF-16 code units of their names (RFC 8785, section 3.2.3).
    pub(super) fn end_object(&mut self, object: &ObjectStart) -> Result<(), Refusal> {
        let names = &self.names;
        let name = |member: &Member| names.get(member.name.clone()).unwrap_or_default();
        let members = self.members.get_mut(object.members..).unwrap_or_default();
        let ascends = |pair: &[Member]| match pair {
            [one, two] => compare(name(one), name(two)) == Ordering::Less,
            _ => true,
        };
        if !members.windows(2).all(ascends) {
            members.sort_unstable_by(|one, two| compare(name(one), name(two)));
            if !members.windows(2).all(ascends) {
                return Err(Refusal::new("an object has two members of one name"));
            }
            let unsorted = object.out..self.out.len();
            for (index, member) in members.iter().enumerate() {
                if index > 0 {
                    self.out.push(b',');
                }
                self.out.extend_from_within(member.written.clone());
            }
            self.out.drain(unsorted);
        }
        self.members.truncate(object.members);
        self.names.truncate(object.names);
        self.out.push(b'}');
        self.depth -= 1;
        Ok(())
    }

    fn deeper(&mut self) -> Result<(), Refusal> {
        if self.depth == DEPTH_MAX {
            return Err(Refusal::new("arrays and objects are nested deeper than 128 levels"));
        }
        self.depth += 1;
        Ok(())
    }

    /// A comma, unless the container was only now opened: no value ends in an opening bracket.
    fn separate(&mut self, opening: u8) {
        if self.out.last() != Some(&opening) {
            self.out.push(b',');
        }
    }
}

const fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The order of the UTF-16 code units. That of the bytes is the same, but for characters beyond U+FFFF against those
/// from U+E000 on.
fn compare(one: &str, two: &str) -> Ordering {
    if one.is_ascii() || two.is_ascii() { one.cmp(two) } else { one.encode_utf16().cmp(two.encode_utf16()) }
}
