//! The worked operation: claim, note the intent, call the provider, note the answer, complete, tell the caller.

use idem_core::answer::{Checkpointed, Claimed, Completed, Released};
use idem_core::record::AbsenceReason;
use idem_core::request::{Complete, Park, Release, SaveCheckpoint};
use idem_core::{AttemptId, Claim, EffectClass, Grant, Lease, Mode, Outcome, Retention, Store};

use super::{Boundaries, Provider, Work};
use crate::env::{claim, id, label, lease_ms, take};
use crate::failure::{Failure, Verdict};
use crate::site::Site;

/// How long a worker's lease is: longer than any worker works, since time stands still in the child.
pub(crate) const LEASE_MS: u64 = 10_000;

/// The attempt of a worker that may be started again with the same intent.
pub(crate) fn attempt_of(key: &str) -> AttemptId {
    let mut bytes = [0_u8; 16];
    for (index, byte) in key.bytes().enumerate() {
        if let Some(slot) = bytes.get_mut(index % 16) {
            *slot = slot.wrapping_mul(31).wrapping_add(byte);
        }
    }
    AttemptId::from_bytes(bytes)
}

fn lease() -> Lease {
    lease_ms(LEASE_MS)
}

fn shaped(claim: Claim, keyed: bool) -> Claim {
    let effect = if keyed { EffectClass::Keyed { remembers_for_ms: 1 << 40 } } else { EffectClass::Opaque };
    claim.lease(lease()).effect(effect)
}

/// The first attempt's claim.
pub(crate) fn first_claim(work: &Work) -> Claim {
    shaped(claim(&id(&work.key)), work.keyed).attempt(attempt_of(&work.key))
}

/// The first attempt, from before its claim to after the caller was told.
pub(crate) async fn work(store: &dyn Store, site: &Site, work: &Work, at: &Boundaries) -> Verdict {
    at.pass("before-claim");
    match store.claim(&first_claim(work)).await? {
        Claimed::Granted(grant) if grant.mode == Mode::Execute => {
            at.pass("claimed");
            execute(store, site, work, at, &grant).await
        }
        other => Err(Failure::new(format!("the first claim was answered {other:?}"))),
    }
}

/// Runs the effect under `grant`, noting the intent before it and the answer after it.
async fn execute(store: &dyn Store, site: &Site, work: &Work, at: &Boundaries, grant: &Grant) -> Verdict {
    let provider = Provider::of(site)?;
    note(store, grant, "sending", "").await?;
    at.pass("intent-noted");
    let remote = provider.call(&downstream(work), work.keyed)?;
    at.pass("called");
    note(store, grant, "remote-id", &remote).await?;
    at.pass("answer-noted");
    finish(store, site, work, at, grant, &remote).await
}

/// Completes with what the provider said, and tells the caller.
async fn finish(
    store: &dyn Store,
    site: &Site,
    work: &Work,
    at: &Boundaries,
    grant: &Grant,
    remote: &str,
) -> Verdict {
    let outcome = Outcome::success().body(remote.to_owned());
    match store.complete(&Complete::new(grant.held(), outcome, Retention::forever())).await? {
        Completed::Completed { .. } | Completed::AlreadyCompleted => {}
        other => return Err(Failure::new(format!("the completion was answered {other:?}"))),
    }
    at.pass("completed");
    Provider::of(site)?.receipt(&work.key, remote)?;
    at.pass("acknowledged");
    Ok(())
}

async fn note(store: &dyn Store, grant: &Grant, name: &str, value: &str) -> Verdict {
    let fact = SaveCheckpoint::new(grant.held(), label(name), value.to_owned(), lease());
    match store.checkpoint(&fact).await? {
        Checkpointed::Recorded { .. } | Checkpointed::Duplicate { .. } => Ok(()),
        other => Err(Failure::new(format!("the checkpoint {name} was answered {other:?}"))),
    }
}

