//! The command's stdin: read before the command is run, because it belongs to the intent.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::process::Stdio;

use sha2::{Digest, Sha256};

/// What the command gets on stdin.
#[derive(Debug)]
pub(crate) enum Input {
    /// Nothing: /dev/null.
    None,
    /// This file, from its start.
    File { file: File, digest: ContentDigest },
}

/// The length and digest of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentDigest {
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
}

impl Input {
    /// Reads the input through. A regular file is read where it is; stdin, a pipe or a device is kept in a temporary
    /// file without a name, since it can be read only once.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::None) };
        let (mut file, digest) = if path == Path::new("-") {
            keep(io::stdin().lock())?
        } else {
            let mut file = File::open(path)?;
            if file.metadata()?.is_file() {
                let digest = digest(&mut file, io::sink())?;
                (file, digest)
            } else {
                keep(file)?
            }
        };
        file.rewind()?;
        Ok(Self::File { file, digest })
    }

    /// What the fingerprint covers of it.
    pub(crate) const fn digest(&self) -> Option<ContentDigest> {
        match self {
            Self::None => None,
            Self::File { digest, .. } => Some(*digest),
        }
    }

    /// The command's stdin.
    pub(crate) fn into_stdio(self) -> Stdio {
        match self {
            Self::None => Stdio::null(),
            Self::File { file, .. } => Stdio::from(file),
        }
    }
}

fn keep(from: impl Read) -> io::Result<(File, ContentDigest)> {
    let mut file = tempfile::tempfile()?;
    let digest = digest(from, &mut file)?;
    Ok((file, digest))
}

/// Copies `from` to `to` and digests it, in pieces: an input may be larger than memory.
pub(crate) fn digest(mut from: impl Read, mut to: impl Write) -> io::Result<ContentDigest> {
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let piece = buffer.get(..read).unwrap_or_default();
        hash.update(piece);
        to.write_all(piece)?;
        bytes += read as u64;
    }
    Ok(ContentDigest { bytes, sha256: hash.finalize().into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_digested_and_read_again_from_its_start() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hello").unwrap();
        let Input::File { mut file, digest } = Input::open(Some(file.path())).unwrap() else {
            panic!("a file")
        };
        assert_eq!(digest, ContentDigest { bytes: 5, sha256: Sha256::digest("hello").into() });
        assert_eq!(io::read_to_string(&mut file).unwrap(), "hello");
    }

    #[test]
    fn what_can_be_read_only_once_is_kept() {
        let (mut file, digest) = keep(&b"once"[..]).unwrap();
        file.rewind().unwrap();
        assert_eq!((digest.bytes, io::read_to_string(&mut file).unwrap().as_str()), (4, "once"));
    }

    #[test]
    fn a_directory_is_no_input() {
        assert!(Input::open(Some(Path::new("/"))).is_err());
        assert!(Input::open(Some(Path::new("/nowhere/at/all"))).is_err());
        assert!(matches!(Input::open(None), Ok(Input::None)));
    }
}
