//! Requests without an attempt: resolve, erase, sweep (section 11). Trusted code only (G-06).

use bytes::Bytes;

use super::claim::no_outcome;
use super::held::set_completed;
use super::{Context, Step, Transition, Write, keep, put};
use crate::answer::{Erased, Resolved};
use crate::error::Result;
use crate::key::OperationId;
use crate::outcome::{Omission, StoredOutcome};
use crate::record::{Ending, Record, Resolution, State, View};
use crate::request::{Erase, Resolve, Verdict};

impl Transition for Resolve {
    type Answer = Resolved;

    fn id(&self) -> &OperationId {
        &self.id
    }

    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<Resolved>> {
        let view = context.view(stored);
        let Some(record) = stored.filter(|_| view != View::Absent) else {
            return keep(Resolved::NotFound);
        };
        if view != View::Uncertain {
            return keep(Resolved::NotUncertain { view, last: record.resolution.clone() });
        }
        if (record.fence(), record.version) != (self.fence, self.version) {
            return keep(Resolved::Stale { fence: record.fence(), version: record.version });
        }
        let mut next = record.clone();
        let happened = match &self.verdict {
            Verdict::Completed { outcome, retention } => {
                set_completed(&mut next, outcome, outcome.digest(), *retention, context);
                true
            }
            Verdict::DidNotHappen { settle_ms } => {
                let until = context.settled_at(record.last_lease_until(), *settle_ms);
                if context.now < until {
                    return keep(Resolved::TooEarly { until });
                }
                next.state = State::Received;
                next.parked = None;
                false
            }
        };
        if let Some(current) = &mut next.current {
            current.ended = Some((context.now, Ending::Resolved));
        }
        next.resolution = Some(Box::new(Resolution {
            at: context.now,
            actor: self.actor.clone(),
            reason: self.reason.clone(),
            happened,
        }));
        let view = context.view(Some(&next));
        put(Resolved::Resolved { view }, next, context)
    }
}

/// Drops body, headers, payload and checkpoint values.
fn drop_content(record: &mut Record, outcome: StoredOutcome, why: Omission) {
    let mut outcome = outcome;
    outcome.omit(why);
    record.outcome = Some(Box::new(outcome));
    record.payload = None;
    for checkpoint in &mut record.checkpoints {
        checkpoint.value = Bytes::new();
    }
}

impl Transition for Erase {
    type Answer = Erased;

    fn id(&self) -> &OperationId {
        &self.id
    }

    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<Erased>> {
        let view = context.view(stored);
        let record = match (stored, view) {
            (None, _) | (_, View::Absent) => return keep(Erased::NotFound),
            (Some(record), View::Completed | View::Expired) => record,
            (Some(_), view) => return keep(Erased::Unfinished { view }),
        };
        let outcome = record.outcome.as_deref().ok_or_else(no_outcome)?;
        let reference_goes = self.reference && outcome.reference.is_some();
        if outcome.omission() == Some(Omission::Erased) && !reference_goes {
            return keep(Erased::AlreadyErased);
        }
        let mut next = record.clone();
        let mut outcome = outcome.clone();
        outcome.digest = None;
        if self.reference {
            outcome.reference = None;
        }
        drop_content(&mut next, outcome, Omission::Erased);
        put(Erased::Erased, next, context)
    }
}

/// What a sweep does to one record (G-43): purges it by G-14, else drops the content of an expired one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sweep {
    /// Which operation.
    pub id: OperationId,
}

/// What a sweep did to one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SweepStep {
    /// Nothing to do.
    Kept,
    /// The content went.
    Erased,
    /// The record went.
    Purged,
}

impl Sweep {
    /// A sweep over operation `id`.
    #[must_use]
    pub const fn new(id: OperationId) -> Self {
        Self { id }
    }
}

impl Transition for Sweep {
    type Answer = SweepStep;

    fn id(&self) -> &OperationId {
        &self.id
    }

    fn apply(&self, stored: Option<&Record>, context: &Context) -> Result<Step<SweepStep>> {
        let Some(record) = stored else { return keep(SweepStep::Kept) };
        if record.state != State::Completed {
            return keep(SweepStep::Kept);
        }
        if record.purge_at(context.step_ms).is_some_and(|at| context.now >= at) {
            return Ok(Step { answer: SweepStep::Purged, write: Write::Remove });
        }
        let outcome = record.outcome.as_deref().ok_or_else(no_outcome)?;
        let due = matches!(context.view(Some(record)), View::Expired | View::Absent);
        if !due || record.is_emptied() {
            return keep(SweepStep::Kept);
        }
        let mut next = record.clone();
        let why = match outcome.omission() {
            Some(Omission::Erased) => Omission::Erased,
            None | Some(Omission::TooLarge | Omission::Expired | Omission::Unread) => Omission::Expired,
        };
        drop_content(&mut next, outcome.clone(), why);
        put(SweepStep::Erased, next, context)
    }
}
