//! The programs are in the files beside `src`; this library only has the examples of the README compiled as
//! documentation tests, so that they cannot go stale.

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../idem-sqlite/README.md")]
struct SqliteReadme;
