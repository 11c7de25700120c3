//! One claim intent on its way: sent with one attempt id until it is answered, and given back when nobody wants its
//! grant any more (G-12, G-52, G-53).

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use super::limit::{Claiming, leave, unanswered, within, write};
use super::policy::Policy;
use super::repeat::Repeat;
use super::{Inner, Ledger};
use crate::answer::Claimed;
use crate::attempt::AttemptId;
use crate::error::Result;
use crate::request::{Claim, Held, Release};

/// The monotonic instants before the first send of a claim and before the one that was answered (G-12).
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) first: Duration,
    pub(super) latest: Duration,
}

/// What becomes of an attempt of which a send was not waited for, and may still be granted at any time. Who finds it
/// given up gives it back.
#[derive(Debug)]
struct Fate(AtomicU8);

/// Somebody asks for it.
const OPEN: u8 = 0;
/// The same, and the send was granted.
const LANDED: u8 = 1;
/// It was granted to who asks: from there on its holder ends it.
const TAKEN: u8 = 2;
/// Nobody wants it.
const GIVEN_UP: u8 = 3;

impl Fate {
    fn turn(&self, from: u8, to: u8) -> std::result::Result<u8, u8> {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Gives whether a send was granted that nobody heard of. Others may still be on their way.
    fn give_up(&self) -> bool {
        self.turn(OPEN, GIVEN_UP) == Err(LANDED) && self.turn(LANDED, GIVEN_UP).is_ok()
    }
}

/// A claim intent. Dropped before it is taken, what it may have been granted is given back in the background.
pub(super) struct Asking {
    ledger: Arc<Inner>,
    policy: Arc<Policy>,
    claim: Claim,
    /// Whether a send may have been granted that nobody heard of.
    in_doubt: bool,
    /// Set once a send was not waited for.
    fate: Option<Arc<Fate>>,
}

impl Asking {
    pub(super) fn new(ledger: &Ledger, claim: Claim) -> Self {
        Self {
            ledger: Arc::clone(&ledger.inner),
            policy: Arc::clone(&ledger.policy),
            claim,
            in_doubt: false,
            fate: None,
        }
    }

    /// Another intent in place of one whose attempt id is used up (G-12).
    pub(super) fn another(&mut self) {
        self.give_up();
        self.claim.attempt = AttemptId::random();
    }

    /// Sends the claim, again with the same attempt id while the store is away (G-52).
    pub(super) async fn send(&mut self) -> Result<(Claimed, Sent)> {
        let (ledger, id) = (Arc::clone(&self.ledger), self.claim.id.clone());
        let mut repeat = Repeat::new(&ledger, self.policy.backoff, &id);
        let first = ledger.clock.elapsed();
        let mut latest = first;
        self.in_doubt = true;
        loop {
            let error = match self.ask().await {
                Ok(answer) => {
                    self.in_doubt = false;
                    return Ok((answer, Sent { first, latest }));
                }
                Err(error) => error,
            };
            if let Err(error) = repeat.after(error, false).await {
                self.in_doubt = repeat.is_in_doubt();
                return Err(error);
            }
            latest = ledger.clock.elapsed();
        }
    }

    async fn ask(&mut self) -> Result<Claimed> {
        let (ledger, claim) = (Arc::clone(&self.ledger), self.claim.clone());
        let mut call: Claiming = Box::pin(async move { ledger.store.claim(&claim).await });
        let limit = self.policy.store_timeout;
        if let Some(answer) = within(&*self.ledger.clock, limit, call.as_mut()).await {
            return answer;
        }
        let fate = Arc::clone(self.fate.get_or_insert_with(|| Arc::new(Fate(AtomicU8::new(OPEN)))));
        let late = self.give_back();
        leave(call, move |answer| {
            let granted = matches!(answer, Ok(Claimed::Granted(_)));
            if granted && fate.turn(OPEN, LANDED) == Err(GIVEN_UP) {
                late.spawn();
            }
        });
        Err(unanswered(limit))
    }

    /// It was granted: from here on its holder ends it.
    pub(super) fn taken(&mut self) -> GiveBack {
        if let Some(fate) = self.fate.take() {
            fate.0.store(TAKEN, Ordering::Release);
        }
        self.give_back()
    }

    fn give_back(&self) -> GiveBack {
        GiveBack {
            ledger: Arc::clone(&self.ledger),
            policy: Arc::clone(&self.policy),
            held: self.claim.held(),
        }
    }

    fn give_up(&mut self) {
        let landed = self.fate.take().is_some_and(|fate| fate.give_up());
        if std::mem::take(&mut self.in_doubt) || landed {
            self.give_back().spawn();
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// The release of an attempt whose effect has not begun, best effort.
#[derive(Debug)]
pub(super) struct GiveBack {
    ledger: Arc<Inner>,
    policy: Arc<Policy>,
    held: Held,
}

impl GiveBack {
    /// Releases in the background. Outside of a runtime nothing can be sent; the lease then lapses by itself.
    pub(super) fn spawn(self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let tasks = self.ledger.tasks.clone();
            tasks.spawn_on(self.run(), &runtime);
        }
    }

    async fn run(self) {
        let Self { ledger, policy, held } = self;
        let request = Release::new(held);
        let mut repeat = Repeat::new(&ledger, policy.backoff, &request.held.id);
        loop {
            let released = write(&*ledger.clock, policy.store_timeout, ledger.store.release(&request)).await;
            let Err(error) = released else { return };
            if let Err(error) = repeat.after(error, false).await {
                tracing::debug!(%error, "a claim that nobody waits for could not be given back; its lease lapses");
                return;
            }
        }
    }
}
