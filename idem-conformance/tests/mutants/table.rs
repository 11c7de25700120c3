//! Which mutants there are, and which scenarios fail on each.

use std::sync::Arc;

use idem_conformance::Harness;

use crate::bent::Bend;
use crate::folder::{Defect, Folder};
use crate::ground::{Ground, Memory};
use crate::memory::{
    clocks, concurrency, identity, input, intent, lease, recovery, replay, retention, variants as odd,
};

/// One store that is wrong in one way (or, as a variant, odd and right).
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What is wrong, and the rules that this breaks.
    pub(crate) breaks: &'static str,
    pub(crate) ground: Ground,
    /// The scenarios that must fail; no others may.
    pub(crate) must: &'static [&'static str],
    /// Scenarios that fail when their threads happen to meet at the right moment.
    pub(crate) chance: &'static [&'static str],
    /// A scenario, and what its failure says.
    pub(crate) says: (&'static str, &'static str),
    make: Make,
}

enum Make {
    Bent(fn() -> Arc<dyn Bend>),
    OneSite,
    Folder(Defect),
}

impl Mutant {
    /// A fresh store.
    pub(crate) fn harness(&self) -> Arc<dyn Harness> {
        match self.make {
            Make::Bent(bend) => Arc::new(Memory::new(self.name, bend(), false)),
            Make::OneSite => Arc::new(Memory::new(self.name, Arc::new(odd::Plain), true)),
            Make::Folder(defect) => Arc::new(Folder { name: self.name, defect }),
        }
    }
}

/// A mutant in memory.
macro_rules! bent {
    ($name:literal, $breaks:literal, $bend:expr, must $must:expr, chance $chance:expr, says $id:literal $text:literal) => {
        Mutant {
            name: $name,
            breaks: $breaks,
            ground: Ground::Memory,
            must: &$must,
            chance: &$chance,
            says: ($id, $text),
            make: Make::Bent(|| Arc::new($bend)),
        }
    };
}

/// A mutant in a folder.
macro_rules! folder {
    ($name:literal, $breaks:literal, $defect:expr, must $must:expr, chance $chance:expr, says $id:literal $text:literal) => {
        Mutant {
            name: $name,
            breaks: $breaks,
            ground: Ground::Folder,
            must: &$must,
            chance: &$chance,
            says: ($id, $text),
            make: Make::Folder($defect),
        }
    };
}

pub(crate) fn mutants() -> impl Iterator<Item = &'static Mutant> {
    [IDENTITY, INTENT, CONCURRENCY, LEASE, RECOVERY, REPLAY, RETENTION, CLOCKS, INPUT, FOLDERS]
        .into_iter()
        .flatten()
}

pub(crate) fn variants() -> impl Iterator<Item = &'static Mutant> {
    VARIANTS.iter()
}

const IDENTITY: &[Mutant] = &[
    bent!("scope-ignored", "all tenants share their keys: G-01", identity::TenantIgnored,
        must ["ID-002", "ID-004", "IN-004", "PB-001", "PB-003"], chance [],
        says "ID-002" "the other operation must be granted: got InProgress"),
    bent!("operation-ignored", "all operations share their keys: G-01", identity::OperationIgnored,
        must ["ID-003", "ID-004", "ID-006", "IN-004"], chance [],
        says "ID-003" "the other operation must be granted: got InProgress"),
    bent!("delimiter-join", "parts are joined with a colon: G-03", identity::DelimiterJoin,
        must ["ID-004"], chance [],
        says "ID-004" "must be granted: got Replay"),
    bent!("case-fold", "keys are compared without case: G-02", identity::CaseFold,
        must ["ID-005"], chance [],
        says "ID-005" "key 1 must be granted: got Replay"),
    bent!("truncated-key", "keys are cut at 255 bytes: G-02", identity::TruncatedKey,
        must ["ID-006"], chance [],
        says "ID-006" "must be granted: got Replay"),
    bent!("counts-from-zero", "the first attempt has number 0: G-10", identity::CountsFromZero,
        must ["ID-001", "LS-004", "LS-009", "LS-012", "LS-015", "LS-021", "CC-009", "CC-010", "EX-008", "RP-008",
            "PB-001", "PB-003"], chance [],
        says "ID-001" "number of the first attempt: expected 1, got 0"),
    Mutant {
        name: "one-site",
        breaks: "all namespaces are one: G-01",
        ground: Ground::Memory,
        must: &["ID-007"],
        chance: &[],
        says: ("ID-007", "the other site must not see the record"),
        make: Make::OneSite,
    },
];

