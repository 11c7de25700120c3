//! The world of the model: one record, the workers with their attempts, what is on its way, and the effects that
//! happened.

use std::hash::{DefaultHasher, Hasher};

use idem_core::record::Record;
use idem_core::{AttemptId, EffectClass, Mode, State};

/// The instant at which every exploration begins.
pub(crate) const START_MS: u64 = 1_000;

/// What an attempt's claim asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    /// To run; parks on a lapse.
    RunPark,
    /// To run; takes over on a lapse, and can find out.
    RunTake,
    /// To find out.
    Recover,
}

/// Where an attempt's effect happens, and by what it is known there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// In a foreign system, as the model's [`Downstream`](crate::model::Downstream) says: with the downstream key, where
    /// that deduplicates.
    Foreign,
    /// In a foreign system, without a downstream key: it happens again whatever happened before.
    Unkeyed,
    /// In the store's own transaction.
    Local,
}

/// Where an attempt's process is in its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// Its claim is sent.
    Claiming,
    /// It was told "in progress", and may ask again.
    Waiting,
    /// It was granted, and has done nothing yet.
    Holding,
    /// Its effect is sent.
    Acting,
    /// It knows that the effect happened.
    Acted,
    /// It has sent how it ends: one of complete, release and park.
    Settling,
    /// It came to an end or crashed. What it sent may still land.
    Gone,
}

/// Messages to the store. Once sent, one may land at any time and any number of times: the network delays and repeats,
/// and a caller whose answer was lost sends again. One that never lands was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    Claim,
    Renew,
    Complete,
    Release,
    Park,
}

/// One claim intent and the process that follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) ask: Ask,
    pub(crate) kind: Kind,
    /// How far its clock is ahead, where each caller's clock decides.
    pub(crate) ahead_ms: u64,
    pub(crate) phase: Phase,
    pub(crate) mode: Mode,
    /// Whether it was told that every attempt that it follows sent the downstream key.
    pub(crate) keyed: bool,
    /// Its fence once it was granted, heard or not; 0 before.
    pub(crate) fence: u64,
    /// When it sent its claim first, in true time.
    pub(crate) asked_at: u64,
    /// Until when it believes to be alone, in true time (G-12).
    pub(crate) alone_until: u64,
    /// When it sent a renewal, in true time, if it did.
    pub(crate) renewed_at: Option<u64>,
    /// From when on, by its own clock, what it sees downstream is final.
    pub(crate) quiet_at: u64,
    /// Its one message that settles, if it has sent one.
    pub(crate) settle: Option<Message>,
    /// Its effect is on its way; it lands at most once.
    pub(crate) effect: bool,
}

/// An operator's verdict on its way, and what was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) happened: bool,
    pub(crate) fence: u64,
    pub(crate) version: u64,
}

/// Everything.
#[derive(Debug, Clone)]
pub(crate) struct World {
    /// True time.
    pub(crate) now_ms: u64,
    pub(crate) record: Option<Record>,
    /// All attempts that were begun.
    pub(crate) attempts: Vec<Attempt>,
    /// Claim intents that were not begun yet.
    pub(crate) intents: u8,
    /// How often the business effect happened: distinct effects, as the downstream system counts them.
    pub(crate) effects: u8,
    /// Whether the downstream system knows the key.
    pub(crate) key_known: bool,
    /// Smaller fences are refused downstream.
    pub(crate) floor: u64,
    pub(crate) verdicts: u8,
    pub(crate) verdict: Option<Verdict>,
    /// What was answered last, for the list of what a search saw; no part of the state.
    pub(crate) told: Option<&'static str>,
}

impl World {
    pub(crate) fn state(&self) -> Option<State> {
        self.record.as_ref().map(|record| record.state)
    }

    /// Whether `id` is the record's latest attempt.
    pub(crate) fn is_current(&self, id: AttemptId) -> bool {
        self.record.as_ref().and_then(|record| record.current.as_ref()).is_some_and(|it| it.id == id)
    }

