//! The targets, and what became of them.

use serde::Serialize;

use crate::args::{Place, Row};
use crate::report::Report;

/// Numbers of clients that have targets.
const CLIENTS: [usize; 4] = [1, 8, 64, 256];
/// At least this part of the floor's rate.
const OF_FLOOR_MIN: f64 = 0.9;
/// At most so many times the floor's p99.
const P99_OF_FLOOR_MAX: f64 = 1.25;
/// No request takes longer while the write-ahead log is copied back.
const CHECKPOINT_MAX_S: f64 = 1.0;
/// For a number of keys in memory: nanoseconds of claim and completion, and of a replay.
const MEMORY_NS_MAX: [(usize, f64, f64); 2] = [(10_000, 2000.0, 1000.0), (1_000_000, 4000.0, 2000.0)];
const FINGERPRINT_NS_MAX: f64 = 3000.0;
/// Allocations of claim and completion, and of a replay. They do not depend on the machine, so a test asserts them. The
/// ledger's claims own what they need, which is one of them, so that an unanswered one can go on by itself; and its first
/// caller gets the result as it is read back, which is another.
const ALLOCATIONS_MAX: [(Row, u64, u64); 2] = [(Row::Store, 9, 2), (Row::Ledger, 14, 4)];

/// On which side of its limit a figure has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    AtMost,
    AtLeast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Pass,
    Miss,
    /// This run did not measure it.
    NotMeasured,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) side: Side,
    pub(crate) limit: f64,
    pub(crate) measured: Option<f64>,
    pub(crate) verdict: Verdict,
}

impl Target {
    fn new(name: String, unit: &'static str, side: Side, limit: f64, measured: Option<f64>) -> Self {
        let verdict = match (measured, side) {
            (None, _) => Verdict::NotMeasured,
            (Some(measured), Side::AtMost) if measured <= limit => Verdict::Pass,
            (Some(measured), Side::AtLeast) if measured >= limit => Verdict::Pass,
            // Also what is not a number.
            (Some(_), _) => Verdict::Miss,
        };
        Self { name, unit, side, limit, measured, verdict }
    }
}

pub(crate) fn any_missed(targets: &[Target]) -> bool {
    targets.iter().any(|target| target.verdict == Verdict::Miss)
}

/// Every target of the stores that were asked for.
pub(crate) fn targets(report: &Report<'_>) -> Vec<Target> {
    let mut targets = Vec::new();
    if report.options.stores.contains(&Place::Memory) {
        memory(report, &mut targets);
    }
    if report.options.stores.contains(&Place::Sqlite) {
        floor(report, Place::Sqlite, &mut targets);
        checkpoints(report, &mut targets);
    }
    targets
}

fn memory(report: &Report<'_>, targets: &mut Vec<Target>) {
    for (keys, cycle_max, replay_max) in MEMORY_NS_MAX {
        let point =
            report.points.iter().find(|point| point.subject == Row::Store.name() && point.keys == keys);
        let (cycle, replay) =
            (point.map(|point| point.cycle.ns), point.and_then(|point| point.replay).map(|each| each.ns));
        let name = |what: &str| format!("MemoryStore, {keys} keys, one task: {what}");
        targets.push(Target::new(name("claim + complete"), "ns", Side::AtMost, cycle_max, cycle));
        targets.push(Target::new(name("replay"), "ns", Side::AtMost, replay_max, replay));
    }
    let hashed = report.fingerprint.as_ref().map(|hashed| hashed.ns);
    let name = "Fingerprint::json of 100 bytes".to_owned();
    targets.push(Target::new(name, "ns", Side::AtMost, FINGERPRINT_NS_MAX, hashed));
    for (subject, cycle_max, replay_max) in ALLOCATIONS_MAX {
        let counted = report.allocations.iter().find(|counted| counted.subject == subject);
        let name = |what: &str| format!("{} in memory, allocations of a {what}", subject.name());
        let real = crate::timing::real;
        let cycle = counted.map(|counted| real(counted.per_cycle));
        let replay = counted.map(|counted| real(counted.per_replay));
        targets.push(Target::new(name("cycle"), "", Side::AtMost, real(cycle_max), cycle));
        targets.push(Target::new(name("replay"), "", Side::AtMost, real(replay_max), replay));
    }
}

fn floor(report: &Report<'_>, place: Place, targets: &mut Vec<Target>) {
    for clients in CLIENTS {
        for subject in [Row::Store, Row::Ledger] {
            let summary = report.summary.iter().find(|summary| {
                summary.store == place.name() && summary.clients == clients && summary.subject == subject
            });
            let rate = summary.and_then(|summary| summary.of_floor).map(|ratio| ratio.median);
            let p99 = summary.and_then(|summary| summary.p99_of_floor).map(|ratio| ratio.median);
            let name = |what: &str| {
                format!("{}, {clients} clients, {}: {what} of the floor's", place.name(), subject.name())
            };
            targets.push(Target::new(name("rate"), "x", Side::AtLeast, OF_FLOOR_MIN, rate));
            targets.push(Target::new(name("p99"), "x", Side::AtMost, P99_OF_FLOOR_MAX, p99));
        }
    }
}

fn checkpoints(report: &Report<'_>, targets: &mut Vec<Target>) {
    for subject in [Row::Store, Row::Ledger] {
        let cell = report.checkpoints.iter().find(|cell| cell.subject == subject);
        // Without a checkpoint there is nothing to wait for, and nothing was measured.
        let longest = cell.filter(|cell| cell.checkpointed()).map(|cell| cell.all.max_us / 1e6);
        let name = format!("sqlite, {}: longest request during checkpoints", subject.name());
        targets.push(Target::new(name, "s", Side::AtMost, CHECKPOINT_MAX_S, longest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_met_by_reaching_it_and_by_nothing_that_is_not_a_number() {
        let verdict = |side, measured| Target::new(String::new(), "", side, 0.9, measured).verdict;
        assert_eq!(verdict(Side::AtLeast, Some(0.9)), Verdict::Pass);
        assert_eq!(verdict(Side::AtLeast, Some(0.899)), Verdict::Miss);
        assert_eq!(verdict(Side::AtMost, Some(0.9)), Verdict::Pass);
        assert_eq!(verdict(Side::AtMost, Some(0.901)), Verdict::Miss);
        assert_eq!(verdict(Side::AtMost, Some(f64::NAN)), Verdict::Miss);
        assert_eq!(verdict(Side::AtMost, None), Verdict::NotMeasured);
    }

    #[test]
    fn one_miss_is_a_miss_and_what_was_not_measured_is_none() {
        let target = |measured| Target::new(String::new(), "", Side::AtMost, 1.0, measured);
        assert!(!any_missed(&[target(Some(1.0)), target(None)]));
        assert!(any_missed(&[target(Some(1.0)), target(Some(2.0))]));
    }
}
