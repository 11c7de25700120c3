//! The store alone: one winner, one outcome, and no zombie that changes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use idem_core::answer::{Claimed, Completed, Renewed};
use idem_core::request::OnLapse;
use idem_core::{Lease, MemoryStore, State, Store};
use loom::thread;

use crate::support::{block_on, claim, complete, explore, finds, op, renew, store};

/// Claims, runs if granted, and looks again; gives the body that it saw in the end, if any.
fn race(store: &MemoryStore, body: &'static str, effects: &AtomicUsize, is_right: bool) -> Option<String> {
    let mine = claim(OnLapse::Park);
    let granted = if is_right {
        matches!(block_on(store.claim(&mine)).unwrap(), Claimed::Granted(_))
    } else {
        // Wrong: a lookup, then a write that does not depend on it (G-10).
        let absent = block_on(store.get(&op())).unwrap().is_none();
        let _ = block_on(store.claim(&mine)).unwrap();
        absent
    };
    if granted {
        effects.fetch_add(1, Ordering::SeqCst);
        let _ = block_on(store.complete(&complete(&mine, body))).unwrap();
    }
    match block_on(store.claim(&claim(OnLapse::Park))).unwrap() {
        Claimed::Replay(replay) => Some(String::from_utf8(replay.outcome.body().unwrap().to_vec()).unwrap()),
        Claimed::InProgress { attempt_number: 1, .. } if !granted => None,
        other => panic!("{other:?}"),
    }
}

fn racers(is_right: bool) {
    let (store, _clock) = store();
    let effects = Arc::new(AtomicUsize::new(0));
    let start = |body| {
        let (store, effects) = (store.clone(), Arc::clone(&effects));
        thread::spawn(move || race(&store, body, &effects, is_right))
    };
    let (a, b) = (start("a"), start("b"));
    let mut seen = vec![race(&store, "c", &effects, is_right), a.join().unwrap(), b.join().unwrap()];
    assert_eq!(effects.load(Ordering::SeqCst), 1, "one winner");
    seen.retain(Option::is_some);
    seen.dedup();
    assert_eq!(seen.len(), 1, "everybody who sees a result sees the winner's");
}

#[test]
fn lm_001_of_three_racers_one_wins() {
    explore("LM-001 racers", None, || racers(true));
}

#[test]
fn lm_001_finds_a_lookup_before_an_unconditional_write() {
    finds(|| racers(false));
}

/// A holder whose lease has lapsed renews and completes while another one takes over and completes.
fn zombie(is_right: bool) {
    let (store, clock) = store();
    let first = claim(OnLapse::Take);
    assert!(matches!(block_on(store.claim(&first)).unwrap(), Claimed::Granted(_)));
    clock.advance(Lease::default().duration());

    let late = {
        let (store, first) = (store.clone(), first.clone());
        thread::spawn(move || {
            let renewed = block_on(store.renew(&renew(&first))).unwrap();
            let mut complete = complete(&first, "first");
            if !is_right {
                // Wrong: the write carries whichever attempt is the holder now (G-15).
                complete.held.attempt = store.stored(&op()).unwrap().current.unwrap().id;
            }
            (renewed, block_on(store.complete(&complete)).unwrap())
        })
    };
    let taker = {
        let store = store.clone();
        thread::spawn(move || {
            let second = claim(OnLapse::Take);
            match block_on(store.claim(&second)).unwrap() {
                Claimed::Granted(grant) => {
                    assert_eq!(grant.number, 2);
                    Some(block_on(store.complete(&complete(&second, "second"))).unwrap())
                }
                Claimed::InProgress { .. } | Claimed::Replay(_) => None,
                other => panic!("{other:?}"),
            }
        })
    };
    // A reader: the fence never falls.
    let mut fence = idem_core::Fence::new(0);
    for _ in 0..2 {
        let seen = store.stored(&op()).unwrap().fence();
        assert!(seen >= fence);
        fence = seen;
    }
    let ((renewed, late), taken) = (late.join().unwrap(), taker.join().unwrap());
    let record = store.stored(&op()).unwrap();
    assert_eq!(record.state, State::Completed);
    let body = record.outcome.as_ref().unwrap().body().unwrap().clone();
    match taken {
        // Taken over: the zombie's write came before, or it was refused.
        Some(Completed::Completed { .. }) => {
            assert!(matches!(late, Completed::Fenced(_)), "{late:?}");
            assert_eq!((record.attempt_number(), &body[..]), (2, &b"second"[..]));
        }
        None => {
            assert!(matches!(late, Completed::Completed { .. }));
            assert_eq!((record.attempt_number(), &body[..]), (1, &b"first"[..]));
            assert!(matches!(renewed, Renewed::Renewed { .. }));
        }
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn lm_002_a_zombie_changes_nothing_after_a_takeover() {
    explore("LM-002 zombie", None, || zombie(true));
}

#[test]
fn lm_002_finds_a_write_that_does_not_name_its_attempt() {
    finds(|| zombie(false));
}

/// One completes; two read. Who sees that it is done sees all of the result, and sees the same ever after.
fn publication(is_right: bool) {
    let (store, _clock) = store();
    let mine = claim(OnLapse::Park);
    assert!(matches!(block_on(store.claim(&mine)).unwrap(), Claimed::Granted(_)));
    let beside = Arc::new(loom::sync::Mutex::new(None));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (store, beside) = (store.clone(), Arc::clone(&beside));
            thread::spawn(move || {
                let mut done = false;
                for _ in 0..2 {
                    match block_on(store.claim(&claim(OnLapse::Park))).unwrap() {
                        Claimed::Replay(replay) if is_right => {
                            let body = replay.outcome.body().map(|body| &body[..]);
                            assert_eq!((body, replay.attempt_number), (Some(&b"result"[..]), 1));
                            assert_eq!(replay.outcome.reference.as_deref(), Some("charge 9"));
                            done = true;
                        }
                        Claimed::Replay(_) => assert_eq!(*beside.lock().unwrap(), Some("result")),
                        Claimed::InProgress { .. } => assert!(!done, "a result does not go away"),
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    let mut complete = complete(&mine, "result");
    if is_right {
        let outcome = idem_core::Outcome::success().body("result").reference("charge 9");
        complete = idem_core::request::Complete::new(mine.held(), outcome, complete.retention);
    }
    let _ = block_on(store.complete(&complete)).unwrap();
    // Wrong: a result that is kept beside the record is published after it.
    *beside.lock().unwrap() = Some("result");
    for reader in readers {
        reader.join().unwrap();
    }
}

#[test]
fn lm_004_a_result_is_published_whole() {
    explore("LM-004 publication", None, || publication(true));
}

#[test]
fn lm_004_finds_a_result_that_is_published_after_its_record() {
    finds(|| publication(false));
}
