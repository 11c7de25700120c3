//! Records in every column of the decision table, in every shape that a rule tells apart.

use bytes::Bytes;

use crate::attempt::{AttemptId, Fence, Label};
use crate::fingerprint::Fingerprint;
use crate::key::OperationId;
use crate::outcome::{Omission, Outcome, StoredOutcome};
use crate::record::{
    Attempt, Checkpoint, EffectClass, Ending, HISTORY_MAX, Mode, ParkCause, Parking, Record, Resolution,
    State, View,
};
use crate::time::Timestamp;
use crate::transition::Context;

/// The instant of every step.
pub(super) const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// With a store's clock, and with callers whose clocks differ (G-60).
pub(super) const GUARDS_MS: [u64; 2] = [0, 50];
/// The largest backward step of the clock in these tests (G-14).
pub(super) const STEP_MS: u64 = 1000;
/// The id of the latest attempt of every record here.
pub(super) const OWN: AttemptId = AttemptId::from_bytes([0xFF; 16]);
/// An id that no record here knows.
pub(super) const OTHER: AttemptId = AttemptId::from_bytes([0xEE; 16]);
/// The fingerprint of every record here that is not forgotten.
pub(super) const FINGERPRINT: Fingerprint = Fingerprint::custom([7; 32]);

pub(super) fn context(guard_ms: u64) -> Context {
    Context::at(NOW).guard_ms(guard_ms).step_ms(STEP_MS)
}

pub(super) fn id() -> OperationId {
    OperationId::new("acme", "charge/v1", "order-1").unwrap()
}

pub(super) fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

/// `NOW` and so many milliseconds later, or earlier.
pub(super) fn at(offset_ms: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis().checked_add_signed(offset_ms).unwrap())
}

pub(super) fn outcome() -> Outcome {
    Outcome::success().body("done").header("content-type", "text/plain").reference("invoice-9")
}

/// The columns of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    A,
    AStar,
    R,
    Live,
    Lapsed,
    Fresh,
    Exp,
    U,
}

impl Column {
    pub(super) const ALL: [Self; 8] =
        [Self::A, Self::AStar, Self::R, Self::Live, Self::Lapsed, Self::Fresh, Self::Exp, Self::U];

    /// The columns that a header of the contract means.
    pub(super) fn named(header: &str) -> Vec<Self> {
        match header {
            "A, A*" => vec![Self::A, Self::AStar],
            "R" => vec![Self::R],
            "P live" => vec![Self::Live],
            "P lapsed" => vec![Self::Lapsed],
            "P" | "P live, P lapsed alike" => vec![Self::Live, Self::Lapsed],
            "C fresh" => vec![Self::Fresh],
            "C exp" => vec![Self::Exp],
            "C" => vec![Self::Fresh, Self::Exp],
            "U" => vec![Self::U],
            _ => panic!("no column is called {header:?}"),
        }
    }

    /// What requests are told about it: `Fenced{state}`, `Exists{state}`.
    pub(super) fn view(self) -> View {
        match self {
            Self::A | Self::AStar => View::Absent,
            Self::R => View::Received,
            Self::Live => View::Running,
            Self::Lapsed => View::Lapsed,
            Self::Fresh => View::Completed,
            Self::Exp => View::Expired,
            Self::U => View::Uncertain,
        }
    }
}

/// What lies behind the latest attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Nothing: it is attempt 1.
    First,
    /// Two attempts, one checkpoint.
    Third,
    /// More than the history holds.
    Full,
}

/// What the records of a column differ in, whatever the column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Make {
    pub(super) mode: Mode,
    pub(super) effect: EffectClass,
    pub(super) depth: Depth,
    /// The last fence is ahead of the clock.
    pub(super) fence_ahead: bool,
    pub(super) registered: bool,
}

pub(super) const CLASSES: [EffectClass; 4] = [
    EffectClass::Opaque,
    EffectClass::Keyed { remembers_for_ms: 86_400_000 },
    EffectClass::Keyed { remembers_for_ms: 3_600_000 },
    EffectClass::Local,
];

