//! What a harness gives beside an open store, for the capabilities that need it.

mod effects;
mod outbox;
mod server;
mod storage;

pub use effects::{Effect, EffectTransaction, Effects, End};
pub use outbox::{Delivery, Message, Outbox, Publisher};
pub use server::{Ending, Server};
pub use storage::{Setting, Storage};

/// What a hook that was not given says.
pub(crate) fn not_given(hook: &'static str) -> idem_core::Error {
    idem_core::Error::unsupported(format!("the harness declares the capability and has no `{hook}`"))
}
