//! The store of the model: [`Transition`] decides, unless a rule is broken on purpose.

use std::sync::LazyLock;

use idem_core::answer::{Completed, Parked, Released, Renewed, Resolved};
use idem_core::record::{AbsenceReason, Record};
use idem_core::request::{self, Complete, Held, Intent, OnLapse, Park, Release, Renew, Resolve};
use idem_core::transition::{Context, Transition, Write, invariants};
use idem_core::{
    AttemptId, Claim, Claimed, EffectClass, Fence, Fingerprint, Label, Lease, Mode, OperationId, Outcome,
    Retention, State, Timestamp,
};

use crate::explain;
use crate::model::{Downstream, Fault, Model};
use crate::world::{Ask, Attempt, Kind, Message, Phase, World};

/// The operation that everything is about, and what every request of it says.
struct Operation {
    id: OperationId,
    fingerprint: Fingerprint,
    worker: Label,
    /// The completion of each attempt, by the first byte of its id.
    completions: Vec<Complete>,
}

static OPERATION: LazyLock<Operation> = LazyLock::new(|| {
    let id = OperationId::new("acme", "charge/v1", "order-1").unwrap();
    let complete = |byte| {
        let held = Held::new(id.clone(), AttemptId::from_bytes([byte; 16]));
        Complete::new(held, Outcome::success().body("charged"), Retention::forever())
    };
    let completions = (0..16).map(complete).collect();
    let worker = Label::new("worker").unwrap();
    Operation { id: id.clone(), fingerprint: Fingerprint::bytes(b"10 EUR"), worker, completions }
});

/// What a landed message did: its answer, and the record that is there now.
type Landed<A> = (A, Option<Record>);

impl Model {
    fn lease(&self) -> Lease {
        Lease::new(std::time::Duration::from_millis(self.lease_ms)).unwrap()
    }

    fn context(&self, world: &World, ahead_ms: u64) -> Context {
        Context::at(Timestamp::from_millis(world.now_ms + ahead_ms)).guard_ms(self.guard_ms)
    }

    /// The guard as it counts for settle times.
    pub(crate) fn settle_guard_ms(&self) -> u64 {
        if self.fault == Fault::SettleWithoutGuard { 0 } else { self.guard_ms }
    }

    /// Whether every step is held to the invariants and every answer to its explanation. A rule that is broken on
    /// purpose would be found by them at once; what is to be shown is that its harm is found.
    pub(crate) fn is_strict(&self) -> bool {
        matches!(self.fault, Fault::None | Fault::GrantEndedAgain)
    }

    /// Applies `request` to `record`, which is the stored one unless a fault shows it otherwise.
    fn apply<T: Transition>(
        &self,
        request: &T,
        stored: Option<&Record>,
        shown: Option<&Record>,
        context: &Context,
    ) -> Result<Landed<T::Answer>, String> {
        let step = request.apply(shown, context).map_err(|error| format!("{error:?}"))?;
        let after = match step.write {
            Write::Keep => stored.cloned(),
            Write::Put(record) => Some(*record),
            other => return Err(format!("an unfinished operation was written as {other:?}")),
        };
        if self.is_strict() {
            invariants::check(stored, after.as_ref(), context)?;
        }
        Ok((step.answer, after))
    }

    /// The message lands on `before`; if it is heard, the attempt's process goes on with the answer.
    pub(crate) fn land(
        &self,
        before: &World,
        after: &mut World,
        index: usize,
        message: Message,
        heard: bool,
    ) -> Result<(), String> {
        let attempt = &before.attempts[index];
        let next = match message {
            Message::Claim => self.land_claim(before, after, index)?,
            Message::Renew => self.land_renew(before, after, index)?,
            Message::Complete => self.land_complete(before, after, attempt)?,
            Message::Release => self.land_release(before, after, attempt)?,
            Message::Park => self.land_park(before, after, attempt)?,
        };
        if heard && message != Message::Renew {
            after.attempts[index].phase = next;
        }
        Ok(())
    }

    fn class(&self, attempt: &Attempt) -> EffectClass {
        match attempt.kind {
            Kind::Local => EffectClass::Local,
            _ if self.fault == Fault::ForeignDeclaredLocal => EffectClass::Local,
            Kind::Foreign if self.downstream == Downstream::Deduplicates => {
                EffectClass::Keyed { remembers_for_ms: 1_000_000 }
            }
            Kind::Foreign | Kind::Unkeyed => EffectClass::Opaque,
        }
    }

