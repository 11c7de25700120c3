//! The same-transaction mode (G-70 to G-72).

use std::pin::Pin;

use idem_core::request::Complete;
use idem_core::{Claimed, ErrorKind, Fingerprint, Outcome, OutcomeKind, Result, Retention, Store as _};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::{Fixture, claim, granted, id};
use crate::{EffectFailure, LocalRun, NotCompleted};

async fn with_drafts() -> Fixture {
    let fixture = Fixture::new().await;
    let schema = "CREATE TABLE drafts (id INTEGER PRIMARY KEY, body TEXT UNIQUE NOT NULL);
        CREATE TABLE strict (body TEXT UNIQUE ON CONFLICT ROLLBACK);
        CREATE TABLE parents (id INTEGER PRIMARY KEY);
        CREATE TABLE children (parent INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)";
    fixture.stranger().execute_batch(schema).unwrap();
    fixture
}

fn drafts(fixture: &Fixture) -> Vec<String> {
    let stranger = fixture.stranger();
    let mut statement = stranger.prepare("SELECT body FROM drafts ORDER BY id").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(|body| body.unwrap()).collect()
}

fn insert(transaction: &Transaction<'_>, body: &str) -> Result<Outcome, EffectFailure> {
    transaction.execute("INSERT INTO drafts (body) VALUES (?1)", [body])?;
    Ok(Outcome::success().body(transaction.last_insert_rowid().to_string()))
}

