//! The folder of everything that was started on this machine, and the removal of what was left behind.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};

use crate::account::Account;
use crate::error::Error;

/// The pipe that users hold open.
const USERS: &str = "users";
/// The file in which a server's process id and start are noted.
const SERVER: &str = "server";

/// One folder a server, under one for all that an account starts.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) account: Account,
    path: PathBuf,
}

impl Home {
    /// The folder, made if it is not there. Somebody else's is refused: what is in it is trusted.
    pub(crate) fn open() -> Result<Self, Error> {
        let account = Account::of_servers()?;
        let path = std::env::temp_dir().join(format!("idem-provision-{}", account.uid));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => account.own(&path)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::broken(path.display(), error)),
        }
        let found = path.symlink_metadata().map_err(|error| Error::broken(path.display(), error))?;
        if !found.is_dir() || found.uid() != account.uid || found.mode() & 0o022 != 0 {
            return Err(Error::Broken(format!(
                "{} is not a folder of user {} alone",
                path.display(),
                account.uid
            )));
        }
        Ok(Self { account, path })
    }

    /// Waits until nobody else holds the lock of this name; it is held as long as the file is open.
    pub(crate) fn lock(&self, name: &str) -> Result<File, Error> {
        let path = self.path.join(format!("{name}.lock"));
        let lock = || {
            let file = File::options().create(true).append(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        lock().map_err(|error: io::Error| Error::broken(path.display(), error))
    }

    /// A new folder whose name begins with `prefix`.
    pub(crate) fn new_folder(&self, prefix: &str) -> Result<PathBuf, Error> {
        let folder = self.path.join(format!("{prefix}-{}", random_hex(4)?));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| Error::broken(folder.display(), error))?;
        self.account.own(&folder)?;
        Ok(folder)
    }

    /// The folders whose name begins with `prefix`.
    pub(crate) fn folders(&self, prefix: &str) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return Vec::new() };
        let paths = entries.flatten().map(|entry| entry.path());
        let named =
            |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        paths.filter(|path| path.is_dir() && named(path)).collect()
    }

    /// Stops and removes what has no keeper any more. The caller holds the lock under which keepers are started, or this
    /// would remove the folder of one that is about to open its pipe.
    pub(crate) fn sweep(&self) {
        for folder in self.folders("") {
            if !matches!(join(&folder), Ok(None)) {
                continue;
            }
            if let Some(left) = Noted::read(&folder).filter(Noted::is_running) {
                left.kill();
            }
            // What cannot be removed now is found by the next run.
            drop(std::fs::remove_dir_all(&folder));
        }
    }
}

/// Becomes a user of the server in `folder`; `None` when nobody keeps it.
pub(crate) fn join(folder: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(folder.join(USERS), flags, Mode::empty()) {
        Ok(pipe) => Ok(Some(File::from(pipe))),
        // No reader: the keeper is gone. No pipe: it never began.
        Err(rustix::io::Errno::NXIO | rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A process with its start, which tells it from a later one under the same number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Noted {
    pid: Pid,
    start: String,
}

impl Noted {
    /// The process that runs under this number now.
    pub(crate) fn running(pid: u32) -> Option<Self> {
        let start = start_of(pid)?;
        Some(Self { pid: Pid::from_raw(i32::try_from(pid).ok()?)?, start })
    }

    /// Keeps it for a later run.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        std::fs::write(folder.join(SERVER), format!("{} {}", self.pid.as_raw_nonzero(), self.start))
    }

    fn read(folder: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(folder.join(SERVER)).ok()?;
        let (pid, start) = text.split_once(' ')?;
        Some(Self { pid: Pid::from_raw(pid.parse().ok()?)?, start: start.to_owned() })
    }

    fn is_running(&self) -> bool {
        u32::try_from(self.pid.as_raw_nonzero().get()).ok().and_then(Self::running).as_ref() == Some(self)
    }

    fn kill(&self) {
        // One that ended meanwhile is no error.
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
    }
}

/// When a process started, in the system's own words; `None` when there is none.
#[cfg(target_os = "linux")]
fn start_of(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // PID (NAME) STATE …: the name may itself contain blanks and brackets, the start is the 22nd field.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    // Ticks are counted from the boot: without its id, another boot's process could be taken for this one.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    Some(format!("{} {}", fields.nth(18)?, boot.trim()))
}

/// When a process started, in the system's own words; `None` when there is none.
#[cfg(not(target_os = "linux"))]
fn start_of(pid: u32) -> Option<String> {
    let output = std::process::Command::new("ps")
        .args(["-o", "lstart=", "-p", &pid.to_string()])
        .env("LC_ALL", "C")
        .output()
        .ok()?;
    let start = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (!start.is_empty()).then_some(start)
}

/// `bytes` random bytes of the system's, as text.
pub(crate) fn random_hex(bytes: usize) -> Result<String, Error> {
    let mut random = vec![0_u8; bytes];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random));
    read.map_err(|error| Error::broken("/dev/urandom", error))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_with_its_number() {
        let own = Noted::running(std::process::id()).unwrap();
        assert!(own.is_running());
        let earlier = Noted { start: "1 another boot".to_owned(), ..own };
        assert!(!earlier.is_running());
    }
}