/// The key under which the provider knows the operation (G-20).
pub(crate) fn downstream(work: &Work) -> String {
    id(&work.key).downstream_key().to_string()
}

/// Brings the operation to its end, whatever an earlier process left.
pub(crate) async fn recover(store: &dyn Store, site: &Site, work: &Work, at: &Boundaries) -> Verdict {
    at.pass("before-recovery");
    // A recovery that finds nothing noted releases, and then claims again to run: twice at most.
    for _ in 0..2 {
        match store.claim(&shaped(take(&id(&work.key)), work.keyed)).await? {
            Claimed::Replay(replay) => {
                let body = replay.outcome.body().map(|body| String::from_utf8_lossy(body).into_owned());
                at.pass("replayed");
                return Provider::of(site)?.receipt(&work.key, &body.unwrap_or_default());
            }
            Claimed::Granted(grant) if grant.mode == Mode::Execute => {
                at.pass("claimed-anew");
                return execute(store, site, work, at, &grant).await;
            }
            Claimed::Granted(grant) => {
                at.pass("recovering");
                if reconcile(store, site, work, at, &grant).await? {
                    return Ok(());
                }
            }
            // Parked by an earlier recovery: a person decides.
            Claimed::Uncertain { .. } => {
                at.pass("uncertain");
                return Ok(());
            }
            other => return Err(Failure::new(format!("the recovery's claim was answered {other:?}"))),
        }
    }
    Err(Failure::new("the recovery came to no end"))
}

/// Finds out what the attempts before did. `false` when they certainly did nothing, and the operation was given back.
async fn reconcile(
    store: &dyn Store,
    site: &Site,
    work: &Work,
    at: &Boundaries,
    grant: &Grant,
) -> Verdict<bool> {
    let provider = Provider::of(site)?;
    let noted = |name: &str| grant.checkpoints.iter().find(|fact| fact.name.as_str() == name);
    if let Some(answer) = noted("remote-id") {
        let remote = String::from_utf8_lossy(&answer.value).into_owned();
        finish(store, site, work, at, grant, &remote).await?;
        return Ok(true);
    }
    if noted("sending").is_none() {
        // A worker calls only after its note was accepted, and the notes of all before this one are fenced by now.
        let release = Release::new(grant.held()).absence(AbsenceReason::FencedOff);
        return match store.release(&release).await? {
            Released::Released { .. } => {
                at.pass("released");
                Ok(false)
            }
            other => Err(Failure::new(format!("the release was answered {other:?}"))),
        };
    }
    // The call may have been made. Where the provider deduplicates it is made again; elsewhere the provider is asked.
    let remote = if work.keyed {
        Some(provider.call(&downstream(work), true)?)
    } else {
        provider.lookup(&downstream(work))
    };
    at.pass("reconciled");
    match remote {
        Some(remote) => finish(store, site, work, at, grant, &remote).await?,
        None => {
            store.park(&Park::new(grant.held()).note("the provider knows nothing")).await?;
            at.pass("parked");
        }
    }
    Ok(true)
}

/// Completes operation after operation, and notes each once the store has acknowledged it; never ends by itself.
pub(crate) async fn stream(store: &dyn Store, site: &Site, key: &str) -> Verdict {
    let provider = Provider::of(site)?;
    for number in 0_u64.. {
        let operation = format!("{key}/{number}");
        let Claimed::Granted(grant) = store.claim(&shaped(claim(&id(&operation)), false)).await? else {
            return Err(Failure::new(format!("the claim of {operation} was not granted")));
        };
        let outcome = Outcome::success().body(operation.clone());
        let answer = store.complete(&Complete::new(grant.held(), outcome, Retention::forever())).await?;
        if !matches!(answer, Completed::Completed { .. }) {
            return Err(Failure::new(format!("the completion of {operation} was answered {answer:?}")));
        }
        provider.receipt(key, &number.to_string())?;
    }
    Ok(())
}
