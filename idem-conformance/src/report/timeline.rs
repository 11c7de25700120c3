//! The history of one operation, for people and for reports.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What clients asked about one operation and were answered, in the order in which they asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Timeline {
    /// The calls.
    pub moments: Vec<Moment>,
}

/// One call of one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Moment {
    /// Which client, counted from 0.
    pub client: usize,
    /// When it asked, in nanoseconds since the first call.
    pub from_ns: u64,
    /// When it was answered.
    pub until_ns: u64,
    /// What it asked.
    pub call: String,
    /// What it was answered; `None` when it never learnt.
    pub answer: Option<String>,
    /// The place of the call in the longest order in which all answers are right; `None` when it has none.
    pub order: Option<usize>,
}

impl Timeline {
    pub(crate) const fn new(moments: Vec<Moment>) -> Self {
        Self { moments }
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("    client    from us   until us  order  call and answer")?;
        for moment in &self.moments {
            let Moment { client, from_ns, until_ns, call, answer, order } = moment;
            let (from_us, until_us) = (from_ns / 1_000, until_ns / 1_000);
            let order = order.map_or_else(|| "-".to_owned(), |place| place.to_string());
            let answer = answer.as_deref().unwrap_or("never learnt");
            write!(f, "\n    c{client:<5} {from_us:>10} {until_us:>10}  {order:>5}  {call} -> {answer}")?;
        }
        Ok(())
    }
}

impl Moment {
    pub(crate) const fn new(client: usize, from_ns: u64, until_ns: u64, call: String) -> Self {
        Self { client, from_ns, until_ns, call, answer: None, order: None }
    }
}
