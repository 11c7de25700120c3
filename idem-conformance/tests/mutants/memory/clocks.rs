//! Whose clock decides, and what it does.

use idem_core::Timestamp;
use idem_core::transition::Context;

use crate::bent::{Bend, Handle};

/// The clock of the caller's process decides.
#[derive(Debug)]
pub(crate) struct TrustsTheClient;

impl Bend for TrustsTheClient {
    fn context(&self, at: &Handle) -> Context {
        at.context_at(at.client_clock.now())
    }
}

/// Times are whole seconds.
#[derive(Debug)]
pub(crate) struct WholeSeconds;

impl Bend for WholeSeconds {
    fn context(&self, at: &Handle) -> Context {
        let now = at.clock.now().as_millis();
        at.context_at(Timestamp::from_millis(now - now % 1_000))
    }
}

/// Times are those of the session's zone.
#[derive(Debug)]
pub(crate) struct LocalTime;

impl Bend for LocalTime {
    fn context(&self, at: &Handle) -> Context {
        let ahead_ms = match at.zone.as_deref() {
            Some("Pacific/Kiritimati") => 14 * 3_600_000,
            _ => 0,
        };
        at.context_at(at.clock.now().plus_millis(ahead_ms))
    }
}
