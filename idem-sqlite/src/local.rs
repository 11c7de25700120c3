//! The same-transaction mode: effect, record and outcome are committed together, or not at all (G-70 to G-72).
//!
//! Two ways to it. [`SqliteStore::run_in_transaction`] owns the commit, and groups it with those of others.
//! [`SqliteStore::claim_in`] and [`SqliteStore::complete_in`] join a transaction of the caller's own connection.

use idem_core::answer::Completed;
use idem_core::local::{BoxError, EffectFailure, Executed, LocalRun, NotCompleted};
use idem_core::request::{Complete, Intent, OnLapse};
use idem_core::transition::{Transition as _, Write};
use idem_core::{Claim, Claimed, EffectClass, Error, Grant, Mode, Outcome, Record, Result, Retention};
use rusqlite::{Transaction, TransactionState};

use crate::error::work;
use crate::group::{Group, Work};
use crate::schema;
use crate::session::SAVEPOINT;
use crate::statements;
use crate::store::SqliteStore;

impl SqliteStore {
    /// Runs `effect` once, in one transaction with its record: whatever happens, either all of it is committed or
    /// nothing is left of it (G-70).
    ///
    /// - The closure runs on the store's writer thread, in a savepoint of the group commit. Keep it short, and call
    ///   nothing foreign: all writers wait for it (G-72). What it needs has to be moved into it.
    /// - It may create and change tables of its own in the same file. It cannot end the transaction, attach files or
    ///   change the connection's settings: such statements fail as "not authorized".
    /// - [`EffectFailure::Permanent`] rolls its writes back and stores the failure; any other error, and a panic, is
    ///   without effect, which the rollback proves (G-31).
    /// - A duplicate replays, a conflict answers `Conflict`: see [`LocalRun::Answered`].
    ///
    /// The claim's effect class is [`EffectClass::Local`] and its intent is to run, whatever the request says. A lapse
    /// of an attempt of another class is parked, since nobody knows what that did.
    ///
    /// # Errors
    ///
    /// As [`Store::claim`](idem_core::Store::claim) and [`Store::complete`](idem_core::Store::complete). After
    /// `Unavailable` and `Indeterminate` repeat the call with the same claim.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use idem_core::{Claim, Fingerprint, Label, OperationId, Outcome, Retention};
    /// use idem_sqlite::{LocalRun, SqliteStore};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("ledger.db");
    /// let store = SqliteStore::open(&path).await?;
    /// store.connect()?.execute_batch("CREATE TABLE drafts (id INTEGER PRIMARY KEY, body TEXT)")?;
    ///
    /// let id = OperationId::new("acme", "draft.create/v1", "evt-42")?;
    /// let claim = Claim::new(id, Fingerprint::bytes(b"Hello"), Label::new("worker-1")?);
    /// let run = store
    ///     .run_in_transaction(&claim, Retention::forever(), |transaction, _grant| {
    ///         transaction.execute("INSERT INTO drafts (body) VALUES (?1)", ["Hello"])?;
    ///         Ok(Outcome::success().body(transaction.last_insert_rowid().to_string()))
    ///     })
    ///     .await?;
    /// assert!(matches!(run, LocalRun::Executed(_)));
    /// # Ok(()) }
    /// ```
    pub async fn run_in_transaction<F>(
        &self,
        claim: &Claim,
        retention: Retention,
        effect: F,
    ) -> Result<LocalRun>
    where
        F: FnOnce(&Transaction<'_>, &Grant) -> Result<Outcome, EffectFailure> + Send + 'static,
    {
        let claim = local(claim).intent(Intent::Run(OnLapse::Park));
        match self.answer_now(&claim) {
            // The attempt is this caller's already, by an earlier `claim_in`: the closure is to run.
            None | Some(Ok(Claimed::Granted(_))) => {}
            Some(answer) => return answer.map(LocalRun::Answered),
        }
        self.shared().ask(Closure { claim, retention, effect: Some(effect) }).await
    }

    /// Claims inside a transaction of the caller, on the caller's own connection to the same file: see
    /// [`connect`](Self::connect). The claim's effect class is [`EffectClass::Local`], whatever the request says.
    ///
    /// - The transaction must have begun IMMEDIATE (G-72).
    /// - Do all writes of the effect in the transaction that [`complete_in`](Self::complete_in) joins; it may be this
    ///   one.
    /// - Waiters of this process are not woken by what the caller commits; they find it when they next look.
    ///
    /// # Errors
    ///
    /// `Configuration` when the transaction is not IMMEDIATE, or the connection is open on another file.
    pub fn claim_in(&self, transaction: &Transaction<'_>, claim: &Claim) -> Result<Claimed> {
        self.check_transaction(transaction)?;
        Group::new(transaction, &self.shared().rules).apply(&local(claim))
    }

    /// Completes inside a transaction of the caller.
    ///
    /// # Errors
    ///
    /// [`NotCompleted`], whenever the completion does not apply: return it with `?`, so that the effect in the same
    /// transaction is rolled back with it (G-70).
    pub fn complete_in(
        &self,
        transaction: &Transaction<'_>,
        complete: &Complete,
    ) -> Result<Completed, NotCompleted> {
        self.check_transaction(transaction)?;
        NotCompleted::unless_completed(Group::new(transaction, &self.shared().rules).apply(complete)?)
    }

    fn check_transaction(&self, transaction: &Transaction<'_>) -> Result<()> {
        let state = transaction.transaction_state(Some(c"main")).map_err(work)?;
        if state != TransactionState::Write {
            return Err(Error::configuration(
                "the transaction has no write lock yet: begin it with TransactionBehavior::Immediate, or it fails as \
                 busy whenever somebody else writes (G-72)",
            ));
        }
        if schema::instance(transaction)? != *self.instance() {
            return Err(Error::configuration(
                "the connection is open on another ledger than this store: make it with SqliteStore::connect",
            ));
        }
        Ok(())
    }
}

fn local(claim: &Claim) -> Claim {
    claim.clone().effect(EffectClass::Local)
}

/// A closure as the work of a group.
struct Closure<F> {
    claim: Claim,
    retention: Retention,
    effect: Option<F>,
}

impl<F> Work for Closure<F>
where
    F: FnOnce(&Transaction<'_>, &Grant) -> Result<Outcome, EffectFailure> + Send + 'static,
{
    type Answer = LocalRun;

    const REPEATABLE: bool = false;

    fn run(&mut self, group: &mut Group<'_>) -> Result<LocalRun> {
        let effect = self.effect.take().ok_or_else(|| Error::internal("a closure was run twice"))?;
        let found = statements::find(group.transaction(), &self.claim.id)?;
        let step = self.claim.apply(found.as_ref().map(|found| &found.record), &group.context())?;
        let grant = match step.answer {
            Claimed::Granted(grant) if grant.mode == Mode::Execute => grant,
            answer => {
                group.write(found, step.write)?;
                return Ok(LocalRun::Answered(answer));
            }
        };
        // The granted record is written once, with its outcome: nobody can see it before.
        let granted = match step.write {
            Write::Put(record) => *record,
            _ => found.as_ref().map(|found| found.record.clone()).ok_or_else(not_completed)?,
        };
        let savepoint = Savepoint::begin(group.transaction())?;
        let settled = outcome(group, &savepoint, &grant, effect)
            .and_then(|outcome| Ok(complete(&granted, &grant, outcome, self.retention, group)?))
            .and_then(|(record, executed)| {
                group.write(found, Write::Put(record))?;
                savepoint.release()?;
                Ok(executed)
            });
        let undone = match settled {
            Ok(executed) => return Ok(LocalRun::Executed(Box::new(executed))),
            Err(undone) => undone,
        };
        if savepoint.roll_back().is_err() {
            // Nothing of this group may be committed now.
            group.abandon();
        }
        match undone {
            Undone::RolledBack(error) => Ok(LocalRun::RolledBack(error)),
            Undone::Failed(error) => Err(error),
        }
    }

    fn rolled_back(error: rusqlite::Error) -> Result<LocalRun> {
        Ok(LocalRun::RolledBack(error.into()))
    }
}

/// Why a closure's writes are rolled back to its savepoint.
enum Undone {
    /// It had no effect, by its own account or by its panic.
    RolledBack(BoxError),
    /// The store failed.
    Failed(Error),
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Runs the closure; gives the outcome to store. After a permanent failure its writes are rolled back already.
fn outcome<F>(
    group: &Group<'_>,
    savepoint: &Savepoint<'_>,
    grant: &Grant,
    effect: F,
) -> Result<Outcome, Undone>
where
    F: FnOnce(&Transaction<'_>, &Grant) -> Result<Outcome, EffectFailure>,
{
    let outcome = match group.closure(|transaction| effect(transaction, grant)) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(EffectFailure::Permanent(failure))) => {
            savepoint.take_back()?;
            *failure
        }
        Ok(Err(EffectFailure::NoEffect(error))) => return Err(Undone::RolledBack(error)),
        Err(panic) => return Err(Undone::RolledBack(panicked(&*panic).into())),
    };
    if group.transaction().is_autocommit() {
        return Err(Undone::RolledBack("a statement of the closure ended the transaction".into()));
    }
    Ok(outcome)
}

/// The record after the completion of `granted`, and what the caller is told.
fn complete(
    granted: &Record,
    grant: &Grant,
    outcome: Outcome,
    retention: Retention,
    group: &Group<'_>,
) -> Result<(Box<Record>, Executed)> {
    let request = Complete::new(grant.held(), outcome, retention);
    let step = request.apply(Some(granted), &group.context())?;
    let (Completed::Completed { at, body_omitted }, Write::Put(record)) = (step.answer, step.write) else {
        return Err(not_completed());
    };
    let mut executed = Executed::new(request.outcome, at, grant.number, grant.fence);
    executed.body_omitted = body_omitted;
    Ok((record, executed))
}

fn not_completed() -> Error {
    Error::internal("a grant could not be completed in its own transaction")
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the closure panicked: {}", text.unwrap_or("it did not say why"))
}

/// The savepoint around a closure.
struct Savepoint<'t>(&'t Transaction<'t>);

impl<'t> Savepoint<'t> {
    fn begin(transaction: &'t Transaction<'t>) -> Result<Self> {
        transaction.execute_batch(&format!("SAVEPOINT {SAVEPOINT}")).map_err(work)?;
        Ok(Self(transaction))
    }

    fn release(&self) -> Result<()> {
        self.0.execute_batch(&format!("RELEASE {SAVEPOINT}")).map_err(work)
    }

    /// Takes back all that was written since, and stays; nothing if the whole transaction is gone already.
    fn take_back(&self) -> Result<()> {
        if self.0.is_autocommit() {
            return Ok(());
        }
        self.0.execute_batch(&format!("ROLLBACK TO {SAVEPOINT}")).map_err(work)
    }

    /// Takes back all that was written since, and ends.
    fn roll_back(&self) -> Result<()> {
        if self.0.is_autocommit() {
            return Ok(());
        }
        self.take_back()?;
        self.release()
    }
}
