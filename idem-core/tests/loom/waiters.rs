//! Waking: nobody who waits sleeps through the change, and nobody polls here, so a lost wake-up blocks for good.

use std::sync::Arc;

use idem_core::answer::Claimed;
use idem_core::request::{OnLapse, Release};
use idem_core::wake::Bells;
use idem_core::{MemoryStore, Store};
use loom::sync::Mutex;
use loom::thread;

use crate::support::{block_on, claim, complete, explore, finds_a_deadlock, is_child, op, renew, store};

/// Waits for the end of the operation as a ledger does, without ever polling.
fn wait(store: &MemoryStore) -> Claimed {
    let mine = claim(OnLapse::Park);
    loop {
        match block_on(store.claim(&mine)).unwrap() {
            Claimed::InProgress { version, .. } => block_on(store.changed(&op(), version)),
            other => return other,
        }
    }
}

#[test]
fn lm_003_every_waiter_hears_the_completion() {
    explore("LM-003 waiters of a completion", Some(4), || {
        let (store, _clock) = store();
        let mine = claim(OnLapse::Park);
        assert!(matches!(block_on(store.claim(&mine)).unwrap(), Claimed::Granted(_)));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let store = store.clone();
                thread::spawn(move || wait(&store))
            })
            .collect();
        // A renewal moves the version without ringing; a completion rings.
        let _ = block_on(store.renew(&renew(&mine))).unwrap();
        let _ = block_on(store.complete(&complete(&mine, "result"))).unwrap();
        for waiter in waiters {
            assert!(matches!(waiter.join().unwrap(), Claimed::Replay(_)));
        }
    });
}

#[test]
fn lm_003_a_release_is_heard_and_granted_to_one() {
    explore("LM-003 waiters of a release", Some(4), || {
        let (store, _clock) = store();
        let mine = claim(OnLapse::Park);
        assert!(matches!(block_on(store.claim(&mine)).unwrap(), Claimed::Granted(_)));
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let store = store.clone();
                thread::spawn(move || match wait(&store) {
                    Claimed::Granted(grant) => {
                        let held = idem_core::request::Held::new(grant.id.clone(), grant.attempt);
                        let outcome = idem_core::Outcome::success();
                        let complete =
                            idem_core::request::Complete::new(held, outcome, idem_core::Retention::forever());
                        let _ = block_on(store.complete(&complete)).unwrap();
                        1
                    }
                    Claimed::Replay(_) => 0,
                    other => panic!("{other:?}"),
                })
            })
            .collect();
        let _ = block_on(store.release(&Release::new(mine.held()))).unwrap();
        let granted: u32 = waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum();
        assert_eq!(granted, 1);
    });
}

/// Two wait for a flag with the bells alone; one sets it and rings.
fn bells(listens_first: bool) {
    let shared = Arc::new((Bells::default(), Mutex::new(0_u32)));
    let waiters: Vec<_> = (0..2)
        .map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (bells, turn) = &*shared;
                let id = op();
                while *turn.lock().unwrap() < 2 {
                    let heard = bells.listen(&id);
                    if listens_first && *turn.lock().unwrap() == 2 {
                        break;
                    }
                    block_on(heard);
                }
            })
        })
        .collect();
    let (bells, turn) = &*shared;
    for _ in 0..2 {
        *turn.lock().unwrap() += 1;
        bells.ring(&op());
    }
    for waiter in waiters {
        waiter.join().unwrap();
    }
}

#[test]
fn lm_003_bells_lose_no_wake_up() {
    explore("LM-003 bells", Some(4), || bells(true));
}

#[test]
fn lm_003_finds_who_looks_before_it_listens() {
    if is_child() {
        explore("LM-003 wrong", Some(4), || bells(false));
    } else {
        finds_a_deadlock("waiters::lm_003_finds_who_looks_before_it_listens");
    }
}
