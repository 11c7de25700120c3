//! The ends of the numbers, and rows that cannot be.

use super::expect;
use super::fixture::{
    Column, Depth, FINGERPRINT, GUARDS_MS, NOW, OTHER, OWN, STEP_MS, at, context, id, label, makes, outcome,
    shapes,
};
use super::held::held;
use super::table::{After, refuse, verify};
use crate::ErrorKind;
use crate::answer::{Claimed, Registered, Renewed};
use crate::attempt::Fence;
use crate::record::{Ending, HISTORY_MAX, Mode, Record, State, View};
use crate::request::{Claim, Complete, Erase, Intent, OnLapse, Park, Register, Release, Renew};
use crate::time::{Lease, Retention, Timestamp};
use crate::transition::{Context, Sweep, SweepStep, Transition, Write};

fn claim(intent: Intent) -> Claim {
    Claim::new(id(), FINGERPRINT, label("claimer")).intent(intent).attempt(OTHER)
}

const TAKE: Intent = Intent::Run(OnLapse::Take);

fn first(column: Column) -> Record {
    shapes(column, 0).remove(0).record.unwrap()
}

fn granted_fence(before: Option<&Record>, context: &Context) -> u64 {
    match claim(TAKE).apply(before, context).unwrap().answer {
        Claimed::Granted(grant) => grant.fence.get(),
        other => panic!("{other:?}"),
    }
}

/// "At least `max(previous + 1, milliseconds)`" (G-14), over every kind of record that can be granted.
#[test]
fn a_fence_is_past_the_one_before_and_not_behind_the_clock() {
    let now = NOW.as_millis();
    assert_eq!(granted_fence(None, &context(0)), now);
    assert_eq!(granted_fence(None, &Context::at(Timestamp::EPOCH)), 1, "0 is the fence of no grant");
    for column in [Column::AStar, Column::R, Column::Lapsed] {
        for shape in shapes(column, 0) {
            for (previous, next) in [(1, now), (now - 1, now), (now, now + 1), (now + 5, now + 6)] {
                let mut record = shape.record.clone().unwrap();
                match &mut record.current {
                    Some(current) => current.fence = Fence::new(previous),
                    None => record.fence_floor = Fence::new(previous),
                }
                let running = Claim { attempts_max: None, ..claim(TAKE) };
                let step = running.apply(Some(&record), &context(0)).unwrap();
                let Write::Put(after) = step.write else { panic!("{step:?}") };
                assert_eq!(after.fence().get(), next, "{}, after {previous}", shape.name);
            }
        }
    }
}

/// Fences stay below 2^53 (G-14); a clock or a fence that is there is an error, and nothing is granted.
#[test]
fn at_the_end_of_the_numbers_nothing_is_granted() {
    let last = Timestamp::MAX.as_millis() - 1;
    let mut record = first(Column::Lapsed);
    let mut with_fence = |fence| {
        record.current.as_mut().unwrap().fence = Fence::new(fence);
        record.clone()
    };
    assert_eq!(granted_fence(Some(&with_fence(last - 1)), &context(0)), last);
    let spent = with_fence(last);
    refuse("a spent fence", &claim(TAKE), Some(&spent), &context(0), ErrorKind::Internal);
    let clock = |millis| Context::at(Timestamp::from_millis(millis));
    assert_eq!(granted_fence(None, &clock(last)), last);
    refuse("a spent clock", &claim(TAKE), None, &clock(last + 1), ErrorKind::Internal);
}

#[test]
fn numbers_and_versions_do_not_wrap() {
    let mut record = first(Column::Lapsed);
    record.current.as_mut().unwrap().number = u32::MAX;
    refuse("attempts", &claim(TAKE), Some(&record), &context(0), ErrorKind::Corrupt);
    record.current.as_mut().unwrap().number = u32::MAX - 1;
    let step = claim(TAKE).apply(Some(&record), &context(0)).unwrap();
    assert!(matches!(step.answer, Claimed::Granted(grant) if grant.number == u32::MAX));
    record.version = u64::MAX;
    let renew = Renew::new(held(OWN), Lease::default());
    refuse("versions", &renew, Some(&record), &context(0), ErrorKind::Corrupt);
}

/// A lease that would end beyond 2^53 ends there, and deadlines near it still compare.
#[test]
fn deadlines_are_cut_at_the_end_of_time() {
    let mut context = context(50);
    context.now = Timestamp::from_millis(Timestamp::MAX.as_millis() - 1);
    let mut record = first(Column::Live);
    record.current.as_mut().unwrap().lease_until = Timestamp::MAX;
    let mut after = Record { updated_at: context.now, ..expect::written(&record) };
    after.current.as_mut().unwrap().lease_until = Timestamp::MAX;
    let renew = Renew::new(held(OWN), Lease::MAX);
    let answer = Renewed::Renewed { remaining_ms: 1 };
    verify("the last millisecond", &renew, Some(&record), &context, &answer, &After::put(after));
}

