//! Requests without an attempt: the third table of section 11 (G-06, G-22, G-41, G-43, G-44).

use bytes::Bytes;

use super::expect;
use super::fixture::{Column, GUARDS_MS, NOW, STEP_MS, Shape, at, context, id, label, outcome, shapes};
use super::table::{After, Cell, cells, verify};
use crate::Limits;
use crate::answer::{Erased, Resolved};
use crate::attempt::Fence;
use crate::outcome::{Content, Omission, Outcome};
use crate::record::{Ending, Record, Resolution, State, View};
use crate::request::{Erase, Resolve, Verdict};
use crate::time::{Retention, Timestamp, Ttl};
use crate::transition::{Sweep, SweepStep};

const TABLE: &str = "
| no attempt | A, A* | R | P | C fresh | C exp | U |
|---|---|---|---|---|---|---|
| resolve completed | NotFound = | NotUncertain = | NotUncertain = | NotUncertain{last} = | same | Stale = if (fence, version) differ; else C |
| resolve did not happen | NotFound = | NotUncertain{last} = | NotUncertain = | NotUncertain = | same | Stale =; TooEarly =; else R |
| get | none | record | record | record with outcome | record without | record |
| erase | NotFound = | Unfinished = | Unfinished = | Erased | Erased / AlreadyErased = | Unfinished = |
| sweep | A*: purge by G-14, else erase content | = | = | = | erase content | = |
";

fn each(row: &str, check: impl Fn(&Cell, &Shape, u64)) {
    for cell in cells(TABLE).iter().filter(|cell| cell.row == row) {
        for guard_ms in GUARDS_MS {
            shapes(cell.column, guard_ms).iter().for_each(|shape| check(cell, shape, guard_ms));
        }
    }
}

/// A verdict on the record as it is, or with what a stale operator saw.
fn resolve(record: Option<&Record>, verdict: Verdict) -> Resolve {
    Resolve {
        id: id(),
        fence: record.map_or(Fence::new(0), Record::fence),
        version: record.map_or(0, |record| record.version),
        verdict,
        actor: label("ops"),
        reason: label("ticket 9"),
    }
}

/// What an operator decided, in the record (G-22).
fn resolution(happened: bool) -> Option<Box<Resolution>> {
    Some(Box::new(Resolution { at: NOW, actor: label("ops"), reason: label("ticket 9"), happened }))
}

/// `NotFound` and `NotUncertain`, or `None` where the column is U.
fn not_uncertain(cell: &Cell, record: Option<&Record>) -> Option<Resolved> {
    match cell.text {
        "NotFound =" => Some(Resolved::NotFound),
        // The last resolution is told on every column: an operator that repeats its verdict finds it there.
        "NotUncertain =" | "NotUncertain{last} =" => Some(Resolved::NotUncertain {
            view: cell.column.view(),
            last: record.and_then(|record| record.resolution.clone()),
        }),
        _ => None,
    }
}

/// The answers to an operator that saw another fence, another version, or both.
fn stale(shape: &Shape, request: &Resolve, guard_ms: u64) {
    let (fence, version) = (request.fence, request.version);
    let older = Fence::new(fence.get() - 1);
    for (seen_fence, seen_version) in [(older, version), (fence, version - 1), (fence, version + 1)] {
        let request = Resolve { fence: seen_fence, version: seen_version, ..request.clone() };
        let answer = Resolved::Stale { fence, version };
        verify(&shape.name, &request, shape.record.as_ref(), &context(guard_ms), &answer, &After::Same);
    }
}

#[test]
fn every_cell_of_resolve_completed() {
    let limits = Limits { body_bytes_max: 25, ..Limits::default() };
    let small = Outcome::failure("declined").body("no").reference("r");
    each("resolve completed", |cell, shape, guard_ms| {
        let record = shape.record.as_ref();
        for (outcome, too_large) in [(small.clone(), false), (outcome(), true)] {
            for ttl in [Ttl::Forever, Ttl::Millis(0), Ttl::Millis(80)] {
                let retention = Retention::forever().response(ttl).unwrap();
                let request = resolve(record, Verdict::Completed { outcome: outcome.clone(), retention });
                let (answer, after) = if let Some(answer) = not_uncertain(cell, record) {
                    (answer, After::Same)
                } else {
                    assert_eq!(cell.text, "Stale = if (fence, version) differ; else C");
                    stale(shape, &request, guard_ms);
                    let mut after =
                        expect::completed(record.unwrap(), &outcome, retention, too_large, Ending::Resolved);
                    after.resolution = resolution(true);
                    let view = if ttl == Ttl::Millis(0) { View::Expired } else { View::Completed };
                    (Resolved::Resolved { view }, After::put(after))
                };
                let context = context(guard_ms).limits(limits);
                verify(&shape.name, &request, record, &context, &answer, &after);
            }
        }
    });
}

