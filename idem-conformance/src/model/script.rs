//! Scripts: short, readable, and the same on every store.

use std::fmt;

use idem_core::record::AbsenceReason;
use idem_core::request::{Intent, OnLapse};
use idem_core::{EffectClass, View};
use proptest::prelude::*;

/// How far a script may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// On the system's clock: nothing that depends on the passing of time; answers are compared without times.
    Timeless,
    /// The same, closing and opening the store in between.
    Reopening,
    /// On a stepped clock: everything, compared to the millisecond.
    Timed,
}

/// How long an outcome is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    Forever,
    NoResponse,
    Response(u64),
    Identity { identity_ms: u64, response_ms: u64 },
}

/// The worker whose held writes carry the attempt of the record's holder, whoever that is: random workers alone would
/// seldom hold what they write to.
pub(crate) const HOLDER: u8 = 0;

/// One step. Keys and workers are small numbers; the held writes of the workers but [`HOLDER`] carry the attempt that the
/// worker claimed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Register {
        key: u8,
        intent: u8,
        payload: Option<u8>,
    },
    Claim {
        key: u8,
        worker: u8,
        again: bool,
        intent: u8,
        want: Intent,
        lease_ms: u64,
        effect: EffectClass,
        max: Option<u32>,
    },
    Renew {
        key: u8,
        worker: u8,
        lease_ms: u64,
    },
    Checkpoint {
        key: u8,
        worker: u8,
        name: u8,
        value: u8,
        lease_ms: u64,
    },
    Complete {
        key: u8,
        worker: u8,
        outcome: u8,
        keep: Keep,
    },
    Release {
        key: u8,
        worker: u8,
        forget: bool,
        absence: Option<AbsenceReason>,
    },
    Park {
        key: u8,
        worker: u8,
    },
    Resolve {
        key: u8,
        happened: Option<u8>,
        settle_ms: u64,
        stale: bool,
    },
    Erase {
        key: u8,
        reference: bool,
    },
    Sweep,
    List {
        view: Option<View>,
    },
    Stats,
    Advance {
        ms: u64,
    },
    Reopen,
}

/// The steps of one run.
#[derive(Debug, Clone)]
pub(crate) struct Script(pub(crate) Vec<Step>);

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            writeln!(f, "    {:>2}  {step}", index + 1)?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register { key, intent, payload } => {
                write!(f, "register k{key} intent {intent}")?;
                payload.map_or(Ok(()), |payload| write!(f, " payload {payload}"))
            }
            Self::Claim { key, worker, again, intent, want, lease_ms, effect, max } => {
                let which = if *again { "again" } else { "anew" };
                write!(
                    f,
                    "claim k{key} by w{worker} {which} intent {intent} {want:?} lease {lease_ms} ms {effect:?}"
                )?;
                max.map_or(Ok(()), |max| write!(f, " at most {max} attempts"))
            }
            Self::Renew { key, worker, lease_ms } => {
                write!(f, "renew k{key} by w{worker} lease {lease_ms} ms")
            }
            Self::Checkpoint { key, worker, name, value, lease_ms } => {
                write!(f, "checkpoint k{key} by w{worker} name {name} value {value} lease {lease_ms} ms")
            }
            Self::Complete { key, worker, outcome, keep } => {
                write!(f, "complete k{key} by w{worker} outcome {outcome} keep {keep:?}")
            }
            Self::Release { key, worker, forget, absence } => {
                write!(f, "release k{key} by w{worker} forget {forget} absence {absence:?}")
            }
            Self::Park { key, worker } => write!(f, "park k{key} by w{worker}"),
            Self::Resolve { key, happened, settle_ms, stale } => match happened {
                Some(outcome) => write!(f, "resolve k{key} with outcome {outcome} stale {stale}"),
                None => write!(f, "resolve k{key} did not happen settle {settle_ms} ms stale {stale}"),
            },
            Self::Erase { key, reference } => write!(f, "erase k{key} reference {reference}"),
            Self::Sweep => f.write_str("sweep"),
            Self::List { view } => write!(f, "list {view:?}"),
            Self::Stats => f.write_str("stats"),
            Self::Advance { ms } => write!(f, "advance {ms} ms"),
            Self::Reopen => f.write_str("reopen"),
        }
    }
}

/// The lease of scripts on the system's clock: none lapses.
const LONG_MS: u64 = 3_600_000;

fn leases(reach: Reach) -> BoxedStrategy<u64> {
    match reach {
        Reach::Timed => {
            prop_oneof![3 => Just(1_000_u64), 1 => Just(1), 1 => Just(1_499), 1 => Just(60_000)].boxed()
        }
        Reach::Timeless | Reach::Reopening => Just(LONG_MS).boxed(),
    }
}

