//! Stores that are odd and right: the suite must pass them.

use std::sync::atomic::{AtomicU64, Ordering};

use idem_core::answer::{Claimed, Swept};
use idem_core::request::Claim;
use idem_core::{Fence, Result, Timestamp};

use crate::bent::{Bend, Handle, lock};

/// Nothing is bent.
#[derive(Debug)]
pub(crate) struct Plain;

impl Bend for Plain {}

/// Every fourth call takes a millisecond.
#[derive(Debug, Default)]
pub(crate) struct Slow(AtomicU64);

impl Bend for Slow {
    fn waits_ms(&self) -> u64 {
        u64::from(self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(4))
    }
}

/// Calls give way a changing number of times before they do anything.
#[derive(Debug, Default)]
pub(crate) struct Jittery(AtomicU64);

impl Bend for Jittery {
    fn yields(&self) -> u32 {
        let turn = self.0.fetch_add(1, Ordering::Relaxed);
        (turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as u32
    }
}

/// Fences skip numbers: at least is not exactly.
#[derive(Debug)]
pub(crate) struct SparseFences;

impl Bend for SparseFences {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        // One caller at a time, because the fence is changed after the grant.
        let _lock = lock(&at.shared.lock);
        let mut answer = at.apply(request)?;
        if let Claimed::Granted(grant) = &mut answer
            && !grant.again
        {
            let last = Timestamp::MAX.as_millis() - 1;
            grant.fence = Fence::new((grant.fence.get() + 777).min(last));
            at.edit(&request.id, |record| {
                if let Some(current) = &mut record.current {
                    current.fence = grant.fence;
                }
            });
        }
        Ok(answer)
    }
}

/// Every other sweep does nothing and says that there is more.
#[derive(Debug)]
pub(crate) struct DelayedSweep;

impl Bend for DelayedSweep {
    fn sweep(&self, at: &Handle, limit: usize) -> Result<Swept> {
        let turn = {
            let mut notes = lock(&at.shared.notes);
            notes.count += 1;
            notes.count
        };
        if turn.is_multiple_of(2) {
            return at.sweep(limit);
        }
        let mut nothing = Swept::default();
        nothing.more = true;
        Ok(nothing)
    }
}
