//! `--report FILE`: what happened, as one JSON object.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use super::answer::Answer;

/// Where the report goes. It is opened before anything is run, so that a wrong path runs nothing.
pub(crate) enum Report {
    /// Nobody wants one.
    None,
    /// A file that appears at `path` all at once, when it is written.
    File { temporary: NamedTempFile, path: PathBuf },
    /// Something that a file must not replace: a pipe, a terminal, `/dev/fd/3`.
    Stream(Box<dyn Write>),
}

#[derive(Serialize)]
struct Json {
    answer: &'static str,
    state: Option<&'static str>,
    attempt: Option<u32>,
    fence: Option<u64>,
    exit: u8,
    bytes: u64,
}

impl Report {
    /// Prepares a report at `path`.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else { return Ok(Self::None) };
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            return Ok(Self::Stream(Box::new(OpenOptions::new().write(true).open(path)?)));
        }
        // A link is written through, not replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let temporary = tempfile::Builder::new()
            .prefix(".idem-report-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)?;
        Ok(Self::File { temporary, path })
    }

    /// Writes it.
    pub(crate) fn write(self, answer: &Answer) -> io::Result<()> {
        let json = Json {
            answer: answer.name,
            state: answer.state.map(idem_core::record::View::name),
            attempt: answer.attempt,
            fence: answer.fence,
            exit: answer.exit.status(),
            bytes: answer.bytes,
        };
        let mut text = serde_json::to_vec(&json)?;
        text.push(b'\n');
        match self {
            Self::None => Ok(()),
            Self::Stream(mut stream) => stream.write_all(&text),
            Self::File { mut temporary, path } => {
                temporary.write_all(&text)?;
                temporary.persist(path)?;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use idem_core::record::View;

    #[test]
    fn a_report_appears_all_at_once_and_replaces_an_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        std::fs::write(&path, "old").unwrap();
        let report = Report::open(Some(&path)).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        report.write(&Answer::of_command("executed", 3).state(View::Completed).bytes(6)).unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"answer\":\"executed\",\"state\":\"completed\",\"attempt\":null,\"fence\":null,\"exit\":3,\"bytes\":6}\n"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_report_that_is_not_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(Report::open(Some(&folder.path().join("report.json"))).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(Report::open(Some(&folder.path().join("none/report.json"))).is_err());
    }

    #[test]
    fn a_device_is_written_and_not_replaced() {
        let report = Report::open(Some(Path::new("/dev/null"))).unwrap();
        assert!(matches!(report, Report::Stream(_)));
        report.write(&Answer::of_command("executed", 0)).unwrap();
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
    }
}