#[test]
fn every_cell_of_resolve_did_not_happen() {
    each("resolve did not happen", |cell, shape, guard_ms| {
        let record = shape.record.as_ref();
        let too_early = Verdict::DidNotHappen { settle_ms: 100_000_000 };
        if let Some(answer) = not_uncertain(cell, record) {
            let request = resolve(record, too_early);
            verify(&shape.name, &request, record, &context(guard_ms), &answer, &After::Same);
            return;
        }
        assert_eq!(cell.text, "Stale =; TooEarly =; else R");
        stale(shape, &resolve(record, too_early), guard_ms);
        let record = record.unwrap();
        // The latest deadline of all attempts counts, not only the last attempt's, and the clocks' difference (G-60).
        let own_deadline = record.current.as_ref().unwrap().lease_until;
        let last_deadline = own_deadline.max(record.earlier_lease_until).plus_millis(guard_ms);
        for settle_ms in [0, 100_000] {
            let until = last_deadline.plus_millis(settle_ms);
            let request = resolve(Some(record), Verdict::DidNotHappen { settle_ms });
            for (now, early) in [(before(until), true), (until, false)] {
                let mut context = context(guard_ms);
                context.now = now;
                let (answer, after) = if early {
                    (Resolved::TooEarly { until }, After::Same)
                } else {
                    (Resolved::Resolved { view: View::Received }, After::put(not_happened(record, now)))
                };
                verify(&shape.name, &request, Some(record), &context, &answer, &after);
            }
        }
    });
}

fn before(instant: Timestamp) -> Timestamp {
    Timestamp::from_millis(instant.as_millis() - 1)
}

/// Back to R, with the verdict (G-22); attempts, facts and fingerprint stay.
fn not_happened(record: &Record, now: Timestamp) -> Record {
    let mut current = record.current.clone().unwrap();
    current.ended = Some((now, Ending::Resolved));
    let resolution = Resolution { at: now, ..*resolution(false).unwrap() };
    Record {
        state: State::Received,
        parked: None,
        current: Some(current),
        resolution: Some(Box::new(resolution)),
        updated_at: now,
        ..expect::written(record)
    }
}

#[test]
fn every_cell_of_get() {
    each("get", |cell, shape, guard_ms| {
        let record = shape.record.clone();
        let expected = match cell.text {
            "none" => None,
            "record" => record.clone(),
            "record with outcome" => {
                assert!(record.as_ref().unwrap().outcome.is_some());
                record.clone()
            }
            "record without" => Some(without_content(record.as_ref().unwrap(), Omission::Expired)),
            other => panic!("{other:?} is not the answer to a get"),
        };
        let read = record.and_then(|record| record.as_read(NOW));
        assert_eq!(read, expected, "{}", shape.name);
        // A reader judges what it got as the store would have (a guard is the store's, and kept by neither).
        if let Some(read) = read.filter(|_| guard_ms == 0) {
            assert_eq!(read.view(NOW, 0), cell.column.view(), "{}", shape.name);
        }
    });
}

/// A listing shows no content, and a reader of its page judges every record as the store did.
#[test]
fn a_listed_record_keeps_its_view() {
    for column in Column::ALL {
        for shape in shapes(column, 0) {
            let Some(record) = shape.record else { continue };
            let listed = record.clone().without_content();
            assert_eq!(listed.view(NOW, 0), column.view(), "{}", shape.name);
            assert_eq!(listed, without_content(&record, Omission::Unread), "{}", shape.name);
        }
    }
}

/// Without body, headers, payload and checkpoint values; a content that was gone already keeps its reason.
fn without_content(record: &Record, why: Omission) -> Record {
    let mut record = record.clone();
    record.payload = None;
    record.checkpoints.iter_mut().for_each(|fact| fact.value = Bytes::new());
    if let Some(stored) = &mut record.outcome
        && matches!(stored.content, Content::Kept { .. })
    {
        stored.content = Content::Omitted { content_bytes: outcome().content_bytes() as u64, why };
    }
    record
}

/// Body, headers, payload and checkpoint values are gone; kind, class and reference stay (G-43, G-44).
fn emptied(record: &Record, why: Omission) -> Record {
    let mut after = without_content(&expect::written(record), why);
    let content_bytes = outcome().content_bytes() as u64;
    after.outcome.as_mut().unwrap().content = Content::Omitted { content_bytes, why };
    after
}

