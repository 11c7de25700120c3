//! A ledger in Redis.

use idem_core::{Error, Result};
use idem_redis::{RedisConfig, RedisStore};

use super::Opened;

/// Parameters of a `redis:` URL that the client of Redis reads.
const CLIENTS: [&str; 1] = ["protocol"];

/// Connects to the server at `url`. `?prefix=P` names one of several ledgers there.
///
/// # Errors
///
/// `Configuration` for a parameter that nobody reads: a ledger that was meant would not be the one that is used. Those
/// of the store.
pub(super) async fn open(url: &str) -> Result<Opened> {
    let mut config = RedisConfig::new(url);
    if let Some(prefix) = prefix(url)? {
        config = config.prefix(prefix);
    }
    Ok(Opened::of(RedisStore::open_with(config).await?))
}

fn prefix(url: &str) -> Result<Option<&str>> {
    let (url, _fragment) = url.split_once('#').unwrap_or((url, ""));
    // A password that holds a question mark is not a query.
    let behind_user = url.rsplit_once('@').map_or(url, |(_, rest)| rest);
    let Some((_, query)) = behind_user.split_once('?') else { return Ok(None) };
    let mut prefix = None;
    for pair in query.split('&') {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("prefix", value) if prefix.is_none() => prefix = Some(value),
            (name, _) if CLIENTS.contains(&name) => {}
            (name, _) => {
                return Err(Error::configuration(format!(
                    "the URL of the store has a parameter `{name}` that is not known, or given twice: write \
                     ?prefix=PREFIX for a ledger of another prefix than idem"
                )));
            }
        }
    }
    Ok(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_chosen_by_its_prefix_and_nothing_else() {
        for (url, expected) in [
            ("redis://h/", None),
            ("redis://u:p?prefix=a@h/0", None),
            ("redis://u:p@h/0?prefix=billing", Some("billing")),
            ("redis://h?protocol=3&prefix=a:b#insecure", Some("a:b")),
            ("redis://h?prefix=", Some("")),
        ] {
            assert_eq!(prefix(url).unwrap(), expected, "{url}");
        }
        for url in ["redis://h?prefx=a", "redis://h?prefix=a&prefix=b", "redis://h?db=1"] {
            assert!(prefix(url).unwrap_err().to_string().contains("that is not known"), "{url}");
        }
    }
}
