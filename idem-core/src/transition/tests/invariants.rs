//! The invariants themselves: each can be broken, and is then named.

use bytes::Bytes;

use super::expect;
use super::fixture::{
    CLASSES, Column, Depth, FINGERPRINT, Make, NOW, OTHER, OWN, STEP_MS, at, context, ended_id, id, label,
    makes, shapes,
};
use super::held::held;
use crate::Fingerprint;
use crate::attempt::Fence;
use crate::outcome::{Content, Omission, Outcome, OutcomeKind};
use crate::record::{AbsenceReason, EffectClass, Ending, Mode, ParkCause, Record, State};
use crate::request::{Claim, Complete, Erase, Intent, OnLapse, Park, Register, Release, Renew};
use crate::time::{Lease, Retention, Timestamp};
use crate::transition::{Transition, Write, invariants};

/// The record that `request` leaves, which the invariants accept.
fn after(request: &impl Transition, before: Option<&Record>) -> Record {
    let Ok(step) = request.apply(before, &context(0)) else { panic!("refused") };
    let Write::Put(record) = step.write else { panic!("{:?}", step.write) };
    assert_eq!(invariants::check(before, Some(&record), &context(0)), Ok(()));
    *record
}

/// Changes what a step left, and expects the complaint.
fn broken(before: Option<&Record>, after: &Record, complaint: &str, change: impl FnOnce(&mut Record)) {
    let mut after = after.clone();
    change(&mut after);
    let found = invariants::check(before, Some(&after), &context(0));
    assert!(found.as_ref().is_err_and(|found| found.contains(complaint)), "{found:?}, not {complaint:?}");
}

const EXECUTE: Make = Make {
    mode: Mode::Execute,
    effect: EffectClass::Opaque,
    depth: Depth::First,
    fence_ahead: false,
    registered: false,
};
const RECOVER: Make = Make { mode: Mode::Recover, depth: Depth::Third, ..EXECUTE };

fn running(make: Make) -> Record {
    make.record(State::Processing, at(500), None)
}

fn lapsed(make: Make) -> Record {
    make.record(State::Processing, NOW, None)
}

fn received(make: Make) -> Record {
    make.record(State::Received, at(-500), Some(Ending::Released))
}

fn claim(intent: Intent) -> Claim {
    Claim::new(id(), FINGERPRINT, label("claimer")).intent(intent).attempt(OTHER)
}

const TAKE: Intent = Intent::Run(OnLapse::Take);

fn current(record: &mut Record) -> &mut crate::record::Attempt {
    record.current.as_mut().unwrap()
}

#[test]
fn a_record_that_cannot_be() {
    let before = running(EXECUTE);
    let renewed = after(&Renew::new(held(OWN), Lease::default()), Some(&before));
    broken(Some(&before), &renewed, "cannot be", |record| record.identity_until = Some(at(1)));
    broken(None, &renewed, "cannot be", |record| record.current = None);
}

#[test]
fn fence_and_version_rise() {
    let before = running(EXECUTE);
    let renewed = after(&Renew::new(held(OWN), Lease::default()), Some(&before));
    broken(Some(&before), &renewed, "the fence fell", |record| {
        current(record).fence = Fence::new(before.fence().get() - 1);
    });
    broken(Some(&before), &renewed, "the version went", |record| record.version -= 1);
    broken(Some(&before), &renewed, "the version went", |record| record.version = 0);
    let lapsed = lapsed(EXECUTE);
    let taken = after(&claim(TAKE), Some(&lapsed));
    broken(Some(&lapsed), &taken, "an attempt changed", |record| current(record).fence = lapsed.fence());
    let registered = shapes(Column::R, 0).remove(0).record.unwrap();
    let granted = after(&claim(TAKE), Some(&registered));
    broken(Some(&registered), &granted, "did not raise the fence", |record| {
        current(record).fence = registered.fence();
    });
    let expired = EXECUTE.completed(Some(NOW), Some(NOW), None);
    let granted = after(&claim(TAKE), Some(&expired));
    broken(Some(&expired), &granted, "did not raise the fence", |record| {
        current(record).fence = expired.fence();
    });
}

#[test]
fn an_operation_begins_registered_or_granted() {
    let registered = after(&Register::new(id(), FINGERPRINT), None);
    let granted = after(&claim(TAKE), None);
    let expired = EXECUTE.completed(Some(NOW), Some(NOW), None);
    let anew = after(&claim(TAKE), Some(&expired));
    assert_eq!(expect::begun(Some(&expired)).version, expired.version);
    for (before, granted) in [(None, granted), (Some(&expired), anew)] {
        broken(before, &granted, "an operation began", |record| current(record).number = 2);
        broken(before, &granted, "an operation began", |record| current(record).mode = Mode::Recover);
        broken(before, &granted, "an operation began", |record| record.registered = true);
        broken(before, &granted, "an operation began", |record| record.earlier = running(RECOVER).earlier);
        broken(before, &granted, "an operation began", |record| record.state = State::Received);
    }
    broken(None, &registered, "an operation began", |record| record.registered = false);
    broken(None, &registered, "an operation began", |record| record.current = running(EXECUTE).current);
    let uncertain = EXECUTE.uncertain(NOW, ParkCause::Lapse);
    broken(None, &uncertain, "an operation began", |_| {});
}

