//! The foreign system that a worked operation calls: files beside the store, written one line at a time.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use crate::failure::{Failure, Verdict};
use crate::site::Site;

/// A provider that may deduplicate on the downstream key, and that can be asked what it did.
#[derive(Debug)]
pub(crate) struct Provider {
    dir: PathBuf,
}

fn broken(error: std::io::Error) -> Failure {
    Failure::new(format!("the suite's own provider failed: {error}"))
}

impl Provider {
    /// The provider of `site`.
    pub(crate) fn of(site: &Site) -> Verdict<Self> {
        let dir = site.dir().join("provider");
        fs::create_dir_all(&dir).map_err(broken)?;
        Ok(Self { dir })
    }

    fn append(&self, file: &str, line: &str) -> Verdict {
        let mut file =
            OpenOptions::new().create(true).append(true).open(self.dir.join(file)).map_err(broken)?;
        // One write, so that lines of several processes never mix.
        file.write_all(format!("{line}\n").as_bytes()).map_err(broken)
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Does the effect under `key`, and gives its remote id. Where the provider deduplicates, a key that it knows gives the
    /// same id again and does nothing.
    pub(crate) fn call(&self, key: &str, keyed: bool) -> Verdict<String> {
        self.append("calls", key)?;
        if keyed && let Some(known) = self.lookup(key) {
            return Ok(known);
        }
        let remote = format!("{key}-{}", self.effects(key).len() + 1);
        self.append("effects", &remote)?;
        Ok(remote)
    }

    /// The remote id of the effect under `key`, if there is one.
    pub(crate) fn lookup(&self, key: &str) -> Option<String> {
        self.effects(key).into_iter().next()
    }

    /// Every effect under `key`.
    pub(crate) fn effects(&self, key: &str) -> Vec<String> {
        let prefix = format!("{key}-");
        self.lines("effects").into_iter().filter(|line| line.starts_with(&prefix)).collect()
    }

    /// How often it was called under `key`.
    pub(crate) fn calls(&self, key: &str) -> usize {
        self.lines("calls").into_iter().filter(|line| line == key).count()
    }

    /// Notes what the caller of an operation was told in the end.
    pub(crate) fn receipt(&self, key: &str, text: &str) -> Verdict {
        self.append(&receipts_of(key), text)
    }

    /// Everything that callers of `key` were told.
    pub(crate) fn receipts(&self, key: &str) -> Vec<String> {
        self.lines(&receipts_of(key))
    }
}

/// The file with what callers of `key` were told.
fn receipts_of(key: &str) -> String {
    format!("receipts-{}", key.replace('/', "+"))
}