fn keeps(reach: Reach) -> BoxedStrategy<Keep> {
    let timeless = prop_oneof![3 => Just(Keep::Forever), 1 => Just(Keep::NoResponse)];
    match reach {
        Reach::Timed => prop_oneof![
            2 => timeless,
            1 => Just(Keep::Response(1_000)),
            2 => Just(Keep::Identity { identity_ms: 2_000, response_ms: 1_000 }),
            1 => Just(Keep::Identity { identity_ms: 1_000, response_ms: 1_000 }),
            1 => Just(Keep::Identity { identity_ms: 1_000, response_ms: 0 }),
        ]
        .boxed(),
        Reach::Timeless | Reach::Reopening => timeless.boxed(),
    }
}

/// Mostly one operation, so that its steps follow each other.
fn keys() -> BoxedStrategy<u8> {
    prop_oneof![4 => Just(0_u8), 1 => Just(1)].boxed()
}

fn workers() -> BoxedStrategy<u8> {
    prop_oneof![3 => Just(HOLDER), 1 => Just(1), 1 => Just(2)].boxed()
}

fn claims(reach: Reach) -> BoxedStrategy<Step> {
    let want = prop_oneof![
        2 => Just(Intent::Run(OnLapse::Take)),
        2 => Just(Intent::Run(OnLapse::Park)),
        1 => Just(Intent::Recover),
    ];
    let effect =
        prop_oneof![Just(EffectClass::Opaque), Just(EffectClass::Keyed { remembers_for_ms: 86_400_000 })];
    let max = prop_oneof![3 => Just(None), 1 => (1_u32..3).prop_map(Some)];
    // Mostly the usual intent, or most claims would be conflicts.
    let intent = prop_oneof![5 => Just(0_u8), 1 => Just(1)];
    (keys(), workers(), prop::bool::weighted(0.25), intent, want, leases(reach), effect, max)
        .prop_map(|(key, worker, again, intent, want, lease_ms, effect, max)| Step::Claim {
            key,
            worker,
            again,
            intent,
            want,
            lease_ms,
            effect,
            max,
        })
        .boxed()
}

fn held_writes(reach: Reach) -> BoxedStrategy<Step> {
    let absence = prop_oneof![
        2 => Just(None),
        1 => Just(Some(AbsenceReason::FencedOff)),
        1 => Just(Some(AbsenceReason::Deduplicated)),
        1 => Just(Some(AbsenceReason::Quiesced { settle_ms: 500 })),
    ];
    let held = (keys(), workers());
    prop_oneof![
        1 => (held.clone(), leases(reach))
            .prop_map(|((key, worker), lease_ms)| Step::Renew { key, worker, lease_ms }),
        3 => (held.clone(), 0_u8..2, 0_u8..2, leases(reach)).prop_map(|((key, worker), name, value, lease_ms)| {
            Step::Checkpoint { key, worker, name, value, lease_ms }
        }),
        3 => (held.clone(), 0_u8..4, keeps(reach))
            .prop_map(|((key, worker), outcome, keep)| Step::Complete { key, worker, outcome, keep }),
        2 => (held.clone(), any::<bool>(), absence)
            .prop_map(|((key, worker), forget, absence)| Step::Release { key, worker, forget, absence }),
        2 => held.prop_map(|(key, worker)| Step::Park { key, worker }),
    ]
    .boxed()
}

fn trusted() -> BoxedStrategy<Step> {
    let views = prop_oneof![2 => Just(None), 1 => prop::sample::select(View::ALL.to_vec()).prop_map(Some)];
    let verdict = prop_oneof![Just(None), (0_u8..4).prop_map(Some)];
    prop_oneof![
        3 => (keys(), verdict, prop_oneof![Just(0_u64), Just(700)], prop::bool::weighted(0.2)).prop_map(
            |(key, happened, settle_ms, stale)| Step::Resolve { key, happened, settle_ms, stale }
        ),
        1 => (keys(), any::<bool>()).prop_map(|(key, reference)| Step::Erase { key, reference }),
        1 => Just(Step::Sweep),
        1 => views.prop_map(|view| Step::List { view }),
        1 => Just(Step::Stats),
    ]
    .boxed()
}

fn steps(reach: Reach) -> BoxedStrategy<Step> {
    let payload = prop_oneof![Just(None), (0_u8..3).prop_map(Some)];
    let register = (keys(), prop_oneof![4 => Just(0_u8), 1 => Just(1)], payload)
        .prop_map(|(key, intent, payload)| Step::Register { key, intent, payload });
    let all = prop_oneof![1 => register, 6 => claims(reach), 7 => held_writes(reach), 4 => trusted()];
    match reach {
        Reach::Timeless => all.boxed(),
        Reach::Reopening => prop_oneof![9 => all, 1 => Just(Step::Reopen)].boxed(),
        Reach::Timed => {
            let jumps = prop::sample::select(vec![1_u64, 499, 999, 1_000, 1_001, 60_000, 400_000]);
            prop_oneof![4 => all, 1 => jumps.prop_map(|ms| Step::Advance { ms })].boxed()
        }
    }
}

/// Scripts of 1 to `steps_max` steps.
pub(crate) fn scripts(reach: Reach, steps_max: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(steps(reach), 1..=steps_max)
}
