//! Group commit: one thread owns the writing, and a lone caller does without it.
//!
//! All writes of a store go through one connection. Callers queue their requests; the thread takes what is there, runs
//! it in one transaction, and answers after COMMIT (G-72). A caller that finds nobody else commits on its own thread,
//! which saves two switches; it never waits there for another process's lock.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use idem_core::batch::{Queue, Unanswered};
use idem_core::request::Release;
use idem_core::transition::Transition;
use idem_core::wake::Bells;
use idem_core::{Error, Result};
use tokio::sync::oneshot;

use crate::config::SqliteConfig;
use crate::group::{Apply, Ask, Asked, Group, Rules, Work};
use crate::session::Session;

pub(crate) type Job = idem_core::batch::Job<Box<dyn Ask>, Box<dyn Ask>>;

/// A commit that takes longer than this is left to the thread: at 2 ms the switches do not matter, and a runtime's
/// worker should not be held up.
const SLOW_COMMIT: Duration = Duration::from_millis(2);

/// What callers and the thread share.
pub(crate) struct Shared {
    queue: Queue<Box<dyn Ask>, Box<dyn Ask>>,
    session: Mutex<Session>,
    gate: Gate,
    pub(crate) rules: Rules,
    pub(crate) bells: Arc<Bells>,
    group_max: usize,
    busy_timeout: Duration,
}

/// Decides who may enter the session directly.
#[derive(Default)]
struct Gate {
    /// Callers that queued and have not taken their answer. While there are any, nobody overtakes them.
    queued: AtomicUsize,
    /// Whether the thread has more than a lone caller's work: several callers at once, a slow disk, or a write-ahead
    /// log that it has to write back.
    crowded: AtomicBool,
    /// Whether the store is closed: nobody enters, and the queue refuses.
    closed: AtomicBool,
}

/// Counts one queued caller, also when its future is dropped.
struct Queued<'g>(&'g Gate);

impl<'g> Queued<'g> {
    fn count(gate: &'g Gate) -> Self {
        gate.queued.fetch_add(1, Ordering::SeqCst);
        Self(gate)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    pub(crate) fn new(session: Session, rules: Rules, bells: Arc<Bells>, config: &SqliteConfig) -> Self {
        Self {
            queue: Queue::new(config.queue_capacity),
            session: Mutex::new(session),
            gate: Gate::default(),
            rules,
            bells,
            group_max: config.group_max,
            busy_timeout: config.busy_timeout,
        }
    }

    /// Applies a request and answers it once it is committed.
    pub(crate) async fn apply<T>(self: &Arc<Self>, request: &T) -> Result<T::Answer>
    where
        T: Transition + Clone + 'static,
        T::Answer: 'static,
    {
        match self.enter(|group| group.apply(request)) {
            Some(answer) => answer,
            None => self.ask(Apply(request.clone())).await,
        }
    }

    /// Whether the thread has work, or had more than one caller's a moment ago.
    pub(crate) fn is_crowded(&self) -> bool {
        self.gate.crowded.load(Ordering::SeqCst) || self.gate.queued.load(Ordering::SeqCst) > 0
    }

    /// Runs `work` on this thread, as a group of its own, if nobody else is at it. `None`: it was not run.
    fn enter<R>(&self, work: impl FnOnce(&mut Group<'_>) -> Result<R>) -> Option<Result<R>> {
        if self.is_crowded() || self.gate.closed.load(Ordering::SeqCst) {
            return None;
        }
        let session = match self.session.try_lock() {
            Ok(session) => session,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.gate.crowded.store(true, Ordering::SeqCst);
                return None;
            }
        };
        let started = self.rules.clock.elapsed();
        let answer = session.alone(&self.rules, &self.bells, work);
        let slow = self.rules.clock.elapsed().saturating_sub(started) > SLOW_COMMIT;
        if answer.is_none() || slow || session.wants_checkpoint() {
            self.gate.crowded.store(true, Ordering::SeqCst);
        }
        answer
    }

    /// Queues `work` for the thread and waits for its answer.
    pub(crate) async fn ask<W: Work>(self: &Arc<Self>, work: W) -> Result<W::Answer> {
        let _queued = Queued::count(&self.gate);
        let receiver = self.queue.push(Asked::new(work)).await.map_err(unanswered)?;
        let mut delivery = Delivery { receiver, shared: self };
        let asked: Box<dyn Any> = (&mut delivery.receiver).await.map_err(|_| unanswered(Unanswered::Lost))?;
        match asked.downcast::<Asked<W>>().map(|asked| asked.into_answer()) {
            Ok(Some(answer)) => answer,
            _ => Err(Error::internal("another request, or one without an answer, came back from the writer")),
        }
    }

    /// Sends every request through the thread, until one was alone there.
    #[cfg(test)]
    pub(crate) fn crowd(&self) {
        self.gate.crowded.store(true, Ordering::SeqCst);
    }

    pub(crate) fn close(&self) {
        self.gate.closed.store(true, Ordering::SeqCst);
        self.queue.close();
    }

    /// The connection that writes, between groups.
    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        // A panic inside left no open transaction: its guard rolled back.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unanswered(unanswered: Unanswered) -> Error {
    match unanswered {
        Unanswered::Closed => Error::unavailable("the store is closed: nothing was applied; open it again"),
        _ => Error::indeterminate(
            "the writer ended without an answer: repeat the request with the same attempt, or read the record",
        ),
    }
}

/// An answer on its way. If nobody takes a grant any more, it is released in the background (G-53).
struct Delivery<'s> {
    receiver: oneshot::Receiver<Box<dyn Ask>>,
    shared: &'s Arc<Shared>,
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        let Ok(asked) = self.receiver.try_recv() else { return };
        let Some(release) = asked.release() else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let shared = Arc::clone(self.shared);
            runtime.spawn(async move {
                if let Err(error) = shared.ask(Apply(release)).await {
                    tracing::warn!(%error, "a grant that nobody took could not be released: its lease will lapse");
                }
            });
        }
    }
}

