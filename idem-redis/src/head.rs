//! The head of a record: everything that a script computes with, at fixed places, so that a held write reads and writes
//! one field. `lua/common.lua` has the same table.

use idem_core::codec::Tagged;
use idem_core::record::Ending;
use idem_core::request::Release;
use idem_core::transition::{Context, Transition as _};
use idem_core::{AttemptId, Error, Fence, Mode, Record, Result, State, Timestamp};

use crate::row::damaged;

/// The format of the whole record. A record of a later one is left alone and said to be `Corrupt`.
const FORMAT: u8 = 1;
const BYTES: usize = 131;

/// It was registered before its first grant.
const REGISTERED: u8 = 1;
/// A release of the current attempt that asks for it forgets the fingerprint, unless there are checkpoints or the
/// release itself says that something may have happened (G-31).
const FORGETTABLE: u8 = 2;

/// The current attempt, without its owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Current {
    pub(crate) number: u32,
    pub(crate) id: AttemptId,
    pub(crate) mode: Mode,
    pub(crate) fence: Fence,
    pub(crate) started_at: Timestamp,
    pub(crate) lease_until: Timestamp,
    pub(crate) ended: Option<(Timestamp, Ending)>,
}

#[derive(Debug)]
pub(crate) struct Head {
    state: State,
    registered: bool,
    forgettable: bool,
    version: u64,
    updated_at: Timestamp,
    pub(crate) checkpoints: u16,
    completed_at: Option<Timestamp>,
    response_until: Option<Timestamp>,
    identity_until: Option<Timestamp>,
    pub(crate) current: Option<Current>,
    first_grant_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    earlier_lease_until: Timestamp,
    fence_floor: Fence,
}

/// Whether a release of the current attempt would forget the fingerprint now: the transition itself is asked.
fn forgettable(record: &Record) -> bool {
    let Some(current) = record.current.as_ref().filter(|_| record.state == State::Processing) else {
        return false;
    };
    let held = idem_core::request::Held::new(record.id.clone(), current.id);
    let step = Release::new(held).forget().apply(Some(record), &Context::at(record.updated_at));
    matches!(step.map(|step| step.answer), Ok(idem_core::answer::Released::Released { forgotten: true }))
}

impl Head {
    pub(crate) fn of(record: &Record) -> Self {
        Self {
            state: record.state,
            registered: record.registered,
            forgettable: forgettable(record),
            version: record.version,
            updated_at: record.updated_at,
            checkpoints: u16::try_from(record.checkpoints.len()).unwrap_or(u16::MAX),
            completed_at: record.completed_at,
            response_until: record.response_until,
            identity_until: record.identity_until,
            current: record.current.as_ref().map(|attempt| Current {
                number: attempt.number,
                id: attempt.id,
                mode: attempt.mode,
                fence: attempt.fence,
                started_at: attempt.started_at,
                lease_until: attempt.lease_until,
                ended: attempt.ended,
            }),
            first_grant_at: record.first_grant_at,
            created_at: record.created_at,
            earlier_lease_until: record.earlier_lease_until,
            fence_floor: record.fence_floor,
        }
    }

