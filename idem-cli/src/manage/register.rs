//! `idem register`: an intent for a worker (G-24).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use idem_core::answer::Registered;
use idem_core::clock::SystemClock;
use idem_core::request::Register;
use idem_core::{Error, Fingerprint, Ledger, OperationId, Result, Store};

use super::{Failed, print};
use crate::args::RegisterArgs;
use crate::exit;
use crate::run::fingerprint::Intent;
use crate::run::input::digest;
use crate::run::prepare::operation_id;

/// The operation name where there is no command to take it from.
const OPERATION: &str = "cli/register";

/// The most bytes that are read for a payload; a store keeps less.
const PAYLOAD_BYTES_MAX: u64 = 64 << 20;

/// A registration whose parts are right.
pub(super) struct Checked {
    id: OperationId,
    fingerprint: Fingerprint,
    payload: Bytes,
}

impl Checked {
    pub(super) fn of(args: &RegisterArgs) -> Result<Self> {
        let operation = match &args.operation {
            Some(operation) => Some(operation.as_os_str()),
            None if args.command.is_empty() => Some(OPERATION.as_ref()),
            None => None,
        };
        let id = operation_id(&args.key, &args.tenant, operation, &args.command)?;
        let payload = read(&args.input).map_err(|error| {
            Error::invalid_input(format!("the input {} cannot be read: {error}", args.input.display()))
        })?;
        let fingerprint = if args.command.is_empty() {
            Fingerprint::bytes(&payload)
        } else {
            let content = digest(&payload[..], io::sink())
                .map_err(|error| Error::internal(format!("a digest failed: {error}")))?;
            Intent::new(&args.command, Some(content)).fingerprint()
        };
        Ok(Self { id, fingerprint, payload })
    }
}

fn read(path: &Path) -> io::Result<Bytes> {
    let mut payload = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(PAYLOAD_BYTES_MAX).read_to_end(&mut payload)?;
    } else {
        File::open(path)?.take(PAYLOAD_BYTES_MAX).read_to_end(&mut payload)?;
    }
    Ok(payload.into())
}

pub(super) async fn register(
    store: Arc<dyn Store>,
    checked: Checked,
    json: bool,
) -> std::result::Result<(), Failed> {
    let ledger = Ledger::shared(store, Arc::new(SystemClock));
    let request = Register::new(checked.id, checked.fingerprint).payload(checked.payload);
    let (created, state) = match ledger.register(&request).await? {
        Registered::Created => (true, "received"),
        Registered::Exists { view } => (false, view.name()),
        Registered::Conflict => {
            let text = "the key was used for another intent: use a new key for a new one";
            return Err(Failed::No(text.to_owned(), exit::CONFLICT));
        }
        _ => return Err(Error::internal("the store answered something unknown").into()),
    };
    print(&if json {
        format!("{{\"created\":{created},\"state\":\"{state}\"}}\n")
    } else {
        format!("{} {state}\n", if created { "created" } else { "existing" })
    })
}
