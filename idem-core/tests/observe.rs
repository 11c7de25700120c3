//! What is counted and what is told: by operation, correlated, and without keys, tenants and contents (G-90, G-91).

#![cfg(not(idem_loom))]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, PoisonError};

use idem_core::clock::ManualClock;
use idem_core::ledger::{Answer, Failure, Ledger, Policy};
use idem_core::request::{Intent, OnLapse};
use idem_core::{Claim, Fingerprint, Label, Lease, Limits, MemoryStore, OperationId, Retention, Store, Ttl};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

/// Values by name and labels, as `name{label="value"}`.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<BTreeMap<String, f64>>>);

struct Meter(Recorded, String);

impl Recorded {
    fn meter(&self, key: &Key) -> Arc<Meter> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Meter(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
    }

    fn of(&self, name: &str, labels: &str) -> f64 {
        self.0.lock().unwrap().get(&format!("{name}{{{labels}}}")).copied().unwrap_or_default()
    }
}

impl Meter {
    fn add(&self, value: f64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
}

impl CounterFn for Meter {
    fn increment(&self, value: u64) {
        self.add(f64::from(u32::try_from(value).unwrap()));
    }
    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Meter {
    fn increment(&self, value: f64) {
        self.add(value);
    }
    fn decrement(&self, value: f64) {
        self.add(-value);
    }
    fn set(&self, value: f64) {
        self.0.0.lock().unwrap().insert(self.1.clone(), value);
    }
}

impl HistogramFn for Meter {
    fn record(&self, value: f64) {
        self.add(value);
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.meter(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.meter(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.meter(key))
    }
}

/// Every span and event, one line each.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Told {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("idem_core")
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        let mut told = self.0.lock().unwrap();
        told.push(line.0);
        Id::from_u64(told.len() as u64)
    }
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

const OPERATION: &str = "invoice.create/v1";

fn op(number: u32) -> OperationId {
    OperationId::new("secret-tenant", OPERATION, &format!("secret-key-{number}")).unwrap()
}

struct World {
    ledger: Ledger,
    store: MemoryStore,
    clock: ManualClock,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::at(1_000_000);
        let store = MemoryStore::with(Arc::new(clock.clone()), Limits::default());
        let ledger = Ledger::shared(Arc::new(store.clone()), Arc::new(clock.clone()));
        Self { ledger, store, clock }
    }

    async fn run(&self, number: u32, result: Result<&str, Failure>) -> Answer<String> {
        let result = result.map(str::to_owned);
        let handler = |_| async { result };
        self.ledger.run(&op(number), Fingerprint::bytes(b"10 EUR"), handler).await.unwrap()
    }

