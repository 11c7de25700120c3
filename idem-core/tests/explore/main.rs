//! Bounded exhaustive exploration of [`Transition`](idem_core::transition::Transition): every interleaving of a few
//! workers, a network, a downstream system, an operator and time, and after each step the promises of the contract.
//!
//! - **Workers** claim, act and settle. They crash at any point and come back with a new claim intent, or are only slow
//!   and go on later as zombies. With `workers: 2, intents: 4` each of two workers comes back once, or one does so twice.
//! - **The network** loses answers, delays requests and repeats them: a request that was sent may land at any time from
//!   then on and any number of times, after its sender crashed and after the lease lapsed, or never.
//! - **The downstream system** counts effects. An effect lands once, and late, as far as its class permits
//!   ([`Downstream`]).
//! - **Time** passes between any two steps, so a lease lapses at any point.
//!
//! In every state: at most one (distinct) effect; completed only if there was one; given back only if there was none;
//! every answer is explained by what happened ([`explain`]), and every step keeps the invariants.
//!
//! That this can fail is shown by rules that are broken on purpose ([`Fault`]): the search has to find the harm.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail by panic")]

mod engine;
mod explain;
mod model;
mod store;
mod world;

use engine::{Seen, explore};
use model::{Downstream, Fault, Model, Step};
use world::{Ask, Kind};

/// An effect of which nothing is known but that requests of a stopped worker land within a bound.
const OPAQUE: Model = Model {
    name: "Opaque",
    workers: 2,
    intents: 4,
    asks: &[Ask::RunPark],
    downstream: Downstream::Settles,
    kinds: &[Kind::Foreign],
    ahead_ms: &[0],
    guard_ms: 0,
    lease_ms: 1,
    settle_ms: 1,
    waits: false,
    renews: false,
    verdicts: 1,
    attempts_max: None,
    fault: Fault::None,
};
const TAKE: Model = Model { name: "Opaque, take", asks: &[Ask::RunTake], ..OPAQUE };
/// The downstream system refuses older fences on request; zombies act at any time.
const FENCES: Model =
    Model { name: "Opaque, fenced off", downstream: Downstream::Fences, settle_ms: 0, ..TAKE };
const KEYED: Model = Model { name: "Keyed", downstream: Downstream::Deduplicates, settle_ms: 0, ..TAKE };
const LOCAL: Model = Model { name: "Local", kinds: &[Kind::Local], settle_ms: 0, ..TAKE };
/// Claims of both classes meet on one operation.
const MIXED: Model =
    Model { name: "Opaque and Local", kinds: &[Kind::Foreign, Kind::Local], intents: 3, verdicts: 0, ..TAKE };
/// Some send the downstream key, and some do not.
const HALF_KEYED: Model = Model {
    name: "Opaque and Keyed",
    kinds: &[Kind::Foreign, Kind::Unkeyed],
    asks: &[Ask::RunTake, Ask::Recover],
    intents: 3,
    verdicts: 0,
    ..KEYED
};
/// Each caller's clock decides, and one may be ahead by the guard.
const SKEWED: Model =
    Model { name: "Opaque, skewed clocks", ahead_ms: &[0, 1], guard_ms: 1, intents: 2, ..TAKE };

/// Explores all of `model`, which keeps every promise, and has to see all of `notes` on the way.
fn holds(model: Model, notes: &[&str]) {
    let seen = explore(&model);
    report(&model, &seen);
    if let Some((broken, way)) = seen.fault {
        panic!("{}: {broken}, after {way:#?}", model.name);
    }
    for note in notes {
        assert!(seen.notes.contains_key(note), "{}: nothing was ever {note:?}: {:?}", model.name, seen.notes);
    }
    // A space that shrinks to nothing would hold as well.
    assert!(seen.states > 1000, "{}: only {} states", model.name, seen.states);
}

/// Explores `model`, whose rule is broken on purpose, until the harm is found.
fn breaks(model: Model, harm: &str) {
    let seen = explore(&model);
    report(&model, &seen);
    let Some((broken, way)) = seen.fault else { panic!("{}: {:?} was not found", model.name, model.fault) };
    println!("    {:?}: {broken}, after {} steps", model.fault, way.len());
    assert!(broken.contains(harm), "{}: {broken} instead of {harm}, after {way:#?}", model.name);
}

fn report(model: &Model, seen: &Seen<Step>) {
    println!(
        "{}, {} workers, {} intents: {} states, {} steps, at most {} from the start",
        model.name, model.workers, model.intents, seen.states, seen.steps, seen.depth
    );
}

const TAKEN: [&str; 3] = ["granted to recover over a lapse", "granted after recovery", "replay"];

#[test]
fn opaque_and_parked_has_one_effect() {
    let seen = ["parked over a lapse", "granted after a release", "granted again", "ended", "in progress"];
    holds(OPAQUE, &seen);
    holds(Model { workers: 3, ..OPAQUE }, &seen);
}

