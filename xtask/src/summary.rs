//! Reads the closing lines of test programs and adds them up.
//!
//! libtest, libtest-mimic and rustdoc all close with
//! `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.

use anyhow::{Context, Result, bail};

/// Tests by how they ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
        self.skipped = self.skipped.saturating_add(other.skipped);
    }

    /// Tests that ran; a skipped test proves nothing.
    pub(crate) fn executed(&self) -> u64 {
        self.passed.saturating_add(self.failed)
    }

    pub(crate) fn closing_line(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The sum over the output of one step.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    /// How many closing lines were seen: one for each test program that ran to its end.
    pub(crate) closed: usize,
    /// Lines that begin like a closing line and cannot be read. Guessing would make the sum wrong silently.
    pub(crate) unreadable: Vec<String>,
}

impl Tally {
    /// Looks at one line of output.
    pub(crate) fn see(&mut self, line: &str) {
        let line = without_colour(line);
        match parse_closing_line(&line) {
            None => {}
            Some(Ok(counts)) => {
                self.counts.add(counts);
                self.closed = self.closed.saturating_add(1);
            }
            Some(Err(_)) => self.unreadable.push(line),
        }
    }
}

/// `None`: not a closing line. `Some(Err)`: it is one, in a form that is not known.
fn parse_closing_line(line: &str) -> Option<Result<Counts>> {
    let rest = line.trim_end().strip_prefix("test result: ")?;
    Some(parse_counts(rest))
}

fn parse_counts(rest: &str) -> Result<Counts> {
    let (_verdict, fields) = rest.split_once(". ").context("no verdict")?;
    let (mut passed, mut failed, mut skipped) = (None, None, None);
    for field in fields.split("; ") {
        let Some((number, word)) = field.split_once(' ') else { continue };
        let slot = match word {
            "passed" => &mut passed,
            "failed" => &mut failed,
            "ignored" => &mut skipped,
            _ => continue,
        };
        *slot = Some(number.parse::<u64>().with_context(|| format!("`{number}` is no count"))?);
    }
    match (passed, failed, skipped) {
        (Some(passed), Some(failed), Some(skipped)) => Ok(Counts { passed, failed, skipped }),
        _ => bail!("a count is missing"),
    }
}

/// Drops terminal colour sequences (`ESC [ … m`), which a caller can force with `CARGO_TERM_COLOR`.
fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // Up to and including the letter that ends the sequence.
            for inside in characters.by_ref() {
                if inside.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.see(line));
        tally
    }

    #[test]
    fn closing_lines_are_added_up() {
        let seen = tally(
            "\nrunning 3 tests\ntest a ... ok\n\n\
             test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             test result: FAILED. 40 passed; 2 failed; 3 ignored; 7 measured; 9 filtered out; finished in 1.5s\n",
        );
        assert_eq!(seen.counts, Counts { passed: 42, failed: 2, skipped: 4 });
        assert_eq!(seen.closed, 2);
        assert!(seen.unreadable.is_empty());
        assert_eq!(seen.counts.closing_line(), "42 passed, 2 failed, 4 skipped");
    }

    #[test]
    fn colour_does_not_hide_a_closing_line() {
        let seen = tally(
            "test result: \u{1b}[32mok\u{1b}(B\u{1b}[m. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        );
        assert_eq!(seen.counts.passed, 5);
    }

    #[test]
    fn a_line_in_the_middle_of_a_sentence_is_no_closing_line() {
        let seen = tally("it printed test result: ok. 5 passed; 0 failed; 0 ignored\n    test result: no\n");
        assert_eq!(seen.closed, 0);
        assert!(seen.unreadable.is_empty());
    }

    #[test]
    fn an_unknown_form_is_kept_and_not_guessed_at() {
        for line in [
            "test result: ok. 5 passed; 0 failed",
            "test result: ok. many passed; 0 failed; 0 ignored",
            "test result: ok",
        ] {
            let seen = tally(line);
            assert_eq!(seen.closed, 0, "{line}");
            assert_eq!(seen.unreadable, [line]);
        }
    }
}