    fn land_claim(&self, before: &World, world: &mut World, index: usize) -> Result<Phase, String> {
        let attempt = &before.attempts[index];
        let intent = match attempt.ask {
            Ask::RunPark => Intent::Run(OnLapse::Park),
            Ask::RunTake => Intent::Run(OnLapse::Take),
            Ask::Recover => Intent::Recover,
        };
        let mut claim =
            Claim::new(OPERATION.id.clone(), OPERATION.fingerprint, OPERATION.worker.clone()).intent(intent);
        claim = claim.attempt(attempt.id).lease(self.lease()).effect(self.class(attempt));
        claim.attempts_max = self.attempts_max;
        let context = self.context(before, attempt.ahead_ms);
        let shown = self.shown_to_claim(before, &claim);
        let (mut answer, mut after) = self.apply(&claim, before.record.as_ref(), shown.as_ref(), &context)?;
        self.break_grant(before, claim.effect, &mut answer, after.as_mut());
        self.explain(|| explain::claimed(before, after.as_ref(), attempt, &answer))?;
        world.told = Some(explain::word(before, &answer));
        world.record = after;
        let attempt = &mut world.attempts[index];
        let next = match answer {
            Claimed::Granted(grant) => {
                attempt.fence = grant.fence.get();
                attempt.mode = grant.mode;
                attempt.keyed = matches!(grant.effect, EffectClass::Keyed { .. });
                // "min(instant before the first send + lease, instant before this send + remaining)" (G-12); the instant at
                // which it lands stands for the latter send, and is later.
                let first = attempt.asked_at + self.lease_ms;
                attempt.alone_until = first.min(before.now_ms + grant.remaining_ms);
                let earlier = grant.earlier.iter().map(|earlier| earlier.lease_until.as_millis()).max();
                attempt.quiet_at = earlier.unwrap_or(0) + self.settle_ms + self.settle_guard_ms();
                Phase::Holding
            }
            Claimed::InProgress { .. } if self.waits => Phase::Waiting,
            _ => Phase::Gone,
        };
        Ok(next)
    }

    /// The record as a claim sees it where a rule is broken.
    fn shown_to_claim(&self, before: &World, claim: &Claim) -> Option<Record> {
        let mut shown = before.record.clone();
        if let Some(record) = &mut shown
            && let Some(current) = &mut record.current
        {
            let taken = record.state == State::Processing && current.id != claim.attempt;
            if self.fault == Fault::LocalForgetsItsChain && taken && claim.effect == EffectClass::Local {
                (current.mode, record.effect) = (Mode::Execute, EffectClass::Local);
            }
            if self.fault == Fault::GrantEndedAgain && record.state == State::Received {
                current.id = AttemptId::from_bytes([0xAA; 16]);
            }
            if self.fault == Fault::GrantEndedAgain {
                record.earlier.clear();
            }
        }
        shown
    }

    /// Changes a grant where a rule about grants is broken.
    fn break_grant(
        &self,
        before: &World,
        claimed: EffectClass,
        answer: &mut Claimed,
        after: Option<&mut Record>,
    ) {
        let (Claimed::Granted(grant), Some(after)) = (answer, after) else { return };
        if self.fault == Fault::ClassOfTheLatest && !grant.again {
            (grant.effect, after.effect) = (claimed, claimed);
        }
        let Some(current) = after.current.as_mut().filter(|_| !grant.again) else { return };
        if self.fault == Fault::RerunOnLapse && before.state() == Some(State::Processing) {
            (grant.mode, current.mode) = (Mode::Execute, Mode::Execute);
        }
        if self.fault == Fault::FenceStays
            && let Some(record) = &before.record
        {
            (grant.fence, current.fence) = (record.fence(), record.fence());
        }
    }

    /// The attempt that a held write is for.
    fn held(&self, before: &World, attempt: &Attempt) -> Held {
        let current = before.record.as_ref().and_then(|record| record.current.as_ref());
        let id = match current {
            Some(current) if self.fault == Fault::HearAnyone => current.id,
            _ => attempt.id,
        };
        Held::new(OPERATION.id.clone(), id)
    }

