//! Operations to claim, made before the clock runs.

use std::sync::Arc;

use idem_core::OperationId;

/// The bytes of a result.
pub(crate) const BODY_BYTES: usize = 256;

/// A generator of evenly spread numbers (SplitMix64): the same keys in every run, in no order that an index likes.
#[derive(Debug, Clone)]
pub(crate) struct Spread(u64);

impl Spread {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }
}

/// `count` operations whose keys look like random UUIDs; other seeds give other keys.
pub(crate) fn operations(seed: u64, count: usize) -> anyhow::Result<Arc<[OperationId]>> {
    let mut spread = Spread::new(seed << 32);
    let make = |_| {
        let key = format!("{:016x}-{:019x}", spread.next(), spread.next());
        Ok(OperationId::new("bench", "invoice.create/v1", &key)?)
    };
    (0..count).map(make).collect()
}

/// The numbers below `count` in a mixed order.
pub(crate) fn shuffled(seed: u64, count: usize) -> Vec<usize> {
    let mut spread = Spread::new(seed);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, spread.below(last + 1));
    }
    order
}
