//! The store.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::answer::{
    Checkpointed, Completed, Erased, Page, Parked, Registered, Released, Renewed, Resolved, Stats, Swept,
};
use idem_core::backoff::Backoff;
use idem_core::clock::{Clock as _, SystemClock};
use idem_core::codec::part;
use idem_core::record::{AbsenceReason, ParkCause};
use idem_core::request::{
    Complete, Erase, Held, Intent, Park, Query, Register, Release, Renew, Resolve, SaveCheckpoint,
};
use idem_core::store::{Capabilities, Store, refuse_local};
use idem_core::transition::{Context, Transition, Write};
use idem_core::wake::Bells;
use idem_core::{
    Claim, Claimed, EffectClass, Error, OperationId, Record, Result, StoredOutcome, Timestamp, Ttl,
};

use crate::config::RedisConfig;
use crate::error::During;
use crate::keys;
use crate::link::Link;
use crate::row::{self, Fields};
use crate::scan::{Listed, Walk};
use crate::scripts::{self, Arg, Call, Reply, Script};

/// A ledger in Redis or Valkey, which processes on several hosts may share. Clones share it and its connection.
///
/// ```no_run
/// # async fn demo() -> Result<(), idem_core::Error> {
/// use idem_core::{Claim, Claimed, Fingerprint, Label, OperationId, Store};
/// use idem_redis::RedisStore;
///
/// let store = RedisStore::open("redis://localhost:6379/").await?;
/// let id = OperationId::new("acme", "charge/v1", "order-1")?;
/// let claim = Claim::new(id, Fingerprint::bytes(b"10 EUR"), Label::new("worker-1")?);
/// assert!(matches!(store.claim(&claim).await?, Claimed::Granted(_)));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RedisStore(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) link: Link,
    pub(crate) config: RedisConfig,
    capabilities: Capabilities,
    bells: Bells,
    /// What the next page of a listing begins with.
    pub(crate) listed: Mutex<Option<Listed>>,
    /// Where the next batch of a sweep begins.
    pub(crate) swept: Mutex<Option<Walk>>,
}

/// How often one call meets a concurrent writer before it gives up as `Unavailable`: nothing was applied then.
const CONTENTION: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50), 64);

