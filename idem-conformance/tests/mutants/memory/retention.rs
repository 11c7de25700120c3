//! What is kept, and for how long.

use idem_core::answer::{Claimed, Completed, Erased, Page, Registered, Swept};
use idem_core::request::{Claim, Complete, Erase, PAGE_MAX, Query, Register};
use idem_core::{Record, Result, Retention, Timestamp, Ttl, View};

use crate::bent::{Bend, Handle, lock};

/// Removes the records that `gone` names, and then sweeps as it should, both within the limit.
fn sweep_after_removing(at: &Handle, limit: usize, gone: impl Fn(&Record) -> bool) -> Result<Swept> {
    let limit = limit.clamp(1, PAGE_MAX);
    let mut removed = 0;
    for id in at.ids() {
        removed += usize::from(removed < limit && at.remove_if(&id, &gone));
    }
    let mut swept = if removed < limit { at.sweep(limit - removed)? } else { Swept::default() };
    swept.purged += removed as u64;
    swept.more |= removed == limit;
    Ok(swept)
}

/// Removes the record with its response.
#[derive(Debug)]
pub(crate) struct DeletesTombstones;

impl Bend for DeletesTombstones {
    fn sweep(&self, at: &Handle, limit: usize) -> Result<Swept> {
        let context = at.context();
        sweep_after_removing(at, limit, |record| context.view(Some(record)) == View::Expired)
    }
}

/// Removes operations whose lease has lapsed.
#[derive(Debug)]
pub(crate) struct PurgesLapsed;

impl Bend for PurgesLapsed {
    fn sweep(&self, at: &Handle, limit: usize) -> Result<Swept> {
        let context = at.context();
        sweep_after_removing(at, limit, |record| context.view(Some(record)) == View::Lapsed)
    }
}

/// Removes what its identity deadline has passed, although its fence may be reached again.
#[derive(Debug)]
pub(crate) struct PurgesEarly;

impl Bend for PurgesEarly {
    fn sweep(&self, at: &Handle, limit: usize) -> Result<Swept> {
        let context = at.context();
        sweep_after_removing(at, limit, |record| context.view(Some(record)) == View::Absent)
    }
}

/// The store's own expiry of a row stays when the row is granted anew.
#[derive(Debug)]
pub(crate) struct StaleTtl;

impl Bend for StaleTtl {
    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        let answer = at.apply(request)?;
        if let Some(until) = request.retention.identity_ttl().deadline(at.context().now) {
            let gone_at = until.plus_millis(at.capabilities.step_ms);
            lock(&at.shared.notes).ids.insert(request.held.id.clone(), gone_at.as_millis());
        }
        Ok(answer)
    }

    fn sweep(&self, at: &Handle, limit: usize) -> Result<Swept> {
        let now = at.context().now.as_millis();
        let due: Vec<_> = {
            let notes = lock(&at.shared.notes);
            notes.ids.iter().filter(|(_, gone_at)| now >= **gone_at).map(|(id, _)| id.clone()).collect()
        };
        let swept = sweep_after_removing(at, limit, |record| due.contains(&record.id))?;
        lock(&at.shared.notes).ids.retain(|id, _| !due.contains(id) || at.stored(id).is_some());
        Ok(swept)
    }
}

/// An identity is over when a sweep has removed it.
#[derive(Debug)]
pub(crate) struct OverWhenSwept;

impl OverWhenSwept {
    /// The instant before its identity deadline, for a record that is beyond it.
    fn just_before(at: &Handle, record: Option<Record>) -> Option<Timestamp> {
        let until = record?.identity_until?;
        (at.context().now >= until).then(|| Timestamp::from_millis(until.as_millis().saturating_sub(1)))
    }
}

impl Bend for OverWhenSwept {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        match Self::just_before(at, at.stored(&request.id)) {
            Some(before) => at.apply_in(request, &at.context_at(before)),
            None => at.apply(request),
        }
    }

    fn register(&self, at: &Handle, request: &Register) -> Result<Registered> {
        match Self::just_before(at, at.stored(&request.id)) {
            Some(before) => at.apply_in(request, &at.context_at(before)),
            None => at.apply(request),
        }
    }
}

/// A sweep does everything at once.
#[derive(Debug)]
pub(crate) struct UnboundedSweep;

impl Bend for UnboundedSweep {
    fn sweep(&self, at: &Handle, _limit: usize) -> Result<Swept> {
        at.sweep(1_000)
    }
}

/// For ever is ten years.
#[derive(Debug)]
pub(crate) struct ForeverIsTenYears;

impl Bend for ForeverIsTenYears {
    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        let ten_years = Ttl::Millis(10 * 365 * 86_400_000);
        let mut request = request.clone();
        if request.retention.identity_ttl() == Ttl::Forever {
            let response = match request.retention.response_ttl() {
                Ttl::Forever => ten_years,
                finite => finite,
            };
            request.retention = Retention::forgetting_identity(ten_years, response, None)?;
        }
        at.apply(&request)
    }
}

/// A response time of zero is taken for none at all.
#[derive(Debug)]
pub(crate) struct ZeroIsForever;

impl Bend for ZeroIsForever {
    fn complete(&self, at: &Handle, request: &Complete) -> Result<Completed> {
        let mut request = request.clone();
        if request.retention == Retention::forever().response(Ttl::Millis(0))? {
            request.retention = Retention::forever();
        }
        at.apply(&request)
    }
}

/// Erasing removes the record.
#[derive(Debug)]
pub(crate) struct EraseDeletes;

impl Bend for EraseDeletes {
    fn erase(&self, at: &Handle, request: &Erase) -> Result<Erased> {
        let answer = at.apply(request)?;
        if answer == Erased::Erased {
            at.remove(&request.id);
        }
        Ok(answer)
    }
}

/// Every page after the first leaves out a record.
#[derive(Debug)]
pub(crate) struct SkipsOnPages;

impl Bend for SkipsOnPages {
    fn list(&self, at: &Handle, query: &Query) -> Result<Page> {
        let mut page = at.list(query);
        if query.after.is_some() && !page.records.is_empty() {
            page.records.remove(0);
        }
        Ok(page)
    }
}
