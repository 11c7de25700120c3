//! Held writes as one conditional update of a row that nobody has read, held against the transition functions.

use idem_core::codec::{Tagged, part};
use idem_core::record::{AbsenceReason, Checkpoint, Ending, ParkCause, Resolution};
use idem_core::request::{
    Complete, Erase, Intent, OnLapse, Park, Release, Renew, Resolve, SaveCheckpoint, Verdict,
};
use idem_core::transition::{Context, Transition, Write};
use idem_core::{
    Claim, EffectClass, Fingerprint, Label, Lease, Limits, OperationId, Outcome, Record, Retention, State,
    StoredOutcome, Timestamp, Ttl,
};

use super::row::Row;

/// What a statement knows: its parameters, and `now` when it runs. `row` is what it addresses, not what it has read.
struct Statement<'r> {
    row: &'r mut Row,
    now: u64,
}

impl Statement<'_> {
    /// What every held write sets, and how an attempt that ends with it ended.
    fn held(&mut self, ended: Option<Ending>) {
        self.row.version += 1;
        self.row.times[1] = Some(self.now);
        if let (Some(how), Some(current)) = (ended, &mut self.row.current) {
            (current.ended_at, current.ended_how) = (Some(self.now), Some(how.tag()));
        }
    }

    fn renew(&mut self, lease: Lease) {
        self.held(None);
        let current = self.row.current.as_mut().unwrap();
        current.lease_until = current.lease_until.max(self.now + lease.as_millis());
    }

    fn checkpoint(&mut self, lease: Lease, entry: &[u8]) {
        self.renew(lease);
        self.row.checkpoints.extend_from_slice(&self.now.to_be_bytes());
        self.row.checkpoints.extend_from_slice(entry);
    }

    fn complete(&mut self, (head, content): (Vec<u8>, Option<Vec<u8>>), retention: Retention) {
        self.held(Some(Ending::Completed));
        let deadline = |ttl| match ttl {
            Ttl::Millis(millis) => Some(self.now + millis),
            _ => None,
        };
        self.row.state = State::Completed.tag();
        (self.row.outcome, self.row.content, self.row.parked) = (Some(head), content, None);
        self.row.times[3] = Some(self.now);
        self.row.times[4] = deadline(retention.response_ttl());
        self.row.times[5] = deadline(retention.identity_ttl());
    }

    fn release(&mut self, absence: Option<Vec<u8>>) {
        self.held(Some(Ending::Released));
        self.row.state = State::Received.tag();
        self.row.current.as_mut().unwrap().absence = absence;
    }

    fn park(&mut self, note: Option<String>) {
        self.held(Some(Ending::Parked));
        self.row.state = State::Uncertain.tag();
        let owner = self.row.current.as_ref().unwrap().owner.clone();
        self.row.parked = Some((self.now, owner, ParkCause::Holder.tag(), note));
    }
}

/// One operation, as the transition functions have it.
struct World {
    record: Option<Record>,
    now: u64,
}

impl World {
    fn apply<T: Transition>(&mut self, request: &T) {
        let context = Context::at(Timestamp::from_millis(self.now));
        match request.apply(self.record.as_ref(), &context).unwrap().write {
            Write::Put(record) => self.record = Some(*record),
            write => panic!("{write:?} at {}", self.now),
        }
        let record = self.record.as_ref().unwrap();
        assert_eq!(&Row::of(record).record(&record.id).unwrap(), record);
    }

