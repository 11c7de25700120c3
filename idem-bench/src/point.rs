//! What one task costs in memory, where nothing else takes time: nanoseconds and allocations.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use idem_core::{Fingerprint, MemoryStore, OperationId};
use tokio::runtime::Runtime;

use crate::args::{Options, Row};
use crate::keys::{operations, shuffled};
use crate::latency::Laps;
use crate::library::{LedgerSubject, StoreSubject};
use crate::machine::cpu_time;
use crate::mix::Subject;
use crate::report::{Allocations, Each, Hashed, Once, Point};
use crate::summary::median;
use crate::timing::{Watch, ns_each};

const STORE: &str = Row::Store.name();
const LEDGER: &str = Row::Ledger.name();
const DETACHED: &str = "Ledger, detached";

/// Single requests whose allocations are counted.
const COUNTED: usize = 101;

/// Every number of keys in turns, `rounds` times.
pub(crate) fn points(runtime: &Runtime, options: &Options) -> anyhow::Result<Vec<Point>> {
    let mut points = Vec::new();
    for keys in &options.memory_keys {
        points.extend(of_keys(runtime, options, *keys)?);
    }
    Ok(points)
}

fn of_keys(runtime: &Runtime, options: &Options, keys: usize) -> anyhow::Result<Vec<Point>> {
    let ids = operations(1, keys)?;
    let order: Arc<[usize]> = shuffled(2, keys).into();
    let rows = [(Row::Store, STORE), (Row::Ledger, LEDGER), (Row::Ledger, DETACHED)];
    let wanted = rows.into_iter().filter(|(row, _)| options.wants(*row));
    let mut all: Vec<(&str, Vec<Once>)> = wanted.map(|(_, subject)| (subject, Vec::new())).collect();
    for round in 0..options.rounds {
        // Who begins alternates, so that a drift of the machine hits all of them.
        for turn in 0..all.len() {
            let turns = all.len();
            let Some((subject, rounds)) = all.get_mut((round + turn) % turns) else { continue };
            let (ids, order) = (Arc::clone(&ids), Arc::clone(&order));
            // In a task, as in a program: the runtime's main thread is slower at waking tasks.
            rounds.push(runtime.block_on(async {
                match *subject {
                    STORE => {
                        let subject = StoreSubject::new(Arc::new(MemoryStore::new()))?;
                        tokio::spawn(once(subject, ids, order)).await?
                    }
                    LEDGER => tokio::spawn(once(LedgerSubject::new(MemoryStore::new()), ids, order)).await?,
                    _ => tokio::spawn(detached(LedgerSubject::new(MemoryStore::new()), ids)).await?,
                }
            })?);
        }
    }
    all.into_iter().map(|(subject, rounds)| point(subject, keys, rounds)).collect()
}

fn point(subject: &'static str, keys: usize, rounds: Vec<Once>) -> anyhow::Result<Point> {
    let cycle = middle_each(rounds.iter().map(|once| once.cycle)).context("at least one round")?;
    let replay = middle_each(rounds.iter().filter_map(|once| once.replay));
    Ok(Point { subject, keys, cycle, replay, rounds })
}

fn middle_each(rounds: impl Iterator<Item = Each> + Clone) -> Option<Each> {
    let of = |figure: fn(Each) -> f64| median(&rounds.clone().map(figure).collect::<Vec<f64>>());
    Some(Each { ns: of(|each| each.ns)?, cpu_ns: of(|each| each.cpu_ns)? })
}

/// Nanoseconds of each of `count` requests since `watch` and `cpu_before` were taken.
fn each(watch: Watch, cpu_before: Duration, count: usize) -> Each {
    let cpu = cpu_time().saturating_sub(cpu_before);
    Each { ns: ns_each(watch.elapsed(), count as u64), cpu_ns: ns_each(cpu, count as u64) }
}

/// All cycles, then all replays in another order.
async fn once<S: Subject>(subject: S, ids: Arc<[OperationId]>, order: Arc<[usize]>) -> anyhow::Result<Once> {
    let mut laps = room(ids.len());
    let (cpu_before, watch) = (cpu_time(), Watch::start());
    for id in &*ids {
        subject.cycle(id, &mut laps).await?;
    }
    let cycle = each(watch, cpu_before, ids.len());
    let (cpu_before, watch) = (cpu_time(), Watch::start());
    for index in &*order {
        if let Some(id) = ids.get(*index) {
            subject.replay(id).await?;
        }
    }
    Ok(Once { cycle, replay: Some(each(watch, cpu_before, ids.len())) })
}

