//! What callers send (G-02, G-50, G-101).

use idem_core::answer::{Checkpointed, Claimed, Completed, Parked, Registered, Released, Renewed, Resolved};
use idem_core::request::{
    Complete, Held, Intent, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
    Verdict as Decision,
};
use idem_core::{
    AttemptId, Claim, EffectClass, ErrorKind, Label, OperationId, Outcome, REFERENCE_BYTES_MAX, Retention,
    Store, View,
};

use crate::env::{
    Env, claim, complete, complete_with, completed, granted, id, id_of, intent, label, lease_ms, parked,
    record, replayed, unchanged,
};
use crate::evidence::Fact;
use crate::failure::{Verdict, ensure, ensure_eq, ensure_let};
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Input,
        "IN-001",
        "empty_parts_are_refused",
        &["G-02", "G-50"],
        "Empty and blank parts are InvalidInput before anything is stored; an empty payload is not an absent one.",
        |env| Box::pin(empty_parts_are_refused(env)),
    )
    .evidence(&[(Fact::Checks, 12)]),
    Scenario::new(
        Family::Input,
        "IN-002",
        "oversize_is_refused_or_cut",
        &["G-24", "G-17", "G-50"],
        "A payload of exactly the limit is kept, one byte more is InvalidInput and stores nothing; an overlong \
         reference or class completes, cut and flagged.",
        |env| Box::pin(oversize_is_refused_or_cut(env)),
    )
    .evidence(&[(Fact::Checks, 9)]),
    Scenario::new(
        Family::Input,
        "IN-003",
        "control_characters_are_refused_and_bytes_are_kept",
        &["G-02", "G-24"],
        "Control characters in parts and labels are refused; payloads and checkpoints hold any bytes.",
        |env| Box::pin(control_characters_are_refused_and_bytes_are_kept(env)),
    )
    .evidence(&[(Fact::Checks, 70)]),
    Scenario::new(
        Family::Input,
        "IN-004",
        "metacharacters_are_only_characters",
        &["G-101"],
        "What means something to SQL, Lua, expressions, patterns or shells is stored and read back as it is, in every \
         text of a record, and harms no other record.",
        |env| Box::pin(metacharacters_are_only_characters(env)),
    )
    .evidence(&[(Fact::Checks, 100)]),
    Scenario::new(
        Family::Input,
        "IN-005",
        "an_unknown_attempt_is_fenced",
        &["G-15"],
        "Held writes by an attempt that the store never saw, or of another operation, are fenced in every state, change \
         nothing and create nothing.",
        |env| Box::pin(an_unknown_attempt_is_fenced(env)),
    )
    .evidence(&[(Fact::Checks, 40)]),
    Scenario::new(
        Family::Input,
        "IN-007",
        "class_local_is_refused",
        &["G-18", "G-50"],
        "A claim of class Local outside the store's own transaction is Unsupported and stores nothing.",
        |env| Box::pin(class_local_is_refused(env)),
    )
    .evidence(&[(Fact::Checks, 3)]),
];

/// Nothing at all is stored.
async fn nothing_stored(env: &Env, store: &dyn Store, after: &str) -> Verdict {
    let listed = store.list(&Query::all()).await?;
    ensure!(env, listed.records.is_empty(), "{} records are stored after {after}", listed.records.len());
    Ok(())
}

async fn empty_parts_are_refused(env: &Env) -> Verdict {
    let store = env.open().await?;
    for part in ["", " ", "\u{2003}\u{a0}"] {
        for (tenant, operation, key) in [(part, "o", "k"), ("t", part, "k"), ("t", "o", part)] {
            let kind = OperationId::new(tenant, operation, key).err().map(|error| error.kind());
            ensure_eq!(env, kind, Some(ErrorKind::InvalidInput), "the part {part:?}");
        }
    }
    nothing_stored(env, &*store, "empty parts").await?;
    for (key, payload) in [("absent", None), ("empty", Some(&b""[..]))] {
        let mut request = Register::new(id(key), intent());
        request.payload = payload.map(|payload| payload.to_vec().into());
        store.register(&request).await?;
        let stored = record(&*store, &id(key)).await?;
        ensure_eq!(env, stored.payload.as_deref(), payload, "the {key} payload that is read");
        let grant = granted(env, &*store, &claim(&id(key)), "the claim").await?;
        ensure_eq!(env, grant.payload.as_deref(), payload, "the {key} payload that is granted");
    }
    Ok(())
}

