//! Medians over the rounds, and ratios to the floor of the same round.

use serde::Serialize;

use crate::args::{Place, Row};
use crate::report::Cell;

/// One subject at one number of clients, over all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Summary {
    pub(crate) store: &'static str,
    pub(crate) subject: Row,
    pub(crate) clients: usize,
    pub(crate) rounds: usize,
    pub(crate) ops_per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    /// The longest of all rounds, not a median.
    pub(crate) max_us: f64,
    pub(crate) cpu_us_per_op: f64,
    /// Rate over the floor's rate; absent for the floor itself.
    pub(crate) of_floor: Option<Ratio>,
    /// p99 of all requests over the floor's.
    pub(crate) p99_of_floor: Option<Ratio>,
    pub(crate) claim_p99_of_floor: Option<Ratio>,
    pub(crate) complete_p99_of_floor: Option<Ratio>,
    pub(crate) replay_p99_of_floor: Option<Ratio>,
}

/// The ratios of the rounds, each within its round.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Ratio {
    /// `None` without a floor in any round.
    fn of(mine: &[&Cell], floor: &[&Cell], figure: impl Fn(&Cell) -> f64) -> Option<Self> {
        let in_round = |cell: &&Cell| {
            let floor = floor.iter().find(|floor| floor.round == cell.round)?;
            Some(figure(cell) / figure(floor))
        };
        let ratios: Vec<f64> = mine.iter().filter_map(in_round).collect();
        Some(Self {
            median: median(&ratios)?,
            least: ratios.iter().copied().reduce(f64::min)?,
            most: ratios.iter().copied().reduce(f64::max)?,
        })
    }
}

/// The middle of `values`, or the mean of the two in the middle; `None` without values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*sorted.get(sorted.len() / 2 - 1)?, upper))
}

/// One summary for each subject that `cells` holds of `place` at `clients`.
pub(crate) fn summaries(cells: &[Cell], place: Place, clients: usize) -> Vec<Summary> {
    let of = |subject: Row| -> Vec<&Cell> {
        let wanted =
            |cell: &&Cell| cell.store == place.name() && cell.clients == clients && cell.subject == subject;
        cells.iter().filter(wanted).collect()
    };
    let floor = of(Row::Floor);
    let summary = |subject: &Row| {
        let mine = of(*subject);
        let figures = |figure: fn(&Cell) -> f64| mine.iter().map(|cell| figure(cell)).collect::<Vec<f64>>();
        let middle = |figure: fn(&Cell) -> f64| median(&figures(figure));
        let compared: &[&Cell] = if *subject == Row::Floor { &[] } else { &floor };
        let ratio = |figure: fn(&Cell) -> f64| Ratio::of(&mine, compared, figure);
        Some(Summary {
            store: place.name(),
            subject: *subject,
            clients,
            rounds: mine.len(),
            ops_per_s: middle(|cell| cell.ops_per_s)?,
            p50_us: middle(|cell| cell.all.p50_us)?,
            p99_us: middle(|cell| cell.all.p99_us)?,
            p999_us: middle(|cell| cell.all.p999_us)?,
            max_us: figures(|cell| cell.all.max_us).into_iter().reduce(f64::max)?,
            cpu_us_per_op: middle(|cell| cell.cpu_us_per_op)?,
            of_floor: ratio(|cell| cell.ops_per_s),
            p99_of_floor: ratio(|cell| cell.all.p99_us),
            claim_p99_of_floor: ratio(|cell| cell.claim.p99_us),
            complete_p99_of_floor: ratio(|cell| cell.complete.p99_us),
            replay_p99_of_floor: ratio(|cell| cell.replay.p99_us),
        })
    };
    Row::of(place).iter().filter_map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::Percentiles;

    fn cell(subject: Row, round: usize, ops_per_s: f64, p99_us: f64) -> Cell {
        let all = Percentiles { p50_us: 1.0, p99_us, p999_us: p99_us, max_us: p99_us };
        Cell {
            store: "sqlite",
            subject,
            clients: 8,
            round,
            claims: 1,
            completes: 1,
            replays: 1,
            elapsed_s: 1.0,
            ops_per_s,
            cpu_us_per_op: 1.0,
            all,
            claim: all,
            complete: all,
            replay: all,
            files: None,
        }
    }

    #[test]
    fn the_middle_of_an_even_number_is_between_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine slows down by half in the second and third round: the ratios do not notice.
        let cells = [
            cell(Row::Floor, 0, 1000.0, 10.0),
            cell(Row::Store, 0, 900.0, 11.0),
            cell(Row::Floor, 1, 500.0, 20.0),
            cell(Row::Store, 1, 450.0, 22.0),
            cell(Row::Floor, 2, 500.0, 20.0),
            cell(Row::Store, 2, 475.0, 40.0),
        ];
        let summaries = summaries(&cells, Place::Sqlite, 8);
        assert_eq!(summaries.len(), 2);
        let [floor, store] = &summaries[..] else { unreachable!() };
        assert!(floor.of_floor.is_none());
        assert_eq!((store.ops_per_s, store.max_us, store.rounds), (475.0, 40.0, 3));
        let ratio = store.of_floor.unwrap();
        assert_eq!((ratio.median, ratio.least, ratio.most), (0.9, 0.9, 0.95));
        assert_eq!(store.p99_of_floor.unwrap().median, 1.1);
        assert!(super::summaries(&cells, Place::Memory, 8).is_empty());
    }
}
