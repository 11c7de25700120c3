//! The reference store against the suite.

#[path = "../src/bin/idem-conformance/stores/memory.rs"]
mod memory;
#[path = "../src/bin/idem-conformance/stores/sites.rs"]
mod sites;

idem_conformance::main!(memory::Memory::default());
