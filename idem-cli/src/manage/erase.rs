//! `idem erase`.

use idem_core::Error;
use idem_core::answer::Erased;
use idem_core::record::View;
use idem_core::request::Erase;

use super::find::find;
use super::{Desk, Failed, GONE, print};
use crate::args::EraseArgs;
use crate::exit;

pub(super) async fn erase(desk: &Desk, args: &EraseArgs) -> Result<(), Failed> {
    let record = find(&*desk.store, &args.id).await?;
    let request = Erase::new(record.id.clone());
    let request = if args.reference { request.with_reference() } else { request };
    match desk.store.erase(&request).await? {
        Erased::Erased => print("erased\n"),
        Erased::AlreadyErased => print("erased before\n"),
        Erased::NotFound => Err(Failed::No(GONE.to_owned(), exit::NO)),
        Erased::Unfinished { view } => {
            let first = match view {
                View::Uncertain => format!(": decide about it first with {}", desk.hints.resolve(&record.id)),
                _ => String::new(),
            };
            Err(Failed::No(format!("it is {view}, and only what is finished can be erased{first}"), exit::NO))
        }
        _ => Err(Error::internal("the store answered something unknown").into()),
    }
}
