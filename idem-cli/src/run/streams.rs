//! The two output streams of a run.

use std::io;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::signals::Signals;
use super::sink::Sink;
use super::spool::{Budget, Recorded, Spool};

/// stdout and stderr, on their way to ours.
pub(crate) struct Streams {
    pub(crate) out: Spool,
    pub(crate) err: Spool,
    written: [oneshot::Receiver<io::Result<()>>; 2],
    /// A signal that came when only our reader was waited for.
    pub(crate) cut_short: Option<i32>,
}

/// Whether what was printed has arrived.
#[derive(Debug)]
pub(crate) enum Flushed {
    /// It has, or our reader wanted no more.
    Done,
    /// It could not be written.
    Lost(io::Error),
    /// This signal ended the wait for a slow reader.
    CutShort(i32),
}

impl Streams {
    /// Both streams recorded within `bytes_max` together, and written on.
    pub(crate) fn live(bytes_max: usize) -> io::Result<Self> {
        let budget = Budget::new(bytes_max);
        Ok(Self::of(Spool::new(&budget, Some(Sink::stdout()?))?, Spool::new(&budget, Some(Sink::stderr()?))?))
    }

    /// stdout recorded within `bytes_max` and not written on, as it may not be what is printed in the end; stderr
    /// written on and not recorded.
    pub(crate) fn captured(bytes_max: usize) -> io::Result<Self> {
        Ok(Self::of(
            Spool::new(&Budget::new(bytes_max), None::<Sink>)?,
            Spool::new(&Budget::new(0), Some(Sink::stderr()?))?,
        ))
    }

    fn of(
        (out, out_written): (Spool, oneshot::Receiver<io::Result<()>>),
        (err, err_written): (Spool, oneshot::Receiver<io::Result<()>>),
    ) -> Self {
        Self { out, err, written: [out_written, err_written], cut_short: None }
    }

    /// Prints a stored output.
    pub(crate) fn replay(stdout: &Bytes, stderr: &Bytes) -> io::Result<Self> {
        let streams = Self::live(usize::MAX)?;
        streams.out.push(stdout);
        streams.err.push(stderr);
        streams.close();
        Ok(streams)
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) -> (Recorded, Recorded) {
        (self.out.close(), self.err.close())
    }

    /// Waits until all is written. A signal ends the wait: the result is stored by then.
    pub(crate) async fn flush(mut self, signals: &mut Signals) -> Flushed {
        if let Some(signal) = self.cut_short {
            return Flushed::CutShort(signal);
        }
        let [out, err] = &mut self.written;
        let both = async { (out.await, err.await) };
        let (out, err) = tokio::select! {
            biased;
            both = both => both,
            received = signals.next() => return Flushed::CutShort(received.signal),
        };
        let lost = |written: Result<io::Result<()>, _>| match written {
            Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => Some(error),
            _ => None,
        };
        lost(out).or_else(|| lost(err)).map_or(Flushed::Done, Flushed::Lost)
    }
}
