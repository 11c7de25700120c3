//! The workload: as many claims as completions as replays, from a number of clients at once.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use idem_core::OperationId;

use crate::args::Row;
use crate::keys::{Spread, operations};
use crate::latency::{Laps, Latencies, Percentiles};
use crate::machine::cpu_time;
use crate::report::Cell;
use crate::timing::{Watch, ns_each, per_second};

/// One way to do the work. Every method fails when the answer is not the one that the workload implies, so nothing is
/// counted that was not done.
pub(crate) trait Subject: Send + Sync + 'static {
    /// Claims a new operation and completes it; notes how long each took.
    fn cycle(&self, id: &OperationId, laps: &mut Laps) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Asks for an operation that was completed, and checks the length of what it gets.
    fn replay(&self, id: &OperationId) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// How many completed operations are stored, for the check that none was lost.
    fn completed(&self) -> impl Future<Output = anyhow::Result<u64>> + Send;
}

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    /// Clients at once.
    pub(crate) clients: usize,
    /// Keys of a block.
    pub(crate) keys: usize,
    /// Blocks are repeated until so much time was measured.
    pub(crate) at_least: Duration,
}

/// Whose cell it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label {
    pub(crate) store: &'static str,
    pub(crate) subject: Row,
    pub(crate) round: usize,
}

/// Runs a cell on a subject that was just made.
pub(crate) async fn cell<S: Subject>(subject: &Arc<S>, label: Label, amount: Amount) -> anyhow::Result<Cell> {
    let Amount { clients, keys, at_least } = amount;
    // Threads start, statements are prepared and files get their first pages before the clock runs.
    let warm_up = (keys / 50).max(clients);
    let mut stored = 0;
    block(subject, operations(stored, warm_up)?, clients).await?;
    stored += warm_up as u64;
    let mut latencies = Latencies::new()?;
    let (mut elapsed, mut cpu) = (Duration::ZERO, Duration::ZERO);
    let mut counts = [0_u64; 3];
    while counts == [0; 3] || elapsed < at_least {
        let ids = operations(stored, keys)?;
        stored += keys as u64;
        let (watch, cpu_before) = (Watch::start(), cpu_time());
        let all = block(subject, ids, clients).await?;
        elapsed += watch.elapsed();
        cpu += cpu_time().saturating_sub(cpu_before);
        for laps in &all {
            latencies.add(laps);
            let done = [laps.claims.len(), laps.completes.len(), laps.replays.len()];
            counts.iter_mut().zip(done).for_each(|(count, done)| *count += done as u64);
        }
    }
    let completed = subject.completed().await?;
    ensure!(completed == stored, "{label:?}: {completed} operations are stored, and {stored} were completed");
    let [claims, completes, replays] = counts;
    let operations = claims + completes + replays;
    Ok(Cell {
        store: label.store,
        subject: label.subject,
        clients,
        round: label.round,
        claims,
        completes,
        replays,
        elapsed_s: elapsed.as_secs_f64(),
        ops_per_s: per_second(operations, elapsed),
        cpu_us_per_op: ns_each(cpu, operations) / 1000.0,
        all: Percentiles::of(&latencies.all),
        claim: Percentiles::of(&latencies.claim),
        complete: Percentiles::of(&latencies.complete),
        replay: Percentiles::of(&latencies.replay),
        files: None,
    })
}

/// Every operation once, by `clients` tasks that each take the next one.
async fn block<S: Subject>(
    subject: &Arc<S>,
    ids: Arc<[OperationId]>,
    clients: usize,
) -> anyhow::Result<Vec<Laps>> {
    let next = Arc::new(AtomicUsize::new(0));
    let spawn = |number: usize| {
        tokio::spawn(client(Arc::clone(subject), Arc::clone(&ids), Arc::clone(&next), number))
    };
    let tasks: Vec<_> = (0..clients).map(spawn).collect();
    let mut all = Vec::with_capacity(clients);
    for task in tasks {
        all.push(task.await??);
    }
    Ok(all)
}

async fn client<S: Subject>(
    subject: Arc<S>,
    ids: Arc<[OperationId]>,
    next: Arc<AtomicUsize>,
    number: usize,
) -> anyhow::Result<Laps> {
    let mut laps = Laps::default();
    let mut spread = Spread::new(number as u64);
    let mut mine = Vec::new();
    while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
        subject.cycle(id, &mut laps).await?;
        mine.push(id);
        // Any of its own earlier ones, not the one that every cache still holds.
        let Some(earlier) = mine.get(spread.below(mine.len())) else { continue };
        let mut watch = Watch::start();
        subject.replay(earlier).await?;
        laps.replays.push(watch.lap_ns());
    }
    Ok(laps)
}
