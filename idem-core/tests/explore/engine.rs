//! Breadth-first search over a finite space: every state is visited once, and the shortest way to a fault is told.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;

/// A space of states.
pub(crate) trait Space {
    /// A state as it is carried along; states with one key behave alike from then on.
    type State;
    /// What can happen.
    type Step: Copy + Debug;

    /// Where everything begins.
    fn start(&self) -> Self::State;

    /// Everything that can happen in `state`.
    fn steps(&self, state: &Self::State) -> Vec<Self::Step>;

    /// The state after `step`, or what must never be.
    fn after(&self, state: &Self::State, step: Self::Step) -> Result<Self::State, String>;

    /// What the step to `state` is counted as, if it is.
    fn note(&self, state: &Self::State) -> Option<&'static str>;

    /// The canonical form of a state, hashed: 128 bits make a collision among some millions a matter of 1 in 10^25.
    fn key(&self, state: &Self::State) -> u128;
}

/// What a search saw.
#[derive(Debug)]
pub(crate) struct Seen<S> {
    /// Distinct states.
    pub(crate) states: usize,
    /// Steps taken between them.
    pub(crate) steps: usize,
    /// The longest of the shortest ways to a state.
    pub(crate) depth: usize,
    /// How often what was noted.
    pub(crate) notes: BTreeMap<&'static str, usize>,
    /// What must never be, and the shortest way to it.
    pub(crate) fault: Option<(String, Vec<S>)>,
}

/// Explores the whole of `space`, or up to the first fault.
pub(crate) fn explore<X: Space>(space: &X) -> Seen<X::Step> {
    let start = space.start();
    let mut known = HashSet::from([space.key(&start)]);
    // How each state was reached first; only states of the current level are kept whole.
    let mut ways: Vec<Option<(usize, X::Step)>> = vec![None];
    let mut level = vec![(0, start)];
    let mut seen = Seen { states: 1, steps: 0, depth: 0, notes: BTreeMap::new(), fault: None };
    while !level.is_empty() {
        let mut next = Vec::new();
        for (index, state) in level {
            for step in space.steps(&state) {
                seen.steps += 1;
                let after = match space.after(&state, step) {
                    Ok(after) => after,
                    Err(fault) => {
                        seen.fault = Some((fault, way(&ways, index, step)));
                        seen.states = known.len();
                        return seen;
                    }
                };
                if let Some(note) = space.note(&after) {
                    *seen.notes.entry(note).or_default() += 1;
                }
                if known.insert(space.key(&after)) {
                    ways.push(Some((index, step)));
                    next.push((ways.len() - 1, after));
                }
            }
        }
        seen.depth += usize::from(!next.is_empty());
        level = next;
    }
    seen.states = known.len();
    seen
}

fn way<S: Copy>(ways: &[Option<(usize, S)>], mut index: usize, last: S) -> Vec<S> {
    let mut steps = vec![last];
    while let Some((from, step)) = ways[index] {
        steps.push(step);
        index = from;
    }
    steps.reverse();
    steps
}
