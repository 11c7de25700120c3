//! A record as a row: columns for what statements compute with, parts and lists for what they only carry.

use idem_core::codec::{Tagged, part};
use idem_core::record::{AbsenceReason, Attempt, Ending, ParkCause, Parking};
use idem_core::{AttemptId, Fence, Label, Mode, OperationId, Record, Result, State, Timestamp};

/// The current attempt, in columns of its own: a held write changes it without reading it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Current {
    pub(crate) number: u32,
    pub(crate) id: [u8; 16],
    pub(crate) owner: String,
    pub(crate) mode: u8,
    pub(crate) fence: u64,
    pub(crate) started_at: u64,
    pub(crate) lease_until: u64,
    pub(crate) ended_at: Option<u64>,
    pub(crate) ended_how: Option<u8>,
    pub(crate) absence: Option<Vec<u8>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) state: u8,
    pub(crate) version: u64,
    pub(crate) fingerprint: Option<Vec<u8>>,
    pub(crate) effect: Vec<u8>,
    pub(crate) registered: bool,
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) current: Option<Current>,
    pub(crate) earlier: Vec<u8>,
    pub(crate) earlier_lease_until: u64,
    pub(crate) fence_floor: u64,
    pub(crate) checkpoints: Vec<u8>,
    pub(crate) parked: Option<(u64, String, u8, Option<String>)>,
    pub(crate) resolution: Vec<u8>,
    pub(crate) outcome: Option<Vec<u8>>,
    pub(crate) content: Option<Vec<u8>>,
    /// Created, updated, first granted, completed, response and identity deadlines.
    pub(crate) times: [Option<u64>; 6],
    pub(crate) traceparent: Option<String>,
}

fn millis(time: Timestamp) -> u64 {
    time.as_millis()
}

fn text(label: &Label) -> String {
    label.as_str().to_owned()
}

impl Row {
    pub(crate) fn of(record: &Record) -> Self {
        let id = &record.id;
        let current = record.current.as_ref().map(|attempt| Current {
            number: attempt.number,
            id: *attempt.id.as_bytes(),
            owner: text(&attempt.owner),
            mode: attempt.mode.tag(),
            fence: attempt.fence.get(),
            started_at: millis(attempt.started_at),
            lease_until: millis(attempt.lease_until),
            ended_at: attempt.ended.map(|(at, _)| millis(at)),
            ended_how: attempt.ended.map(|(_, how)| how.tag()),
            absence: attempt.absence.map(|reason| part::encode(id, &reason)),
        });
        let outcome = record.outcome.as_deref().map(|outcome| part::encode_outcome(id, outcome));
        let (outcome, content) = outcome.map_or((None, None), |(head, content)| (Some(head), content));
        Self {
            state: record.state.tag(),
            version: record.version,
            fingerprint: record.fingerprint.map(|fingerprint| part::encode(id, &fingerprint)),
            effect: part::encode(id, &record.effect),
            registered: record.registered,
            payload: record.payload.as_ref().map(|payload| payload.to_vec()),
            current,
            earlier: part::entries(id, &record.earlier),
            earlier_lease_until: millis(record.earlier_lease_until),
            fence_floor: record.fence_floor.get(),
            checkpoints: part::entries(id, &record.checkpoints),
            parked: record.parked.as_ref().map(|parking| {
                let note = parking.note.as_ref().map(text);
                (millis(parking.since), text(&parking.by), parking.cause.tag(), note)
            }),
            resolution: record
                .resolution
                .as_deref()
                .map(|resolution| part::entries(id, std::slice::from_ref(resolution)))
                .unwrap_or_default(),
            outcome,
            content,
            times: [
                Some(millis(record.created_at)),
                Some(millis(record.updated_at)),
                record.first_grant_at.map(millis),
                record.completed_at.map(millis),
                record.response_until.map(millis),
                record.identity_until.map(millis),
            ],
            traceparent: record.traceparent.as_ref().map(text),
        }
    }

    pub(crate) fn record(&self, id: &OperationId) -> Result<Record> {
        let time = |index: usize| self.times[index].map(Timestamp::from_millis);
        let mut record = Record::new(id.clone(), time(0).unwrap());
        record.state = State::from_tag(self.state).unwrap();
        record.version = self.version;
        record.fingerprint = self.fingerprint.as_deref().map(|bytes| part::decode(id, bytes)).transpose()?;
        record.effect = part::decode(id, &self.effect)?;
        record.registered = self.registered;
        record.payload = self.payload.clone().map(Into::into);
        record.current = self.current.as_ref().map(|current| attempt(id, current)).transpose()?;
        record.earlier = part::decode_entries(id, &self.earlier)?;
        record.earlier_lease_until = Timestamp::from_millis(self.earlier_lease_until);
        record.fence_floor = Fence::new(self.fence_floor);
        record.checkpoints = part::decode_entries(id, &self.checkpoints)?;
        if let Some((since, by, cause, note)) = &self.parked {
            let (by, cause) = (Label::new(by)?, ParkCause::from_tag(*cause).unwrap());
            let mut parking = Parking::new(Timestamp::from_millis(*since), by, cause);
            parking.note = note.as_deref().map(Label::new).transpose()?;
            record.parked = Some(Box::new(parking));
        }
        record.resolution = part::decode_entries(id, &self.resolution)?.pop().map(Box::new);
        if let Some(head) = &self.outcome {
            record.outcome = Some(Box::new(part::decode_outcome(id, head, self.content.as_deref())?));
        }
        record.updated_at = time(1).unwrap();
        record.first_grant_at = time(2);
        record.completed_at = time(3);
        (record.response_until, record.identity_until) = (time(4), time(5));
        record.traceparent = self.traceparent.as_deref().map(Label::new).transpose()?;
        record.check()?;
        Ok(record)
    }
}

fn attempt(id: &OperationId, current: &Current) -> Result<Attempt> {
    let mut attempt = Attempt::new(
        current.number,
        AttemptId::from_bytes(current.id),
        Label::new(&current.owner)?,
        Mode::from_tag(current.mode).unwrap(),
        Fence::new(current.fence),
        Timestamp::from_millis(current.started_at),
        Timestamp::from_millis(current.lease_until),
    );
    attempt.ended = current
        .ended_at
        .zip(current.ended_how)
        .map(|(at, how)| (Timestamp::from_millis(at), Ending::from_tag(how).unwrap()));
    attempt.absence =
        current.absence.as_deref().map(|bytes| part::decode::<AbsenceReason>(id, bytes)).transpose()?;
    Ok(attempt)
}