const INTENT: &[Mutant] = &[
    bent!("conflict-only-while-running", "fingerprints are compared only while it runs: G-05",
        intent::ConflictOnlyWhileRunning,
        must ["FP-002", "FP-004", "FP-007", "EX-003", "EX-009", "RP-008", "PB-001", "PB-003"], chance [],
        says "FP-002" "a claim with another intent after completion: expected Conflict, got Replay"),
    bent!("busy-before-conflict", "in progress is answered before fingerprints are compared: G-05",
        intent::BusyBeforeConflict,
        must ["FP-001", "FP-004", "FP-005", "FP-006", "RP-008", "PB-001", "PB-003"], chance [],
        says "FP-001" "a claim with another intent while it runs: expected Conflict, got InProgress"),
    bent!("takeover-replaces-fingerprint", "a takeover brings its own fingerprint: G-05", intent::TakeoverReplaces,
        must ["FP-003", "PB-003"], chance [],
        says "FP-003" "another intent over a lapse"),
    bent!("conflict-overwrites", "a conflicting registration writes its payload: G-05", intent::ConflictOverwrites,
        must ["FP-004", "PB-001", "PB-003"], chance [],
        says "FP-004" "a conflict changed the received record"),
    bent!("digest-only", "the kind of a fingerprint is not compared: G-05", intent::DigestOnly,
        must ["FP-005"], chance [],
        says "FP-005" "the same digest under a key id against a record of version 1"),
    bent!("release-forgets", "every release forgets the intent: G-31", intent::ReleaseForgets,
        must ["RP-008", "PB-001", "PB-003"], chance [],
        says "RP-008" "another intent after a release: expected Conflict, got Granted"),
];

const CONCURRENCY: &[Mutant] = &[
    bent!("check-then-insert", "looks, then inserts whatever came in between: G-10", concurrency::CheckThenInsert,
        must ["CC-001", "CC-002", "CC-007", "FP-006"], chance ["CC-006", "CC-012", "EX-007", "LZ-001", "LZ-004"],
        says "CC-001" ": expected 1, got 2"),
    bent!("per-handle-lock", "the lock is the handle's: G-10", concurrency::LockByHandle,
        must ["CC-002"], chance ["LZ-004"],
        says "CC-002" ": expected 1, got 2"),
    bent!("check-then-update", "an expired row is updated after a purge took it: G-10, G-43",
        concurrency::CheckThenUpdate,
        must ["CC-012", "EX-007"], chance [],
        says "EX-007" "is not there"),
    bent!("lost-wake-up", "waiters listen without looking first: G-34", concurrency::LostWakeUp,
        must ["CC-004"], chance ["LD-002"],
        says "CC-004" "a waiter was never woken"),
    bent!("stampede", "waiters are woken all the time: G-34", concurrency::Stampede,
        must ["CC-004", "LD-002"], chance [],
        says "LD-002" "a waiter was woken 100 times for nothing"),
    bent!("attempt-blind", "a repeated claim is not recognised: G-12", concurrency::AttemptBlind,
        must ["CC-007", "CC-011", "LS-014", "LS-018", "LS-022", "LZ-001", "PB-001", "PB-003"], chance [],
        says "CC-007" "the repeated claim must be granted: got InProgress"),
    bent!("last-complete-wins", "a later completion replaces the first: G-16", concurrency::LastCompleteWins,
        must ["CC-008", "EX-009", "EX-011", "RP-005", "LZ-001", "LZ-004", "PB-001", "PB-003"], chance [],
        says "CC-008" "a completion after the first"),
    bent!("shared-scratch", "outcomes go through one shared place: G-30", concurrency::SharedScratch,
        must ["CC-005"], chance ["CC-008", "LD-001", "LZ-001", "LZ-004"],
        says "CC-005" "the body of"),
    bent!("half-state", "a row is written before its holder: G-53", concurrency::HalfState,
        must ["CC-011", "CK-004"], chance ["LZ-001"],
        says "CC-011" "the attempt on the record of a dropped claim"),
    bent!("stale-read", "in progress is answered from a cache: G-10", concurrency::AnswersFromCache,
        must ["CK-003", "CK-005", "CK-006", "CK-007", "LS-002", "LS-017", "LZ-001", "LZ-004", "PB-001", "PB-003"],
        chance [],
        says "LZ-001" "is not linearizable"),
    bent!("lost-completion", "every 24th completion is acknowledged and not stored: G-62", concurrency::LosesCompletions,
        must ["CC-005", "CC-008", "CC-012", "EX-005", "EX-007", "ID-004", "ID-005", "IN-004", "LD-001", "LD-003",
            "LZ-001", "PB-001", "PB-003"],
        chance ["CC-009", "LZ-004"],
        says "LD-001" "the operation must be replayed: got InProgress"),
];

