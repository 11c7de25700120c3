//! `idem list`.

use idem_core::record::{Record, View};
use idem_core::request::{PAGE_MAX, Query};
use idem_core::{Error, Store, Timestamp};

use super::view::RecordJson;
use super::{Failed, print};
use crate::args::ListArgs;

pub(super) async fn list(store: &dyn Store, args: &ListArgs) -> Result<(), Failed> {
    let guard_ms = store.capabilities().guard_ms;
    let mut query = Query::all();
    query.tenant.clone_from(&args.tenant);
    query.operation.clone_from(&args.operation);
    query.views = if args.stuck {
        vec![View::Lapsed, View::Uncertain]
    } else {
        args.state.iter().copied().map(View::from).collect()
    };
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut columns = Columns::default();
    while left > 0 {
        query.limit = usize::try_from(left).unwrap_or(PAGE_MAX).min(PAGE_MAX);
        let page = store.list(&query).await?;
        left = left.saturating_sub(page.records.len() as u64);
        let mut text = String::new();
        let rows = page.records.iter().map(|record| (record, record.view(page.now, guard_ms)));
        if args.json.json {
            for (record, view) in rows {
                let line = serde_json::to_string(&RecordJson::of(record, view));
                let line =
                    line.map_err(|error| Error::internal(format!("a record has no JSON form: {error}")))?;
                text.push_str(&line);
                text.push('\n');
            }
        } else {
            text = columns.table(&rows.map(|(record, view)| row(record, view)).collect::<Vec<_>>());
        }
        print(&text)?;
        match page.next {
            Some(next) if query.after.as_ref() == Some(&next) => {
                return Err(Error::internal("the store lists the same page again").into());
            }
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    Ok(())
}

const HEADER: [&str; 6] = ["STATE", "ATTEMPT", "SINCE", "TENANT", "OPERATION", "KEY"];

fn row(record: &Record, view: View) -> [String; 6] {
    let since: Option<Timestamp> = match view {
        View::Running => record.current.as_ref().map(|attempt| attempt.started_at),
        View::Lapsed => record.current.as_ref().map(|attempt| attempt.lease_until),
        View::Uncertain => record.parked.as_ref().map(|parked| parked.since),
        View::Completed | View::Expired => record.completed_at,
        _ => None,
    };
    [
        view.name().to_owned(),
        record.attempt_number().to_string(),
        since.unwrap_or(record.updated_at).to_string(),
        record.id.tenant().to_owned(),
        record.id.operation().to_owned(),
        record.id.key().to_owned(),
    ]
}

/// The widths of the columns. The header is printed once, above the first page that is not empty; later pages only
/// ever widen it.
#[derive(Default)]
struct Columns {
    widths: Option<[usize; 6]>,
}

impl Columns {
    fn table(&mut self, rows: &[[String; 6]]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let first = self.widths.is_none();
        let mut widths = self.widths.unwrap_or(HEADER.map(str::len));
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        self.widths = Some(widths);
        let mut text = String::new();
        if first {
            push_line(&mut text, &HEADER, &widths);
        }
        for row in rows {
            push_line(&mut text, &row.each_ref().map(String::as_str), &widths);
        }
        text
    }
}

fn push_line(text: &mut String, cells: &[&str; 6], widths: &[usize; 6]) {
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        line.push_str(&format!("{cell:<width$}  "));
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_the_header_comes_once() {
        let row = |key: &str| ["lapsed", "1", "2026", "default", "cli/sh", key].map(str::to_owned);
        let mut columns = Columns::default();
        assert_eq!(columns.table(&[]), "");
        assert_eq!(
            columns.table(&[row("a")]),
            "STATE   ATTEMPT  SINCE  TENANT   OPERATION  KEY\nlapsed  1        2026   default  cli/sh     a\n"
        );
        assert_eq!(columns.table(&[row("b")]), "lapsed  1        2026   default  cli/sh     b\n");
    }
}
