//! A panic in the application's code: parked, and passed on (G-31).

use idem_core::ledger::{Answer, Ledger, Verdict};
use idem_core::{ErrorKind, State};
use serde::{Deserialize, Serialize, Serializer};

use crate::support::{Call, Fault, LEASE, World, intent, op, secs};

/// Runs the call in a task; gives the text of the panic that came out of it.
async fn panic_of<F>(call: F) -> &'static str
where
    F: Future<Output = ()> + Send + 'static,
{
    let panic = tokio::spawn(call).await.unwrap_err().into_panic();
    *panic.downcast::<&'static str>().unwrap()
}

fn noted(world: &World) -> String {
    world.store.record().parked.unwrap().note.unwrap().to_string()
}

#[tokio::test]
async fn a_panic_of_the_handler_is_parked_and_passed_on() {
    let world = World::new();
    let ledger = world.ledger.clone();
    let panic = panic_of(async move {
        let _ = ledger
            .run::<u32, _, _>(&op(), intent(), |_| async {
                tokio::task::yield_now().await;
                panic!("in the handler")
            })
            .await;
    });
    assert_eq!(panic.await, "in the handler");
    assert_eq!(world.store.state(), State::Uncertain);
    assert_eq!(noted(&world), "the handler panicked");
    let next = world.ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(next, Answer::Uncertain { .. }));
}

#[tokio::test]
async fn a_panic_before_the_first_await_is_no_different() {
    fn handler(_: idem_core::ledger::Attempt) -> std::future::Ready<Result<u32, idem_core::ledger::Failure>> {
        panic!("before the future was made")
    }
    let world = World::new();
    let ledger = world.ledger.clone();
    let panic = panic_of(async move {
        let _ = ledger.run(&op(), intent(), handler).await;
    });
    assert_eq!(panic.await, "before the future was made");
    assert_eq!(world.store.state(), State::Uncertain);
}

#[tokio::test]
async fn a_detached_panic_comes_out_of_its_answer() {
    let world = World::new();
    let ledger = world.ledger.clone();
    let panic = panic_of(async move {
        let _ = ledger.run_detached::<u32, _, _>(&op(), intent(), |_| async { panic!("detached") }).await;
    });
    assert_eq!(panic.await, "detached");
    assert_eq!(world.store.state(), State::Uncertain);
}

#[tokio::test]
async fn a_panic_of_the_reconciler_is_parked_and_passed_on() {
    let world = World::new();
    world.lapsed(&world.ledger).await;
    let ledger = world.ledger.clone();
    let panic = panic_of(async move {
        let _ = ledger
            .call(&op(), intent())
            .reconcile(|_| async { panic!("in the reconciler") })
            .run(|_| async { Ok(1) })
            .await;
    });
    assert_eq!(panic.await, "in the reconciler");
    assert_eq!(world.store.state(), State::Uncertain);
    assert_eq!(noted(&world), "the reconciler panicked");
}

/// A result whose own code fails while it is written.
#[derive(Deserialize)]
struct Fragile;

impl Serialize for Fragile {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("in serialize")
    }
}

async fn run_fragile(ledger: Ledger) {
    let _ = ledger.run(&op(), intent(), |_| async { Ok(Fragile) }).await;
}

#[tokio::test]
async fn a_panic_while_the_result_is_written_is_parked_and_passed_on() {
    let world = World::new();
    assert_eq!(panic_of(run_fragile(world.ledger.clone())).await, "in serialize");
    assert_eq!(world.store.state(), State::Uncertain);
    let world = World::new();
    world.lapsed(&world.ledger).await;
    let ledger = world.ledger.clone();
    let panic = panic_of(async move {
        let call = ledger.call(&op(), intent()).reconcile(|_| async { Ok(Verdict::Happened(Fragile)) });
        let _ = call.run(|_| async { Ok(Fragile) }).await;
    });
    assert_eq!(panic.await, "in serialize");
    assert_eq!(noted(&world), "the reconciler panicked");
}

#[tokio::test]
async fn a_panic_is_passed_on_also_when_nobody_can_park() {
    let world = World::new();
    world.store.fail_always(Call::Park, Fault::Before(ErrorKind::Corrupt));
    let ledger = world.ledger.clone();
    let task = tokio::spawn(async move {
        let _ = ledger.run::<u32, _, _>(&op(), intent(), |_| async { panic!("in the handler") }).await;
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(world.store.state(), State::Processing, "its lease lapses");
    world.store.heal();
    world.clock.advance(LEASE + secs(1));
    let next = world.ledger.run(&op(), intent(), |_| async { Ok(1) }).await.unwrap();
    assert!(matches!(next, Answer::Uncertain { .. }));
}
