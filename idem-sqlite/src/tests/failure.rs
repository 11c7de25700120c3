//! A lock, a full disk, a read-only file, a damaged row (the faults of the suite's NF family, from inside).

use std::time::Duration;

use idem_core::request::{Complete, Query};
use idem_core::{Claimed, ErrorKind, Outcome, Retention, Store as _, Ttl};

use super::{Fixture, claim, id, poll};

#[tokio::test]
async fn a_lock_is_waited_for_then_unavailable_then_success() {
    let fixture = Fixture::with(|config| config.busy_timeout(Duration::from_millis(60))).await;
    fixture.completed("done", b"paid").await;
    let stranger = fixture.stranger();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let claim_new = claim("new");
    let error = fixture.store.claim(&claim_new).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // What only reads goes on, also where it would have gone to the writer.
    let held_up = claim("held-up");
    let mut holding_up = Box::pin(fixture.store.claim(&held_up));
    assert!(poll(holding_up.as_mut()).is_pending());
    let replay = fixture.store.shared().apply(&claim("done")).await.unwrap();
    assert!(matches!(replay, Claimed::Replay(_)), "{replay:?}");
    assert_eq!(holding_up.await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(matches!(fixture.store.claim(&claim("done")).await.unwrap(), Claimed::Replay(_)));
    assert!(fixture.store.get(&id("done")).await.unwrap().is_some());
    assert_eq!(fixture.store.stats().await.unwrap().completed, 1);
    assert!(!fixture.store.sweep(10).await.unwrap().more, "a sweep with nothing to do takes no lock");
    stranger.execute_batch("COMMIT").unwrap();
    assert!(matches!(fixture.store.claim(&claim_new).await.unwrap(), Claimed::Granted(_)));
}

#[tokio::test]
async fn a_full_disk_is_unavailable_for_what_needs_room_and_nothing_is_lost() {
    let fixture = Fixture::new().await;
    let grant = fixture.granted("big").await;
    let pages: i64 = fixture.stranger().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    fixture.on_writer(&format!("PRAGMA max_page_count = {pages}"));
    let complete =
        Complete::new(grant.held(), Outcome::success().body(vec![7; 100_000]), Retention::forever());
    for crowded in [false, true] {
        if crowded {
            fixture.store.shared().crowd();
        }
        let error = fixture.store.complete(&complete).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("free some space"), "{error}");
    }
    assert_eq!(fixture.store.get(&id("big")).await.unwrap().unwrap().version, 1, "unchanged");
    fixture.on_writer("PRAGMA max_page_count = 1000000");
    fixture.store.complete(&complete).await.unwrap();
    let Claimed::Replay(replay) = fixture.store.claim(&claim("big")).await.unwrap() else { panic!() };
    assert_eq!(replay.outcome.body().unwrap().len(), 100_000);
}

#[tokio::test]
async fn a_database_that_cannot_be_written_is_a_matter_of_configuration() {
    let fixture = Fixture::new().await;
    fixture.on_writer("PRAGMA query_only = ON");
    let error = fixture.store.claim(&claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("permissions"), "{error}");
}

#[tokio::test]
async fn a_damaged_row_is_corrupt_everywhere_and_says_which_without_its_key() {
    let fixture = Fixture::new().await;
    fixture.completed("alice@example.org", b"a secret body").await;
    let stranger = fixture.stranger();
    stranger.execute_batch("CREATE TABLE good AS SELECT * FROM idem_operations").unwrap();
    for (damage, key) in [
        ("record = substr(record, 1, length(record) - 1)", "alice@example.org"),
        ("record = x''", "alice@example.org"),
        ("record = zeroblob(100)", "alice@example.org"),
        ("key = 'elsewhere'", "elsewhere"),
        ("operation = ''", ""),
    ] {
        stranger.execute_batch(&format!("UPDATE idem_operations SET {damage}")).unwrap();
        let mut errors = vec![fixture.store.list(&Query::all()).await.map(drop).unwrap_err()];
        if !key.is_empty() {
            errors.push(fixture.store.claim(&claim(key)).await.map(drop).unwrap_err());
            errors.push(fixture.store.get(&id(key)).await.map(drop).unwrap_err());
            errors.push(fixture.store.shared().apply(&claim(key)).await.map(drop).unwrap_err());
        }
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{damage}: {error}");
            let text = format!("{error} {error:?}");
            assert!(!["alice", "secret", "elsewhere"].iter().any(|secret| text.contains(secret)), "{text}");
        }
        let repair = "DELETE FROM idem_operations; INSERT INTO idem_operations SELECT * FROM good";
        stranger.execute_batch(repair).unwrap();
        assert!(fixture.store.get(&id("alice@example.org")).await.unwrap().is_some());
    }
    let other = fixture.store.claim(&claim("healthy")).await.unwrap();
    assert!(matches!(other, Claimed::Granted(_)), "others are not hurt");
}

