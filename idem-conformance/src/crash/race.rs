//! Processes that race for the same operations.

use std::path::PathBuf;

use idem_core::Store;
use idem_core::answer::Claimed;

use crate::env::{claim, id};
use crate::failure::{Failure, Verdict};
use crate::site::Site;

fn flag(site: &Site, round: u64, name: &str) -> PathBuf {
    site.dir().join(format!("race-{round}-{name}"))
}

/// Waits for the other processes, claims every operation in turn, and says which it was granted.
pub(super) async fn perform(
    store: &dyn Store,
    site: &Site,
    racer: u64,
    racers: u64,
    operations: u64,
    round: u64,
) -> Verdict {
    const LOOKS_MAX: u32 = 50_000_000;
    let broken = |error: std::io::Error| Failure::new(format!("the racers' files failed: {error}"));
    std::fs::write(flag(site, round, &racer.to_string()), b"here").map_err(broken)?;
    let mut looks = 0;
    while !(0..racers).all(|other| flag(site, round, &other.to_string()).exists()) {
        looks += 1;
        if looks > LOOKS_MAX {
            return Err(Failure::new("the other racers never came"));
        }
        std::thread::yield_now();
    }
    let mut won = Vec::new();
    for operation in 0..operations {
        match store.claim(&claim(&id(&format!("race-{round}/{operation}")))).await? {
            Claimed::Granted(_) => won.push(operation.to_string()),
            Claimed::InProgress { .. } => {}
            other => return Err(Failure::new(format!("a racing claim was answered {other:?}"))),
        }
    }
    println!("won={}", won.join(","));
    Ok(())
}
