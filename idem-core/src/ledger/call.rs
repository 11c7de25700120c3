//! One call: claim, run or reconcile, settle.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use super::Ledger;
use super::answer::{Answer, Failed, Failure, FailureKind, Unrecorded};
use super::claiming::Begin;
use super::hold::{Attempt, Hold};
use super::recovery::{Recovery, Verdict};
use super::value::{Kept, kept};
use crate::answer::{Completed, Parked, Released};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprints;
use crate::key::OperationId;
use crate::outcome::Outcome;
use crate::record::{AbsenceReason, EffectClass, View};
use crate::request::{Intent, OnLapse};

/// One call of an operation, made by [`Ledger::call`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_core::{Fingerprint, MemoryStore, OperationId, ledger::{Ledger, Verdict}};
///
/// let ledger = Ledger::new(MemoryStore::new());
/// let op = OperationId::new("acme", "charge/v1", "order-1")?;
/// let answer = ledger
///     .call(&op, Fingerprint::bytes(b"10 EUR"))
///     .reconcile(|recovery| async move {
///         // Look the charge up at the provider by recovery.downstream_key().
///         let found: Option<String> = None;
///         Ok(match found {
///             Some(charge) => Verdict::Happened(charge),
///             None => Verdict::Unknown("the provider does not know yet".to_owned()),
///         })
///     })
///     .run(|_| async { Ok("charge-9".to_owned()) })
///     .await?;
/// assert_eq!(answer.into_result()?, "charge-9");
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a call does nothing until it is run"]
pub struct Call<R = NoReconciler> {
    ledger: Ledger,
    id: OperationId,
    fingerprints: Fingerprints,
    reconciler: R,
}

/// A call without a reconciler: a lapsed opaque effect is parked.
#[derive(Debug)]
#[non_exhaustive]
pub struct NoReconciler;

/// A function that finds out what became of an earlier attempt.
#[derive(Debug)]
pub struct Reconciler<R>(R);

/// How a call decides about a recovery; sealed by living in a private module.
pub trait Reconcile<T>: Send {
    /// What a claim does over a lapse.
    fn on_lapse(&self, effect: EffectClass) -> OnLapse;
    /// Finds out.
    fn decide(
        self,
        attempt: Attempt,
    ) -> impl Future<Output = std::result::Result<Verdict<T>, Failure>> + Send;
}

impl<T> Reconcile<T> for NoReconciler {
    fn on_lapse(&self, effect: EffectClass) -> OnLapse {
        match effect {
            EffectClass::Keyed { .. } => OnLapse::Take,
            EffectClass::Opaque | EffectClass::Local => OnLapse::Park,
        }
    }

    async fn decide(self, attempt: Attempt) -> std::result::Result<Verdict<T>, Failure> {
        // Whether the attempts before were keyed too is checked where it is resumed.
        Ok(match attempt.policy().effect {
            EffectClass::Keyed { .. } => Verdict::Resume,
            EffectClass::Opaque | EffectClass::Local => {
                Verdict::Unknown("nobody here can find out".to_owned())
            }
        })
    }
}

impl<T, R, Fut> Reconcile<T> for Reconciler<R>
where
    R: FnOnce(Attempt) -> Fut + Send,
    Fut: Future<Output = std::result::Result<Verdict<T>, Failure>> + Send,
{
    fn on_lapse(&self, _: EffectClass) -> OnLapse {
        OnLapse::Take
    }

    async fn decide(self, attempt: Attempt) -> std::result::Result<Verdict<T>, Failure> {
        (self.0)(attempt).await
    }
}

impl Call<NoReconciler> {
    pub(super) const fn new(ledger: Ledger, id: OperationId, fingerprints: Fingerprints) -> Self {
        Self { ledger, id, fingerprints, reconciler: NoReconciler }
    }

