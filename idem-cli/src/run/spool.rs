//! One output stream of the command: recorded as long as the store would keep it, and written on to ours meanwhile.
//!
//! The record is the queue: while it grows, the command never waits for a slow reader of ours. Once stdout and stderr
//! together are larger than the store keeps, nothing is recorded any more, and what waits to be written is bounded.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, oneshot};

/// The most bytes that wait to be written once nothing is recorded any more, and the most in one write.
const WAITING_BYTES_MAX: usize = 256 * 1024;
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// How many bytes the streams of one command may record together.
#[derive(Debug)]
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    /// `bytes_max` for all streams together.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        // Shifted by one, so that 0 says that the budget was exceeded.
        Arc::new(Self(AtomicUsize::new(bytes_max.saturating_add(1))))
    }

    /// Takes `bytes`, or exceeds the budget for all of its streams.
    fn take(&self, bytes: usize) -> bool {
        let take = |left: usize| Some(left.saturating_sub(bytes));
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        before.is_ok_and(|before| bytes < before)
    }
}

/// What became of a stream.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    /// All of it, unless it was more than the budget.
    pub(crate) bytes: Option<Bytes>,
    /// How many bytes came.
    pub(crate) total: u64,
    /// Their digest.
    pub(crate) sha256: [u8; 32],
}

impl Recorded {
    /// A stream in which nothing came.
    pub(crate) fn nothing() -> Self {
        Self::of(Bytes::new())
    }

    /// A stream in which these bytes came.
    pub(crate) fn of(bytes: Bytes) -> Self {
        let sha256 = Sha256::digest(&bytes).into();
        Self { total: bytes.len() as u64, bytes: Some(bytes), sha256 }
    }
}

/// One stream. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Spool(Arc<Shared>);

struct Shared {
    budget: Arc<Budget>,
    state: Mutex<State>,
    filled: Condvar,
    drained: Notify,
}

struct State {
    buffer: Buffer,
    /// How much of the buffer the writer has taken.
    taken: usize,
    recording: bool,
    /// Whether somebody writes it on.
    heard: bool,
    closed: bool,
    total: u64,
    hash: Sha256,
}

enum Buffer {
    /// Everything so far while recording, else what is not written yet.
    Growing(Vec<u8>),
    /// The stream is closed; the record and the writer share the bytes.
    Whole(Bytes),
}

impl Buffer {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Growing(bytes) => bytes,
            Self::Whole(bytes) => bytes,
        }
    }
}