async fn oversize_is_refused_or_cut(env: &Env) -> Verdict {
    let store = env.open().await?;
    let limit = store.capabilities().limits.payload_bytes_max;
    let too_large = Register::new(id("large"), intent()).payload(vec![7; limit + 1]);
    let refused = store.register(&too_large).await;
    let kind = refused.as_ref().err().map(idem_core::Error::kind);
    ensure_eq!(env, kind, Some(ErrorKind::InvalidInput), "a payload one byte too large");
    nothing_stored(env, &*store, "a payload too large").await?;
    let answer = store.register(&Register::new(id("large"), intent()).payload(vec![7; limit])).await?;
    ensure_eq!(env, answer, Registered::Created, "the largest payload");
    let grant = granted(env, &*store, &claim(&id("large")), "the claim").await?;
    ensure!(
        env,
        grant.payload.as_deref() == Some(&vec![7; limit][..]),
        "the largest payload must be granted whole"
    );

    let long = "\u{e9}".repeat(REFERENCE_BYTES_MAX);
    completed(env, &*store, &complete_with(&grant, Outcome::failure(&long).reference(&long)), "it").await?;
    let replay = replayed(env, &*store, &claim(&id("large")), "what was cut").await?;
    ensure!(env, replay.outcome.cut, "a cut outcome must be flagged");
    let lengths = (
        replay.outcome.class.as_ref().map(|class| class.as_str().len()),
        replay.outcome.reference.as_deref().map(str::len),
    );
    ensure_eq!(
        env,
        lengths,
        (Some(Label::BYTES_MAX), Some(REFERENCE_BYTES_MAX)),
        "lengths of class and reference"
    );
    Ok(())
}

async fn control_characters_are_refused_and_bytes_are_kept(env: &Env) -> Verdict {
    let store = env.open().await?;
    for control in ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}') {
        ensure!(env, OperationId::new("t", "o", &format!("k{control}")).is_err(), "{control:?} in a key");
        ensure!(env, Label::new(&format!("o{control}")).is_err(), "{control:?} in a label");
    }
    nothing_stored(env, &*store, "control characters").await?;
    let all: Vec<u8> = (0..=u8::MAX).collect();
    store.register(&Register::new(id("k"), intent()).payload(all.clone())).await?;
    let grant = granted(env, &*store, &claim(&id("k")), "the claim").await?;
    ensure_eq!(env, grant.payload.as_deref(), Some(&all[..]), "the payload of all bytes");
    store.checkpoint(&SaveCheckpoint::new(grant.held(), label("all"), all.clone(), lease_ms(1))).await?;
    let stored = record(&*store, &id("k")).await?;
    let values: Vec<_> = stored.checkpoints.iter().map(|fact| &fact.value[..]).collect();
    ensure_eq!(env, values[..], [&all[..]], "the checkpoint of all bytes");
    Ok(())
}

/// Texts that some language or pattern takes for more than characters.
const HOSTILE: &[&str] = &[
    "'; DROP TABLE operations; --",
    "' OR '1'='1",
    "\"; DELETE FROM operations WHERE \"1\"=\"1",
    "$1 ?1 :key @key {0} %s %00 %n",
    "']] error('x') --[[",
    "\") return redis.call(\"FLUSHALL\") --",
    "attribute_not_exists(#k) OR :v = :v",
    "a{b}c:d*?[e]^f\\g/h|i",
    "..\\../../etc/passwd",
    "$(touch x) `touch x` && touch x",
    "\\x00 \\0 \\u0000 \\N \\.",
    "E'\\\\'' $$ $tag$ U&'\\0041'",
    "100%_under_score",
    "<script>&amp;</script>",
    "\u{202e}gnp.exe \u{feff}",
];

