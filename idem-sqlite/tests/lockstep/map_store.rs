//! The smallest store that the compare-and-swap adapter can lift.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use idem_core::cas::{CasStore, Swap};
use idem_core::{OperationId, Record, Result};

#[derive(Debug, Default)]
pub(crate) struct MapStore(Mutex<Map>);

#[derive(Debug, Default)]
struct Map {
    records: BTreeMap<OperationId, (Record, u64)>,
    swaps: u64,
}

#[async_trait]
impl CasStore for MapStore {
    type Version = u64;

    async fn load(&self, id: &OperationId) -> Result<Option<(Record, u64)>> {
        Ok(self.0.lock().unwrap().records.get(id).cloned())
    }

    async fn compare_and_swap(
        &self,
        id: &OperationId,
        expected: Option<&u64>,
        next: Option<&Record>,
    ) -> Result<Swap> {
        let mut map = self.0.lock().unwrap();
        if map.records.get(id).map(|(_, version)| version) != expected {
            return Ok(Swap::Lost);
        }
        map.swaps += 1;
        let version = map.swaps;
        match next {
            Some(record) => map.records.insert(id.clone(), (record.clone(), version)),
            None => map.records.remove(id),
        };
        Ok(Swap::Applied)
    }

    async fn scan(&self, after: Option<&OperationId>, limit: usize) -> Result<Vec<Record>> {
        let map = self.0.lock().unwrap();
        let later = map.records.iter().filter(|(id, _)| after.is_none_or(|after| *id > after));
        Ok(later.take(limit).map(|(_, (record, _))| record.clone()).collect())
    }
}
