//! The test program as its user sees it: names, skips, failures, exit codes.

use std::process::{Command, ExitCode, Output};
use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Capability, Declared, Harness, Program, Site};
use idem_core::{Error, MemoryStore, Result, Store};
use libtest_mimic::{Arguments, Failed, Trial};

/// Names the backend that this program runs as, instead of its own tests.
const BACKEND: &str = "IDEM_PROGRAM_TEST";

/// A backend that behaves as its name says.
#[derive(Debug)]
struct Backend(&'static str);

const BACKENDS: [&str; 5] = ["right", "away", "silent", "boastful", "broken"];

#[async_trait]
impl Harness for Backend {
    fn name(&self) -> &'static str {
        self.0
    }

    fn capabilities(&self) -> Declared {
        match self.0 {
            "silent" => Declared::supports(&[Capability::Wait]),
            "boastful" => Declared::supports(&[Capability::Clock]).declines(&Capability::ALL, "not asked"),
            _ => Declared::supports(&[]).declines(&Capability::ALL, "not asked"),
        }
    }

    async fn open(&self, _site: &Site) -> Result<Arc<dyn Store>> {
        match self.0 {
            "broken" => Err(Error::unavailable("the disk is on fire")),
            _ => Ok(Arc::new(MemoryStore::new())),
        }
    }

    async fn available(&self) -> Result<(), String> {
        if self.0 == "away" { Err("no server: start one".to_owned()) } else { Ok(()) }
    }
}

type Body = fn() -> Result<(), Failed>;

fn main() -> ExitCode {
    let own = std::env::var(BACKEND).unwrap_or_default();
    if let Some(backend) = BACKENDS.into_iter().find(|backend| *backend == own) {
        return idem_conformance::main(
            Program::new("a-package", "a_target"),
            vec![Arc::new(Backend(backend))],
        );
    }
    let tests: &[(&str, Body)] = &[
        ("names_and_skips_are_listed", names_and_skips_are_listed),
        ("a_right_store_passes_what_it_can", a_right_store_passes_what_it_can),
        ("an_absent_backend_is_skipped_or_required", an_absent_backend_is_skipped_or_required),
        ("nothing_executed_is_a_failure", nothing_executed_is_a_failure),
        ("a_failure_says_how_to_see_it_again", a_failure_says_how_to_see_it_again),
        ("what_is_declared_is_checked", what_is_declared_is_checked),
    ];
    let trials = tests.iter().map(|(name, test)| Trial::test(*name, test)).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// How the program ended as `backend`, with what it wrote.
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

fn program(backend: &str, arguments: &[&str], environment: &[(&str, &str)]) -> std::io::Result<Ended> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).env(BACKEND, backend).env_remove("IDEM_SEED").env_remove("IDEM_REQUIRE");
    command.envs(environment.iter().copied());
    let Output { status, stdout, stderr } = command.output()?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(Ended { code: status.code(), out: text(&stdout), err: text(&stderr) })
}

impl Ended {
    fn must(&self, held: bool, what: &str) -> Result<(), Failed> {
        if held {
            return Ok(());
        }
        Err(format!("{what}\n code: {:?}\n stdout: {}\n stderr: {}", self.code, self.out, self.err).into())
    }

    fn code(&self, code: i32) -> Result<(), Failed> {
        self.must(self.code == Some(code), &format!("the exit code must be {code}"))
    }

    fn says(&self, text: &str) -> Result<(), Failed> {
        self.must(self.out.contains(text) || self.err.contains(text), &format!("it must say {text:?}"))
    }
}

fn names_and_skips_are_listed() -> Result<(), Failed> {
    let ended = program("right", &["--list", "--format", "terse"], &[])?;
    ended.code(0)?;
    ended.says("right::CC-001::one_winner: test\n")?;
    ended.says("right::CAP::what_is_declared_is_there: test\n")?;
    let ignored = program("right", &["--list", "--format", "terse", "--ignored"], &[])?;
    ignored.code(0)?;
    ignored.says("right::CR-001::killed_before_the_claim: test\n")?;
    ignored.must(!ignored.out.contains("CC-001"), "what runs is not ignored")
}

fn a_right_store_passes_what_it_can() -> Result<(), Failed> {
    let ended = program("right", &["right::ID-00"], &[])?;
    // Every handle of this backend is a store of its own; isolation is all that it has.
    ended.code(0)?;
    ended.says("test result: ok. 7 passed; 0 failed; 0 ignored;")?;
    let skipped = program("right", &["right::LS-00"], &[])?;
    skipped.code(0)?;
    skipped.says("needs K (injected clock), declined: not asked")?;
    skipped.says("right::LS-002::the_lease_ends_at_its_exact_instant")?;
    let forced = program("right", &["right::LS-002", "--ignored"], &[])?;
    forced.must(!forced.out.contains("1 passed"), "a skip is never a pass")
}

fn an_absent_backend_is_skipped_or_required() -> Result<(), Failed> {
    let ended = program("away", &[], &[])?;
    ended.code(0)?;
    ended.says("away is not available: no server: start one")?;
    ended.says("0 passed; 0 failed;")?;
    let required = program("away", &[], &[("IDEM_REQUIRE", "another, away")])?;
    required.code(101)?;
    required.says("away is required by IDEM_REQUIRE and not available: no server: start one")?;
    program("away", &[], &[("IDEM_REQUIRE", "another")])?.code(0)
}

fn nothing_executed_is_a_failure() -> Result<(), Failed> {
    for filter in ["right::LS-002", "CC-999", "right::nowhere"] {
        let ended = program("right", &[filter], &[])?;
        ended.code(101)?;
        ended.says("error: no scenario was executed")?;
    }
    // What filters for another program of the workspace, or for the probe alone, is none.
    program("right", &["codec"], &[])?.code(0)?;
    program("right", &["CAP"], &[])?.code(0)
}

fn a_failure_says_how_to_see_it_again() -> Result<(), Failed> {
    let ended = program("broken", &["ID-001"], &[("IDEM_SEED", "42")])?;
    ended.code(101)?;
    ended.says("ID-001 on broken breaks G-10, G-01")?;
    ended.says("the store failed instead of answering: Unavailable: the disk is on fire")?;
    ended.says("rerun:    IDEM_SEED=42 cargo test -p a-package --test a_target -- broken::ID-001")?;
    let refused = program("broken", &["ID-001"], &[("IDEM_SEED", "forty-two")])?;
    refused.code(101)?;
    refused.says("IDEM_SEED is not a decimal number")
}

fn what_is_declared_is_checked() -> Result<(), Failed> {
    let silent = program("silent", &["CAP"], &[])?;
    silent.code(101)?;
    silent
        .says("the harness says nothing about K (injected clock): support it, or decline it with a reason")?;
    let boastful = program("boastful", &["CAP"], &[])?;
    boastful.code(101)?;
    boastful.says("K (injected clock) is declared, and it is not there")?;
    let modest = program("right", &["CAP", "--nocapture"], &[])?;
    modest.code(0)?;
    modest.says("under-claimed: right: W (woken waiters) is declined, and it works")
}
