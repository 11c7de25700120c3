//! `idem stats`.

use idem_core::{Error, Store, Timestamp};
use serde::Serialize;

use super::{Failed, print};
use crate::args::JsonArgs;

/// For programs. Names are only ever added.
#[derive(Serialize)]
struct Json {
    received: u64,
    running: u64,
    lapsed: u64,
    completed: u64,
    expired: u64,
    uncertain: u64,
    oldest_processing_age_ms: Option<u64>,
    oldest_uncertain_age_ms: Option<u64>,
    now_ms: u64,
}

pub(super) async fn stats(store: &dyn Store, args: &JsonArgs) -> Result<(), Failed> {
    let stats = store.stats().await?;
    let age = |at: Option<Timestamp>| at.map(|at| stats.now.millis_since(at));
    let json = Json {
        received: stats.received,
        running: stats.running,
        lapsed: stats.lapsed,
        completed: stats.completed,
        expired: stats.expired,
        uncertain: stats.uncertain,
        oldest_processing_age_ms: age(stats.oldest_processing),
        oldest_uncertain_age_ms: age(stats.oldest_uncertain),
        now_ms: stats.now.as_millis(),
    };
    if args.json {
        let json = serde_json::to_string(&json)
            .map_err(|error| Error::internal(format!("statistics have no JSON form: {error}")))?;
        return print(&format!("{json}\n"));
    }
    let aged = |count: u64, age_ms: Option<u64>| match age_ms {
        Some(age_ms) => format!("{count}, the oldest for {} s", age_ms / 1000),
        None => count.to_string(),
    };
    print(&format!(
        "received   {}\nrunning    {}\nlapsed     {}\ncompleted  {}\nexpired    {}\nuncertain  {}\n",
        json.received,
        aged(json.running, json.oldest_processing_age_ms.filter(|_| json.running > 0)),
        aged(json.lapsed, json.oldest_processing_age_ms.filter(|_| json.running == 0)),
        json.completed,
        json.expired,
        aged(json.uncertain, json.oldest_uncertain_age_ms),
    ))
}
