//! Stores that live in the memory of this process, by site.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use idem_conformance::Site;

/// One store a site.
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