const LEASE: &[Mutant] = &[
    bent!("off-by-one", "a lease is live at its deadline: G-13", lease::OffByOne,
        must ["LS-002", "CK-005", "PB-003"], chance [],
        says "LS-002" "a claim (take) at the end of the lease: got InProgress"),
    bent!("fence-not-raised", "a takeover keeps the fence: G-14", lease::FenceNotRaised,
        must ["LS-003", "CK-007", "PB-001", "PB-003"], chance [],
        says "LS-003" "the fence went from"),
    bent!("fence-reused", "the fence is the time alone: G-14", lease::FenceIsTheTime,
        must ["LS-004", "CC-006", "CK-003", "PB-001", "PB-003"], chance ["LZ-001", "LZ-004"],
        says "LS-004" "a grant after a release: fence"),
    bent!("renew-accumulates", "renewals add up: G-13", lease::RenewAccumulates,
        must ["LS-005", "LS-013", "CK-003", "PB-003"], chance [],
        says "LS-005" "a renewal by 10000 ms"),
    bent!("no-fence", "anybody completes what runs: G-15", lease::NoFence,
        must ["LS-006", "IN-005", "CC-009", "CK-007", "LZ-001", "PB-001", "PB-003"], chance [],
        says "LS-006" "a zombie's completion while its successor runs: expected Fenced(Running), got Completed"),
    bent!("release-unfenced", "anybody releases and parks what runs: G-15", lease::ReleaseUnfenced,
        must ["LS-008", "IN-005", "LZ-001", "PB-001", "PB-003"], chance [],
        says "LS-008" "a zombie's release: expected Fenced(Running), got Released"),
    bent!("renew-always-ok", "every renewal is a success: G-15", lease::RenewAlwaysOk,
        must ["LS-007", "LS-011", "LS-016", "IN-005", "EX-008", "CC-010", "PB-001", "PB-003"], chance [],
        says "LS-007" "a zombie's renewal: expected Fenced(Running), got Renewed"),
    bent!("never-lapses", "leases never lapse: G-13", lease::NeverLapses,
        must ["FP-003", "LS-002", "LS-003", "LS-006", "LS-007", "LS-008", "LS-009", "LS-010", "LS-012", "LS-014",
            "LS-016", "LS-022", "CK-005", "CK-007", "CC-009", "PB-003"], chance [],
        says "LS-003" "the takeover must be granted: got InProgress"),
    bent!("lapse-ends-the-holder", "a lapse alone fences the holder: G-15", lease::LapseEndsTheHolder,
        must ["LS-013", "CC-009", "CC-010", "PB-003"], chance [],
        says "LS-013" "a late renewal: expected Renewed"),
    bent!("writes-on-look", "an answer in progress writes: G-34", lease::WritesOnLook,
        must ["LS-001", "CC-004", "LD-002", "CK-008", "PB-001", "PB-003"], chance [],
        says "LS-001" "attempt and version of the answer"),
];

