//! The linearizability checker: Wing and Gong's search, with Lowe's memory of what was tried.

use std::collections::HashSet;

use super::spec::State;
use super::{Event, of_key};

/// How many states the search of one operation may visit.
const STEPS_MAX: usize = 1_000_000;
/// How many events of one operation it can hold.
const EVENTS_MAX: usize = u128::BITS as usize;

/// What the search found about one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Checked {
    /// The events can be ordered so that every answer is right.
    Linearizable { steps: usize },
    /// They cannot. The longest order that is right as far as it goes, by position in the operation's events.
    Violation { longest: Vec<usize> },
    /// The search ran out of steps or room: nothing is known, which is a failure.
    Unknown,
}

/// Checks the events of one operation.
pub(crate) fn check(history: &[Event], key: usize) -> Checked {
    let events = of_key(history, key);
    if events.len() > EVENTS_MAX {
        return Checked::Unknown;
    }
    Search { events: &events, seen: HashSet::new(), order: Vec::new(), longest: Vec::new(), steps: 0 }.run()
}

struct Search<'h> {
    events: &'h [Event],
    /// Which events were placed and what they led to: tried before, and in vain.
    seen: HashSet<(u128, State)>,
    order: Vec<usize>,
    longest: Vec<usize>,
    steps: usize,
}

/// How a branch of the search ended.
enum Branch {
    Found,
    InVain,
    OutOfSteps,
}

impl Search<'_> {
    fn run(mut self) -> Checked {
        match self.place(0, &State::default()) {
            Branch::Found => Checked::Linearizable { steps: self.steps },
            Branch::InVain => Checked::Violation { longest: self.longest },
            Branch::OutOfSteps => Checked::Unknown,
        }
    }

    /// Places one more event after those in `placed`. The depth is the number of events, at most 128.
    fn place(&mut self, placed: u128, state: &State) -> Branch {
        let open = |index: &usize| placed & (1 << *index) == 0;
        let Some(horizon) = self.horizon(placed) else { return Branch::Found };
        if !self.seen.insert((placed, state.clone())) {
            return Branch::InVain;
        }
        if self.order.len() > self.longest.len() {
            self.longest.clone_from(&self.order);
        }
        for index in (0..self.events.len()).filter(open) {
            let Some(event) = self.events.get(index) else { continue };
            // Whatever was answered before this event began must be placed before it.
            if event.from > horizon {
                continue;
            }
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Branch::OutOfSteps;
            }
            let next = match event.answer {
                Some(answer) => state.after(event.call, answer),
                None => state.after_unknown(event.call),
            };
            let Some(next) = next else { continue };
            self.order.push(index);
            match self.place(placed | (1 << index), &next) {
                Branch::InVain => {}
                end => return end,
            }
            self.order.pop();
        }
        Branch::InVain
    }

    /// The earliest end among the events that are answered and not placed; `None` when all of them are placed.
    fn horizon(&self, placed: u128) -> Option<std::time::Duration> {
        let answered = self
            .events
            .iter()
            .enumerate()
            .filter(|(index, event)| placed & (1 << *index) == 0 && event.answer.is_some());
        answered.map(|(_, event)| event.until).min()
    }
}