pub(super) fn makes() -> Vec<Make> {
    let mut makes = Vec::new();
    for mode in [Mode::Execute, Mode::Recover] {
        for effect in CLASSES {
            for depth in [Depth::First, Depth::Third, Depth::Full] {
                for fence_ahead in [false, true] {
                    let registered = (depth == Depth::Third) != fence_ahead;
                    makes.push(Make { mode, effect, depth, fence_ahead, registered });
                }
            }
        }
    }
    makes
}

/// The id of attempt `number`, for attempts before the latest.
pub(super) fn ended_id(number: u32) -> AttemptId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    AttemptId::from_bytes(bytes)
}

fn ended(number: u32, ending: Ending) -> Attempt {
    Attempt {
        number,
        id: ended_id(number),
        owner: label("earlier"),
        mode: if number == 1 { Mode::Execute } else { Mode::Recover },
        fence: Fence::new(u64::from(number)),
        started_at: at(-9000),
        lease_until: at(-8000),
        ended: Some((at(-8500), ending)),
        absence: None,
    }
}

impl Make {
    /// A record whose latest attempt is [`OWN`] and ended as `ending`.
    pub(super) fn record(&self, state: State, lease_until: Timestamp, ending: Option<Ending>) -> Record {
        let last = Attempt {
            number: match self.depth {
                Depth::First => 1,
                Depth::Third => 3,
                Depth::Full => 40,
            },
            id: OWN,
            owner: label("holder"),
            mode: self.mode,
            fence: Fence::new(if self.fence_ahead { at(10_000) } else { at(-5000) }.as_millis()),
            started_at: at(-5000),
            lease_until,
            ended: ending.map(|ending| (at(-100), ending)),
            absence: None,
        };
        let earlier: Vec<_> = match self.depth {
            Depth::First => vec![],
            Depth::Third => vec![ended(1, Ending::Released), ended(2, Ending::Lapsed)],
            Depth::Full => (40 - u32::try_from(HISTORY_MAX).unwrap()..40)
                .map(|number| ended(number, Ending::Lapsed))
                .collect(),
        };
        let fact = Checkpoint {
            attempt_number: 2,
            name: label("charged"),
            value: Bytes::from_static(b"ch_1"),
            at: at(-8700),
        };
        let resolution =
            Resolution { at: at(-8400), actor: label("ops"), reason: label("ticket 4"), happened: false };
        Record {
            id: id(),
            fingerprint: Some(FINGERPRINT),
            state,
            version: 7,
            effect: self.effect,
            registered: self.registered,
            payload: self.registered.then(|| Bytes::from_static(b"payload")),
            current: Some(last),
            earlier,
            earlier_lease_until: match self.depth {
                Depth::First => Timestamp::EPOCH,
                Depth::Third => at(-8000),
                // An attempt that the history no longer holds was released early in a long lease.
                Depth::Full => at(4000),
            },
            fence_floor: Fence::new(u64::from(self.fence_ahead)),
            checkpoints: if self.depth == Depth::Third { vec![fact] } else { vec![] },
            parked: None,
            resolution: (self.depth == Depth::Full).then(|| Box::new(resolution)),
            outcome: None,
            created_at: at(-20_000),
            updated_at: at(-100),
            first_grant_at: Some(at(-15_000)),
            completed_at: None,
            response_until: None,
            identity_until: None,
            traceparent: (self.depth != Depth::First).then(|| label("00-first")),
        }
    }

    /// A completed record that keeps its outcome until `response_until` and its identity until `identity_until`.
    pub(super) fn completed(
        &self,
        response_until: Option<Timestamp>,
        identity_until: Option<Timestamp>,
        omission: Option<Omission>,
    ) -> Record {
        let outcome = outcome();
        let mut stored = StoredOutcome::of(&outcome, outcome.digest(), omission);
        let mut record = self.record(State::Completed, at(-50), Some(Ending::Completed));
        if omission == Some(Omission::Erased) {
            stored.digest = None;
        }
        if matches!(omission, Some(Omission::Erased | Omission::Expired)) {
            record.payload = None;
            record.checkpoints.iter_mut().for_each(|fact| fact.value = Bytes::new());
        }
        record.outcome = Some(Box::new(stored));
        record.completed_at = Some(at(-100));
        record.response_until = response_until;
        record.identity_until = identity_until;
        record
    }

