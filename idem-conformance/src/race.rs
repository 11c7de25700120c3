//! Races: calls of several threads that are proved to have run at the same time.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use idem_core::clock::{Clock, SystemClock};

use crate::env::Env;
use crate::evidence::Fact;
use crate::failure::{Failure, Verdict};
use crate::runner::RUNTIME;

/// How long rounds are repeated for overlaps before the race gives up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// One race at a time: two that share the cores would take the overlap from each other.
static TRACK: Mutex<()> = Mutex::new(());

/// How many racers have a chance to run at the same moment on this machine: 2 to 4.
pub(crate) fn racers() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4)
}

/// What the racers of one round were answered, by racer.
pub(crate) type Round<T> = Vec<T>;

/// Runs rounds until `overlaps` of them had calls of two racers running at the same time, and gives the answers of all.
///
/// `prepare` is called for a range of rounds before they are run. `act(round, racer)` is the racing call; it runs on
/// the racer's own thread, released by a barrier that spins: threads that sleep wake up one after the other, and most
/// rounds would not be races at all.
pub(crate) async fn race<T: Send>(
    env: &Env,
    overlaps: usize,
    prepare: impl AsyncFn(Range<usize>) -> Verdict,
    act: impl AsyncFn(usize, usize) -> T + Sync,
) -> Verdict<Vec<Round<T>>> {
    race_in_parts(env, overlaps, usize::MAX, prepare, act).await
}

/// The same with every round prepared on its own: for preparations that would spoil each other.
pub(crate) async fn race_singly<T: Send>(
    env: &Env,
    overlaps: usize,
    prepare: impl AsyncFn(usize) -> Verdict,
    act: impl AsyncFn(usize, usize) -> T + Sync,
) -> Verdict<Vec<Round<T>>> {
    race_in_parts(env, overlaps, 1, async |rounds| prepare(rounds.start).await, act).await
}

async fn race_in_parts<T: Send>(
    env: &Env,
    overlaps: usize,
    part: usize,
    prepare: impl AsyncFn(Range<usize>) -> Verdict,
    act: impl AsyncFn(usize, usize) -> T + Sync,
) -> Verdict<Vec<Round<T>>> {
    let mut answers = Vec::new();
    let mut overlapped = 0;
    let started = SystemClock.elapsed();
    while overlapped < overlaps {
        if SystemClock.elapsed().saturating_sub(started) > GIVE_UP_AFTER {
            return Err(Failure::new(format!(
                "no race: only {overlapped} of {} rounds had calls that overlapped, {overlaps} are needed",
                answers.len()
            )));
        }
        let first = answers.len();
        let rounds = first..first + (overlaps - overlapped).min(part);
        prepare(rounds.clone()).await?;
        for round in run_rounds(racers(), rounds, &act)? {
            overlapped += usize::from(round.overlapped());
            answers.push(round.answers);
        }
    }
    env.saw(Fact::Overlaps, overlapped as u64);
    Ok(answers)
}

/// A race without preparation.
pub(crate) async fn race_bare<T: Send>(
    env: &Env,
    overlaps: usize,
    act: impl AsyncFn(usize, usize) -> T + Sync,
) -> Verdict<Vec<Round<T>>> {
    race(env, overlaps, async |_| Ok(()), act).await
}

/// One round with the times of its calls.
struct Timed<T> {
    answers: Vec<T>,
    spans: Vec<Range<Duration>>,
}

impl<T> Timed<T> {
    fn overlapped(&self) -> bool {
        self.spans.iter().enumerate().any(|(index, one)| {
            self.spans.iter().skip(index + 1).any(|other| one.start < other.end && other.start < one.end)
        })
    }
}