const RECOVERY: &[Mutant] = &[
    bent!("re-executes", "a takeover runs the effect again: G-18", recovery::ReExecutes,
        must ["LS-014", "LS-003", "LS-009", "LS-010", "FP-003", "CC-009", "CC-010", "PB-003"], chance [],
        says "LS-014" "mode of a takeover (opaque): expected Recover, got Execute"),
    bent!("class-of-the-latest", "a grant overwrites the class of its chain: G-19", recovery::ClassOfTheLatest,
        must ["LS-022", "PB-001", "PB-003"], chance [],
        says "LS-022" "the class that grant 1 tells (keyed over opaque): expected Opaque, got Keyed"),
    bent!("release-launders", "a recoverer releases without reason: G-19", recovery::ReleaseLaunders,
        must ["LS-015", "PB-001", "PB-003"], chance [],
        says "LS-015" "a release without reason"),
    bent!("takes-without-recovery", "one who cannot recover takes over: G-23", recovery::TakesWithoutRecovery,
        must ["LS-002", "LS-016", "PB-003"], chance [],
        says "LS-016" "a claim that cannot recover, over a lapse"),
    bent!("ended-granted-again", "ended attempts are granted again: G-12", recovery::EndedGrantedAgain,
        must ["LS-017", "PB-001", "PB-003"], chance ["LZ-001", "LZ-004"],
        says "LS-017" "the released attempt's claim, while nobody holds it: expected Ended, got Granted"),
    bent!("no-attempts-limit", "the limit of attempts is not looked at: G-23", recovery::NoAttemptsLimit,
        must ["LS-012", "PB-003"], chance [],
        says "LS-012" "a takeover beyond the limit must park: got Granted"),
    bent!("checkpoint-overwrites", "a checkpoint replaces the one of its name: G-21", recovery::CheckpointOverwrites,
        must ["LS-019", "PB-001", "PB-003"], chance [],
        says "LS-019" "another value under its name"),
    bent!("resolves-blindly", "a verdict is applied to what changed since: G-22", recovery::ResolvesBlindly,
        must ["LS-020", "PB-001", "PB-003"], chance [],
        says "LS-020" "a verdict on what has changed since"),
    bent!("resolves-at-once", "'did not happen' is believed at once: G-22", recovery::ResolvesAtOnce,
        must ["LS-021", "IN-004", "PB-001", "PB-003"], chance [],
        says "LS-021" "the verdict at"),
];

const REPLAY: &[Mutant] = &[
    bent!("lossy-utf8", "bodies are text: G-30", replay::LossyText,
        must ["RP-003", "RP-005", "PB-001", "PB-003"], chance [],
        says "RP-003" "first wrong byte: Some(128)"),
    bent!("nul-truncation", "a body ends at a zero byte: G-30", replay::NulTruncation,
        must ["RP-003", "RP-004", "PB-001", "PB-003"], chance [],
        says "RP-004" "first is replayed as"),
    bent!("empty-becomes-absent", "an empty body is none: G-30", replay::EmptyBecomesAbsent,
        must ["RP-002", "PB-001", "PB-003"], chance [],
        says "RP-002" "empty is replayed as"),
    bent!("line-ends", "line ends are made the same: G-30", replay::LineEnds,
        must ["RP-001"], chance [],
        says "RP-001" "json is replayed as"),
    bent!("headers-as-map", "headers are a map: G-30", replay::HeadersAsMap,
        must ["RP-006", "PB-001", "PB-003"], chance [],
        says "RP-006" "few is replayed as"),
    bent!("string-built", "a reference ends at a quote: G-101", replay::StringBuilt,
        must ["IN-004"], chance [],
        says "IN-004" "must be read back"),
    bent!("size-clamp", "what is too large is cut: G-33", replay::SizeClamp,
        must ["RP-005"], chance [],
        says "RP-005" "must complete without content"),
    bent!("refuses-too-large", "what is too large is refused: G-17, G-33", replay::RefusesTooLarge,
        must ["RP-005"], chance [],
        says "RP-005" "the store failed instead of answering: InvalidInput"),
    bent!("live-clock", "a replay is completed now: G-30", replay::LiveClock,
        must ["RP-007", "CK-006", "PB-003"], chance [],
        says "RP-007" "the first one was"),
    bent!("served-until-swept", "a response is served until it is swept: G-41", replay::ServedUntilSwept,
        must ["RP-010", "EX-008", "CK-006", "PB-003"], chance [],
        says "RP-010" "a claim at the response deadline (swept: false): got Replay"),
];

