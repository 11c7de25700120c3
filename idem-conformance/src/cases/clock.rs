//! Whose clock decides, and what clocks may do (G-60, G-61).

use idem_core::answer::{Claimed, Completed, Renewed};
use idem_core::request::{Release, Renew};
use idem_core::store::DecidingClock;
use idem_core::{Grant, Lease, Outcome, Retention, Store, Timestamp, Ttl, View};

use crate::capability::Capability;
use crate::env::{
    Env, claim, complete, complete_with, completed, granted, id, lapse, lease_ms, record, recover, replayed,
    sweep_all, take, unchanged,
};
use crate::evidence::Fact;
use crate::failure::{Verdict, ensure, ensure_eq, ensure_let};
use crate::registry::{Family, Scenario};

const K: &[Capability] = &[Capability::Clock];
const K_M: &[Capability] = &[Capability::Clock, Capability::Handles];

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario::new(
        Family::Clock,
        "CK-001",
        "a_fast_client_steals_nothing",
        &["G-60"],
        "A process whose clock is ahead (by the guard where callers' clocks decide, by an hour where they must not) \
         cannot take over a lease that still runs.",
        |env| Box::pin(a_fast_client_steals_nothing(env)),
    )
    .needs(K_M)
    .evidence(&[(Fact::Checks, 5), (Fact::Handles, 2)]),
    Scenario::new(
        Family::Clock,
        "CK-002",
        "a_slow_client_loses_nothing",
        &["G-60"],
        "A holder whose process's clock is behind keeps its lease for as long as it was granted.",
        |env| Box::pin(a_slow_client_loses_nothing(env)),
    )
    .needs(K_M)
    .evidence(&[(Fact::Checks, 4), (Fact::Handles, 2)]),
    Scenario::new(
        Family::Clock,
        "CK-003",
        "a_backward_jump_is_harmless",
        &["G-60", "G-14", "G-13"],
        "After the clock jumps back, the holder keeps its lease, fences still grow, outcomes are replayed and nothing is \
         taken for corrupt.",
        |env| Box::pin(a_backward_jump_is_harmless(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 9)]),
    Scenario::new(
        Family::Clock,
        "CK-004",
        "overflow_is_refused",
        &["G-14", "G-61"],
        "At the end of representable time deadlines stop at 2^53 - 1, and a fence beyond it is refused: nothing is \
         granted and nothing stored.",
        |env| Box::pin(overflow_is_refused(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 9)]),
    Scenario::new(
        Family::Clock,
        "CK-005",
        "a_lease_is_positive_and_bounded",
        &["G-13"],
        "A lease of nothing or beyond the bound cannot be asked for; the shortest one ends after one millisecond, the \
         longest one only at its end.",
        |env| Box::pin(a_lease_is_positive_and_bounded(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 9)]),
    Scenario::new(
        Family::Clock,
        "CK-006",
        "nothing_is_rounded_to_seconds",
        &["G-61"],
        "Times, leases and retentions are kept to the millisecond.",
        |env| Box::pin(nothing_is_rounded_to_seconds(env)),
    )
    .needs(K)
    .evidence(&[(Fact::Checks, 20)]),
    Scenario::new(
        Family::Clock,
        "CK-007",
        "with_any_skew_the_fence_still_holds",
        &["G-60", "G-15", "G-14"],
        "Two processes whose clocks differ by more than any bound may take over too early, but never both settle: the \
         earlier holder is fenced, and fences grow.",
        |env| Box::pin(with_any_skew_the_fence_still_holds(env)),
    )
    .needs(K_M)
    .evidence(&[(Fact::Checks, 6), (Fact::Handles, 2)]),
    Scenario::new(
        Family::Clock,
        "CK-008",
        "session_time_zones_change_nothing",
        &["G-60", "G-61"],
        "Sessions in time zones 25 hours apart read the same instants, and see one lease.",
        |env| Box::pin(session_time_zones_change_nothing(env)),
    )
    .needs(K_M)
    .evidence(&[(Fact::Checks, 10), (Fact::Handles, 3)]),
];

/// By how much the clock of a process may be wrong without consequence.
fn harmless_skew_ms(store: &dyn Store) -> i64 {
    let capabilities = store.capabilities();
    match capabilities.clock {
        DecidingClock::Caller => i64::try_from(capabilities.guard_ms).unwrap_or(i64::MAX),
        _ => 3_600_000,
    }
}

async fn a_fast_client_steals_nothing(env: &Env) -> Verdict {
    let holder = env.open().await?;
    let fast = env.open_at(&env.site().skewed_ms(harmless_skew_ms(&*holder))).await?;
    let grant = granted(env, &*holder, &claim(&id("k")).lease(lease_ms(10_000)), "the claim").await?;
    for after_ms in [0, 5_000, 4_999] {
        env.clock()?.advance_ms(after_ms);
        for other in [take(&id("k")), recover(&id("k"))] {
            let answer = fast.claim(&other).await?;
            ensure_let!(env, answer; Claimed::InProgress { .. }, "a fast client's claim while the lease runs");
        }
    }
    completed(env, &*holder, &complete(&grant, "mine"), "the holder's operation").await
}

