//! The decision table as tests.
//!
//! The tables of section 11 stand in these files as the contract writes them. Each cell is read from that text and held
//! against [`Transition::apply`](super::Transition::apply) for every [shape](fixture) of its column and every request
//! of its row; what a cell's word means, answer and whole record, is written in [`expect`] from the contract.

mod claims;
mod edges;
mod expect;
mod fenced;
mod fixture;
mod held;
mod invariants;
mod settle;
mod table;
mod trusted;
