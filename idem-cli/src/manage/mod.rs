//! The commands for people who look after a ledger. Trusted code: keys of every tenant are shown (G-06).

mod erase;
mod find;
mod list;
mod register;
mod resolve;
mod show;
mod stats;
mod sweep;
mod view;

use std::ffi::OsStr;
use std::future::Future;
use std::sync::Arc;

use idem_core::{Error, Result, Store};

use crate::args::{EraseArgs, JsonArgs, ListArgs, RegisterArgs, ResolveArgs, ShowArgs};
use crate::exit::{self, Exit};
use crate::hint::Hints;
use crate::store::{Location, Opening};
use crate::{runtime, say};

/// What is told when an operation went between two looks at it.
const GONE: &str = "there is no such operation any more";

/// Why a command did not do what it was asked for.
enum Failed {
    /// The ledger says no; this is what it said, and the exit.
    No(String, u8),
    Error(Error),
    /// It has happened that not all could be printed, and was said.
    Printed(Exit),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Prints, and goes on only if that was possible.
fn print(text: &str) -> std::result::Result<(), Failed> {
    match say::print(text) {
        Exit::Code(0) => Ok(()),
        exit => Err(Failed::Printed(exit)),
    }
}

/// A ledger to work on.
struct Desk {
    store: Arc<dyn Store>,
    /// What people are told to type next.
    hints: Hints,
}

/// Opens the ledger, works on it, closes it, and says what was wrong.
fn with_store<F, Fut>(store: Option<&OsStr>, opening: Opening, work: F) -> Exit
where
    F: FnOnce(Desk) -> Fut,
    Fut: Future<Output = std::result::Result<(), Failed>>,
{
    let opened_and_done = async {
        let location = Location::of(store)?;
        let opened = match opening {
            Opening::Existing => location.open_existing().await?,
            Opening::Make => location.open().await?,
        };
        let done = work(Desk { store: opened.store(), hints: Hints::of(store) }).await;
        opened.close().await;
        done
    };
    let done = runtime::block_on(opened_and_done);
    match done.unwrap_or_else(|error| Err(error.into())) {
        Ok(()) => Exit::Code(0),
        Err(Failed::Printed(exit)) => exit,
        Err(Failed::No(text, code)) => {
            say::line(&text);
            Exit::Code(code)
        }
        Err(Failed::Error(error)) => refuse(&error),
    }
}

fn refuse(error: &Error) -> Exit {
    say::line(&say::error(error));
    Exit::Code(exit::of_error(error))
}

pub(crate) fn show(store: Option<&OsStr>, args: &ShowArgs) -> Exit {
    with_store(store, Opening::Existing, |desk| async move { show::show(&desk, args).await })
}

pub(crate) fn list(store: Option<&OsStr>, args: &ListArgs) -> Exit {
    with_store(store, Opening::Existing, |desk| async move { list::list(&*desk.store, args).await })
}

pub(crate) fn stats(store: Option<&OsStr>, args: &JsonArgs) -> Exit {
    with_store(store, Opening::Existing, |desk| async move { stats::stats(&*desk.store, args).await })
}

pub(crate) fn sweep(store: Option<&OsStr>, args: &JsonArgs) -> Exit {
    with_store(store, Opening::Existing, |desk| async move { sweep::sweep(&*desk.store, args).await })
}

pub(crate) fn erase(store: Option<&OsStr>, args: &EraseArgs) -> Exit {
    with_store(store, Opening::Existing, |desk| async move { erase::erase(&desk, args).await })
}

pub(crate) fn resolve(store: Option<&OsStr>, args: ResolveArgs) -> Exit {
    with_store(store, Opening::Existing, |desk| async move { resolve::resolve(&desk, args).await })
}

/// Checks before the ledger is made: a wrong key must not make one.
pub(crate) fn register(store: Option<&OsStr>, args: &RegisterArgs) -> Exit {
    let checked: Result<_> = register::Checked::of(args);
    match checked {
        Err(error) => refuse(&error),
        Ok(checked) => with_store(store, Opening::Make, |desk| async move {
            register::register(desk.store, checked, args.json.json).await
        }),
    }
}

/// Opening a ledger brings it up to date.
pub(crate) fn migrate(store: Option<&OsStr>) -> Exit {
    with_store(store, Opening::Make, |desk| async move {
        let place = Location::of(store)?;
        print(&format!("{place}: {} ledger, up to date\n", desk.store.capabilities().name))
    })
}
