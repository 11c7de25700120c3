//! Results that JSON does not give back as they were: all callers get the same (G-30), and the effect runs once.

use idem_core::ledger::{Answer, Ledger, Unrecorded, Verdict};
use idem_core::request::OnLapse;
use idem_core::{ErrorKind, State};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::support::{LEASE, World, intent, op};

/// What the first caller got, and what the second one got.
async fn twice<T: Serialize + DeserializeOwned>(ledger: &Ledger, result: T) -> (Answer<T>, Answer<T>) {
    let first = ledger.run(&op(), intent(), |_| async { Ok(result) }).await.unwrap();
    let again = ledger.run(&op(), intent(), |_| async { panic!("it was done") }).await.unwrap();
    (first, again)
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Skipping {
    invoice: u32,
    rate: f64,
    #[serde(skip)]
    draft: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Amount(f64),
    Cents(u64),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Widened {
    #[serde(serialize_with = "as_double")]
    rate: f64,
}

fn as_double<S: serde::Serializer>(rate: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    #[allow(clippy::cast_possible_truncation, reason = "that is what is tested")]
    serializer.serialize_f32(*rate as f32)
}

#[tokio::test]
async fn the_first_caller_gets_what_the_others_get() {
    let world = World::new();
    let result = Skipping { invoice: 9, rate: 1.0, draft: "only here".to_owned() };
    let stored = || Skipping { invoice: 9, rate: 1.0, draft: String::new() };
    match twice(&world.ledger, result).await {
        (Answer::Executed(first), Answer::Replayed(again)) => {
            assert_eq!((first, again), (stored(), stored()));
        }
        other => panic!("{other:?}"),
    }
    let world = World::new();
    match twice(&world.ledger, Untagged::Cents(7)).await {
        (Answer::Executed(first), Answer::Replayed(again)) => {
            assert_eq!((first, again), (Untagged::Amount(7.0), Untagged::Amount(7.0)));
        }
        other => panic!("{other:?}"),
    }
    let world = World::new();
    match twice(&world.ledger, Widened { rate: 1.0 / 3.0 }).await {
        (Answer::Executed(first), Answer::Replayed(again)) => {
            assert_eq!(first, again);
            assert_ne!(first, Widened { rate: 1.0 / 3.0 });
        }
        other => panic!("{other:?}"),
    }
}

/// JSON writes NaN as null, which is no number when it is read. The first caller learns it, and the effect is done.
#[tokio::test]
async fn a_result_that_is_not_read_back_is_told_to_the_first_caller() {
    let world = World::new();
    let first = world.ledger.run(&op(), intent(), |_| async { Ok(f64::NAN) }).await.unwrap();
    let told = first.to_string();
    assert!(told.contains("stored as done") && told.contains("does not decode"), "{told}");
    match first {
        Answer::Unrecorded { result: Ok(value), why: Unrecorded::Unreadable(error) } => {
            assert!(value.is_nan(), "the value itself is not lost");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.store.state(), State::Completed);
    let again = world.ledger.run::<f64, _, _>(&op(), intent(), |_| async { panic!("it was done") }).await;
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Corrupt, "as the first caller was told");
    let corrected =
        world.ledger.run::<Option<f64>, _, _>(&op(), intent(), |_| async { panic!("done") }).await;
    assert!(matches!(corrected.unwrap(), Answer::Replayed(None)), "a corrected type reads what is stored");
}

/// A lost lease says more than a result that cannot be read: the operation may run elsewhere.
#[tokio::test]
async fn what_the_store_says_goes_before_the_type() {
    let world = World::new();
    let id = op();
    let running = world.ledger.run(&id, intent(), |_| async {
        world.clock.advance(LEASE);
        let _ = world.rival_grant(OnLapse::Take).await;
        Ok(f64::NAN)
    });
    let answer = running.await.unwrap();
    assert!(matches!(answer, Answer::Unrecorded { why: Unrecorded::Fenced(_), .. }), "{answer:?}");
}

#[tokio::test]
async fn what_a_reconciler_found_is_as_it_is_stored_too() {
    for readable in [true, false] {
        let world = World::new();
        world.lapsed(&world.ledger).await;
        let found = move || Skipping {
            invoice: 9,
            draft: "only here".to_owned(),
            rate: if readable { 1.0 } else { f64::NAN },
        };
        let answer = world
            .ledger
            .call(&op(), intent())
            .reconcile(move |_| async move { Ok(Verdict::Happened(found())) })
            .run(|_| async { panic!("it was done") })
            .await
            .unwrap();
        if readable {
            assert!(
                matches!(&answer, Answer::Replayed(Skipping { invoice: 9, draft, .. }) if draft.is_empty()),
                "{answer:?}"
            );
        } else {
            let unreadable = matches!(&answer, Answer::Unrecorded { result: Ok(found), why: Unrecorded::Unreadable(_) }
                if found.draft == "only here");
            assert!(unreadable, "{answer:?}");
            assert_eq!(world.store.state(), State::Completed);
        }
    }
}
