//! The floor in memory: maps under sharded locks, with a state and a body for each key.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, bail, ensure};
use idem_core::OperationId;

use crate::keys::BODY_BYTES;
use crate::latency::Laps;
use crate::mix::Subject;
use crate::timing::Watch;

/// As many as `MemoryStore` has.
const SHARDS: usize = 64;

enum Entry {
    Claimed,
    Done(Vec<u8>),
}

type Shard = HashMap<OperationId, Entry>;

pub(crate) struct MapFloor {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    body: Vec<u8>,
}

impl MapFloor {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        Self { shards, hasher: RandomState::new(), body: vec![b'x'; BODY_BYTES] }
    }

    fn shard(&self, id: &OperationId) -> anyhow::Result<MutexGuard<'_, Shard>> {
        let index = usize::try_from(self.hasher.hash_one(id) % SHARDS as u64).unwrap_or(0);
        Ok(lock(self.shards.get(index).context("an index below the number of shards")?))
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Subject for MapFloor {
    async fn cycle(&self, id: &OperationId, laps: &mut Laps) -> anyhow::Result<()> {
        let mut watch = Watch::start();
        let before = self.shard(id)?.insert(id.clone(), Entry::Claimed);
        laps.claims.push(watch.lap_ns());
        ensure!(before.is_none(), "a new operation was there before");
        match self.shard(id)?.get_mut(id) {
            Some(entry @ Entry::Claimed) => *entry = Entry::Done(self.body.clone()),
            _ => bail!("a claimed operation is gone or done"),
        }
        laps.completes.push(watch.lap_ns());
        Ok(())
    }

    async fn replay(&self, id: &OperationId) -> anyhow::Result<()> {
        let body = match self.shard(id)?.get(id) {
            Some(Entry::Done(body)) => body.clone(),
            _ => bail!("a completed operation is gone or not done"),
        };
        ensure!(body.len() == BODY_BYTES, "a replay of {} bytes", body.len());
        Ok(())
    }

    async fn completed(&self) -> anyhow::Result<u64> {
        let done = |shard: &Mutex<Shard>| {
            lock(shard).values().filter(|entry| matches!(entry, Entry::Done(_))).count() as u64
        };
        Ok(self.shards.iter().map(done).sum())
    }
}
