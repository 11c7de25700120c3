//! Futures that are dropped (G-53).

use idem_core::record::State;
use idem_core::{Claimed, ErrorKind, Store as _};

use super::{Fixture, claim, id, poll, until};

#[tokio::test]
async fn a_claim_dropped_while_it_is_queued_is_not_run() {
    let fixture = Fixture::new().await;
    let (dropped, kept) = (claim("dropped"), claim("kept"));
    fixture.store.shared().crowd();
    let mut keeping = Box::pin(fixture.store.claim(&kept));
    {
        let _held = fixture.store.shared().session();
        let mut dropping = Box::pin(fixture.store.claim(&dropped));
        assert!(poll(dropping.as_mut()).is_pending());
        assert!(poll(keeping.as_mut()).is_pending());
        drop(dropping);
    }
    assert!(matches!(keeping.await.unwrap(), Claimed::Granted(_)));
    assert_eq!(fixture.store.stored(&id("dropped")).unwrap(), None);
}

#[tokio::test]
async fn a_grant_that_nobody_took_is_released_in_the_background() {
    let fixture = Fixture::new().await;
    let lost = claim("lost");
    fixture.store.shared().crowd();
    let mut losing = Box::pin(fixture.store.claim(&lost));
    {
        let _held = fixture.store.shared().session();
        assert!(poll(losing.as_mut()).is_pending());
    }
    until(|| fixture.store.stored(&id("lost")).unwrap().is_some()).await;
    // Granted and committed; the answer waits for a caller who goes away.
    drop(losing);
    until(|| fixture.store.stored(&id("lost")).unwrap().unwrap().state == State::Received).await;
    let again = fixture.store.claim(&claim("lost")).await.unwrap();
    assert!(matches!(again, Claimed::Granted(_)), "the next one need not wait for the lease");
}

#[tokio::test]
async fn a_grant_is_released_too_when_its_caller_goes_during_the_commit() {
    let fixture = Fixture::new().await;
    let (entered, has_entered) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel::<()>();
    fixture
        .store
        .shared()
        .session()
        .connection()
        .commit_hook(Some(move || {
            let _entered = entered.send(());
            let _go = may_go.recv();
            false
        }))
        .unwrap();
    let lost = claim("lost");
    fixture.store.shared().crowd();
    let mut losing = Box::pin(fixture.store.claim(&lost));
    assert!(poll(losing.as_mut()).is_pending());
    has_entered.recv().unwrap();
    drop(losing);
    drop(go);
    until(|| {
        fixture.store.stored(&id("lost")).unwrap().is_some_and(|record| record.state == State::Received)
    })
    .await;
}

#[tokio::test]
async fn a_repeated_grant_that_nobody_took_stays_with_its_holder() {
    let fixture = Fixture::new().await;
    let held = claim("held");
    fixture.store.claim(&held).await.unwrap();
    fixture.store.shared().crowd();
    let mut repeating = Box::pin(fixture.store.shared().apply(&held));
    {
        let _held = fixture.store.shared().session();
        assert!(poll(repeating.as_mut()).is_pending());
    }
    // The next request is answered after the repeated one.
    fixture.granted("other").await;
    drop(repeating);
    fixture.store.close().await;
    assert_eq!(fixture.store.stored(&id("held")).unwrap().unwrap().state, State::Processing);
}

#[tokio::test]
async fn a_full_queue_makes_its_callers_wait_and_each_can_go_away() {
    let fixture = Fixture::with(|config| config.queue_capacity(1)).await;
    let claims: Vec<_> = (0..4).map(|n| claim(&format!("k{n}"))).collect();
    fixture.store.shared().crowd();
    let mut asked: Vec<_> = claims.iter().map(|claim| fixture.store.claim(claim)).collect();
    {
        let _held = fixture.store.shared().session();
        for request in &mut asked {
            assert!(poll(request.as_mut()).is_pending());
        }
        drop(asked.remove(2));
    }
    for request in asked {
        assert!(matches!(request.await.unwrap(), Claimed::Granted(_)));
    }
    assert_eq!(fixture.store.stored(&id("k2")).unwrap(), None);
}

#[tokio::test]
async fn a_closed_store_answers_what_was_queued_and_refuses_the_rest() {
    let fixture = Fixture::new().await;
    let queued = claim("queued");
    fixture.store.shared().crowd();
    let mut asked = Box::pin(fixture.store.claim(&queued));
    {
        let _held = fixture.store.shared().session();
        assert!(poll(asked.as_mut()).is_pending());
        assert!(poll(Box::pin(fixture.store.close()).as_mut()).is_pending());
    }
    assert!(matches!(asked.await.unwrap(), Claimed::Granted(_)));
    until(|| !fixture.store.shared().is_crowded()).await;
    let error = fixture.store.claim(&claim("later")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}
