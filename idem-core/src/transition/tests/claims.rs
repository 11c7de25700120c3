//! Register and claim: the first table of section 11.

use bytes::Bytes;

use super::expect;
use super::fixture::{
    CLASSES, Column, FINGERPRINT, GUARDS_MS, NOW, OTHER, OWN, Shape, context, id, label, shapes,
};
use super::table::{After, Cell, cells, refuse, verify};
use crate::answer::{Claimed, Registered};
use crate::attempt::AttemptId;
use crate::fingerprint::{Fingerprint, Fingerprints};
use crate::record::{EffectClass, Mode, ParkCause, Record};
use crate::request::{Claim, Intent, OnLapse, Register};
use crate::time::Lease;
use crate::{ErrorKind, Limits};

const TABLE: &str = "
| | A, A* | R | P live | P lapsed | C fresh | C exp | U |
|---|---|---|---|---|---|---|---|
| register | Created | Exists = (forgotten: sets it) | Exists = | Exists = | Exists = | Exists{Expired} = | Exists = |
| claim run, other | Granted Execute | Granted Execute | InProgress = | L | Replay = | Expired = | Uncertain = |
| claim run, own | - | Ended = | Granted again = | Granted again, 0 left = | Replay = | Expired = | Uncertain = |
| claim, ended | - | Ended = | InProgress = | Ended = | Replay = | Expired = | Uncertain = |
| claim recover, other | Nothing = | Nothing = | InProgress = | Granted Recover (Local: Nothing =) | Replay = | Expired = | Granted Recover |
| claim recover, own | - | Ended = | Granted again = | Granted again, 0 left = | Replay = | Expired = | Uncertain = |
";

const RUNS: [Intent; 2] = [Intent::Run(OnLapse::Park), Intent::Run(OnLapse::Take)];
const ANY: [Intent; 3] = [RUNS[0], RUNS[1], Intent::Recover];

/// The fingerprints of a request, and whether they agree with [`FINGERPRINT`].
fn fingerprints() -> [(Fingerprints, bool); 5] {
    let other_value = Fingerprint::custom([8; 32]);
    let other_version = FINGERPRINT.version(2);
    let new_first = Fingerprints::new(other_version, &[FINGERPRINT]).unwrap();
    let both_wrong = Fingerprints::new(other_version, &[other_value]).unwrap();
    [
        (FINGERPRINT.into(), true),
        (new_first, true),
        (other_value.into(), false),
        (both_wrong, false),
        (other_version.into(), false),
    ]
}

/// The claims of a row: what for, and under which ids on this record. A record without attempts has no own or ended.
fn asked(row: &str, record: Option<&Record>) -> (&'static [Intent], Vec<AttemptId>) {
    let own = || record.and_then(|record| record.current.as_ref()).map(|own| own.id).into_iter().collect();
    let ended = || record.iter().flat_map(|record| &record.earlier).map(|attempt| attempt.id).collect();
    match row {
        "claim run, other" => (&RUNS, vec![OTHER]),
        "claim run, own" => (&RUNS, own()),
        "claim, ended" => (&ANY, ended()),
        "claim recover, other" => (&[Intent::Recover], vec![OTHER]),
        "claim recover, own" => (&[Intent::Recover], own()),
        _ => panic!("no row is called {row:?}"),
    }
}

/// Every claim of a row: intent, id, class, limit of attempts, traceparent.
fn claims(row: &str, record: Option<&Record>) -> Vec<Claim> {
    let (intents, ids) = asked(row, record);
    let number = record.and_then(|record| record.current.as_ref()).map_or(0, |attempt| attempt.number);
    let mut claims = Vec::new();
    // The oldest and the newest of the ended ids stand for all.
    for attempt in ids.first().into_iter().chain(ids.get(1..).and_then(<[_]>::last)) {
        for &intent in intents {
            for effect in CLASSES {
                for attempts_max in [None, Some(0), Some(number), Some(number + 1)] {
                    let mut claim = Claim::new(id(), FINGERPRINT, label("claimer")).intent(intent);
                    claim = claim.effect(effect).attempt(*attempt).lease(lease(2500));
                    claim.attempts_max = attempts_max;
                    claim.traceparent = (effect != EffectClass::Opaque).then(|| label("00-second"));
                    claims.push(claim);
                }
            }
        }
    }
    claims
}

