//! Complete and release: how an attempt settles (G-16, G-17, G-19, G-31, G-33).

use super::expect;
use super::fixture::{Column, GUARDS_MS, NOW, OWN, at, context, ended_id, outcome, shapes};
use super::held::{each, held};
use super::table::{After, Cell, refuse, verify};
use crate::answer::{Completed, Released};
use crate::outcome::{Omission, Outcome};
use crate::record::{AbsenceReason, Attempt, Ending, Mode, Record};
use crate::request::{Complete, Release};
use crate::time::{Retention, Ttl};
use crate::{ErrorKind, Limits};

fn retentions() -> Vec<Retention> {
    let forever = Retention::forever();
    let finite = |identity, response| Retention::forgetting_identity(identity, response, None).unwrap();
    vec![
        forever,
        forever.response(Ttl::Millis(0)).unwrap(),
        forever.response(Ttl::Millis(70)).unwrap(),
        finite(Ttl::Millis(90), Ttl::Millis(0)),
        finite(Ttl::Millis(90), Ttl::Millis(90)),
    ]
}

/// Outcomes of which the first two fit into [`BODY_BYTES_MAX`], exactly and easily.
const BODY_BYTES_MAX: usize = 30;

fn outcomes() -> [(Outcome, bool); 4] {
    [
        (outcome(), false),
        (Outcome::failure("declined").body(vec![1; 20]).header("0123456789", ""), false),
        (Outcome::success().body(vec![1; 20]).header("0123456789", "x").reference("r"), true),
        (Outcome::failure("declined").body(vec![1; 31]), true),
    ]
}

#[test]
fn every_cell_of_complete() {
    let limits = Limits { body_bytes_max: BODY_BYTES_MAX, ..Limits::default() };
    each("complete", |cell, shape, record, guard_ms| {
        for (outcome, too_large) in outcomes() {
            for retention in retentions() {
                let request = Complete::new(held(OWN), outcome.clone(), retention);
                let stored = record.outcome.as_ref();
                let same = stored.is_some_and(|stored| stored.digest.is_none_or(|it| it == outcome.digest()));
                let (answer, after) = match cell.text {
                    "Fenced =" => (Completed::Fenced(cell.column.view()), After::Same),
                    "AlreadyCompleted = (same or erased digest) / OutcomeConflict =" if same => {
                        (Completed::AlreadyCompleted, After::Same)
                    }
                    "AlreadyCompleted = (same or erased digest) / OutcomeConflict =" => {
                        (Completed::OutcomeConflict, After::Same)
                    }
                    "Completed" => {
                        let after =
                            expect::completed(record, &outcome, retention, too_large, Ending::Completed);
                        (Completed::Completed { at: NOW, body_omitted: too_large }, After::put(after))
                    }
                    other => panic!("{other:?} is not the answer to a completion"),
                };
                let context = context(guard_ms).limits(limits);
                verify(&shape.name, &request, Some(record), &context, &answer, &after);
            }
        }
    });
}