    /// Adds a function that finds out what became of an attempt whose lease lapsed (G-19). It gets the evidence:
    /// earlier attempts, checkpoints, payload, downstream key.
    pub fn reconcile<T, R, Fut>(self, reconciler: R) -> Call<Reconciler<R>>
    where
        R: FnOnce(Attempt) -> Fut + Send,
        Fut: Future<Output = std::result::Result<Verdict<T>, Failure>> + Send,
    {
        Call {
            ledger: self.ledger,
            id: self.id,
            fingerprints: self.fingerprints,
            reconciler: Reconciler(reconciler),
        }
    }
}

impl<R> Call<R> {
    /// Runs the call: see [`Ledger::run`].
    ///
    /// # Errors
    ///
    /// As [`Ledger::run`].
    ///
    /// # Panics
    ///
    /// As [`Ledger::run`].
    pub async fn run<T, F, Fut>(self, handler: F) -> Result<Answer<T>>
    where
        T: Serialize + DeserializeOwned,
        R: Reconcile<T>,
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = std::result::Result<T, Failure>>,
    {
        let Self { ledger, id, fingerprints, reconciler } = self;
        let intent = Intent::Run(reconciler.on_lapse(ledger.policy.effect));
        let give_up = ledger.give_up();
        let hold = match ledger.claim_until(&id, fingerprints, intent, give_up).await? {
            Begin::Execute(granted) => granted.start(),
            Begin::NotRun(not_run) => return Answer::of_not_run(not_run),
            Begin::Recover(recovery) => match recover(recovery, reconciler).await? {
                Recovered::Run(hold) => hold,
                Recovered::Answer(answer) => return Ok(answer),
                // Given back with a reason: the next claim is a plain one, and whoever is first runs it.
                Recovered::ClaimAgain => {
                    let intent = Intent::Run(OnLapse::Park);
                    match ledger.claim_until(&id, fingerprints, intent, give_up).await? {
                        Begin::Execute(granted) => granted.start(),
                        Begin::Recover(recovery) => return park_answer(recovery).await,
                        Begin::NotRun(not_run) => return Answer::of_not_run(not_run),
                    }
                }
            },
        };
        execute(hold, handler).await
    }

    /// Runs the call in a task of its own: see [`Ledger::run_detached`].
    pub fn run_detached<T, F, Fut>(self, handler: F) -> Detached<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        R: Reconcile<T> + 'static,
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = std::result::Result<T, Failure>> + Send + 'static,
    {
        let tasks = self.ledger.inner.tasks.clone();
        Detached(tasks.spawn(self.run(handler)))
    }
}

/// The answer of a detached run. Dropping it does not stop the run; [`Ledger::drain`] waits for it.
#[derive(Debug)]
#[must_use = "await it for the answer"]
pub struct Detached<T>(JoinHandle<Result<Answer<T>>>);

impl<T> Future for Detached<T> {
    type Output = Result<Answer<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|joined| match joined {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(Error::indeterminate(
                    "the runtime shut down in the middle of a run: its lease lapses, ask again then",
                )),
            },
        })
    }
}

/// What a recovery came to.
enum Recovered<T> {
    Run(Hold),
    Answer(Answer<T>),
    ClaimAgain,
}

