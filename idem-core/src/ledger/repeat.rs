//! Repeating a call to the store that was not answered: bounded, spread out, and honest about what may have been
//! applied (G-50, G-52).

use super::Inner;
use crate::backoff::Backoff;
use crate::error::{Error, ErrorKind, Result};
use crate::key::OperationId;
use crate::observe::Event;

/// How far one call has come. The call itself stays the same, its attempt id with it.
pub(super) struct Repeat<'a> {
    ledger: &'a Inner,
    id: &'a OperationId,
    backoff: Backoff,
    turn: u32,
    /// The first error after which the call may have been applied.
    doubt: Option<Error>,
}

impl<'a> Repeat<'a> {
    pub(super) const fn new(ledger: &'a Inner, backoff: Backoff, id: &'a OperationId) -> Self {
        Self { ledger, id, backoff, turn: 0, doubt: None }
    }

    /// Returns after a pause when the call is to be sent again. `insist` goes on beyond the policy's repetitions; the
    /// caller bounds it.
    ///
    /// # Errors
    ///
    /// What to answer when it is not: once a send may have been applied, a later one that certainly was not, of
    /// whatever kind, does not take that back.
    pub(super) async fn after(&mut self, error: Error, insist: bool) -> Result<()> {
        self.ledger.observed.count(self.id, Event::StoreError);
        if self.doubt.is_none() && may_have_been_applied(&error) {
            self.doubt = Some(error.clone());
        }
        let pause = if insist {
            Some(self.backoff.pause_unbounded(self.turn))
        } else {
            self.backoff.pause(self.turn)
        };
        let Some(pause) = pause.filter(|_| error.is_transient()) else {
            return Err(match &self.doubt {
                Some(doubt) if !may_have_been_applied(&error) => doubt.clone(),
                _ => error,
            });
        };
        self.turn = self.turn.saturating_add(1);
        self.ledger.sleep(pause).await;
        Ok(())
    }

    /// Whether some send may have been applied although none was answered.
    pub(super) const fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }
}

fn may_have_been_applied(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Indeterminate | ErrorKind::Internal)
}
