//! How the models run: `explore` counts what loom tries, `block_on` waits in a way that loom sees.

use std::future::Future;
use std::io::Write;
use std::pin::pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use idem_core::clock::ManualClock;
use idem_core::request::{Complete, Intent, OnLapse, Renew};
use idem_core::{Claim, Fingerprint, Label, Lease, Limits, MemoryStore, OperationId, Outcome, Retention};
use loom::sync::{Condvar, Mutex};

/// The fewest executions that a model has to have: fewer would mean that nothing was interleaved.
const EXECUTIONS_MIN: usize = 100;

/// Runs every interleaving of `model`, all of them unless `preemptions` bounds the switches that nothing forces.
pub(crate) fn explore(name: &str, preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    let counted = Arc::clone(&executions);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    // Not through `println`, which the test harness swallows when a test passes.
    let mut said = std::io::stderr();
    writeln!(said, "{name}: {executions} executions").unwrap();
    assert!(executions > EXECUTIONS_MIN, "{name}: only {executions} executions");
}

/// Runs a model that is composed wrongly, where the fault is found by an assertion: it must panic.
pub(crate) fn finds(model: impl Fn() + Sync + Send + 'static) {
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut builder = loom::model::Builder::new();
        builder.max_branches = 10_000;
        builder.check(model);
    }));
    assert!(found.is_err(), "the fault was not found");
}

const CHILD: &str = "IDEM_LOOM_CHILD";

/// Whether this process is the child that runs a model that blocks for good.
pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the test `name` again as a child, where `is_child` holds: loom must find that it blocks.
pub(crate) fn finds_a_deadlock(name: &str) {
    let program = std::env::current_exe().unwrap();
    let ended =
        Command::new(program).args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned() + &String::from_utf8_lossy(&ended.stdout);
    assert!(!ended.status.success() && said.contains("deadlock"), "the fault was not found:\n{said}");
}

/// Wakes a thread of the model. tokio clones wakers under its own locks, where loom must not switch; cloning this one
/// is no step of loom's.
struct Signal {
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.bell.notify_one();
    }
}

/// Drives `future` to its end on this thread of the model.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let signal = Arc::new(Signal { woken: Mutex::new(false), bell: Condvar::new() });
    let waker = Waker::from(Arc::clone(&signal));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut woken = signal.woken.lock().unwrap();
        while !*woken {
            woken = signal.bell.wait(woken).unwrap();
        }
        *woken = false;
    }
}

/// A store on a clock that stands at 1,000 s.
pub(crate) fn store() -> (MemoryStore, ManualClock) {
    let clock = ManualClock::at(1_000_000);
    (MemoryStore::with(Arc::new(clock.clone()), Limits::default()), clock)
}

pub(crate) fn op() -> OperationId {
    OperationId::new("acme", "charge/v1", "order-1").unwrap()
}

pub(crate) fn intent() -> Fingerprint {
    Fingerprint::bytes(b"10 EUR")
}

pub(crate) fn claim(on_lapse: OnLapse) -> Claim {
    Claim::new(op(), intent(), Label::new("model").unwrap()).intent(Intent::Run(on_lapse))
}

pub(crate) fn complete(claim: &Claim, body: &'static str) -> Complete {
    Complete::new(claim.held(), Outcome::success().body(body), Retention::forever())
}

pub(crate) fn renew(claim: &Claim) -> Renew {
    Renew::new(claim.held(), Lease::default())
}
