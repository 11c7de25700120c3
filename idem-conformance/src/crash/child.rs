//! Starting a child process, and being one.

use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{Child, Command};

use super::{Boundaries, Job, PASSED, Task, flight, local, race, worker};
use crate::env::Env;
use crate::failure::{Failure, Verdict};
use crate::harness::Harness;
use crate::runner::RUNTIME;
use crate::site::Site;

/// Holds the task of a child process, as JSON.
const TASK: &str = "IDEM_CONFORMANCE_CHILD";
/// How long a child may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// The number of SIGKILL.
const SIGKILL: i32 = 9;

/// How a child process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The signal that ended it, if one did.
    pub(crate) signal: Option<i32>,
    pub(crate) success: bool,
    /// What it said on its standard output.
    pub(crate) lines: Vec<String>,
    pub(crate) complaints: String,
}

impl Ended {
    /// The boundaries that it passed, in their order.
    pub(crate) fn passed(&self) -> Vec<String> {
        self.lines.iter().filter_map(|line| line.strip_prefix(PASSED)).map(str::to_owned).collect()
    }

    /// What it said under `name`.
    pub(crate) fn said(&self, name: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    }

    /// Fails unless SIGKILL ended it, and the last boundary that it passed is `boundary`, where one is given.
    pub(crate) fn killed_at(&self, boundary: Option<&str>) -> Verdict {
        let last = self.passed().pop();
        if self.signal == Some(SIGKILL) && boundary.is_none_or(|boundary| last.as_deref() == Some(boundary)) {
            return Ok(());
        }
        Err(Failure::new(format!("a child was to die by SIGKILL at {boundary:?}, and did not: {self}")))
    }

    /// Fails unless it came to its end.
    pub(crate) fn finished(&self) -> Verdict {
        if self.success {
            return Ok(());
        }
        Err(Failure::new(format!("a child was to come to its end, and did not: {self}")))
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { signal, success, lines, complaints } = self;
        write!(f, "signal {signal:?}, success {success}, said {lines:?}, complained {complaints:?}")
    }
}

/// Starts this program again, to do `job` on `site` as it is now.
pub(crate) fn start_child(env: &Env, site: &Site, job: Job) -> Verdict<Child> {
    let task = Task { backend: env.harness().name().to_owned(), site: site.locator(), job };
    let broken =
        |error: &dyn std::fmt::Display| Failure::new(format!("a child process does not start: {error}"));
    let task = serde_json::to_string(&task).map_err(|error| broken(&error))?;
    let program = std::env::current_exe().map_err(|error| broken(&error))?;
    Command::new(program)
        .env(TASK, task)
        .envs(env.harness().environment())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| broken(&error))
}

/// Waits for the end of a child; one that takes too long is killed and counts as hung.
pub(crate) async fn end_of(child: Child) -> Verdict<Ended> {
    let output = tokio::time::timeout(DEADLINE, child.wait_with_output()).await;
    let output = output
        .map_err(|_| Failure::new(format!("a child process hung: no end within {} s", DEADLINE.as_secs())))?
        .map_err(|error| Failure::new(format!("a child process was lost: {error}")))?;
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    #[cfg(not(unix))]
    let signal = None;
    Ok(Ended {
        signal,
        success: output.status.success(),
        lines: String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect(),
        complaints: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Starts a child and waits for its end.
pub(crate) async fn run_child(env: &Env, site: &Site, job: Job) -> Verdict<Ended> {
    end_of(start_child(env, site, job)?).await
}

/// Does the task of this process, if it is a child. [`main!`](crate::main!) and every other program that runs scenarios
/// call this before anything else.
#[must_use]
pub fn dispatch(harnesses: &[Arc<dyn Harness>]) -> Option<ExitCode> {
    let task = std::env::var(TASK).ok()?;
    let done = serde_json::from_str::<Task>(&task)
        .map_err(|error| Failure::new(format!("the task of the child cannot be read: {error}")))
        .and_then(|task| {
            let harness = harnesses.iter().find(|harness| harness.name() == task.backend);
            let harness =
                harness.ok_or_else(|| Failure::new(format!("there is no {} here", task.backend)))?;
            RUNTIME.block_on(perform(harness, task))
        });
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    })
}

async fn perform(harness: &Arc<dyn Harness>, task: Task) -> Verdict {
    let site = Site::located(task.site);
    match task.job {
        Job::Local(local) => local::perform(harness, &site, &local).await,
        Job::Flight(flight) => flight::perform(harness, &site, flight).await,
        Job::Race { racer, racers, operations, round } => {
            race::perform(&*harness.open(&site).await?, &site, racer, racers, operations, round).await
        }
        Job::Stream { key } => worker::stream(&*harness.open(&site).await?, &site, &key).await,
        Job::Work(work) => {
            let boundaries = Boundaries { kill_at: work.kill_at.clone() };
            worker::work(&*harness.open(&site).await?, &site, &work, &boundaries).await
        }
        Job::Recover(work) => {
            let boundaries = Boundaries { kill_at: work.kill_at.clone() };
            worker::recover(&*harness.open(&site).await?, &site, &work, &boundaries).await
        }
    }
}