    /// The request, and the statement on the row as it was: both end in the same row.
    fn held<T: Transition>(&mut self, request: &T, statement: impl FnOnce(&mut Statement<'_>)) {
        let mut row = Row::of(self.record.as_ref().unwrap());
        statement(&mut Statement { row: &mut row, now: self.now });
        self.apply(request);
        assert_eq!(row, Row::of(self.record.as_ref().unwrap()));
        self.now += 10;
    }

    fn claim(&mut self, claim: &Claim) {
        self.apply(claim);
        self.now += 10;
    }
}

fn label(text: &str) -> Label {
    Label::new(text).unwrap()
}

#[test]
fn every_held_write_is_one_statement_on_a_row_that_nobody_read() {
    let id = OperationId::new("t", "o", "k").unwrap();
    let lease = Lease::default();
    let claim = |owner| Claim::new(id.clone(), Fingerprint::bytes(b"10 EUR"), label(owner));
    let take = |owner| claim(owner).intent(Intent::Run(OnLapse::Take));
    let mut world = World { record: None, now: 1_700_000_000_000 };

    let first = claim("first");
    world.claim(&first);
    world.held(&Renew::new(first.held(), lease), |statement| statement.renew(lease));
    world.held(&Release::new(first.held()), |statement| statement.release(None));

    let second = claim("second");
    world.claim(&second);
    let save = SaveCheckpoint::new(second.held(), label("sent"), "ch_1", lease);
    let fact = part::entry(&id, &Checkpoint::new(2, label("sent"), "ch_1", Timestamp::EPOCH));
    world.held(&save, |statement| statement.checkpoint(lease, &fact));
    world.now += 60_000;

    let third = take("third");
    world.claim(&third);
    let reason = AbsenceReason::Quiesced { settle_ms: 1 };
    let absence = Some(part::encode(&id, &reason));
    world.held(&Release::new(third.held()).absence(reason), |statement| statement.release(absence));

    let fourth = claim("fourth");
    world.claim(&fourth);
    let parked = Park::new(fourth.held()).note("no answer");
    world.held(&parked, |statement| statement.park(Some("no answer".to_owned())));
    world.now += 60_000;
    let verdict = Verdict::DidNotHappen { settle_ms: 1 };
    let seen = world.record.clone().unwrap();
    world.apply(&Resolve::new(&seen, verdict, label("ops"), label("statement")));

    let fifth = claim("fifth");
    world.claim(&fifth);
    let outcome = Outcome::success().body("paid").reference("invoice-9");
    let retention = Retention::forever().response(Ttl::Millis(500)).unwrap();
    let complete = Complete::new(fifth.held(), outcome.clone(), retention);
    let limit = Limits::default().body_bytes_max;
    let stored = StoredOutcome::within(&outcome, outcome.digest(), retention, limit);
    world.held(&complete, |statement| statement.complete(part::encode_outcome(&id, &stored), retention));
    let record = world.record.as_ref().unwrap();
    assert_eq!((record.earlier.len(), record.checkpoints.len()), (4, 1));
    assert_eq!(
        record.resolution,
        Some(Box::new(Resolution::new(
            record.resolution.as_ref().unwrap().at,
            label("ops"),
            label("statement"),
            false,
        )))
    );

    // A sweep that drops the content column alone shows what a sweep by the transition shows.
    let mut row = Row::of(record);
    row.content = None;
    let late = record.response_until.unwrap();
    let swept = row.record(&id).unwrap().as_read(late).unwrap();
    assert_eq!(swept.outcome, record.clone().as_read(late).unwrap().outcome);

    world.apply(&Erase::new(id.clone()));
}

#[test]
fn a_take_over_appends_to_the_history_without_knowing_when() {
    let id = OperationId::new("t", "o", "k").unwrap();
    let claim = |owner| Claim::new(id.clone(), Fingerprint::bytes(b"10 EUR"), label(owner));
    let keyed = |remembers_for_ms| EffectClass::Keyed { remembers_for_ms };
    let mut world = World { record: None, now: 1_700_000_000_000 };
    for (round, effect) in [keyed(500), keyed(700), EffectClass::Opaque, keyed(300)].into_iter().enumerate() {
        let seen = world.record.clone();
        world.claim(&claim("next").intent(Intent::Run(OnLapse::Take)).effect(effect));
        if let Some(seen) = seen {
            let class = part::encode(&id, &seen.effect.weakest(effect));
            assert_eq!(class, Row::of(world.record.as_ref().unwrap()).effect, "round {round}");
            let mut earlier = part::entries(&id, &seen.earlier);
            earlier.extend_from_slice(&(world.now - 10).to_be_bytes());
            earlier.extend_from_slice(&part::entry(&id, seen.current.as_ref().unwrap()));
            assert_eq!(earlier, Row::of(world.record.as_ref().unwrap()).earlier, "round {round}");
        }
        world.now += 60_000;
    }
}