impl RedisStore {
    /// Connects to the server at `url` with the default [configuration](RedisConfig).
    ///
    /// # Errors
    ///
    /// - `Configuration`: a URL that cannot be used, a wrong password.
    /// - `Unavailable`: the server cannot be reached.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(RedisConfig::new(url)).await
    }

    /// The same as `config` says. The connection lives on the runtime that this is called on, which has to outlive the
    /// store.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and `Configuration` for settings that cannot be.
    pub async fn open_with(config: RedisConfig) -> Result<Self> {
        config.check()?;
        let link = Link::open(&config).await?;
        Ok(Self(Arc::new(Inner {
            link,
            capabilities: config.capabilities(),
            config,
            bells: Bells::default(),
            listed: Mutex::default(),
            swept: Mutex::default(),
        })))
    }

    pub(crate) fn key(&self, id: &OperationId) -> Vec<u8> {
        keys::key(&self.0.config.prefix, id)
    }

    pub(crate) fn context(&self, now: Timestamp) -> Context {
        Context::at(now).step_ms(self.0.config.step_ms).limits(self.0.config.limits)
    }

    fn call<'a>(&self, script: &'static Script, key: &'a [u8]) -> Call<'a> {
        Call::new(script, key, self.0.config.now())
    }

    /// A held write, with what every one of them says first.
    fn held<'a>(&self, script: &'static Script, key: &'a [u8], held: &'a Held) -> Call<'a> {
        self.call(script, key).bytes(held.attempt.as_bytes())
    }

    /// What is stored, and when it was looked at; without body and payload by [`scripts::PEEK`].
    pub(crate) async fn look(
        &self,
        script: &'static Script,
        id: &OperationId,
    ) -> Result<(Timestamp, Fields)> {
        let key = self.key(id);
        match self.0.link.call(&self.call(script, &key), During::Read).await? {
            Reply::Undecided { now, fields } => Ok((now, fields)),
            Reply::Decided { .. } => Err(not_decided()),
        }
    }

    /// Runs the script of a request that decides the common case; what it leaves undecided is decided here.
    async fn ask<T: Transition>(
        &self,
        request: &T,
        call: Call<'_>,
        decided: impl FnOnce(Timestamp, [u64; 2]) -> Result<T::Answer>,
    ) -> Result<T::Answer> {
        match self.0.link.call(&call, During::Write).await? {
            Reply::Decided { now, numbers } => {
                self.0.bells.ring(request.id());
                decided(now, numbers)
            }
            Reply::Undecided { now, fields } => self.decide(request, now, fields).await,
        }
    }

    /// Reads first, for requests that are rare.
    pub(crate) async fn apply<T: Transition>(&self, request: &T) -> Result<T::Answer> {
        let (now, fields) = self.look(&scripts::LOOK, request.id()).await?;
        self.decide(request, now, fields).await
    }

    /// Decides by the transition about what was read, and writes if nothing has changed since (G-10).
    async fn decide<T: Transition>(
        &self,
        request: &T,
        mut now: Timestamp,
        mut fields: Fields,
    ) -> Result<T::Answer> {
        let id = request.id();
        let mut turn = 0;
        loop {
            let stored = row::record(id, &fields)?;
            let step = request.apply(stored.as_ref(), &self.context(now))?;
            let next = match &step.write {
                Write::Keep => return Ok(step.answer),
                Write::Put(record) => Some(&**record),
                Write::Remove => None,
                _ => return Err(Error::internal("a transition wrote what this store does not know")),
            };
            match self.swap(id, now, &fields, next).await? {
                Reply::Decided { .. } => {
                    self.0.bells.ring(id);
                    return Ok(step.answer);
                }
                Reply::Undecided { now: later, fields: others } => (now, fields) = (later, others),
            }
            let Some(pause) = CONTENTION.pause(turn) else {
                return Err(Error::unavailable(
                    "too many writers on one operation: nothing was applied, retry",
                ));
            };
            turn += 1;
            SystemClock.sleep_until(SystemClock.elapsed() + pause).await;
        }
    }

    /// Puts `next` in place of what was read at `now`.
    async fn swap(
        &self,
        id: &OperationId,
        now: Timestamp,
        seen: &Fields,
        next: Option<&Record>,
    ) -> Result<Reply> {
        let key = self.key(id);
        let fields = next.map(row::fields).unwrap_or_default();
        let changed: Vec<_> = fields.iter().filter(|(name, value)| seen.get(*name) != Some(value)).collect();
        let purge_at = next.and_then(|record| record.purge_at(self.0.config.step_ms));
        let expiry = match (next, purge_at) {
            (None, _) => Arg::Bytes(b"x"),
            (Some(_), Some(purge_at)) if self.0.config.clock.is_none() => Arg::Number(purge_at.as_millis()),
            _ => Arg::None,
        };
        // A decision holds as long as its answer is waited for.
        let holds_ms = u64::try_from(self.0.config.response_timeout.as_millis()).unwrap_or(u64::MAX);
        let mut call = self
            .call(&scripts::SWAP, &key)
            .number(now.as_millis())
            .number(holds_ms)
            .arg(Arg::Owned(row::identity(seen)))
            .arg(expiry)
            .number(changed.len() as u64);
        for (name, value) in changed {
            call = call.bytes(name).bytes(value);
        }
        if next.is_some() {
            for name in seen.keys().filter(|name| !fields.contains_key(*name)) {
                call = call.bytes(name);
            }
        }
        self.0.link.call(&call, During::Write).await
    }

    /// The stored record as it is, expired or not: for tests that compare stores.
    ///
    /// # Errors
    ///
    /// As [`get`](Store::get).
    pub async fn stored(&self, id: &OperationId) -> Result<Option<Record>> {
        let (_, fields) = self.look(&scripts::LOOK, id).await?;
        row::record(id, &fields)
    }
}

#[cold]
fn not_decided() -> Error {
    Error::internal("a script that only reads says that it has written")
}

/// A time to live in milliseconds; none is for ever.
fn ttl(ttl: Ttl) -> Arg<'static> {
    ttl.deadline(Timestamp::EPOCH).map(Timestamp::as_millis).into()
}