fn lease(millis: u64) -> Lease {
    Lease::new(std::time::Duration::from_millis(millis)).unwrap()
}

/// The answer and the record that a cell says.
fn cell_of_claim(cell: &Cell, record: Option<&Record>, claim: &Claim, guard_ms: u64) -> (Claimed, After) {
    let base = expect::base(record, cell.column.view());
    let grant = |mode| {
        let granted = expect::granted(&base, claim, mode);
        (expect::grant(&granted, false), After::put(granted))
    };
    let answer = match cell.text {
        "Granted Execute" => return grant(Mode::Execute),
        "Granted Recover" => return grant(Mode::Recover),
        // A Local attempt that lapsed was rolled back: there is nothing to find out. One that was itself granted for
        // recovery proves nothing about the attempts before it, so recovery goes on.
        "Granted Recover (Local: Nothing =)" if !rolled_back(&base) => return grant(Mode::Recover),
        "Granted Recover (Local: Nothing =)" | "Nothing =" => Claimed::Nothing,
        "L" => return cell_l(&base, claim),
        "InProgress =" => expect::in_progress(&base, guard_ms),
        "Granted again =" => expect::grant(&base, true),
        "Granted again, 0 left =" => {
            let again = expect::grant(&base, true);
            assert!(matches!(&again, Claimed::Granted(grant) if grant.remaining_ms == 0));
            again
        }
        "Ended =" => Claimed::Ended,
        "Replay =" => expect::replay(&base),
        "Expired =" => expect::expired(&base),
        "Uncertain =" => expect::uncertain(&base),
        other => panic!("{other:?} is not the answer to a claim"),
    };
    (answer, After::Same)
}

/// The lapsed attempt ran in a fenced transaction of the store, and so did all before it (G-18).
fn rolled_back(record: &Record) -> bool {
    record.effect == EffectClass::Local && record.current.as_ref().unwrap().mode == Mode::Execute
}

/// "L, first match: number + 1 > max: park, `Uncertain`. Stored and claimed class Local: Granted Execute. `Park`: park,
/// `Uncertain`. Else Granted Recover."
fn cell_l(before: &Record, claim: &Claim) -> (Claimed, After) {
    let next = before.current.as_ref().unwrap().number + 1;
    let park =
        |cause| (Claimed::Uncertain { since: NOW }, After::put(expect::parked_by(before, claim, cause)));
    let grant = |mode| {
        let granted = expect::granted(before, claim, mode);
        (expect::grant(&granted, false), After::put(granted))
    };
    if claim.attempts_max.is_some_and(|max| next > max) {
        park(ParkCause::AttemptsExhausted)
    } else if rolled_back(before) && claim.effect == EffectClass::Local {
        grant(Mode::Execute)
    } else if claim.intent == Intent::Run(OnLapse::Park) {
        park(ParkCause::Lapse)
    } else {
        grant(Mode::Recover)
    }
}

/// Runs `check` over every cell of the rows that `rows` admits, for every shape of its column.
fn each(rows: impl Fn(&str) -> bool, check: impl Fn(&Cell, &Shape, u64)) {
    for cell in cells(TABLE).iter().filter(|cell| rows(cell.row)) {
        for guard_ms in GUARDS_MS {
            for shape in shapes(cell.column, guard_ms) {
                check(cell, &shape, guard_ms);
            }
        }
    }
}

#[test]
fn every_cell_of_claim() {
    let checked = std::cell::Cell::new(0_u32);
    each(
        |row| row.starts_with("claim"),
        |cell, shape, guard_ms| {
            if cell.text == "-" {
                return;
            }
            for claim in claims(cell.row, shape.record.as_ref()) {
                let (answer, after) = cell_of_claim(cell, shape.record.as_ref(), &claim, guard_ms);
                assert!(!cell.text.ends_with('=') || after == After::Same);
                let what = format!("{} on {}: {}", cell.row, shape.name, cell.text);
                verify(&what, &claim, shape.record.as_ref(), &context(guard_ms), &answer, &after);
                checked.set(checked.get() + 1);
            }
        },
    );
    assert!(checked.get() > 50_000, "only {} claims were checked", checked.get());
}

