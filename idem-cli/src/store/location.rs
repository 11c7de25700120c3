//! Where a ledger is, by what it is called.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use idem_core::{Error, Result};

use super::url::{Url, scheme};

/// The kinds of stores that there are or will be. Each has a feature that builds it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    Redis,
    Dynamodb,
}

/// What a URL begins with, and what it leads to.
const SCHEMES: [(&str, Kind); 8] = [
    ("sqlite", Kind::Sqlite),
    ("postgres", Kind::Postgres),
    ("postgresql", Kind::Postgres),
    ("redis", Kind::Redis),
    ("rediss", Kind::Redis),
    ("redis+cluster", Kind::Redis),
    ("redis+sentinel", Kind::Redis),
    ("dynamodb", Kind::Dynamodb),
];

impl Kind {
    const fn feature(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::Dynamodb => "dynamodb",
        }
    }

    /// Whether there is a store of this kind yet.
    const fn exists(self) -> bool {
        matches!(self, Self::Sqlite | Self::Redis)
    }

    /// Whether this program has it.
    const fn is_built_in(self) -> bool {
        match self {
            Self::Sqlite => cfg!(feature = "sqlite"),
            Self::Redis => cfg!(feature = "redis"),
            Self::Postgres | Self::Dynamodb => false,
        }
    }
}

/// Where a ledger is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// In an SQLite file.
    Sqlite {
        path: PathBuf,
        /// Nobody named it: it is the default, whose folder is made.
        default: bool,
    },
    /// At a server.
    Server { url: Url, kind: Kind },
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path, .. } => path.display().fmt(f),
            Self::Server { url, .. } => url.fmt(f),
        }
    }
}

impl Location {
    /// Reads the URL of a server, `sqlite:PATH` or a bare path; without any it is the default file.
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
        let Some(scheme) = scheme(bytes) else { return Self::file(bytes) };
        match SCHEMES.iter().find(|(known, _)| *known == scheme).map(|(_, kind)| *kind) {
            Some(Kind::Sqlite) => {
                let rest = bytes.strip_prefix(b"sqlite:").unwrap_or_default();
                Self::file(rest.strip_prefix(b"//").unwrap_or(rest))
            }
            Some(kind) if kind.is_built_in() => {
                let url = url.to_str().ok_or_else(|| {
                    Error::configuration("the URL of the store is not UTF-8: escape its bytes as %XX")
                })?;
                Ok(Self::Server { url: Url::new(url), kind })
            }
            Some(kind) => Err(refuse(kind, scheme)),
            None => Err(Error::configuration(format!(
                "there is no store for {scheme}: URLs; a file of that name is sqlite:{scheme}:… or ./{scheme}:…"
            ))),
        }
    }

    fn file(path: &[u8]) -> Result<Self> {
        if path.is_empty() {
            return Err(Error::configuration("the store has no path: write sqlite:PATH"));
        }
        Ok(Self::Sqlite { path: PathBuf::from(OsString::from_vec(path.to_vec())), default: false })
    }
}

/// What is said about a store that this program does not have.
pub(crate) fn refuse(kind: Kind, scheme: &str) -> Error {
    let feature = kind.feature();
    let built_in = SCHEMES.iter().filter(|(_, kind)| kind.is_built_in());
    let built_in: Vec<_> = built_in.map(|(scheme, _)| format!("{scheme}:")).collect();
    let instead = match (kind.exists(), built_in.as_slice()) {
        (true, _) => format!("build it with --features {feature}"),
        (false, []) => "there is none yet".to_owned(),
        (false, built_in) => format!("there is none yet; use one of {}", built_in.join(", ")),
    };
    Error::configuration(format!(
        "this build of idem has no store for {scheme}: URLs (feature `{feature}`): {instead}"
    ))
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
    use std::path::Path;

    use idem_core::ErrorKind;

    use super::*;

    fn path(url: &str) -> PathBuf {
        match Location::parse(OsStr::new(url)).unwrap() {
            Location::Sqlite { path, default: false } => path,
            other => panic!("{url}: {other:?}"),
        }
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
        let mut refused = vec![
            ("postgres://host/db", "(feature `postgres`): there is none yet"),
            ("dynamodb:table", "(feature `dynamodb`): there is none yet"),
            ("mysql://host", "there is no store for mysql: URLs"),
            ("sqlite:", "has no path"),
        ];
        if !cfg!(feature = "redis") {
            refused.push(("redis://host", "(feature `redis`): build it with --features redis"));
            refused.push(("redis+cluster://host", "(feature `redis`): build it with --features redis"));
        }
        for (url, part) in refused {
            let error = Location::parse(OsStr::new(url)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Configuration);
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[cfg(feature = "redis")]
    #[test]
    fn a_url_of_a_server_that_is_built_in_is_one() {
        for url in ["redis://u:secret@host", "rediss://u:secret@host", "redis+cluster://u:secret@a,b"] {
            let location = Location::parse(OsStr::new(url)).unwrap();
            assert!(matches!(location, Location::Server { kind: Kind::Redis, .. }), "{url}");
            let shown = format!("{location} {location:?}");
            assert!(!shown.contains("secret") && shown.contains("://u:PASSWORD@"), "{shown}");
        }
        let error = Location::parse(OsStr::from_bytes(b"redis://\xff")).unwrap_err();
        assert!(error.to_string().contains("is not UTF-8"), "{error}");
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