/// A record in progress without an attempt, uncertain without a beginning, completed without an outcome: no store
/// wrote them. Nothing is granted over them and nothing is written (G-50, G-51).
#[test]
fn rows_that_cannot_be_are_corrupt() {
    let renew = Renew::new(held(OWN), Lease::default());
    let mut headless = first(Column::Lapsed);
    headless.current = None;
    for intent in [TAKE, Intent::Recover, Intent::Run(OnLapse::Park)] {
        refuse("no attempt", &claim(intent), Some(&headless), &context(0), ErrorKind::Corrupt);
    }
    let step = renew.apply(Some(&headless), &context(0)).unwrap();
    assert_eq!((step.answer, step.write), (Renewed::Fenced(View::Lapsed), Write::Keep));
    let mut unparked = first(Column::U);
    unparked.parked = None;
    refuse("no beginning", &claim(TAKE), Some(&unparked), &context(0), ErrorKind::Corrupt);
    for column in [Column::Fresh, Column::Exp] {
        let mut empty = first(column);
        empty.outcome = None;
        let complete = Complete::new(held(OWN), outcome(), Retention::forever());
        refuse("no outcome", &claim(TAKE), Some(&empty), &context(0), ErrorKind::Corrupt);
        refuse("no outcome", &complete, Some(&empty), &context(0), ErrorKind::Corrupt);
        refuse("no outcome", &Erase::new(id()), Some(&empty), &context(0), ErrorKind::Corrupt);
        refuse("no outcome", &Sweep::new(id()), Some(&empty), &context(0), ErrorKind::Corrupt);
        let timeless = Record { completed_at: None, ..first(column) };
        refuse("no time", &claim(TAKE), Some(&timeless), &context(0), ErrorKind::Corrupt);
    }
}

/// A change that makes a record impossible.
type Breakage = fn(&mut Record);

/// What a store refuses to have read (G-50), one reason at a time. The records that are broken here pass before.
#[test]
fn every_reason_for_a_corrupt_record() {
    let of = |column| first(column);
    let table: [(&str, Record, Breakage); 13] = [
        ("has no outcome", of(Column::Fresh), |it| it.outcome = None),
        ("has no outcome", of(Column::Exp), |it| it.completed_at = None),
        ("has no attempt", of(Column::Live), |it| it.current = None),
        ("has no attempt", of(Column::U), |it| it.current = None),
        ("does not say since when", of(Column::U), |it| it.parked = None),
        ("has an outcome or an expiry", of(Column::R), |it| it.outcome = first(Column::Fresh).outcome),
        ("has an outcome or an expiry", of(Column::Lapsed), |it| it.response_until = Some(NOW)),
        ("has an outcome or an expiry", of(Column::U), |it| it.identity_until = Some(NOW)),
        ("beyond 2^53", of(Column::Live), |it| it.current.as_mut().unwrap().fence = Fence::new(1 << 53)),
        ("beyond 2^53", of(Column::R), |it| it.fence_floor = Fence::new(1 << 53)),
        ("forgotten its fingerprint", of(Column::Live), |it| it.fingerprint = None),
        ("forgotten its fingerprint", of(Column::Fresh), |it| it.fingerprint = None),
        ("forgotten its fingerprint", of(Column::U), |it| it.fingerprint = None),
    ];
    for (complaint, record, change) in table {
        assert!(record.check().is_ok(), "{record:#?}");
        let mut broken = record;
        change(&mut broken);
        let error = broken.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(complaint), "{error} instead of {complaint}");
    }
    let mut last = first(Column::Live);
    last.current.as_mut().unwrap().fence = Fence::new((1 << 53) - 1);
    assert!(last.check().is_ok(), "the last fence below 2^53 is one");
}

#[test]
fn views_have_words() {
    let words: Vec<_> = View::ALL.iter().map(|view| view.name()).collect();
    assert_eq!(words, ["absent", "received", "running", "lapsed", "completed", "expired", "uncertain"]);
    assert_eq!(format!("[{:>9}]", View::Lapsed), "[   lapsed]");
    let facts = shapes(Column::Live, 0).into_iter().filter_map(|shape| shape.record);
    let fact = facts.flat_map(|record| record.checkpoints).next().unwrap();
    assert_eq!(format!("{fact:?}"), "charged#2: <4 bytes>");
}