async fn run<F>(fixture: &Fixture, key: &str, effect: F) -> Result<LocalRun>
where
    F: FnOnce(&Transaction<'_>) -> Result<Outcome, EffectFailure> + Send + 'static,
{
    let claim = claim(key);
    fixture.store.run_in_transaction(&claim, Retention::forever(), |transaction, _| effect(transaction)).await
}

#[tokio::test]
async fn effect_and_outcome_are_committed_together_and_replayed() {
    let fixture = with_drafts().await;
    let LocalRun::Executed(executed) = run(&fixture, "k", |t| insert(t, "Hello")).await.unwrap() else {
        panic!()
    };
    assert_eq!((executed.attempt_number, executed.body_omitted), (1, false));
    let record = fixture.store.get(&id("k")).await.unwrap().unwrap();
    assert_eq!(record.fence(), executed.fence);
    assert_eq!(record.completed_at, Some(executed.completed_at));
    let again = run(&fixture, "k", |_| panic!("it ran twice")).await.unwrap();
    let LocalRun::Answered(Claimed::Replay(replay)) = again else { panic!("{again:?}") };
    assert_eq!(replay.outcome.body().unwrap().as_ref(), b"1");
    let mut other = claim("k");
    other.fingerprints = Fingerprint::bytes(b"20 EUR").into();
    let conflict = fixture
        .store
        .run_in_transaction(&other, Retention::forever(), |_, _| panic!("a conflict ran"))
        .await
        .unwrap();
    assert!(matches!(conflict, LocalRun::Answered(Claimed::Conflict)), "{conflict:?}");
    assert_eq!(drafts(&fixture), ["Hello"]);
}

#[tokio::test]
async fn a_failure_without_effect_and_a_panic_leave_nothing() {
    let fixture = with_drafts().await;
    let failed = run(&fixture, "k", |t| {
        insert(t, "Hello")?;
        insert(t, "Hello")
    });
    let LocalRun::RolledBack(error) = failed.await.unwrap() else { panic!() };
    assert!(error.to_string().contains("UNIQUE"), "{error}");
    let panicked = run(&fixture, "k", |t| {
        insert(t, "Hello")?;
        panic!("on purpose")
    });
    let LocalRun::RolledBack(error) = panicked.await.unwrap() else { panic!() };
    assert!(error.to_string().contains("on purpose"), "{error}");
    assert_eq!(fixture.store.stored(&id("k")).unwrap(), None);
    assert!(drafts(&fixture).is_empty());
    let worked = run(&fixture, "k", |t| insert(t, "Hello")).await.unwrap();
    assert!(matches!(worked, LocalRun::Executed(_)), "the same key runs again");
}

#[tokio::test]
async fn a_permanent_failure_is_stored_without_the_writes() {
    let fixture = with_drafts().await;
    let failed = run(&fixture, "k", |t| {
        insert(t, "Hello")?;
        Err(EffectFailure::permanent(Outcome::failure("over_quota").body("no")))
    });
    let LocalRun::Executed(executed) = failed.await.unwrap() else { panic!() };
    assert_eq!(executed.outcome.kind(), OutcomeKind::Failure);
    assert!(drafts(&fixture).is_empty());
    let again = run(&fixture, "k", |_| panic!("it ran twice")).await.unwrap();
    let LocalRun::Answered(Claimed::Replay(replay)) = again else { panic!("{again:?}") };
    assert_eq!(replay.outcome.class.as_ref().unwrap().as_str(), "over_quota");
}

#[tokio::test]
async fn a_closure_cannot_end_the_transaction_or_leave_it() {
    let fixture = with_drafts().await;
    let tries = [
        "COMMIT",
        "ROLLBACK",
        "END",
        "BEGIN",
        "ROLLBACK TO idem_closure",
        "RELEASE IDEM_CLOSURE",
        "ATTACH ':memory:' AS other",
        "PRAGMA synchronous = OFF",
        "PRAGMA wal_autocheckpoint = 1",
    ];
    for sql in tries {
        let tried = run(&fixture, "k", move |t| {
            insert(t, "Hello")?;
            t.execute_batch(sql)?;
            Ok(Outcome::success())
        });
        let LocalRun::RolledBack(error) = tried.await.unwrap() else { panic!("{sql} was let through") };
        assert!(error.to_string().contains("not authorized"), "{sql}: {error}");
        assert!(drafts(&fixture).is_empty(), "{sql}");
    }
    let allowed = run(&fixture, "k", |t| {
        t.execute_batch("SAVEPOINT mine; CREATE TABLE new (a); RELEASE mine; PRAGMA table_info(new)")?;
        insert(t, "Hello")
    });
    assert!(matches!(allowed.await.unwrap(), LocalRun::Executed(_)));
    // Outside of a closure nothing is refused: the ledger commits.
    fixture.granted("other").await;
}

#[tokio::test]
async fn a_closure_that_kills_the_transaction_hurts_nobody_else() {
    let fixture = with_drafts().await;
    fixture.stranger().execute_batch("INSERT INTO strict VALUES ('taken')").unwrap();
    let (before, after) = (claim("before"), claim("after"));
    let asked: Vec<Pin<Box<dyn Future<Output = Result<String>> + Send>>> = vec![
        Box::pin(async { fixture.store.claim(&before).await.map(|answer| format!("{answer:?}")) }),
        Box::pin(async {
            let killer = run(&fixture, "killer", |t| {
                t.execute("INSERT INTO strict VALUES ('taken')", [])?;
                Ok(Outcome::success())
            });
            killer.await.map(|answer| format!("{answer:?}"))
        }),
        Box::pin(async { fixture.store.claim(&after).await.map(|answer| format!("{answer:?}")) }),
    ];
    let answers: Vec<String> = fixture.in_one_group(asked).await.into_iter().map(Result::unwrap).collect();
    assert!(answers[0].starts_with("Granted"), "{answers:?}");
    assert!(answers[1].starts_with("RolledBack"), "{answers:?}");
    assert!(answers[2].starts_with("Granted"), "{answers:?}");
    for key in ["before", "after"] {
        assert!(fixture.store.stored(&id(key)).unwrap().is_some(), "{key} was answered and is not stored");
    }
    assert_eq!(fixture.store.stored(&id("killer")).unwrap(), None);
}

fn orphan(transaction: &Transaction<'_>) -> Result<Outcome, EffectFailure> {
    transaction.execute("INSERT INTO children VALUES (404)", [])?;
    Ok(Outcome::success())
}

#[tokio::test]
async fn a_constraint_that_fails_at_commit_is_the_closures_own() {
    let fixture = with_drafts().await;
    let claimed = claim("claimed");
    let asked: Vec<Pin<Box<dyn Future<Output = Result<String>> + Send>>> = vec![
        Box::pin(async { fixture.store.claim(&claimed).await.map(|answer| format!("{answer:?}")) }),
        Box::pin(async { run(&fixture, "guilty", orphan).await.map(|answer| format!("{answer:?}")) }),
        Box::pin(async {
            run(&fixture, "innocent", |t| insert(t, "Hello")).await.map(|answer| format!("{answer:?}"))
        }),
    ];
    let answers = fixture.in_one_group(asked).await;
    assert!(answers[0].as_ref().unwrap().starts_with("Granted"), "{answers:?}");
    for answer in &answers[1..] {
        assert_eq!(answer.as_ref().unwrap_err().kind(), ErrorKind::Unavailable, "{answer:?}");
    }
    assert!(drafts(&fixture).is_empty());
    assert_eq!(fixture.store.stored(&id("guilty")).unwrap(), None);
    // Both retry; now each is committed alone, and the guilty one learns what is wrong.
    let asked: Vec<Pin<Box<dyn Future<Output = Result<String>> + Send>>> = vec![
        Box::pin(async { run(&fixture, "guilty", orphan).await.map(|answer| format!("{answer:?}")) }),
        Box::pin(async {
            run(&fixture, "innocent", |t| insert(t, "Hello")).await.map(|answer| format!("{answer:?}"))
        }),
    ];
    let answers = fixture.in_one_group(asked).await;
    let guilty = answers[0].as_ref().unwrap();
    assert!(guilty.starts_with("RolledBack") && guilty.contains("FOREIGN KEY"), "{guilty}");
    assert!(answers[1].as_ref().unwrap().starts_with("Executed"), "{answers:?}");
    assert_eq!(drafts(&fixture), ["Hello"]);
}

/// What an application does with a connection of its own.
fn begin(connection: &mut Connection) -> Transaction<'_> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
}

