//! A store that does not answer: no call to it is waited for longer than the policy says (G-12, G-52, G-53).

use async_trait::async_trait;
use idem_core::answer::{
    Checkpointed, Claimed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats,
    Swept,
};
use idem_core::backoff::Backoff;
use idem_core::ledger::{Answer, Ledger, Unrecorded};
use idem_core::request::{
    Complete, Erase, OnLapse, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use idem_core::{Capabilities, Claim, ErrorKind, OperationId, Record, Result, State, Store};
use tokio::sync::oneshot;

use crate::support::{Call, Fault, Gate, World, intent, millis, op, secs};

/// The limit of the default policy.
const LIMIT: std::time::Duration = secs(10);

/// A policy that repeats at once, so that a test has to move no pauses.
fn repeating(world: &World, repetitions: u32) -> Ledger {
    world.policy(|policy| policy.backoff = Backoff::new(secs(0), secs(0), repetitions))
}

/// Moves the clock over the limit of the one call that is out.
async fn give_up(world: &World) {
    world.clock.until_sleepers(1).await;
    world.clock.advance(LIMIT);
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("never: {what}");
}

#[tokio::test]
async fn a_claim_is_repeated_with_its_attempt_and_runs_nothing() {
    let world = World::new();
    world.store.fail_always(Call::Claim, Fault::Never);
    let call = repeating(&world, 2).run_detached(&op(), intent(), |_| async { Ok(1) });
    for _ in 0..2 {
        give_up(&world).await;
    }
    // Not a moment earlier than the policy says.
    world.clock.until_sleepers(1).await;
    world.clock.advance(LIMIT - millis(1));
    tokio::task::yield_now().await;
    assert_eq!(world.store.count(Call::Claim), 3);
    assert_eq!(world.clock.sleepers(), 1);
    world.clock.advance(millis(1));
    let error = call.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate);
    assert!(error.to_string().contains("did not answer within 10s"), "{error}");
    let attempts = world.store.attempts(Call::Claim);
    assert!(attempts.iter().all(|attempt| *attempt == attempts[0]), "{attempts:?}");
    world.drained().await;
    assert!(world.store.inner().is_empty());
}

/// The first send is granted and not heard, the repetition is heard, and the first one's answer comes in the middle of
/// the handler: the attempt stays the handler's.
#[tokio::test]
async fn a_late_answer_takes_nothing_from_who_was_answered_meanwhile() {
    let world = World::new();
    let gate = Gate::new();
    world.store.fail(Call::Claim, [Fault::Watched(gate.clone())]);
    let (go, gone) = oneshot::channel::<()>();
    let call = repeating(&world, 2).run_detached(&op(), intent(), |attempt| async move {
        gone.await.unwrap();
        Ok((attempt.number(), attempt.remaining()))
    });
    gate.arrived().await;
    give_up(&world).await;
    until("the handler runs", || world.store.count(Call::Claim) == 2 && world.clock.sleepers() == 1).await;
    assert_eq!(world.store.state(), State::Processing);
    gate.open();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.store.state(), State::Processing, "nothing is given back");
    go.send(()).unwrap();
    match call.await.unwrap() {
        Answer::Executed((1, left)) => assert_eq!(left, secs(20), "the lease counts from the first send"),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store.count(Call::Release), 0);
}

/// The grant comes when its caller has given up: it is given back then, and the next caller need not wait.
#[tokio::test]
async fn a_grant_that_comes_after_its_caller_gave_up_is_given_back() {
    let world = World::new();
    let gate = Gate::new();
    world.store.fail(Call::Claim, [Fault::GateBefore(gate.clone())]);
    let call = repeating(&world, 0).run_detached(&op(), intent(), |_| async { Ok(1) });
    gate.arrived().await;
    give_up(&world).await;
    assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Indeterminate);
    until("a release is sent at once", || world.store.count(Call::Release) == 1).await;
    assert!(world.store.inner().is_empty(), "there is nothing to give back yet");
    gate.open();
    until("what was granted late is released", || world.store.count(Call::Release) == 2).await;
    until("it is free", || world.store.state() == State::Received).await;
}