/// The history is bounded and loses its oldest first; the lease deadline of what it lost is still known (G-19).
#[test]
fn the_history_is_bounded() {
    let make = makes().into_iter().find(|make| make.depth == Depth::First && make.mode == Mode::Execute);
    let mut record = Some(make.unwrap().record(State::Received, at(100_000), Some(Ending::Released)));
    for turn in 0..=u8::try_from(HISTORY_MAX).unwrap() {
        let attempt = crate::AttemptId::from_bytes([turn; 16]);
        let granting = claim(TAKE).attempt(attempt);
        let step = granting.apply(record.as_ref(), &context(0)).unwrap();
        let Write::Put(granted) = step.write else { panic!("{step:?}") };
        assert_eq!(granted.earlier.len(), HISTORY_MAX.min(usize::from(turn) + 1));
        assert_eq!(granted.earlier_lease_until, at(100_000));
        let step = Release::new(held(attempt)).apply(Some(&granted), &context(0)).unwrap();
        let Write::Put(released) = step.write else { panic!("{step:?}") };
        // Remembered ids are never granted again.
        for earlier in &released.earlier {
            let again = claim(TAKE).attempt(earlier.id).apply(Some(&released), &context(0)).unwrap();
            assert_eq!((again.answer, again.write), (Claimed::Ended, Write::Keep));
        }
        record = Some(*released);
    }
    let oldest = record.unwrap().earlier.remove(0);
    assert_eq!((oldest.number, oldest.id), (2, crate::AttemptId::from_bytes([0; 16])));
}

/// The lapse is judged by the taker's guard to the millisecond; between deadline and guard the holder still holds.
#[test]
fn a_guard_only_delays_the_taker() {
    for guard_ms in GUARDS_MS {
        let guard = i64::try_from(guard_ms).unwrap();
        for (deadline, view, left) in [
            (-guard, View::Lapsed, 0),
            (1 - guard, View::Running, u64::from(guard == 0)),
            (-1 - guard, View::Lapsed, 0),
            (1, View::Running, 1),
        ] {
            let mut record = first(Column::Live);
            record.current.as_mut().unwrap().lease_until = at(deadline);
            assert_eq!(context(guard_ms).view(Some(&record)), view);
            let own = claim(TAKE).attempt(OWN);
            let again = expect::grant(&record, true);
            assert!(matches!(&again, Claimed::Granted(grant) if grant.remaining_ms == left));
            verify("own", &own, Some(&record), &context(guard_ms), &again, &After::Same);
            let step = claim(TAKE).apply(Some(&record), &context(guard_ms)).unwrap();
            assert_eq!(matches!(step.answer, Claimed::Granted(_)), view == View::Lapsed);
        }
    }
}

/// Stores index `sweep_at`: a sweep has something to do from that instant on, and not before (G-43).
#[test]
fn a_sweep_is_due_from_the_instant_that_stores_index() {
    for column in Column::ALL {
        for shape in shapes(column, 0) {
            let Some(record) = shape.record else { continue };
            let due_at = record.sweep_at(STEP_MS);
            assert!(due_at.is_none() || record.state == State::Completed, "{}", shape.name);
            let ends = [due_at, record.response_until, record.identity_until, record.purge_at(STEP_MS)];
            let around = ends.into_iter().flatten().flat_map(|end| [-1, 0, 1].map(|ms| later(end, ms)));
            for now in around.chain([NOW, at(1_000_000)]) {
                let mut context = context(0);
                context.now = now;
                let step = Sweep::new(id()).apply(Some(&record), &context).unwrap();
                let due = due_at.is_some_and(|due_at| now >= due_at);
                assert_eq!(step.answer != SweepStep::Kept, due, "{} at {now:?}: {due_at:?}", shape.name);
            }
        }
    }
}

fn later(instant: Timestamp, ms: i64) -> Timestamp {
    Timestamp::from_millis(instant.as_millis().saturating_add_signed(ms))
}

/// Every transition tells its operation, by which a store finds the record.
#[test]
fn a_request_names_its_operation() {
    let mut ids = vec![
        claim(TAKE).id().clone(),
        Register::new(id(), FINGERPRINT).id().clone(),
        Renew::new(held(OWN), Lease::default()).id().clone(),
        Complete::new(held(OWN), outcome(), Retention::forever()).id().clone(),
        Release::new(held(OWN)).id().clone(),
        Park::new(held(OWN)).id().clone(),
        Erase::new(id()).id().clone(),
        Sweep::new(id()).id().clone(),
    ];
    let fact = crate::request::SaveCheckpoint::new(held(OWN), label("charged"), "", Lease::default());
    ids.push(fact.id().clone());
    let verdict = crate::request::Verdict::DidNotHappen { settle_ms: 0 };
    let seen = first(Column::U);
    ids.push(crate::request::Resolve::new(&seen, verdict, label("ops"), label("why")).id().clone());
    assert!(ids.iter().all(|named| *named == id()));
}

/// The defaults of a context: no guard, and the declared step.
#[test]
fn a_context_is_what_it_was_made_of() {
    let plain = Context::at(NOW);
    assert_eq!((plain.now, plain.guard_ms, plain.step_ms), (NOW, 0, 300_000));
    assert_eq!(plain.limits, crate::Limits::default());
    let limits = crate::Limits { checkpoints_max: 1, ..crate::Limits::default() };
    let set = plain.guard_ms(3).step_ms(4).limits(limits);
    assert_eq!((set.guard_ms, set.step_ms, set.limits), (3, 4, limits));
    let created = Register::new(id(), FINGERPRINT).apply(None, &plain).unwrap();
    assert_eq!(created.answer, Registered::Created);
}
