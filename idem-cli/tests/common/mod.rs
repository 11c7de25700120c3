//! Runs `idem` as a process, as a user would.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that fails says where, not every file uses everything, and processes live in real time"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The longest that anything here is waited for before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of its own, and a ledger: a file in it, unless it is said to be elsewhere.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    store: String,
}

/// What a process did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Out {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Out {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Out {
    /// Exit status, stdout and stderr at once.
    pub(crate) fn parts(&self) -> (Option<i32>, &str, &str) {
        (self.code, &self.stdout, &self.stderr)
    }

    /// Checks the exit status and that idem says on stderr, in one line, what begins so.
    #[track_caller]
    pub(crate) fn says(&self, code: i32, beginning: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let ours: Vec<_> = self.stderr.lines().filter(|line| line.starts_with("idem: ")).collect();
        assert_eq!(ours.len(), 1, "one line: {self:?}");
        assert!(ours[0].starts_with(&format!("idem: {beginning}")), "{self:?}");
    }

    /// stdout as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::at("ledger.db")
    }

    /// With the ledger at `store`.
    pub(crate) fn at(store: &str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), store: store.to_owned() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// How often the commands of this test have run: the lines of `runs.txt`.
    pub(crate) fn runs(&self) -> usize {
        self.read("runs.txt").lines().count()
    }

    pub(crate) fn has_ledger(&self) -> bool {
        self.path("ledger.db").exists()
    }

    /// `idem ARGS` in the folder, on its ledger, with nothing of our environment that it reads.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_idem"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("IDEM_STORE", &self.store)
            .env("USER", "tester")
            .env_remove("XDG_STATE_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn idem<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Out {
        self.command(args).output().unwrap().into()
    }

    /// `idem run OPTIONS -- sh -c SCRIPT`; the options are separated by spaces.
    pub(crate) fn sh(&self, options: &str, script: &str) -> Out {
        self.sh_command(options, script).output().unwrap().into()
    }

    pub(crate) fn sh_command(&self, options: &str, script: &str) -> Command {
        let options = options.split_whitespace();
        self.command(["run"].into_iter().chain(options).chain(["--", "sh", "-c", script]))
    }

    /// The same with something on stdin.
    pub(crate) fn sh_with_stdin(&self, options: &str, script: &str, stdin: &[u8]) -> Out {
        let mut child = self.sh_command(options, script).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// `idem show --json` of the only operation with this key.
    #[track_caller]
    pub(crate) fn show(&self, key: &str) -> serde_json::Value {
        self.idem(["show", "--json", "--key", key]).json()
    }

    /// Starts a command that says in the file `pid` that it runs, and then waits for the file `go`; `idem` is killed
    /// with it running, as by a crash. The command ends by itself.
    #[track_caller]
    pub(crate) fn crash(&self, options: &str) -> Crashed {
        let mut child = self.sh_command(options, WAITING).spawn().unwrap();
        until("the command runs", || self.path("pid").exists());
        child.kill().unwrap();
        child.wait().unwrap();
        let pid = self.read("pid").trim().to_owned();
        fs::remove_file(self.path("pid")).unwrap();
        Crashed(pid)
    }
}

/// A command that runs until there is a file `go`, at most for a minute.
pub(crate) const WAITING: &str = "echo run >> runs.txt; echo $$ > pid.new; mv pid.new pid; \
    i=0; while [ ! -e go ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done; echo done";

/// A command whose `idem` crashed. It is killed at the end of the test: no test leaves a process behind.
pub(crate) struct Crashed(String);

impl Drop for Crashed {
    fn drop(&mut self) {
        kill(&self.0, "KILL");
        until("the command is gone", || !alive(&self.0));
    }
}

/// Sends a signal.
pub(crate) fn kill(pid: &str, signal: &str) {
    let _ = Command::new("kill").args([&format!("-{signal}"), pid]).stderr(Stdio::null()).status().unwrap();
}

/// Whether a process is there and no zombie.
pub(crate) fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Waits for a child, and fails the test if that takes too long.
#[track_caller]
pub(crate) fn finish(mut child: Child) -> Out {
    let pid = child.id();
    let deadline = Instant::now() + PATIENCE;
    loop {
        if child.try_wait().unwrap().is_some() {
            return child.wait_with_output().unwrap().into();
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("process {pid} does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until `condition` holds, and fails the test if that takes too long.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
