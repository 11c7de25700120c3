//! What becomes of a call in which idem itself fails: an exit status that says what may have happened, and one line.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::{self, Exit};
use crate::say;

/// Whether a command was started: from then on nobody can say that nothing happened.
static BEGAN: AtomicBool = AtomicBool::new(false);

/// A command was started.
pub(crate) fn command_began() {
    BEGAN.store(true, Ordering::Relaxed);
}

/// Lets a panic say one line in place of the usual several.
pub(crate) fn tell() {
    std::panic::set_hook(Box::new(|panic| {
        let what = panic.payload_as_str().unwrap_or("a panic");
        let place = panic.location().map_or(String::new(), |place| format!(" at {place}"));
        say::line(&format!("a defect of idem, please report it: {what}{place}; {}", advice(began())));
    }));
}

/// Does `work`, and ends as a defect does where it panics.
pub(crate) fn guard(work: impl FnOnce() -> Exit) -> Exit {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| ended(began()))
}

fn began() -> bool {
    BEGAN.load(Ordering::Relaxed)
}

const fn ended(began: bool) -> Exit {
    Exit::Code(if began { exit::UNCERTAIN } else { exit::INTERNAL })
}

const fn advice(began: bool) -> &'static str {
    if began {
        "the command was run, and what became of it will be seen by whoever asks again with the same key"
    } else {
        "no command was run"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_internal_and_uncertain_once_a_command_was_started() {
        #[allow(clippy::panic, reason = "it is what the guard is for")]
        let guarded = guard(|| panic!("on purpose"));
        assert_eq!(guarded, Exit::Code(exit::INTERNAL));
        assert_eq!(guard(|| Exit::Code(3)), Exit::Code(3));
        assert_eq!(ended(true), Exit::Code(exit::UNCERTAIN));
        assert_ne!(advice(true), advice(false));
    }
}