#[test]
fn every_cell_of_erase() {
    each("erase", |cell, shape, guard_ms| {
        let record = shape.record.as_ref();
        for with_reference in [false, true] {
            let erase = Erase { id: id(), reference: with_reference };
            let erased = || {
                let mut after = emptied(record.unwrap(), Omission::Erased);
                let outcome = after.outcome.as_mut().unwrap();
                outcome.digest = None;
                if with_reference {
                    outcome.reference = None;
                }
                (Erased::Erased, After::put(after))
            };
            let gone =
                record.and_then(|record| record.outcome.as_ref()?.omission()) == Some(Omission::Erased);
            let (answer, after) = match cell.text {
                "NotFound =" => (Erased::NotFound, After::Same),
                "Unfinished =" => (Erased::Unfinished { view: cell.column.view() }, After::Same),
                "Erased" => erased(),
                // A reference that is still there goes on request, although the content went before.
                "Erased / AlreadyErased =" if !gone || with_reference => erased(),
                "Erased / AlreadyErased =" => (Erased::AlreadyErased, After::Same),
                other => panic!("{other:?} is not the answer to an erasure"),
            };
            verify(&shape.name, &erase, record, &context(guard_ms), &answer, &after);
            if let After::Record(after) = after {
                let context = context(guard_ms);
                verify(&shape.name, &erase, Some(&after), &context, &Erased::AlreadyErased, &After::Same);
            }
        }
    });
}

#[test]
fn every_cell_of_sweep() {
    each("sweep", |cell, shape, guard_ms| {
        let Some(record) = shape.record.as_ref() else { return };
        let fence_passed = NOW.as_millis() > record.fence().get() + STEP_MS;
        let (answer, after) = match cell.text {
            "=" => (SweepStep::Kept, After::Same),
            "A*: purge by G-14, else erase content" if fence_passed => (SweepStep::Purged, After::Removed),
            "A*: purge by G-14, else erase content" | "erase content" => swept(record),
            other => panic!("{other:?} is not what a sweep does"),
        };
        let context = context(guard_ms);
        verify(&shape.name, &Sweep::new(id()), Some(record), &context, &answer, &after);
        if let After::Record(after) = after {
            verify(&shape.name, &Sweep::new(id()), Some(&after), &context, &SweepStep::Kept, &After::Same);
        }
    });
    verify("nothing", &Sweep::new(id()), None, &context(0), &SweepStep::Kept, &After::Same);
}

/// Content is erased once; the digest stays, so that a late repetition of the completion is still told (G-16).
fn swept(record: &Record) -> (SweepStep, After) {
    let why = match record.outcome.as_ref().unwrap().omission() {
        Some(Omission::Erased) => Omission::Erased,
        _ => Omission::Expired,
    };
    let after = emptied(record, why);
    let same = Record { version: record.version, updated_at: record.updated_at, ..after.clone() } == *record;
    if same { (SweepStep::Kept, After::Same) } else { (SweepStep::Erased, After::put(after)) }
}

/// What remains after an expired response: payload and facts too are content (G-43). Each alone is a reason to write.
#[test]
fn a_sweep_leaves_no_content_behind() {
    let swept_once = || {
        let mut found = shapes(Column::Exp, 0).into_iter().filter_map(|shape| shape.record);
        found.find(|it| it.outcome.as_ref().unwrap().omission() == Some(Omission::Expired)).unwrap()
    };
    let with_payload = Record { payload: Some(Bytes::new()), ..swept_once() };
    let with_fact = {
        let records = shapes(Column::Exp, 0).into_iter().filter_map(|shape| shape.record);
        let mut facts = records.map(|record| record.checkpoints).filter(|facts| !facts.is_empty());
        Record { checkpoints: facts.next().unwrap(), ..swept_once() }
    };
    for record in [with_payload, with_fact] {
        let after = After::put(emptied(&record, Omission::Expired));
        verify("left over", &Sweep::new(id()), Some(&record), &context(0), &SweepStep::Erased, &after);
    }
}

/// "Purged only when `now >= identity deadline` and `now > fence + step`" (G-14), to the millisecond.
#[test]
fn a_purge_waits_for_both_bounds() {
    let mut record = shapes(Column::AStar, 0).remove(0).record.unwrap();
    let step = i64::try_from(STEP_MS).unwrap();
    for (identity, fence, purged) in [
        (0, -step - 1, true),
        (0, -step, false),
        (0, -step + 1, false),
        (1, -step - 1, false),
        (-1, -step - 1, true),
        (-1, -step, false),
    ] {
        record.identity_until = Some(at(identity));
        record.current.as_mut().unwrap().fence = Fence::new(at(fence).as_millis());
        record.response_until = Some(at(1));
        let (answer, after) = match purged {
            true => (SweepStep::Purged, After::Removed),
            false if identity > 0 => (SweepStep::Kept, After::Same),
            false => swept(&record),
        };
        let what = format!("identity {identity}, fence {fence}");
        verify(&what, &Sweep::new(id()), Some(&record), &context(0), &answer, &after);
    }
}