    pub(crate) fn put_into(&self, record: &mut Record) {
        record.state = self.state;
        record.registered = self.registered;
        record.version = self.version;
        record.updated_at = self.updated_at;
        record.completed_at = self.completed_at;
        record.response_until = self.response_until;
        record.identity_until = self.identity_until;
        record.first_grant_at = self.first_grant_at;
        record.earlier_lease_until = self.earlier_lease_until;
        record.fence_floor = self.fence_floor;
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
        let current = self.current.as_ref();
        let millis = |time: Timestamp| time.as_millis().to_be_bytes();
        let optional = |time: Option<Timestamp>| time.map_or(0, |time| time.as_millis() + 1).to_be_bytes();
        let mut flags = 0;
        if self.registered {
            flags |= REGISTERED;
        }
        if self.forgettable {
            flags |= FORGETTABLE;
        }
        let ended = current.and_then(|current| current.ended);
        bytes.extend_from_slice(&[FORMAT, self.state.tag(), flags]);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(&millis(self.updated_at));
        bytes.extend_from_slice(&millis(current.map_or(Timestamp::EPOCH, |current| current.lease_until)));
        bytes.push(ended.map_or(0, |(_, how)| how.tag() + 1));
        bytes.extend_from_slice(&millis(ended.map_or(Timestamp::EPOCH, |(at, _)| at)));
        bytes.extend_from_slice(&self.checkpoints.to_be_bytes());
        for time in [self.completed_at, self.response_until, self.identity_until] {
            bytes.extend_from_slice(&optional(time));
        }
        bytes.extend_from_slice(current.map_or(&[0; 16], |current| current.id.as_bytes()));
        bytes.extend_from_slice(&current.map_or(0, |current| current.fence.get()).to_be_bytes());
        bytes.extend_from_slice(&current.map_or(0, |current| current.number).to_be_bytes());
        bytes.push(current.map_or(0, |current| current.mode.tag()));
        bytes.extend_from_slice(&millis(current.map_or(Timestamp::EPOCH, |current| current.started_at)));
        bytes.extend_from_slice(&optional(self.first_grant_at));
        bytes.extend_from_slice(&millis(self.created_at));
        bytes.extend_from_slice(&millis(self.earlier_lease_until));
        bytes.extend_from_slice(&self.fence_floor.get().to_be_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        match bytes.first() {
            Some(&FORMAT) if bytes.len() == BYTES => {}
            Some(&format) if format > FORMAT => {
                return Err(Error::corrupt(format!(
                    "a record in Redis has format version {format}, and this program knows versions up to {FORMAT}: it \
                     was written by a newer version of idem, or is damaged"
                )));
            }
            _ => return Err(damaged("its head has the wrong size")),
        }
        let mut reader = Reader(bytes.get(1..).unwrap_or_default());
        let state = State::from_tag(reader.byte()?).ok_or_else(|| damaged("its state is unknown"))?;
        let flags = reader.byte()?;
        let (version, updated_at, lease_until) = (reader.number()?, reader.time()?, reader.time()?);
        let (how, ended_at) = (reader.byte()?, reader.time()?);
        let checkpoints = u16::from_be_bytes(reader.array()?);
        let [completed_at, response_until, identity_until] =
            [reader.optional()?, reader.optional()?, reader.optional()?];
        let (id, fence) = (AttemptId::from_bytes(reader.array()?), Fence::new(reader.number()?));
        let (number, mode) = (u32::from_be_bytes(reader.array()?), reader.byte()?);
        let (started_at, first_grant_at) = (reader.time()?, reader.optional()?);
        let (created_at, earlier_lease_until) = (reader.time()?, reader.time()?);
        let fence_floor = Fence::new(reader.number()?);
        let mode = Mode::from_tag(mode).ok_or_else(|| damaged("its mode is unknown"))?;
        let ended = match how.checked_sub(1) {
            None => None,
            Some(tag) => Some((
                ended_at,
                Ending::from_tag(tag).ok_or_else(|| damaged("its attempt ended in an unknown way"))?,
            )),
        };
        let current = Current { number, id, mode, fence, started_at, lease_until, ended };
        Ok(Self {
            state,
            registered: flags & REGISTERED != 0,
            forgettable: flags & FORGETTABLE != 0,
            version,
            updated_at,
            checkpoints,
            completed_at,
            response_until,
            identity_until,
            current: (number > 0).then_some(current),
            first_grant_at,
            created_at,
            earlier_lease_until,
            fence_floor,
        })
    }
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (array, rest) =
            self.0.split_first_chunk::<N>().ok_or_else(|| damaged("its head is cut short"))?;
        self.0 = rest;
        Ok(*array)
    }

    fn byte(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn time(&mut self) -> Result<Timestamp> {
        let millis = self.number()?;
        if millis > Timestamp::MAX.as_millis() {
            return Err(damaged("a time of it is beyond 2^53"));
        }
        Ok(Timestamp::from_millis(millis))
    }

    /// 0 is none, everything else is one more than the time.
    fn optional(&mut self) -> Result<Option<Timestamp>> {
        match self.number()?.checked_sub(1) {
            None => Ok(None),
            Some(millis) if millis > Timestamp::MAX.as_millis() => {
                Err(damaged("a time of it is beyond 2^53"))
            }
            Some(millis) => Ok(Some(Timestamp::from_millis(millis))),
        }
    }
}
