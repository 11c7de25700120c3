//! What is seen while the suite runs.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stderr, stdout};

use idem_conformance::Family;
use idem_conformance::report::{Counts, ScenarioReport, State};

use crate::matrix::cell;

/// Prints a line for each family of a store once its last scenario ended, every failure at once, and, on a terminal, how
/// far it is.
#[derive(Debug)]
pub(crate) struct Progress {
    /// How many scenarios of a store's family are still to come, and how the others ended.
    open: BTreeMap<(usize, Family), (usize, Counts, u64)>,
    all: usize,
    ended: usize,
    failed: usize,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { open: BTreeMap::new(), all: 0, ended: 0, failed: 0, terminal: stderr().is_terminal() }
    }

    /// One more scenario is to come.
    pub(crate) fn expect(&mut self, store: usize, family: Family) {
        self.all += 1;
        self.open.entry((store, family)).or_default().0 += 1;
    }

    /// `report` ended on the store called `name`.
    pub(crate) fn ended(&mut self, store: usize, name: &str, family: Family, report: &ScenarioReport) {
        self.ended += 1;
        self.wipe();
        if report.state == State::Failed {
            self.failed += 1;
            println!("\n{}\n", report.told(name));
        }
        if let Some((left, counts, took_us)) = self.open.get_mut(&(store, family)) {
            *left = left.saturating_sub(1);
            counts.add(report.state);
            *took_us += report.took_us;
            if *left == 0 {
                let seconds = *took_us / 1_000_000;
                let tenths = *took_us / 100_000 % 10;
                println!("{name:<10} {:<12} {:<18} {seconds:>4}.{tenths} s", family.name(), cell(*counts));
            }
        }
        if self.terminal && self.ended < self.all {
            eprint!("[{}/{}] {} failed, last {name}::{}", self.ended, self.all, self.failed, report.id);
        }
        // Whether anybody sees it is no matter of the verdict.
        let _ = stdout().flush().and_then(|()| stderr().flush());
    }

    fn wipe(&self) {
        if self.terminal {
            eprint!("\r\x1b[2K");
        }
    }
}
