//! Our own stdout and stderr, written without a buffer in between.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};

/// A copy of our stdout or stderr.
pub(crate) struct Sink(File);

impl Sink {
    /// Our stdout.
    pub(crate) fn stdout() -> io::Result<Self> {
        Self::of(io::stdout().as_fd())
    }

    /// Our stderr.
    pub(crate) fn stderr() -> io::Result<Self> {
        Self::of(io::stderr().as_fd())
    }

    fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(File::from(fd.try_clone_to_owned()?)))
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                // Whoever made this pipe may have set it to non-blocking for itself.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
