//! What workers, network, downstream system, operator and time may do.

use idem_core::{AttemptId, Mode, State};

use crate::engine::Space;
use crate::world::{Ask, Attempt, Counts, Kind, Message, Phase, START_MS, Verdict, World};

/// What the downstream system of the effect permits, and so what an honest worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Downstream {
    /// A request that was sent before its holder's deadline lands within `settle_ms` after it, or never. Holders stop
    /// at their deadline; recoverers and operators wait, then look (`Quiesced`).
    Settles,
    /// Requests land at any time, and zombies act at any time. Recoverers and operators first make it refuse older
    /// fences, then look (`FencedOff`).
    Fences,
    /// Requests land at any time; equal downstream keys are one effect (`Deduplicated`). Where attempts without a key
    /// are about, a recoverer resumes only what is keyed throughout.
    Deduplicates,
}

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A recoverer that "looked and saw nothing" may release.
    ReleaseWithoutReason,
    /// A claim over a lapse runs the effect again.
    RerunOnLapse,
    /// Held writes are heard from everybody.
    HearAnyone,
    /// The settle times are counted without the guard.
    SettleWithoutGuard,
    /// A Local claim over a lapse is re-executed whatever the lapsed attempt was granted for.
    LocalForgetsItsChain,
    /// A grant puts its own class over that of the attempts that it follows.
    ClassOfTheLatest,
    /// A foreign effect is declared Local.
    ForeignDeclaredLocal,
    /// Every attempt sends a downstream key of its own.
    KeyPerAttempt,
    /// An operator decides "did not happen" without the settle time.
    HastyOperator,
    /// Ids of ended attempts are not remembered.
    GrantEndedAgain,
    /// A grant does not raise the fence.
    FenceStays,
}

/// One exploration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// Workers that are alive at a time; one that crashed or ended begins its next intent.
    pub(crate) workers: usize,
    /// Claim intents of all workers together.
    pub(crate) intents: u8,
    pub(crate) asks: &'static [Ask],
    pub(crate) downstream: Downstream,
    /// What attempts there are; each may be any of these.
    pub(crate) kinds: &'static [Kind],
    /// By how much attempts' clocks may be ahead of true time, where each caller's clock decides.
    pub(crate) ahead_ms: &'static [u64],
    pub(crate) guard_ms: u64,
    pub(crate) lease_ms: u64,
    pub(crate) settle_ms: u64,
    /// Whether one that is told "in progress" asks again, with the same id.
    pub(crate) waits: bool,
    pub(crate) renews: bool,
    pub(crate) verdicts: u8,
    pub(crate) attempts_max: Option<u32>,
    pub(crate) fault: Fault,
}

/// What can happen; the number is an attempt's place in [`World::attempts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A worker makes a claim intent and sends it.
    Begin { ask: Ask, kind: Kind, ahead_ms: u64 },
    /// One that was told "in progress" asks again.
    AskAgain(usize),
    /// A message lands, and its answer is heard or lost.
    Land(usize, Message, bool),
    /// The effect is sent.
    Act(usize),
    /// The effect lands, and the worker learns of it or not.
    Happen(usize, bool),
    /// The worker renews its lease.
    Renew(usize),
    /// The worker sends how its attempt ends.
    Settle(usize, Message),
    /// A recoverer makes the downstream system refuse older attempts.
    FenceOff(usize),
    /// The worker dies.
    Crash(usize),
    /// An operator looks and sends a verdict.
    Judge,
    /// The verdict lands.
    LandVerdict,
    /// A millisecond passes.
    Tick,
}

impl Space for Model {
    type State = World;
    type Step = Step;

    fn start(&self) -> World {
        World {
            now_ms: START_MS,
            record: None,
            attempts: Vec::new(),
            intents: self.intents,
            effects: 0,
            key_known: false,
            floor: 0,
            verdicts: self.verdicts,
            verdict: None,
            told: None,
        }
    }

    fn steps(&self, world: &World) -> Vec<Step> {
        let mut steps = Vec::with_capacity(24);
        let alive = world.attempts.iter().filter(|attempt| attempt.phase != Phase::Gone).count();
        if world.intents > 0 && alive < self.workers {
            for &ask in self.asks {
                for &kind in self.kinds {
                    let begin = |&ahead_ms: &u64| Step::Begin { ask, kind, ahead_ms };
                    steps.extend(self.ahead_ms.iter().map(begin));
                }
            }
        }
        for (index, attempt) in world.attempts.iter().enumerate() {
            self.landings(world, index, attempt, &mut steps);
            if attempt.phase != Phase::Gone {
                self.choices(world, index, attempt, &mut steps);
            }
        }
        if world.verdict.is_some() {
            steps.push(Step::LandVerdict);
        } else if world.verdicts > 0 && self.may_judge(world) {
            steps.push(Step::Judge);
        }
        steps.push(Step::Tick);
        steps
    }

