//! Every statement of the ledger, and what its rows are.

use idem_core::record::State;
use idem_core::request::Query;
use idem_core::{Error, Omission, OperationId, Record, Timestamp, View, codec};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};

use crate::error::work;

type Result<T> = idem_core::Result<T>;

/// `state` of a completed record; the partial index and the texts below have it as a literal.
const COMPLETED: i64 = 2;

fn state_number(state: State) -> Result<i64> {
    match state {
        State::Received => Ok(0),
        State::Processing => Ok(1),
        State::Completed => Ok(COMPLETED),
        State::Uncertain => Ok(3),
        _ => Err(Error::internal("a state that this version of idem-sqlite does not know")),
    }
}

/// A stored record and where it is.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its row.
    pub(crate) row: i64,
    /// The record.
    pub(crate) record: Record,
}

const FIND: &str = "SELECT id, record FROM idem_operations WHERE tenant = ?1 AND operation = ?2 AND key = ?3";

/// The record of operation `id`.
pub(crate) fn find(connection: &Connection, id: &OperationId) -> Result<Option<Found>> {
    let mut statement = connection.prepare_cached(FIND).map_err(work)?;
    let mut rows = statement.query(params![id.tenant(), id.operation(), id.key()]).map_err(work)?;
    let Some(row) = rows.next().map_err(work)? else { return Ok(None) };
    read(id.clone(), row, 0).map(Some)
}

/// The record in the columns `at` and `at + 1`: row and bytes.
fn read(id: OperationId, row: &Row<'_>, at: usize) -> Result<Found> {
    let number: i64 = row.get(at).map_err(work)?;
    let bytes = row.get_ref(at + 1).map_err(work)?.as_blob().map_err(|error| corrupt_row(number, &error))?;
    let record = codec::decode(&id, bytes).map_err(|error| corrupt_row(number, &error))?;
    Ok(Found { row: number, record })
}

/// Names the row, so that an operator finds it; keys are never in an error.
fn corrupt_row(row: i64, cause: &dyn std::fmt::Display) -> Error {
    Error::corrupt(format!("row {row} of idem_operations cannot be read: {cause}"))
}

/// What the columns beside the record repeat of it.
struct Columns {
    state: i64,
    version: i64,
    lease_until: Option<i64>,
    since: Option<i64>,
    response_until: Option<i64>,
    identity_until: Option<i64>,
    sweep_at: Option<i64>,
}

impl Columns {
    fn of(record: &Record, step_ms: u64) -> Result<Self> {
        let attempt = record.current.as_ref();
        let (lease_until, since) = match record.state {
            State::Processing => (
                Some(attempt.map_or(Timestamp::EPOCH, |attempt| attempt.lease_until)),
                attempt.map(|attempt| attempt.started_at),
            ),
            State::Uncertain => (None, record.parked.as_ref().map(|parked| parked.since)),
            _ => (None, None),
        };
        // A response that is gone is expired from the beginning of time, so that one comparison tells.
        let omission = record.outcome.as_ref().and_then(|outcome| outcome.omission());
        let gone = matches!(omission, Some(Omission::Erased | Omission::Expired));
        let response_until = if gone { Some(Timestamp::EPOCH) } else { record.response_until };
        Ok(Self {
            state: state_number(record.state)?,
            version: number(record.version)?,
            lease_until: time(lease_until)?,
            since: time(since)?,
            response_until: time(response_until)?,
            identity_until: time(record.identity_until)?,
            sweep_at: time(record.sweep_at(step_ms))?,
        })
    }
}

fn number(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| Error::corrupt("a number of a record is beyond 63 bits"))
}

fn time(at: Option<Timestamp>) -> Result<Option<i64>> {
    at.map(|at| number(at.as_millis())).transpose()
}

const INSERT: &str = "INSERT INTO idem_operations (tenant, operation, key, state, version, lease_until, since, \
    response_until, identity_until, sweep_at, record) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// Stores a record where there was none.
pub(crate) fn insert(connection: &Connection, record: &Record, step_ms: u64) -> Result<()> {
    let columns = Columns::of(record, step_ms)?;
    let bytes = codec::encode(record);
    let id = &record.id;
    let mut statement = connection.prepare_cached(INSERT).map_err(work)?;
    let changed = statement
        .execute(params![
            id.tenant(),
            id.operation(),
            id.key(),
            columns.state,
            columns.version,
            columns.lease_until,
            columns.since,
            columns.response_until,
            columns.identity_until,
            columns.sweep_at,
            bytes,
        ])
        .map_err(work)?;
    one(changed)
}