async fn detached(subject: LedgerSubject, ids: Arc<[OperationId]>) -> anyhow::Result<Once> {
    let (cpu_before, watch) = (cpu_time(), Watch::start());
    for id in &*ids {
        subject.detached_cycle(id).await?;
    }
    Ok(Once { cycle: each(watch, cpu_before, ids.len()), replay: None })
}

/// Laps that do not grow while the clock runs or allocations are counted.
fn room(requests: usize) -> Laps {
    Laps {
        claims: Vec::with_capacity(requests),
        completes: Vec::with_capacity(requests),
        replays: Vec::with_capacity(requests),
    }
}

/// Allocations of a cycle and of a replay on the calling thread.
pub(crate) fn allocations() -> anyhow::Result<Vec<Allocations>> {
    let store = StoreSubject::new(Arc::new(MemoryStore::new()))?;
    let ledger = LedgerSubject::new(MemoryStore::new());
    Ok(vec![counted(Row::Store, &store)?, counted(Row::Ledger, &ledger)?])
}

fn counted(subject: Row, with: &impl Subject) -> anyhow::Result<Allocations> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let ids = operations(3, COUNTED)?;
    let mut laps = room(COUNTED);
    let (mut cycles, mut replays) = (Vec::new(), Vec::new());
    for id in &*ids {
        cycles.push(count(&runtime, with.cycle(id, &mut laps))?);
        replays.push(count(&runtime, with.replay(id))?);
    }
    let (cycle, replay) = (middle(cycles)?, middle(replays)?);
    Ok(Allocations {
        subject,
        per_cycle: cycle.count_total,
        bytes_per_cycle: cycle.bytes_total,
        kept_bytes_per_cycle: cycle.bytes_current,
        per_replay: replay.count_total,
        bytes_per_replay: replay.bytes_total,
    })
}

/// A request as an application hashes it; 100 bytes of JSON.
#[derive(serde::Serialize)]
struct Order<'o> {
    order: &'o str,
    customer: &'o str,
    currency: &'o str,
    lines: [Line<'o>; 1],
}

#[derive(serde::Serialize)]
struct Line<'o> {
    article: &'o str,
    cents: u64,
}

const ORDER: Order<'_> = Order {
    order: "418",
    customer: "customer-77",
    currency: "EUR",
    lines: [Line { article: "A-1", cents: 125_000 }],
};

/// Hashes in a row, so that one is told from none.
const HASHES: u64 = 20_000;

pub(crate) fn fingerprint(rounds: usize) -> anyhow::Result<Hashed> {
    let mut rounds_ns = Vec::new();
    for _ in 0..rounds {
        let watch = Watch::start();
        for _ in 0..HASHES {
            black_box(Fingerprint::json(black_box(&ORDER))?);
        }
        rounds_ns.push(ns_each(watch.elapsed(), HASHES));
    }
    let mut hashed = Ok(());
    let counted = allocation_counter::measure(|| hashed = Fingerprint::json(&ORDER).map(drop));
    hashed?;
    Ok(Hashed {
        value_bytes: serde_json::to_vec(&ORDER)?.len(),
        ns: median(&rounds_ns).context("at least one round")?,
        rounds_ns,
        allocations: counted.count_total,
    })
}

type Counted = allocation_counter::AllocationInfo;

fn count(runtime: &Runtime, request: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<Counted> {
    let mut answer = Ok(());
    // Pinned here, since a runtime boxes a large future by itself.
    let mut request = pin!(request);
    let counted = allocation_counter::measure(|| answer = runtime.block_on(request.as_mut()));
    answer.map(|()| counted)
}

/// The request in the middle by its number of allocations: not one of those that made a map grow.
fn middle(mut counted: Vec<Counted>) -> anyhow::Result<Counted> {
    counted.sort_by_key(|counted| (counted.count_total, counted.bytes_total));
    counted.get(counted.len() / 2).copied().context("at least one request")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_has_the_bytes_of_the_target() {
        assert_eq!(serde_json::to_vec(&ORDER).unwrap().len(), 100);
    }
}
