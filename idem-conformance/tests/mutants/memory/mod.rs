//! Mutants in memory, by what they get wrong.

pub(crate) mod clocks;
pub(crate) mod concurrency;
pub(crate) mod identity;
pub(crate) mod input;
pub(crate) mod intent;
pub(crate) mod lease;
pub(crate) mod recovery;
pub(crate) mod replay;
pub(crate) mod retention;
pub(crate) mod variants;