    fn after(&self, world: &World, step: Step) -> Result<World, String> {
        let mut after = world.clone();
        after.told = None;
        match step {
            Step::Begin { ask, kind, ahead_ms } => self.begin(&mut after, ask, kind, ahead_ms),
            Step::AskAgain(index) => {
                // It was told that it is not the holder, so its lease cannot have begun before now.
                let attempt = &mut after.attempts[index];
                (attempt.phase, attempt.asked_at) = (Phase::Claiming, world.now_ms);
            }
            Step::Land(index, message, heard) => self.land(world, &mut after, index, message, heard)?,
            Step::Act(index) => {
                let attempt = &mut after.attempts[index];
                (attempt.phase, attempt.effect) = (Phase::Acting, true);
            }
            Step::Happen(index, heard) => self.happen(&mut after, index, heard),
            Step::Renew(index) => after.attempts[index].renewed_at = Some(world.now_ms),
            Step::Settle(index, message) => {
                let attempt = &mut after.attempts[index];
                (attempt.phase, attempt.settle) = (Phase::Settling, Some(message));
            }
            Step::FenceOff(index) => after.floor = after.floor.max(after.attempts[index].fence),
            Step::Crash(index) => after.attempts[index].phase = Phase::Gone,
            Step::Judge => self.judge(&mut after),
            Step::LandVerdict => self.land_verdict(world, &mut after)?,
            Step::Tick => after.now_ms += 1,
        }
        self.hold(&after)?;
        Ok(after)
    }

    fn note(&self, world: &World) -> Option<&'static str> {
        world.told
    }

    fn key(&self, world: &World) -> u128 {
        world.key(Counts {
            deadlines: self.downstream == Downstream::Settles,
            fences: self.downstream == Downstream::Fences,
            numbers: self.attempts_max.is_some(),
            lease_ms: self.lease_ms,
            settle_ms: self.settle_ms + 2 * self.guard_ms,
        })
    }
}

impl Model {
    fn begin(&self, world: &mut World, ask: Ask, kind: Kind, ahead_ms: u64) {
        world.intents -= 1;
        world.attempts.push(Attempt {
            id: AttemptId::from_bytes([world.intents + 1; 16]),
            ask,
            kind,
            ahead_ms,
            phase: Phase::Claiming,
            mode: Mode::Execute,
            keyed: false,
            fence: 0,
            asked_at: world.now_ms,
            alone_until: 0,
            renewed_at: None,
            quiet_at: 0,
            settle: None,
            effect: false,
        });
    }

    /// What of this attempt is on its way and may land now.
    fn landings(&self, world: &World, index: usize, attempt: &Attempt, steps: &mut Vec<Step>) {
        let listens = |phase| attempt.phase == phase;
        let mut land = |message, heard| {
            steps.push(Step::Land(index, message, false));
            if heard {
                steps.push(Step::Land(index, message, true));
            }
        };
        land(Message::Claim, listens(Phase::Claiming));
        if attempt.renewed_at.is_some() {
            land(Message::Renew, matches!(attempt.phase, Phase::Holding | Phase::Acting));
        }
        if let Some(message) = attempt.settle {
            land(message, listens(Phase::Settling));
        }
        let in_time = world.now_ms < attempt.alone_until + self.settle_ms;
        if attempt.effect && (self.downstream != Downstream::Settles || in_time) {
            steps.push(Step::Happen(index, false));
            if listens(Phase::Acting) {
                steps.push(Step::Happen(index, true));
            }
        }
    }

    /// What the attempt's process may choose to do.
    fn choices(&self, world: &World, index: usize, attempt: &Attempt, steps: &mut Vec<Step>) {
        match attempt.phase {
            Phase::Waiting => steps.push(Step::AskAgain(index)),
            Phase::Holding if attempt.mode == Mode::Recover => self.recovery(world, index, attempt, steps),
            // A Local effect is a part of its completion.
            Phase::Holding if attempt.kind == Kind::Local => {
                steps.extend([Message::Complete, Message::Release].map(|it| Step::Settle(index, it)));
            }
            Phase::Holding => {
                if self.may_act(world, attempt) {
                    steps.push(Step::Act(index));
                }
                steps.push(Step::Settle(index, Message::Release));
            }
            // It does not know whether its effect landed, or will.
            Phase::Acting => steps.push(Step::Settle(index, Message::Park)),
            Phase::Acted => steps.push(Step::Settle(index, Message::Complete)),
            Phase::Claiming | Phase::Settling | Phase::Gone => {}
        }
        let holds = matches!(attempt.phase, Phase::Holding | Phase::Acting);
        if self.renews && holds && attempt.renewed_at.is_none() && world.now_ms < attempt.alone_until {
            steps.push(Step::Renew(index));
        }
        steps.push(Step::Crash(index));
    }

