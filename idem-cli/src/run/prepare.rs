//! From the command line to what is to be done, all of it checked before a ledger is opened.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use idem_core::backoff::Backoff;
use idem_core::ledger::Policy;
use idem_core::{Error, Fingerprint, Label, Lease, OperationId, Result, Retention, Ttl};

use super::child::Deadlines;
use super::fingerprint::Intent;
use super::input::Input;
use crate::args::{OnCrash, OnFailure, RunArgs};
use crate::hint::Hints;

/// The heartbeat's ceiling: a command may run as long as it likes, unless it has a `--timeout`.
const CEILING: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A store that waits for a lock has waited by itself, and somebody waits for us: the ledger asks once more. A
/// completion is repeated until the lease ends in any case.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500), 1);

/// What one `idem run` is to do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) id: OperationId,
    /// What people are told to type about it.
    pub(crate) hints: Hints,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) policy: Policy,
    pub(crate) command: Vec<OsString>,
    pub(crate) input: Input,
    pub(crate) deadlines: Deadlines,
    pub(crate) on_failure: OnFailure,
    pub(crate) release_on: Vec<u8>,
    pub(crate) on_crash: OnCrash,
    pub(crate) reconcile: Option<OsString>,
}

impl Plan {
    /// Checks `args` and reads the input.
    pub(crate) fn of(args: RunArgs, hints: Hints) -> Result<Self> {
        let id = operation_id(&args.key, &args.tenant, args.operation.as_deref(), &args.command)?;
        let lease = Lease::new(args.lease)?;
        if args.reconcile.is_some() && args.on_crash == OnCrash::Rerun {
            return Err(Error::invalid_input(
                "--reconcile finds out and --on-crash rerun need not: choose one",
            ));
        }
        let mut policy = match args.on_crash {
            OnCrash::Park => Policy::default(),
            // Whoever declares this declares it for good: there is no time after which it stops being true.
            OnCrash::Rerun => Policy::keyed(Duration::MAX),
        };
        policy.lease = lease;
        policy.ceiling = CEILING;
        policy.wait = if args.no_wait { Duration::ZERO } else { args.wait };
        policy.retention = retention(args.response_ttl, args.identity_ttl)?;
        policy.attempts_max = args.max_attempts;
        policy.owner = owner();
        policy.backoff = BACKOFF;
        let deadlines =
            Deadlines { timeout: args.timeout, kill_after: args.kill_after, lease: lease.duration() };
        let input = Input::open(args.input.as_deref()).map_err(|error| {
            let path = args.input.as_deref().unwrap_or(Path::new("-"));
            Error::invalid_input(format!("the input {} cannot be read: {error}", path.display()))
        })?;
        let fingerprint = Intent::new(&args.command, input.digest())
            .environment(&args.fingerprint_env)
            .files(&args.fingerprint_file)
            .map_err(|(path, error)| {
                Error::invalid_input(format!("{} cannot be read: {error}", path.display()))
            })?
            .fingerprint();
        Ok(Self {
            id,
            hints,
            fingerprint,
            policy,
            command: args.command,
            input,
            deadlines,
            on_failure: args.on_failure,
            release_on: args.release_on,
            on_crash: args.on_crash,
            reconcile: args.reconcile,
        })
    }
}

/// The id of an operation; without a name it has the command's.
pub(crate) fn operation_id(
    key: &OsStr,
    tenant: &OsStr,
    operation: Option<&OsStr>,
    command: &[OsString],
) -> Result<OperationId> {
    let key = utf8("key", key)?;
    let tenant = utf8("tenant", tenant)?;
    if let Some(operation) = operation {
        return OperationId::new(tenant, utf8("operation name", operation)?, key);
    }
    let name = command.first().map_or(OsStr::new(""), |name| Path::new(name).file_name().unwrap_or(name));
    let name = name.to_str().ok_or_else(|| {
        Error::invalid_input("the command's name is not UTF-8: name the operation with --operation (G-02)")
    })?;
    OperationId::new(tenant, &format!("cli/{name}"), key)
}

/// A part of an id, which is text (G-02).
pub(crate) fn utf8<'a>(name: &str, part: &'a OsStr) -> Result<&'a str> {
    part.to_str().ok_or_else(|| Error::invalid_input(format!("the {name} is not UTF-8 (G-02)")))
}

/// How long a result is kept; the response as long as the identity, unless it says otherwise.
pub(crate) fn retention(response: Option<Ttl>, identity: Ttl) -> Result<Retention> {
    match identity {
        Ttl::Forever => Retention::forever().response(response.unwrap_or(Ttl::Forever)),
        // Giving the option is the acknowledgement that the key runs again afterwards (G-41).
        finite => Retention::forgetting_identity(finite, response.unwrap_or(finite), None),
    }
}

/// Who we are, for people who read the record.
pub(crate) fn owner() -> Label {
    let host = rustix::system::uname();
    let text = format!("{}@{} pid {}", user(), host.nodename().to_string_lossy(), std::process::id());
    Label::cut(&text).0.unwrap_or_else(|| Policy::default().owner)
}

/// The name of the user, or the number.
pub(crate) fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(std::env::var_os);
    let name = named.map(|name| name.to_string_lossy().into_owned()).find(|name| !name.is_empty());
    name.unwrap_or_else(|| format!("uid {}", rustix::process::getuid().as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(operation: Option<&str>, command: &str) -> Result<OperationId> {
        operation_id(OsStr::new("k"), OsStr::new("t"), operation.map(OsStr::new), &[OsString::from(command)])
    }

    #[test]
    fn an_operation_has_the_name_of_its_command() {
        assert_eq!(named(None, "/usr/bin/env").unwrap().operation(), "cli/env");
        assert_eq!(named(None, "./a b").unwrap().operation(), "cli/a b");
        assert_eq!(named(None, "..").unwrap().operation(), "cli/..");
        assert_eq!(named(Some("charge/v1"), "/usr/bin/env").unwrap().operation(), "charge/v1");
        assert!(named(Some(""), "env").is_err());
        assert!(named(None, &"x".repeat(509)).is_err());
    }

    #[test]
    fn parts_that_are_not_text_are_refused() {
        use std::os::unix::ffi::OsStrExt;
        let odd = OsStr::from_bytes(b"\xff");
        let command = [odd.to_owned()];
        let (key, tenant) = (OsStr::new("k"), OsStr::new("t"));
        assert!(operation_id(odd, tenant, None, &[OsString::from("a")]).is_err());
        assert!(operation_id(key, odd, None, &[OsString::from("a")]).is_err());
        assert!(operation_id(key, tenant, None, &command).is_err());
        assert!(operation_id(key, tenant, Some(OsStr::new("named")), &command).is_ok());
    }

    #[test]
    fn the_response_is_kept_as_long_as_the_identity() {
        let hour = Ttl::Millis(3_600_000);
        assert_eq!(retention(None, Ttl::Forever).unwrap(), Retention::forever());
        assert_eq!(retention(None, hour).unwrap().response_ttl(), hour);
        assert_eq!(retention(Some(hour), Ttl::Forever).unwrap().identity_ttl(), Ttl::Forever);
        assert!(retention(Some(Ttl::Forever), hour).is_err());
        assert!(retention(None, Ttl::Millis(0)).is_err());
    }

    #[test]
    fn the_owner_is_a_label() {
        assert!(owner().as_str().contains(&format!("pid {}", std::process::id())));
    }
}
