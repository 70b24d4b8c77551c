//! A call may be dropped at any await, as when the operator ends: the next one repairs, and nothing
//! unknown is left.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use leasehold_e2e::error::Result;
use leasehold_operator::backend::{Removal, SharedState, Slot};

use crate::ground::{Ground, ours, pair, remove, subject};

/// At so many places of each call it is dropped: an uneven number, so that no rhythm of polls hides any.
const PLACES: usize = 23;

/// Polls a call so often, and drops it; what it said if it ended before, and how often it was polled.
async fn dropped_after<F: Future>(polls: usize, call: F) -> (Option<F::Output>, usize) {
    let mut call = pin!(call);
    let mut done = 0;
    let output = poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if done == polls => Poll::Ready(None),
        Poll::Pending => {
            done += 1;
            Poll::Pending
        }
    })
    .await;
    (output, done)
}

#[tokio::test]
async fn a_service_whose_making_was_dropped_anywhere_is_made_by_the_next_call() -> Result<()> {
    let ground = Ground::start().await?;
    let mut subject = subject("billing");
    subject.wants.schema = Some("tables".to_owned());
    let made = pair();
    let (mut making, mut removing, mut drops) = (usize::MAX, usize::MAX, 0);
    for place in 0..=PLACES {
        let late = ground.operator();
        let make = async {
            late.provision(&subject).await?;
            late.set_login(&subject, 1, &made.verifier).await
        };
        // The first time both run to their ends, to know how long they are.
        let part = |of: usize| {
            if place == 0 {
                of
            } else {
                of / PLACES * (place - 1)
            }
        };
        let (ended, polls) = dropped_after(part(making), make).await;
        drops += usize::from(ended.is_none());
        let operator = ground.operator();
        operator.provision(&subject).await?;
        operator.set_login(&subject, 1, &made.verifier).await?;
        operator.verify(&subject, Slot::A, &made.password).await?;
        let state = operator.look(&subject).await?;
        assert_eq!(state.shared, SharedState::InShape, "after {polls} polls");
        assert!(ours(&state.logins[0]).1, "after {polls} polls");

        let late = remove(&late, &subject, true);
        let (end, ending) = dropped_after(part(removing), late).await;
        drops += usize::from(end.is_none());
        assert_eq!(
            remove(&operator, &subject, true).await?,
            Removal::Done,
            "after {ending} polls"
        );
        let left = "SELECT (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'lh!_%' ESCAPE '!')::text \
             || ' ' || (SELECT count(*) FROM pg_database WHERE datname LIKE 'lh!_%' ESCAPE '!')::text";
        assert_eq!(ground.ask(left).await?, "0 0", "after {ending} polls");
        if place == 0 {
            ended.expect("the first one runs to its end")?;
            end.expect("the first one runs to its end")?;
            (making, removing) = (polls, ending);
        }
    }
    println!("dropped at {drops} places of {making} and {removing} polls");
    assert!(drops > PLACES, "too few to mean anything: {drops}");
    Ok(())
}
