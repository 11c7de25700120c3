//! What the figures were taken on: load, cores, how fast the disk is, and the processor time used.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use crate::timing::{Watch, per_second, real};

/// The machine, as far as it explains figures.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) os: &'static str,
    pub(crate) architecture: &'static str,
    pub(crate) cores: usize,
    pub(crate) release_build: bool,
    /// Runnable processes over the last minute, before and after the run; absent where the system does not tell.
    pub(crate) load_before: Option<f64>,
    pub(crate) load_after: Option<f64>,
    /// The part of all processor time that other processes took while this one ran: what the figures suffered from.
    pub(crate) others_share: Option<f64>,
    #[serde(skip)]
    ticks_before: Option<Ticks>,
    /// Appends of 4 KiB with a sync each, which is about what a commit needs; absent when no file was measured.
    pub(crate) syncs_per_s: Option<f64>,
}

impl Machine {
    pub(crate) fn look() -> Self {
        Self {
            os: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            release_build: !cfg!(debug_assertions),
            load_before: load(),
            load_after: None,
            others_share: None,
            ticks_before: Ticks::now(),
            syncs_per_s: None,
        }
    }

    pub(crate) fn look_again(&mut self) {
        self.load_after = load();
        self.others_share = self.ticks_before.zip(Ticks::now()).map(|(before, now)| now.share_since(before));
    }
}

/// Processor time of the whole machine since it started, in ticks.
#[derive(Debug, Clone, Copy)]
struct Ticks {
    all: u64,
    busy: u64,
    own: Duration,
}

/// Ticks of a second on every Linux that tells them.
const TICKS_PER_S: f64 = 100.0;

impl Ticks {
    fn now() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        let fields = text.lines().next()?.split_whitespace().skip(1);
        // User, nice, system, idle, waiting for the disk, interrupts, soft interrupts, taken by the host.
        let ticks: Vec<u64> = fields.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let idle = ticks.get(3)? + ticks.get(4)?;
        let all = ticks.iter().sum();
        Some(Self { all, busy: all - idle, own: cpu_time() })
    }

    /// What others took of all since `before`.
    fn share_since(self, before: Self) -> f64 {
        let all = real(self.all.saturating_sub(before.all)).max(1.0);
        let own = self.own.saturating_sub(before.own).as_secs_f64() * TICKS_PER_S;
        ((real(self.busy.saturating_sub(before.busy)) - own) / all).max(0.0)
    }
}

/// The load of the last minute.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Appends and syncs `count` times in `dir`.
pub(crate) fn syncs_per_s(dir: &Path, count: u32) -> anyhow::Result<f64> {
    let mut file = tempfile::tempfile_in(dir).context("a file for measuring the disk")?;
    let page = [0x5a_u8; 4096];
    let watch = Watch::start();
    for _ in 0..count {
        file.write_all(&page)?;
        file.sync_data()?;
    }
    Ok(per_second(count.into(), watch.elapsed()))
}

/// User and system time of all threads of this process so far; zero where the system does not tell.
#[cfg(unix)]
pub(crate) fn cpu_time() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    let part = |time: nix::sys::time::TimeVal| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        let micros = u64::try_from(time.tv_usec()).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    };
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(Duration::ZERO, |usage| part(usage.user_time()) + part(usage.system_time()))
}

/// User and system time of all threads of this process so far; zero where the system does not tell.
#[cfg(not(unix))]
pub(crate) fn cpu_time() -> Duration {
    Duration::ZERO
}