/// The thread: until the queue is closed and empty.
pub(crate) fn serve(shared: &Shared) {
    let mut jobs: Vec<Job> = Vec::new();
    while shared.queue.drain_blocking(shared.group_max, &mut jobs) {
        let mut session = shared.session();
        let started = shared.rules.clock.elapsed();
        let served = serve_group(shared, &mut session, &mut jobs);
        let slow = shared.rules.clock.elapsed().saturating_sub(started) > SLOW_COMMIT;
        session.checkpoint_if_due();
        shared.gate.crowded.store(served > 1 || slow, Ordering::SeqCst);
    }
}

/// Runs the jobs and whatever arrives until the write lock is there; gives how many there were.
fn serve_group(shared: &Shared, session: &mut Session, jobs: &mut Vec<Job>) -> usize {
    let mut served = 0;
    let mut untaken = Vec::new();
    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        while !jobs.is_empty() {
            served += jobs.len();
            session.group(shared, jobs, &mut untaken);
        }
    }));
    if run.is_err() {
        // The jobs of the group are dropped unanswered, which their callers see as indeterminate.
        tracing::error!("a request panicked in the writer thread; its group was rolled back");
        jobs.clear();
    }
    release(shared, session, untaken);
    served
}

/// Gives back what was granted to callers that went away (G-53), best effort.
fn release(shared: &Shared, session: &mut Session, untaken: Vec<Release>) {
    for release in untaken {
        match session.alone(&shared.rules, &shared.bells, |group| group.apply(&release)) {
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::warn!(%error, "a grant that nobody took could not be released: its lease will lapse");
            }
            None => tracing::warn!("a grant that nobody took could not be released: its lease will lapse"),
        }
    }
}

impl Shared {
    /// More jobs that have arrived, up to the limit of a group.
    pub(crate) fn more(&self, jobs: &mut Vec<Job>) {
        self.queue.try_drain(self.group_max, jobs);
    }

    /// How long the thread waits for another process's write lock.
    pub(crate) const fn busy_timeout(&self) -> Duration {
        self.busy_timeout
    }
}
