//! What happens after a holder is gone.

use idem_core::answer::{Checkpointed, Claimed, Released, Resolved};
use idem_core::record::AbsenceReason;
use idem_core::request::{Claim, Intent, OnLapse, Release, Resolve, SaveCheckpoint, Verdict};
use idem_core::{AttemptId, Mode, Result, State, View};

use crate::bent::{Bend, Handle, lock};

/// A takeover runs the effect again.
#[derive(Debug)]
pub(crate) struct ReExecutes;

impl Bend for ReExecutes {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let _lock = lock(&at.shared.lock);
        let lapsed = at.context().view(at.stored(&request.id).as_ref()) == View::Lapsed;
        let mut answer = at.apply(request)?;
        if let Claimed::Granted(grant) = &mut answer
            && lapsed
            && !grant.again
        {
            grant.mode = Mode::Execute;
            at.edit(&request.id, |record| {
                if let Some(current) = &mut record.current {
                    current.mode = Mode::Execute;
                }
            });
        }
        Ok(answer)
    }
}

/// A grant puts its own class over that of the attempts that it follows.
#[derive(Debug)]
pub(crate) struct ClassOfTheLatest;

impl Bend for ClassOfTheLatest {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let _lock = lock(&at.shared.lock);
        let mut answer = at.apply(request)?;
        if let Claimed::Granted(grant) = &mut answer
            && !grant.again
        {
            grant.effect = request.effect;
            at.edit(&request.id, |record| record.effect = request.effect);
        }
        Ok(answer)
    }
}

/// A release from recovery needs no reason.
#[derive(Debug)]
pub(crate) struct ReleaseLaunders;

impl Bend for ReleaseLaunders {
    fn release(&self, at: &Handle, request: &Release) -> Result<Released> {
        if request.absence.is_some() {
            return at.apply(request);
        }
        let answer = at.apply(&request.clone().absence(AbsenceReason::FencedOff))?;
        if matches!(answer, Released::Released { .. }) {
            at.edit(&request.held.id, |record| {
                if let Some(current) = &mut record.current {
                    current.absence = None;
                }
            });
        }
        Ok(answer)
    }
}

/// Whoever wants to run takes over, also one that cannot recover.
#[derive(Debug)]
pub(crate) struct TakesWithoutRecovery;

impl Bend for TakesWithoutRecovery {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        match request.intent {
            Intent::Run(_) => at.apply(&request.clone().intent(Intent::Run(OnLapse::Take))),
            _ => at.apply(request),
        }
    }
}

/// Forgets which attempts have ended.
#[derive(Debug)]
pub(crate) struct EndedGrantedAgain;

impl Bend for EndedGrantedAgain {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        at.edit(&request.id, |record| {
            let released = record.state == State::Received;
            let current = record.current.as_mut().filter(|_| released);
            for ended in record.earlier.iter_mut().chain(current) {
                if ended.id == request.attempt {
                    ended.id = AttemptId::random();
                }
            }
        });
        at.apply(request)
    }
}

/// The limit of attempts is not looked at.
#[derive(Debug)]
pub(crate) struct NoAttemptsLimit;

impl Bend for NoAttemptsLimit {
    fn claim(&self, at: &Handle, request: &Claim) -> Result<Claimed> {
        let mut request = request.clone();
        request.attempts_max = None;
        at.apply(&request)
    }
}

/// A checkpoint under a known name replaces the one before it.
#[derive(Debug)]
pub(crate) struct CheckpointOverwrites;

impl Bend for CheckpointOverwrites {
    fn checkpoint(&self, at: &Handle, request: &SaveCheckpoint) -> Result<Checkpointed> {
        let answer = at.apply(request)?;
        if answer != Checkpointed::Differs {
            return Ok(answer);
        }
        at.edit(&request.held.id, |record| {
            let number = record.attempt_number();
            for fact in &mut record.checkpoints {
                if fact.name == request.name && fact.attempt_number == number {
                    fact.value = request.value.clone();
                }
            }
        });
        Ok(Checkpointed::Recorded { remaining_ms: request.lease.as_millis() })
    }
}

/// A verdict is applied to whatever is there.
#[derive(Debug)]
pub(crate) struct ResolvesBlindly;

impl Bend for ResolvesBlindly {
    fn resolve(&self, at: &Handle, request: &Resolve) -> Result<Resolved> {
        let mut request = request.clone();
        if let Some(stored) = at.stored(&request.id) {
            request.fence = stored.fence();
            request.version = stored.version;
        }
        at.apply(&request)
    }
}

/// "Did not happen" is believed at once.
#[derive(Debug)]
pub(crate) struct ResolvesAtOnce;

impl Bend for ResolvesAtOnce {
    fn resolve(&self, at: &Handle, request: &Resolve) -> Result<Resolved> {
        let mut context = at.context();
        if let (Verdict::DidNotHappen { settle_ms }, Some(stored)) =
            (&request.verdict, at.stored(&request.id))
        {
            context.now = context.now.max(stored.last_lease_until().plus_millis(*settle_ms));
        }
        at.apply_in(request, &context)
    }
}
