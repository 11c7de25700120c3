//! How long single requests took.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::timing::real;

/// The longest time that is told apart: a minute.
const NS_MAX: u64 = 60_000_000_000;

/// Nanoseconds of each request of one client, by kind.
#[derive(Debug, Default)]
pub(crate) struct Laps {
    pub(crate) claims: Vec<u64>,
    pub(crate) completes: Vec<u64>,
    pub(crate) replays: Vec<u64>,
}

/// The distributions of one cell.
#[derive(Debug)]
pub(crate) struct Latencies {
    pub(crate) all: Histogram<u64>,
    pub(crate) claim: Histogram<u64>,
    pub(crate) complete: Histogram<u64>,
    pub(crate) replay: Histogram<u64>,
}

impl Latencies {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let empty = Histogram::new_with_bounds(1, NS_MAX, 3)?;
        Ok(Self { all: empty.clone(), claim: empty.clone(), complete: empty.clone(), replay: empty })
    }

    pub(crate) fn add(&mut self, laps: &Laps) {
        let kinds = [
            (&laps.claims, &mut self.claim),
            (&laps.completes, &mut self.complete),
            (&laps.replays, &mut self.replay),
        ];
        for (laps, kind) in kinds {
            for lap in laps {
                kind.saturating_record(*lap);
                self.all.saturating_record(*lap);
            }
        }
    }
}

/// Percentiles of one distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

impl Percentiles {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let us = |ns: u64| real(ns) / 1000.0;
        Self {
            p50_us: us(histogram.value_at_quantile(0.5)),
            p99_us: us(histogram.value_at_quantile(0.99)),
            p999_us: us(histogram.value_at_quantile(0.999)),
            max_us: us(histogram.max()),
        }
    }
}