#[tokio::test]
async fn a_damaged_row_keeps_no_other_from_being_swept() {
    let fixture = Fixture::new().await;
    for key in ["a", "bad", "c"] {
        let grant = fixture.granted(key).await;
        let retention = Retention::forever().response(Ttl::Millis(10)).unwrap();
        let complete = Complete::new(grant.held(), Outcome::success().body("x"), retention);
        fixture.store.complete(&complete).await.unwrap();
    }
    fixture.stranger().execute("UPDATE idem_operations SET record = x'01' WHERE key = 'bad'", []).unwrap();
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(fixture.store.sweep(100).await.unwrap().erased, 2);
    let error = fixture.store.sweep(100).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "nothing is left but the damaged one");
}

/// More damaged rows than one batch looks at, due before all others: in their records, in their ids, and both.
#[tokio::test]
async fn many_damaged_rows_keep_no_other_from_being_swept() {
    let fixture = Fixture::new().await;
    let complete = async |key: &str| {
        let grant = fixture.granted(key).await;
        let retention = Retention::forever().response(Ttl::Millis(10)).unwrap();
        let complete = Complete::new(grant.held(), Outcome::success().body("x"), retention);
        fixture.store.complete(&complete).await.unwrap();
    };
    for n in 0..300 {
        complete(&format!("bad{n}")).await;
    }
    fixture.clock.advance(Duration::from_millis(1));
    for n in 0..3 {
        complete(&format!("good{n}")).await;
    }
    let stranger = fixture.stranger();
    stranger.execute("UPDATE idem_operations SET record = x'01' WHERE key LIKE 'bad%'", []).unwrap();
    stranger.execute("UPDATE idem_operations SET tenant = '' WHERE key LIKE 'bad__'", []).unwrap();
    let order: Vec<String> = stranger
        .prepare("SELECT key FROM idem_operations ORDER BY sweep_at, id")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(order[..300].iter().all(|key| key.starts_with("bad")), "they are in front");
    fixture.clock.advance(Duration::from_secs(1));
    let swept = fixture.store.sweep(2).await.unwrap();
    assert_eq!((swept.erased, swept.purged, swept.more), (2, 0, true), "no more than was asked for");
    let swept = fixture.store.sweep(2).await.unwrap();
    assert_eq!((swept.erased, swept.purged, swept.more), (1, 0, false), "nothing is due behind it");
    assert_eq!(fixture.store.sweep(2).await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn rows_that_are_due_by_a_smaller_step_end_a_sweep() {
    let fixture = Fixture::with(|config| config.step_ms(0)).await;
    let retention = Retention::forgetting_identity(Ttl::Millis(1), Ttl::Millis(0), None).unwrap();
    for n in 0..200 {
        let grant = fixture.granted(&format!("k{n}")).await;
        let complete = Complete::new(grant.held(), Outcome::success(), retention);
        fixture.store.complete(&complete).await.unwrap();
    }
    fixture.clock.advance(Duration::from_secs(1));
    let hour = crate::SqliteConfig::new(fixture.store.path()).step_ms(3_600_000);
    let other =
        crate::SqliteStore::open_with(hour.clock(std::sync::Arc::new(fixture.clock.clone()))).await.unwrap();
    let swept = other.sweep(2).await.unwrap();
    assert_eq!((swept.erased, swept.purged, swept.more), (0, 0, false), "there is nothing to do now");
    // What is kept is passed, more of it than one batch looks at, and what is due behind it is swept.
    let grant = fixture.granted("late").await;
    let response = Retention::forever().response(Ttl::Millis(1)).unwrap();
    let complete = Complete::new(grant.held(), Outcome::success().body("x"), response);
    fixture.store.complete(&complete).await.unwrap();
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(other.sweep(2).await.unwrap().erased, 1);
    assert_eq!(fixture.store.sweep(1000).await.unwrap().purged, 200);
}

#[tokio::test]
async fn a_table_that_somebody_dropped_is_no_absence() {
    let fixture = Fixture::new().await;
    fixture.completed("k", b"paid").await;
    fixture.stranger().execute_batch("DROP TABLE idem_operations").unwrap();
    let error = fixture.store.claim(&claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    assert!(fixture.store.get(&id("k")).await.is_err());
}
