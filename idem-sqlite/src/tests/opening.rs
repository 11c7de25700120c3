//! Opening: what is refused, what is made, and what is read back (G-102).

use std::time::Duration;

use idem_core::{ErrorKind, Store as _};
use rusqlite::Connection;

use super::{Fixture, claim};
use crate::{SqliteConfig, SqliteStore, Synchronous};

#[tokio::test]
async fn a_schema_of_a_newer_version_is_refused_and_left_alone() {
    let fixture = Fixture::new().await;
    let path = fixture.store.path().to_owned();
    fixture.stranger().execute("UPDATE idem_schema SET version = 99", []).unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("version 99") && error.to_string().contains("upgrade"), "{error}");
    let version: i64 =
        fixture.stranger().query_row("SELECT version FROM idem_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
}

#[tokio::test]
async fn what_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let text = "Dear diary, ".repeat(1000);
    std::fs::write(&path, &text).unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
    assert!(error.to_string().contains("not an SQLite database"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_file_of_an_application_keeps_its_tables_and_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.db");
    let app = Connection::open(&path).unwrap();
    app.execute_batch("CREATE TABLE mine (a); INSERT INTO mine VALUES (1); PRAGMA user_version = 7").unwrap();
    let store = SqliteStore::open(&path).await.unwrap();
    store.claim(&claim("k")).await.unwrap();
    let seen: (i64, i64) = app
        .query_row("SELECT (SELECT count(*) FROM mine), user_version FROM pragma_user_version", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(seen, (1, 7));
}

#[tokio::test]
async fn a_look_makes_no_ledger_and_changes_no_file_of_somebody_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("empty"), "").unwrap();
    let app = Connection::open(path("app.db")).unwrap();
    app.execute_batch("CREATE TABLE mine (a)").unwrap();
    drop(app);
    let before = std::fs::read(path("app.db")).unwrap();
    for name in ["missing", "empty", "app.db"] {
        let error = SqliteStore::open_with(SqliteConfig::new(path(name)).existing()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().starts_with("there is no ledger in "), "{error}");
    }
    assert_eq!(
        (std::fs::read(path("app.db")).unwrap(), std::fs::read(path("empty")).unwrap()),
        (before, vec![])
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    SqliteStore::open(path("app.db")).await.unwrap().claim(&claim("k")).await.unwrap();
    let store = SqliteStore::open_with(SqliteConfig::new(path("app.db")).existing()).await.unwrap();
    assert!(store.get(&super::id("k")).await.unwrap().is_some());
}

#[cfg(unix)]
#[tokio::test]
async fn a_device_is_no_file_for_a_database() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/null", folder.path().join("link")).unwrap();
    for path in ["/dev/null".into(), folder.path().join("link")] {
        let error = SqliteStore::open(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{error}");
        assert!(error.to_string().contains(" is no regular file: name a file"), "{error}");
    }
}

#[tokio::test]
async fn opening_waits_for_no_write_lock_once_the_schema_is_there() {
    let fixture = Fixture::new().await;
    let stranger = fixture.stranger();
    stranger.execute_batch("BEGIN IMMEDIATE").unwrap();
    let config = SqliteConfig::new(fixture.store.path()).busy_timeout(Duration::from_millis(50));
    SqliteStore::open_with(config).await.unwrap();
}

#[tokio::test]
async fn opening_a_locked_new_file_is_unavailable_not_a_hang() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let stranger = Connection::open(&path).unwrap();
    stranger.execute_batch("CREATE TABLE t (a); BEGIN EXCLUSIVE").unwrap();
    let config = SqliteConfig::new(&path).busy_timeout(Duration::from_millis(50));
    let error = SqliteStore::open_with(config).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn the_settings_are_in_force() {
    for (synchronous, number) in [(Synchronous::Normal, 1), (Synchronous::Full, 2), (Synchronous::Extra, 3)] {
        let fixture = Fixture::with(|config| config.synchronous(synchronous)).await;
        let mut session = fixture.store.shared().session();
        let connection = session.connection();
        let read = |pragma: &str| -> i64 {
            connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0)).unwrap()
        };
        assert_eq!(read("synchronous"), number);
        assert_eq!(read("fullfsync"), 1);
        let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
        let own = fixture.store.connect().unwrap();
        let own: i64 = own.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
        assert_eq!(own, number, "a connection of the application's own");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_file_is_private_and_an_old_one_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;

    let fixture = Fixture::new().await;
    fixture.granted("k").await;
    for suffix in ["", "-wal", "-shm"] {
        let file = fixture.folder.path().join(format!("ledger.db{suffix}"));
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
    let old = fixture.folder.path().join("old.db");
    std::fs::write(&old, "").unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o640)).unwrap();
    SqliteStore::open(&old).await.unwrap();
    assert_eq!(std::fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o640);
}

#[tokio::test]
async fn the_ledger_is_still_there_after_a_reopening() {
    let fixture = Fixture::new().await;
    fixture.completed("k", b"paid").await;
    fixture.store.close().await;
    let again = SqliteStore::open(fixture.store.path()).await.unwrap();
    let idem_core::Claimed::Replay(replay) = again.claim(&claim("k")).await.unwrap() else { panic!() };
    assert_eq!(replay.outcome.body().unwrap().as_ref(), b"paid");
}
