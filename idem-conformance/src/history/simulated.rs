//! Histories of a simulated store, right or wrong in one known way: for the tests of the checkers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::spec::State;
use super::{Answer, Call, Event};

/// In which way the simulated store is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// It is right.
    None,
    /// It grants an operation that runs to a second attempt.
    TwoWinners,
    /// It answers a read from before a completion that was acknowledged.
    StaleRead,
    /// It acknowledges a completion and does not store it.
    LostCompletion,
    /// It grants with the fence of the grant before.
    ReusedFence,
    /// It lets an attempt that was released complete.
    Zombie,
}

impl Defect {
    pub(super) const BAD: [Self; 5] =
        [Self::TwoWinners, Self::StaleRead, Self::LostCompletion, Self::ReusedFence, Self::Zombie];
}

const CLIENTS: usize = 8;
const KEYS: usize = 6;
const CALLS: usize = 30;

/// A history, and the operation that the defect struck, if it did.
pub(super) struct Simulated {
    pub(super) events: Vec<Event>,
    pub(super) struck: Option<usize>,
}

#[derive(Clone, Copy)]
enum Stage {
    Begin,
    TakeEffect { key: usize, call: Call, from: u64 },
    End { key: usize, call: Call, from: u64, answer: Answer },
}

/// Calls take effect one at a time, at a random instant between their random beginning and end.
pub(super) fn simulate(seed: u64, defect: Defect) -> Simulated {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut store = Store { defect, states: BTreeMap::new(), acknowledged: BTreeMap::new(), struck: None };
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::default()).collect();
    let mut agenda: BTreeMap<(u64, u64), (usize, Stage)> = BTreeMap::new();
    let mut serial = 0;
    let mut plan = |agenda: &mut BTreeMap<_, _>, at: u64, client: usize, stage: Stage| {
        serial += 1;
        agenda.insert((at, serial), (client, stage));
    };
    for client in 0..CLIENTS {
        plan(&mut agenda, rng.u64(..50), client, Stage::Begin);
    }
    let mut events = Vec::new();
    while let Some(((now, _), (client, stage))) = agenda.pop_first() {
        let me = &mut clients[client];
        match stage {
            Stage::Begin if me.calls < CALLS => {
                me.calls += 1;
                let (key, call) = me.choose(&mut rng, client as u64);
                plan(&mut agenda, now + rng.u64(1..100), client, Stage::TakeEffect { key, call, from: now });
            }
            Stage::Begin => {}
            Stage::TakeEffect { key, call, from } => {
                let answer = store.answer(key, call, from);
                plan(&mut agenda, now + rng.u64(1..100), client, Stage::End { key, call, from, answer });
            }
            Stage::End { key, call, from, answer } => {
                if let (Call::Claim { attempt }, Answer::Granted { .. }) = (call, answer) {
                    me.held.push((key, attempt));
                }
                if answer == Answer::Completed {
                    store.acknowledged.insert(key, now);
                }
                let (from, until) = (Duration::from_micros(from), Duration::from_micros(now));
                events.push(Event { client, key, call, answer: Some(answer), from, until });
                plan(&mut agenda, now + rng.u64(1..40), client, Stage::Begin);
            }
        }
    }
    let end = events.iter().map(|event| event.until).max().unwrap_or_default();
    if let Some(key) = store.struck {
        witness(&mut store, key, end, &mut events);
    }
    Simulated { events, struck: store.struck }
}

/// What is asked after everything else: a defect that nobody ever looks at is none.
fn witness(store: &mut Store, key: usize, end: Duration, events: &mut Vec<Event>) {
    for (index, call) in [Call::Read, Call::Claim { attempt: 77 }].into_iter().enumerate() {
        let from = end + Duration::from_micros(10 + 10 * index as u64);
        let answer = Some(store.states.entry(key).or_default().play(call));
        events.push(Event { client: 0, key, call, answer, from, until: from + Duration::from_micros(5) });
    }
}

#[derive(Default)]
struct Client {
    calls: usize,
    attempts: u64,
    held: Vec<(usize, u64)>,
}

impl Client {
    fn choose(&mut self, rng: &mut fastrand::Rng, client: u64) -> (usize, Call) {
        let held = rng.choice(&self.held).copied();
        match (rng.u8(..10), held) {
            (0..=2, Some((key, attempt))) => (key, Call::Complete { attempt, body: attempt }),
            (3..=4, Some((key, attempt))) => (key, Call::Release { attempt }),
            (5, _) => (rng.usize(..KEYS), Call::Read),
            _ => {
                self.attempts += 1;
                (rng.usize(..KEYS), Call::Claim { attempt: (client + 1) * 1_000 + self.attempts })
            }
        }
    }
}

struct Store {
    defect: Defect,
    states: BTreeMap<usize, State>,
    /// When the completion of an operation had been answered.
    acknowledged: BTreeMap<usize, u64>,
    struck: Option<usize>,
}

impl Store {
    /// The answer at the instant at which the call takes effect; the defect strikes once, where it can.
    fn answer(&mut self, key: usize, call: Call, from: u64) -> Answer {
        let before = self.states.get(&key).cloned().unwrap_or_default();
        let mut state = before.clone();
        let right = state.play(call);
        if self.struck.is_some() {
            self.states.insert(key, state);
            return right;
        }
        let wrong = match (self.defect, right, call) {
            (Defect::TwoWinners, Answer::Busy, Call::Claim { .. }) => {
                Some(Answer::Granted { fence: before.fence() + 1 })
            }
            (Defect::StaleRead, Answer::Done { .. }, _)
                if self.acknowledged.get(&key).is_some_and(|acknowledged| *acknowledged < from) =>
            {
                Some(Answer::Absent)
            }
            (Defect::LostCompletion, Answer::Completed, _) => {
                state = before.clone();
                Some(right)
            }
            (Defect::ReusedFence, Answer::Granted { fence }, Call::Claim { .. })
                if before.fence() > 0 && fence > before.fence() =>
            {
                Some(Answer::Granted { fence: before.fence() })
            }
            (Defect::Zombie, Answer::Fenced, Call::Complete { .. }) if before.was_released(call) => {
                Some(Answer::Completed)
            }
            _ => None,
        };
        if wrong.is_some() {
            self.struck = Some(key);
        }
        self.states.insert(key, state);
        wrong.unwrap_or(right)
    }
}
