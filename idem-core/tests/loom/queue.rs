//! The drain queue: a caller that goes away and a queue that is closed, each at any moment.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use idem_core::answer::Claimed;
use idem_core::batch::{Job, Queue, Unanswered};
use idem_core::request::{OnLapse, Release};
use idem_core::{Claim, MemoryStore, State, Store};
use loom::thread;

use crate::support::{block_on, claim, complete, explore, finds, finds_a_deadlock, is_child, op, store};

type Claims = Queue<Claim, Claimed>;

/// The worker of a store: takes what is there, claims, answers, and gives back what nobody takes (G-53).
fn serve(queue: &Claims, store: &MemoryStore, gives_back: bool) {
    let mut batch: Vec<Job<Claim, Claimed>> = Vec::new();
    while queue.drain_blocking(8, &mut batch) {
        for job in batch.drain(..) {
            let request = job.request().clone();
            let answer = block_on(store.claim(&request)).unwrap();
            if let Some(Claimed::Granted(grant)) = job.answer(answer)
                && gives_back
            {
                let _ = block_on(store.release(&Release::new(grant.held()))).unwrap();
            }
        }
    }
}

/// One caller asks once and goes away; another one waits for its answer.
fn cancel(gives_back: bool) {
    let (store, _clock) = store();
    let queue: Arc<Claims> = Arc::new(Queue::new(8));
    let worker = {
        let (queue, store) = (Arc::clone(&queue), store.clone());
        thread::spawn(move || serve(&queue, &store, gives_back))
    };
    let leaver = {
        let (queue, store) = (Arc::clone(&queue), store.clone());
        thread::spawn(move || {
            let mine = claim(OnLapse::Park);
            {
                let ask = pin!(queue.ask(mine.clone()));
                let _ = ask.poll(&mut Context::from_waker(Waker::noop()));
            }
            // As the ledger does for a claim that was dropped before its answer: the grant may be on its way here.
            let _ = block_on(store.release(&Release::new(mine.held()))).unwrap();
        })
    };
    let stays = claim(OnLapse::Park);
    let answer = block_on(queue.ask(stays.clone())).unwrap();
    if matches!(answer, Claimed::Granted(_)) {
        let _ = block_on(store.release(&Release::new(stays.held()))).unwrap();
    }
    leaver.join().unwrap();
    queue.close();
    worker.join().unwrap();
    // Either nobody was ever granted, or it was given back.
    assert!(store.stored(&op()).is_none_or(|record| record.state == State::Received));
}

#[test]
fn lm_005_a_grant_that_nobody_takes_is_given_back() {
    explore("LM-005 cancel", Some(4), || cancel(true));
}

#[test]
fn lm_005_finds_a_worker_that_gives_nothing_back() {
    finds(|| cancel(false));
}

/// Two ask while a third closes; whoever is told `Closed` was not served, everybody else was.
fn shutdown(drains_to_the_end: bool) {
    let queue: Arc<Queue<u32, u32>> = Arc::new(Queue::new(8));
    let worker = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            let mut served = Vec::new();
            let mut batch = Vec::new();
            loop {
                let more = if drains_to_the_end {
                    queue.drain_blocking(1, &mut batch)
                } else {
                    // Wrong: empty is not the same as closed and empty.
                    queue.try_drain(1, &mut batch)
                };
                if !more {
                    return served;
                }
                for job in batch.drain(..) {
                    let request = *job.request();
                    served.push(request);
                    job.answer(request * 2);
                }
            }
        })
    };
    let asker = {
        let queue = Arc::clone(&queue);
        thread::spawn(move || block_on(queue.ask(1)))
    };
    let second = block_on(queue.push(2));
    queue.close();
    let second = second.and_then(|answer| block_on(answer).map_err(|_| Unanswered::Lost));
    let first = asker.join().unwrap();
    let served = worker.join().unwrap();
    for (request, answer) in [(1, first), (2, second)] {
        match answer {
            Ok(doubled) => assert_eq!((doubled, served.contains(&request)), (request * 2, true)),
            Err(Unanswered::Closed) => assert!(!served.contains(&request)),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(queue.is_empty());
}

#[test]
fn lm_006_a_closed_queue_is_served_to_its_end() {
    explore("LM-006 shutdown of a thread", None, || shutdown(true));
}

#[test]
fn lm_006_finds_a_worker_that_stops_at_the_first_gap() {
    if is_child() {
        explore("LM-006 wrong", None, || shutdown(false));
    } else {
        finds_a_deadlock("queue::lm_006_finds_a_worker_that_stops_at_the_first_gap");
    }
}

#[test]
fn lm_006_a_worker_that_is_a_task_misses_no_job() {
    explore("LM-006 shutdown of a task", Some(4), || {
        let (store, _clock) = store();
        let queue: Arc<Claims> = Arc::new(Queue::new(8));
        let worker = {
            let (queue, store) = (Arc::clone(&queue), store.clone());
            thread::spawn(move || {
                let mut batch: Vec<Job<Claim, Claimed>> = Vec::new();
                while block_on(queue.drain(8, &mut batch)) {
                    for job in batch.drain(..) {
                        let request = job.request().clone();
                        let answer = block_on(store.claim(&request)).unwrap();
                        if matches!(answer, Claimed::Granted(_)) {
                            let _ = block_on(store.complete(&complete(&request, "result"))).unwrap();
                        }
                        job.answer(answer);
                    }
                }
            })
        };
        let asker = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || block_on(queue.ask(claim(OnLapse::Park))))
        };
        let first = block_on(queue.ask(claim(OnLapse::Park)));
        let second = asker.join().unwrap();
        let granted =
            [&first, &second].iter().filter(|answer| matches!(answer, Ok(Claimed::Granted(_)))).count();
        let replays =
            [&first, &second].iter().filter(|answer| matches!(answer, Ok(Claimed::Replay(_)))).count();
        assert_eq!((granted, replays), (1, 1), "{first:?} {second:?}");
        queue.close();
        worker.join().unwrap();
    });
}
