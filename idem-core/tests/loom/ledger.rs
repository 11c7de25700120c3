//! The ledger over the store: waiting in turns, and the heartbeat beside the end of its handler.

use std::sync::Arc;

use idem_core::answer::Claimed;
use idem_core::ledger::{Answer, Ledger, Policy};
use idem_core::request::OnLapse;
use idem_core::{Lease, State, Store};
use loom::thread;

use crate::support::{block_on, claim, complete, explore, intent, op, store};

/// Two callers wait in one ledger, of which one asks the store and the other listens to it. The clock stands, so no
/// look that is merely due can hide a lost wake-up or a turn that is not handed on.
fn waiting_in_turns(name: &str, gives_back: bool) {
    explore(name, Some(4), move || {
        let (store, clock) = store();
        let mut policy = Policy::default();
        policy.wait = std::time::Duration::from_secs(60);
        let ledger = Ledger::shared(Arc::new(store.clone()), Arc::new(clock)).with(policy);
        let mine = claim(OnLapse::Park);
        assert!(matches!(block_on(store.claim(&mine)).unwrap(), Claimed::Granted(_)));
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let ledger = ledger.clone();
                thread::spawn(move || {
                    block_on(ledger.run(&op(), intent(), |attempt| async move { Ok(attempt.number()) }))
                        .unwrap()
                })
            })
            .collect();
        if gives_back {
            let release = idem_core::request::Release::new(mine.held());
            let _ = block_on(store.release(&release)).unwrap();
        } else {
            let _ = block_on(store.complete(&complete(&mine, "1"))).unwrap();
        }
        let mut executed = 0;
        for caller in callers {
            match (gives_back, caller.join().unwrap()) {
                (true, Answer::Executed(2)) => executed += 1,
                (true, Answer::Replayed(2)) | (false, Answer::Replayed(1)) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(executed, u32::from(gives_back));
    });
}

#[test]
fn lm_003_callers_that_wait_in_turns_hear_the_completion() {
    waiting_in_turns("LM-003 turns, completion", false);
}

#[test]
fn lm_003_callers_that_wait_in_turns_hear_the_release() {
    waiting_in_turns("LM-003 turns, release", true);
}

/// The heartbeat is due while the handler ends and while somebody else asks: the lease never looks free.
#[test]
fn lm_007_a_heartbeat_beside_the_end_of_its_handler() {
    explore("LM-007 heartbeat", Some(4), || {
        let (store, clock) = store();
        let ledger = Ledger::shared(Arc::new(store.clone()), Arc::new(clock.clone()));
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        let caller = thread::spawn(move || {
            let id = op();
            let call = ledger.run(&id, intent(), |_| async move {
                gone.await?;
                Ok(7)
            });
            block_on(call).unwrap()
        });
        let rival = {
            let store = store.clone();
            thread::spawn(move || {
                let mine = claim(OnLapse::Take);
                [0; 3].map(|_| block_on(store.claim(&mine)).unwrap())
            })
        };
        for _ in 0..2 {
            // Any record that is there when the clock moves: a step that loom sees between the two.
            let _ = store.stored(&op());
            clock.advance(Lease::default().duration() / 3);
        }
        // Nobody hears it where the rival was first and the handler never ran.
        let _ = go.send(());
        let answer = caller.join().unwrap();
        let mut done = false;
        for seen in rival.join().unwrap() {
            match (&answer, seen) {
                (Answer::Executed(7), Claimed::InProgress { .. }) => {
                    assert!(!done, "a result does not go away")
                }
                (Answer::Executed(7), Claimed::Replay(_)) => done = true,
                // The rival was first of all, and holds it.
                (Answer::InProgress { .. }, Claimed::Granted(_)) => return,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(store.stored(&op()).unwrap().state, State::Completed);
    });
}
