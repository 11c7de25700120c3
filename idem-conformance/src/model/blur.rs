//! What is left of answers and records without their times: for comparisons on the system's clock.

use idem_core::Timestamp;
use idem_core::answer::{
    Checkpointed, Claimed, Completed, Erased, Parked, Registered, Released, Renewed, Resolved,
};
use idem_core::record::{Attempt, Checkpoint, Record};

/// Something whose times can be set to nothing.
pub(super) trait Blur {
    /// Sets every time, and every span that is counted from now, to 0.
    fn blur(&mut self);
}

fn attempts(attempts: &mut [Attempt]) {
    for attempt in attempts {
        attempt.started_at = Timestamp::EPOCH;
        attempt.lease_until = Timestamp::EPOCH;
        if let Some((at, _)) = &mut attempt.ended {
            *at = Timestamp::EPOCH;
        }
    }
}

fn facts(checkpoints: &mut [Checkpoint]) {
    for fact in checkpoints {
        fact.at = Timestamp::EPOCH;
    }
}

impl Blur for Record {
    fn blur(&mut self) {
        attempts(self.current.as_mut_slice());
        attempts(&mut self.earlier);
        facts(&mut self.checkpoints);
        self.earlier_lease_until = Timestamp::EPOCH;
        if let Some(parked) = &mut self.parked {
            parked.since = Timestamp::EPOCH;
        }
        if let Some(resolution) = &mut self.resolution {
            resolution.at = Timestamp::EPOCH;
        }
        self.created_at = Timestamp::EPOCH;
        self.updated_at = Timestamp::EPOCH;
        for at in [
            &mut self.first_grant_at,
            &mut self.completed_at,
            &mut self.response_until,
            &mut self.identity_until,
        ] {
            *at = at.map(|_| Timestamp::EPOCH);
        }
    }
}

impl Blur for Claimed {
    fn blur(&mut self) {
        match self {
            Self::Granted(grant) => {
                grant.remaining_ms = 0;
                grant.lease_until = Timestamp::EPOCH;
                grant.first_grant_at = Timestamp::EPOCH;
                attempts(&mut grant.earlier);
                facts(&mut grant.checkpoints);
            }
            Self::InProgress { retry_after_ms, .. } => *retry_after_ms = 0,
            Self::Replay(replay) => replay.completed_at = Timestamp::EPOCH,
            Self::Expired(expired) => expired.completed_at = Timestamp::EPOCH,
            Self::Uncertain { since } => *since = Timestamp::EPOCH,
            _ => {}
        }
    }
}

impl Blur for Registered {
    fn blur(&mut self) {}
}

impl Blur for Renewed {
    fn blur(&mut self) {
        if let Self::Renewed { remaining_ms } = self {
            *remaining_ms = 0;
        }
    }
}

impl Blur for Checkpointed {
    fn blur(&mut self) {
        if let Self::Recorded { remaining_ms } | Self::Duplicate { remaining_ms } = self {
            *remaining_ms = 0;
        }
    }
}

impl Blur for Completed {
    fn blur(&mut self) {
        if let Self::Completed { at, .. } = self {
            *at = Timestamp::EPOCH;
        }
    }
}

impl Blur for Released {
    fn blur(&mut self) {
        if let Self::TooEarly { until } = self {
            *until = Timestamp::EPOCH;
        }
    }
}

impl Blur for Parked {
    fn blur(&mut self) {
        if let Self::Parked { since } = self {
            *since = Timestamp::EPOCH;
        }
    }
}

impl Blur for Resolved {
    fn blur(&mut self) {
        match self {
            Self::TooEarly { until } => *until = Timestamp::EPOCH,
            Self::NotUncertain { last: Some(last), .. } => last.at = Timestamp::EPOCH,
            _ => {}
        }
    }
}

impl Blur for Erased {
    fn blur(&mut self) {}
}
