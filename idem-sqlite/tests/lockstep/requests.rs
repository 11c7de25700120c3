//! Every request as one value, and every answer.

use idem_core::answer::{Checkpointed, Completed, Erased, Parked, Registered, Released, Renewed, Resolved};
use idem_core::record::AbsenceReason;
use idem_core::request::{
    Complete, Erase, Held, Intent, OnLapse, Park, Register, Release, Renew, Resolve, SaveCheckpoint, Verdict,
};
use idem_core::transition::{Context, Transition, Write};
use idem_core::{
    AttemptId, Claim, Claimed, EffectClass, ErrorKind, Fingerprint, Fingerprints, Label, Lease, OperationId,
    Outcome, Record, Retention, Store, Ttl,
};

use crate::rng::Rng;

#[derive(Debug, Clone)]
pub(crate) enum Request {
    Register(Register),
    Claim(Claim),
    Renew(Renew),
    Checkpoint(SaveCheckpoint),
    Complete(Complete),
    Release(Release),
    Park(Park),
    Resolve(Resolve),
    Erase(Erase),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Registered(Registered),
    Claimed(Claimed),
    Renewed(Renewed),
    Checkpointed(Checkpointed),
    Completed(Completed),
    Released(Released),
    Parked(Parked),
    Resolved(Resolved),
    Erased(Erased),
    Failed(ErrorKind),
}

impl Answer {
    /// Its variants, without their contents.
    pub(crate) fn name(&self) -> String {
        let text = format!("{self:?}");
        let inner = text.split_once('(').map_or("", |(_, inner)| inner);
        let end = |text: &str| text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
        format!("{} {}", &text[..end(&text)], &inner[..end(inner)])
    }
}

fn answer<T>(given: idem_core::Result<T>, wrap: impl FnOnce(T) -> Answer) -> Answer {
    match given {
        Ok(given) => wrap(given),
        Err(error) => Answer::Failed(error.kind()),
    }
}

impl Request {
    pub(crate) fn id(&self) -> &OperationId {
        match self {
            Self::Register(request) => &request.id,
            Self::Claim(request) => &request.id,
            Self::Renew(request) => &request.held.id,
            Self::Checkpoint(request) => &request.held.id,
            Self::Complete(request) => &request.held.id,
            Self::Release(request) => &request.held.id,
            Self::Park(request) => &request.held.id,
            Self::Resolve(request) => &request.id,
            Self::Erase(request) => &request.id,
        }
    }

    pub(crate) async fn ask(&self, store: &dyn Store) -> Answer {
        match self {
            Self::Register(request) => answer(store.register(request).await, Answer::Registered),
            Self::Claim(request) => answer(store.claim(request).await, Answer::Claimed),
            Self::Renew(request) => answer(store.renew(request).await, Answer::Renewed),
            Self::Checkpoint(request) => answer(store.checkpoint(request).await, Answer::Checkpointed),
            Self::Complete(request) => answer(store.complete(request).await, Answer::Completed),
            Self::Release(request) => answer(store.release(request).await, Answer::Released),
            Self::Park(request) => answer(store.park(request).await, Answer::Parked),
            Self::Resolve(request) => answer(store.resolve(request).await, Answer::Resolved),
            Self::Erase(request) => answer(store.erase(request).await, Answer::Erased),
        }
    }

    /// What the contract says, on the bare record.
    pub(crate) fn decide(&self, stored: &mut Option<Record>, context: &Context) -> Answer {
        match self {
            Self::Register(request) => decide(request, stored, context, Answer::Registered),
            Self::Claim(request) => decide(request, stored, context, Answer::Claimed),
            Self::Renew(request) => decide(request, stored, context, Answer::Renewed),
            Self::Checkpoint(request) => decide(request, stored, context, Answer::Checkpointed),
            Self::Complete(request) => decide(request, stored, context, Answer::Completed),
            Self::Release(request) => decide(request, stored, context, Answer::Released),
            Self::Park(request) => decide(request, stored, context, Answer::Parked),
            Self::Resolve(request) => decide(request, stored, context, Answer::Resolved),
            Self::Erase(request) => decide(request, stored, context, Answer::Erased),
        }
    }
}

fn decide<T: Transition>(
    request: &T,
    stored: &mut Option<Record>,
    context: &Context,
    wrap: impl FnOnce(T::Answer) -> Answer,
) -> Answer {
    match request.apply(stored.as_ref(), context) {
        Ok(step) => {
            match step.write {
                Write::Put(record) => *stored = Some(*record),
                Write::Remove => *stored = None,
                _ => {}
            }
            wrap(step.answer)
        }
        Err(error) => Answer::Failed(error.kind()),
    }
}

/// Attempts that were made before, for late duplicates and zombies.
#[derive(Debug, Default)]
pub(crate) struct Past {
    attempts: Vec<AttemptId>,
}

impl Past {
    /// Mostly the holder's, sometimes one of long ago.
    fn attempt(&self, rng: &mut Rng, stored: Option<&Record>) -> AttemptId {
        match (self.attempts.as_slice(), stored.and_then(|record| record.current.as_ref())) {
            (_, Some(current)) if !rng.one_in(4) => current.id,
            ([], _) => AttemptId::random(),
            (all, _) => *rng.pick(all),
        }
    }

    fn remember(&mut self, attempt: AttemptId) {
        self.attempts.push(attempt);
        if self.attempts.len() > 40 {
            self.attempts.remove(0);
        }
    }
}

