//! Floors: the same work as a careful program would write it by hand, without a line of the library in its path.

pub(crate) mod memory;
pub(crate) mod sqlite;