fn run_rounds<T: Send>(
    racers: usize,
    rounds: Range<usize>,
    act: &(impl AsyncFn(usize, usize) -> T + Sync),
) -> Verdict<Vec<Timed<T>>> {
    let barrier = Barrier::new(racers);
    let _track = TRACK.lock().unwrap_or_else(PoisonError::into_inner);
    let lap = |racer: usize| {
        let _leaving = Leaving(&barrier);
        let mut laps = Vec::with_capacity(rounds.len());
        for round in rounds.clone() {
            barrier.wait()?;
            stagger(round, racer, racers);
            let started = SystemClock.elapsed();
            let answer = RUNTIME.handle().block_on(act(round, racer));
            laps.push((answer, started..SystemClock.elapsed()));
        }
        Some(laps)
    };
    let by_racer: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..racers).map(|racer| scope.spawn(move || lap(racer))).collect();
        threads.into_iter().map(|thread| thread.join().ok().flatten()).collect()
    });
    let mut timed: Vec<_> = rounds.map(|_| Timed { answers: Vec::new(), spans: Vec::new() }).collect();
    for laps in by_racer {
        let laps = laps.ok_or_else(|| Failure::new("a racing call panicked"))?;
        for (round, (answer, span)) in timed.iter_mut().zip(laps) {
            round.answers.push(answer);
            round.spans.push(span);
        }
    }
    Ok(timed)
}

/// Holds one racer back for up to 14 microseconds, in turn: without this, the racer with the shorter call would win every
/// round of a store that is fast.
fn stagger(round: usize, racer: usize, racers: usize) {
    if round % racers != racer {
        return;
    }
    let held_back = Duration::from_micros((round / racers % 8) as u64 * 2);
    let started = SystemClock.elapsed();
    while SystemClock.elapsed().saturating_sub(started) < held_back {
        std::hint::spin_loop();
    }
}

/// Runs `act(racer)` on as many threads at once, and gives the answers by racer: for scenarios that have enough calls
/// to overlap by themselves.
pub(crate) fn together<T: Send>(racers: usize, act: impl AsyncFn(usize) -> T + Sync) -> Verdict<Vec<T>> {
    let round = run_rounds(racers, 0..1, &async |_, racer| act(racer).await)?;
    Ok(round.into_iter().flat_map(|round| round.answers).collect())
}

/// Runs `act(lap, racer)` on as many threads, which meet at the barrier before every lap; gives the answers by lap.
pub(crate) fn laps<T: Send>(
    racers: usize,
    laps: usize,
    act: impl AsyncFn(usize, usize) -> T + Sync,
) -> Verdict<Vec<Round<T>>> {
    Ok(run_rounds(racers, 0..laps, &act)?.into_iter().map(|lap| lap.answers).collect())
}

/// A barrier whose waiters spin, and are let go when one of them is gone for good.
struct Barrier {
    racers: usize,
    arrived: AtomicUsize,
    broken: AtomicBool,
}

/// How often a waiter looks before it offers its core to another one. Longer spinning wins a few more rounds on an idle
/// machine; on a busy one it costs ten times as long, because everybody waits for a racer without a core.
const SPINS: u32 = 1_000;

impl Barrier {
    const fn new(racers: usize) -> Self {
        Self { racers, arrived: AtomicUsize::new(0), broken: AtomicBool::new(false) }
    }

    /// Returns when all have come; `None` when one never will.
    fn wait(&self) -> Option<()> {
        let ticket = self.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (ticket / self.racers + 1) * self.racers;
        let mut spins = 0;
        while self.arrived.load(Ordering::Acquire) < all {
            if self.broken.load(Ordering::Acquire) {
                return None;
            }
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        Some(())
    }
}

/// Breaks the barrier when its racer panics.
struct Leaving<'b>(&'b Barrier);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_racers_run_all_rounds() {
        let rounds = run_rounds(3, 5..9, &async |round, racer| round * 10 + racer).unwrap();
        let answers: Vec<_> = rounds.iter().map(|round| round.answers.clone()).collect();
        assert_eq!(answers, [[50, 51, 52], [60, 61, 62], [70, 71, 72], [80, 81, 82]]);
    }

    #[test]
    fn a_racer_that_panics_fails_the_race_and_hangs_nobody() {
        let act = async |round, racer| assert!(round != 1 || racer != 1, "on purpose");
        assert_eq!(run_rounds(2, 0..3, &act).err().unwrap().message(), "a racing call panicked");
    }

    #[test]
    fn overlap_is_told_from_succession() {
        let span = |from, to| Duration::from_nanos(from)..Duration::from_nanos(to);
        let round =
            |spans: &[Range<Duration>]| Timed { answers: vec![(); spans.len()], spans: spans.to_vec() };
        assert!(!round(&[span(0, 5), span(5, 9), span(20, 30)]).overlapped());
        assert!(round(&[span(0, 5), span(20, 30), span(4, 9)]).overlapped());
    }
}