const RETENTION: &[Mutant] = &[
    bent!("deletes-tombstones", "the record goes with its response: G-41", retention::DeletesTombstones,
        must ["EX-002", "EX-003", "RP-010", "PB-001", "PB-003"], chance [],
        says "EX-002" "what the sweep erased and purged"),
    bent!("purges-lapsed", "a sweep removes what lapsed: G-42", retention::PurgesLapsed,
        must ["EX-006", "EX-010", "PB-003"], chance [],
        says "EX-006" "a sweep over unfinished operations"),
    bent!("purges-early", "a sweep forgets a fence that may be reached again: G-14", retention::PurgesEarly,
        must ["EX-001", "PB-003"], chance [],
        says "EX-001" "may still be reached by a backward step"),
    bent!("stale-ttl", "the expiry of a row outlives its next grant: G-42", retention::StaleTtl,
        must ["EX-007", "EX-010", "CC-012"], chance ["PB-003"],
        says "EX-010" "is not there"),
    bent!("over-when-swept", "an identity is over when it is swept: G-41", retention::OverWhenSwept,
        must ["EX-007", "EX-008", "EX-010", "LS-004", "CC-012", "PB-003"], chance [],
        says "EX-008" "recovering an expired identity"),
    bent!("unbounded-sweep", "a sweep does everything at once: G-43", retention::UnboundedSweep,
        must ["EX-005"], chance [],
        says "EX-005" "a sweep of 10 purged 25"),
    bent!("forever-is-ten-years", "for ever is ten years: G-40", retention::ForeverIsTenYears,
        must ["EX-002", "EX-004", "EX-010", "PB-001", "PB-003"], chance [],
        says "EX-004" "is not there"),
    bent!("zero-is-forever", "a response time of zero keeps the response: G-40", retention::ZeroIsForever,
        must ["EX-011", "PB-001", "PB-003"], chance [],
        says "EX-011" "the next claim: got Replay"),
    bent!("erase-deletes", "erasing removes the record: G-44", retention::EraseDeletes,
        must ["EX-009", "PB-001", "PB-003"], chance [],
        says "EX-009" "is not there"),
    bent!("skips-on-pages", "pages leave out a record: G-90", retention::SkipsOnPages,
        must ["LD-003", "PB-001", "PB-003"], chance [],
        says "LD-003" "records on all pages"),
];

const CLOCKS: &[Mutant] = &[
    bent!("trusts-client-clock", "the caller's clock decides: G-60", clocks::TrustsTheClient,
        must ["CK-001", "CK-002"], chance [],
        says "CK-001" "a fast client's claim while the lease runs: got Granted"),
    bent!("whole-seconds", "times are whole seconds: G-61", clocks::WholeSeconds,
        must ["CK-004", "CK-005", "CK-006", "EX-001", "EX-008", "LS-002", "LS-018", "RP-010", "PB-003"], chance [],
        says "CK-006" "the deadline of a lease of 1 ms"),
    bent!("local-time", "times are those of the session's zone: G-60", clocks::LocalTime,
        must ["CK-008"], chance [],
        says "CK-008" "a claim from another time zone: got Granted"),
];

const INPUT: &[Mutant] = &[
    bent!("payload-unlimited", "payloads of any size are kept: G-24", input::PayloadUnlimited,
        must ["IN-002"], chance [],
        says "IN-002" "a payload one byte too large"),
    bent!("empty-payload-is-none", "an empty payload is none: G-24", input::EmptyPayloadIsNone,
        must ["IN-001", "PB-001", "PB-003"], chance [],
        says "IN-001" "the empty payload that is read"),
    bent!("payload-is-text", "payloads are text: G-24", input::PayloadIsText,
        must ["IN-003"], chance [],
        says "IN-003" "the payload of all bytes"),
    bent!("local-accepted", "class Local is taken from everybody: G-18", input::LocalAccepted,
        must ["IN-007"], chance [],
        says "IN-007" "a claim of class Local"),
];

