//! The Redis store against the suite, on a server of the machine.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Capability, Declared, Harness, Site};
use idem_core::{Result, Store};
use idem_provision::{Provision, Software};
use idem_redis::{RedisConfig, RedisStore};

#[derive(Debug)]
struct Redis;

fn server() -> Provision {
    Provision::of(Software::Redis).setting("appendonly", "yes").setting("appendfsync", "always")
}

#[async_trait]
impl Harness for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn capabilities(&self) -> Declared {
        Declared::supports(&[Capability::Clock, Capability::Reopen, Capability::Process, Capability::Handles])
            .declines(
                &[Capability::Transaction],
                "Redis has no transaction that the caller's writes could join",
            )
            .declines(&[Capability::Outbox], "there is no outbox yet")
            .declines(&[Capability::Proxy, Capability::Restart], "not offered by the harness yet")
            .declines(&[Capability::StorageFaults], "the disk is the server's")
            .declines(&[Capability::Wait], "waiters of other processes poll")
    }

    async fn available(&self) -> Result<(), String> {
        server().look().map_err(|error| error.to_string())
    }

    async fn open(&self, site: &Site) -> Result<Arc<dyn Store>> {
        let server = server().start().map_err(|error| idem_core::Error::unavailable(error.to_string()))?;
        let mut config = RedisConfig::new(server.url()).prefix(site.namespace());
        // The server is kept for as long as this process runs.
        std::mem::forget(server);
        if let Some(clock) = site.stepped_clock() {
            config = config.clock(clock);
        }
        Ok(Arc::new(RedisStore::open_with(config).await?))
    }
}

idem_conformance::main!(Redis);
