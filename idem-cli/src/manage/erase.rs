//! `idem erase`.

use idem_core::answer::Erased;
use idem_core::request::Erase;
use idem_core::{Error, Store};

use super::find::find;
use super::{Failed, print};
use crate::args::EraseArgs;
use crate::{exit, say};

pub(super) async fn erase(store: &dyn Store, args: &EraseArgs) -> Result<(), Failed> {
    let record = find(store, &args.id).await?;
    let request = Erase::new(record.id.clone());
    let request = if args.reference { request.with_reference() } else { request };
    let options = say::options(&record.id);
    match store.erase(&request).await? {
        Erased::Erased => print("erased\n"),
        Erased::AlreadyErased => print("erased before\n"),
        Erased::NotFound => Err(Failed::No(format!("there is no operation {options}"), exit::NO)),
        Erased::Unfinished { view } => {
            Err(Failed::No(format!("it is {view}: complete it or `idem resolve {options}` first"), exit::NO))
        }
        _ => Err(Error::internal("the store answered something unknown").into()),
    }
}
