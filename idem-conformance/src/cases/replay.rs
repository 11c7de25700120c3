//! The same answer again (G-30 to G-33).

use idem_core::answer::{Claimed, Completed, Registered, Released};
use idem_core::clock::{Clock, SystemClock};
use idem_core::request::{Register, Release, SaveCheckpoint};
use idem_core::{
    Claim, Content, Mode, Omission, Outcome, OutcomeKind, Retention, Store, StoredOutcome, Ttl, View,
};

use crate::capability::Capability;
use crate::env::{
    Env, claim, complete, complete_with, completed, granted, id, intent, label, lease_ms, other_intent,
    record, replayed, sweep_all, unchanged,
};
use crate::evidence::Fact;
use crate::failure::{Verdict, ensure, ensure_eq, ensure_let};
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Replay,
        "RP-001",
        "text",
        &["G-30"],
        "Text comes back as it was given: empty lines, quotes, several scripts, 64 KiB of it (or as much as the store keeps).",
        |env| Box::pin(text(env)),
    )
    .evidence(&[(Fact::Checks, 15), (Fact::Bytes, 1_024)]),
    Scenario::new(
        Family::Replay,
        "RP-002",
        "empty_is_not_absent",
        &["G-30"],
        "No body, an empty one, `null`, `false`, `0` and white space are all different, and so are no reference and an \
         empty one, no header and an empty one, a failure without class and a success.",
        |env| Box::pin(empty_is_not_absent(env)),
    )
    .evidence(&[(Fact::Checks, 33)]),
    Scenario::new(
        Family::Replay,
        "RP-003",
        "all_byte_values",
        &["G-30"],
        "Bodies and headers hold every byte value, also where it is not UTF-8.",
        |env| Box::pin(all_byte_values(env)),
    )
    .evidence(&[(Fact::Checks, 18), (Fact::Bytes, 512)]),
    Scenario::new(
        Family::Replay,
        "RP-004",
        "embedded_nul",
        &["G-30"],
        "A zero byte at the beginning, in the middle and at the end of bodies and headers ends nothing.",
        |env| Box::pin(embedded_nul(env)),
    )
    .evidence(&[(Fact::Checks, 12)]),
    Scenario::new(
        Family::Replay,
        "RP-005",
        "too_large_keeps_everything_but_the_content",
        &["G-33", "G-17"],
        "An outcome of exactly the limit is kept whole. One byte more completes without content: kind, class, \
         reference, length and digest stay, it is replayed so, and the effect does not run again.",
        |env| Box::pin(too_large_keeps_everything_but_the_content(env)),
    )
    .evidence(&[(Fact::Checks, 17), (Fact::Bytes, 1_024)]),
    Scenario::new(
        Family::Replay,
        "RP-006",
        "headers",
        &["G-30"],
        "Headers come back in their order, with duplicates, in their spelling.",
        |env| Box::pin(headers(env)),
    )
    .evidence(&[(Fact::Checks, 6)]),
    Scenario::new(
        Family::Replay,
        "RP-007",
        "replays_are_stable",
        &["G-30"],
        "A thousand replays are equal, while time passes and other operations are written, and they change nothing in \
         the record.",
        |env| Box::pin(replays_are_stable(env)),
    )
    .evidence(&[(Fact::Checks, 1_000), (Fact::Calls, 1_000)]),
    Scenario::new(
        Family::Replay,
        "RP-008",
        "failures_are_retained_or_released",
        &["G-31"],
        "A permanent failure is replayed. A failure without effect is released and the same key runs again; it can \
         forget the intent, but not where an attempt may have had an effect.",
        |env| Box::pin(failures_are_retained_or_released(env)),
    )
    .evidence(&[(Fact::Checks, 22)]),
    Scenario::new(
        Family::Replay,
        "RP-009",
        "everything_is_there_after_reopening",
        &["G-62", "G-30"],
        "After every handle was closed and the store was opened again, outcomes, registrations, holders and parked \
         operations are as they were.",
        |env| Box::pin(everything_is_there_after_reopening(env)),
    )
    .needs(&[Capability::Reopen])
    .evidence(&[(Fact::Checks, 12), (Fact::Handles, 2)]),
    Scenario::new(
        Family::Replay,
        "RP-010",
        "an_expired_body_is_explicit",
        &["G-41", "G-30"],
        "One millisecond before the response deadline the outcome is replayed, at the deadline the answer is Expired \
         with kind, class, reference and time, and the content can no longer be read, swept or not.",
        |env| Box::pin(an_expired_body_is_explicit(env)),
    )
    .needs(&[Capability::Clock])
    .evidence(&[(Fact::Checks, 8)]),
];

