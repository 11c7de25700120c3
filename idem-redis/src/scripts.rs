//! The scripts: each decides one request about one record, by the clock of the server.

use std::sync::LazyLock;

use idem_core::{Error, Result, Timestamp};
use redis::{Cmd, Value};

use crate::row::{Fields, damaged};

/// One script; the server keeps it under its hash once it has run.
#[derive(Debug)]
pub(crate) struct Script {
    code: String,
    hash: String,
}

fn script(body: &str) -> Script {
    let code = format!("{}{body}", include_str!("lua/common.lua"));
    let hash = redis::Script::new(&code).get_hash().to_owned();
    Script { code, hash }
}

macro_rules! scripts {
    ($($name:ident = $file:literal),+ $(,)?) => {$(
        pub(crate) static $name: LazyLock<Script> = LazyLock::new(|| script(include_str!(concat!("lua/", $file))));
    )+};
}

scripts! {
    LOOK = "look.lua",
    PEEK = "peek.lua",
    CLAIM = "claim.lua",
    REGISTER = "register.lua",
    RENEW = "renew.lua",
    CHECKPOINT = "checkpoint.lua",
    COMPLETE = "complete.lua",
    RELEASE = "release.lua",
    PARK = "park.lua",
    SWAP = "swap.lua",
}

/// One argument of a script.
#[derive(Debug)]
pub(crate) enum Arg<'a> {
    Bytes(&'a [u8]),
    Owned(Vec<u8>),
    Number(u64),
    /// Nothing, as in "the server's clock" and "for ever".
    None,
}

impl From<Option<u64>> for Arg<'_> {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::None, Self::Number)
    }
}

/// One call of a script about one record.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    script: &'static Script,
    key: &'a [u8],
    args: Vec<Arg<'a>>,
}

impl<'a> Call<'a> {
    /// A call at `now`; the server's own clock if there is none.
    pub(crate) fn new(script: &'static Script, key: &'a [u8], now: Option<Timestamp>) -> Self {
        Self { script, key, args: vec![now.map(Timestamp::as_millis).into()] }
    }

    pub(crate) fn arg(mut self, arg: Arg<'a>) -> Self {
        self.args.push(arg);
        self
    }

    pub(crate) fn bytes(self, bytes: &'a [u8]) -> Self {
        self.arg(Arg::Bytes(bytes))
    }

    pub(crate) fn number(self, number: u64) -> Self {
        self.arg(Arg::Number(number))
    }

    /// By its hash, for a server that knows the script.
    pub(crate) fn by_hash(&self) -> Cmd {
        self.command("EVALSHA", &self.script.hash)
    }

    /// By its text, from which the server learns it.
    pub(crate) fn by_text(&self) -> Cmd {
        self.command("EVAL", &self.script.code)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(1).arg(self.key);
        for arg in &self.args {
            match arg {
                Arg::Bytes(bytes) => command.arg(bytes),
                Arg::Owned(bytes) => command.arg(bytes),
                Arg::Number(number) => command.arg(number),
                Arg::None => command.arg(b""),
            };
        }
        command
    }
}

/// What a script answered.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It has decided and written at `now`; what else it says are numbers.
    Decided { now: Timestamp, numbers: [u64; 2] },
    /// What is stored at `now`, about which the caller decides.
    Undecided { now: Timestamp, fields: Fields },
}

impl Reply {
    pub(crate) fn read(value: Value) -> Result<Self> {
        let Value::Array(items) = value else { return Err(strange()) };
        let mut items = items.into_iter();
        let mut next = || items.next().unwrap_or(Value::Nil);
        let (decided, now) = (number(&next())?, Timestamp::from_millis(number(&next())?));
        if decided == 1 {
            let mut number_or_0 = || match next() {
                Value::Nil => Ok(0),
                value => number(&value),
            };
            return Ok(Self::Decided { now, numbers: [number_or_0()?, number_or_0()?] });
        }
        let Value::Array(flat) = next() else { return Err(strange()) };
        let mut fields = Fields::new();
        let mut flat = flat.into_iter();
        while let Some(name) = flat.next() {
            fields.insert(bytes(name)?, bytes(flat.next().unwrap_or(Value::Nil))?);
        }
        Ok(Self::Undecided { now, fields })
    }
}

fn number(value: &Value) -> Result<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| strange()),
        _ => Err(strange()),
    }
}

fn bytes(value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        _ => Err(damaged("a field is not a string")),
    }
}

fn strange() -> Error {
    Error::internal(
        "a script in Redis gave an answer that it does not give: is something between the ledger and Redis?",
    )
}
