//! The same-transaction mode for applications: typed results and [`Answer`]s (G-70).

use idem_core::ledger::{Answer, Failure, Policy};
use idem_core::local::{EffectFailure, LocalRun};
use idem_core::{Claim, Fingerprints, OperationId, Outcome, Result, Timestamp};
use rusqlite::Transaction;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::store::SqliteStore;

impl SqliteStore {
    /// Runs `effect` once for `id`, in one transaction with its record, and stores what it returns: one line around a
    /// local workflow step. See [`run_in_transaction`](Self::run_in_transaction) for what the closure may do.
    ///
    /// Of `policy` it takes owner, retention and lease. It does not wait: a duplicate is answered at once, because an
    /// effect that is not committed cannot be seen by anybody.
    ///
    /// # Errors
    ///
    /// - `Unavailable`: nothing was done; call again.
    /// - `Indeterminate`: perhaps all of it was committed; call again and see.
    /// - `Corrupt`: it was done before, and its stored result does not decode as `T`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use idem_core::{Fingerprint, OperationId, ledger::{Answer, Policy}};
    /// use idem_sqlite::SqliteStore;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("ledger.db");
    /// let store = SqliteStore::open(&path).await?;
    /// store.connect()?.execute_batch("CREATE TABLE drafts (id INTEGER PRIMARY KEY, body TEXT)")?;
    ///
    /// let id = OperationId::new("acme", "draft.create/v1", "evt-42")?;
    /// for _ in 0..2 {
    ///     let answer = store
    ///         .transact(&Policy::default(), &id, Fingerprint::bytes(b"Hello"), |transaction| {
    ///             transaction.execute("INSERT INTO drafts (body) VALUES (?1)", ["Hello"])?;
    ///             Ok(transaction.last_insert_rowid())
    ///         })
    ///         .await?;
    ///     assert_eq!(answer.into_result()?, 1);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn transact<T, F>(
        &self,
        policy: &Policy,
        id: &OperationId,
        fingerprints: impl Into<Fingerprints>,
        effect: F,
    ) -> Result<Answer<T>>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(&Transaction<'_>) -> Result<T, EffectFailure> + Send + 'static,
    {
        let claim = Claim::new(id.clone(), fingerprints, policy.owner.clone()).lease(policy.lease);
        let run = self
            // A result that JSON cannot hold, or not give back, is an error like any other here: the effect is rolled
            // back with it.
            .run_in_transaction(&claim, policy.retention, |transaction, _grant| {
                let outcome = Outcome::json(&effect(transaction)?)?;
                drop(Answer::<T>::of_executed(&outcome, Timestamp::EPOCH)?);
                Ok(outcome)
            })
            .await?;
        match run {
            LocalRun::Executed(executed) => Answer::of_executed(&executed.outcome, executed.completed_at),
            LocalRun::Answered(claimed) => Answer::of_claimed(claimed),
            LocalRun::RolledBack(error) => {
                Ok(Answer::Released { cause: Failure::no_effect(error.to_string()) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use idem_core::Fingerprint;

    use super::*;

    async fn store() -> (SqliteStore, OperationId, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("ledger.db")).await.unwrap();
        store.connect().unwrap().execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        (store, OperationId::new("acme", "insert/v1", "1").unwrap(), folder)
    }

    fn rows(store: &SqliteStore) -> i64 {
        store.connect().unwrap().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    #[tokio::test]
    async fn a_failure_for_good_is_kept_without_the_effect() {
        let (store, id, _folder) = store().await;
        let intent = Fingerprint::bytes(b"");
        for replayed_before in [false, true] {
            let answer = store
                .transact::<i64, _>(&Policy::default(), &id, intent, |transaction| {
                    transaction.execute("INSERT INTO t VALUES (1)", [])?;
                    Err(EffectFailure::permanent(Outcome::failure("declined").body("no")))
                })
                .await
                .unwrap();
            let Answer::Failed { failure, replayed } = answer else { panic!("{answer:?}") };
            assert_eq!((failure.class.unwrap().as_str(), replayed), ("declined", replayed_before));
        }
        assert_eq!(rows(&store), 0);
    }

    #[tokio::test]
    async fn an_error_or_a_result_without_json_leaves_nothing_and_may_run_again() {
        let (store, id, _folder) = store().await;
        let intent = Fingerprint::bytes(b"");
        let answer = store
            .transact::<HashMap<Vec<u8>, u8>, _>(&Policy::default(), &id, intent, |transaction| {
                transaction.execute("INSERT INTO t VALUES (1)", [])?;
                Ok(HashMap::from([(vec![1], 1)]))
            })
            .await
            .unwrap();
        assert!(matches!(answer, Answer::Released { .. }), "{answer:?}");
        assert_eq!(rows(&store), 0);
        // JSON writes NaN as null, which is no number when it is read.
        let answer = store
            .transact(&Policy::default(), &id, intent, |transaction| {
                transaction.execute("INSERT INTO t VALUES (1)", [])?;
                Ok(f64::NAN)
            })
            .await
            .unwrap();
        assert!(matches!(answer, Answer::Released { .. }), "{answer:?}");
        assert_eq!(rows(&store), 0);
        let answer = store
            .transact(&Policy::default(), &id, intent, |transaction| {
                Ok(transaction.execute("INSERT INTO t VALUES (1)", [])?)
            })
            .await
            .unwrap();
        assert!(matches!(answer, Answer::Executed(1)), "{answer:?}");
        assert_eq!(rows(&store), 1);
        let other = store
            .transact::<usize, _>(&Policy::default(), &id, Fingerprint::bytes(b"x"), |_| Ok(2))
            .await
            .unwrap();
        assert!(matches!(other, Answer::Conflict), "{other:?}");
    }
}