/// Completes an operation with `outcome`; what is replayed and what is read must be exactly that.
async fn keeps(env: &Env, store: &dyn Store, key: &str, outcome: Outcome) -> Verdict {
    let expected = StoredOutcome::of(&outcome, outcome.digest(), None);
    let bytes = outcome.content_bytes();
    let grant = granted(env, store, &claim(&id(key)), key).await?;
    let answer = store.complete(&complete_with(&grant, outcome)).await?;
    ensure_let!(env, answer; Completed::Completed { body_omitted: false, .. }, "{key} must be completed whole");
    let replay = replayed(env, store, &claim(&id(key)), key).await?;
    same(env, &replay.outcome, &expected, key)?;
    let read = record(store, &id(key)).await?.outcome;
    ensure!(env, read.as_deref() == Some(&expected), "{key} is read as {read:?}, not {expected:?}");
    env.saw(Fact::Bytes, bytes as u64);
    Ok(())
}

/// Says what differs: `Debug` shows lengths alone.
fn same(env: &Env, got: &StoredOutcome, expected: &StoredOutcome, what: &str) -> Verdict {
    let (body, expected_body) = (got.body(), expected.body());
    let first = body.zip(expected_body).and_then(|(got, expected)| {
        (0..expected.len().max(got.len())).find(|index| got.get(*index) != expected.get(*index))
    });
    ensure!(
        env,
        got == expected,
        "{what} is replayed as {got:?}, not {expected:?} (first wrong byte: {first:?})"
    );
    Ok(())
}

async fn text(env: &Env) -> Verdict {
    let store = env.open().await?;
    let mut long = "0123456789abcde\n".repeat(4_096);
    // The header counts too.
    long.truncate(store.capabilities().limits.body_bytes_max.saturating_sub(64));
    for (key, body) in [
        ("plain", "paid"),
        ("json", "{\"id\": \"\\u0000\", \"amount\": 10.50, \"note\": \"it's \\\"fine\\\"\"}\r\n\r\n"),
        ("scripts", "\u{feff}\u{5d0}\u{5d1} \u{4f60}\u{597d} \u{1f9fe} e\u{301} \u{202e}abc"),
        ("quotes", "'; DROP TABLE operations; -- %s {0} $1 ?1 :name @x"),
        ("long", &long),
    ] {
        let outcome = Outcome::success()
            .body(body.to_owned())
            .reference("invoice-9")
            .header("content-type", "text/plain");
        keeps(env, &*store, key, outcome).await?;
    }
    Ok(())
}

async fn empty_is_not_absent(env: &Env) -> Verdict {
    let store = env.open().await?;
    for (key, outcome) in [
        ("absent", Outcome::success()),
        ("empty", Outcome::success().body("")),
        ("null", Outcome::success().body("null")),
        ("false", Outcome::success().body("false")),
        ("zero", Outcome::success().body("0")),
        ("blank", Outcome::success().body(" ")),
        ("empty reference", Outcome::success().body("x").reference("")),
        ("empty header", Outcome::success().header("", "")),
        ("empty value", Outcome::success().header("x", "").body("")),
        ("failure", Outcome::failure("")),
        ("failure with class", Outcome::failure("card_declined").body("")),
    ] {
        keeps(env, &*store, key, outcome).await?;
    }
    Ok(())
}

async fn all_byte_values(env: &Env) -> Verdict {
    let store = env.open().await?;
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let backwards: Vec<u8> = (0..=u8::MAX).rev().collect();
    for (key, body) in [
        ("all", all.clone()),
        ("backwards", backwards),
        ("lone continuation", b"\x80\xbf".to_vec()),
        ("cut sequence", b"caf\xc3".to_vec()),
        ("surrogate", b"\xed\xa0\x80".to_vec()),
    ] {
        keeps(env, &*store, key, Outcome::success().body(body)).await?;
    }
    keeps(env, &*store, "header", Outcome::success().header(all.clone(), all)).await
}

async fn embedded_nul(env: &Env) -> Verdict {
    let store = env.open().await?;
    for (key, body) in
        [("first", &b"\0after"[..]), ("middle", b"be\0fore"), ("last", b"before\0"), ("only", b"\0\0")]
    {
        keeps(env, &*store, key, Outcome::success().body(body).header("x-nul", body)).await?;
    }
    Ok(())
}

