//! "Held write by any other id, or on A, A\*: `Fenced{state}` =."

use std::fmt::Debug;

use super::fixture::{Column, GUARDS_MS, OTHER, OWN, context, label, outcome, shapes};
use super::held::held;
use super::table::{After, verify};
use crate::answer::{Checkpointed, Completed, Parked, Released, Renewed};
use crate::attempt::AttemptId;
use crate::record::{AbsenceReason, Record, View};
use crate::request::{Complete, Park, Release, Renew, SaveCheckpoint};
use crate::time::{Lease, Retention};
use crate::transition::Transition;

/// Every held write under `attempt`, on every shape of `column`, is answered `Fenced` and changes nothing.
fn fenced<T>(column: Column, request: impl Fn(AttemptId) -> T, answer: impl Fn(View) -> T::Answer)
where
    T: Transition + Debug,
    T::Answer: PartialEq + Debug,
{
    for guard_ms in GUARDS_MS {
        for shape in shapes(column, guard_ms) {
            let record = shape.record.as_ref();
            for attempt in strangers(column, record) {
                let answer = answer(column.view());
                verify(&shape.name, &request(attempt), record, &context(guard_ms), &answer, &After::Same);
            }
        }
    }
}

/// The ids that a record in `column` does not hear: those of nobody, of ended attempts, and over A\* its own.
fn strangers(column: Column, record: Option<&Record>) -> Vec<AttemptId> {
    let ended = record.iter().flat_map(|record| &record.earlier).map(|attempt| attempt.id);
    let unheard = record.is_none_or(|record| record.current.is_none()) || column == Column::AStar;
    [OTHER].into_iter().chain(ended).chain(unheard.then_some(OWN)).collect()
}

#[test]
fn nobody_but_the_holder_is_heard() {
    let lease = Lease::default();
    for column in Column::ALL {
        fenced(column, |attempt| Renew::new(held(attempt), lease), Renewed::Fenced);
        let fact = |attempt| SaveCheckpoint::new(held(attempt), label("charged"), &b"ch_1"[..], lease);
        fenced(column, fact, Checkpointed::Fenced);
        // The same outcome as the one that is stored: what was answered to its attempt is not told to others.
        let complete = |attempt| Complete::new(held(attempt), outcome(), Retention::forever());
        fenced(column, complete, Completed::Fenced);
        fenced(column, |attempt| Release::new(held(attempt)).forget(), Released::Fenced);
        let reason = AbsenceReason::Deduplicated;
        fenced(column, |attempt| Release::new(held(attempt)).absence(reason), Released::Fenced);
        fenced(column, |attempt| Park::new(held(attempt)), Parked::Fenced);
    }
}