async fn a_slow_client_loses_nothing(env: &Env) -> Verdict {
    let other = env.open().await?;
    let slow = env.open_at(&env.site().skewed_ms(-harmless_skew_ms(&*other))).await?;
    let grant =
        granted(env, &*slow, &claim(&id("k")).lease(lease_ms(10_000)), "the slow client's claim").await?;
    ensure_eq!(env, grant.remaining_ms, 10_000, "what the slow client is told to remain");
    env.clock()?.advance_ms(9_999);
    let answer = other.claim(&take(&id("k"))).await?;
    ensure_let!(env, answer; Claimed::InProgress { .. }, "a claim while the slow client's lease runs");
    completed(env, &*slow, &complete(&grant, "mine"), "the slow client's operation").await
}

async fn a_backward_jump_is_harmless(env: &Env) -> Verdict {
    let store = env.open().await?;
    let back_ms = store.capabilities().step_ms;
    let done = granted(env, &*store, &claim(&id("done")), "the claim").await?;
    completed(env, &*store, &complete(&done, "done"), "it").await?;
    let grant = granted(env, &*store, &claim(&id("k")).lease(lease_ms(10_000)), "the claim").await?;
    env.clock()?.set_ms(env.now().as_millis() - back_ms);
    let answer = store.claim(&take(&id("k"))).await?;
    ensure_let!(env, answer; Claimed::InProgress { .. }, "a claim after the jump");
    let answer = store.renew(&Renew::new(grant.held(), lease_ms(10_000))).await?;
    let remaining_ms = 10_000 + back_ms;
    ensure_eq!(
        env,
        answer,
        Renewed::Renewed { remaining_ms },
        "a renewal after the jump keeps the later deadline"
    );
    replayed(env, &*store, &claim(&id("done")), "what was completed before the jump").await?;
    store.release(&Release::new(grant.held())).await?;
    let next = granted(env, &*store, &claim(&id("k")), "a claim after a release after the jump").await?;
    ensure!(env, next.fence > grant.fence, "fence {} follows {} after the jump", next.fence, grant.fence);
    completed(env, &*store, &complete(&next, "late"), "the operation after the jump").await?;
    let before = record(&*store, &id("k")).await?;
    sweep_all(env, &*store).await?;
    unchanged(env, &*store, &before, "a sweep after the jump").await
}

async fn overflow_is_refused(env: &Env) -> Verdict {
    let store = env.open().await?;
    let last_ms = Timestamp::MAX.as_millis();
    let early = granted(env, &*store, &claim(&id("ttl")), "the claim").await?;
    let mut request = complete(&early, "kept");
    let endless = Ttl::Millis(u64::MAX);
    request.retention = Retention::forgetting_identity(endless, endless, None)?;
    completed(env, &*store, &request, "it").await?;
    let until = record(&*store, &id("ttl")).await?.identity_until;
    ensure_eq!(env, until, Some(Timestamp::MAX), "the deadline of an endless time to live");

    env.clock()?.set_ms(last_ms - 1);
    let grant = granted(env, &*store, &claim(&id("k")).lease(Lease::MAX), "the last claim of all").await?;
    ensure_eq!(env, grant.lease_until, Timestamp::MAX, "the deadline of a lease beyond the end of time");
    store.release(&Release::new(grant.held())).await?;
    let before = record(&*store, &id("k")).await?;
    let refused = store.claim(&claim(&id("k"))).await;
    ensure!(env, refused.as_ref().is_err_and(|error| !error.is_transient()), "a fence of 2^53: {refused:?}");
    unchanged(env, &*store, &before, "a refused claim").await?;
    env.clock()?.set_ms(last_ms);
    let refused = store.claim(&claim(&id("new"))).await;
    ensure!(
        env,
        refused.as_ref().is_err_and(|error| !error.is_transient()),
        "a claim at the end of time: {refused:?}"
    );
    ensure!(env, store.get(&id("new")).await?.is_none(), "a refused claim must store nothing");
    Ok(())
}

async fn a_lease_is_positive_and_bounded(env: &Env) -> Verdict {
    use std::time::Duration;
    for refused in
        [Duration::ZERO, Duration::from_micros(999), Lease::MAX.duration() + Duration::from_millis(1)]
    {
        ensure!(env, Lease::new(refused).is_err(), "a lease of {refused:?} must be refused");
    }
    let store = env.open().await?;
    for (key, lease) in [("shortest", lease_ms(1)), ("longest", Lease::MAX)] {
        let grant = granted(env, &*store, &claim(&id(key)).lease(lease), key).await?;
        env.clock()?.advance_ms(lease.as_millis() - 1);
        let live = store.claim(&take(&id(key))).await?;
        ensure_let!(env, live; Claimed::InProgress { .. }, "a claim just before the end of the {key} lease");
        env.clock()?.set_ms(grant.lease_until.as_millis() + store.capabilities().guard_ms);
        granted(env, &*store, &take(&id(key)), "a claim at its end").await?;
    }
    Ok(())
}