fn lease(until: u64, now: Timestamp) -> u64 {
    Timestamp::from_millis(until).millis_since(now)
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.0.config).finish()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Store for RedisStore {
    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    async fn register(&self, request: &Register) -> Result<Registered> {
        // What cannot be right is refused before anything is written.
        request.apply(None, &self.context(Timestamp::EPOCH))?;
        let (id, key) = (&request.id, self.key(&request.id));
        let mut call = self
            .call(&scripts::REGISTER, &key)
            .arg(Arg::Owned(part::encode(id, request.fingerprints.first())))
            .arg(Arg::Owned(row::grant(id, EffectClass::Opaque, None, None)));
        if let Some(payload) = &request.payload {
            call = call.bytes(payload);
        }
        self.ask(request, call, |_, _| Ok(Registered::Created)).await
    }

    async fn claim(&self, request: &Claim) -> Result<Claimed> {
        refuse_local(request)?;
        if request.intent == Intent::Recover {
            return self.apply(request).await;
        }
        let (id, key) = (&request.id, self.key(&request.id));
        let call = self
            .call(&scripts::CLAIM, &key)
            .bytes(request.attempt.as_bytes())
            .number(request.lease.as_millis())
            .arg(Arg::Owned(part::encode(id, request.fingerprints.first())))
            .arg(Arg::Owned(row::grant(
                id,
                request.effect,
                Some(&request.owner),
                request.traceparent.as_ref(),
            )));
        // What the script has written is what the transition makes of nothing.
        self.ask(request, call, |now, _| Ok(request.apply(None, &self.context(now))?.answer)).await
    }

    async fn renew(&self, request: &Renew) -> Result<Renewed> {
        let key = self.key(&request.held.id);
        let call = self.held(&scripts::RENEW, &key, &request.held).number(request.lease.as_millis());
        self.ask(request, call, |now, [until, _]| Ok(Renewed::Renewed { remaining_ms: lease(until, now) }))
            .await
    }

    async fn checkpoint(&self, request: &SaveCheckpoint) -> Result<Checkpointed> {
        let key = self.key(&request.held.id);
        let limits = &self.0.config.limits;
        let too_large = request.value.len() > limits.checkpoint_bytes_max;
        let call = self
            .held(&scripts::CHECKPOINT, &key, &request.held)
            .number(request.lease.as_millis())
            .bytes(request.name.as_str().as_bytes())
            .arg(Arg::Owned(row::checkpoint(&request.held.id, &request.name, &request.value)))
            .number(limits.checkpoints_max as u64)
            .number(too_large.into());
        self.ask(request, call, |now, [until, known]| {
            let remaining_ms = lease(until, now);
            Ok(match known {
                0 => Checkpointed::Recorded { remaining_ms },
                _ => Checkpointed::Duplicate { remaining_ms },
            })
        })
        .await
    }

    async fn complete(&self, request: &Complete) -> Result<Completed> {
        let (id, key) = (&request.held.id, self.key(&request.held.id));
        let body_bytes_max = self.0.config.limits.body_bytes_max;
        let stored =
            StoredOutcome::within(&request.outcome, request.digest, request.retention, body_bytes_max);
        let (outcome, content) = part::encode_outcome(id, &stored);
        let mut call = self
            .held(&scripts::COMPLETE, &key, &request.held)
            .arg(ttl(request.retention.response_ttl()))
            .arg(ttl(request.retention.identity_ttl()))
            .number(self.0.config.step_ms)
            .bytes(&outcome);
        if let Some(content) = &content {
            call = call.bytes(content);
        }
        let body_omitted = request.outcome.is_larger_than(body_bytes_max);
        self.ask(request, call, |at, _| Ok(Completed::Completed { at, body_omitted })).await
    }

    async fn release(&self, request: &Release) -> Result<Released> {
        let (id, key) = (&request.held.id, self.key(&request.held.id));
        let reason = match request.absence {
            None => Arg::None,
            Some(AbsenceReason::Deduplicated) => Arg::Bytes(b"d"),
            Some(AbsenceReason::FencedOff) => Arg::Bytes(b"f"),
            Some(AbsenceReason::Quiesced { settle_ms }) => Arg::Number(settle_ms),
            // A reason of a later version: the transition says what it means.
            Some(_) => return self.apply(request).await,
        };
        let bytes = request.absence.map(|reason| part::encode(id, &reason)).unwrap_or_default();
        let call = self
            .held(&scripts::RELEASE, &key, &request.held)
            .arg(reason)
            .bytes(&bytes)
            .number(request.forget.into());
        self.ask(request, call, |_, [forgotten, _]| Ok(Released::Released { forgotten: forgotten == 1 }))
            .await
    }

    async fn park(&self, request: &Park) -> Result<Parked> {
        let key = self.key(&request.held.id);
        let call = self.held(&scripts::PARK, &key, &request.held).arg(Arg::Owned(row::untimed_parking(
            ParkCause::Holder,
            None,
            request.note.as_ref(),
        )));
        self.ask(request, call, |since, _| Ok(Parked::Parked { since })).await
    }

    async fn resolve(&self, request: &Resolve) -> Result<Resolved> {
        self.apply(request).await
    }

    async fn erase(&self, request: &Erase) -> Result<Erased> {
        self.apply(request).await
    }

    async fn get(&self, id: &OperationId) -> Result<Option<Record>> {
        let (now, fields) = self.look(&scripts::LOOK, id).await?;
        Ok(row::record(id, &fields)?.and_then(|record| record.as_read(now)))
    }

    async fn list(&self, query: &Query) -> Result<Page> {
        self.list_page(query).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.count().await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.sweep_batch(limit).await
    }

    async fn changed(&self, id: &OperationId, version: u64) {
        loop {
            let heard = self.0.bells.listen(id);
            match self.stored(id).await {
                // The bell may ring for a neighbour: looking here again is cheaper than another claim.
                Ok(Some(record)) if record.version == version => {
                    heard.await;
                }
                Ok(_) => return,
                // Whoever waits looks again after a pause. An answer now would make it look at once, again and again.
                Err(_) => heard.await,
            }
        }
    }
}