#[test]
fn the_intent_is_kept() {
    let before = running(EXECUTE);
    let renewed = after(&Renew::new(held(OWN), Lease::default()), Some(&before));
    let other = Fingerprint::custom([9; 32]);
    broken(Some(&before), &renewed, "the fingerprint changed", |record| record.fingerprint = Some(other));
    broken(Some(&before), &renewed, "first grant", |record| record.first_grant_at = Some(NOW));
    broken(Some(&before), &renewed, "first grant", |record| record.first_grant_at = None);
    // What a release may forget, and the four reasons why it may not.
    let forget = Release::new(held(OWN)).forget();
    let released = after(&forget, Some(&before));
    assert_eq!(released.fingerprint, None);
    let complaint = "forgotten that has to be kept";
    let registered = Record { registered: true, ..before.clone() };
    broken(Some(&registered), &released, complaint, |record| record.registered = true);
    let with_fact = Record { checkpoints: running(RECOVER).checkpoints, ..before.clone() };
    broken(Some(&with_fact), &released, complaint, |_| {});
    let mut recovering = before.clone();
    current(&mut recovering).mode = Mode::Recover;
    broken(Some(&recovering), &released, complaint, |_| {});
    let received = received(EXECUTE);
    broken(Some(&received), &released, complaint, |record| record.version += 1);
    let registered = running(Make { registered: true, ..EXECUTE });
    let renewed = after(&Renew::new(held(OWN), Lease::default()), Some(&registered));
    broken(Some(&registered), &renewed, "a registration was forgotten", |record| record.registered = false);
    let recovering = running(RECOVER);
    let renewed = after(&Renew::new(held(OWN), Lease::default()), Some(&recovering));
    broken(Some(&recovering), &renewed, "earlier attempts fell", |record| {
        record.earlier_lease_until = Timestamp::EPOCH;
    });
}

#[test]
fn facts_and_payload_are_kept() {
    let before = running(Make { registered: true, ..RECOVER });
    let renewed = after(&Renew::new(held(OWN), Lease::default()), Some(&before));
    let complaint = "the payload changed";
    broken(Some(&before), &renewed, complaint, |record| record.payload = None);
    broken(Some(&before), &renewed, complaint, |record| record.payload = Some(Bytes::from_static(b"x")));
    let complaint = "a checkpoint was lost or changed";
    broken(Some(&before), &renewed, complaint, |record| record.checkpoints.clear());
    broken(Some(&before), &renewed, complaint, |record| record.checkpoints[0].attempt_number = 3);
    broken(Some(&before), &renewed, complaint, |record| record.checkpoints[0].name = label("refunded"));
    broken(Some(&before), &renewed, complaint, |record| record.checkpoints[0].at = NOW);
    broken(Some(&before), &renewed, complaint, |record| record.checkpoints[0].value = Bytes::new());
    // Of a finished operation both may go, and not come back as something else.
    let completed = Make { registered: true, ..RECOVER }.completed(None, None, None);
    let erased = after(&Erase::new(id()), Some(&completed));
    assert!(erased.payload.is_none() && erased.checkpoints[0].value.is_empty());
    broken(Some(&completed), &erased, "the payload changed", |it| it.payload = Some(Bytes::new()));
    broken(Some(&completed), &erased, complaint, |it| it.checkpoints[0].value = Bytes::from_static(b"x"));
    // Register gives a forgotten operation the payload of its new intent.
    let forgotten = Record { fingerprint: None, ..received(EXECUTE) };
    let register = Register::new(id(), FINGERPRINT).payload(&b"new"[..]);
    assert!(after(&register, Some(&forgotten)).payload.is_some());
    // A fact more is no fact less.
    let fact = crate::request::SaveCheckpoint::new(held(OWN), label("sent"), "", Lease::default());
    assert_eq!(after(&fact, Some(&before)).checkpoints.len(), 2);
}