async fn too_large_keeps_everything_but_the_content(env: &Env) -> Verdict {
    let store = env.open().await?;
    let limit = store.capabilities().limits.body_bytes_max;
    let shaped = |body_bytes: usize| {
        Outcome::failure("too_long").reference("report-9").header("x", "1234567").body(vec![0xa5; body_bytes])
    };
    keeps(env, &*store, "at the limit", shaped(limit - 8)).await?;
    for (key, outcome) in [
        ("body over", shaped(limit - 7)),
        ("headers over", Outcome::failure("too_long").reference("report-9").header("x", vec![0xa5; limit])),
    ] {
        let own = claim(&id(key));
        let grant = granted(env, &*store, &own, key).await?;
        let request = complete_with(&grant, outcome.clone());
        let answer = store.complete(&request).await?;
        ensure_let!(env, answer; Completed::Completed { body_omitted: true, .. }, "{key} must complete without content");
        let expected = StoredOutcome::of(&outcome, outcome.digest(), Some(Omission::TooLarge));
        let replay = replayed(env, &*store, &claim(&id(key)), "what was too large").await?;
        same(env, &replay.outcome, &expected, key)?;
        let content = Content::Omitted { content_bytes: limit as u64 + 1, why: Omission::TooLarge };
        ensure_eq!(env, replay.outcome.content, content, "the length and why");
        ensure_eq!(
            env,
            store.complete(&request).await?,
            Completed::AlreadyCompleted,
            "the same completion again"
        );
        let other = store.complete(&complete(&grant, "small")).await?;
        ensure_eq!(env, other, Completed::OutcomeConflict, "another completion");
        let view = record(&*store, &id(key)).await?.view(env.now(), 0);
        ensure_eq!(env, view, View::Completed, "the view of what was too large");
    }
    Ok(())
}

async fn headers(env: &Env) -> Verdict {
    let store = env.open().await?;
    let outcome = Outcome::success()
        .header("Set-Cookie", "b=2")
        .header("set-cookie", "a=1")
        .header("Set-Cookie", "b=2")
        .header("X-Trailing ", " value ")
        .header("content-type", "text/plain; charset=\"utf-8\"")
        .header("A", "first in the alphabet, last in the list");
    keeps(env, &*store, "few", outcome).await?;
    let many = (0..200).fold(Outcome::success(), |outcome, index| {
        outcome.header(format!("x-{:03}", (index * 37) % 200), format!("{index}"))
    });
    keeps(env, &*store, "many", many).await
}

async fn replays_are_stable(env: &Env) -> Verdict {
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("k")), "the claim").await?;
    completed(env, &*store, &complete(&grant, "the one answer"), "it").await?;
    let first = replayed(env, &*store, &claim(&id("k")), "the first").await?;
    let before = record(&*store, &id("k")).await?;
    let started = SystemClock.elapsed();
    let mut count = 1;
    // Time has to pass, or an answer that is made up from the clock would look stable.
    while count < 1_000 || SystemClock.elapsed().saturating_sub(started).as_millis() < 20 {
        let again = replayed(env, &*store, &claim(&id("k")), "each replay").await?;
        ensure!(env, again == first, "replay {count} is {again:?}, the first one was {first:?}");
        if count % 100 == 0 {
            let newer =
                granted(env, &*store, &claim(&id(&format!("newer-{count}"))), "a newer operation").await?;
            completed(env, &*store, &complete(&newer, "newer"), "a newer operation").await?;
        }
        count += 1;
    }
    unchanged(env, &*store, &before, "replaying").await
}

/// A claim with another intent.
fn corrected(key: &str) -> Claim {
    Claim::new(id(key), other_intent(), label("suite")).lease(lease_ms(3_600_000))
}

async fn failures_are_retained_or_released(env: &Env) -> Verdict {
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("permanent")), "the claim").await?;
    let declined = Outcome::failure("card_declined").body("no").reference("r-1");
    completed(env, &*store, &complete_with(&grant, declined), "it").await?;
    let replay = replayed(env, &*store, &claim(&id("permanent")), "a permanent failure").await?;
    let shown = (replay.outcome.kind, replay.outcome.class.clone());
    ensure_eq!(env, shown, (OutcomeKind::Failure, Some(label("card_declined"))), "kind and class");

    let grant = granted(env, &*store, &claim(&id("released")), "the claim").await?;
    let answer = store.release(&Release::new(grant.held())).await?;
    ensure_eq!(env, answer, Released::Released { forgotten: false }, "a release");
    ensure_eq!(
        env,
        store.claim(&corrected("released")).await?,
        Claimed::Conflict,
        "another intent after a release"
    );
    let again = granted(env, &*store, &claim(&id("released")), "the same intent after a release").await?;
    ensure_eq!(env, (again.number, again.mode), (2, Mode::Execute), "number and mode after a release");

    let grant = granted(env, &*store, &claim(&id("forgotten")), "the claim").await?;
    let answer = store.release(&Release::new(grant.held()).forget()).await?;
    ensure_eq!(env, answer, Released::Released { forgotten: true }, "a forgetting release");
    granted(env, &*store, &corrected("forgotten"), "the corrected request").await?;
    let answer = store.claim(&claim(&id("forgotten"))).await?;
    ensure_eq!(env, answer, Claimed::Conflict, "the first intent after the corrected one");
    forgetting_is_refused_after_a_possible_effect(env, &*store).await
}

