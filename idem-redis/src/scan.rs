//! Listing, statistics and sweep: a walk over the ledger's keys with SCAN, which holds nobody up, and a look at each. No
//! index is kept for them, so they cost the claims nothing; what they cost themselves grows with the keys of the server.

use std::collections::{BTreeSet, VecDeque};
use std::sync::PoisonError;

use futures_util::future::try_join_all;
use idem_core::answer::{Page, Stats, Swept};
use idem_core::request::{PAGE_MAX, Query};
use idem_core::transition::{Sweep, SweepStep};
use idem_core::{OperationId, Record, Result, Timestamp};

use crate::keys;
use crate::row;
use crate::scripts;
use crate::store::RedisStore;

/// Keys that one step of a walk looks at.
const STEP: usize = 1000;
/// Records that are asked for at once.
const TOGETHER: usize = 128;
/// Ids that a listing keeps of one walk, for the pages that follow.
const WINDOW: usize = 1 << 16;
/// Keys that one batch of a sweep looks at before it pauses, due or not.
const LOOKED_AT_MAX: usize = 10_000;

/// A walk over the keys.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    cursor: u64,
    pending: VecDeque<OperationId>,
    ended: bool,
}

/// Ids that a listing has found and not yet shown.
#[derive(Debug)]
pub(crate) struct Listed {
    tenant: Option<String>,
    operation: Option<String>,
    /// The last id before them.
    after: Option<OperationId>,
    ids: VecDeque<OperationId>,
    /// Whether there are no ids behind them.
    complete: bool,
}

impl Listed {
    fn continues(&self, query: &Query) -> bool {
        (&self.tenant, &self.operation, &self.after) == (&query.tenant, &query.operation, &query.after)
    }
}

impl RedisStore {
    /// Keys found by one step, of which some may be found again later.
    async fn walk(&self, walk: &mut Walk, pattern: &[u8]) -> Result<()> {
        let (cursor, found) = self.0.link.scan(walk.cursor, pattern, STEP).await?;
        walk.cursor = cursor;
        walk.ended = cursor == 0;
        for key in found {
            walk.pending.push_back(keys::id_of(&self.0.config.prefix, &key)?);
        }
        Ok(())
    }

    /// The records of some ids, without what only their owners need: no body, and an empty payload where there is one.
    /// Each has the instant at which it was looked at.
    async fn peek(&self, ids: &[OperationId]) -> Result<Vec<(Timestamp, Record)>> {
        let mut records = Vec::with_capacity(ids.len());
        for some in ids.chunks(TOGETHER) {
            let looked = try_join_all(some.iter().map(|id| self.look(&scripts::PEEK, id))).await?;
            for (id, (now, fields)) in some.iter().zip(looked) {
                if let Some(record) = row::record(id, &fields)? {
                    records.push((now, record));
                }
            }
        }
        Ok(records)
    }

    /// The first ids after `query.after`, in order, as many as a window holds.
    async fn find(&self, query: &Query) -> Result<Listed> {
        let pattern =
            keys::pattern(&self.0.config.prefix, query.tenant.as_deref(), query.operation.as_deref());
        let (mut ids, mut complete) = (BTreeSet::new(), true);
        let mut walk = Walk::default();
        while !walk.ended {
            self.walk(&mut walk, &pattern).await?;
            ids.extend(
                walk.pending.drain(..).filter(|id| query.after.as_ref().is_none_or(|after| id > after)),
            );
            while ids.len() > WINDOW {
                ids.pop_last();
                complete = false;
            }
        }
        Ok(Listed {
            tenant: query.tenant.clone(),
            operation: query.operation.clone(),
            after: query.after.clone(),
            ids: ids.into_iter().collect(),
            complete,
        })
    }

    /// One page, in the order of ids. A walk finds every key that is there all the time; the order makes each come once.
    pub(crate) async fn list_page(&self, query: &Query) -> Result<Page> {
        let kept = self.0.listed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut listed = match kept.filter(|kept| query.after.is_some() && kept.continues(query)) {
            Some(listed) => listed,
            None => self.find(query).await?,
        };
        let (mut records, mut looked) = (Vec::new(), self.now().await?);
        loop {
            if listed.ids.is_empty() {
                if listed.complete {
                    return Ok(Page::new(records, None, looked));
                }
                let mut behind = query.clone();
                behind.after.clone_from(&listed.after);
                listed = self.find(&behind).await?;
                continue;
            }
            let wanted = (query.page() - records.len()).clamp(16, TOGETHER);
            let some: Vec<_> = listed.ids.iter().take(wanted).cloned().collect();
            for (now, record) in self.peek(&some).await? {
                looked = now;
                if records.len() < query.page() && query.admits(&record.id, record.view(now, 0)) {
                    records.push(record.without_content());
                }
            }
            let full = records.len() == query.page();
            let last = if full { records.last().map(|last| last.id.clone()) } else { some.last().cloned() };
            while listed.ids.front().is_some_and(|id| last.as_ref().is_some_and(|last| id <= last)) {
                listed.ids.pop_front();
            }
            listed.after = last.clone();
            if full {
                *self.0.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(listed);
                return Ok(Page::new(records, last, looked));
            }
        }
    }

    /// The instant by the deciding clock.
    async fn now(&self) -> Result<Timestamp> {
        match self.0.config.now() {
            Some(now) => Ok(now),
            None => self.0.link.time().await,
        }
    }

    pub(crate) async fn count(&self) -> Result<Stats> {
        let pattern = keys::pattern(&self.0.config.prefix, None, None);
        let mut stats = Stats::at(self.now().await?);
        let mut walk = Walk::default();
        // A walk may find a key again; keeping what it found is the price of counting each once.
        let mut ids = BTreeSet::new();
        while !walk.ended {
            self.walk(&mut walk, &pattern).await?;
            let new: Vec<_> = walk.pending.drain(..).filter(|id| ids.insert(id.clone())).collect();
            for (_, record) in self.peek(&new).await? {
                stats.count(&record, 0);
            }
        }
        Ok(stats)
    }

    pub(crate) async fn sweep_batch(&self, limit: usize) -> Result<Swept> {
        let limit = limit.clamp(1, PAGE_MAX) as u64;
        let pattern = keys::pattern(&self.0.config.prefix, None, None);
        let mut walk = self.0.swept.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        let (mut swept, mut looked_at) = (Swept::default(), 0);
        loop {
            if walk.pending.is_empty() {
                if walk.ended {
                    return Ok(swept);
                }
                self.walk(&mut walk, &pattern).await?;
                continue;
            }
            swept.more = true;
            if swept.erased + swept.purged == limit || looked_at >= LOOKED_AT_MAX {
                *self.0.swept.lock().unwrap_or_else(PoisonError::into_inner) = Some(walk);
                return Ok(swept);
            }
            let room = usize::try_from(limit - swept.erased - swept.purged).unwrap_or(TOGETHER);
            let some: Vec<_> = walk.pending.drain(..room.min(TOGETHER).min(walk.pending.len())).collect();
            looked_at += some.len();
            self.sweep_some(&some, &mut swept).await?;
            swept.more = false;
        }
    }

    async fn sweep_some(&self, ids: &[OperationId], swept: &mut Swept) -> Result<()> {
        let step_ms = self.0.config.step_ms;
        for (now, record) in self.peek(ids).await? {
            if record.sweep_at(step_ms).is_none_or(|at| now < at) {
                continue;
            }
            match self.apply(&Sweep::new(record.id)).await? {
                SweepStep::Erased => swept.erased += 1,
                SweepStep::Purged => swept.purged += 1,
                _ => {}
            }
        }
        Ok(())
    }
}