/// The grant comes while its caller waits for somebody else's attempt, and the caller goes away before it asks again.
#[tokio::test]
async fn a_grant_that_comes_during_the_wait_is_given_back_with_it() {
    // Nothing wakes it, so it does not ask again before it goes away.
    let world = World::that_does_not_wake();
    let rival = world.rival_grant(OnLapse::Park).await;
    let gate = Gate::new();
    world.store.fail(Call::Claim, [Fault::GateBefore(gate.clone())]);
    let ledger = world.policy(|policy| {
        policy.backoff = Backoff::new(secs(0), secs(0), 2);
        policy.wait = secs(3600);
    });
    let call = tokio::spawn(async move { ledger.run(&op(), intent(), |_| async { Ok(1) }).await });
    gate.arrived().await;
    give_up(&world).await;
    until("it waits", || world.store.count(Call::Claim) == 2 && world.clock.sleepers() == 1).await;
    world.store.inner().release(&Release::new(rival.held())).await.unwrap();
    gate.open();
    until("the first send is granted", || world.store.state() == State::Processing).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.store.count(Call::Claim), 2);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    until("it is free", || world.store.state() == State::Received).await;
}

#[tokio::test]
async fn a_renewal_is_sent_again_while_the_lease_lasts() {
    let world = World::new();
    world.store.fail(Call::Renew, [Fault::Never]);
    let (go, gone) = oneshot::channel::<()>();
    let call = world.ledger.run_detached(&op(), intent(), |attempt| async move {
        gone.await.unwrap();
        Ok(attempt.remaining())
    });
    // Sent at 10 s, given up a third of the lease later, and sent again after a twelfth.
    for pause_ms in [10_000, 10_000, 2_500] {
        world.clock.until_sleepers(1).await;
        world.clock.advance(millis(pause_ms));
    }
    until("it is renewed", || world.store.count(Call::Renew) == 2).await;
    go.send(()).unwrap();
    assert!(matches!(call.await.unwrap(), Answer::Executed(left) if left == secs(30)));
}

#[tokio::test]
async fn a_holder_whose_renewals_are_not_answered_learns_it_when_its_lease_ends() {
    let world = World::new();
    world.store.fail_always(Call::Renew, Fault::Never);
    let clock = world.clock.clone();
    let call = world.ledger.run_detached(&op(), intent(), |attempt| async move {
        attempt.lost().await;
        Ok(idem_core::clock::Clock::elapsed(&clock))
    });
    for pause_ms in [10_000, 10_000, 2_500, 7_500] {
        world.clock.until_sleepers(2).await;
        world.clock.advance(millis(pause_ms));
    }
    assert!(matches!(call.await.unwrap(), Answer::Executed(at) if at == secs(30)));
}