    fn land_renew(&self, before: &World, world: &mut World, index: usize) -> Result<Phase, String> {
        let attempt = &before.attempts[index];
        let renew = Renew::new(self.held(before, attempt), self.lease());
        let stored = before.record.as_ref();
        let (answer, after): Landed<Renewed> =
            self.apply(&renew, stored, stored, &self.context(before, attempt.ahead_ms))?;
        self.explain(|| explain::renewed(before, attempt, &answer))?;
        world.record = after;
        let listens = matches!(attempt.phase, Phase::Holding | Phase::Acting);
        if let (true, Renewed::Renewed { .. }, Some(sent_at)) = (listens, answer, attempt.renewed_at) {
            world.attempts[index].alone_until = attempt.alone_until.max(sent_at + self.lease_ms);
        }
        Ok(attempt.phase)
    }

    fn land_complete(&self, before: &World, world: &mut World, attempt: &Attempt) -> Result<Phase, String> {
        let stored = before.record.as_ref();
        let mut complete = OPERATION.completions[usize::from(attempt.id.as_bytes()[0])].clone();
        complete.held = self.held(before, attempt);
        let (answer, after) =
            self.apply(&complete, stored, stored, &self.context(before, attempt.ahead_ms))?;
        // A Local effect commits with its completion or not at all (G-70).
        let committed = matches!(answer, Completed::Completed { .. });
        if attempt.kind == Kind::Local && attempt.mode == Mode::Execute && committed {
            world.effects += 1;
        }
        self.explain(|| explain::completed(before, world.effects, attempt, &answer))?;
        world.record = after;
        Ok(Phase::Gone)
    }

    fn land_release(&self, before: &World, world: &mut World, attempt: &Attempt) -> Result<Phase, String> {
        let mut release = Release::new(self.held(before, attempt));
        let mut shown = before.record.clone();
        if attempt.mode == Mode::Recover {
            release.absence = Some(match self.downstream {
                Downstream::Settles => AbsenceReason::Quiesced { settle_ms: self.settle_ms },
                Downstream::Fences => AbsenceReason::FencedOff,
                Downstream::Deduplicates => AbsenceReason::Deduplicated,
            });
        }
        if let Fault::ReleaseWithoutReason | Fault::HearAnyone = self.fault
            && let Some(current) = shown.as_mut().and_then(|record| record.current.as_mut())
        {
            (release.absence, current.mode) = (None, Mode::Execute);
        }
        let context = self.context(before, attempt.ahead_ms).guard_ms(self.settle_guard_ms());
        let (answer, after): Landed<Released> =
            self.apply(&release, before.record.as_ref(), shown.as_ref(), &context)?;
        self.explain(|| explain::released(before, attempt, &answer))?;
        world.record = after;
        Ok(Phase::Gone)
    }

    fn land_park(&self, before: &World, world: &mut World, attempt: &Attempt) -> Result<Phase, String> {
        let park = Park::new(self.held(before, attempt));
        let stored = before.record.as_ref();
        let (answer, after): Landed<Parked> =
            self.apply(&park, stored, stored, &self.context(before, attempt.ahead_ms))?;
        self.explain(|| explain::parked(before, attempt, &answer))?;
        world.record = after;
        Ok(Phase::Gone)
    }

    pub(crate) fn land_verdict(&self, before: &World, world: &mut World) -> Result<(), String> {
        let Some(verdict) = world.verdict.take() else { return Ok(()) };
        let Some(stored) = &before.record else { return Err("an operation vanished".to_owned()) };
        let settle_ms = if self.fault == Fault::HastyOperator { 0 } else { self.settle_ms };
        let found = if verdict.happened {
            let outcome = Outcome::success().body("charged");
            request::Verdict::Completed { outcome, retention: Retention::forever() }
        } else {
            request::Verdict::DidNotHappen { settle_ms }
        };
        let operator = &OPERATION.worker;
        let mut resolve = Resolve::new(stored, found, operator.clone(), operator.clone());
        (resolve.fence, resolve.version) = (Fence::new(verdict.fence), verdict.version);
        let context = self.context(before, self.operator_ahead_ms()).guard_ms(self.settle_guard_ms());
        let (answer, after): Landed<Resolved> = self.apply(&resolve, Some(stored), Some(stored), &context)?;
        self.explain(|| explain::resolved(before, verdict, &answer))?;
        world.record = after;
        Ok(())
    }

    fn explain(&self, why: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        if self.is_strict() { why() } else { Ok(()) }
    }
}
