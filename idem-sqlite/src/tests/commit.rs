//! Group commit: answers after COMMIT, and what they are when it fails (G-72).

use std::sync::mpsc;

use idem_core::{Claimed, ErrorKind, Store as _};
use rusqlite::ffi;

use super::{Fixture, claim, id, poll};

#[tokio::test]
async fn answers_are_given_after_commit_replays_too() {
    let fixture = Fixture::new().await;
    fixture.completed("done", b"paid").await;
    let (entered, has_entered) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    fixture
        .store
        .shared()
        .session()
        .connection()
        .commit_hook(Some(move || {
            entered.send(()).unwrap();
            let _go = may_go.recv();
            false
        }))
        .unwrap();
    let (new, replay) = (claim("new"), claim("done"));
    fixture.store.shared().crowd();
    let mut granting = Box::pin(fixture.store.shared().apply(&new));
    let mut replaying = Box::pin(fixture.store.shared().apply(&replay));
    {
        let _held = fixture.store.shared().session();
        assert!(poll(granting.as_mut()).is_pending());
        assert!(poll(replaying.as_mut()).is_pending());
    }
    has_entered.recv().unwrap();
    // The transaction is decided and not yet committed.
    assert!(poll(granting.as_mut()).is_pending(), "granted before COMMIT");
    assert!(poll(replaying.as_mut()).is_pending(), "replayed before COMMIT");
    assert_eq!(fixture.store.stored(&id("new")).unwrap(), None, "a reader sees what is not committed");
    drop(go);
    assert!(matches!(granting.await.unwrap(), Claimed::Granted(_)));
    assert!(matches!(replaying.await.unwrap(), Claimed::Replay(_)));
    assert!(fixture.store.stored(&id("new")).unwrap().is_some());
}

#[tokio::test]
async fn a_failed_commit_fails_for_all_and_leaves_nothing() {
    let fixture = Fixture::new().await;
    let table = [
        (ffi::SQLITE_IOERR_FSYNC, ErrorKind::Indeterminate),
        (ffi::SQLITE_IOERR_WRITE, ErrorKind::Indeterminate),
        (ffi::SQLITE_FULL, ErrorKind::Unavailable),
        (ffi::SQLITE_BUSY, ErrorKind::Unavailable),
    ];
    let claims: Vec<_> = (0..5).map(|n| claim(&format!("k{n}"))).collect();
    for (code, kind) in table {
        fixture.store.shared().session().commit_fails = Some(code);
        let asked = claims.iter().map(|claim| fixture.store.claim(claim)).collect();
        for answer in fixture.in_one_group(asked).await {
            assert_eq!(answer.unwrap_err().kind(), kind, "code {code}");
        }
        // A lone caller gets the same.
        let direct = fixture.store.shared().apply(&claims[0]).await;
        assert_eq!(direct.unwrap_err().kind(), kind, "code {code}");
        for claim in &claims {
            assert_eq!(fixture.store.stored(&claim.id).unwrap(), None);
        }
    }
    fixture.store.shared().session().commit_fails = None;
    let asked = claims.iter().map(|claim| fixture.store.claim(claim)).collect();
    for answer in fixture.in_one_group(asked).await {
        assert!(matches!(answer.unwrap(), Claimed::Granted(_)), "the store goes on");
    }
}

#[tokio::test]
async fn one_group_decides_in_order_and_commits_once() {
    let fixture = Fixture::new().await;
    let commits = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = commits.clone();
    fixture
        .store
        .shared()
        .session()
        .connection()
        .commit_hook(Some(move || {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            false
        }))
        .unwrap();
    // Ten callers, one key: the first is granted, and the others see that in the same transaction.
    let claims: Vec<_> = (0..10).map(|_| claim("one")).collect();
    let asked = claims.iter().map(|claim| fixture.store.claim(claim)).collect();
    let answers = fixture.in_one_group(asked).await;
    let granted = answers.iter().filter(|answer| matches!(answer, Ok(Claimed::Granted(_)))).count();
    let waiting = answers.iter().filter(|answer| matches!(answer, Ok(Claimed::InProgress { .. }))).count();
    assert_eq!((granted, waiting), (1, 9), "{answers:?}");
    assert_eq!(commits.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_request_that_errs_hurts_nobody() {
    let fixture = Fixture::new().await;
    fixture.granted("corrupt").await;
    fixture
        .stranger()
        .execute("UPDATE idem_operations SET record = x'01ff' WHERE key = 'corrupt'", [])
        .unwrap();
    let claims = [claim("a"), claim("corrupt"), claim("b")];
    let asked = claims
        .iter()
        .map(|claim| -> std::pin::Pin<Box<dyn Future<Output = _> + Send>> {
            Box::pin(fixture.store.shared().apply(claim))
        })
        .collect();
    let answers = fixture.in_one_group(asked).await;
    assert!(matches!(answers[0], Ok(Claimed::Granted(_))));
    assert_eq!(answers[1].as_ref().unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(matches!(answers[2], Ok(Claimed::Granted(_))));
}

#[tokio::test]
async fn a_lone_caller_commits_on_its_own_thread_and_waits_for_no_lock() {
    let fixture = Fixture::with(|config| config.busy_timeout(std::time::Duration::from_secs(60))).await;
    let claims = [claim("a"), claim("b")];
    let mut direct = Box::pin(fixture.store.claim(&claims[0]));
    assert!(poll(direct.as_mut()).is_ready(), "nobody else is there");
    let stranger = fixture.stranger();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut handed_over = Box::pin(fixture.store.claim(&claims[1]));
    // With a busy handler this poll would take a minute.
    assert!(poll(handed_over.as_mut()).is_pending());
    stranger.execute_batch("COMMIT").unwrap();
    assert!(matches!(handed_over.await.unwrap(), Claimed::Granted(_)));
}

#[tokio::test]
async fn waiters_are_woken_after_the_commit_of_a_change_of_state() {
    let fixture = Fixture::new().await;
    let grant = fixture.granted("k").await;
    let version = fixture.store.stored(&id("k")).unwrap().unwrap().version;
    let id = id("k");
    let mut changed = Box::pin(fixture.store.changed(&id, version));
    assert!(poll(changed.as_mut()).is_pending());
    fixture.store.shared().bells.ring(&id);
    assert!(poll(changed.as_mut()).is_pending(), "the bell rang for a neighbour");
    // By another handle of this process, which is another writer.
    let other = crate::SqliteStore::open(fixture.store.path()).await.unwrap();
    other.release(&idem_core::request::Release::new(grant.held())).await.unwrap();
    assert!(poll(changed.as_mut()).is_ready());
    assert!(poll(Box::pin(fixture.store.changed(&id, version)).as_mut()).is_ready(), "changed before");
}