#[test]
fn states_follow_each_other() {
    let (received, uncertain) = (received(EXECUTE), EXECUTE.uncertain(NOW, ParkCause::Lapse));
    let completed = EXECUTE.completed(None, None, None);
    let next = |record: &Record| expect::written(record);
    broken(Some(&received), &next(&uncertain), "Received became Uncertain", |_| {});
    broken(Some(&received), &next(&completed), "Received became Completed", |_| {});
    broken(Some(&uncertain), &next(&uncertain), "Uncertain became Uncertain", |_| {});
    for left in [&received, &uncertain, &running(EXECUTE)] {
        broken(Some(&completed), &next(left), "left before its identity expired", |_| {});
    }
    let granted = |record: &mut Record| {
        record.state = State::Processing;
        record.parked = None;
    };
    broken(Some(&received), &next(&received), "Received became Processing without a grant", granted);
    broken(Some(&uncertain), &next(&uncertain), "Uncertain became Processing without a grant", granted);
    let never_granted = shapes(Column::R, 0).remove(0).record.unwrap();
    assert!(never_granted.current.is_none());
    broken(Some(&received), &next(&received), "the latest attempt was lost", |record| {
        record.fence_floor = received.fence();
        record.current = None;
    });
}

#[test]
fn a_completed_operation_only_loses_content() {
    let before = EXECUTE.completed(Some(at(500)), Some(at(900)), None);
    let erased = after(&Erase::new(id()).with_reference(), Some(&before));
    let complaint = "a completed operation changed";
    let unsealed = |record: &mut Record| record.outcome.as_mut().unwrap().kind = OutcomeKind::Failure;
    broken(Some(&before), &erased, complaint, unsealed);
    broken(Some(&before), &erased, complaint, |it| it.outcome.as_mut().unwrap().class = Some(label("a")));
    broken(Some(&before), &erased, complaint, |it| it.outcome.as_mut().unwrap().cut = true);
    broken(Some(&before), &erased, complaint, |it| it.completed_at = Some(NOW));
    broken(Some(&before), &erased, complaint, |it| it.response_until = Some(at(501)));
    broken(Some(&before), &erased, complaint, |it| it.identity_until = Some(at(901)));
    let complaint = "the attempts of a completed operation changed";
    broken(Some(&before), &erased, complaint, |it| current(it).ended = Some((NOW, Ending::Resolved)));
    broken(Some(&before), &erased, complaint, |it| it.earlier = running(RECOVER).earlier);
    let complaint = "the outcome of a completed operation changed";
    let other = Outcome::success().body("other").reference("invoice-10");
    broken(Some(&before), &erased, complaint, |it| {
        it.outcome.as_mut().unwrap().content = Content::Kept { body: Some(Bytes::new()), headers: vec![] };
    });
    broken(Some(&before), &erased, complaint, |it| {
        it.outcome.as_mut().unwrap().content = Content::Omitted { content_bytes: 1, why: Omission::TooLarge };
    });
    broken(Some(&before), &erased, complaint, |it| {
        it.outcome.as_mut().unwrap().digest = Some(other.digest())
    });
    broken(Some(&before), &erased, complaint, |it| it.outcome.as_mut().unwrap().reference = Some("x".into()));
    // Over an expired identity too, for as long as it is not begun anew.
    let expired = EXECUTE.completed(Some(NOW), Some(NOW), None);
    let mut swept = expect::written(&expired);
    swept.outcome.as_mut().unwrap().content = Content::Omitted { content_bytes: 1, why: Omission::Expired };
    assert_eq!(invariants::check(Some(&expired), Some(&swept), &context(0)), Ok(()));
    broken(Some(&expired), &swept, "a completed operation changed", unsealed);
    // Kept content is the same content.
    let touched = expect::written(&before);
    assert_eq!(invariants::check(Some(&before), Some(&touched), &context(0)), Ok(()));
}

#[test]
fn an_attempt_is_changed_by_its_own_writes_only() {
    let before = running(RECOVER);
    let renewed = after(&Renew::new(held(OWN), Lease::default()), Some(&before));
    let complaint = "an attempt changed without a grant";
    broken(Some(&before), &renewed, complaint, |record| current(record).id = OTHER);
    broken(Some(&before), &renewed, complaint, |record| current(record).number += 1);
    broken(Some(&before), &renewed, complaint, |record| current(record).mode = Mode::Execute);
    broken(Some(&before), &renewed, "a lease was shortened", |record| {
        current(record).lease_until = at(499);
    });
    broken(Some(&before), &renewed, "the history changed", |record| record.earlier.clear());
    let released = after(&Release::new(held(OWN)).absence(AbsenceReason::FencedOff), Some(&before));
    broken(Some(&before), &released, "released without a reason", |record| current(record).absence = None);
    let parked = after(&Park::new(held(OWN)), Some(&before));
    let done = Complete::new(held(OWN), Outcome::success(), Retention::forever());
    let completed = after(&done, Some(&parked));
    assert_eq!(completed.state, State::Completed);
    // Back to R by a verdict takes no reason from the attempt: the operator gave one.
    let uncertain = RECOVER.uncertain(at(-900), ParkCause::Holder);
    let back = Record { state: State::Received, parked: None, ..expect::written(&uncertain) };
    assert_eq!(invariants::check(Some(&uncertain), Some(&back), &context(0)), Ok(()));
}