const UPDATE: &str = "UPDATE idem_operations SET state = ?2, version = ?3, lease_until = ?4, since = ?5, \
    response_until = ?6, identity_until = ?7, sweep_at = ?8, record = ?9 WHERE id = ?1 AND version = ?10";

/// Stores a record in place of `found`, which was read in the same write transaction.
pub(crate) fn update(connection: &Connection, found: &Found, record: &Record, step_ms: u64) -> Result<()> {
    let columns = Columns::of(record, step_ms)?;
    let bytes = codec::encode(record);
    let mut statement = connection.prepare_cached(UPDATE).map_err(work)?;
    let changed = statement
        .execute(params![
            found.row,
            columns.state,
            columns.version,
            columns.lease_until,
            columns.since,
            columns.response_until,
            columns.identity_until,
            columns.sweep_at,
            bytes,
            number(found.record.version)?,
        ])
        .map_err(work)?;
    one(changed)
}

/// Removes the record in `row`, which was read in the same write transaction.
pub(crate) fn remove(connection: &Connection, row: i64) -> Result<()> {
    let mut statement =
        connection.prepare_cached("DELETE FROM idem_operations WHERE id = ?1").map_err(work)?;
    one(statement.execute([row]).map_err(work)?)
}

fn one(changed: usize) -> Result<()> {
    if changed == 1 {
        return Ok(());
    }
    Err(Error::internal("a write of one record changed none or several rows"))
}

/// The version of the record of operation `id`.
pub(crate) fn version(connection: &Connection, id: &OperationId) -> Result<Option<u64>> {
    let mut statement = connection
        .prepare_cached(
            "SELECT version FROM idem_operations WHERE tenant = ?1 AND operation = ?2 AND key = ?3",
        )
        .map_err(work)?;
    let version: Option<i64> = statement
        .query_row(params![id.tenant(), id.operation(), id.key()], |row| row.get(0))
        .optional()
        .map_err(work)?;
    version.map(unsigned).transpose()
}

fn unsigned(value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| Error::corrupt("a column of the ledger holds a negative number"))
}

/// Where a row stands in the order of sweeping: when it is due, and which row it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    sweep_at: i64,
    row: i64,
}

impl Place {
    /// Before every row.
    pub(crate) const START: Self = Self { sweep_at: i64::MIN, row: i64::MIN };
}

/// A row that a sweep has to look at.
#[derive(Debug)]
pub(crate) struct Due {
    /// Where it stands.
    pub(crate) place: Place,
    /// Which operation it is; `Corrupt` where that cannot be told.
    pub(crate) id: Result<OperationId>,
}

const DUE: &str = "SELECT tenant, operation, key, sweep_at, id FROM idem_operations WHERE sweep_at IS NOT NULL AND \
    sweep_at <= ?1 AND (sweep_at, id) > (?2, ?3) ORDER BY sweep_at, id LIMIT ?4";

/// At most `limit` rows after `after` that a sweep has to look at, the longest due first.
pub(crate) fn due(connection: &Connection, now: Timestamp, after: Place, limit: usize) -> Result<Vec<Due>> {
    let mut statement = connection.prepare_cached(DUE).map_err(work)?;
    let mut rows = statement
        .query(params![number(now.as_millis())?, after.sweep_at, after.row, number(limit as u64)?])
        .map_err(work)?;
    let mut due = Vec::new();
    while let Some(row) = rows.next().map_err(work)? {
        let place = Place { sweep_at: row.get(3).map_err(work)?, row: row.get(4).map_err(work)? };
        due.push(Due { place, id: read_id(row) });
    }
    Ok(due)
}

/// The id in the first three columns.
fn read_id(row: &Row<'_>) -> Result<OperationId> {
    let text = |at: usize| -> Result<&str> {
        let value = row.get_ref(at).map_err(work)?;
        value.as_str().map_err(|_| Error::corrupt("a stored operation id is not UTF-8"))
    };
    OperationId::new(text(0)?, text(1)?, text(2)?)
        .map_err(|_| Error::corrupt("a stored operation id is not one that the ledger takes (G-02)"))
}

