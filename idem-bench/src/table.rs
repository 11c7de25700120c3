//! The report for people.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};

use crate::report::{Batch, Each, Report};
use crate::summary::{Ratio, Summary, median};
use crate::targets::{Side, Target, Verdict};
use crate::timing::real;

/// Everything that was measured, as text.
pub(crate) fn text(report: &Report<'_>) -> String {
    let mut parts = vec![machine(report)];
    parts.extend(points(report));
    parts.extend(allocations(report));
    parts.extend(fingerprint(report));
    let mut rest = report.summary.as_slice();
    while let Some(first) = rest.first() {
        let same = |summary: &&Summary| summary.store == first.store && summary.clients == first.clients;
        let (group, others) = rest.split_at(rest.iter().take_while(same).count());
        parts.push(mix(report, group));
        rest = others;
    }
    parts.extend(checkpoints(report));
    parts.extend(targets(&report.targets));
    parts.join("\n\n")
}

fn machine(report: &Report<'_>) -> String {
    let machine = &report.machine;
    let mut text = format!("{} {}, {} cores", machine.os, machine.architecture, machine.cores);
    if let (Some(before), Some(after)) = (machine.load_before, machine.load_after) {
        let _ = write!(text, ", load {before:.2} before and {after:.2} after");
    }
    if let Some(share) = machine.others_share {
        let _ = write!(text, ", {:.0} % of it used by others", share * 100.0);
    }
    if let Some(syncs_per_s) = machine.syncs_per_s {
        let _ = write!(text, "\n{} appends of 4 KiB with a sync a second", grouped(syncs_per_s));
        if syncs_per_s > 50_000.0 {
            text.push_str(" (a disk does not do that: is --dir in memory?)");
        }
    }
    if let Some(sizes) = report.record_bytes {
        let _ =
            write!(text, "\nrecords of {} bytes claimed and {} completed", sizes.claimed, sizes.completed);
    }
    if !machine.release_build {
        text.push_str("\nA DEBUG BUILD: THESE FIGURES MEAN NOTHING");
    }
    text
}

fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn points(report: &Report<'_>) -> Option<String> {
    let rows = report.points.iter().map(|point| {
        let mut row = vec![format!("{}, {} keys", point.subject, point.keys)];
        row.extend(each(point.cycle, point.rounds.iter().map(|once| once.cycle)));
        if let Some(replay) = point.replay {
            row.extend(each(replay, point.rounds.iter().filter_map(|once| once.replay)));
        }
        row
    });
    let header = [
        "memory, one task",
        "claim + complete ns",
        "least..most",
        "CPU ns",
        "replay ns",
        "least..most",
        "CPU ns",
    ];
    (!report.points.is_empty()).then(|| table(&header, rows))
}

fn each(middle: Each, rounds: impl Iterator<Item = Each> + Clone) -> [String; 3] {
    [grouped(middle.ns), spread(rounds.map(|each| each.ns)), grouped(middle.cpu_ns)]
}

/// The least and the most, where there are any.
fn spread(values: impl Iterator<Item = f64> + Clone) -> String {
    let least = values.clone().reduce(f64::min);
    let most = values.reduce(f64::max);
    least.zip(most).map_or_else(String::new, |(least, most)| format!("{}..{}", grouped(least), grouped(most)))
}

fn allocations(report: &Report<'_>) -> Option<String> {
    let rows = report.allocations.iter().map(|counted| {
        vec![
            counted.subject.name().to_owned(),
            counted.per_cycle.to_string(),
            counted.bytes_per_cycle.to_string(),
            counted.kept_bytes_per_cycle.to_string(),
            counted.per_replay.to_string(),
            counted.bytes_per_replay.to_string(),
        ]
    });
    let header = ["memory, allocations", "a cycle", "bytes", "of these kept", "a replay", "bytes"];
    (!report.allocations.is_empty()).then(|| table(&header, rows))
}

/// One table: a store at a number of clients.
fn mix(report: &Report<'_>, group: &[Summary]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let title = format!("{}, {} clients", first.store, first.clients);
    let header =
        [&title, "ops/s", "p50 us", "p99", "p99.9", "max", "CPU us/op", "of floor", "", "p99 of floor", ""];
    let mut rows: Vec<_> = group.iter().map(summary).collect();
    if first.store == crate::args::Place::Sqlite.name() {
        rows.extend(batch(&report.batches, first.clients));
    }
    table(&header, rows)
}

