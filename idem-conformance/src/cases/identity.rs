//! Which operation is which (G-01 to G-03).

use idem_core::answer::Claimed;
use idem_core::{OperationId, PART_BYTES_MAX};

use crate::env::{Env, claim, complete, completed, granted, id, id_of, replayed};
use crate::evidence::Fact;
use crate::failure::{Verdict, ensure, ensure_eq, ensure_let};
use crate::registry::{Family, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Identity,
        "ID-001",
        "first_claim_wins",
        &["G-10", "G-01"],
        "The first claim of an operation is granted, as attempt 1 in mode Execute; a second one is not.",
        |env| Box::pin(first_claim_wins(env)),
    )
    .evidence(&[(Fact::Checks, 5), (Fact::Calls, 3)]),
    Scenario::new(
        Family::Identity,
        "ID-002",
        "another_tenant_is_independent",
        &["G-01"],
        "The same operation and key of another tenant is another operation, with its own outcome.",
        |env| Box::pin(independent(env, id_of("tenant-b", "conformance/v1", "k"))),
    )
    .evidence(&[(Fact::Checks, 6), (Fact::Calls, 6)]),
    Scenario::new(
        Family::Identity,
        "ID-003",
        "another_operation_is_independent",
        &["G-01"],
        "The same tenant and key under another operation name is another operation, with its own outcome.",
        |env| Box::pin(independent(env, id_of("tenant-a", "conformance/v2", "k"))),
    )
    .evidence(&[(Fact::Checks, 6), (Fact::Calls, 6)]),
    Scenario::new(
        Family::Identity,
        "ID-004",
        "joined_parts_never_collide",
        &["G-03"],
        "Ids whose parts read the same when they are joined, with any usual delimiter, are different operations.",
        |env| Box::pin(joined_parts_never_collide(env)),
    )
    .evidence(&[(Fact::Checks, 60)]),
    Scenario::new(
        Family::Identity,
        "ID-005",
        "keys_are_compared_by_bytes",
        &["G-02"],
        "Keys that differ in case, white space or Unicode normalisation alone are different operations, and are read \
         back as they were written.",
        |env| Box::pin(keys_are_compared_by_bytes(env)),
    )
    .evidence(&[(Fact::Checks, 50)]),
    Scenario::new(
        Family::Identity,
        "ID-006",
        "longest_parts_are_kept_whole",
        &["G-02"],
        "Parts of the greatest length are kept whole, in 1-byte and in 4-byte characters: ids that differ in their \
         last byte are different. One byte more is refused.",
        |env| Box::pin(longest_parts_are_kept_whole(env)),
    )
    .evidence(&[(Fact::Checks, 20)]),
    Scenario::new(
        Family::Identity,
        "ID-007",
        "sites_are_isolated",
        &["G-01"],
        "What is stored in one namespace is not seen from another one, neither by claim nor by get, list and stats.",
        |env| Box::pin(sites_are_isolated(env)),
    )
    .evidence(&[(Fact::Checks, 6), (Fact::Handles, 2)]),
];

async fn first_claim_wins(env: &Env) -> Verdict {
    let store = env.open().await?;
    let first = granted(env, &*store, &claim(&id("k")), "the first claim").await?;
    ensure_eq!(env, first.number, 1, "number of the first attempt");
    ensure_eq!(env, first.mode, idem_core::Mode::Execute, "mode of the first attempt");
    let second = store.claim(&claim(&id("k"))).await?;
    let holder = ensure_let!(
        env, second; Claimed::InProgress { attempt_number, .. } => attempt_number,
        "a second claim must be told that the first is in progress"
    );
    ensure_eq!(env, holder, 1, "number of the holder's attempt");
    let record = store.get(&id("k")).await?;
    ensure!(env, record.is_some_and(|record| record.id == id("k")), "the record must be there under its id");
    Ok(())
}

/// Completes both, each with its own outcome, and replays both.
async fn independent(env: &Env, other: OperationId) -> Verdict {
    let store = env.open().await?;
    let one = granted(env, &*store, &claim(&id("k")), "the one operation").await?;
    let another = granted(env, &*store, &claim(&other), "the other operation").await?;
    completed(env, &*store, &complete(&one, "one"), "the one operation").await?;
    completed(env, &*store, &complete(&another, "other"), "the other operation").await?;
    for (id, body) in [(id("k"), "one"), (other, "other")] {
        let replay = replayed(env, &*store, &claim(&id), "each operation").await?;
        ensure_eq!(
            env,
            replay.outcome.body().map(|body| &body[..]),
            Some(body.as_bytes()),
            "the body of {id:?}"
        );
    }
    Ok(())
}