#[test]
fn a_grant_follows_what_it_found() {
    let before = lapsed(RECOVER);
    let taken = after(&claim(TAKE), Some(&before));
    broken(Some(&before), &taken, "follows attempt", |record| current(record).number += 1);
    broken(Some(&before), &taken, "a grant left the operation", |record| record.state = State::Received);
    let complaint = "the id of an ended attempt";
    broken(Some(&before), &taken, complaint, |record| current(record).id = OWN);
    broken(Some(&before), &taken, complaint, |record| current(record).id = ended_id(1));
    let complaint = "did not keep the attempt before it";
    broken(Some(&before), &taken, complaint, |record| record.earlier.truncate(2));
    let complaint = "did not keep the lease deadline";
    broken(Some(&before), &taken, complaint, |it| it.earlier_lease_until = before.earlier_lease_until);
    let received = received(EXECUTE);
    let granted = after(&claim(TAKE), Some(&received));
    broken(Some(&received), &granted, "mode Recover was granted over received", |record| {
        current(record).mode = Mode::Recover;
    });
    let mut dangling = received;
    for ending in [None, Some((NOW, Ending::Lapsed)), Some((NOW, Ending::Parked))] {
        current(&mut dangling).ended = ending;
        broken(Some(&dangling), &granted, "mode Execute was granted over received", |_| {});
    }
    let uncertain = EXECUTE.uncertain(at(-900), ParkCause::Lapse);
    let recovered = after(&claim(Intent::Recover), Some(&uncertain));
    broken(Some(&uncertain), &recovered, "mode Execute was granted over uncertain", |record| {
        current(record).mode = Mode::Execute;
    });
    let running = running(EXECUTE);
    broken(Some(&running), &after(&claim(TAKE), Some(&lapsed(EXECUTE))), "granted over running", |record| {
        record.earlier_lease_until = at(500);
    });
}

/// Execute over a lapse: the class that is stored and the class of the claim are Local, and the attempt ran (G-18).
#[test]
fn only_local_runs_again_over_a_lapse() {
    for make in makes().into_iter().filter(|make| make.depth == Depth::Third) {
        for effect in CLASSES {
            let before = lapsed(make);
            let taken = expect::granted(&before, &claim(TAKE).effect(effect), Mode::Execute);
            let found = invariants::check(Some(&before), Some(&taken), &context(0));
            let local = make.effect == EffectClass::Local && effect == EffectClass::Local;
            assert_eq!(found.is_ok(), local && make.mode == Mode::Execute, "{make:?} {effect:?}: {found:?}");
        }
    }
}

/// What an attempt without a downstream key did is not undone by a later one that has one (G-19).
#[test]
fn a_grant_over_what_may_have_happened_never_strengthens_the_class() {
    const KEYED: EffectClass = EffectClass::Keyed { remembers_for_ms: 3_600_000 };
    const LONGER: EffectClass = EffectClass::Keyed { remembers_for_ms: 3_600_001 };
    let make = |effect| Make { effect, ..EXECUTE };
    for (stored, claimed) in [
        (EffectClass::Opaque, KEYED),
        (EffectClass::Opaque, EffectClass::Local),
        (KEYED, LONGER),
        (KEYED, EffectClass::Local),
        (EffectClass::Local, KEYED),
    ] {
        let uncertain = make(stored).uncertain(at(-900), ParkCause::Lapse);
        for (before, intent) in [(lapsed(make(stored)), TAKE), (uncertain, Intent::Recover)] {
            let granted = after(&claim(intent).effect(claimed), Some(&before));
            broken(Some(&before), &granted, "over what may have happened", |record| record.effect = claimed);
        }
        let running = running(make(stored));
        let renewed = after(&Renew::new(held(OWN), Lease::default()), Some(&running));
        broken(Some(&running), &renewed, "the effect class changed", |record| record.effect = claimed);
    }
}

#[test]
fn a_record_is_removed_only_when_it_is_due() {
    assert_eq!(invariants::check(None, None, &context(0)), Ok(()));
    for column in Column::ALL {
        for shape in shapes(column, 0) {
            let Some(record) = shape.record else { continue };
            let due = column == Column::AStar && NOW.as_millis() > record.fence().get() + STEP_MS;
            let found = invariants::check(Some(&record), None, &context(0));
            assert_eq!(found.is_ok(), due, "{}: {found:?}", shape.name);
        }
    }
}