fn summary(summary: &Summary) -> Vec<String> {
    let mut row = vec![
        summary.subject.name().to_owned(),
        grouped(summary.ops_per_s),
        short(summary.p50_us),
        short(summary.p99_us),
        short(summary.p999_us),
        short(summary.max_us),
        short(summary.cpu_us_per_op),
    ];
    for ratio in [summary.of_floor, summary.p99_of_floor] {
        match ratio {
            None => row.extend([String::new(), String::new()]),
            Some(Ratio { median, least, most }) => {
                row.extend([format!("{median:.2}"), format!("{least:.2}..{most:.2}")]);
            }
        }
    }
    row
}

fn batch(batches: &[Batch], batch: usize) -> Option<Vec<String>> {
    let rates: Vec<f64> = batches.iter().filter(|one| one.batch == batch).map(|one| one.ops_per_s).collect();
    Some(vec!["one thread, at hand".to_owned(), grouped(median(&rates)?)])
}

fn checkpoints(report: &Report<'_>) -> Option<String> {
    let rows = report.checkpoints.iter().map(|cell| {
        let mut row = vec![
            cell.subject.name().to_owned(),
            grouped(cell.ops_per_s),
            short(cell.all.p99_us),
            short(cell.all.p999_us),
            short(cell.all.max_us),
        ];
        if let Some(files) = cell.files {
            row.extend([files.database_bytes, files.log_bytes].map(|bytes| grouped(real(bytes) / 1e6)));
        }
        row.push(if cell.checkpointed() { "yes" } else { "no" }.to_owned());
        row
    });
    let first = report.checkpoints.first()?;
    let title = format!("sqlite, {} clients, {} keys", first.clients, first.claims);
    let header = [&title, "ops/s", "p99 us", "p99.9", "max", "database MB", "log MB", "checkpoints"];
    Some(table(&header, rows))
}

fn fingerprint(report: &Report<'_>) -> Option<String> {
    let hashed = report.fingerprint.as_ref()?;
    let rounds = spread(hashed.rounds_ns.iter().copied());
    let row = vec![
        format!("{} bytes", hashed.value_bytes),
        grouped(hashed.ns),
        rounds,
        hashed.allocations.to_string(),
    ];
    Some(table(&["Fingerprint::json", "ns", "least..most", "allocations"], [row]))
}

/// One line for each target that was measured, and how many were not.
fn targets(targets: &[Target]) -> Option<String> {
    let measured = |target: &&Target| target.measured.is_some();
    let rows = targets.iter().filter(measured).map(target);
    let mut text = table(&["target", "limit", "measured", ""], rows);
    let left_out = targets.iter().filter(|target| target.measured.is_none()).count();
    if left_out > 0 {
        let _ = write!(text, "\n {left_out} targets were not measured");
    }
    (!targets.is_empty()).then_some(text)
}

fn target(target: &Target) -> Vec<String> {
    let side = match target.side {
        Side::AtMost => "<=",
        Side::AtLeast => ">=",
    };
    let verdict = match target.verdict {
        Verdict::Pass => "PASS",
        Verdict::Miss => "MISS",
        Verdict::NotMeasured => "",
    };
    let figure = |value: f64| format!("{} {}", short(value), target.unit).trim_end().to_owned();
    let measured = target.measured.map_or_else(String::new, figure);
    vec![target.name.clone(), format!("{side} {}", figure(target.limit)), measured, verdict.to_owned()]
}

/// A figure with three digits or so.
fn short(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else if value < 100.0 {
        format!("{value:.1}")
    } else {
        grouped(value)
    }
}

/// A whole number with commas.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && digit.is_ascii_digit() && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_grouped() {
        let cases =
            [(0.0, "0.00"), (9.994, "9.99"), (42.04, "42.0"), (999.6, "1,000"), (1_234_567.0, "1,234,567")];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
        assert_eq!(
            (grouped(12.0), grouped(123.0), grouped(1234.0)),
            ("12".into(), "123".into(), "1,234".into())
        );
    }
}
