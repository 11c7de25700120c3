//! The compare-and-swap adapter against the suite, over a map.

#[path = "../src/bin/idem-conformance/stores/cas.rs"]
mod cas;
#[path = "../src/bin/idem-conformance/stores/map_store.rs"]
mod map_store;
#[path = "../src/bin/idem-conformance/stores/sites.rs"]
mod sites;

idem_conformance::main!(cas::Adapter::default());
