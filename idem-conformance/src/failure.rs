//! Why a scenario failed, and the macros that say so.

use std::fmt;

use crate::report::Timeline;

/// Why a scenario failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    message: String,
    timeline: Option<Timeline>,
}

impl Failure {
    /// A failure in words.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), timeline: None }
    }

    /// The same, with the history that shows it.
    pub(crate) fn with_timeline(mut self, timeline: Timeline) -> Self {
        self.timeline = Some(timeline);
        self
    }

    /// The words.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The history that shows it, where it is a history that is wrong.
    #[must_use]
    pub const fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.timeline.as_ref().map_or(Ok(()), |timeline| write!(f, "\n{timeline}"))
    }
}

/// An error of the store where an answer was due.
impl From<idem_core::Error> for Failure {
    fn from(error: idem_core::Error) -> Self {
        Self::new(format!("the store failed instead of answering: {error:?}"))
    }
}

/// What a scenario's body gives.
pub(crate) type Verdict<T = ()> = Result<T, Failure>;

/// Fails the scenario unless the condition holds; counts it as evidence if it does.
macro_rules! ensure {
    ($env:expr, $condition:expr, $($message:tt)+) => {
        if $condition {
            $env.saw($crate::evidence::Fact::Checks, 1);
        } else {
            return Err($crate::failure::Failure::new(format!($($message)+)));
        }
    };
}

/// Fails the scenario unless both values are equal.
macro_rules! ensure_eq {
    ($env:expr, $actual:expr, $expected:expr, $($message:tt)+) => {{
        let (actual, expected) = (&$actual, &$expected);
        ensure!(
            $env,
            actual == expected,
            "{}: expected {expected:?}, got {actual:?}",
            format_args!($($message)+)
        );
    }};
}

/// Fails the scenario unless the value matches the pattern; gives what the arm says.
macro_rules! ensure_let {
    ($env:expr, $actual:expr; $pattern:pat $(if $guard:expr)? => $value:expr, $($message:tt)+) => {
        match $actual {
            $pattern $(if $guard)? => {
                $env.saw($crate::evidence::Fact::Checks, 1);
                $value
            }
            other => {
                return Err($crate::failure::Failure::new(format!("{}: got {other:?}", format_args!($($message)+))));
            }
        }
    };
    ($env:expr, $actual:expr; $pattern:pat, $($message:tt)+) => {
        ensure_let!($env, $actual; $pattern => (), $($message)+)
    };
}

pub(crate) use {ensure, ensure_eq, ensure_let};
