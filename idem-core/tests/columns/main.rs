//! What a store that keeps a record in columns needs from this crate, written as such a store's author writes it: from
//! outside, with nothing but what is public.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail by panic")]

mod answers;
mod row;
mod statements;
