//! The checkers find every seeded defect, and nothing where there is none.

use super::simulated::{Defect, Simulated, simulate};
use super::*;

/// Histories of each class of defect.
const SEEDS: usize = 40;

fn keys(history: &[Event]) -> std::collections::BTreeSet<usize> {
    history.iter().map(|event| event.key).collect()
}

#[test]
fn two_hundred_good_histories_are_accepted() {
    let mut steps_max = 0;
    for seed in 0..200 {
        let Simulated { events, .. } = simulate(seed, Defect::None);
        assert!(events.len() == 240 && overlaps(&events) > 100, "{} {}", events.len(), overlaps(&events));
        for key in keys(&events) {
            match check(&events, key) {
                Checked::Linearizable { steps } => steps_max = steps_max.max(steps),
                other => panic!("seed {seed}: {other:?}\n{}", timeline(&events, key, &[])),
            }
            assert_eq!(broken(&events, key), None, "seed {seed}\n{}", timeline(&events, key, &[]));
        }
    }
    // The budget is a million; a search that needs a tenth of it would be a near miss.
    assert!(steps_max < 100_000, "{steps_max} steps");
}

/// Seeds with which the defect had an occasion to strike.
fn struck(defect: Defect) -> impl Iterator<Item = (u64, Simulated, usize)> {
    (0..)
        .map(move |seed| (seed, simulate(seed, defect)))
        .filter_map(|(seed, simulated)| simulated.struck.map(|key| (seed, simulated, key)))
}

#[test]
fn two_hundred_bad_histories_in_five_classes_are_rejected() {
    let mut rejected = 0;
    for defect in Defect::BAD {
        for (seed, Simulated { events, .. }, key) in struck(defect).take(SEEDS) {
            match check(&events, key) {
                Checked::Violation { longest } => {
                    let text = timeline(&events, key, &longest).to_string();
                    assert!(text.contains("    -  "), "something could not be placed: {text}");
                    rejected += 1;
                }
                other => panic!("{defect:?}, seed {seed}: {other:?}\n{}", timeline(&events, key, &[])),
            }
        }
    }
    assert_eq!(rejected, 200);
}

#[test]
fn the_invariants_alone_find_most_defects() {
    for defect in [Defect::StaleRead, Defect::LostCompletion, Defect::ReusedFence] {
        let found = struck(defect).take(SEEDS).filter(|(_, bad, key)| broken(&bad.events, *key).is_some());
        let found = found.count();
        assert!(found > SEEDS / 2, "{defect:?}: {found} of {SEEDS}");
    }
}

fn event(call: Call, answer: Option<Answer>, from: u64, until: u64) -> Event {
    let (from, until) = (Duration::from_micros(from), Duration::from_micros(until));
    Event { client: 0, key: 0, call, answer, from, until }
}

#[test]
fn a_call_whose_answer_is_not_known_may_have_happened_or_not() {
    let claim = event(Call::Claim { attempt: 1 }, None, 0, 1);
    let seen = event(Call::Read, Some(Answer::Running { attempt: 1 }), 5, 6);
    let unseen = event(Call::Read, Some(Answer::Absent), 5, 6);
    let late = event(Call::Read, Some(Answer::Absent), 7, 8);
    assert!(matches!(check(&[claim, seen], 0), Checked::Linearizable { .. }));
    assert!(matches!(check(&[claim, unseen], 0), Checked::Linearizable { .. }));
    assert!(matches!(check(&[claim, seen, late], 0), Checked::Violation { .. }), "once seen, it happened");
    assert!(
        matches!(check(&[seen, claim], 0), Checked::Linearizable { .. }),
        "order in the list does not matter"
    );
}

#[test]
fn calls_that_do_not_overlap_keep_their_order() {
    let claim = event(Call::Claim { attempt: 1 }, Some(Answer::Granted { fence: 1 }), 10, 20);
    let before = event(Call::Read, Some(Answer::Absent), 0, 5);
    let meanwhile = event(Call::Read, Some(Answer::Absent), 12, 30);
    let after = event(Call::Read, Some(Answer::Absent), 25, 30);
    assert!(matches!(check(&[before, claim, meanwhile], 0), Checked::Linearizable { .. }));
    assert!(matches!(check(&[claim, after], 0), Checked::Violation { .. }));
}

#[test]
fn too_many_events_are_unknown() {
    let events = vec![event(Call::Read, Some(Answer::Absent), 0, 1); 129];
    assert_eq!(check(&events, 0), Checked::Unknown);
}
