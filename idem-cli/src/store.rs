//! From a URL to a ledger: the one place that knows which stores there are.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use idem_core::{Error, ErrorKind, Result, Store};

/// Schemes of stores that exist or are planned, and the feature that builds each in.
const SCHEMES: [(&str, &str); 6] = [
    ("postgres", "postgres"),
    ("postgresql", "postgres"),
    ("redis", "redis"),
    ("rediss", "redis"),
    ("dynamodb", "dynamodb"),
    ("sqlite", "sqlite"),
];

/// Where a ledger is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In an SQLite file.
    Sqlite {
        path: PathBuf,
        /// Nobody named it: it is the default, whose folder is made.
        default: bool,
    },
}

/// An open ledger.
pub(crate) struct Opened {
    store: Arc<dyn Store>,
    #[cfg(feature = "sqlite")]
    sqlite: idem_sqlite::SqliteStore,
}

impl Opened {
    /// The ledger's store. What is made of it has to be gone before the ledger is closed.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Ends everything that the store has going, so that no file is left which only an open ledger needs. A store that
    /// is stuck is left as it is after [`CLOSING`](crate::runtime::CLOSING): whoever opens it next cleans up.
    pub(crate) async fn close(self) {
        #[cfg(feature = "sqlite")]
        let _stuck = tokio::time::timeout(crate::runtime::CLOSING, self.sqlite.close()).await;
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path, .. } => path.display().fmt(f),
        }
    }
}

impl Location {
    /// Reads `sqlite:PATH` or a bare path; without either it is the default file.
    ///
    /// # Errors
    ///
    /// `Configuration` for a scheme that is unknown or not built in, an empty path, or no place for the default.
    pub(crate) fn of(url: Option<&OsStr>) -> Result<Self> {
        match url.filter(|url| !url.is_empty()) {
            Some(url) => Self::parse(url),
            None => {
                let path = default_path(std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME"))?;
                Ok(Self::Sqlite { path, default: true })
            }
        }
    }

    fn parse(url: &OsStr) -> Result<Self> {
        let bytes = url.as_bytes();
        let path = match scheme(bytes) {
            None => bytes,
            Some("sqlite") => {
                let rest = bytes.strip_prefix(b"sqlite:").unwrap_or_default();
                rest.strip_prefix(b"//").unwrap_or(rest)
            }
            Some(scheme) => return Err(refuse(scheme)),
        };
        if path.is_empty() {
            return Err(Error::configuration("the store has no path: write sqlite:PATH"));
        }
        Ok(Self::Sqlite { path: PathBuf::from(OsString::from_vec(path.to_vec())), default: false })
    }

    /// Opens the ledger, and makes it where there is none.
    ///
    /// # Errors
    ///
    /// `Configuration` where it cannot be there; those of the store.
    pub(crate) async fn open(&self) -> Result<Opened> {
        let Self::Sqlite { path, default } = self;
        if *default
            && cfg!(feature = "sqlite")
            && let Some(folder) = path.parent()
        {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
                let message = format!("the folder {} cannot be made", folder.display());
                Error::with_source(ErrorKind::Configuration, message, error)
            })?;
        }
        open_sqlite(path).await
    }

    /// Opens a ledger that is there: a look at one must not make it.
    ///
    /// # Errors
    ///
    /// `Configuration` where it is not; those of the store.
    pub(crate) async fn open_existing(&self) -> Result<Opened> {
        let Self::Sqlite { path, .. } = self;
        if !path.exists() {
            return Err(Error::configuration(format!(
                "there is no ledger at {}: name it with --store or IDEM_STORE",
                path.display()
            )));
        }
        open_sqlite(path).await
    }
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(path: &Path) -> Result<Opened> {
    let sqlite = idem_sqlite::SqliteStore::open(path).await?;
    Ok(Opened { store: Arc::new(sqlite.clone()), sqlite })
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_: &Path) -> Result<Opened> {
    Err(refuse("sqlite"))
}

/// The scheme of a URL; a path has none. One letter is no scheme, and neither is anything with a slash before the
/// colon.
fn scheme(url: &[u8]) -> Option<&str> {
    let colon = url.iter().position(|byte| *byte == b':')?;
    let name = std::str::from_utf8(url.get(..colon)?).ok()?;
    let starts_well = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let goes_on_well = name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (name.len() > 1 && starts_well && goes_on_well).then_some(name)
}

fn refuse(scheme: &str) -> Error {
    match SCHEMES.iter().find(|(known, _)| *known == scheme) {
        Some((_, feature)) => {
            let instead =
                if cfg!(feature = "sqlite") { "use sqlite:PATH" } else { "build it with the feature" };
            Error::configuration(format!(
                "this build of idem has no store for {scheme}: URLs (feature `{feature}`): {instead}"
            ))
        }
        None => Error::configuration(format!(
            "there is no store for {scheme}: URLs; a file of that name is sqlite:{scheme}:… or ./{scheme}:…"
        )),
    }
}

/// `idem/ledger.db` in the state directory of the XDG base directory specification.
fn default_path(state_home: Option<OsString>, home: Option<OsString>) -> Result<PathBuf> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute(state_home).or_else(|| Some(absolute(home)?.join(".local/state")));
    match state {
        Some(state) => Ok(state.join("idem/ledger.db")),
        None => Err(Error::configuration(
            "neither XDG_STATE_HOME nor HOME is set: name the ledger with --store or IDEM_STORE",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(url: &str) -> PathBuf {
        let Location::Sqlite { path, default } = Location::parse(OsStr::new(url)).unwrap();
        assert!(!default);
        path
    }

    #[test]
    fn a_url_and_a_bare_path_mean_the_same() {
        for url in ["ledger.db", "sqlite:ledger.db", "sqlite://ledger.db"] {
            assert_eq!(path(url), Path::new("ledger.db"));
        }
        assert_eq!(path("sqlite:///var/ledger.db"), Path::new("/var/ledger.db"));
        assert_eq!(path("./odd:name"), Path::new("./odd:name"));
        assert_eq!(path("sqlite:odd:name"), Path::new("odd:name"));
        assert_eq!(path("a:b"), Path::new("a:b"), "one letter is no scheme");
        let odd = OsStr::from_bytes(b"sqlite:\xff");
        assert!(
            matches!(Location::parse(odd), Ok(Location::Sqlite { path, .. }) if path.as_os_str().len() == 1)
        );
    }

    #[test]
    fn other_schemes_are_told_apart_from_unknown_ones() {
        for (url, part) in [
            ("postgres://host/db", "(feature `postgres`)"),
            ("redis://host", "(feature `redis`)"),
            ("dynamodb:table", "(feature `dynamodb`)"),
            ("mysql://host", "there is no store for mysql: URLs"),
            ("sqlite:", "has no path"),
        ] {
            let error = Location::parse(OsStr::new(url)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn the_default_is_in_the_state_directory() {
        let of = |state: Option<&str>, home: Option<&str>| {
            default_path(state.map(OsString::from), home.map(OsString::from))
        };
        assert_eq!(of(Some("/s"), Some("/h")).unwrap(), Path::new("/s/idem/ledger.db"));
        assert_eq!(of(None, Some("/h")).unwrap(), Path::new("/h/.local/state/idem/ledger.db"));
        assert_eq!(of(Some("relative"), Some("/h")).unwrap(), Path::new("/h/.local/state/idem/ledger.db"));
        assert!(of(Some(""), None).is_err());
        assert!(of(None, Some("")).is_err());
    }
}