    /// Every kind of answer once, except where noted.
    async fn everything(&self) {
        let clock = self.clock.clone();
        let handler = |_| async move {
            clock.advance(std::time::Duration::from_secs(3));
            Ok("secret-body".to_owned())
        };
        let _ = self.ledger.run(&op(1), Fingerprint::bytes(b"10 EUR"), handler).await.unwrap();
        let _ = self.run(1, Ok("")).await;
        let _ = self.ledger.run(&op(1), Fingerprint::bytes(b"11 EUR"), |_| async { Ok(1) }).await.unwrap();
        let _ = self.run(2, Err(Failure::no_effect("no"))).await;
        let _ = self.run(3, Err(Failure::unknown("hm"))).await;
        let _ = self.run(3, Ok("")).await;
        let mut policy = Policy::keyed(std::time::Duration::from_secs(3600));
        policy.retention = Retention::forever().response(Ttl::Millis(0)).unwrap();
        let keyed = self.ledger.with(policy);
        let intent = Fingerprint::bytes(b"10 EUR");
        // A holder that is fenced: while it works its lease lapses and another one takes over, which resumes.
        let (clock, other) = (self.clock.clone(), keyed.clone());
        let id = op(4);
        let answer = keyed.run(&id, intent, |_| async move {
            clock.advance(Lease::default().duration());
            let resumed = other.run(&op(4), intent, |_| async { Ok(2) }).await?;
            assert!(matches!(resumed, Answer::Executed(2)));
            Ok(1)
        });
        assert!(matches!(answer.await.unwrap(), Answer::Unrecorded { .. }));
        assert!(matches!(keyed.run(&op(4), intent, |_| async { Ok(3) }).await.unwrap(), Answer::Expired(_)));
        let rival =
            Claim::new(op(5), intent, Label::new("rival").unwrap()).intent(Intent::Run(OnLapse::Park));
        let _ = self.store.claim(&rival).await.unwrap();
        let _ = self.run(5, Ok("")).await;
        self.clock.advance(std::time::Duration::from_secs(5));
        idem_core::observe::gauges(&self.store.stats().await.unwrap());
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Held by each test while it runs. Whether anybody wants an event is remembered for the whole process: a test without
/// a subscriber that meets an event at the moment in which another one sets its own would switch that event off there.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn everything_is_counted_by_operation_and_by_nothing_else() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let recorded = Recorded::default();
    metrics::with_local_recorder(&recorded, || block_on(World::new().everything()));
    let counts = [
        ("idem_executions_total", 2.0),
        ("idem_replays_total", 1.0),
        ("idem_conflicts_total", 1.0),
        ("idem_in_progress_total", 1.0),
        ("idem_recoveries_total", 1.0),
        ("idem_uncertain_total", 2.0),
        ("idem_expired_total", 1.0),
        ("idem_releases_total", 1.0),
        ("idem_fenced_writes_total", 1.0),
        ("idem_lost_records_total", 0.0),
        ("idem_store_errors_total", 0.0),
        ("idem_attempt_seconds", 3.0),
    ];
    for (name, count) in counts {
        let seen = recorded.of(name, &format!("operation={OPERATION}"));
        assert!((seen - count).abs() < f64::EPSILON, "{name} is {seen} and not {count}");
    }
    for (view, count) in [("running", 1.0), ("completed", 1.0), ("expired", 1.0), ("uncertain", 1.0)] {
        let seen = recorded.of("idem_operations", &format!("view={view}"));
        assert!((seen - count).abs() < f64::EPSILON, "{view}: {seen}");
    }
    assert!((recorded.of("idem_oldest_processing_seconds", "") - 5.0).abs() < f64::EPSILON);
    for name in recorded.0.lock().unwrap().keys() {
        assert!(!name.contains("secret"), "{name}");
    }
}

#[test]
fn what_is_told_is_correlated_and_holds_no_secret() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let told = Told::default();
    let world = World::new();
    tracing::subscriber::with_default(told.clone(), || block_on(world.everything()));
    let told = told.0.lock().unwrap();
    assert!(told.iter().all(|line| !line.contains("secret")), "{told:#?}");
    let key = world.ledger.policy().log_key.digest(&op(1));
    let downstream = op(1).downstream_key().to_string();
    let of_first: Vec<_> = told.iter().filter(|line| line.contains(&key)).collect();
    assert!(of_first[0].starts_with("idem.attempt"), "{of_first:#?}");
    for part in [OPERATION, "attempt=1", "mode=Execute", "fence=1000000", &downstream] {
        assert!(of_first[0].contains(part), "{part}: {}", of_first[0]);
    }
    for (line, result) in of_first[1..].iter().zip(["completed", "replayed", "conflict"]) {
        assert!(line.contains(&format!("result=\"{result}\"")), "{line}");
    }
    assert_eq!(of_first.len(), 4);
    assert_ne!(key, idem_core::observe::LogKey::new([1; 32]).digest(&op(1)), "the digest is keyed");
    assert_ne!(key, world.ledger.policy().log_key.digest(&op(2)));
    assert_eq!(format!("{:?}", world.ledger.policy().log_key), "LogKey(…)");
}
