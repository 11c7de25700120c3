//! From a key to its operation.

use std::ffi::OsString;

use idem_core::record::Record;
use idem_core::request::Query;
use idem_core::{Error, OperationId, Result, Store};

use super::Failed;
use crate::args::IdArgs;
use crate::exit;
use crate::hint::options;
use crate::run::prepare::utf8;

/// How many operations with the same key are told; the others are counted.
const TOLD_MAX: usize = 5;

/// The operation that `args` name: the only one with the key among those of the tenant and the name that are given, or
/// of any where they are not.
pub(super) async fn find(store: &dyn Store, args: &IdArgs) -> std::result::Result<Record, Failed> {
    let wanted = Wanted::of(args)?;
    let found = if let (Some(tenant), Some(operation)) = (wanted.tenant, wanted.operation) {
        store.get(&OperationId::new(tenant, operation, wanted.key)?).await?
    } else {
        let found = Found::look_for(store, &wanted).await?;
        match found.ids.as_slice() {
            [id] if found.count == 1 => store.get(id).await?,
            [] => None,
            _ => return Err(Failed::No(found.several(&wanted), exit::USAGE)),
        }
    };
    match found {
        Some(record) => Ok(record),
        None => Err(Failed::No(wanted.missing(store).await?, exit::NO)),
    }
}

/// What is looked for.
struct Wanted<'a> {
    tenant: Option<&'a str>,
    operation: Option<&'a str>,
    key: &'a str,
}

impl<'a> Wanted<'a> {
    fn of(args: &'a IdArgs) -> Result<Self> {
        let part =
            |name, given: &'a Option<OsString>| given.as_ref().map(|part| utf8(name, part)).transpose();
        let (tenant, operation) = (part("tenant", &args.tenant)?, part("operation name", &args.operation)?);
        let key = utf8("key", &args.key)?;
        // Each part is what it may be in any id.
        OperationId::new(tenant.unwrap_or("any"), operation.unwrap_or("any"), key)?;
        Ok(Self { tenant, operation, key })
    }

    /// What is told when there is no such operation. That others have the key is no secret here: whoever may look may
    /// see the keys of every tenant (G-06).
    async fn missing(&self, store: &dyn Store) -> Result<String> {
        let missing = format!("there is no operation {self}");
        if self.tenant.is_none() && self.operation.is_none() {
            return Ok(missing);
        }
        let others = Found::look_for(store, &Wanted { tenant: None, operation: None, ..*self }).await?;
        Ok(match others.count {
            0 => format!("{missing}, and none of another tenant or name"),
            1 => format!("{missing}; another one has the key: {}", others.told()),
            count => format!("{missing}; {count} others have the key: {}", others.told()),
        })
    }
}

impl std::fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.operation {
            Some(operation) => write!(f, "`{operation}`")?,
            None => f.write_str("of any name")?,
        }
        match self.tenant {
            Some(tenant) => write!(f, " of tenant `{tenant}`")?,
            None => f.write_str(" of any tenant")?,
        }
        write!(f, " with the key `{}`", self.key)
    }
}

/// The operations that have a key.
struct Found {
    /// The first of them.
    ids: Vec<OperationId>,
    count: usize,
}

impl Found {
    /// Looks through all records of the tenant and the name, in pages.
    async fn look_for(store: &dyn Store, wanted: &Wanted<'_>) -> Result<Self> {
        let mut query = Query::all();
        query.tenant = wanted.tenant.map(str::to_owned);
        query.operation = wanted.operation.map(str::to_owned);
        let mut found = Self { ids: Vec::new(), count: 0 };
        loop {
            let page = store.list(&query).await?;
            for id in page.records.into_iter().map(|record| record.id).filter(|id| id.key() == wanted.key) {
                found.count += 1;
                if found.ids.len() < TOLD_MAX {
                    found.ids.push(id);
                }
            }
            match page.next {
                // A store whose next page starts where this one did would keep us for good.
                Some(next) if query.after.as_ref() == Some(&next) => {
                    return Err(Error::internal("the store lists the same page again"));
                }
                Some(next) => query.after = Some(next),
                None => return Ok(found),
            }
        }
    }

    fn several(&self, wanted: &Wanted<'_>) -> String {
        format!("{} operations have the key `{}`; choose one: {}", self.count, wanted.key, self.told())
    }

    /// The options that name each.
    fn told(&self) -> String {
        let mut told: Vec<_> = self.ids.iter().map(|id| format!("`{}`", options(id))).collect();
        if self.count > told.len() {
            told.push(format!("and {} more", self.count - told.len()));
        }
        told.join(", ")
    }
}
