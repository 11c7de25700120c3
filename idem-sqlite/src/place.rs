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

/// The path, if this file on this file system with this library is safe enough for the configuration.
pub(crate) fn checked(config: &SqliteConfig) -> Result<PathBuf> {
    let path = absolute(config)?;
    let Some(folder) = path.parent().filter(|folder| folder.is_dir()) else {
        return Err(Error::configuration(format!(
            "the folder of the database file {} does not exist: make it first",
            path.display()
        )));
    };
    if path.is_dir() {
        return Err(Error::configuration(format!(
            "{} is a folder: name a file for the database",
            path.display()
        )));
    }
    if let Some(name) = network_filesystem(folder) {
        decide(
            config.network_filesystem,
            format!(
                "{} is on {name}, a network file system, where SQLite's locks and shared memory are not reliable: use \
                 a local disk, or another store",
                path.display()
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
    Ok(path)
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

/// The name of the network file system that `folder` is on.
#[cfg(target_os = "linux")]
fn network_filesystem(folder: &Path) -> Option<&'static str> {
    // What cannot be asked is not refused: opening the file will tell.
    let kind = rustix::fs::statfs(folder).ok()?.f_type;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the magic numbers have 32 bits; the type of the field differs between processors"
    )]
    network_name(kind as u32)
}

/// On other systems nobody asks.
#[cfg(not(target_os = "linux"))]
fn network_filesystem(_folder: &Path) -> Option<&'static str> {
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