async fn recover<T, R>(recovery: Recovery, reconciler: R) -> Result<Recovered<T>>
where
    T: Serialize + DeserializeOwned,
    R: Reconcile<T>,
{
    let attempt = recovery.attempt().clone();
    let work = async move {
        let verdict = match reconciler.decide(attempt).await {
            Ok(verdict) => verdict,
            Err(failure) => Verdict::Unknown(failure.to_string()),
        };
        match verdict {
            Verdict::Happened(value) => {
                let Kept { outcome, value, unreadable } = kept(value);
                (outcome, unreadable, Verdict::Happened(value))
            }
            verdict => (Outcome::success(), None, verdict),
        }
    };
    let (outcome, unreadable, verdict) = match recovery.keep(caught(work)).await {
        Ok(decided) => decided,
        Err(panic) => {
            // As for a handler: nothing is known, and the panic is passed on (G-31).
            park_quietly(recovery, "the reconciler panicked").await;
            resume_unwind(panic)
        }
    };
    match verdict {
        Verdict::Happened(value) => {
            let settled = recovery.complete(outcome).await;
            Ok(Recovered::Answer(match why_unrecorded(settled).or(unreadable.map(Unrecorded::Unreadable)) {
                None => Answer::Replayed(value),
                Some(why) => Answer::Unrecorded { result: Ok(value), why },
            }))
        }
        Verdict::Failed(failure) => match failure.kind {
            FailureKind::Permanent(ref outcome) => {
                let outcome = outcome.clone();
                let settled = recovery.complete((*outcome).clone()).await;
                Ok(Recovered::Answer(failed_answer(settled, &outcome, failure, true)))
            }
            FailureKind::NoEffect { .. } | FailureKind::Unknown => {
                park_because(recovery, failure.to_string()).await.map(Recovered::Answer)
            }
        },
        Verdict::Resume => match recovery.resume() {
            Ok(hold) => Ok(Recovered::Run(hold)),
            Err((recovery, error)) => park_because(recovery, error.to_string()).await.map(Recovered::Answer),
        },
        Verdict::Absent(reason) => give_back(recovery, reason).await,
        Verdict::Later => Ok(Recovered::Answer(Answer::InProgress {
            retry_after: recovery.attempt().remaining().max(Duration::from_millis(1)),
            attempt_number: recovery.attempt().number(),
        })),
        Verdict::Unknown(note) => park_because(recovery, note).await.map(Recovered::Answer),
    }
}

/// Releases with a reason; for `Quiesced` that comes too early it keeps the recovery until then, as long as the
/// heartbeat keeps it alive.
async fn give_back<T>(recovery: Recovery, reason: AbsenceReason) -> Result<Recovered<T>> {
    let attempt = recovery.attempt();
    let mut turn = 0;
    loop {
        match recovery.absent(reason).await? {
            Released::Released { .. } | Released::AlreadyReleased => return Ok(Recovered::ClaimAgain),
            Released::TooEarly { until } => {
                let wait = Duration::from_millis(until.millis_since(attempt.store_now()));
                // Our reckoning may be ahead of the deciding clock, which may have been set back, too.
                let wait = wait.max(attempt.policy().backoff.pause_unbounded(turn));
                if wait >= attempt.until_ceiling() {
                    let note = "the effect cannot be ruled out before the settle time".to_owned();
                    return park_because(recovery, note).await.map(Recovered::Answer);
                }
                recovery.keep(attempt.ledger().sleep(wait)).await;
                turn += 1;
            }
            Released::Settled => return Err(Error::internal("a recovery was settled by somebody else")),
            Released::Parked => {
                return Ok(Recovered::Answer(Answer::Uncertain { since: attempt.store_now() }));
            }
            Released::Fenced(_) => return Ok(Recovered::ClaimAgain),
        }
    }
}

async fn park_because<T>(recovery: Recovery, note: String) -> Result<Answer<T>> {
    let now = recovery.attempt().store_now();
    match recovery.park(&note).await? {
        Parked::Parked { since } => Ok(Answer::Uncertain { since }),
        Parked::AlreadyParked | Parked::Settled | Parked::Fenced(_) => Ok(Answer::Uncertain { since: now }),
    }
}

async fn park_answer<T>(recovery: Recovery) -> Result<Answer<T>> {
    park_because(recovery, "a second recovery became due in one call".to_owned()).await
}

async fn park_quietly(recovery: Recovery, note: &str) {
    if let Err(error) = recovery.park(note).await {
        tracing::warn!(%error, "an operation could not be parked; its lease lapses");
    }
}

