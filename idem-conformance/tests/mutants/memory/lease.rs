//! Who may write, and for how long.

use idem_core::answer::{Checkpointed, Claimed, Completed, Parked, Released, Renewed};
use idem_core::record::AbsenceReason;
use idem_core::request::{Claim, Complete, Held, Park, Release, Renew, SaveCheckpoint};
use idem_core::{Fence, Mode, Result, State, View};

use crate::bent::{Bend, Handle, lock};

/// `now > deadline` where `now >= deadline` is meant.
#[derive(Debug)]
pub(crate) struct OffByOne;

impl Bend for OffByOne {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let mut answer = at.apply_in(request, &at.context().guard_ms(1))?;
        if let Claimed::InProgress { retry_after_ms, .. } = &mut answer {
            *retry_after_ms = (*retry_after_ms - 1).max(1);
        }
        Ok(answer)
    }
}

/// Gives a grant this fence, in the record and in the answer; under a lock, so that nobody sees the fence before.
fn set_fence(at: &Handle, answer: &mut Claimed, fence: Fence) {
    if let Claimed::Granted(grant) = answer {
        grant.fence = fence;
        at.edit(&grant.id, |record| {
            if let Some(current) = &mut record.current {
                current.fence = fence;
            }
        });
    }
}

/// A takeover keeps the fence of the holder before it.
#[derive(Debug)]
pub(crate) struct FenceNotRaised;

impl Bend for FenceNotRaised {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let _lock = lock(&at.shared.lock);
        let before = at.stored(&request.id).map(|record| record.fence());
        let mut answer = at.apply(request)?;
        let takeover =
            matches!(&answer, Claimed::Granted(grant) if grant.mode == Mode::Recover && !grant.again);
        if let (true, Some(fence)) = (takeover, before) {
            set_fence(at, &mut answer, fence);
        }
        Ok(answer)
    }
}

/// The fence is the time, and nothing else.
#[derive(Debug)]
pub(crate) struct FenceIsTheTime;

impl Bend for FenceIsTheTime {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let _lock = lock(&at.shared.lock);
        let mut answer = at.apply(request)?;
        if matches!(&answer, Claimed::Granted(grant) if !grant.again) {
            set_fence(at, &mut answer, Fence::new(at.context().now.as_millis()));
        }
        Ok(answer)
    }
}

/// A renewal adds to the deadline.
#[derive(Debug)]
pub(crate) struct RenewAccumulates;

impl Bend for RenewAccumulates {
    fn renew(&self, at: &Handle, request: &Renew) -> Result<Renewed> {
        let before = at.stored(&request.held.id).and_then(|record| record.current);
        let answer = at.apply(request)?;
        let (Renewed::Renewed { .. }, Some(before)) = (&answer, before) else { return Ok(answer) };
        let until = before.lease_until.plus_millis(request.lease.as_millis());
        at.edit(&request.held.id, |record| {
            if let Some(current) = &mut record.current {
                current.lease_until = until;
            }
        });
        Ok(Renewed::Renewed { remaining_ms: until.millis_since(at.context().now) })
    }
}

/// The holder of an operation that runs, whoever asks.
fn holder(at: &Handle, held: &Held) -> Held {
    let stored = at.stored(&held.id).filter(|record| record.state == State::Processing);
    stored
        .and_then(|record| record.current)
        .map_or_else(|| held.clone(), |current| Held::new(held.id.clone(), current.id))
}

/// Completes a running operation for whoever asks.
#[derive(Debug)]
pub(crate) struct NoFence;

impl Bend for NoFence {
    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        let mut request = request.clone();
        request.held = holder(at, &request.held);
        at.apply(&request)
    }
}

/// Releases and parks a running operation for whoever asks.
#[derive(Debug)]
pub(crate) struct ReleaseUnfenced;

impl Bend for ReleaseUnfenced {
    fn release(&self, at: &Handle, request: &Release) -> Result<Released> {
        let mut request = request.clone();
        let held = holder(at, &request.held);
        if held != request.held {
            request.absence = Some(AbsenceReason::FencedOff);
        }
        request.held = held;
        at.apply(&request)
    }

    fn park(&self, at: &Handle, request: &Park) -> Result<Parked> {
        let mut request = request.clone();
        request.held = holder(at, &request.held);
        at.apply(&request)
    }
}

/// Every renewal is answered as a success.
#[derive(Debug)]
pub(crate) struct RenewAlwaysOk;

impl Bend for RenewAlwaysOk {
    fn renew(&self, at: &Handle, request: &Renew) -> Result<Renewed> {
        Ok(match at.apply(request)? {
            Renewed::Renewed { remaining_ms } => Renewed::Renewed { remaining_ms },
            _ => Renewed::Renewed { remaining_ms: request.lease.as_millis() },
        })
    }
}

/// Leases never lapse.
#[derive(Debug)]
pub(crate) struct NeverLapses;

impl Bend for NeverLapses {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let mut answer = at.apply_in(request, &at.context().guard_ms(1 << 50))?;
        if let Claimed::InProgress { retry_after_ms, .. } = &mut answer {
            *retry_after_ms = 1;
        }
        Ok(answer)
    }
}

/// A lapse ends the holder, although nobody took over.
#[derive(Debug)]
pub(crate) struct LapseEndsTheHolder;

impl LapseEndsTheHolder {
    fn lapsed(at: &Handle, held: &Held) -> bool {
        at.context().view(at.stored(&held.id).as_ref()) == View::Lapsed
    }
}

impl Bend for LapseEndsTheHolder {
    fn renew(&self, at: &Handle, request: &Renew) -> Result<Renewed> {
        if Self::lapsed(at, &request.held) { Ok(Renewed::Fenced(View::Lapsed)) } else { at.apply(request) }
    }

    fn checkpoint(&self, at: &Handle, request: &SaveCheckpoint) -> Result<Checkpointed> {
        if Self::lapsed(at, &request.held) {
            Ok(Checkpointed::Fenced(View::Lapsed))
        } else {
            at.apply(request)
        }
    }

    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        if Self::lapsed(at, &request.held) { Ok(Completed::Fenced(View::Lapsed)) } else { at.apply(request) }
    }
}

/// Counts in the record how often it was asked for while it ran.
#[derive(Debug)]
pub(crate) struct WritesOnLook;

impl Bend for WritesOnLook {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let answer = at.apply(request)?;
        if matches!(answer, Claimed::InProgress { .. }) {
            at.edit(&request.id, |record| record.version += 1);
            at.ring(&request.id);
        }
        Ok(answer)
    }
}