const FOLDERS: &[Mutant] = &[
    folder!("nothing-written", "everything stays in the handle's memory: G-62", Defect::NothingWritten,
        must ["RP-009", "PB-002", "CC-003", "CR-002", "CR-003", "CR-006", "CR-007", "CR-008", "CR-012", "CR-014",
            "CR-015"], chance [],
        says "RP-009" "is not there"),
    folder!("write-behind", "a write is kept back until the next: G-62", Defect::WriteBehind,
        must ["CC-003", "CR-002", "CR-003", "CR-006", "CR-007", "CR-008", "CR-012", "PB-002"], chance ["CR-015"],
        says "CR-003" "is not there"),
    folder!("per-process-lock", "the lock is the process's: G-10", Defect::LockByProcess,
        must ["CC-003"], chance [],
        says "CC-003" "processes that were granted operation"),
    folder!("stale-lock", "a lock outlives its process: G-62", Defect::StaleLock,
        must ["CC-003", "CR-001", "CR-002", "CR-003", "CR-006", "CR-007", "CR-008", "CR-012", "CR-013", "CR-014",
            "CR-015"], chance [],
        says "CR-001" "another process has it"),
    folder!("torn-write", "a file is emptied before it is filled: G-53, G-62", Defect::TornWrite,
        must ["CC-003", "CR-002", "CR-013"], chance ["CR-015"],
        says "CR-002" "Corrupt"),
    folder!("one-shot-migration", "a migration that was begun cannot be run again: G-102", Defect::OneShotMigration,
        must ["CR-014"], chance ["CC-003"],
        says "CR-014" "the folder cannot be opened"),
    folder!("blind-rerun", "a recovery is told to execute: G-18", Defect::BlindRerun,
        must ["CR-003", "CR-007", "CR-012", "PB-002"], chance [],
        says "CR-007" "the reconciler's mode: expected Recover, got Execute"),
    folder!("loses-notes", "a takeover loses what was noted: G-21", Defect::LosesNotes,
        must ["CR-007", "CR-008", "CR-012", "PB-002"], chance [],
        says "CR-008" "the modes of all attempts"),
];

/// Stores that are odd and right: nothing may fail on them.
const VARIANTS: &[Mutant] = &[
    bent!("plain", "nothing", odd::Plain, must [], chance [], says "ID-001" ""),
    bent!("slow", "nothing: calls take time", odd::Slow::default(), must [], chance [], says "ID-001" ""),
    bent!("jittery", "nothing: calls give way", odd::Jittery::default(), must [], chance [], says "ID-001" ""),
    bent!("sparse-fences", "nothing: fences skip numbers", odd::SparseFences, must [], chance [], says "ID-001" ""),
    bent!("delayed-sweep", "nothing: every other sweep does nothing", odd::DelayedSweep,
        must [], chance [], says "ID-001" ""),
    folder!("folder", "nothing, in a folder of files", Defect::None, must [], chance [], says "ID-001" ""),
];

/// Scenarios that kill no mutant yet, and why.
pub(crate) const PENDING: &[(&str, &str)] = &[
    ("TX-001", "needs a broken store with transactions"),
    ("TX-002", "needs a broken store with transactions"),
    ("TX-003", "needs a broken store with transactions"),
    ("TX-004", "needs a broken store with transactions"),
    ("TX-005", "needs a broken store with transactions"),
    ("TX-006", "needs a broken store with transactions"),
    ("TX-007", "needs a broken store with transactions"),
    ("TX-008", "needs a broken store with transactions"),
    ("TX-009", "needs a broken store with transactions"),
    ("CR-004", "needs a broken store with transactions"),
    ("CR-005", "needs a broken store with transactions"),
    ("NF-009", "needs a broken store with transactions"),
];

/// Where a broken store of the catalogue is.
pub(crate) enum Covered {
    By(&'static [&'static str]),
    Pending(&'static str),
}