/// Runs the handler under the hold and settles by what it returned.
async fn execute<T, F, Fut>(hold: Hold, handler: F) -> Result<Answer<T>>
where
    T: Serialize + DeserializeOwned,
    F: FnOnce(Attempt) -> Fut,
    Fut: Future<Output = std::result::Result<T, Failure>>,
{
    let attempt = hold.attempt().clone();
    // Writing and reading the result is the application's code too, so its panic is caught with the handler's.
    let work = async move { handler(attempt).await.map(kept) };
    match hold.keep(caught(work)).await {
        Ok(Ok(Kept { outcome, value, unreadable })) => {
            let settled = hold.complete(outcome).await;
            Ok(match why_unrecorded(settled).or(unreadable.map(Unrecorded::Unreadable)) {
                None => Answer::Executed(value),
                Some(why) => Answer::Unrecorded { result: Ok(value), why },
            })
        }
        Ok(Err(failure)) => settle_failure(hold, failure).await,
        Err(panic) => {
            if let Err(error) = hold.park("the handler panicked").await {
                tracing::warn!(%error, "an operation could not be parked; its lease lapses");
            }
            resume_unwind(panic)
        }
    }
}

async fn settle_failure<T>(hold: Hold, failure: Failure) -> Result<Answer<T>> {
    match failure.kind {
        FailureKind::Permanent(ref outcome) => {
            let outcome = outcome.clone();
            let settled = hold.complete((*outcome).clone()).await;
            Ok(failed_answer(settled, &outcome, failure, false))
        }
        // In mode Recover an earlier attempt may have had the effect; that this one had none proves nothing (G-19).
        FailureKind::NoEffect { forget } if hold.attempt().mode() == crate::record::Mode::Execute => {
            Ok(match hold.release(forget).await {
                Ok(Released::Released { .. } | Released::AlreadyReleased) => {
                    Answer::Released { cause: failure }
                }
                Ok(Released::Fenced(view)) => unrecorded(failure, Unrecorded::Fenced(view)),
                Ok(Released::Settled) => unrecorded(failure, Unrecorded::OutcomeConflict),
                Ok(Released::Parked | Released::TooEarly { .. }) => {
                    unrecorded(failure, Unrecorded::Fenced(View::Uncertain))
                }
                Err(error) => unrecorded(failure, Unrecorded::Store(error)),
            })
        }
        FailureKind::NoEffect { .. } | FailureKind::Unknown => {
            Ok(match hold.park(&failure.to_string()).await {
                Ok(Parked::Parked { .. } | Parked::AlreadyParked) => Answer::Parked { cause: failure },
                Ok(Parked::Settled) => unrecorded(failure, Unrecorded::OutcomeConflict),
                Ok(Parked::Fenced(view)) => unrecorded(failure, Unrecorded::Fenced(view)),
                Err(error) => unrecorded(failure, Unrecorded::Store(error)),
            })
        }
    }
}

const fn unrecorded<T>(failure: Failure, why: Unrecorded) -> Answer<T> {
    Answer::Unrecorded { result: Err(failure), why }
}

fn why_unrecorded(settled: Result<Completed>) -> Option<Unrecorded> {
    match settled {
        Ok(Completed::Completed { .. } | Completed::AlreadyCompleted) => None,
        Ok(Completed::OutcomeConflict) => Some(Unrecorded::OutcomeConflict),
        Ok(Completed::Fenced(view)) => {
            tracing::warn!(%view, "a result came after its attempt was over");
            Some(Unrecorded::Fenced(view))
        }
        Err(error) => Some(Unrecorded::Store(error)),
    }
}

fn failed_answer<T>(
    settled: Result<Completed>,
    outcome: &Outcome,
    failure: Failure,
    replayed: bool,
) -> Answer<T> {
    match why_unrecorded(settled) {
        None => Answer::Failed { failure: Failed::stored(outcome), replayed },
        Some(why) => unrecorded(failure, why),
    }
}

/// The payload of a panic.
type Panic = Box<dyn std::any::Any + Send>;

/// Polls `work` and catches its panic. After one it is not polled again, so its broken state is never seen.
async fn caught<F: Future>(work: F) -> std::result::Result<F::Output, Panic> {
    let mut work = pin!(work);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
