//! Where the file is, and with which SQLite it is opened: what is known to lose data is refused or warned of (G-102).

use std::path::{Path, PathBuf};

use idem_core::{Error, ErrorKind, Result};

use crate::config::{OnRisk, SqliteConfig};

/// The path, made absolute so that SQLite reads it neither as a URI nor as `:memory:`.
pub(crate) fn absolute(config: &SqliteConfig) -> Result<PathBuf> {
    let path = config.path();
    if path == Path::new(":memory:") {
        return Err(Error::configuration(
            "an SQLite database in memory is seen by one connection only: use idem_core::MemoryStore",
        ));
    }
    std::path::absolute(path).map_err(|error| {
        Error::with_source(ErrorKind::Configuration, "the path of the database is empty or not a path", error)
    })
}

/// The symbolic links that one path may lead through, as many as Linux follows.
const LINKS_MAX: usize = 40;

/// Where the file at `path` is, or will be: SQLite follows symbolic links to it, and keeps its log and its shared memory
/// beside the file that they lead to. `None`: there is no folder for it.
fn real(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent()?.join(target),
            // No link, or nothing yet. What cannot be looked at shows when it is opened.
            Err(_) => return Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)),
        }
    }
    None
}

/// Where the file is, if this file on this file system with this library is safe enough for the configuration.
pub(crate) fn checked(config: &SqliteConfig) -> Result<PathBuf> {
    checked_by(config, network_filesystem)
}

/// The same, as `network_filesystem` names the file system of a file or folder that is there.
fn checked_by(
    config: &SqliteConfig,
    network_filesystem: impl Fn(&Path) -> Option<&'static str>,
) -> Result<PathBuf> {
    let path = absolute(config)?;
    // A pipe or a device would be opened, and answer as a broken disk does.
    if let Ok(metadata) = path.metadata()
        && !metadata.is_file()
    {
        let is = if metadata.is_dir() { "a folder" } else { "no regular file" };
        return Err(Error::configuration(format!(
            "{} is {is}: name a file for the database",
            path.display()
        )));
    }
    let Some(real) = real(&path) else {
        return Err(Error::configuration(format!(
            "the folder of the database file {} does not exist, also where symbolic links lead to: make it first",
            path.display()
        )));
    };
    // A file can be mounted without its folder, and the other files come to be in the folder.
    if let Some(name) = network_filesystem(&real).or_else(|| network_filesystem(real.parent()?)) {
        decide(
            config.network_filesystem,
            format!(
                "{} is on {name}, a network file system, where SQLite's locks and shared memory are not reliable: use \
                 a local disk, or another store",
                real.display()
            ),
        )?;
    }
    let version = rusqlite::version_number();
    if has_wal_reset_bug(version) {
        decide(
            config.outdated_sqlite,
            format!(
                "SQLite {} can corrupt a database whose write-ahead log is reset while another connection writes: use \
                 3.51.3, 3.50.7, 3.44.6 or newer",
                rusqlite::version()
            ),
        )?;
    }
    Ok(real)
}

fn decide(on_risk: OnRisk, sentence: String) -> Result<()> {
    match on_risk {
        OnRisk::Refuse => Err(Error::configuration(sentence)),
        OnRisk::Warn => {
            tracing::warn!("{sentence}");
            Ok(())
        }
    }
}

/// 3.7.0 to 3.51.2, without the two older lines that were mended.
const fn has_wal_reset_bug(version: i32) -> bool {
    let mended = matches!(version, 3_044_006..=3_044_999 | 3_050_007..=3_050_999);
    version >= 3_007_000 && version < 3_051_003 && !mended
}

/// The name of the network file system that the file or folder at `path` is on.
#[cfg(target_os = "linux")]
fn network_filesystem(path: &Path) -> Option<&'static str> {
    // What is not there, or cannot be asked, is not refused: opening the file will tell.
    let kind = rustix::fs::statfs(path).ok()?.f_type;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the magic numbers have 32 bits; the type of the field differs between processors"
    )]
    network_name(kind as u32)
}