    /// G-12: a holder acts while it believes to be alone. Where the downstream system tells attempts apart, a zombie
    /// that lost its sense of time may act too.
    fn may_act(&self, world: &World, attempt: &Attempt) -> bool {
        self.downstream != Downstream::Settles || world.now_ms < attempt.alone_until
    }

    /// G-19: it ends as completed with what was found, given back with a reason, resumed with the same key, or parked.
    fn recovery(&self, world: &World, index: usize, attempt: &Attempt, steps: &mut Vec<Step>) {
        steps.push(Step::Settle(index, Message::Park));
        if world.effects > 0 {
            steps.push(Step::Settle(index, Message::Complete));
        }
        let nothing_seen = world.effects == 0;
        let release = match self.downstream {
            _ if self.fault == Fault::ReleaseWithoutReason => nothing_seen,
            Downstream::Settles => nothing_seen && world.now_ms + attempt.ahead_ms >= attempt.quiet_at,
            Downstream::Fences if world.floor < attempt.fence => {
                steps.push(Step::FenceOff(index));
                false
            }
            Downstream::Fences => nothing_seen,
            Downstream::Deduplicates if attempt.keyed => {
                steps.push(Step::Act(index));
                // Whoever runs next may send no key, where such attempts are about.
                !self.kinds.contains(&Kind::Unkeyed)
            }
            Downstream::Deduplicates => false,
        };
        if release {
            steps.push(Step::Settle(index, Message::Release));
        }
    }

    /// The effect reaches the downstream system, which may refuse it or know it already.
    fn happen(&self, world: &mut World, index: usize, heard: bool) {
        let attempt = &mut world.attempts[index];
        attempt.effect = false;
        let refused = self.downstream == Downstream::Fences && attempt.fence < world.floor;
        if heard {
            // A refusal is known not to have happened, but its attempt is known to be over too.
            attempt.phase = if refused { Phase::Gone } else { Phase::Acted };
        }
        let one_key = self.downstream == Downstream::Deduplicates
            && attempt.kind == Kind::Foreign
            && self.fault != Fault::KeyPerAttempt;
        let deduplicated = one_key && world.key_known;
        if !refused && !deduplicated {
            world.effects += 1;
        }
        world.key_known |= one_key;
    }

    /// An operator that has waited, or fenced off, sees what is final.
    fn may_judge(&self, world: &World) -> bool {
        let Some(record) = world.record.as_ref().filter(|record| record.state == State::Uncertain) else {
            return false;
        };
        let quiet_at =
            record.last_lease_until().plus_millis(self.settle_guard_ms() + self.settle_ms).as_millis();
        // Where a zombie's repeated key would be deduplicated, "did not happen" still waits as the table says.
        self.fault == Fault::HastyOperator || world.now_ms + self.operator_ahead_ms() >= quiet_at
    }

    /// The operator's clock is as far ahead as a clock may be.
    pub(crate) fn operator_ahead_ms(&self) -> u64 {
        self.ahead_ms.iter().copied().max().unwrap_or(0)
    }

    fn judge(&self, world: &mut World) {
        let Some(record) = &world.record else { return };
        world.verdicts -= 1;
        if self.downstream == Downstream::Fences {
            world.floor = world.floor.max(record.fence().get() + 1);
        }
        let happened = world.effects > 0;
        world.verdict = Some(Verdict { happened, fence: record.fence().get(), version: record.version });
    }

    /// What holds in every state, whatever was answered to whom.
    fn hold(&self, world: &World) -> Result<(), String> {
        if world.effects > 1 {
            return Err("two effects".to_owned());
        }
        if !self.is_strict() {
            return Ok(());
        }
        match world.state() {
            Some(State::Completed) if world.effects == 0 => {
                Err("completed, and nothing had happened".to_owned())
            }
            // Back to the start: another attempt will run it. Where the downstream system deduplicates that is no harm.
            None | Some(State::Received)
                if world.effects > 0 && self.downstream != Downstream::Deduplicates =>
            {
                Err("given back after it had happened".to_owned())
            }
            _ => Ok(()),
        }
    }
}
