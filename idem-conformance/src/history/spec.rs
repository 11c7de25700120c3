//! One operation, one call at a time: what a linearizable store would answer.

use super::{Answer, Call};

/// An operation between two calls. Leases are long and retention is for ever, so time plays no part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct State {
    phase: Phase,
    fence: u64,
    /// Attempts that were released, in their order.
    ended: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Phase {
    #[default]
    Absent,
    Received,
    Running {
        attempt: u64,
    },
    Done {
        attempt: u64,
        body: u64,
    },
}

impl State {
    /// The state after `call` was answered `answer`; `None` if it cannot have been.
    pub(crate) fn after(&self, call: Call, answer: Answer) -> Option<Self> {
        if let (Call::Claim { attempt }, Answer::Granted { fence }) = (call, answer) {
            return self.after_grant(attempt, fence);
        }
        let (expected, next) = self.answer(call);
        (expected == answer).then(|| next.unwrap_or_else(|| self.clone()))
    }

    /// The state after a call whose answer nobody knows; `None` where the call changes nothing. A fence that nobody
    /// was told is one more than the last.
    pub(crate) fn after_unknown(&self, call: Call) -> Option<Self> {
        match call {
            Call::Claim { attempt } => self.after_grant(attempt, self.fence + 1).filter(|next| next != self),
            _ => self.answer(call).1,
        }
    }

    fn after_grant(&self, attempt: u64, fence: u64) -> Option<Self> {
        match self.phase {
            Phase::Absent | Phase::Received if !self.ended.contains(&attempt) && fence > self.fence => {
                Some(Self { phase: Phase::Running { attempt }, fence, ended: self.ended.clone() })
            }
            Phase::Running { attempt: holder } if holder == attempt && fence == self.fence => {
                Some(self.clone())
            }
            _ => None,
        }
    }

    /// The answer to every call but a claim that is granted, and the state after it, if it is another.
    fn answer(&self, call: Call) -> (Answer, Option<Self>) {
        match (call, self.phase) {
            (Call::Claim { attempt }, Phase::Received) if self.ended.contains(&attempt) => {
                (Answer::Ended, None)
            }
            (Call::Claim { attempt }, Phase::Running { attempt: holder }) if holder != attempt => {
                (Answer::Busy, None)
            }
            (Call::Claim { .. }, Phase::Done { body, .. }) => (Answer::Replay { body }, None),
            (Call::Claim { .. }, _) => (Answer::Impossible, None),
            (Call::Complete { attempt, body }, Phase::Running { attempt: holder }) if holder == attempt => {
                (Answer::Completed, Some(Self { phase: Phase::Done { attempt, body }, ..self.clone() }))
            }
            (Call::Complete { attempt, body }, Phase::Done { attempt: holder, body: stored })
                if holder == attempt =>
            {
                (if body == stored { Answer::AlreadyCompleted } else { Answer::OutcomeConflict }, None)
            }
            (Call::Release { attempt }, Phase::Running { attempt: holder }) if holder == attempt => {
                let mut next = Self { phase: Phase::Received, ..self.clone() };
                next.ended.push(attempt);
                (Answer::Released, Some(next))
            }
            (Call::Release { attempt }, Phase::Received) if self.ended.last() == Some(&attempt) => {
                (Answer::AlreadyReleased, None)
            }
            (Call::Release { attempt }, Phase::Done { attempt: holder, .. }) if holder == attempt => {
                (Answer::Settled, None)
            }
            (Call::Complete { .. } | Call::Release { .. }, _) => (Answer::Fenced, None),
            (Call::Read, Phase::Absent) => (Answer::Absent, None),
            (Call::Read, Phase::Received) => (Answer::Received, None),
            (Call::Read, Phase::Running { attempt }) => (Answer::Running { attempt }, None),
            (Call::Read, Phase::Done { attempt, body }) => (Answer::Done { attempt, body }, None),
        }
    }

    /// The last fence.
    #[cfg(test)]
    pub(crate) const fn fence(&self) -> u64 {
        self.fence
    }

    /// Whether the call is of an attempt that was released.
    #[cfg(test)]
    pub(crate) fn was_released(&self, call: Call) -> bool {
        matches!(call, Call::Complete { attempt, .. } if self.ended.contains(&attempt))
    }

    /// What a correct store answers, granting with the next fence: for simulated histories.
    #[cfg(test)]
    pub(crate) fn play(&mut self, call: Call) -> Answer {
        if let Call::Claim { attempt } = call {
            let fence = match self.phase {
                Phase::Running { .. } => self.fence,
                _ => self.fence + 1,
            };
            if let Some(next) = self.after_grant(attempt, fence) {
                *self = next;
                return Answer::Granted { fence };
            }
        }
        let (answer, next) = self.answer(call);
        if let Some(next) = next {
            *self = next;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_operation_from_claim_to_replay() {
        let mut state = State::default();
        let claim = |attempt| Call::Claim { attempt };
        assert_eq!(state.play(Call::Read), Answer::Absent);
        assert_eq!(state.play(claim(1)), Answer::Granted { fence: 1 });
        assert_eq!(state.play(claim(1)), Answer::Granted { fence: 1 });
        assert_eq!(state.play(claim(2)), Answer::Busy);
        assert_eq!(state.play(Call::Complete { attempt: 2, body: 9 }), Answer::Fenced);
        assert_eq!(state.play(Call::Release { attempt: 1 }), Answer::Released);
        assert_eq!(state.play(Call::Release { attempt: 1 }), Answer::AlreadyReleased);
        assert_eq!(state.play(claim(1)), Answer::Ended);
        assert_eq!(state.play(claim(2)), Answer::Granted { fence: 2 });
        assert_eq!(state.play(claim(1)), Answer::Busy);
        assert_eq!(state.play(Call::Complete { attempt: 2, body: 9 }), Answer::Completed);
        assert_eq!(state.play(Call::Complete { attempt: 2, body: 9 }), Answer::AlreadyCompleted);
        assert_eq!(state.play(Call::Complete { attempt: 2, body: 8 }), Answer::OutcomeConflict);
        assert_eq!(state.play(Call::Release { attempt: 2 }), Answer::Settled);
        assert_eq!(state.play(claim(3)), Answer::Replay { body: 9 });
        assert_eq!(state.play(Call::Read), Answer::Done { attempt: 2, body: 9 });
    }

    #[test]
    fn fences_may_skip_and_never_repeat() {
        let mut state = State::default();
        state.play(Call::Claim { attempt: 1 });
        state.play(Call::Release { attempt: 1 });
        let granted = |fence| state.after(Call::Claim { attempt: 2 }, Answer::Granted { fence });
        assert!(granted(1).is_none());
        assert!(granted(700).is_some());
    }
}
