//! The one bounded drain queue: many callers push, one worker takes all that is there, and answers each.
//!
//! A store's group commit is such a worker on a thread ([`Queue::drain_blocking`]), a coalescer of statements is one in
//! a task ([`Queue::drain`]). The queue waits for nothing: a worker that was idle gets the first job alone, and what
//! arrives while it works is its next batch.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use idem_core::batch::{Job, Queue};
//!
//! let queue = std::sync::Arc::new(Queue::new(8));
//! let worker = std::thread::spawn({
//!     let queue = queue.clone();
//!     move || {
//!         let mut batch: Vec<Job<u32, u32>> = Vec::new();
//!         while queue.drain_blocking(4, &mut batch) {
//!             for job in batch.drain(..) {
//!                 let doubled = job.request() * 2;
//!                 job.answer(doubled);
//!             }
//!         }
//!     }
//! });
//! assert_eq!(queue.ask(21).await, Ok(42));
//! queue.close();
//! worker.join().unwrap();
//! # }
//! ```

use std::collections::VecDeque;
use std::fmt;

use tokio::sync::{Semaphore, oneshot};

use crate::sync::{Condvar, Mutex, Notify, lock};

/// One request in the queue, and where its answer goes.
pub struct Job<Q, A> {
    request: Q,
    reply: oneshot::Sender<A>,
}

impl<Q, A> Job<Q, A> {
    /// What is asked.
    pub const fn request(&self) -> &Q {
        &self.request
    }

    /// What is asked, to change it.
    pub const fn request_mut(&mut self) -> &mut Q {
        &mut self.request
    }

    /// Whether nobody waits for the answer any more: a job that is still queued is then skipped (G-53).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.reply.is_closed()
    }

    /// Answers; gives the answer back if nobody waits for it any more, so that a grant which nobody will hold can be
    /// released (G-53).
    pub fn answer(self, answer: A) -> Option<A> {
        self.reply.send(answer).err()
    }

    /// Answers with what `with` makes of the request, as [`answer`](Self::answer) does. A request that goes back as part
    /// of its answer is dropped by its own caller: freeing what another thread allocated costs a worker more.
    pub fn answer_with(self, with: impl FnOnce(Q) -> A) -> Option<A> {
        self.reply.send(with(self.request)).err()
    }
}

impl<Q: fmt::Debug, A> fmt::Debug for Job<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Job").field(&self.request).finish()
    }
}

/// Why a request got no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unanswered {
    /// The queue was closed before the worker took the request: certainly nothing was done.
    Closed,
    /// The worker took the request and went away without an answer: it may have been done.
    Lost,
}

/// A bounded queue of jobs for one worker.
pub struct Queue<Q, A> {
    state: Mutex<State<Q, A>>,
    /// Wakes a worker that blocks its thread.
    filled: Condvar,
    /// Wakes a worker that is a task.
    ready: Notify,
    /// One permit for each free place.
    room: Semaphore,
}

struct State<Q, A> {
    jobs: VecDeque<Job<Q, A>>,
    /// Whether a worker sleeps on `filled`, so that a push to a busy worker costs no system call.
    asleep: bool,
    closed: bool,
}

