//! Held writes: the second table of section 11, and whom the record hears (G-15).

use bytes::Bytes;

use super::expect;
use super::fixture::{GUARDS_MS, NOW, OWN, Shape, at, context, id, label, shapes};
use super::table::{After, Cell, cells, verify};
use crate::Limits;
use crate::answer::{Checkpointed, Parked, Renewed};
use crate::attempt::AttemptId;
use crate::record::{Checkpoint, Record};
use crate::request::{Held, Park, Renew, SaveCheckpoint};
use crate::time::{Lease, Timestamp};

pub(super) const TABLE: &str = "
| held write, own | R | P live, P lapsed alike | C | U |
|---|---|---|---|---|
| renew | Fenced = | Renewed | Settled = | Parked = |
| checkpoint | Fenced = | Recorded / Duplicate / Differs / Full, renews | Settled = | Parked = |
| complete | Fenced = | Completed | AlreadyCompleted = (same or erased digest) / OutcomeConflict = | Completed |
| release | AlreadyReleased = | Execute: Released; Recover: with reason Released, without InvalidInput = | Settled = | Parked = |
| park | Fenced = | Parked | Settled = | AlreadyParked = |
";

/// Leases that end before, at and after any deadline of a shape.
const LEASES_MS: [u64; 4] = [1, 50, 20_000, 60_000];

pub(super) fn held(attempt: AttemptId) -> Held {
    Held::new(id(), attempt)
}

fn lease(millis: u64) -> Lease {
    Lease::new(std::time::Duration::from_millis(millis)).unwrap()
}