    pub(super) fn uncertain(&self, lease_until: Timestamp, cause: ParkCause) -> Record {
        let mut record = self.record(State::Uncertain, lease_until, Some(Ending::Parked));
        let parking = Parking { since: at(-100), by: label("parker"), cause, note: Some(label("no answer")) };
        record.parked = Some(Box::new(parking));
        record
    }

    /// The records of `column`, each with what makes it different.
    fn shapes(&self, column: Column, guard_ms: u64) -> Vec<(&'static str, Option<Record>)> {
        let lapse = at(-i64::try_from(guard_ms).unwrap());
        let released = || self.record(State::Received, at(500), Some(Ending::Released));
        match column {
            Column::A => vec![("absent", None)],
            Column::AStar => vec![
                ("identity ends now", Some(self.completed(Some(NOW), Some(NOW), None))),
                ("and is swept", Some(self.completed(Some(at(-9)), Some(at(-1)), Some(Omission::Expired)))),
            ],
            Column::R => vec![
                ("never granted", Some(never_granted(self))),
                ("released", Some(released())),
                ("resolved", Some(self.record(State::Received, at(-500), Some(Ending::Resolved)))),
                (
                    "forgotten",
                    Some(Record { fingerprint: None, registered: false, payload: None, ..released() }),
                ),
            ],
            Column::Live => vec![
                ("1 ms before the lapse", Some(self.record(State::Processing, lapse.plus_millis(1), None))),
                ("long before the lapse", Some(self.record(State::Processing, at(20_000), None))),
            ],
            Column::Lapsed => vec![
                ("lapsed now", Some(self.record(State::Processing, lapse, None))),
                ("lapsed long ago", Some(self.record(State::Processing, at(-3000), None))),
            ],
            Column::Fresh => vec![
                ("kept for good", Some(self.completed(None, None, None))),
                ("1 ms before expiry", Some(self.completed(Some(at(1)), Some(at(1)), None))),
                ("body omitted", Some(self.completed(None, None, Some(Omission::TooLarge)))),
            ],
            Column::Exp => vec![
                ("expires now", Some(self.completed(Some(NOW), Some(at(1)), None))),
                ("omitted and expired", Some(self.completed(Some(NOW), None, Some(Omission::TooLarge)))),
                ("swept", Some(self.completed(Some(at(-9)), None, Some(Omission::Expired)))),
                ("erased", Some(self.completed(None, None, Some(Omission::Erased)))),
            ],
            Column::U => vec![
                ("parked by its holder", Some(self.uncertain(at(700), ParkCause::Holder))),
                ("parked over a lapse", Some(self.uncertain(at(-3000), ParkCause::Lapse))),
            ],
        }
    }
}

/// Registered over an identity that expired in place, and never granted since.
fn never_granted(make: &Make) -> Record {
    let mut record = make.record(State::Received, NOW, None);
    record.fence_floor = record.fence();
    record.current = None;
    record.earlier.clear();
    record.earlier_lease_until = Timestamp::EPOCH;
    record.checkpoints.clear();
    record.resolution = None;
    record.first_grant_at = None;
    record.traceparent = None;
    record.effect = EffectClass::Opaque;
    record.registered = true;
    record
}

/// A record of a column, and the words for it.
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) record: Option<Record>,
}

/// Every shape of `column`, as a store with this guard sees it now.
pub(super) fn shapes(column: Column, guard_ms: u64) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for make in makes() {
        for (what, record) in make.shapes(column, guard_ms) {
            let name = format!("{column:?}, {what}, {make:?}, guard {guard_ms} ms");
            shapes.push(Shape { name, record });
        }
        if column == Column::A {
            break;
        }
    }
    shapes
}

#[test]
fn every_shape_is_in_its_column() {
    for guard_ms in GUARDS_MS {
        for column in Column::ALL {
            for shape in shapes(column, guard_ms) {
                assert_eq!(context(guard_ms).view(shape.record.as_ref()), column.view(), "{}", shape.name);
                if let Some(record) = shape.record {
                    record.check().unwrap_or_else(|error| panic!("{}: {error:?}", shape.name));
                }
            }
        }
    }
}