#[tokio::test]
async fn a_completion_is_repeated_until_the_lease_ends_and_never_becomes_a_release() {
    let world = World::new();
    world.store.fail_always(Call::Complete, Fault::Never);
    let call = repeating(&world, 0).run_detached(&op(), intent(), |_| async { Ok(1) });
    for _ in 0..3 {
        give_up(&world).await;
    }
    match call.await.unwrap() {
        Answer::Unrecorded { result: Ok(1), why: Unrecorded::Store(error) } => {
            assert_eq!(error.kind(), ErrorKind::Indeterminate);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store.count(Call::Complete), 3, "at 0, 10 and 20 s");
    assert_eq!(world.store.count(Call::Release), 0);
    assert_eq!(world.store.state(), State::Processing);
}

#[tokio::test]
async fn a_completion_that_was_applied_and_not_answered_is_found_by_its_repetition() {
    let world = World::new();
    let gate = Gate::new();
    world.store.fail(Call::Complete, [Fault::GateAfter(gate.clone())]);
    let call = world.ledger.run_detached(&op(), intent(), |_| async { Ok(1) });
    gate.arrived().await;
    give_up(&world).await;
    world.clock.until_sleepers(1).await;
    world.clock.advance(secs(1));
    assert!(matches!(call.await.unwrap(), Answer::Executed(1)));
    assert_eq!(world.store.state(), State::Completed);
}

/// A connection into a black hole: nothing is ever answered.
#[derive(Debug)]
struct Silent(Capabilities);

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for Silent {
    fn capabilities(&self) -> &Capabilities {
        &self.0
    }

    async fn register(&self, _: &Register) -> Result<Registered> {
        std::future::pending().await
    }

    async fn claim(&self, _: &Claim) -> Result<Claimed> {
        std::future::pending().await
    }

    async fn renew(&self, _: &Renew) -> Result<Renewed> {
        std::future::pending().await
    }

    async fn checkpoint(&self, _: &SaveCheckpoint) -> Result<Checkpointed> {
        std::future::pending().await
    }

    async fn complete(&self, _: &Complete) -> Result<Completed> {
        std::future::pending().await
    }

    async fn release(&self, _: &Release) -> Result<Released> {
        std::future::pending().await
    }

    async fn park(&self, _: &Park) -> Result<Parked> {
        std::future::pending().await
    }

    async fn resolve(&self, _: &Resolve) -> Result<Resolved> {
        std::future::pending().await
    }

    async fn erase(&self, _: &Erase) -> Result<Erased> {
        std::future::pending().await
    }

    async fn get(&self, _: &OperationId) -> Result<Option<Record>> {
        std::future::pending().await
    }

    async fn list(&self, _: &Query) -> Result<Page> {
        std::future::pending().await
    }

    async fn stats(&self) -> Result<Stats> {
        std::future::pending().await
    }

    async fn sweep(&self, _: usize) -> Result<Swept> {
        std::future::pending().await
    }

    async fn changed(&self, _: &OperationId, _: u64) {
        std::future::pending().await
    }
}

/// What a call comes to whose store never answers, once the limit has passed.
async fn silence<T>(world: &World, call: impl Future<Output = Result<T>>) -> ErrorKind {
    let (outcome, ()) = tokio::join!(call, give_up(world));
    outcome.err().expect("nothing was answered").kind()
}

#[tokio::test]
async fn trusted_code_is_told_that_a_store_does_not_answer() {
    let world = World::new();
    let silent = Silent(Capabilities::new("silent", "everything"));
    let ledger = Ledger::shared(std::sync::Arc::new(silent), std::sync::Arc::new(world.clock.clone()));
    let store = ledger.store();
    let (unavailable, indeterminate) = (ErrorKind::Unavailable, ErrorKind::Indeterminate);
    assert_eq!(silence(&world, store.get(&op())).await, unavailable);
    assert_eq!(silence(&world, store.list(&Query::all())).await, unavailable);
    assert_eq!(silence(&world, store.stats()).await, unavailable);
    assert_eq!(silence(&world, store.sweep(1)).await, indeterminate);
    assert_eq!(silence(&world, store.erase(&Erase::new(op()))).await, indeterminate);
    let claim = Claim::new(op(), intent(), idem_core::Label::new("by hand").unwrap());
    assert_eq!(silence(&world, store.claim(&claim)).await, indeterminate);
    let register = Register::new(op(), intent());
    assert_eq!(silence(&world, store.register(&register)).await, indeterminate);
    assert_eq!(silence(&world, store.release(&Release::new(claim.held()))).await, indeterminate);
    assert_eq!(silence(&world, store.park(&Park::new(claim.held()))).await, indeterminate);
    assert!(format!("{store:?}").starts_with("Silent"), "it shows what it stands for");
    let one = ledger.with({
        let mut policy = ledger.policy().clone();
        policy.backoff = Backoff::new(secs(0), secs(0), 0);
        policy
    });
    assert_eq!(silence(&world, one.register(&register)).await, indeterminate);
}
