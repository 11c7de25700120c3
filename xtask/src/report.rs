//! What a run consisted of: steps with their outcome and time, and the tests they counted.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::summary::Counts;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// With the reason, which goes into the table: a skip is never mistaken for a pass.
    Skipped(String),
    Failed(String),
}

#[derive(Debug)]
struct Row {
    name: String,
    outcome: Outcome,
    elapsed: Duration,
}

/// The steps of one run, in the order in which they ran.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    /// `None` until a test job ran: a run of lints alone has no closing test line.
    tests: Option<Counts>,
}

impl Report {
    /// Runs one step and records how it ended. A failed step does not stop the run: one look at the end tells
    /// everything that is wrong.
    pub(crate) fn step(&mut self, name: &str, body: impl FnOnce() -> Result<Outcome>) -> Outcome {
        println!("\n==> {name}");
        let start = stopwatch();
        let outcome = body().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        match &outcome {
            Outcome::Passed => {}
            Outcome::Skipped(reason) => println!("skipped: {reason}"),
            Outcome::Failed(reason) => println!("failed: {reason}"),
        }
        self.rows.push(Row { name: name.to_owned(), outcome: outcome.clone(), elapsed: start.elapsed() });
        outcome
    }

    /// Adds what a test step counted. Adding zeroes matters too: it makes the closing line appear.
    pub(crate) fn count(&mut self, counts: Counts) {
        self.tests.get_or_insert_default().add(counts);
    }

    /// Prints the table and, last, the closing test line; says whether everything passed.
    pub(crate) fn finish(mut self) -> ExitCode {
        if self.tests.is_some_and(|tests| tests.executed() == 0) {
            let outcome = Outcome::Failed("no test was executed".to_owned());
            self.rows.push(Row { name: "test count".to_owned(), outcome, elapsed: Duration::ZERO });
        }
        print!("\n{}", self.table());
        if let Some(tests) = self.tests {
            println!("\n{}", tests.closing_line());
        }
        if self.failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn failed(&self) -> bool {
        let failed_step = self.rows.iter().any(|row| matches!(row.outcome, Outcome::Failed(_)));
        // A failed test whose program still ended with status 0 is a failure all the same.
        failed_step || self.tests.is_some_and(|tests| tests.failed > 0)
    }

    fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("total".len());
        let total: Duration = self.rows.iter().map(|row| row.elapsed).sum();
        let mut text = format!("{:<width$}  {:>9}  result\n", "step", "time");
        for row in &self.rows {
            let result = match &row.outcome {
                Outcome::Passed => "ok".to_owned(),
                Outcome::Skipped(reason) => format!("skipped: {reason}"),
                Outcome::Failed(reason) => format!("FAILED: {reason}"),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:<width$}  {:>7.1} s  {result}", row.name, row.elapsed.as_secs_f64());
        }
        let _ = writeln!(text, "{:<width$}  {:>7.1} s", "total", total.as_secs_f64());
        text
    }
}

/// The instant from which a wait is measured.
#[allow(clippy::disallowed_methods, reason = "this measures a developer's wait; no test moves that time")]
pub(crate) fn stopwatch() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_fails_the_run_and_the_next_one_still_runs() {
        let mut report = Report::default();
        report.step("bad", || anyhow::bail!("broken"));
        assert_eq!(report.step("good", || Ok(Outcome::Passed)), Outcome::Passed);
        assert!(report.failed());
        let table = report.table();
        assert!(table.contains("FAILED: broken"), "{table}");
        assert!(table.contains("good"), "{table}");
    }

    #[test]
    fn a_skip_is_neither_a_pass_nor_a_failure_and_carries_its_reason() {
        let mut report = Report::default();
        report.step("deny", || Ok(Outcome::Skipped("not installed".to_owned())));
        assert!(!report.failed());
        assert!(report.table().contains("skipped: not installed"));
    }

    #[test]
    fn zero_executed_tests_fail_the_run() {
        let mut report = Report::default();
        report.count(Counts { skipped: 3, ..Counts::default() });
        assert_eq!(report.finish(), ExitCode::FAILURE);

        let mut report = Report::default();
        report.count(Counts { passed: 1, ..Counts::default() });
        assert_eq!(report.finish(), ExitCode::SUCCESS);
    }

    #[test]
    fn a_counted_failure_fails_the_run_even_if_its_step_passed() {
        let mut report = Report::default();
        report.step("tests", || Ok(Outcome::Passed));
        report.count(Counts { passed: 4, failed: 1, skipped: 0 });
        assert!(report.failed());
    }
}