#[tokio::test]
async fn claim_in_and_complete_in_join_the_callers_transaction() {
    let fixture = with_drafts().await;
    let mut connection = fixture.store.connect().unwrap();
    for commit in [false, true] {
        let transaction = begin(&mut connection);
        let grant = granted(fixture.store.claim_in(&transaction, &claim("k")).unwrap());
        let outcome = insert(&transaction, "Hello").unwrap();
        fixture
            .store
            .complete_in(&transaction, &Complete::new(grant.held(), outcome, Retention::forever()))
            .unwrap();
        assert_eq!(fixture.store.stored(&id("k")).unwrap(), None, "not committed yet");
        if commit {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
            assert!(drafts(&fixture).is_empty());
        }
    }
    assert_eq!(drafts(&fixture), ["Hello"]);
    assert!(matches!(fixture.store.claim(&claim("k")).await.unwrap(), Claimed::Replay(_)));
    let transaction = begin(&mut connection);
    assert!(matches!(fixture.store.claim_in(&transaction, &claim("k")).unwrap(), Claimed::Replay(_)));
}

#[tokio::test]
async fn an_attempt_that_was_claimed_before_runs_its_closure() {
    let fixture = with_drafts().await;
    let mut connection = fixture.store.connect().unwrap();
    let claim = claim("k");
    let transaction = begin(&mut connection);
    granted(fixture.store.claim_in(&transaction, &claim).unwrap());
    transaction.commit().unwrap();
    let run = fixture.store.run_in_transaction(&claim, Retention::forever(), |t, _| insert(t, "Hello"));
    assert!(matches!(run.await.unwrap(), LocalRun::Executed(_)));
    assert_eq!(drafts(&fixture), ["Hello"]);
}

#[tokio::test]
async fn a_completion_that_does_not_apply_is_an_error() {
    let fixture = with_drafts().await;
    let mut connection = fixture.store.connect().unwrap();
    let transaction = begin(&mut connection);
    let grant = granted(fixture.store.claim_in(&transaction, &claim("k")).unwrap());
    transaction.commit().unwrap();
    // A later attempt takes over: class Local runs again, since the transaction of the first was rolled back.
    fixture.clock.advance(std::time::Duration::from_secs(3600));
    let taken = run(&fixture, "k", |t| insert(t, "Hello")).await.unwrap();
    let LocalRun::Executed(executed) = taken else { panic!("{taken:?}") };
    assert_eq!(executed.attempt_number, 2);
    let transaction = begin(&mut connection);
    insert(&transaction, "twice").unwrap();
    let complete = Complete::new(grant.held(), Outcome::success(), Retention::forever());
    let error = fixture.store.complete_in(&transaction, &complete).unwrap_err();
    assert!(matches!(error, NotCompleted::Fenced(_)), "{error:?}");
    drop(transaction);
    assert_eq!(drafts(&fixture), ["Hello"]);
}

#[tokio::test]
async fn an_attempt_of_another_class_is_never_run_again() {
    let fixture = with_drafts().await;
    fixture.granted("k").await;
    let busy = run(&fixture, "k", |_| panic!("it ran")).await.unwrap();
    assert!(matches!(busy, LocalRun::Answered(Claimed::InProgress { .. })), "{busy:?}");
    fixture.clock.advance(std::time::Duration::from_secs(3600));
    let parked = run(&fixture, "k", |_| panic!("it ran")).await.unwrap();
    assert!(matches!(parked, LocalRun::Answered(Claimed::Uncertain { .. })), "{parked:?}");
    let again = fixture.store.get(&id("k")).await.unwrap().unwrap();
    assert_eq!(again.state, idem_core::State::Uncertain, "the parking is committed");
}

#[tokio::test]
async fn a_transaction_that_cannot_be_joined_is_refused() {
    let fixture = with_drafts().await;
    let mut connection = fixture.store.connect().unwrap();
    let deferred = connection.transaction().unwrap();
    let error = fixture.store.claim_in(&deferred, &claim("k")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("Immediate"), "{error}");
    let other = Fixture::new().await;
    let elsewhere = other.store.connect().unwrap();
    let nowhere = Connection::open_in_memory().unwrap();
    for mut connection in [elsewhere, nowhere] {
        let error = fixture.store.claim_in(&begin(&mut connection), &claim("k")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    }
}