/// Claims all, each of which must be granted, and completes each with its own index; then replays all.
async fn all_different(env: &Env, ids: &[OperationId], what: &str) -> Verdict {
    let store = env.open().await?;
    for (index, id) in ids.iter().enumerate() {
        let grant = granted(env, &*store, &claim(id), &format!("{what} {index}")).await?;
        completed(env, &*store, &complete(&grant, &index.to_string()), what).await?;
    }
    for (index, id) in ids.iter().enumerate() {
        let replay = replayed(env, &*store, &claim(id), &format!("{what} {index}")).await?;
        let own = index.to_string();
        ensure_eq!(
            env,
            replay.outcome.body().map(|body| &body[..]),
            Some(own.as_bytes()),
            "the body of {what} {index}"
        );
        let record = store.get(id).await?;
        ensure!(
            env,
            record.is_some_and(|record| record.id == *id),
            "{what} {index} must be read back under its id"
        );
    }
    Ok(())
}

async fn joined_parts_never_collide(env: &Env) -> Verdict {
    let mut ids = vec![
        id_of("a", "bc", "d"),
        id_of("ab", "c", "d"),
        id_of("a", "b", "cd"),
        id_of("1.1", "a", "b"),
        id_of("1", "1.a", "b"),
    ];
    // A delimiter inside one part must not look like the border of two, and neither must an escaped one.
    for delimiter in
        [":", "/", "|", "#", ".", ",", ";", "%3A", "\\:", "'", "\"", "_", "-", "\u{a0}", "\u{2028}"]
    {
        ids.push(id_of("a", "b", &format!("c{delimiter}d")));
        ids.push(id_of("a", &format!("b{delimiter}c"), "d"));
        ids.push(id_of(&format!("a{delimiter}b"), "c", "d"));
    }
    all_different(env, &ids, "joined id").await
}

async fn keys_are_compared_by_bytes(env: &Env) -> Verdict {
    // Pairs and triples that some collation or clean-up takes for equal.
    let keys = [
        "key",
        "Key",
        "KEY",
        " key",
        "key ",
        "key\u{3000}",
        "\u{e9}",
        "e\u{301}",
        "\u{c9}",
        "e",
        "\u{df}",
        "ss",
        "\u{1e9e}",
        "\u{130}",
        "i",
        "I",
        "\u{131}",
        "\u{212a}",
        "k",
        "\u{fb01}",
        "fi",
        "\u{200b}key",
        "ke\u{ad}y",
        "\u{ff4b}ey",
        "1",
        "01",
        "1.0",
        "null",
        "NULL",
    ];
    let ids: Vec<_> = keys.iter().map(|key| id(key)).collect();
    all_different(env, &ids, "key").await
}

async fn longest_parts_are_kept_whole(env: &Env) -> Verdict {
    let mut ids = Vec::new();
    let stem = "x".repeat(PART_BYTES_MAX - 1);
    let wide = "\u{1f980}".repeat(PART_BYTES_MAX / 4 - 1);
    for end in ["y", "z"] {
        let long = format!("{stem}{end}");
        ids.push(id(&long));
        ids.push(id_of("tenant-a", &long, &stem));
        ids.push(id_of(&long, &long, &long));
    }
    for end in ["\u{1f980}", "\u{1f981}"] {
        ids.push(id(&format!("{wide}{end}")));
    }
    let too_long = format!("{stem}yy");
    for (tenant, operation, key) in [(&*too_long, "o", "k"), ("t", &*too_long, "k"), ("t", "o", &*too_long)] {
        ensure!(env, OperationId::new(tenant, operation, key).is_err(), "one byte more must be refused");
    }
    all_different(env, &ids, "longest part").await
}

async fn sites_are_isolated(env: &Env) -> Verdict {
    let other_site = env.other_site()?;
    let (here, there) = (env.open().await?, env.open_at(&other_site).await?);
    let grant = granted(env, &*here, &claim(&id("k")), "the claim here").await?;
    ensure!(env, there.get(&id("k")).await?.is_none(), "the other site must not see the record");
    let listed = there.list(&idem_core::request::Query::all()).await?;
    ensure!(env, listed.records.is_empty(), "the other site must list nothing, not {}", listed.records.len());
    ensure_eq!(env, there.stats().await?.running, 0, "running operations of the other site");
    granted(env, &*there, &claim(&id("k")), "the claim there").await?;
    completed(env, &*here, &complete(&grant, "here"), "the operation here").await?;
    let answer = there.claim(&claim(&id("k"))).await?;
    ensure_let!(env, answer; Claimed::InProgress { .. }, "the operation there must still be in progress");
    Ok(())
}
