//! The worked operation in the ledger's own transaction: begin, claim, effect, complete, commit.

use std::sync::Arc;
use std::time::Duration;

use idem_core::answer::{Claimed, Completed};
use idem_core::clock::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use super::{Boundaries, kill_myself};
use crate::env::{claim, complete, id};
use crate::failure::{Failure, Verdict};
use crate::harness::Harness;
use crate::site::Site;

/// An operation in one transaction, and where its process dies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Local {
    pub(crate) key: String,
    pub(crate) kill_at: Option<String>,
    /// So long after the commit began.
    pub(crate) kill_in_commit_us: Option<u64>,
}

/// Its boundaries, in their order.
pub(crate) const BOUNDARIES: [&str; 5] = ["begun", "claimed", "written", "completed", "committed"];

pub(crate) async fn perform(harness: &Arc<dyn Harness>, site: &Site, local: &Local) -> Verdict {
    let at = Boundaries { kill_at: local.kill_at.clone() };
    let effects = harness.effects(site).await?;
    let mut transaction = effects.begin().await?;
    at.pass("begun");
    let Claimed::Granted(grant) = transaction.claim(&claim(&id(&local.key))).await? else {
        return Err(Failure::new("the claim in the transaction was not granted"));
    };
    at.pass("claimed");
    transaction.effect(&local.key).await?;
    at.pass("written");
    match transaction.complete(&complete(&grant, &local.key)).await {
        Ok(Completed::Completed { .. }) => {}
        other => return Err(Failure::new(format!("the completion was answered {other:?}"))),
    }
    at.pass("completed");
    let started = SystemClock.elapsed();
    if let Some(after_us) = local.kill_in_commit_us {
        let deadline = started.saturating_add(Duration::from_micros(after_us));
        std::thread::spawn(move || {
            while SystemClock.elapsed() < deadline {
                std::hint::spin_loop();
            }
            kill_myself()
        });
    }
    transaction.commit().await?;
    println!("took={}", SystemClock.elapsed().saturating_sub(started).as_micros());
    at.pass("committed");
    if local.kill_in_commit_us.is_some() {
        // The commit was faster; the kill is on its way.
        std::future::pending::<()>().await;
    }
    Ok(())
}