async fn nothing_is_rounded_to_seconds(env: &Env) -> Verdict {
    let store = env.open().await?;
    let guard_ms = store.capabilities().guard_ms;
    for (index, millis) in [1, 499, 500, 501, 999, 1_001, 1_499, 2_500].into_iter().enumerate() {
        env.clock()?.advance_ms(millis);
        let key = format!("k{index}");
        let started = env.now();
        let grant = granted(env, &*store, &claim(&id(&key)).lease(lease_ms(millis)), "the claim").await?;
        ensure_eq!(
            env,
            grant.lease_until,
            started.plus_millis(millis),
            "the deadline of a lease of {millis} ms"
        );
        env.clock()?.advance_ms(millis + guard_ms - 1);
        let live = store.claim(&take(&id(&key))).await?;
        ensure_let!(env, live; Claimed::InProgress { .. }, "a claim 1 ms before the end of a lease of {millis} ms");
        let mut request = complete_with(&grant, Outcome::success().body("x"));
        request.retention = Retention::forever().response(Ttl::Millis(millis))?;
        let completed_at = env.now();
        let answer = store.complete(&request).await?;
        ensure_let!(env, answer; Completed::Completed { at, .. } if at == completed_at => (), "a completion at {completed_at:?}");
        env.clock()?.advance_ms(millis - 1);
        let replay =
            replayed(env, &*store, &claim(&id(&key)), "the response 1 ms before its deadline").await?;
        ensure_eq!(env, replay.completed_at, completed_at, "the time of completion");
        env.clock()?.advance_ms(1);
        let over = store.claim(&claim(&id(&key))).await?;
        ensure_let!(env, over; Claimed::Expired(_), "a claim at the deadline of a response of {millis} ms");
        let stored = record(&*store, &id(&key)).await?;
        ensure_eq!(
            env,
            (stored.created_at, stored.first_grant_at),
            (started, Some(started)),
            "creation and first grant"
        );
    }
    Ok(())
}

async fn with_any_skew_the_fence_still_holds(env: &Env) -> Verdict {
    let honest = env.open().await?;
    let far = env.open_at(&env.site().skewed_ms(7_200_000)).await?;
    let first = granted(env, &*honest, &claim(&id("k")).lease(lease_ms(10_000)), "the claim").await?;
    // Where callers decide, this one is beyond every bound and may take over; elsewhere it waits for the lapse.
    let successor = match far.claim(&take(&id("k"))).await? {
        Claimed::Granted(grant) => *grant,
        answer => {
            ensure_let!(env, answer; Claimed::InProgress { .. }, "the far client's claim");
            lapse(env, &*honest, &first)?;
            granted(env, &*far, &take(&id("k")), "the far client's claim over a lapse").await?
        }
    };
    ensure!(env, successor.fence > first.fence, "fence {} follows {}", successor.fence, first.fence);
    let answer = honest.complete(&complete(&first, "first")).await?;
    ensure_let!(env, answer; Completed::Fenced(_), "the first holder's completion after a takeover");
    completed(env, &*far, &complete(&successor, "successor"), "the successor's operation").await?;
    let answer = honest.complete(&complete(&first, "first")).await?;
    ensure_let!(env, answer; Completed::Fenced(View::Completed | View::Expired), "the first holder's completion after it");
    let replay = replayed(env, &*honest, &claim(&id("k")), "the operation").await?;
    ensure_eq!(env, replay.outcome.body().map(|body| &body[..]), Some(&b"successor"[..]), "the one outcome");
    Ok(())
}

async fn session_time_zones_change_nothing(env: &Env) -> Verdict {
    let plain = env.open().await?;
    let east = env.open_at(&env.site().in_zone("Pacific/Kiritimati")).await?;
    let west = env.open_at(&env.site().in_zone("Pacific/Pago_Pago")).await?;
    let handles = [&plain, &east, &west];
    for (index, writer) in handles.into_iter().enumerate() {
        let key = format!("k{index}");
        let grant: Grant =
            granted(env, &**writer, &claim(&id(&key)).lease(lease_ms(10_000)), "the claim").await?;
        ensure_eq!(
            env,
            grant.lease_until,
            env.now().plus_millis(10_000),
            "the deadline that session {index} was told"
        );
        let written = record(&**writer, &id(&key)).await?;
        ensure_eq!(env, written.created_at, env.now(), "the time of creation that session {index} reads");
        for reader in handles {
            unchanged(env, &**reader, &written, "reading in another time zone").await?;
            let answer = reader.claim(&take(&id(&key))).await?;
            ensure_let!(env, answer; Claimed::InProgress { .. }, "a claim from another time zone");
        }
    }
    Ok(())
}