/// "Fingerprint mismatch on register/claim: `Conflict` = (a forgotten fingerprint matches all)", before the attempt and
/// the state are looked at, and after absence by time (G-05, G-41, G-50).
#[test]
fn a_claim_compares_fingerprints_first() {
    each(
        |row| row.starts_with("claim"),
        |cell, shape, guard_ms| {
            let record = shape.record.as_ref();
            let absent = matches!(cell.column, Column::A | Column::AStar);
            let forgotten = record.is_some_and(|record| record.fingerprint.is_none());
            for (fingerprints, agree) in fingerprints() {
                for mut claim in claims(cell.row, record).into_iter().step_by(5) {
                    claim.fingerprints = fingerprints;
                    let (answer, after) = match cell.text {
                        "-" => continue,
                        _ if agree || absent || forgotten => cell_of_claim(cell, record, &claim, guard_ms),
                        _ => (Claimed::Conflict, After::Same),
                    };
                    let what = format!("{} on {}: {fingerprints:?}", cell.row, shape.name);
                    verify(&what, &claim, record, &context(guard_ms), &answer, &after);
                }
            }
        },
    );
}

/// The "-" under A\*: the identity is absent for every request, its attempts included, swept or not (G-41).
#[test]
fn over_an_expired_identity_every_id_is_a_new_one() {
    each(
        |row| row.starts_with("claim"),
        |cell, shape, guard_ms| {
            for claim in claims(cell.row, shape.record.as_ref()) {
                let text = match claim.intent {
                    _ if cell.text != "-" => return,
                    Intent::Run(_) => "Granted Execute",
                    Intent::Recover => "Nothing =",
                };
                let cell = Cell { text, ..cell.clone() };
                let (answer, after) = cell_of_claim(&cell, shape.record.as_ref(), &claim, guard_ms);
                verify(&shape.name, &claim, shape.record.as_ref(), &context(guard_ms), &answer, &after);
            }
        },
    );
}

#[test]
fn every_cell_of_register() {
    each(
        |row| row == "register",
        |cell, shape, guard_ms| {
            let record = shape.record.as_ref();
            let absent = matches!(cell.column, Column::A | Column::AStar);
            let forgotten = record.is_some_and(|record| record.fingerprint.is_none());
            for (fingerprints, agree) in fingerprints() {
                for payload in [None, Some(Bytes::new()), Some(Bytes::from_static(b"new"))] {
                    let mut register = Register::new(id(), fingerprints);
                    register.payload = payload;
                    let set = || {
                        let base = expect::base(record, cell.column.view());
                        After::put(expect::registered(&base, &register))
                    };
                    let exists = Registered::Exists { view: cell.column.view() };
                    let (answer, after) = match cell.text {
                        _ if !(agree || absent || forgotten) => (Registered::Conflict, After::Same),
                        "Created" => (Registered::Created, set()),
                        "Exists = (forgotten: sets it)" if forgotten => (exists, set()),
                        "Exists =" | "Exists{Expired} =" | "Exists = (forgotten: sets it)" => {
                            (exists, After::Same)
                        }
                        other => panic!("{other:?} is not the answer to a registration"),
                    };
                    let what = format!("register on {}: {}", shape.name, cell.text);
                    verify(&what, &register, record, &context(guard_ms), &answer, &after);
                }
            }
        },
    );
}

/// Input is checked before anything else (G-50): a payload beyond the limit, whatever is stored.
#[test]
fn a_payload_beyond_the_limit_is_refused_whatever_is_stored() {
    let limits = Limits { payload_bytes_max: 8, ..Limits::default() };
    for column in Column::ALL {
        for shape in shapes(column, 0) {
            let context = context(0).limits(limits);
            let conflicting = Register::new(id(), Fingerprint::custom([8; 32])).payload(&b"123456789"[..]);
            refuse(&shape.name, &conflicting, shape.record.as_ref(), &context, ErrorKind::InvalidInput);
        }
    }
    let fits = Register::new(id(), FINGERPRINT).payload(&b"12345678"[..]);
    let created = After::put(expect::registered(&expect::begun(None), &fits));
    verify("8 bytes", &fits, None, &context(0).limits(limits), &Registered::Created, &created);
}

#[test]
fn the_own_id_of_every_record_is_known() {
    let own: Vec<_> =
        shapes(Column::U, 0).iter().flat_map(|s| claims("claim run, own", s.record.as_ref())).collect();
    assert!(!own.is_empty() && own.iter().all(|claim| claim.attempt == OWN));
}
