//! Reading a table of the contract, and checking one step against a cell.

use std::fmt::Debug;

use super::fixture::Column;
use crate::ErrorKind;
use crate::record::Record;
use crate::transition::{Context, Transition, Write, invariants};

/// One cell: the words that open its row, its column, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) row: &'static str,
    pub(super) column: Column,
    pub(super) text: &'static str,
}

/// The cells of a Markdown table whose header names columns; "same" is the cell to the left.
pub(super) fn cells(table: &'static str) -> Vec<Cell> {
    let mut lines = table.lines().map(str::trim).filter(|line| line.starts_with('|'));
    let fields = |line: &'static str| line.trim_matches('|').split('|').map(str::trim);
    let header: Vec<Vec<Column>> = fields(lines.next().unwrap()).skip(1).map(Column::named).collect();
    let mut cells = Vec::new();
    for line in lines {
        let mut texts = fields(line);
        let (row, mut left) = (texts.next().unwrap(), "");
        let texts: Vec<_> = texts.collect();
        if row.starts_with("---") {
            continue;
        }
        assert_eq!(texts.len(), header.len(), "row {row:?}");
        for (text, columns) in texts.into_iter().zip(&header) {
            left = if text == "same" { left } else { text };
            cells.extend(columns.iter().map(|&column| Cell { row, column, text: left }));
        }
    }
    cells
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum After {
    /// "=".
    Same,
    /// Nothing is left.
    Removed,
    /// Exactly this.
    Record(Box<Record>),
}

impl After {
    pub(super) fn put(record: Record) -> Self {
        Self::Record(Box::new(record))
    }
}

/// Applies `request` and checks answer, written record and invariants.
pub(super) fn verify<T>(
    what: &str,
    request: &T,
    stored: Option<&Record>,
    context: &Context,
    answer: &T::Answer,
    after: &After,
) where
    T: Transition + Debug,
    T::Answer: PartialEq + Debug,
{
    let step =
        request.apply(stored, context).unwrap_or_else(|error| panic!("{what}: {error:?}\n{request:#?}"));
    assert_eq!(&step.answer, answer, "{what}: the answer\n{request:#?}\non {stored:#?}");
    let (written, left) = match step.write {
        Write::Keep => (After::Same, stored.cloned()),
        Write::Remove => (After::Removed, None),
        Write::Put(record) => (After::Record(record.clone()), Some(*record)),
    };
    assert_eq!(&written, after, "{what}: the record\n{request:#?}\non {stored:#?}");
    invariants::check(stored, left.as_ref(), context)
        .unwrap_or_else(|broken| panic!("{what}: {broken}\n{request:#?}\non {stored:#?}"));
}

/// Applies `request` and checks that it fails as `kind`.
pub(super) fn refuse<T>(what: &str, request: &T, stored: Option<&Record>, context: &Context, kind: ErrorKind)
where
    T: Transition + Debug,
    T::Answer: Debug,
{
    match request.apply(stored, context) {
        Err(error) => assert_eq!(error.kind(), kind, "{what}: {error:?}"),
        Ok(step) => panic!("{what}: {step:?} instead of {kind:?}\n{request:#?}\non {stored:#?}"),
    }
}

#[test]
fn a_table_is_read_cell_by_cell() {
    let cells = cells("| | A, A* | C | U |\n | one | x = | y | same |");
    let read: Vec<_> = cells.iter().map(|cell| (cell.row, cell.column, cell.text)).collect();
    let expected = [
        ("one", Column::A, "x ="),
        ("one", Column::AStar, "x ="),
        ("one", Column::Fresh, "y"),
        ("one", Column::Exp, "y"),
        ("one", Column::U, "y"),
    ];
    assert_eq!(read, expected);
}
