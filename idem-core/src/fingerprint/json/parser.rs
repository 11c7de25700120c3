//! Reads JSON text (RFC 8259) straight into the canonical writer.
//!
//! Our own, because the literal of a number has to be seen before it is rounded, and the parsers that show it do so by
//! a feature that changes their other users too.

use super::Refusal;
use super::writer::Writer;

/// Writes the one value that `text` is.
pub(super) fn text(writer: &mut Writer, text: &str) -> Result<(), Refusal> {
    let mut parser = Parser { text, position: 0, writer };
    let read = parser.document();
    let position = parser.position;
    read.map_err(|refusal| refusal.at(position))
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    writer: &'a mut Writer,
}

impl<'a> Parser<'a> {
    fn document(&mut self) -> Result<(), Refusal> {
        self.value()?;
        self.skip_space();
        if self.peek().is_some() { Err(Refusal::new("something comes after the value")) } else { Ok(()) }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.position += usize::from(there);
        there
    }

    fn skip_while(&mut self, admits: impl Fn(u8) -> bool) -> usize {
        let start = self.position;
        while self.peek().is_some_and(&admits) {
            self.position += 1;
        }
        self.position - start
    }

    fn skip_space(&mut self) {
        self.skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    }

    fn value(&mut self) -> Result<(), Refusal> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(),
            Some(b'"') => {
                let text = self.string()?;
                self.writer.string(&text);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<(), Refusal> {
        for word in ["null", "true", "false"] {
            if self.rest().starts_with(word) {
                self.position += word.len();
                self.writer.plain(word);
                return Ok(());
            }
        }
        Err(Refusal::new(if self.peek().is_some() { "this begins no value" } else { "the text ends early" }))
    }

    fn array(&mut self) -> Result<(), Refusal> {
        self.position += 1;
        self.writer.begin_array()?;
        self.skip_space();
        if !self.take(b']') {
            loop {
                self.writer.element();
                self.value()?;
                if self.ends(b']')? {
                    break;
                }
            }
        }
        self.writer.end_array();
        Ok(())
    }

    fn object(&mut self) -> Result<(), Refusal> {
        self.position += 1;
        let object = self.writer.begin_object()?;
        self.skip_space();
        if !self.take(b'}') {
            loop {
                self.skip_space();
                if self.peek() != Some(b'"') {
                    return Err(Refusal::new("a name in quotes is missing"));
                }
                let name = self.string()?;
                self.writer.name(&name);
                self.skip_space();
                if !self.take(b':') {
                    return Err(Refusal::new("a colon is missing"));
                }
                self.value()?;
                self.writer.end_member(&object);
                if self.ends(b'}')? {
                    break;
                }
            }
        }
        self.writer.end_object(&object)
    }

    /// Reads a comma (`false`) or the end of the container (`true`).
    fn ends(&mut self, closing: u8) -> Result<bool, Refusal> {
        self.skip_space();
        if self.take(b',') {
            return Ok(false);
        }
        if self.take(closing) {
            Ok(true)
        } else {
            Err(Refusal::new("a comma or a closing bracket is missing"))
        }
    }

    fn number(&mut self) -> Result<(), Refusal> {
        let start = self.position;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'-') || self.take(b'+');
            self.digits()?;
        }
        self.writer.literal(self.text.get(start..self.position).unwrap_or_default())
    }

    fn digits(&mut self) -> Result<(), Refusal> {
        if self.skip_while(|byte| byte.is_ascii_digit()) == 0 {
            return Err(Refusal::new("a number is misspelt"));
        }
        Ok(())
    }

    fn string(&mut self) -> Result<std::borrow::Cow<'a, str>, Refusal> {
        self.position += 1;
        let clean = self.clean_run();
        if self.take(b'"') {
            return Ok(clean.into());
        }
        let mut text = clean.to_owned();
        while !self.take(b'"') {
            match self.peek() {
                None => return Err(Refusal::new("the text ends early")),
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(Refusal::new("a string holds a control character without an escape")),
            }
            text.push_str(self.clean_run());
        }
        Ok(text.into())
    }

    /// What stands for itself. It ends before an ASCII byte, so it is whole characters.
    fn clean_run(&mut self) -> &'a str {
        let start = self.position;
        self.skip_while(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
        self.text.get(start..self.position).unwrap_or_default()
    }

    fn escape(&mut self) -> Result<char, Refusal> {
        let letter = self.text.as_bytes().get(self.position + 1).copied();
        self.position += 2;
        Ok(match letter {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.code_point(),
            _ => return Err(Refusal::new("a string holds an unknown escape")),
        })
    }

    /// `uXXXX` after its backslash, with the second half of a pair where the first asks for one.
    fn code_point(&mut self) -> Result<char, Refusal> {
        let lone = || Refusal::new("a string holds half of a surrogate pair");
        let mut code = self.code_unit()?;
        if (0xd800..0xdc00).contains(&code) {
            if !(self.take(b'\\') && self.take(b'u')) {
                return Err(lone());
            }
            let low = self.code_unit()?.checked_sub(0xdc00).filter(|low| *low < 0x400).ok_or_else(lone)?;
            code = 0x1_0000 + ((code - 0xd800) << 10) + low;
        }
        char::from_u32(code).ok_or_else(lone)
    }

    fn code_unit(&mut self) -> Result<u32, Refusal> {
        let digits =
            self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(|| Refusal::new("a string holds an unknown escape"))?;
        self.position += 4;
        u32::from_str_radix(digits, 16).map_err(|_| Refusal::new("a string holds an unknown escape"))
    }
}
