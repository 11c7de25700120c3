//! `idem resolve`: an operator's verdict on an uncertain operation (G-22).

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use idem_core::answer::Resolved;
use idem_core::request::{Resolve, Verdict};
use idem_core::{Error, Fence, Label, Store};

use super::find::find;
use super::{Desk, Failed, GONE, print};
use crate::args::ResolveArgs;
use crate::run::prepare::{retention, user};
use crate::run::spool::Recorded;
use crate::{exit, outcome};

pub(super) async fn resolve(desk: &Desk, args: ResolveArgs) -> Result<(), Failed> {
    let store = &*desk.store;
    let (actor, reason) = (Label::new(&args.actor.clone().unwrap_or_else(user))?, Label::new(&args.reason)?);
    let verdict = verdict(store, &args)?;
    let record = find(store, &args.id).await?;
    let mut request = Resolve::new(&record, verdict, actor, reason);
    if let (Some(fence), Some(version)) = (args.fence, args.version) {
        (request.fence, request.version) = (Fence::new(fence), version);
    }
    let (text, code) = match store.resolve(&request).await? {
        Resolved::Resolved { .. } if args.completed => {
            return print("completed: later calls get this output and exit status\n");
        }
        Resolved::Resolved { .. } => return print("did not happen: the same key runs again\n"),
        Resolved::NotFound => (GONE.to_owned(), exit::NO),
        Resolved::NotUncertain { view, last } => {
            let last = last.map_or(String::new(), |last| {
                let happened = if last.happened { "it happened" } else { "it did not happen" };
                format!("; {} resolved it at {}: {happened}", last.actor, last.at)
            });
            (format!("it is {view}, and only an uncertain operation is resolved{last}"), exit::NO)
        }
        Resolved::Stale { fence, version } => (
            format!(
                "it changed since you looked (fence {fence}, version {version} now): look again with `{}`",
                desk.hints.show(&record.id)
            ),
            exit::IN_PROGRESS,
        ),
        Resolved::TooEarly { until } => {
            (format!("a request of its last holder may still land: try again at {until}"), exit::IN_PROGRESS)
        }
        _ => return Err(Error::internal("the store answered something unknown").into()),
    };
    Err(Failed::No(text, code))
}

fn verdict(store: &dyn Store, args: &ResolveArgs) -> Result<Verdict, Failed> {
    if args.did_not_happen {
        let settle_ms = u64::try_from(args.settle.as_millis()).unwrap_or(u64::MAX);
        return Ok(Verdict::DidNotHappen { settle_ms });
    }
    let room = outcome::room(store.capabilities().limits.body_bytes_max);
    let stdin = Path::new("-");
    if [&args.stdout, &args.stderr].iter().all(|path| path.as_deref() == Some(stdin)) {
        return Err(Error::invalid_input("only one of --stdout and --stderr can be stdin").into());
    }
    let stdout = read(args.stdout.as_deref(), room)?;
    let stderr = read(args.stderr.as_deref(), room.saturating_sub(stdout.len()))?;
    Ok(Verdict::Completed {
        outcome: outcome::of(args.exit, &Recorded::of(stdout), &Recorded::of(stderr)),
        retention: retention(args.response_ttl, args.identity_ttl)?,
    })
}

/// The content of a file, or of stdin, that later callers will get; nothing without one.
fn read(path: Option<&Path>, bytes_max: usize) -> Result<Bytes, Error> {
    let Some(path) = path else { return Ok(Bytes::new()) };
    let name = path.display();
    let mut content = Vec::new();
    let reader: io::Result<Box<dyn Read>> = if path == Path::new("-") {
        Ok(Box::new(io::stdin()))
    } else {
        File::open(path).map(|file| Box::new(file) as _)
    };
    reader
        .and_then(|reader| reader.take(bytes_max as u64 + 1).read_to_end(&mut content))
        .map_err(|error| Error::invalid_input(format!("{name} cannot be read: {error}")))?;
    if content.len() > bytes_max {
        return Err(Error::invalid_input(format!(
            "{name} is larger than the ledger keeps: give at most {bytes_max} bytes of output"
        )));
    }
    Ok(content.into())
}
