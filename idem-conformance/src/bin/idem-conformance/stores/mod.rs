//! The stores that the runner knows.
//!
//! A store joins with a file beside this one that holds its harness, a row in [`STORES`], and a cargo feature that brings
//! its crate in. Its own `tests/conformance.rs` includes the same file, so that there is one harness of each store.

mod cas;
mod file;
mod file_store;
mod map_store;
mod memory;
mod sites;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;

use idem_conformance::Harness;

/// A harness, or a line that says why there can be none.
type Made = Result<Arc<dyn Harness>, String>;

/// One store.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name in reports, in `--store` and `--require`; also the name of the harness.
    pub(crate) name: &'static str,
    /// What its URLs begin with.
    pub(crate) schemes: &'static [&'static str],
    /// A few words.
    pub(crate) about: &'static str,
    /// Makes its harness: with a URL, or with what there is on this machine.
    make: Make,
}

#[derive(Debug)]
enum Make {
    /// It has no address: everything is in this process, or in the folder of a site.
    Here(fn() -> Arc<dyn Harness>),
    /// It has one, which is given, or in this environment variable (child processes are told of it through that), or it
    /// finds one.
    #[allow(dead_code, reason = "without any store's feature there is none")]
    At(&'static str, fn(Option<&str>) -> Made),
    /// The feature with this name is off.
    #[allow(dead_code, reason = "with every store's feature there is none")]
    Without(&'static str),
}

/// The way to make a harness where the feature is on, and the feature's name where it is off.
macro_rules! built_in {
    ($feature:literal, $variable:expr, $make:expr) => {{
        #[cfg(feature = $feature)]
        let make = Make::At($variable, $make);
        #[cfg(not(feature = $feature))]
        let make = Make::Without($feature);
        make
    }};
}

/// Every store, in the order in which they run and are reported.
pub(crate) const STORES: &[Row] = &[
    Row {
        name: "memory",
        schemes: &["memory"],
        about: "the reference: the decision table under a lock",
        make: Make::Here(|| Arc::new(memory::Memory::default())),
    },
    Row {
        name: "cas",
        schemes: &["cas"],
        about: "the compare-and-swap adapter over a map",
        make: Make::Here(|| Arc::new(cas::Adapter::default())),
    },
    Row {
        name: "file",
        schemes: &["file"],
        about: "the compare-and-swap adapter over a folder of files",
        make: Make::Here(|| Arc::new(file::Folder)),
    },
    Row {
        name: "sqlite",
        schemes: &["sqlite"],
        about: "SQLite; sqlite:FOLDER makes the ledgers there",
        make: built_in!("sqlite", sqlite::VARIABLE, |url| Ok(match url {
            Some(url) => Arc::new(sqlite::Sqlite::at(url)?),
            None => Arc::new(sqlite::Sqlite::default()),
        })),
    },
];

impl Row {
    /// Whether the runner was built with it.
    pub(crate) const fn built_in(&self) -> bool {
        !matches!(self.make, Make::Without(_))
    }

    /// Its harness, at `url`, or at the URL in its environment variable, or at what there is here.
    pub(crate) fn harness(&self, url: Option<&str>) -> Made {
        match (&self.make, url) {
            (Make::Here(make), None) => Ok(make()),
            (Make::Here(_), Some(url)) => Err(format!("{} has no address: {url:?}", self.name)),
            (Make::At(_, make), Some(url)) => make(Some(url)),
            (Make::At(variable, make), None) => {
                let url = std::env::var(variable).ok().filter(|url| !url.is_empty());
                make(url.as_deref()).map_err(|error| format!("{variable}: {error}"))
            }
            (Make::Without(feature), _) => Err(format!(
                "{} is not built in: cargo run -p idem-conformance --features {feature}",
                self.name
            )),
        }
    }
}

/// The store that `--store` names: by its name, or by a URL with one of its schemes.
pub(crate) fn named(spec: &str) -> Made {
    let (scheme, is_url) = spec.split_once(':').map_or((spec, false), |(scheme, _)| (scheme, true));
    let row = STORES.iter().find(|row| row.name == scheme || row.schemes.contains(&scheme));
    let row = row.ok_or_else(|| {
        let known: Vec<_> = STORES.iter().map(|row| row.name).collect();
        format!("there is no store {scheme:?}; there are {}", known.join(", "))
    })?;
    row.harness(is_url.then_some(spec))
}

/// Every store that was built in, as it is found on this machine.
pub(crate) fn all() -> Result<Vec<Arc<dyn Harness>>, String> {
    STORES.iter().filter(|row| row.built_in()).map(|row| row.harness(None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_and_its_harness_have_one_name() {
        for row in STORES.iter().filter(|row| row.built_in()) {
            assert_eq!(row.harness(None).unwrap().name(), row.name);
        }
    }

    #[test]
    fn a_store_is_found_by_name_and_by_scheme() {
        assert_eq!(named("memory").unwrap().name(), "memory");
        assert!(named("memory:there").unwrap_err().contains("no address"));
        assert!(named("mysql://there").unwrap_err().contains("there is no store \"mysql\""));
        assert!(named("").is_err());
    }

    #[test]
    fn no_scheme_means_two_stores() {
        let mut schemes: Vec<_> = STORES.iter().flat_map(|row| row.schemes).collect();
        let all = schemes.len();
        schemes.sort();
        schemes.dedup();
        assert_eq!(schemes.len(), all);
    }
}
