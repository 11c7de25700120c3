//! URLs of stores, which may hold a password.

use std::fmt;

/// What stands in the place of a password in what is shown. Whoever types the line puts it back.
const PLACE: &str = "PASSWORD";

/// Parameters whose value is a password.
const SECRETS: [&str; 2] = ["pass=", "password="];

/// The URL of a server. Shown without its password (G-91).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url(String);

impl Url {
    pub(crate) fn new(url: &str) -> Self {
        Self(url.to_owned())
    }

    /// As it was given, for the store alone.
    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.0))
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The scheme of a URL; a path has none. One letter is no scheme, and neither is anything with a slash before the
/// colon.
pub(crate) fn scheme(url: &[u8]) -> Option<&str> {
    let colon = url.iter().position(|byte| *byte == b':')?;
    let name = std::str::from_utf8(url.get(..colon)?).ok()?;
    let starts_well = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    let goes_on_well = name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (name.len() > 1 && starts_well && goes_on_well).then_some(name)
}

/// `url` with something else in the place of its password. A text that is no URL is left as it is.
pub(crate) fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    // The last one: a password may hold an `@`, a slash or a question mark that should have been escaped.
    let rest = match rest.rsplit_once('@').map(|(who, at)| (who.split_once(':'), at)) {
        Some((Some((user, _)), at)) => format!("{user}:{PLACE}@{at}"),
        _ => rest.to_owned(),
    };
    let Some((before, query)) = rest.split_once('?') else { return format!("{scheme}://{rest}") };
    let pairs = query.split('&').map(|pair| match SECRETS.iter().find(|name| pair.starts_with(**name)) {
        Some(name) => format!("{name}{PLACE}"),
        None => pair.to_owned(),
    });
    format!("{scheme}://{before}?{}", pairs.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, shown) in [
            ("redis://h:6379/0", "redis://h:6379/0"),
            ("redis://u@h/0", "redis://u@h/0"),
            ("redis://u:secret@h:6379/0?prefix=a", "redis://u:PASSWORD@h:6379/0?prefix=a"),
            ("redis://:secret@h", "redis://:PASSWORD@h"),
            ("redis://u:se@cr?e/t@h/0", "redis://u:PASSWORD@h/0"),
            ("redis+unix:///s?db=1&pass=secret&user=u", "redis+unix:///s?db=1&pass=PASSWORD&user=u"),
            ("postgres://u@h/db?password=secret", "postgres://u@h/db?password=PASSWORD"),
            ("ledger.db", "ledger.db"),
            ("sqlite:a:b@c", "sqlite:a:b@c"),
        ] {
            assert_eq!(redacted(url), shown);
            assert_eq!(format!("{0} {0:?}", Url::new(url)), format!("{shown} {shown}"));
        }
    }
}
