//! One call, and a second thread that kills the process a moment after it began.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_core::clock::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use super::kill_myself;
use super::worker::first_claim;
use crate::env::{claim, complete, id};
use crate::failure::{Failure, Verdict};
use crate::harness::Harness;
use crate::site::Site;

/// Which call, and how long after its beginning the process dies.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Flight {
    pub(crate) call: Call,
    /// `None`: nobody dies, and the child says how long the call took.
    pub(crate) kill_after_us: Option<u64>,
}

/// A call that can be interrupted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Call {
    /// The first claim of a worked operation.
    Claim { key: String },
    /// A completion, after a claim that is not interrupted.
    Complete { key: String },
    /// Sweeping until there is no more to do.
    Sweep,
    /// Opening the store for the first time, with its migrations.
    Open,
}

impl Call {
    /// The worked operation of a claim.
    pub(crate) fn work(key: &str) -> super::Work {
        super::Work { key: key.to_owned(), keyed: false, kill_at: None }
    }
}

pub(super) async fn perform(harness: &Arc<dyn Harness>, site: &Site, flight: Flight) -> Verdict {
    let store = match flight.call {
        Call::Open => None,
        _ => Some(harness.open(site).await?),
    };
    let store = || store.as_deref().ok_or_else(|| Failure::new("no store"));
    let held = match &flight.call {
        Call::Complete { key } => Some(store()?.claim(&claim(&id(key))).await?),
        _ => None,
    };
    let begun = Arc::new(AtomicBool::new(false));
    if let Some(after_us) = flight.kill_after_us {
        let begun = begun.clone();
        std::thread::spawn(move || kill_after(&begun, Duration::from_micros(after_us)));
    }
    let started = SystemClock.elapsed();
    begun.store(true, Ordering::Release);
    let mut opened = None;
    match (&flight.call, held) {
        (Call::Claim { key }, _) => {
            store()?.claim(&first_claim(&Call::work(key))).await?;
        }
        (Call::Complete { key }, Some(idem_core::Claimed::Granted(grant))) => {
            store()?.complete(&complete(&grant, key)).await?;
        }
        (Call::Complete { .. }, other) => {
            return Err(Failure::new(format!("nothing to complete: {other:?}")));
        }
        (Call::Sweep, _) => while store()?.sweep(50).await?.more {},
        (Call::Open, _) => {
            // A process that dies after it opened the store dies with the store open.
            opened = Some(harness.open(site).await?);
        }
    }
    println!("took={}", SystemClock.elapsed().saturating_sub(started).as_micros());
    if flight.kill_after_us.is_some() {
        // The call was faster than the killer, who is on the way.
        std::future::pending::<()>().await;
    }
    drop(opened);
    Ok(())
}

fn kill_after(begun: &AtomicBool, after: Duration) {
    while !begun.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
    let started = SystemClock.elapsed();
    // Spinning, because a sleep is longer than the call that is to be interrupted.
    while SystemClock.elapsed().saturating_sub(started) < after {
        std::hint::spin_loop();
    }
    kill_myself()
}