use Covered::{By, Pending};

/// The broken stores that the catalogue names.
pub(crate) const ROWS: &[(&str, Covered)] = &[
    ("scope ignored ID-002", By(&["scope-ignored", "operation-ignored"])),
    ("delimiter join ID-004", By(&["delimiter-join"])),
    ("case fold ID-005", By(&["case-fold"])),
    ("truncated key ID-006", By(&["truncated-key"])),
    ("conflict only while running FP-002", By(&["conflict-only-while-running"])),
    ("takeover replaces fingerprint FP-003", By(&["takeover-replaces-fingerprint"])),
    ("conflict overwrites FP-004", By(&["conflict-overwrites"])),
    ("check-then-insert CC-001", By(&["check-then-insert"])),
    ("per-handle lock CC-002", By(&["per-handle-lock"])),
    ("per-process lock CC-003", By(&["per-process-lock"])),
    ("lost wake-up CC-004", By(&["lost-wake-up"])),
    ("attempt-blind CC-007", By(&["attempt-blind"])),
    ("attempt-blind NF-003", Pending("needs the proxy (N)")),
    ("last complete wins CC-008", By(&["last-complete-wins"])),
    (">= for > LS-002", By(&["off-by-one"])),
    ("fence not raised LS-003/006", By(&["fence-not-raised"])),
    ("fence reused LS-004/CC-006", By(&["fence-reused"])),
    ("renew accumulates LS-005", By(&["renew-accumulates"])),
    ("no fence LS-006", By(&["no-fence", "release-unfenced"])),
    ("renew always ok LS-007/011", By(&["renew-always-ok"])),
    ("never lapses LS-003", By(&["never-lapses"])),
    ("re-executes on takeover LS-014", By(&["re-executes"])),
    ("effect first CR-004", Pending("needs the caller's transaction (T)")),
    ("record first CR-005/TX-001", Pending("needs the caller's transaction (T)")),
    ("blind external rerun CR-007", By(&["blind-rerun"])),
    ("new event id CR-010/OB-002", Pending("needs the outbox (O)")),
    ("marked before publish CR-009", Pending("needs the outbox (O)")),
    ("non-idempotent migration CR-014", By(&["one-shot-migration"])),
    ("sync off CR-017", Pending("needs a hook that reads the settings back (F)")),
    ("lossy UTF-8 RP-003", By(&["lossy-utf8"])),
    ("NUL truncation RP-004", By(&["nul-truncation"])),
    ("empty becomes absent RP-002", By(&["empty-becomes-absent"])),
    ("size clamp RP-005", By(&["size-clamp"])),
    ("live clock in body RP-007", By(&["live-clock"])),
    ("delete instead of tombstone EX-002", By(&["deletes-tombstones"])),
    ("purge ignores leases EX-006", By(&["purges-lapsed"])),
    ("stale TTL EX-010", By(&["stale-ttl"])),
    ("release launders recovery LS-015", By(&["release-launders"])),
    ("takeover by one who cannot recover LS-016", By(&["takes-without-recovery"])),
    ("ended id granted LS-017", By(&["ended-granted-again"])),
    ("trusts client clock CK-001", By(&["trusts-client-clock"])),
    ("seconds rounding CK-006", By(&["whole-seconds"])),
    ("autocommit inside a transaction TX-002", Pending("needs the caller's transaction (T)")),
    ("fence checked outside TX-006", Pending("needs the caller's transaction (T)")),
    ("timeout becomes not-found NF-004", Pending("needs the proxy (N)")),
    ("swallows busy NF-009", Pending("needs a store with a busy lock (M) and its hook")),
    ("swallows full disk NF-010", Pending("needs storage faults (F)")),
    ("string-built SQL IN-004", By(&["string-built"])),
    ("stale read LZ-001", By(&["stale-read"])),
    ("lost complete acknowledgement LZ-001", By(&["lost-completion"])),
    ("relaxed publish LM-004", Pending("needs the loom models")),
    ("effect rerun when the result is too big RP-005", By(&["refuses-too-large"])),
];
