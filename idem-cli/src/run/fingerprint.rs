//! The fingerprint of a command: argv and input, and what the caller adds (G-04).
//!
//! It is `Custom`, version 1: the SHA-256 of the following, in this order. A *string* is its length as 8 bytes,
//! big-endian, and then its bytes; a *count* is 8 bytes, big-endian.
//!
//! 1. the text `idem-cli/intent/v1` and a zero byte;
//! 2. the count of arguments, the command's name included, and each as a string;
//! 3. one byte: 0 without `--input`; 1 with it, and then its length (8 bytes) and the SHA-256 of its content;
//! 4. the count of different `--fingerprint-env` names, and in the order of their bytes for each: its name as a string,
//!    one byte 0 if it is not set, else 1 and its value as a string;
//! 5. the count of `--fingerprint-file`s, and in the order given for each: its length (8 bytes) and the SHA-256 of its
//!    content. Their names are not part of it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use idem_core::Fingerprint;
use sha2::{Digest, Sha256};

use super::input::{self, ContentDigest};

const DOMAIN: &[u8] = b"idem-cli/intent/v1\0";

/// What belongs to the intent.
#[derive(Debug)]
pub(crate) struct Intent<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) input: Option<ContentDigest>,
    /// The variables by name, with their values where they are set.
    pub(crate) environment: BTreeMap<&'a OsStr, Option<OsString>>,
    pub(crate) files: Vec<ContentDigest>,
}

impl<'a> Intent<'a> {
    /// An intent without environment and files.
    pub(crate) const fn new(command: &'a [OsString], input: Option<ContentDigest>) -> Self {
        Self { command, input, environment: BTreeMap::new(), files: Vec::new() }
    }

    /// The same with these variables, as they are set now.
    pub(crate) fn environment(mut self, names: &'a [OsString]) -> Self {
        self.environment = names.iter().map(|name| (name.as_os_str(), std::env::var_os(name))).collect();
        self
    }

    /// The same with the contents of these files.
    pub(crate) fn files(mut self, paths: &[PathBuf]) -> Result<Self, (PathBuf, io::Error)> {
        for path in paths {
            let content = File::open(path).and_then(|file| input::digest(file, io::sink()));
            self.files.push(content.map_err(|error| (path.clone(), error))?);
        }
        Ok(self)
    }

    /// Its fingerprint.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(DOMAIN);
        count(&mut hash, self.command.len());
        for argument in self.command {
            string(&mut hash, argument);
        }
        hash.update([u8::from(self.input.is_some())]);
        self.input.iter().for_each(|input| content(&mut hash, input));
        count(&mut hash, self.environment.len());
        for (name, value) in &self.environment {
            string(&mut hash, name);
            hash.update([u8::from(value.is_some())]);
            value.iter().for_each(|value| string(&mut hash, value));
        }
        count(&mut hash, self.files.len());
        self.files.iter().for_each(|file| content(&mut hash, file));
        Fingerprint::custom(hash.finalize().into())
    }
}

fn count(hash: &mut Sha256, count: usize) {
    hash.update((count as u64).to_be_bytes());
}

fn string(hash: &mut Sha256, string: &OsStr) {
    count(hash, string.len());
    hash.update(string.as_bytes());
}

fn content(hash: &mut Sha256, content: &ContentDigest) {
    hash.update(content.bytes.to_be_bytes());
    hash.update(content.sha256);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn content_of(text: &str) -> ContentDigest {
        input::digest(text.as_bytes(), io::sink()).unwrap()
    }

    #[test]
    fn it_is_what_the_text_above_says() {
        let command = words(&["sh", "-c", ""]);
        let mut intent = Intent::new(&command, Some(content_of("in")));
        intent.environment.insert(OsStr::new("B"), None);
        intent.environment.insert(OsStr::new("A"), Some("x".into()));
        intent.files.push(content_of("f"));
        let mut bytes = b"idem-cli/intent/v1\0".to_vec();
        let number = |number: u64| number.to_be_bytes().to_vec();
        let sha256 = |text: &str| Sha256::digest(text).to_vec();
        for part in [number(3), number(2), b"sh".to_vec(), number(2), b"-c".to_vec(), number(0)] {
            bytes.extend(part);
        }
        for part in [vec![1], number(2), sha256("in"), number(2)] {
            bytes.extend(part);
        }
        for part in [number(1), b"A".to_vec(), vec![1], number(1), b"x".to_vec()] {
            bytes.extend(part);
        }
        for part in [number(1), b"B".to_vec(), vec![0], number(1), number(1), sha256("f")] {
            bytes.extend(part);
        }
        assert_eq!(intent.fingerprint(), Fingerprint::custom(Sha256::digest(bytes).into()));
    }

    #[test]
    fn every_other_intent_has_another_fingerprint() {
        let commands = [
            words(&["a"]),
            words(&["a", ""]),
            words(&["a", "b"]),
            words(&["ab"]),
            words(&["a", "b", "c"]),
            words(&["a", "bc"]),
            vec![OsString::from("a"), OsStr::from_bytes(b"\xff").to_owned()],
            vec![OsString::from("a"), OsStr::from_bytes(b"\xfe").to_owned()],
        ];
        let mut seen = std::collections::HashSet::new();
        for command in &commands {
            for input in [None, Some(content_of("")), Some(content_of("a"))] {
                assert!(seen.insert(Intent::new(command, input).fingerprint()));
            }
        }
        let mut unset = Intent::new(&commands[0], None);
        unset.environment.insert(OsStr::new("A"), None);
        assert!(seen.insert(unset.fingerprint()));
        unset.environment.insert(OsStr::new("A"), Some("".into()));
        assert!(seen.insert(unset.fingerprint()));
        unset.files.push(content_of(""));
        assert!(seen.insert(unset.fingerprint()));
    }
}
