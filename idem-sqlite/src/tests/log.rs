//! The write-ahead log stays bounded.

use super::Fixture;

const PAGES: i32 = 200;

fn log_pages(fixture: &Fixture) -> u64 {
    let log = fixture.folder.path().join("ledger.db-wal");
    std::fs::metadata(log).unwrap().len() / 4096
}

async fn small_log() -> Fixture {
    let fixture = Fixture::new().await;
    let mut session = fixture.store.shared().session();
    session.checkpoint_pages = PAGES;
    session.checkpoint_at = PAGES;
    drop(session);
    fixture
}

/// Completes some operations, each of which takes some ten pages of log.
async fn work(fixture: &Fixture, name: &str) {
    static BODY: [u8; 20_000] = [7; 20_000];
    for n in 0..100 {
        fixture.completed(&format!("{name}-{n}"), &BODY).await;
    }
}

#[tokio::test]
async fn the_log_of_lone_callers_is_written_back_in_time() {
    let fixture = small_log().await;
    work(&fixture, "a").await;
    work(&fixture, "b").await;
    let pages = log_pages(&fixture);
    assert!((PAGES as u64..PAGES as u64 * 2).contains(&pages), "{pages} pages of log after some 2000");
}

#[tokio::test]
async fn a_long_reader_holds_the_log_up_and_no_longer_than_it_reads() {
    let fixture = small_log().await;
    let reader = fixture.stranger();
    reader.execute_batch("BEGIN; SELECT count(*) FROM idem_operations").unwrap();
    work(&fixture, "a").await;
    let held_up = log_pages(&fixture);
    assert!(held_up > PAGES as u64 * 4, "the reader was not in the way: {held_up} pages");
    reader.execute_batch("COMMIT").unwrap();
    work(&fixture, "b").await;
    work(&fixture, "c").await;
    let after = log_pages(&fixture);
    assert!(after <= held_up + PAGES as u64 * 2, "{after} pages after {held_up}");
}