/// Runs `check` over every cell of `row`, for every shape of its column that was granted to [`OWN`].
pub(super) fn each(row: &str, check: impl Fn(&Cell, &Shape, &Record, u64)) {
    let mut checked = 0;
    for cell in cells(TABLE).iter().filter(|cell| cell.row == row) {
        for guard_ms in GUARDS_MS {
            for shape in shapes(cell.column, guard_ms) {
                if let Some(record) = shape.record.as_ref().filter(|record| record.current.is_some()) {
                    check(cell, &shape, record, guard_ms);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 1000, "only {checked} records were written to");
}

/// Renewing sets max(stored deadline, now + lease) (G-13).
fn later(record: &Record, lease_ms: u64) -> Timestamp {
    record.current.as_ref().unwrap().lease_until.max(at(i64::try_from(lease_ms).unwrap()))
}

fn renewed(record: &Record, lease_ms: u64) -> (u64, Record) {
    let mut after = expect::written(record);
    after.current.as_mut().unwrap().lease_until = later(record, lease_ms);
    (later(record, lease_ms).as_millis() - NOW.as_millis(), after)
}

#[test]
fn every_cell_of_renew() {
    each("renew", |cell, shape, record, guard_ms| {
        for lease_ms in LEASES_MS {
            let (answer, after) = match cell.text {
                "Fenced =" => (Renewed::Fenced(cell.column.view()), After::Same),
                "Settled =" => (Renewed::Settled, After::Same),
                "Parked =" => (Renewed::Parked, After::Same),
                "Renewed" => {
                    let (remaining_ms, after) = renewed(record, lease_ms);
                    (Renewed::Renewed { remaining_ms }, After::put(after))
                }
                other => panic!("{other:?} is not the answer to a renewal"),
            };
            let renew = Renew::new(held(OWN), lease(lease_ms));
            verify(&shape.name, &renew, Some(record), &context(guard_ms), &answer, &after);
        }
    });
}

fn fact(attempt_number: u32, name: &str, value: &'static [u8], at: Timestamp) -> Checkpoint {
    Checkpoint { attempt_number, name: label(name), value: Bytes::from_static(value), at }
}

/// What a checkpoint finds: the facts there, and what it says itself.
type Facts = (&'static str, &'static [u8], &'static str);

#[test]
fn every_cell_of_checkpoint() {
    let limits = Limits { checkpoints_max: 3, checkpoint_bytes_max: 4, ..Limits::default() };
    // Name and value of the request, and the word of the cell, on a record that holds "charged" = "ch_1" of an earlier
    // attempt and "sent" = "s" of this one.
    let with_room: [Facts; 7] = [
        ("charged", b"ch_1", "Recorded"),
        ("charged", b"ch_2", "Recorded"),
        ("sent", b"s", "Duplicate"),
        ("sent", b"t", "Differs"),
        ("sent", b"", "Differs"),
        ("new", b"12345", "Full"),
        ("sent", b"12345", "Differs"),
    ];
    // The same on a record that holds as many facts as it may.
    let full: [Facts; 4] = [
        ("charged", b"ch_1", "Full"),
        ("new", b"", "Full"),
        ("sent", b"s", "Duplicate"),
        ("sent", b"t", "Differs"),
    ];
    each("checkpoint", |cell, shape, record, guard_ms| {
        let number = record.current.as_ref().unwrap().number;
        for (requests, extra) in [(&with_room[..], 0), (&full[..], 1)] {
            for &(name, value, word) in requests {
                let mut record = record.clone();
                record.checkpoints =
                    vec![fact(2, "charged", b"ch_1", at(-9)), fact(number, "sent", b"s", at(-8))];
                record.checkpoints.extend((0..extra).map(|_| fact(number, "third", b"", at(-7))));
                if number == 2 {
                    continue;
                }
                for lease_ms in LEASES_MS {
                    let request = SaveCheckpoint::new(held(OWN), label(name), value, lease(lease_ms));
                    let (answer, after) = cell_of_checkpoint(cell, &record, &request, word, lease_ms);
                    let context = context(guard_ms).limits(limits);
                    let what = format!("{name}={value:?}, {word}, on {}", shape.name);
                    verify(&what, &request, Some(&record), &context, &answer, &after);
                }
            }
        }
    });
}

fn cell_of_checkpoint(
    cell: &Cell,
    record: &Record,
    request: &SaveCheckpoint,
    word: &str,
    lease_ms: u64,
) -> (Checkpointed, After) {
    match cell.text {
        "Fenced =" => return (Checkpointed::Fenced(cell.column.view()), After::Same),
        "Settled =" => return (Checkpointed::Settled, After::Same),
        "Parked =" => return (Checkpointed::Parked, After::Same),
        "Recorded / Duplicate / Differs / Full, renews" => {}
        other => panic!("{other:?} is not the answer to a checkpoint"),
    }
    let (remaining_ms, mut after) = renewed(record, lease_ms);
    match word {
        "Recorded" => {
            let (name, value) = (request.name.clone(), request.value.clone());
            let attempt_number = record.current.as_ref().unwrap().number;
            after.checkpoints.push(Checkpoint { attempt_number, name, value, at: NOW });
            (Checkpointed::Recorded { remaining_ms }, After::put(after))
        }
        "Duplicate" => (Checkpointed::Duplicate { remaining_ms }, After::put(after)),
        // A refused fact renews nothing: its holder made an error and has something else to do than to go on.
        "Differs" => (Checkpointed::Differs, After::Same),
        "Full" => (Checkpointed::Full, After::Same),
        other => panic!("no checkpoint is {other:?}"),
    }
}

#[test]
fn every_cell_of_park() {
    each("park", |cell, shape, record, guard_ms| {
        for note in [None, Some("the bank did not answer")] {
            let (answer, after) = match cell.text {
                "Fenced =" => (Parked::Fenced(cell.column.view()), After::Same),
                "Settled =" => (Parked::Settled, After::Same),
                "AlreadyParked =" => (Parked::AlreadyParked, After::Same),
                "Parked" => {
                    let after = expect::parked_by_holder(record, note.map(label));
                    (Parked::Parked { since: NOW }, After::put(after))
                }
                other => panic!("{other:?} is not the answer to a park"),
            };
            let park = note.into_iter().fold(Park::new(held(OWN)), Park::note);
            verify(&shape.name, &park, Some(record), &context(guard_ms), &answer, &after);
        }
    });
}