impl<Q, A> Queue<Q, A> {
    /// A queue with room for `capacity` jobs, at least one. Who pushes into a full queue waits.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let state = State { jobs: VecDeque::new(), asleep: false, closed: false };
        Self {
            state: Mutex::new(state),
            filled: Condvar::new(),
            ready: Notify::new(),
            room: Semaphore::new(capacity.clamp(1, Semaphore::MAX_PERMITS)),
        }
    }

    /// Pushes `request` and waits for its answer. Dropping the future before the worker took the job takes it out.
    ///
    /// # Errors
    ///
    /// [`Unanswered`] when the queue is closed or its worker ends without an answer.
    pub async fn ask(&self, request: Q) -> Result<A, Unanswered> {
        self.push(request).await?.await.map_err(|_| Unanswered::Lost)
    }

    /// Pushes `request` as soon as there is room; gives where its answer will come.
    ///
    /// # Errors
    ///
    /// [`Unanswered::Closed`] when the queue is closed.
    pub async fn push(&self, request: Q) -> Result<oneshot::Receiver<A>, Unanswered> {
        let Ok(permit) = self.room.acquire().await else { return Err(Unanswered::Closed) };
        let (reply, answer) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            if state.closed {
                return Err(Unanswered::Closed);
            }
            state.jobs.push_back(Job { request, reply });
            if state.asleep {
                self.filled.notify_one();
            }
        }
        permit.forget();
        self.ready.notify_one();
        Ok(answer)
    }

    /// How many jobs are queued.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.state).jobs.len()
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks this thread until there is a job, then moves at most `max` into `batch`, oldest first, leaving out the
    /// cancelled ones. `false`: the queue is closed and empty, and the worker ends.
    pub fn drain_blocking(&self, max: usize, batch: &mut Vec<Job<Q, A>>) -> bool {
        let mut state = lock(&self.state);
        loop {
            let freed = state.take(max, batch);
            if freed > 0 {
                self.room.add_permits(freed);
            }
            if !batch.is_empty() {
                return true;
            }
            if state.closed {
                return false;
            }
            state.asleep = true;
            state = self.filled.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
            state.asleep = false;
        }
    }

    /// The same for a worker that is a task. Cancel-safe: a dropped drain has taken nothing.
    pub async fn drain(&self, max: usize, batch: &mut Vec<Job<Q, A>>) -> bool {
        loop {
            {
                let mut state = lock(&self.state);
                let freed = state.take(max, batch);
                if freed > 0 {
                    self.room.add_permits(freed);
                }
                if !batch.is_empty() {
                    return true;
                }
                if state.closed {
                    return false;
                }
            }
            // A permit of `notify_one` is kept, so a push between the look and this await is not missed.
            self.ready.notified().await;
        }
    }

    /// Moves what is there now into `batch` without waiting; gives whether anything was moved.
    pub fn try_drain(&self, max: usize, batch: &mut Vec<Job<Q, A>>) -> bool {
        let freed = lock(&self.state).take(max, batch);
        if freed > 0 {
            self.room.add_permits(freed);
        }
        !batch.is_empty()
    }

    /// Refuses new jobs. What is queued is still drained; then the worker is told to end.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.room.close();
        self.filled.notify_all();
        self.ready.notify_one();
    }
}

impl<Q, A> State<Q, A> {
    /// Moves up to `max` live jobs into `batch`; gives how many places that freed.
    fn take(&mut self, max: usize, batch: &mut Vec<Job<Q, A>>) -> usize {
        let mut freed = 0;
        while batch.len() < max {
            let Some(job) = self.jobs.pop_front() else { break };
            freed += 1;
            if !job.is_cancelled() {
                batch.push(job);
            }
        }
        freed
    }
}

impl<Q, A> fmt::Debug for Queue<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Queue")
            .field("queued", &state.jobs.len())
            .field("closed", &state.closed)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(idem_loom)))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_arrives_while_the_worker_works_is_one_batch_in_order() {
        let queue: Queue<u32, u32> = Queue::new(8);
        let mut answers = Vec::new();
        for request in 0..5 {
            answers.push(queue.push(request).await.unwrap());
        }
        drop(answers.remove(1));
        let mut batch = Vec::new();
        assert!(queue.drain(3, &mut batch).await);
        let taken: Vec<_> = batch.iter().map(|job| *job.request()).collect();
        assert_eq!(taken, [0, 2, 3], "the cancelled job is skipped");
        for job in batch.drain(..) {
            let request = *job.request();
            assert_eq!(job.answer(request * 10), None);
        }
        assert_eq!(answers.remove(0).await, Ok(0));
        assert_eq!(answers.remove(0).await, Ok(20));
        queue.close();
        assert!(queue.drain(3, &mut batch).await, "what is queued at close is still drained");
        batch.clear();
        assert!(!queue.drain(3, &mut batch).await);
        assert_eq!(queue.ask(1).await, Err(Unanswered::Closed));
        assert!(answers.remove(1).await.is_err(), "a worker that drops a job leaves it unanswered");
    }

    #[tokio::test]
    async fn a_full_queue_makes_its_callers_wait() {
        let queue: Queue<u32, ()> = Queue::new(2);
        let kept = [queue.push(1).await.unwrap(), queue.push(2).await.unwrap()];
        let third = queue.push(3);
        tokio::pin!(third);
        assert!(futures_poll(third.as_mut()).is_none());
        let mut batch = Vec::new();
        assert!(queue.try_drain(1, &mut batch));
        assert!(futures_poll(third.as_mut()).is_some());
        drop(kept);
    }

    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }
}
