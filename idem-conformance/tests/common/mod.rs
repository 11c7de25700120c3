//! What the suite's own tests share.

#![allow(dead_code, reason = "every test program uses its part of this")]

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use idem_conformance::{Capability, Declared, Site};

/// What stores in the memory of one process support and decline.
pub(crate) fn in_process() -> Declared {
    Declared::supports(&[Capability::Clock, Capability::Handles, Capability::Wait])
        .declines(&[Capability::Reopen, Capability::Process], "the records are gone with the process")
        .declines(&[Capability::Proxy, Capability::Restart], "there is no server")
        .declines(&[Capability::StorageFaults], "there is no storage below it that could fail")
        .declines(&[Capability::Transaction, Capability::Outbox], "the store has no transactions")
}

/// Stores that live in this process, by site.
#[derive(Debug)]
pub(crate) struct Sites<S>(Mutex<HashMap<String, S>>);

impl<S> Default for Sites<S> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<S: Clone> Sites<S> {
    /// The store of `site`, made when it is asked for the first time.
    pub(crate) fn get(&self, site: &Site, make: impl FnOnce() -> S) -> S {
        let mut stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stores.entry(site.namespace().to_owned()).or_insert_with(make).clone()
    }

    /// Drops the store of `site`.
    pub(crate) fn remove(&self, site: &Site) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(site.namespace());
    }
}
