//! From a key to its operation.

use std::ffi::OsStr;

use idem_core::record::Record;
use idem_core::request::Query;
use idem_core::{Error, OperationId, Result, Store};

use super::Failed;
use crate::args::IdArgs;
use crate::exit;
use crate::run::prepare::utf8;
use crate::say;

/// The operation that `args` name. Without an operation name all records of the tenant are looked through, in pages,
/// and it has to be the only one with that key.
pub(super) async fn find(store: &dyn Store, args: &IdArgs) -> std::result::Result<Record, Failed> {
    let id = match &args.operation {
        Some(operation) => named(args, operation)?,
        None => look_for(store, args).await?,
    };
    match store.get(&id).await? {
        Some(record) => Ok(record),
        None => Err(Failed::No(format!("there is no operation {}", say::options(&id)), exit::NO)),
    }
}

fn named(args: &IdArgs, operation: &OsStr) -> Result<OperationId> {
    let tenant = utf8("tenant", &args.tenant)?;
    OperationId::new(tenant, utf8("operation name", operation)?, utf8("key", &args.key)?)
}

async fn look_for(store: &dyn Store, args: &IdArgs) -> std::result::Result<OperationId, Failed> {
    // Checks the key and the tenant as for any operation.
    let wanted = named(args, OsStr::new("any"))?;
    let mut query = Query::all();
    query.tenant = Some(wanted.tenant().to_owned());
    let mut found: Vec<OperationId> = Vec::new();
    loop {
        let page = store.list(&query).await?;
        found.extend(page.records.into_iter().map(|record| record.id).filter(|id| id.key() == wanted.key()));
        match page.next {
            // A store whose next page starts where this one did would keep us for good.
            Some(next) if query.after.as_ref() == Some(&next) => {
                return Err(Error::internal("the store lists the same page again").into());
            }
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    match found.as_slice() {
        [] => Err(Failed::No("there is no operation with this key".to_owned(), exit::NO)),
        [id] => Ok(id.clone()),
        several => {
            let names: Vec<_> = several.iter().map(OperationId::operation).collect();
            let text = format!("the key is used by {}: choose one with --operation", names.join(", "));
            Err(Failed::No(text, exit::USAGE))
        }
    }
}