/// The same outcome is the same digest, and an erased one is any; another outcome conflicts and the first stays (G-16).
#[test]
fn a_repeated_completion_is_told_by_its_digest() {
    let mut answers = std::collections::BTreeMap::new();
    for column in [Column::Fresh, Column::Exp] {
        for shape in shapes(column, 0) {
            let erased = shape.record.as_ref().unwrap().outcome.as_ref().unwrap().omission();
            for (same, outcome) in [(true, outcome()), (false, outcome().body("other"))] {
                let request = Complete::new(held(OWN), outcome, Retention::forever());
                let known = same || erased == Some(Omission::Erased);
                let answer = if known { Completed::AlreadyCompleted } else { Completed::OutcomeConflict };
                verify(&shape.name, &request, shape.record.as_ref(), &context(0), &answer, &After::Same);
                *answers.entry(format!("{answer:?}")).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(answers.len(), 2, "{answers:?}");
}

const SETTLE_MS: u64 = 600;

fn reasons() -> [Option<AbsenceReason>; 4] {
    [
        None,
        Some(AbsenceReason::Deduplicated),
        Some(AbsenceReason::FencedOff),
        Some(AbsenceReason::Quiesced { settle_ms: SETTLE_MS }),
    ]
}

/// The record after a release: it may run again, and says why (G-19).
fn released(record: &Record, absence: Option<AbsenceReason>, forgotten: bool) -> Record {
    let mut after = expect::written(record);
    after.state = crate::State::Received;
    let current = after.current.as_mut().unwrap();
    current.ended = Some((NOW, Ending::Released));
    current.absence = absence;
    if forgotten {
        after.fingerprint = None;
    }
    after
}

#[test]
fn every_cell_of_release() {
    each("release", |cell, shape, record, guard_ms| {
        for absence in reasons() {
            for forget in [false, true] {
                let mut request = Release::new(held(OWN));
                (request.absence, request.forget) = (absence, forget);
                let context = context(guard_ms);
                match cell_of_release(cell, record, &request, guard_ms) {
                    Some((answer, after)) => {
                        verify(&shape.name, &request, Some(record), &context, &answer, &after);
                    }
                    None => refuse(&shape.name, &request, Some(record), &context, ErrorKind::InvalidInput),
                }
            }
        }
    });
}

/// What the cell says; `None` is `InvalidInput`.
fn cell_of_release(
    cell: &Cell,
    record: &Record,
    request: &Release,
    guard_ms: u64,
) -> Option<(Released, After)> {
    match cell.text {
        "AlreadyReleased =" => return Some((Released::AlreadyReleased, After::Same)),
        "Settled =" => return Some((Released::Settled, After::Same)),
        "Parked =" => return Some((Released::Parked, After::Same)),
        "Execute: Released; Recover: with reason Released, without InvalidInput =" => {}
        other => panic!("{other:?} is not the answer to a release"),
    }
    let current = record.current.as_ref().unwrap();
    if current.mode == Mode::Recover {
        // Past every earlier lease deadline by `settle`, and by the difference of two clocks (G-19, G-60).
        let until = record.earlier_lease_until.plus_millis(SETTLE_MS + guard_ms);
        match request.absence {
            None => return None,
            Some(AbsenceReason::Quiesced { .. }) if NOW < until => {
                return Some((Released::TooEarly { until }, After::Same));
            }
            Some(_) => {}
        }
    }
    // The shapes that may forget are those of attempt 1 that ran and was never registered.
    let could_not_have_happened = current.mode == Mode::Execute
        && !record.registered
        && record.checkpoints.is_empty()
        && current.number == 1
        && request.absence != Some(AbsenceReason::Deduplicated);
    let forgotten = request.forget && could_not_have_happened;
    let after = released(record, request.absence, forgotten);
    Some((Released::Released { forgotten }, After::put(after)))
}

/// The exact instant from which on `Quiesced` is accepted.
#[test]
fn quiesced_is_accepted_from_the_bound_on() {
    for guard_ms in GUARDS_MS {
        let taken = shapes(Column::Live, guard_ms)
            .into_iter()
            .filter_map(|shape| shape.record)
            .filter(|record| record.current.as_ref().unwrap().mode == Mode::Recover);
        for mut record in taken {
            let reason = AbsenceReason::Quiesced { settle_ms: SETTLE_MS };
            let request = Release::new(held(OWN)).absence(reason);
            let bound = -i64::try_from(SETTLE_MS + guard_ms).unwrap();
            record.earlier_lease_until = at(bound + 1);
            let answer = Released::TooEarly { until: at(1) };
            verify("1 ms before", &request, Some(&record), &context(guard_ms), &answer, &After::Same);
            record.earlier_lease_until = at(bound);
            let after = After::put(released(&record, Some(reason), false));
            let answer = Released::Released { forgotten: false };
            verify("at the bound", &request, Some(&record), &context(guard_ms), &answer, &after);
        }
    }
}

/// G-31: "mode Execute, never registered, no checkpoints, every attempt so far without effect".
#[test]
fn only_what_never_could_have_happened_is_forgotten() {
    let first = || {
        let shape = shapes(Column::Live, 0).into_iter().filter_map(|shape| shape.record);
        shape
            .filter(|record| record.current.as_ref().unwrap().mode == Mode::Execute)
            .find(|record| record.earlier.is_empty() && !record.registered)
            .unwrap()
    };
    let after = |endings: &[Ending], number: u32| {
        let mut record = first();
        let current = record.current.clone().unwrap();
        record.earlier = (1..)
            .zip(endings)
            .map(|(number, &ending)| Attempt {
                number,
                id: ended_id(number),
                ended: Some((at(-1), ending)),
                ..current.clone()
            })
            .collect();
        record.current.as_mut().unwrap().number = number;
        record
    };
    let with = |change: fn(&mut Record)| {
        let mut record = first();
        change(&mut record);
        record
    };
    let table = [
        ("attempt 1", true, first()),
        ("after one release", true, after(&[Ending::Released], 2)),
        ("after two releases", true, after(&[Ending::Released, Ending::Released], 3)),
        ("registered", false, with(|record| record.registered = true)),
        ("recovering", false, with(|record| record.current.as_mut().unwrap().mode = Mode::Recover)),
        ("after a lapse", false, after(&[Ending::Lapsed], 2)),
        ("after a lapse and a release", false, after(&[Ending::Lapsed, Ending::Released], 3)),
        ("after a release and a lapse", false, after(&[Ending::Released, Ending::Lapsed], 3)),
        ("after an operator's verdict", false, after(&[Ending::Resolved], 2)),
        ("after a park", false, after(&[Ending::Parked], 2)),
        ("after a release that relied on the downstream", false, {
            let mut record = after(&[Ending::Released, Ending::Released], 3);
            record.earlier[0].absence = Some(AbsenceReason::Deduplicated);
            record
        }),
        ("after attempts that history lost", false, after(&[Ending::Released], 34)),
        ("with a checkpoint", false, {
            let mut record = first();
            let checkpoints = shapes(Column::Live, 0).into_iter().filter_map(|shape| shape.record);
            record.checkpoints = checkpoints.map(|other| other.checkpoints).find(|c| !c.is_empty()).unwrap();
            record
        }),
    ];
    for (what, forgotten, record) in table {
        for reason in [AbsenceReason::FencedOff, AbsenceReason::Deduplicated] {
            let request = Release::new(held(OWN)).absence(reason);
            let kept = After::put(released(&record, Some(reason), false));
            let answer = Released::Released { forgotten: false };
            verify(what, &request, Some(&record), &context(0), &answer, &kept);
            let forgotten = forgotten && reason != AbsenceReason::Deduplicated;
            let after = After::put(released(&record, Some(reason), forgotten));
            let answer = Released::Released { forgotten };
            verify(what, &request.forget(), Some(&record), &context(0), &answer, &after);
        }
    }
}