#[test]
fn opaque_and_taken_over_has_one_effect() {
    holds(TAKE, &TAKEN);
    holds(Model { workers: 3, intents: 3, ..TAKE }, &TAKEN);
}

#[test]
fn opaque_and_fenced_off_has_one_effect_although_zombies_act() {
    holds(Model { verdicts: 0, ..FENCES }, &TAKEN);
    holds(Model { workers: 3, intents: 3, ..FENCES }, &TAKEN);
}

#[test]
fn keyed_has_one_distinct_effect() {
    holds(Model { intents: 3, ..KEYED }, &TAKEN);
    holds(Model { workers: 3, intents: 3, ..KEYED }, &TAKEN);
}

#[test]
fn local_runs_again_over_a_lapse_and_has_one_effect() {
    let seen = ["granted to run over a lapse", "granted again", "replay", "ended"];
    holds(LOCAL, &seen);
    holds(Model { workers: 3, ..LOCAL }, &seen);
    let limited = Model { asks: &[Ask::RunPark, Ask::Recover], attempts_max: Some(2), ..LOCAL };
    let seen = ["parked over a lapse", "granted to recover what was uncertain", "granted after recovery"];
    holds(limited, &seen);
    holds(Model { workers: 3, intents: 3, ..limited }, &seen[..1]);
}

#[test]
fn classes_may_meet_on_one_operation() {
    holds(MIXED, &["granted to run over a lapse", "granted to recover over a lapse"]);
    let seen = ["granted to recover over a lapse", "granted to recover what was uncertain", "replay"];
    holds(HALF_KEYED, &seen);
    holds(Model { workers: 3, ..HALF_KEYED }, &seen);
}

#[test]
fn clocks_may_differ_by_the_guard() {
    holds(SKEWED, &TAKEN[..1]);
    holds(
        Model { asks: &[Ask::RunPark, Ask::Recover], ..SKEWED },
        &["granted to recover what was uncertain"],
    );
}

#[test]
fn workers_may_renew_wait_and_ask_for_anything() {
    let fewer = Model { intents: 3, verdicts: 0, ..TAKE };
    holds(Model { name: "Opaque, renewed", renews: true, ..fewer }, &TAKEN);
    holds(Model { name: "Opaque, waited for", waits: true, ..fewer }, &TAKEN);
    let asks = &[Ask::RunPark, Ask::RunTake, Ask::Recover];
    let seen = ["nothing", "granted to recover what was uncertain", "parked over a lapse"];
    holds(Model { name: "Opaque, all intents", asks, attempts_max: Some(2), intents: 3, ..OPAQUE }, &seen);
}

#[test]
fn a_release_from_recovery_without_reason_is_found() {
    breaks(Model { fault: Fault::ReleaseWithoutReason, ..TAKE }, "two effects");
    breaks(Model { fault: Fault::ReleaseWithoutReason, workers: 3, ..FENCES }, "two effects");
}

#[test]
fn a_rerun_on_a_lapse_is_found() {
    breaks(Model { fault: Fault::RerunOnLapse, ..TAKE }, "two effects");
    breaks(Model { fault: Fault::RerunOnLapse, workers: 3, ..FENCES }, "two effects");
}

#[test]
fn held_writes_heard_from_anyone_are_found() {
    breaks(Model { fault: Fault::HearAnyone, ..TAKE }, "two effects");
}

#[test]
fn a_foreign_effect_that_is_called_local_is_found() {
    breaks(Model { fault: Fault::ForeignDeclaredLocal, ..TAKE }, "two effects");
}

#[test]
fn a_local_claim_over_a_foreign_attempt_is_found() {
    breaks(Model { fault: Fault::LocalForgetsItsChain, ..MIXED }, "two effects");
}

#[test]
fn a_keyed_claim_over_an_attempt_without_key_is_found() {
    breaks(Model { fault: Fault::ClassOfTheLatest, ..HALF_KEYED }, "two effects");
}

#[test]
fn a_downstream_key_per_attempt_is_found() {
    breaks(Model { fault: Fault::KeyPerAttempt, ..KEYED }, "two effects");
}

#[test]
fn an_operator_that_does_not_wait_is_found() {
    breaks(Model { fault: Fault::HastyOperator, ..OPAQUE }, "two effects");
}

#[test]
fn settle_times_without_the_guard_are_found() {
    breaks(Model { fault: Fault::SettleWithoutGuard, intents: 3, verdicts: 0, ..SKEWED }, "two effects");
}

#[test]
fn a_fence_that_stays_is_found() {
    breaks(Model { fault: Fault::FenceStays, ..FENCES }, "two effects");
}

#[test]
fn an_ended_id_that_is_granted_again_is_found() {
    breaks(Model { fault: Fault::GrantEndedAgain, ..TAKE }, "the id of an ended attempt was granted again");
}
