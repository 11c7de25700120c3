//! The waiters of this process, whichever handle they came by.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use idem_core::wake::Bells;

use crate::schema::Instance;

/// The bells of every ledger that is open in this process.
static OPEN: Mutex<Vec<(Instance, Weak<Bells>)>> = Mutex::new(Vec::new());

/// The bells of one ledger: the same for all stores that this process has opened on it.
pub(crate) fn of(instance: &Instance) -> Arc<Bells> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|(_, bells)| bells.strong_count() > 0);
    let known = open.iter().find(|(known, _)| known == instance);
    if let Some(bells) = known.and_then(|(_, bells)| bells.upgrade()) {
        return bells;
    }
    let bells = Arc::new(Bells::default());
    open.push((instance.clone(), Arc::downgrade(&bells)));
    bells
}
