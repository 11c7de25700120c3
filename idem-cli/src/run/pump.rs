//! From the command's pipes into the spools, until they end: or until the command has ended and they stay silent.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use idem_core::clock::{Clock, SystemClock};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::Notify;

use super::spool::Spool;

/// How long after the command's end a pipe that something else holds open is waited for.
const GRACE: Duration = Duration::from_secs(1);

/// The most bytes that are read after the grace: as much as a pipe can hold, so that what was in it is not lost when
/// our reader was slow, and a grandchild that goes on printing cannot keep us.
const PIPE_BYTES_MAX: u64 = 1 << 20;

const READ_BYTES_MAX: usize = 64 * 1024;

/// Tells the pumps that the command has ended.
#[derive(Default)]
pub(crate) struct Ended {
    grace_until: Cell<Option<Duration>>,
    bell: Notify,
}

impl Ended {
    /// The command has ended: the grace begins.
    pub(crate) fn ring(&self) {
        self.grace_until.set(Some(SystemClock.elapsed() + GRACE));
        self.bell.notify_waiters();
    }

    fn is_over(&self) -> bool {
        self.grace_until.get().is_some_and(|until| SystemClock.elapsed() >= until)
    }

    /// Resolves when the grace is over.
    async fn over(&self) {
        let until = loop {
            let bell = self.bell.notified();
            let mut bell = pin!(bell);
            bell.as_mut().enable();
            if let Some(until) = self.grace_until.get() {
                break until;
            }
            bell.await;
        };
        SystemClock.sleep_until(until).await;
    }
}

/// Reads `pipe` into `spool` until it ends, or the grace after the command's end is over.
pub(crate) async fn pump(mut pipe: impl AsyncRead + Unpin, spool: &Spool, ended: &Ended) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES_MAX];
    let mut late_bytes = 0;
    loop {
        spool.room().await;
        let read = {
            let mut read = pin!(pipe.read(&mut buffer));
            if ended.is_over() {
                // Only what is there at once, outside of tokio's own turn-taking, which would look like an empty pipe.
                match now(tokio::task::unconstrained(&mut read)).await {
                    Some(read) => read?,
                    None => return Ok(()),
                }
            } else {
                tokio::select! {
                    biased;
                    read = &mut read => read?,
                    () = ended.over() => continue,
                }
            }
        };
        if read == 0 {
            return Ok(());
        }
        spool.push(buffer.get(..read).unwrap_or_default());
        if ended.is_over() {
            late_bytes += read as u64;
            if late_bytes >= PIPE_BYTES_MAX {
                return Ok(());
            }
        }
    }
}

/// Polls once.
async fn now<F: Future + Unpin>(mut work: F) -> Option<F::Output> {
    poll_fn(|cx| match std::pin::Pin::new(&mut work).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::super::sink::Sink;
    use super::super::spool::Budget;
    use super::*;

    fn spool() -> Spool {
        Spool::new(&Budget::new(4 << 20), None::<Sink>).unwrap().0
    }

    #[tokio::test]
    async fn a_pipe_is_read_to_its_end() {
        let spool = spool();
        pump(&b"abc"[..], &spool, &Ended::default()).await.unwrap();
        assert_eq!(spool.close().bytes.as_deref(), Some(&b"abc"[..]));
    }

    #[tokio::test]
    async fn what_is_in_a_pipe_that_stays_open_is_read_also_after_the_grace() {
        let spool = spool();
        let (mut ours, theirs) = tokio::io::duplex(1024);
        tokio::io::AsyncWriteExt::write_all(&mut ours, b"late").await.unwrap();
        let ended = Ended::default();
        ended.grace_until.set(Some(Duration::ZERO));
        pump(theirs, &spool, &ended).await.unwrap();
        assert_eq!(spool.close().bytes.as_deref(), Some(&b"late"[..]));
    }

    #[tokio::test]
    async fn whoever_goes_on_printing_into_the_pipe_does_not_keep_us() {
        let spool = spool();
        let ended = Ended::default();
        ended.grace_until.set(Some(Duration::ZERO));
        pump(tokio::io::repeat(b'y'), &spool, &ended).await.unwrap();
        assert_eq!(spool.close().total, PIPE_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_pipe_that_stays_open_and_silent_is_left_once_the_grace_is_over() {
        let spool = spool();
        let (_ours, theirs) = tokio::io::duplex(1024);
        let ended = Ended::default();
        let pumped = pump(theirs, &spool, &ended);
        let ring = async { ended.ring() };
        let (pumped, ()) = tokio::join!(pumped, ring);
        pumped.unwrap();
        assert_eq!(spool.close().total, 0);
    }
}