impl Spool {
    /// A stream that records within `budget` and is written to `sink`, if there is one, by a thread of its own. The
    /// receiver hears when all is written, or why not.
    pub(crate) fn new<W: Write + Send + 'static>(
        budget: &Arc<Budget>,
        sink: Option<W>,
    ) -> io::Result<(Self, oneshot::Receiver<io::Result<()>>)> {
        let state = State {
            buffer: Buffer::Growing(Vec::new()),
            taken: 0,
            recording: true,
            heard: sink.is_some(),
            closed: false,
            total: 0,
            hash: Sha256::new(),
        };
        let spool = Self(Arc::new(Shared {
            budget: Arc::clone(budget),
            state: Mutex::new(state),
            filled: Condvar::new(),
            drained: Notify::new(),
        }));
        let (done, written) = oneshot::channel();
        match sink {
            None => drop(done.send(Ok(()))),
            Some(mut sink) => {
                let spool = spool.clone();
                let writer = move || drop(done.send(spool.write_on(&mut sink)));
                std::thread::Builder::new().name("idem-output".to_owned()).spawn(writer)?;
            }
        }
        Ok((spool, written))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what the command printed.
    pub(crate) fn push(&self, bytes: &[u8]) {
        let mut state = self.lock();
        state.total += bytes.len() as u64;
        state.hash.update(bytes);
        if state.recording && !self.0.budget.take(bytes.len()) {
            state.stop_recording();
        }
        if (state.recording || state.heard)
            && let Buffer::Growing(buffer) = &mut state.buffer
        {
            buffer.extend_from_slice(bytes);
        }
        drop(state);
        self.0.filled.notify_one();
    }

    /// Resolves when there is room for more: at once, unless a slow reader meets an output that is not recorded.
    pub(crate) async fn room(&self) {
        loop {
            let drained = self.0.drained.notified();
            let mut drained = std::pin::pin!(drained);
            drained.as_mut().enable();
            let roomy = {
                let state = self.lock();
                state.recording || state.waiting_bytes() < WAITING_BYTES_MAX
            };
            if roomy {
                return;
            }
            drained.await;
        }
    }

    /// Our reader is not waited for any more; what it has not read is lost to it.
    pub(crate) fn deafen(&self) {
        let mut state = self.lock();
        state.heard = false;
        state.forget_written();
        drop(state);
        self.0.drained.notify_one();
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) -> Recorded {
        let mut state = self.lock();
        state.closed = true;
        // The other stream may have exceeded the budget for both.
        if state.recording && !self.0.budget.take(0) {
            state.stop_recording();
        }
        let mut whole = None;
        if let Buffer::Growing(buffer) = &mut state.buffer {
            let bytes = Bytes::from(std::mem::take(buffer));
            whole = Some(bytes.clone());
            state.buffer = Buffer::Whole(bytes);
        }
        let recorded = Recorded {
            bytes: whole.filter(|_| state.recording),
            total: state.total,
            sha256: state.hash.clone().finalize().into(),
        };
        drop(state);
        self.0.filled.notify_one();
        recorded
    }

    /// The writer: passes everything to `sink` in order. After a failure nobody listens, and the command goes on.
    fn write_on(&self, sink: &mut impl Write) -> io::Result<()> {
        while let Some(chunk) = self.next_chunk() {
            if let Err(error) = sink.write_all(&chunk).and_then(|()| sink.flush()) {
                self.deafen();
                return Err(error);
            }
        }
        Ok(())
    }

    fn next_chunk(&self) -> Option<Bytes> {
        let mut state = self.lock();
        loop {
            let start = state.taken;
            let waiting = state.waiting_bytes();
            if waiting > 0 {
                let end = start + waiting.min(WRITE_BYTES_MAX);
                state.taken = end;
                let chunk = match &state.buffer {
                    Buffer::Whole(bytes) => bytes.slice(start..end),
                    Buffer::Growing(bytes) => {
                        Bytes::copy_from_slice(bytes.get(start..end).unwrap_or_default())
                    }
                };
                if !state.recording {
                    state.forget_written();
                }
                drop(state);
                self.0.drained.notify_one();
                return Some(chunk);
            }
            if state.closed {
                return None;
            }
            state = self.0.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn waiting_bytes(&self) -> usize {
        if self.heard { self.buffer.as_slice().len() - self.taken } else { 0 }
    }

    fn stop_recording(&mut self) {
        self.recording = false;
        self.forget_written();
    }

    /// Once nothing is recorded, only what waits for the writer is worth its memory.
    fn forget_written(&mut self) {
        if self.recording {
            return;
        }
        if let Buffer::Growing(buffer) = &mut self.buffer {
            let unneeded = if self.heard { self.taken } else { buffer.len() };
            buffer.drain(..unneeded);
            buffer.shrink_to(WAITING_BYTES_MAX * 2);
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sink that the test reads.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn digest(bytes: &[u8]) -> [u8; 32] {
        Sha256::digest(bytes).into()
    }

    #[tokio::test]
    async fn all_is_written_on_and_recorded() {
        let sink = Sink::default();
        let (spool, written) = Spool::new(&Budget::new(5), Some(sink.clone())).unwrap();
        spool.push(b"ab");
        spool.push(b"cde");
        let recorded = spool.close();
        written.await.unwrap().unwrap();
        assert_eq!(recorded.bytes.as_deref(), Some(&b"abcde"[..]));
        assert_eq!((recorded.total, recorded.sha256), (5, digest(b"abcde")));
        assert_eq!(&sink.0.lock().unwrap()[..], b"abcde");
    }

    #[tokio::test]
    async fn one_byte_too_many_in_either_stream_ends_the_record_of_both() {
        let budget = Budget::new(5);
        let (out, out_written) = Spool::new(&budget, Some(Sink::default())).unwrap();
        let (err, err_written) = Spool::new(&budget, Some(Sink::default())).unwrap();
        out.push(b"abc");
        err.push(b"def");
        let (out, err) = (out.close(), err.close());
        assert_eq!((out.bytes, out.total, out.sha256), (None, 3, digest(b"abc")));
        assert_eq!((err.bytes, err.total), (None, 3));
        out_written.await.unwrap().unwrap();
        err_written.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn what_is_not_recorded_is_bounded_and_written_on_in_order() {
        let sink = Sink::default();
        let (spool, written) = Spool::new(&Budget::new(10), Some(sink.clone())).unwrap();
        let mut sent = Vec::new();
        for round in 0..64_u8 {
            spool.room().await;
            let chunk = vec![round; 64 * 1024];
            spool.push(&chunk);
            assert!(spool.lock().buffer.as_slice().len() <= WAITING_BYTES_MAX + chunk.len());
            sent.extend(chunk);
        }
        let recorded = spool.close();
        written.await.unwrap().unwrap();
        assert_eq!((recorded.bytes, recorded.total, recorded.sha256), (None, 4 << 20, digest(&sent)));
        assert!(*sink.0.lock().unwrap() == sent);
    }

    #[tokio::test]
    async fn a_reader_that_has_gone_away_costs_neither_the_record_nor_the_command() {
        let (spool, written) = Spool::new(&Budget::new(1 << 20), Some(Broken)).unwrap();
        spool.push(b"abc");
        let error = written.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        spool.push(b"def");
        assert_eq!(spool.close().bytes.as_deref(), Some(&b"abcdef"[..]));
        let (spool, _written) = Spool::new(&Budget::new(0), Some(Broken)).unwrap();
        for _ in 0..64 {
            spool.room().await;
            spool.push(&[0; 64 * 1024]);
        }
        assert_eq!(spool.close().total, 4 << 20);
    }

    #[tokio::test]
    async fn without_a_sink_it_is_only_recorded() {
        let (spool, written) = Spool::new(&Budget::new(3), None::<Sink>).unwrap();
        spool.push(b"abc");
        assert_eq!(spool.close().bytes.as_deref(), Some(&b"abc"[..]));
        written.await.unwrap().unwrap();
        let (spool, _written) = Spool::new(&Budget::new(3), None::<Sink>).unwrap();
        spool.push(b"abcd");
        assert!(spool.lock().buffer.as_slice().is_empty());
        assert_eq!(spool.close().bytes, None);
    }
}
