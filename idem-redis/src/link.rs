//! The connection: one, shared by all calls, made again when it is broken.

use std::sync::{Arc, PoisonError, RwLock};

use idem_core::{Result, Timestamp};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, Value};

use crate::config::RedisConfig;
use crate::error::{During, classify, is_unknown_script, wants_another_connection};
use crate::scripts::{Call, Reply};

/// The way to one server.
pub(crate) struct Link {
    client: Client,
    timeouts: AsyncConnectionConfig,
    current: RwLock<Option<Arc<MultiplexedConnection>>>,
    /// Held while a connection is made, so that those who wait make one together.
    making: tokio::sync::Mutex<()>,
}

impl Link {
    /// Connects.
    pub(crate) async fn open(config: &RedisConfig) -> Result<Self> {
        let client = Client::open(config.url.as_str()).map_err(|error| classify(error, During::Connect))?;
        let timeouts = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.connection_timeout))
            .set_response_timeout(Some(config.response_timeout));
        let link =
            Self { client, timeouts, current: RwLock::default(), making: tokio::sync::Mutex::default() };
        link.connection().await?;
        Ok(link)
    }

    fn current(&self) -> Option<Arc<MultiplexedConnection>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn connection(&self) -> Result<Arc<MultiplexedConnection>> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let _making = self.making.lock().await;
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let made = self.client.get_multiplexed_async_connection_with_config(&self.timeouts).await;
        let made = Arc::new(made.map_err(|error| classify(error, During::Connect))?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Lets the next call make a connection, unless somebody has done so since `broken` was had.
    fn forget(&self, broken: &Arc<MultiplexedConnection>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, broken)) {
            *current = None;
        }
    }

    /// Sends one command.
    async fn send(&self, command: &Cmd) -> Result<Result<Value, RedisError>> {
        let connection = self.connection().await?;
        let answer = MultiplexedConnection::clone(&connection).send_packed_command(command).await;
        // An error in the answer's place is an answer of the server.
        let answer = answer.and_then(Value::extract_error);
        if let Err(error) = &answer
            && wants_another_connection(error)
        {
            self.forget(&connection);
        }
        Ok(answer)
    }

    /// Runs a script; a server that does not know it learns it.
    pub(crate) async fn call(&self, call: &Call<'_>, during: During) -> Result<Reply> {
        let mut answer = self.send(&call.by_hash()).await?;
        if answer.as_ref().is_err_and(is_unknown_script) {
            answer = self.send(&call.by_text()).await?;
        }
        Reply::read(answer.map_err(|error| classify(error, during))?)
    }

    /// One step of a walk over all keys that match `pattern`: where the next one starts (0 at the end), and keys.
    pub(crate) async fn scan(
        &self,
        cursor: u64,
        pattern: &[u8],
        count: usize,
    ) -> Result<(u64, Vec<Vec<u8>>)> {
        let mut command = redis::cmd("SCAN");
        command.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(count);
        let answer = self.send(&command).await?.map_err(|error| classify(error, During::Read))?;
        redis::from_redis_value(answer).map_err(|error| classify(error.into(), During::Read))
    }

    /// The server's clock.
    pub(crate) async fn time(&self) -> Result<Timestamp> {
        let answer = self.send(&redis::cmd("TIME")).await?.map_err(|error| classify(error, During::Read))?;
        let (seconds, micros): (u64, u64) =
            redis::from_redis_value(answer).map_err(|error| classify(error.into(), During::Read))?;
        Ok(Timestamp::from_millis(seconds.saturating_mul(1000).saturating_add(micros / 1000)))
    }
}
