//! Records what clients on real threads ask and are answered.

use std::sync::{Arc, Mutex, PoisonError};

use idem_core::answer::{Claimed, Completed, Released};
use idem_core::clock::{Clock, SystemClock};
use idem_core::request::{Complete, Held, Release};
use idem_core::{AttemptId, OperationId, Outcome, Retention, State, Store};

use super::{Answer, Call, Event};
use crate::env::{claim, id};
use crate::failure::{Failure, Verdict};
use crate::race::laps;

/// How much is recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) clients: usize,
    /// Clients meet at a barrier between laps, so that their calls go on overlapping.
    pub(crate) laps: usize,
    pub(crate) calls_per_lap: usize,
    pub(crate) keys: usize,
    pub(crate) seed: u64,
    /// What keys and attempts of this history begin with: several histories share a site.
    pub(crate) number: u64,
}

/// One client: what it holds, and what it saw.
struct Client {
    rng: fastrand::Rng,
    number: u64,
    index: usize,
    attempts: u64,
    /// Attempts that it was granted, with the operation; ended ones stay, to be tried again.
    held: Vec<(usize, u64)>,
    events: Vec<Event>,
}

/// Lets the clients run, and gives everything that they saw. `stores` are their handles, in turn.
pub(crate) fn record(stores: &[Arc<dyn Store>], plan: Plan) -> Verdict<Vec<Event>> {
    let clients: Vec<_> = (0..plan.clients)
        .map(|index| {
            let rng = fastrand::Rng::with_seed(plan.seed ^ plan.number.rotate_left(32) ^ index as u64);
            Mutex::new(Client {
                rng,
                number: plan.number,
                index,
                attempts: 0,
                held: Vec::new(),
                events: Vec::new(),
            })
        })
        .collect();
    let ended = laps(plan.clients, plan.laps, async |_, index| -> Verdict {
        let store = stores.get(index % stores.len().max(1)).ok_or_else(|| Failure::new("no handle"))?;
        let client = clients.get(index).ok_or_else(|| Failure::new("no client"))?;
        // Nobody else takes this lock while the client runs its lap.
        let mut client =
            std::mem::replace(&mut *client.lock().unwrap_or_else(PoisonError::into_inner), Client::idle());
        for _ in 0..plan.calls_per_lap {
            client.call(&**store, plan.keys).await?;
        }
        if let Some(slot) = clients.get(index) {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = client;
        }
        Ok(())
    })?;
    for lap in ended {
        for client in lap {
            client?;
        }
    }
    let mut events = Vec::new();
    for client in clients {
        events.extend(client.into_inner().unwrap_or_else(PoisonError::into_inner).events);
    }
    Ok(events)
}

impl Client {
    /// Stands in for a client that is running.
    fn idle() -> Self {
        let rng = fastrand::Rng::with_seed(0);
        Self { rng, number: 0, index: 0, attempts: 0, held: Vec::new(), events: Vec::new() }
    }

    /// Chooses a call, asks, and writes down what came of it.
    async fn call(&mut self, store: &dyn Store, keys: usize) -> Verdict {
        let (key, call) = self.choose(keys);
        let from = SystemClock.elapsed();
        let answer = ask(store, self.number, key, call).await?;
        let until = SystemClock.elapsed();
        if let (Call::Claim { attempt }, Answer::Granted { .. }) = (call, answer)
            && !self.held.contains(&(key, attempt))
        {
            self.held.push((key, attempt));
        }
        self.events.push(Event { client: self.index, key, call, answer: Some(answer), from, until });
        Ok(())
    }

    fn choose(&mut self, keys: usize) -> (usize, Call) {
        let held = (!self.held.is_empty()).then(|| self.rng.usize(..self.held.len()));
        let held = held.and_then(|index| self.held.get(index).copied());
        match (self.rng.u8(..20), held) {
            (0..=3, Some((key, attempt))) => (key, Call::Complete { attempt, body: attempt * 2 }),
            (4, Some((key, attempt))) => (key, Call::Complete { attempt, body: attempt * 2 + 1 }),
            (5..=7, Some((key, attempt))) => (key, Call::Release { attempt }),
            (8, Some((key, attempt))) => (key, Call::Claim { attempt }),
            (9..=11, _) => (self.rng.usize(..keys), Call::Read),
            _ => {
                self.attempts += 1;
                let attempt = (self.index as u64 + 1) * 1_000_000 + self.attempts;
                (self.rng.usize(..keys), Call::Claim { attempt })
            }
        }
    }
}

fn key_of(number: u64, key: usize) -> OperationId {
    id(&format!("history-{number}/{key}"))
}

/// The attempt with this number; [`number_of`] reads it back.
fn attempt_of(attempt: u64) -> AttemptId {
    AttemptId::from_bytes(u128::from(attempt).to_be_bytes())
}

fn number_of(attempt: AttemptId) -> u64 {
    u64::try_from(u128::from_be_bytes(*attempt.as_bytes())).unwrap_or(u64::MAX)
}

fn body_of(body: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(body?).ok()?.parse().ok()
}

async fn ask(store: &dyn Store, number: u64, key: usize, call: Call) -> Verdict<Answer> {
    let id = key_of(number, key);
    let held = |attempt| Held::new(id.clone(), attempt_of(attempt));
    Ok(match call {
        Call::Claim { attempt } => match store.claim(&claim(&id).attempt(attempt_of(attempt))).await? {
            Claimed::Granted(grant) => Answer::Granted { fence: grant.fence.get() },
            Claimed::InProgress { .. } => Answer::Busy,
            Claimed::Replay(replay) => match body_of(replay.outcome.body().map(|body| &body[..])) {
                Some(body) => Answer::Replay { body },
                None => Answer::Impossible,
            },
            Claimed::Ended => Answer::Ended,
            _ => Answer::Impossible,
        },
        Call::Complete { attempt, body } => {
            let outcome = Outcome::success().body(body.to_string());
            match store.complete(&Complete::new(held(attempt), outcome, Retention::forever())).await? {
                Completed::Completed { .. } => Answer::Completed,
                Completed::AlreadyCompleted => Answer::AlreadyCompleted,
                Completed::OutcomeConflict => Answer::OutcomeConflict,
                Completed::Fenced(_) => Answer::Fenced,
                _ => Answer::Impossible,
            }
        }
        Call::Release { attempt } => match store.release(&Release::new(held(attempt))).await? {
            Released::Released { .. } => Answer::Released,
            Released::AlreadyReleased => Answer::AlreadyReleased,
            Released::Settled => Answer::Settled,
            Released::Fenced(_) => Answer::Fenced,
            _ => Answer::Impossible,
        },
        Call::Read => {
            let Some(record) = store.get(&id).await? else { return Ok(Answer::Absent) };
            let attempt = record.current.as_ref().map_or(0, |attempt| number_of(attempt.id));
            let body =
                record.outcome.as_ref().and_then(|outcome| body_of(outcome.body().map(|body| &body[..])));
            match (record.state, body) {
                (State::Received, None) => Answer::Received,
                (State::Processing, None) => Answer::Running { attempt },
                (State::Completed, Some(body)) => Answer::Done { attempt, body },
                _ => Answer::Impossible,
            }
        }
    })
}