    /// The canonical form, hashed to 128 bits.
    ///
    /// Times count relative to now, and those that no rule looks at any more are alike. Of fences only the order counts,
    /// ids are the roles that they play in the record, and attempts that are alike are interchangeable. Numbers of
    /// attempts count where claims have a limit of them.
    pub(crate) fn key(&self, counts: Counts) -> u128 {
        let mut fences: Vec<_> =
            self.attempts.iter().map(|attempt| attempt.fence).chain([self.floor]).collect();
        fences.sort_unstable();
        fences.dedup();
        let rank = |fence: u64| {
            if counts.fences {
                fences.partition_point(|&other| other < fence) as u64
            } else {
                u64::from(fence > 0)
            }
        };
        let mut attempts: Vec<_> =
            self.attempts.iter().map(|attempt| self.role(attempt, counts, rank(attempt.fence))).collect();
        attempts.sort_unstable();
        let mut parts = attempts.concat();
        parts.extend([
            u64::from(self.intents),
            u64::from(self.effects),
            u64::from(self.key_known),
            u64::from(self.verdicts),
            rank(self.floor),
        ]);
        if let Some(record) = &self.record {
            parts.push(1 + record.state as u64);
            let open = record.current.as_ref().filter(|_| record.state != State::Completed);
            if let Some(current) = open {
                let lapse = self.since(current.lease_until.as_millis(), counts.settle_ms);
                let earlier = self.since(record.earlier_lease_until.as_millis(), counts.settle_ms);
                let number = if counts.numbers { record.attempt_number() } else { 0 };
                let class = match record.effect {
                    EffectClass::Local => 1,
                    EffectClass::Keyed { .. } => 2,
                    _ => 0,
                };
                parts.extend([current.mode as u64, lapse, earlier, u64::from(number), class]);
            }
        }
        if let Some(verdict) = self.verdict {
            let now = self.record.as_ref().map(|record| (record.fence().get(), record.version));
            let stale = now != Some((verdict.fence, verdict.version));
            parts.extend([100 + u64::from(verdict.happened), u64::from(stale)]);
        }
        // All parts are small, and their number tells where each begins.
        let bytes: Vec<_> = parts.iter().map(|&part| u8::try_from(part).unwrap()).collect();
        let hash = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            hasher.write_u64(salt);
            hasher.write(&bytes);
            hasher.finish()
        };
        u128::from(hash(1)) << 64 | u128::from(hash(2))
    }

    /// How far `at_ms` is ahead; 0 when it is past by `past_ms` or more.
    fn since(&self, at_ms: u64, past_ms: u64) -> u64 {
        (at_ms + past_ms).saturating_sub(self.now_ms)
    }

    /// An attempt without its name: what it does next, and which part its id plays in the record.
    fn role(&self, attempt: &Attempt, counts: Counts, fence_rank: u64) -> [u64; 14] {
        let holding = matches!(attempt.phase, Phase::Holding | Phase::Acting);
        let waits_for_quiet = holding && attempt.mode == Mode::Recover;
        let if_counts = |counts: bool, value: u64| if counts { value } else { 0 };
        // An effect lands until `settle_ms` after its holder's deadline.
        let lands_for = self.since(attempt.alone_until, counts.settle_ms);
        [
            u64::from(self.is_current(attempt.id)),
            fence_rank,
            if_counts(attempt.fence == 0 || attempt.phase != Phase::Gone, 1 + attempt.ask as u64),
            attempt.kind as u64,
            u64::from(waits_for_quiet && attempt.keyed),
            attempt.ahead_ms,
            attempt.phase as u64,
            u64::from(attempt.mode == Mode::Recover),
            if_counts(
                counts.deadlines && attempt.phase == Phase::Claiming,
                self.since(attempt.asked_at, counts.lease_ms),
            ),
            if_counts(counts.deadlines && holding, self.since(attempt.alone_until, 0)),
            attempt.renewed_at.map_or(0, |at| 1 + if_counts(holding, self.since(at, counts.lease_ms))),
            if_counts(waits_for_quiet, self.since(attempt.quiet_at, 0)),
            attempt.settle.map_or(0, |message| 1 + message as u64),
            if_counts(attempt.effect, if counts.deadlines { lands_for } else { 1 }),
        ]
    }
}

/// What decides whether two states behave alike.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    /// Whether holders mind their deadlines.
    pub(crate) deadlines: bool,
    /// Whether the downstream system compares fences.
    pub(crate) fences: bool,
    /// Whether claims have a limit of attempts.
    pub(crate) numbers: bool,
    pub(crate) lease_ms: u64,
    /// How long after a deadline it is still looked at.
    pub(crate) settle_ms: u64,
}
