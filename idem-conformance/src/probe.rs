//! Checks that what a harness declares is there, and finds what it declines although it works.

use std::sync::Arc;

use idem_core::Store;
use idem_core::request::Register;

use crate::backend::Probed;
use crate::capability::{Capability, Declared};
use crate::env::{Env, id, intent};
use crate::failure::{Failure, Verdict, ensure, ensure_eq};
use crate::harness::Harness;
use crate::runner::RUNTIME;

/// Looks for everything that can be looked for.
pub(crate) fn probe(harness: &Arc<dyn Harness>, declared: &Declared) -> Probed {
    let mut probed = Probed::default();
    if let Some(unsaid) = declared.unsaid().first() {
        probed.failure =
            Some(format!("the harness says nothing about {unsaid}: support it, or decline it with a reason"));
        return probed;
    }
    let ended = RUNTIME.block_on(async {
        let env = Env::new(harness.clone(), 0, true, false)?;
        let verdict = probe_all(&env, declared, &mut probed.under_claimed).await;
        env.tear_down().await;
        verdict
    });
    probed.failure = ended.err().map(|failure| failure.to_string());
    probed
}

async fn probe_all(env: &Env, declared: &Declared, under_claimed: &mut Vec<Capability>) -> Verdict {
    for capability in Capability::ALL {
        let Some(works) = works(env, capability).await? else { continue };
        let supported = declared.has(capability);
        ensure!(env, works || !supported, "{capability} is declared, and it is not there");
        if works && !supported {
            under_claimed.push(capability);
        }
    }
    Ok(())
}

/// Whether `capability` is there; `None` where only the scenarios can tell.
async fn works(env: &Env, capability: Capability) -> Verdict<Option<bool>> {
    match capability {
        Capability::Clock => {
            let store = env.open().await?;
            let before = created_at(env, &*store, "clock-1").await?;
            env.clock()?.advance_ms(12_345);
            let after = created_at(env, &*store, "clock-2").await?;
            Ok(Some(after == env.now().as_millis() && after == before + 12_345))
        }
        Capability::Handles => {
            // A store that cannot be opened twice may fail or see nothing; both are a no.
            let _first = env.open().await?;
            let Ok(second) = env.open().await else { return Ok(Some(false)) };
            Ok(Some(second.get(&id("clock-1")).await?.is_some()))
        }
        Capability::Wait => Ok(Some(env.open().await?.capabilities().wakes)),
        Capability::Transaction => Ok(Some(env.open().await?.capabilities().transactions)),
        _ => Ok(None),
    }
}

async fn created_at(env: &Env, store: &dyn Store, key: &str) -> Verdict<u64> {
    store.register(&Register::new(id(key), intent())).await?;
    let record =
        store.get(&id(key)).await?.ok_or_else(|| Failure::new("what was registered is not there"))?;
    ensure_eq!(env, record.id, id(key), "the record that was read");
    Ok(record.created_at.as_millis())
}
