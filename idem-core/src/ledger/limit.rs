//! How long one call to the store is waited for (G-12, G-52): a connection into a black hole must not hold a caller
//! for ever.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;

use crate::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::key::OperationId;
use crate::record::Record;
use crate::request::{
    Claim, Complete, Erase, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use crate::store::{Capabilities, Store};

/// A claim on its way. It owns what it needs, so that it can go on when nobody waits for it any more.
pub(super) type Claiming = Pin<Box<dyn Future<Output = Result<Claimed>> + Send>>;

/// Waits for `call`, at most `limit`; `None`: it has not answered, and is still there.
///
/// A store that answers at once costs no timer.
pub(super) async fn within<F: Future + ?Sized>(
    clock: &dyn Clock,
    limit: Duration,
    mut call: Pin<&mut F>,
) -> Option<F::Output> {
    let mut timer = None;
    poll_fn(|cx| {
        if let Poll::Ready(answer) = call.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        let timer = timer.get_or_insert_with(|| clock.sleep_until(clock.elapsed().saturating_add(limit)));
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// A write: unanswered, it may have been applied.
pub(super) async fn write<A>(
    clock: &dyn Clock,
    limit: Duration,
    call: impl Future<Output = Result<A>>,
) -> Result<A> {
    within(clock, limit, pin!(call)).await.unwrap_or_else(|| Err(unanswered(limit)))
}

/// What a write comes to that was not answered.
pub(super) fn unanswered(limit: Duration) -> Error {
    Error::indeterminate(format!(
        "the store did not answer within {limit:?} and may have done what it was asked: repeat it, or read the record \
         (G-52)"
    ))
}

/// The store as trusted code gets it from a ledger: each of its calls is waited for no longer than the policy says.
pub(super) struct Limited {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    limit: Duration,
}

impl Limited {
    pub(super) fn over(store: &Arc<dyn Store>, clock: &Arc<dyn Clock>, limit: Duration) -> Arc<dyn Store> {
        Arc::new(Self { store: Arc::clone(store), clock: Arc::clone(clock), limit })
    }

    async fn write<A>(&self, call: impl Future<Output = Result<A>>) -> Result<A> {
        write(&*self.clock, self.limit, call).await
    }

    async fn read<A>(&self, call: impl Future<Output = Result<A>>) -> Result<A> {
        within(&*self.clock, self.limit, pin!(call)).await.unwrap_or_else(|| {
            Err(Error::unavailable(format!("the store did not answer within {:?}: ask again", self.limit)))
        })
    }
}

impl fmt::Debug for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.store, f)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Limited {
    fn capabilities(&self) -> &Capabilities {
        self.store.capabilities()
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        self.write(self.store.register(request)).await
    }

    async fn claim(&self, request: &Claim) -> Result<Claimed> {
        let (store, request) = (Arc::clone(&self.store), request.clone());
        let mut call: Claiming = Box::pin(async move { store.claim(&request).await });
        match within(&*self.clock, self.limit, call.as_mut()).await {
            Some(answer) => answer,
            None => {
                leave(call, |_| ());
                Err(unanswered(self.limit))
            }
        }
    }

    async fn renew(&self, request: &Renew) -> Result<Renewed> {
        self.write(self.store.renew(request)).await
    }

    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed> {
        self.write(self.store.checkpoint(request)).await
    }

    async fn complete(&self, request: &Complete) -> Result<Completed> {
        self.write(self.store.complete(request)).await
    }

    async fn release(&self, request: &Release) -> Result<Released> {
        self.write(self.store.release(request)).await
    }

    async fn park(&self, request: &Park) -> Result<Parked> {
        self.write(self.store.park(request)).await
    }

    async fn resolve(&self, request: &Resolve) -> Result<Resolved> {
        self.write(self.store.resolve(request)).await
    }

    async fn erase(&self, request: &Erase) -> Result<Erased> {
        self.write(self.store.erase(request)).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>> {
        self.read(self.store.get(id)).await
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.read(self.store.list(query)).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.read(self.store.stats()).await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.write(self.store.sweep(limit)).await
    }

    /// A wait, not a question: whoever waits bounds it.
    async fn changed(&self, id: &OperationId, version: u64) {
        self.store.changed(id, version).await;
    }
}

/// Lets a claim go on in the background; `then` gets what it comes to.
///
/// It must not be dropped: a store takes that for a caller that is gone, and gives back what it grants it (G-53), while
/// the repetition with the same attempt id may have been granted and be at work.
pub(super) fn leave(call: Claiming, then: impl FnOnce(Result<Claimed>) + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(async move { then(call.await) });
    } else {
        // Without a runtime nothing can go on, and what cannot be dropped is kept for ever.
        std::mem::forget(call);
    }
}
