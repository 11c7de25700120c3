//! The rules of the contract, and where each is proved.

/// Where a rule is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proof {
    /// By scenarios of this suite, on every store.
    Suite,
    /// Not by a scenario, for this reason.
    Elsewhere(&'static str),
}

/// One rule of the contract.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Rule {
    /// `G-nn`.
    pub id: &'static str,
    /// A few words.
    pub title: &'static str,
    /// Where it is proved.
    pub proof: Proof,
}

const fn suite(id: &'static str, title: &'static str) -> Rule {
    Rule { id, title, proof: Proof::Suite }
}

const fn elsewhere(id: &'static str, title: &'static str, reason: &'static str) -> Rule {
    Rule { id, title, proof: Proof::Elsewhere(reason) }
}

/// Every rule of the contract, in its order.
pub const RULES: &[Rule] = &[
    suite("G-01", "operation id"),
    suite("G-02", "parts"),
    suite("G-03", "no collisions"),
    suite("G-04", "fingerprint"),
    suite("G-05", "conflict first"),
    elsewhere("G-06", "trusted reads", "a rule for applications; no store can tell who reads"),
    suite("G-10", "one winner"),
    elsewhere("G-11", "trips", "counted by each native store's own tests, which see its connection"),
    suite("G-12", "attempt id"),
    suite("G-13", "lease"),
    suite("G-14", "fence"),
    suite("G-15", "held writes"),
    suite("G-16", "settling is idempotent"),
    suite("G-17", "complete is total"),
    suite("G-18", "takeover is not re-execution"),
    suite("G-19", "recovery decides"),
    suite("G-20", "downstream key"),
    suite("G-21", "checkpoints"),
    suite("G-22", "uncertain is visible"),
    suite("G-23", "on a lapse"),
    suite("G-24", "register"),
    suite("G-30", "exact replay"),
    suite("G-31", "failures"),
    elsewhere("G-32", "the saving boundary", "an answer of the ledger, proved with the ledger"),
    suite("G-33", "too large"),
    suite("G-34", "in progress"),
    suite("G-40", "retention"),
    suite("G-41", "expired is not new"),
    suite("G-42", "unfinished never expires"),
    suite("G-43", "sweep"),
    suite("G-44", "erase"),
    elsewhere("G-45", "longest path", "checked when a retention is built, proved in the core"),
    suite("G-50", "errors"),
    suite("G-51", "fail closed"),
    elsewhere("G-52", "retries", "made by the ledger, proved with the ledger"),
    suite("G-53", "cancel-safe"),
    suite("G-60", "deciding clock"),
    suite("G-61", "milliseconds"),
    suite("G-62", "durability"),
    suite("G-70", "same transaction"),
    suite("G-71", "waiting for a transaction"),
    elsewhere("G-72", "SQLite write transactions", "a rule of one store, proved by its own tests"),
    elsewhere("G-80", "outbox", "pending: needs the outbox"),
    elsewhere("G-81", "outbox order", "pending: needs the outbox"),
    suite("G-90", "counts of a store"),
    elsewhere("G-91", "spans and logs", "made by the ledger, proved with the ledger"),
    elsewhere("G-100", "attempt ids are secret", "made by the core, proved there"),
    suite("G-101", "hostile keys"),
    suite("G-102", "startup checks"),
];

/// The rule with this id.
#[must_use]
pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}
