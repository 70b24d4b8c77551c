//! A call may be dropped at any await, as when the operator ends: the next one repairs, and nothing
//! unknown is left.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use leasehold_e2e::error::Result;
use leasehold_operator::backend::{Removal, SharedState, Slot};

use crate::ground::{Ground, ours, pair, subject};

/// So many looks are enough for any call.
const POLLS_MAX: usize = 600;

/// Each place takes a second or two: not every one is tried.
const STEP: usize = 3;

/// Polls a call so often, and drops it; what it said if it ended before.
async fn dropped_after<F: Future>(polls: usize, call: F) -> Option<F::Output> {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

#[tokio::test]
async fn a_service_whose_making_was_dropped_anywhere_is_made_by_the_next_call() -> Result<()> {
    let ground = Ground::start().await?;
    let mut subject = subject("billing");
    subject.wants.schema = Some("tables".to_owned());
    let made = pair();
    for (drops, polls) in (0..POLLS_MAX).step_by(STEP).enumerate() {
        let late = ground.operator();
        let make = async {
            late.provision(&subject).await?;
            late.set_login(&subject, 1, &made.verifier).await
        };
        let ended = dropped_after(polls, make).await;
        let operator = ground.operator();
        operator.provision(&subject).await?;
        operator.set_login(&subject, 1, &made.verifier).await?;
        operator.verify(&subject, Slot::A, &made.password).await?;
        let state = operator.look(&subject).await?;
        assert_eq!(state.shared, SharedState::InShape, "after {polls} polls");
        assert!(ours(&state.logins[0]).1, "after {polls} polls");

        let end = dropped_after(polls, late.remove(&subject, true)).await;
        assert_eq!(
            operator.remove(&subject, true).await?,
            Removal::Done,
            "after {polls} polls"
        );
        let left = "SELECT (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'lh!_%' ESCAPE '!')::text \
             || ' ' || (SELECT count(*) FROM pg_database WHERE datname LIKE 'lh!_%' ESCAPE '!')::text";
        assert_eq!(ground.ask(left).await?, "0 0", "after {polls} polls");
        if let (Some(made), Some(ended)) = (ended, end) {
            made?;
            ended?;
            println!("dropped at {drops} places");
            assert!(drops > 10, "too few to mean anything: {drops}");
            return Ok(());
        }
    }
    panic!("a call did not end within {POLLS_MAX} polls");
}