/// The position of the view in [`View::ALL`] as SQL, at the instant `?1`: what [`Record::view`] says, by the columns.
macro_rules! view_sql {
    () => {
        "CASE state WHEN 0 THEN 1 WHEN 1 THEN (CASE WHEN ?1 < lease_until THEN 2 ELSE 3 END) WHEN 3 THEN 6 ELSE \
         (CASE WHEN ?1 >= identity_until THEN 0 WHEN ?1 >= response_until THEN 5 ELSE 4 END) END"
    };
}

const COUNT: &str =
    concat!("SELECT ", view_sql!(), " AS view, count(*), min(since) FROM idem_operations GROUP BY view");

/// How many records are in a view, and since when the oldest of them is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The view.
    pub(crate) view: View,
    /// How many.
    pub(crate) records: u64,
    /// Start of the oldest attempt in progress, or since when the oldest is uncertain.
    pub(crate) since: Option<Timestamp>,
}

/// Counts every record by its view at `now`.
pub(crate) fn count(connection: &Connection, now: Timestamp) -> Result<Vec<Counted>> {
    let mut statement = connection.prepare_cached(COUNT).map_err(work)?;
    let mut rows = statement.query([number(now.as_millis())?]).map_err(work)?;
    let mut counted = Vec::new();
    while let Some(row) = rows.next().map_err(work)? {
        let (view, records): (i64, i64) = (row.get(0).map_err(work)?, row.get(1).map_err(work)?);
        let since: Option<i64> = row.get(2).map_err(work)?;
        let view = usize::try_from(view).ok().and_then(|view| View::ALL.get(view));
        counted.push(Counted {
            view: *view.ok_or_else(|| Error::corrupt("a stored state has an unknown number"))?,
            records: unsigned(records)?,
            since: since.map(unsigned).transpose()?.map(Timestamp::from_millis),
        });
    }
    Ok(counted)
}

const LIST: &str = "SELECT tenant, operation, key, id, record FROM idem_operations";
const LIST_AFTER: &str = "(tenant, operation, key) > (?2, ?3, ?4)";
const LIST_VIEWS: &str = concat!("(?5 >> (", view_sql!(), ")) & 1");
const LIST_ORDER: &str = "ORDER BY tenant, operation, key LIMIT ?6";

/// A page of records, in the order of the ids' bytes. The records are whole.
pub(crate) fn list(connection: &Connection, query: &Query, now: Timestamp) -> Result<Vec<Record>> {
    let finished = |view: &View| matches!(view, View::Absent | View::Completed | View::Expired);
    // With a literal condition the small index of what is unfinished finds those among millions of others.
    let unfinished_only = !query.views.is_empty() && !query.views.iter().any(finished);
    let mut sql = format!(
        "{LIST} INDEXED BY {} WHERE {LIST_AFTER} AND {LIST_VIEWS}",
        if unfinished_only { "idem_operations_unfinished" } else { "idem_operations_by_id" }
    );
    if unfinished_only {
        sql.push_str(" AND state <> 2");
    }
    // Parts are never empty, so the empty text is before all of them.
    let (mut after_tenant, mut after_operation, mut after_key) = ("", "", "");
    if let Some(after) = &query.after {
        (after_tenant, after_operation, after_key) = (after.tenant(), after.operation(), after.key());
    }
    let now = number(now.as_millis())?;
    let views = number(views_mask(query))?;
    let limit = number(query.page() as u64)?;
    let mut values: Vec<&dyn ToSql> = vec![&now, &after_tenant, &after_operation, &after_key, &views, &limit];
    if let Some(tenant) = &query.tenant {
        values.push(tenant);
        sql.push_str(&format!(" AND tenant = ?{}", values.len()));
    }
    if let Some(operation) = &query.operation {
        values.push(operation);
        sql.push_str(&format!(" AND operation = ?{}", values.len()));
    }
    sql.push(' ');
    sql.push_str(LIST_ORDER);
    let mut statement = connection.prepare(&sql).map_err(work)?;
    let mut rows = statement.query(&*values).map_err(work)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next().map_err(work)? {
        let id = read_id(row)?;
        records.push(read(id, row, 3)?.record);
    }
    Ok(records)
}

/// One bit for each view that the query admits.
fn views_mask(query: &Query) -> u64 {
    let wanted = |view: View| view != View::Absent && (query.views.is_empty() || query.views.contains(&view));
    View::ALL.iter().enumerate().filter(|(_, view)| wanted(**view)).map(|(bit, _)| 1 << bit).sum()
}
