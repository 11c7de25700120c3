//! The smallest store that keeps the contract: a map from ids to versioned bytes, and three methods.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use idem_core::cas::Swap;
use idem_core::{CasStore, OperationId, Record, Result, codec};

#[derive(Debug, Clone, Default)]
pub(crate) struct MapStore(Arc<Mutex<Map>>);

#[derive(Debug, Default)]
struct Map {
    rows: BTreeMap<OperationId, (u64, Vec<u8>)>,
    /// The last version that was given out; never reused, not even after a removal.
    revision: u64,
}

impl MapStore {
    fn map(&self) -> MutexGuard<'_, Map> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CasStore for MapStore {
    type Version = u64;

    async fn load(&self, id: &OperationId) -> Result<Option<(Record, u64)>> {
        let row = self.map().rows.get(id).cloned();
        row.map(|(version, bytes)| Ok((codec::decode(id, &bytes)?, version))).transpose()
    }

    async fn compare_and_swap(
        &self,
        id: &OperationId,
        expected: Option<&u64>,
        next: Option<&Record>,
    ) -> Result<Swap> {
        let mut map = self.map();
        if map.rows.get(id).map(|(version, _)| version) != expected {
            return Ok(Swap::Lost);
        }
        map.revision += 1;
        let revision = map.revision;
        match next {
            Some(record) => map.rows.insert(id.clone(), (revision, codec::encode(record))),
            None => map.rows.remove(id),
        };
        Ok(Swap::Applied)
    }

    async fn scan(&self, after: Option<&OperationId>, limit: usize) -> Result<Vec<Record>> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let map = self.map();
        let rows = map.rows.range::<OperationId, _>((from, Bound::Unbounded)).take(limit);
        rows.map(|(id, (_, bytes))| codec::decode(id, bytes)).collect()
    }
}
