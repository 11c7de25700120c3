//! `idem sweep`.

use idem_core::request::PAGE_MAX;
use idem_core::{Error, Store};

use super::{Failed, print};
use crate::args::JsonArgs;

/// More batches than any ledger has; a store that never has enough must not keep us.
const BATCHES_MAX: u32 = 10_000_000;

pub(super) async fn sweep(store: &dyn Store, args: &JsonArgs) -> Result<(), Failed> {
    let (mut erased, mut purged) = (0, 0);
    for _ in 0..BATCHES_MAX {
        let swept = store.sweep(PAGE_MAX).await?;
        erased += swept.erased;
        purged += swept.purged;
        if !swept.more {
            return print(&if args.json {
                format!("{{\"erased\":{erased},\"purged\":{purged}}}\n")
            } else {
                format!("erased {erased}, purged {purged}\n")
            });
        }
    }
    Err(Error::internal("the store never has swept enough").into())
}
