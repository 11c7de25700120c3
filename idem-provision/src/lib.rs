#![doc = include_str!("../README.md")]

mod error;
mod find;
mod provision;
mod software;

#[cfg(unix)]
mod account;
#[cfg(unix)]
mod home;
#[cfg(unix)]
mod keeper;
#[cfg(unix)]
mod local;
#[cfg(unix)]
mod postgres;
#[cfg(unix)]
mod private;
#[cfg(unix)]
mod redis;
#[cfg(unix)]
mod wait;

pub use error::Error;
pub use find::find_program;
#[cfg(unix)]
pub use private::{Ending, Private};
pub use provision::{Provision, Server, postgres, redis, required};
pub use software::Software;