async fn forgetting_is_refused_after_a_possible_effect(env: &Env, store: &dyn Store) -> Verdict {
    let answer = store.register(&Register::new(id("registered"), intent())).await?;
    ensure_eq!(env, answer, Registered::Created, "a registration");
    let registered =
        granted(env, store, &claim(&id("registered")), "the claim of what was registered").await?;
    let recorded = granted(env, store, &claim(&id("recorded")), "the claim").await?;
    store.checkpoint(&SaveCheckpoint::new(recorded.held(), label("sent"), "x", lease_ms(3_600_000))).await?;
    let parked = crate::env::parked(env, store, "recovered").await?;
    let recovered = granted(env, store, &crate::env::recover(&parked.id), "the recovery").await?;
    let reason = idem_core::record::AbsenceReason::FencedOff;
    for (grant, absence, what) in [
        (registered, None, "was registered"),
        (recorded, None, "has a checkpoint"),
        (recovered, Some(reason), "was recovered"),
    ] {
        let mut request = Release::new(grant.held()).forget();
        request.absence = absence;
        let answer = store.release(&request).await?;
        ensure_eq!(
            env,
            answer,
            Released::Released { forgotten: false },
            "a forgetting release of what {what}"
        );
        let key = grant.id.key().to_owned();
        ensure_eq!(
            env,
            store.claim(&corrected(&key)).await?,
            Claimed::Conflict,
            "another intent for what {what}"
        );
    }
    Ok(())
}

async fn everything_is_there_after_reopening(env: &Env) -> Verdict {
    let own = claim(&id("running"));
    let (before, grant) = {
        let store = env.open().await?;
        store.register(&Register::new(id("received"), intent()).payload("payload")).await?;
        let grant = granted(env, &*store, &own, "the running one").await?;
        let done = granted(env, &*store, &claim(&id("completed")), "the completed one").await?;
        let outcome = Outcome::failure("declined").body(&b"\0\xff"[..]).header("a", "b").reference("r");
        completed(env, &*store, &complete_with(&done, outcome), "it").await?;
        crate::env::parked(env, &*store, "uncertain").await?;
        let mut before = Vec::new();
        for key in ["received", "running", "completed", "uncertain"] {
            before.push(record(&*store, &id(key)).await?);
        }
        (before, grant)
    };
    let store = env.open().await?;
    for record in &before {
        unchanged(env, &*store, record, "reopening").await?;
    }
    let again = granted(env, &*store, &own, "the holder's repeated claim").await?;
    ensure_eq!(env, (again.fence, again.again), (grant.fence, true), "fence of the repeated claim");
    replayed(env, &*store, &claim(&id("completed")), "the completed one").await?;
    completed(env, &*store, &complete(&grant, "later"), "the holder's operation").await?;
    let worker = granted(env, &*store, &claim(&id("received")), "what was registered").await?;
    ensure_eq!(env, worker.payload.as_deref(), Some(&b"payload"[..]), "the payload");
    Ok(())
}

async fn an_expired_body_is_explicit(env: &Env) -> Verdict {
    let store = env.open().await?;
    let grant = granted(env, &*store, &claim(&id("k")), "the claim").await?;
    let outcome = Outcome::failure("declined").body("secret").header("a", "b").reference("r-1");
    let mut request = complete_with(&grant, outcome);
    request.retention = Retention::forever().response(Ttl::Millis(1_500))?;
    completed(env, &*store, &request, "it").await?;
    let completed_at = env.now();
    env.clock()?.advance_ms(1_499);
    replayed(env, &*store, &claim(&id("k")), "the outcome before its deadline").await?;
    env.clock()?.advance_ms(1);
    for swept in [false, true] {
        let answer = store.claim(&claim(&id("k"))).await?;
        let expired = ensure_let!(
            env, answer; Claimed::Expired(expired) => expired, "a claim at the response deadline (swept: {swept})"
        );
        let shown = (expired.kind, expired.class, expired.reference.as_deref(), expired.completed_at);
        let expected = (OutcomeKind::Failure, Some(label("declined")), Some("r-1"), completed_at);
        ensure_eq!(env, shown, expected, "kind, class, reference and time");
        let outcome = record(&*store, &id("k")).await?.outcome;
        let omission = outcome.as_ref().and_then(|outcome| outcome.omission());
        ensure_eq!(env, omission, Some(Omission::Expired), "what is read after the deadline");
        sweep_all(env, &*store).await?;
    }
    Ok(())
}