/// A random request about `id`, whose record is now `stored`.
pub(crate) fn random(rng: &mut Rng, id: &OperationId, stored: Option<&Record>, past: &mut Past) -> Request {
    let id = id.clone();
    match rng.below(20) {
        0 => Request::Register(register(rng, id)),
        1..=7 => {
            let claim = claim(rng, id, stored, past);
            past.remember(claim.attempt);
            Request::Claim(claim)
        }
        8..=9 => Request::Renew(Renew::new(Held::new(id, past.attempt(rng, stored)), lease(rng))),
        10 => {
            let name = label(rng);
            let value = if rng.one_in(4) { body(rng) } else { b"seen".to_vec() };
            let held = Held::new(id, past.attempt(rng, stored));
            Request::Checkpoint(SaveCheckpoint::new(held, name, value, lease(rng)))
        }
        11..=13 => {
            let (outcome, retention) = (outcome(rng), retention(rng));
            Request::Complete(Complete::new(Held::new(id, past.attempt(rng, stored)), outcome, retention))
        }
        14..=15 => {
            let held = Held::new(id, past.attempt(rng, stored));
            Request::Release(release(rng, held))
        }
        16 => Request::Park(Park::new(Held::new(id, past.attempt(rng, stored))).note("cannot tell")),
        17..=18 => match stored {
            Some(record) => Request::Resolve(resolve(rng, record)),
            None => Request::Erase(Erase::new(id)),
        },
        _ if rng.one_in(4) => Request::Erase(Erase::new(id).with_reference()),
        _ => Request::Erase(Erase::new(id)),
    }
}

fn register(rng: &mut Rng, id: OperationId) -> Register {
    let register = Register::new(id, fingerprint(rng));
    match rng.below(8) {
        0 => register,
        // One byte more than the limit of the worlds below.
        1 => register.payload(vec![7; 257]),
        _ => register.payload(body(rng)),
    }
}

fn claim(rng: &mut Rng, id: OperationId, stored: Option<&Record>, past: &Past) -> Claim {
    let first = fingerprint(rng);
    let second = Fingerprint::bytes(b"a").version(2);
    let fingerprints = if first.kind() != second.kind() && rng.one_in(4) {
        Fingerprints::new(first, &[second]).unwrap()
    } else {
        first.into()
    };
    let mut claim = Claim::new(id, fingerprints, label(rng)).lease(lease(rng)).intent(match rng.below(8) {
        0..=2 => Intent::Run(OnLapse::Park),
        3..=5 => Intent::Run(OnLapse::Take),
        _ => Intent::Recover,
    });
    claim = match rng.below(20) {
        0 => claim.effect(EffectClass::Local),
        1..=5 => claim.effect(EffectClass::Keyed { remembers_for_ms: rng.below(100_000) }),
        _ => claim,
    };
    if rng.one_in(6) {
        claim = claim.attempts_max(u32::try_from(1 + rng.below(5)).unwrap());
    }
    if rng.one_in(4) {
        claim = claim.attempt(past.attempt(rng, stored));
    }
    if rng.one_in(4) {
        claim.traceparent = Some(label(rng));
    }
    claim
}

fn release(rng: &mut Rng, held: Held) -> Release {
    let release = Release::new(held);
    let release = if rng.one_in(2) { release.forget() } else { release };
    match rng.below(4) {
        0 => release,
        1 => release.absence(AbsenceReason::Deduplicated),
        2 => release.absence(AbsenceReason::FencedOff),
        _ => release.absence(AbsenceReason::Quiesced { settle_ms: rng.below(3000) }),
    }
}

fn resolve(rng: &mut Rng, record: &Record) -> Resolve {
    let verdict = if rng.one_in(2) {
        Verdict::Completed { outcome: outcome(rng), retention: retention(rng) }
    } else {
        Verdict::DidNotHappen { settle_ms: rng.below(3000) }
    };
    let mut resolve = Resolve::new(record, verdict, label(rng), label(rng));
    if rng.one_in(6) {
        resolve.version += 1;
    }
    resolve
}

fn fingerprint(rng: &mut Rng) -> Fingerprint {
    match rng.below(12) {
        0 => Fingerprint::bytes(b"b"),
        1 => Fingerprint::bytes(b"a").version(2),
        2 => Fingerprint::custom([3; 32]),
        _ => Fingerprint::bytes(b"a"),
    }
}

fn label(rng: &mut Rng) -> Label {
    Label::new(rng.pick::<&str>(&["worker-1", "worker-2", "o'brien \"; --", "Ünïcode \u{1f980}"])).unwrap()
}

fn lease(rng: &mut Rng) -> Lease {
    Lease::new(std::time::Duration::from_millis(1 + rng.below(3000))).unwrap()
}

fn body(rng: &mut Rng) -> Vec<u8> {
    let length = rng.below(80);
    (0..length).map(|_| rng.next().to_le_bytes()[0]).collect()
}

fn outcome(rng: &mut Rng) -> Outcome {
    let outcome = if rng.one_in(4) { Outcome::failure("card_declined") } else { Outcome::success() };
    let outcome = match rng.below(6) {
        0 => outcome,
        1 => outcome.body(""),
        2 => outcome.body(vec![0xff; 600]),
        3 => outcome.body(body(rng)).header("a", "1").header("a", "2").header("", ""),
        _ => outcome.body("the same"),
    };
    if rng.one_in(3) { outcome.reference("invoice-9") } else { outcome }
}

fn retention(rng: &mut Rng) -> Retention {
    let response = Ttl::Millis(rng.below(4000));
    match rng.below(12) {
        0 => Retention::forever(),
        1 => Retention::forever().response(Ttl::Millis(0)).unwrap(),
        2 => Retention::forever().response(response).unwrap(),
        3 => Retention::forgetting_identity(Ttl::Millis(500), Ttl::Millis(0), None).unwrap(),
        _ => Retention::forgetting_identity(Ttl::Millis(4000 + rng.below(4000)), response, None).unwrap(),
    }
}
