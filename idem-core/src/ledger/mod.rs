//! The surface for applications: one line around a handler, and everything that the contract asks of a caller.
//!
//! [`Ledger::run`] claims, runs, and stores the result; a second caller gets the stored result. [`Ledger::call`] adds a
//! reconciler; [`Ledger::run_detached`] keeps going when its caller is dropped; [`Ledger::claim`] is the level below,
//! for callers that settle themselves.

mod answer;
mod asking;
mod call;
mod claiming;
mod hold;
mod limit;
mod policy;
mod recovery;
mod repeat;
mod value;
mod waiting;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::Registered;
use crate::clock::{Clock, SystemClock};
use crate::error::Result;
use crate::fingerprint::Fingerprints;
use crate::key::OperationId;
use crate::observe::Observed;
use crate::request::Register;
use crate::store::Store;

pub use answer::{Answer, Failed, Failure, NotDone, Unrecorded};
pub use call::{Call, Detached};
pub use claiming::{Begin, Granted, NotRun};
pub use hold::{Attempt, Hold};
pub use policy::Policy;
pub use recovery::{Recovery, Verdict};

use repeat::Repeat;
use waiting::Waiting;

/// An operation ledger over a [`Store`]. Cheap to clone; clones share store, clock and background tasks.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use idem_core::{Fingerprint, MemoryStore, OperationId, ledger::Ledger};
///
/// let ledger = Ledger::new(MemoryStore::new());
/// let op = OperationId::new("acme", "invoice.create/v1", "order-418-rev-2")?;
/// let answer = ledger
///     .run(&op, Fingerprint::bytes(b"order 418, 10 EUR"), |attempt| async move {
///         // Call the outside world with attempt.downstream_key(), then return what callers get from now on.
///         Ok(format!("invoice 1, attempt {}", attempt.number()))
///     })
///     .await?;
/// assert_eq!(answer.into_result()?, "invoice 1, attempt 1");
/// # Ok(()) }
/// ```
#[doc(alias("idempotency", "dedupe", "deduplicate", "exactly_once"))]
#[derive(Clone)]
pub struct Ledger {
    inner: Arc<Inner>,
    policy: Arc<Policy>,
    /// The store, with the policy's limit on each call.
    store: Arc<dyn Store>,
}

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    /// Detached runs and give-backs, so that a shutdown can wait for them.
    tasks: TaskTracker,
    /// Cancelled when the ledger takes no new calls any more.
    closing: CancellationToken,
    waiting: Waiting,
    observed: Observed,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.store, f)
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("store", &self.inner.store).field("policy", &self.policy).finish()
    }
}

impl Ledger {
    /// A ledger over `store` with the default [`Policy`], on the system's clock.
    #[must_use]
    pub fn new(store: impl Store + 'static) -> Self {
        Self::shared(Arc::new(store), Arc::new(SystemClock))
    }

    /// A ledger over a shared store, on `clock`. Tests give both the same manual clock.
    #[must_use]
    pub fn shared(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let inner = Inner {
            store,
            clock,
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            waiting: Waiting::default(),
            observed: Observed::default(),
        };
        Self::of(Arc::new(inner), Policy::default())
    }

    fn of(inner: Arc<Inner>, policy: Policy) -> Self {
        let store = limit::Limited::over(&inner.store, &inner.clock, policy.store_timeout);
        Self { inner, policy: Arc::new(policy), store }
    }

    /// The same ledger under another policy.
    #[must_use]
    pub fn with(&self, policy: Policy) -> Self {
        Self::of(Arc::clone(&self.inner), policy)
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The store, for trusted code: `get`, `list`, `resolve`, `erase`, `sweep` (G-06). What it does not answer within the
    /// policy's [`store_timeout`](Policy::store_timeout) is an error: `Unavailable` for reads, `Indeterminate` for writes.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Runs `handler` once for `id` and stores what it returns; answers every later call with that (G-30, G-32).
    ///
    /// The handler is polled inline: dropping this future drops it, nothing is written, and its lease lapses. Where a
    /// dropped caller must not cut an effect in half, use [`run_detached`](Self::run_detached).
    ///
    /// The result is stored as JSON, and the first caller gets what that JSON is read back as, like everybody after it: a
    /// field that is skipped is skipped at once, and not only in replays. Where the JSON is not read back, as for a NaN,
    /// the first caller is told by [`Unrecorded::Unreadable`] with the handler's value; the operation is done all the
    /// same, and later callers get `Corrupt`, or [`Answer::Omitted`] where the value could not be written at all.
    ///
    /// A lapsed lease of an opaque effect is parked; under a [`Policy::keyed`] the handler is run again with the same
    /// downstream key. With a reconciler, see [`call`](Self::call).
    ///
    /// # Errors
    ///
    /// `Unavailable`: the store did not answer and nothing was run. `Indeterminate`: nothing was run here, and the claim
    /// may hold its lease. `Corrupt`: the stored result does not decode as `T`.
    ///
    /// # Panics
    ///
    /// A panic of the handler is passed on after the operation was parked (G-31).
    #[doc(alias("once", "execute_once"))]
    pub async fn run<T, F, Fut>(
        &self,
        id: &OperationId,
        fingerprints: impl Into<Fingerprints>,
        handler: F,
    ) -> Result<Answer<T>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(Attempt) -> Fut,
        Fut: Future<Output = std::result::Result<T, Failure>>,
    {
        self.call(id, fingerprints).run(handler).await
    }

    /// The same in a task of its own: dropping the answer's future does not stop it.
    ///
    /// # Errors
    ///
    /// From the answer's future, as [`run`](Self::run); and `Indeterminate` when the runtime shut down in the middle:
    /// then the handler may have run.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn run_detached<T, F, Fut>(
        &self,
        id: &OperationId,
        fingerprints: impl Into<Fingerprints>,
        handler: F,
    ) -> Detached<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = std::result::Result<T, Failure>> + Send + 'static,
    {
        self.call(id, fingerprints).run_detached(handler)
    }

    /// A call to which a reconciler can be added before it is run.
    pub fn call(&self, id: &OperationId, fingerprints: impl Into<Fingerprints>) -> Call {
        Call::new(self.clone(), id.clone(), fingerprints.into())
    }

    /// Stores an intent, and optionally what a worker will need, without running anything (G-24).
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the payload is larger than the store keeps; those of the store.
    pub async fn register(&self, request: &Register) -> Result<Registered> {
        let mut repeat = Repeat::new(&self.inner, self.policy.backoff, &request.id);
        loop {
            match self.store.register(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => repeat.after(error, false).await?,
            }
        }
    }

    /// Refuses new calls on this ledger and its clones, ends the waits for running duplicates, and waits until
    /// everything detached has ended, at most `patience`. Gives whether all of it has; what has not keeps running, and
    /// its lease covers it.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.inner.closing.cancel();
        self.inner.tasks.close();
        tokio::select! {
            biased;
            () = self.inner.tasks.wait() => true,
            () = self.inner.sleep(patience) => false,
        }
    }
}

impl Inner {
    async fn sleep(&self, pause: Duration) {
        self.clock.sleep_until(self.clock.elapsed().saturating_add(pause)).await;
    }
}