/// On other systems nobody asks.
#[cfg(not(target_os = "linux"))]
fn network_filesystem(_path: &Path) -> Option<&'static str> {
    None
}

/// From linux/magic.h and the drivers that are not in it.
#[cfg(target_os = "linux")]
const fn network_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x564c => "NCP",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0102_1997 => "9P",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x786f_4256 => "a shared folder of VirtualBox",
        0xbacb_acbc => "a shared folder of VMware",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_the_bug_are_known() {
        for bad in [3_007_000, 3_044_005, 3_045_000, 3_050_006, 3_051_000, 3_051_002] {
            assert!(has_wal_reset_bug(bad), "{bad}");
        }
        for good in [3_006_023, 3_044_006, 3_050_007, 3_051_003, 3_054_000] {
            assert!(!has_wal_reset_bug(good), "{good}");
        }
        assert!(!has_wal_reset_bug(rusqlite::version_number()), "the bundled library");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn network_file_systems_are_known_and_local_ones_are_not() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xff53_4d42), Some("SMB"));
        for local in [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0x794c_7630] {
            assert_eq!(network_name(local), None, "{local:x}");
        }
        assert_eq!(network_filesystem(Path::new("/proc")), None);
    }

    #[test]
    fn a_risk_is_refused_or_warned_of() {
        let error = decide(OnRisk::Refuse, "because".to_owned()).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Configuration, "because".to_owned()));
        assert!(decide(OnRisk::Warn, "because".to_owned()).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_to_where_the_file_is_or_will_be() {
        use std::os::unix::fs::symlink;

        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let (local, remote) = (root.join("local"), root.join("remote"));
        std::fs::create_dir(&local).unwrap();
        std::fs::create_dir(&remote).unwrap();
        std::fs::write(remote.join("there.db"), "").unwrap();
        std::fs::write(local.join("mounted.db"), "").unwrap();
        symlink(&remote, local.join("folder")).unwrap();
        symlink(remote.join("there.db"), local.join("there.db")).unwrap();
        symlink("../remote/missing.db", local.join("missing.db")).unwrap();
        symlink("missing.db", local.join("chain.db")).unwrap();
        symlink("folder/missing.db", local.join("both.db")).unwrap();
        symlink("loop.db", local.join("loop.db")).unwrap();
        symlink("nowhere/x.db", local.join("lost.db")).unwrap();
        let check = |name: &str| {
            checked_by(&SqliteConfig::new(local.join(name)), |path| {
                let there = path.exists();
                let mounted = path.ends_with("mounted.db");
                (there && (path.starts_with(&remote) || mounted)).then_some("NFS")
            })
        };
        for name in [
            "folder/new.db",
            "folder/there.db",
            "there.db",
            "missing.db",
            "chain.db",
            "both.db",
            "mounted.db",
            "folder/../remote/new.db",
        ] {
            let error = check(name).expect_err(name);
            assert!(error.to_string().contains("is on NFS, a network file system"), "{name}: {error}");
        }
        for name in ["loop.db", "lost.db"] {
            let error = check(name).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains("does not exist"), "{name}: {error}");
        }
        assert_eq!(check("plain.db").unwrap(), local.join("plain.db"));
        symlink(local.join("plain.db"), remote.join("back.db")).unwrap();
        assert_eq!(check("folder/back.db").unwrap(), local.join("plain.db"), "a link back to a local disk");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_file_that_a_link_only_names_is_made_where_it_leads() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("disk")).unwrap();
        std::os::unix::fs::symlink("disk/real.db", home.path().join("ledger.db")).unwrap();
        let store = crate::SqliteStore::open(home.path().join("ledger.db")).await.unwrap();
        assert!(home.path().join("disk/real.db-wal").exists());
        assert!(!home.path().join("ledger.db-wal").exists());
        store.close().await;
    }

    #[test]
    fn a_path_that_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for path in [Path::new(":memory:"), Path::new(""), folder.path(), &folder.path().join("missing/x.db")]
        {
            let error = checked(&SqliteConfig::new(path)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{path:?}");
        }
        assert!(checked(&SqliteConfig::new(folder.path().join("file:x?mode=memory"))).is_ok());
    }
}