async fn metacharacters_are_only_characters(env: &Env) -> Verdict {
    let store = env.open().await?;
    let bystander = granted(env, &*store, &claim(&id("bystander")), "a bystander").await?;
    completed(env, &*store, &complete(&bystander, "untouched"), "a bystander").await?;
    let before = record(&*store, &id("bystander")).await?;
    for text in HOSTILE {
        for id in [id_of(text, "o", "k"), id_of("t", text, "k"), id_of("t", "o", text)] {
            let mut hostile = Claim::new(id.clone(), intent(), label(text)).lease(lease_ms(3_600_000));
            hostile.traceparent = Some(label(text));
            let grant = granted(env, &*store, &hostile, "a hostile claim").await?;
            store.checkpoint(&SaveCheckpoint::new(grant.held(), label(text), *text, lease_ms(1))).await?;
            let outcome = Outcome::failure(text).reference(text).body(*text).header(*text, *text);
            let expected = idem_core::StoredOutcome::of(&outcome, outcome.digest(), None);
            completed(env, &*store, &complete_with(&grant, outcome), "a hostile operation").await?;
            let stored = record(&*store, &id).await?;
            ensure!(env, stored.id == id, "the id with {text:?} must be read back");
            ensure!(
                env,
                stored.outcome.as_deref() == Some(&expected),
                "the outcome of {text:?} must be read back"
            );
            let owner = stored.current.as_ref().map(|attempt| attempt.owner.as_str());
            let name = stored.checkpoints.first().map(|fact| fact.name.as_str());
            let trace = stored.traceparent.as_ref().map(Label::as_str);
            ensure_eq!(
                env,
                (owner, name, trace),
                (Some(*text), Some(*text), Some(*text)),
                "owner, fact and trace"
            );
            let mut query = Query::all();
            query.tenant = Some(id.tenant().to_owned());
            query.operation = Some(id.operation().to_owned());
            let listed = store.list(&query).await?;
            let found = listed.records.iter().filter(|record| record.id == id).count();
            ensure_eq!(env, found, 1, "how often a listing by {text:?} shows the record");
        }
        let parked = parked(env, &*store, &format!("parked {text}")).await?;
        let seen = record(&*store, &parked.id).await?;
        let verdict = Decision::DidNotHappen { settle_ms: 86_400_000 };
        let answer = store.resolve(&Resolve::new(&seen, verdict, label(text), label(text))).await?;
        ensure_let!(env, answer; Resolved::TooEarly { .. }, "a verdict by {text:?}");
    }
    unchanged(env, &*store, &before, "a hostile text").await
}

async fn an_unknown_attempt_is_fenced(env: &Env) -> Verdict {
    let store = env.open().await?;
    let foreign = granted(env, &*store, &claim(&id("elsewhere")), "another operation").await?;
    store.register(&Register::new(id("received"), intent())).await?;
    granted(env, &*store, &claim(&id("running")), "the running one").await?;
    let done = granted(env, &*store, &claim(&id("completed")), "the completed one").await?;
    completed(env, &*store, &complete(&done, "secret"), "it").await?;
    parked(env, &*store, "uncertain").await?;
    for attempt in [AttemptId::random(), foreign.attempt] {
        for (key, view) in [
            ("absent", View::Absent),
            ("received", View::Received),
            ("running", View::Running),
            ("completed", View::Completed),
            ("uncertain", View::Uncertain),
        ] {
            let before = store.get(&id(key)).await?;
            all_fenced(env, &*store, &Held::new(id(key), attempt), view).await?;
            let after = store.get(&id(key)).await?;
            ensure!(
                env,
                before == after,
                "a fenced write changed the {key} record: from {before:?} to {after:?}"
            );
        }
    }
    Ok(())
}

async fn all_fenced(env: &Env, store: &dyn Store, held: &Held, view: View) -> Verdict {
    let lease = lease_ms(9_000_000);
    let answer = store.renew(&Renew::new(held.clone(), lease)).await?;
    ensure_eq!(env, answer, Renewed::Fenced(view), "a foreign renewal");
    let answer = store.checkpoint(&SaveCheckpoint::new(held.clone(), label("x"), "x", lease)).await?;
    ensure_eq!(env, answer, Checkpointed::Fenced(view), "a foreign checkpoint");
    let outcome = Outcome::success().body("secret");
    let answer = store.complete(&Complete::new(held.clone(), outcome, Retention::forever())).await?;
    ensure_eq!(env, answer, Completed::Fenced(view), "a foreign completion");
    let answer = store.release(&Release::new(held.clone())).await?;
    ensure_eq!(env, answer, Released::Fenced(view), "a foreign release");
    let answer = store.park(&Park::new(held.clone())).await?;
    ensure_eq!(env, answer, Parked::Fenced(view), "a foreign parking");
    Ok(())
}

async fn class_local_is_refused(env: &Env) -> Verdict {
    let store = env.open().await?;
    let local = claim(&id("k")).effect(EffectClass::Local);
    for claim in [local.clone(), local.intent(Intent::Recover)] {
        let answer: Result<Claimed, _> = store.claim(&claim).await;
        let kind = answer.as_ref().err().map(idem_core::Error::kind);
        ensure_eq!(env, kind, Some(ErrorKind::Unsupported), "a claim of class Local ({:?})", claim.intent);
    }
    nothing_stored(env, &*store, "a claim of class Local").await
}
