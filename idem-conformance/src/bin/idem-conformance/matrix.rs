//! The matrix: families by stores.

use idem_conformance::Family;
use idem_conformance::report::{Counts, Report};

/// What stands in one cell: how many passed of those that were to run, and what else there is to say.
pub(crate) fn cell(counts: Counts) -> String {
    let mut text = format!("{}/{}", counts.passed, counts.all() - counts.skipped);
    if counts.all() == counts.skipped {
        text = if counts.all() == 0 { String::new() } else { "-".to_owned() };
    }
    for (count, word) in [(counts.failed, "failed"), (counts.unknown, "unknown"), (counts.skipped, "skipped")]
    {
        if count > 0 {
            text += &format!(" {count} {word}");
        }
    }
    text
}

/// The table, with a line for the sums.
pub(crate) fn matrix(report: &Report) -> String {
    let shown = Family::ALL
        .into_iter()
        .filter(|family| report.stores.iter().any(|store| store.counts(Some(*family)).all() > 0));
    let mut rows = vec![
        std::iter::once(String::new())
            .chain(report.stores.iter().map(|store| store.name.clone()))
            .collect::<Vec<_>>(),
    ];
    for family in shown.map(Some).chain([None]) {
        let name = family.map_or("all", Family::name).to_owned();
        let cells = report.stores.iter().map(|store| cell(store.counts(family)));
        rows.push(std::iter::once(name).chain(cells).collect());
    }
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.len()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let padded: Vec<_> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        text += &format!("{}\n", padded.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use idem_conformance::report::State;

    use super::*;

    #[test]
    fn a_cell_tells_passes_from_everything_else() {
        let counts = |states: &[State]| {
            let mut counts = Counts::default();
            states.iter().for_each(|state| counts.add(*state));
            counts
        };
        let (pass, fail, skip, unknown) = (State::Passed, State::Failed, State::Skipped, State::Unknown);
        assert_eq!(cell(counts(&[])), "");
        assert_eq!(cell(counts(&[pass, pass])), "2/2");
        assert_eq!(cell(counts(&[pass, fail, skip])), "1/2 1 failed 1 skipped");
        assert_eq!(cell(counts(&[skip, skip])), "- 2 skipped");
        assert_eq!(cell(counts(&[unknown])), "0/1 1 unknown");
    }
}
