//! Waiting on a condition with a deadline; never on a length of time.

use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How often a condition is looked at.
const PERIOD: Duration = Duration::from_millis(50);

/// How often, when the time until it holds is the result.
const PERIOD_CLOSE: Duration = Duration::from_millis(5);

/// No single look may take longer: an API server that is paused answers nothing.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Looks until `probe` gives a value, and returns it.
///
/// A probe that fails counts as "not yet" (an API server restarts, an object
/// is not there); the newest failure is named when the deadline passes.
pub async fn until<T, P, F>(what: &str, within: Duration, probe: P) -> Result<T>
where
    P: FnMut() -> F,
    F: Future<Output = Result<Option<T>>>,
{
    looking(what, within, PERIOD, probe).await
}

/// Like [`until`], but looks so often that the time it took means something.
pub async fn closely<T, P, F>(what: &str, within: Duration, probe: P) -> Result<T>
where
    P: FnMut() -> F,
    F: Future<Output = Result<Option<T>>>,
{
    looking(what, within, PERIOD_CLOSE, probe).await
}

async fn looking<T, P, F>(what: &str, within: Duration, period: Duration, mut probe: P) -> Result<T>
where
    P: FnMut() -> F,
    F: Future<Output = Result<Option<T>>>,
{
    let started = Instant::now();
    loop {
        let newest = match tokio::time::timeout(LOOK_MAX, probe()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} s", LOOK_MAX.as_secs())),
        };
        if started.elapsed() >= within {
            let why = newest
                .map(|error| format!("; last seen: {error}"))
                .unwrap_or_default();
            return Err(Error::new(format!(
                "waited {:.1} s for {what}, which did not happen{why}",
                started.elapsed().as_secs_f64()
            )));
        }
        tokio::time::sleep(period).await;
    }
}

/// Looks until `holds` is true.
pub async fn until_true<P, F>(what: &str, within: Duration, mut holds: P) -> Result<()>
where
    P: FnMut() -> F,
    F: Future<Output = Result<bool>>,
{
    until(what, within, || {
        let look = holds();
        async move { Ok(look.await?.then_some(())) }
    })
    .await
}

/// Looks until `holds` is true, for code that cannot await (a drop, the end of a
/// process). Blocks the thread; says whether it came true in time.
pub fn blocking(within: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !holds() {
        if started.elapsed() >= within {
            return false;
        }
        std::thread::park_timeout(PERIOD_CLOSE);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{until, until_true};
    use crate::error::Error;
    use std::time::Duration;

    #[tokio::test]
    async fn a_condition_that_comes_true_ends_the_wait() {
        let mut looks = 0;
        let value = until("three looks", Duration::from_secs(10), || {
            looks += 1;
            let seen = looks;
            async move { Ok((seen == 3).then_some(seen)) }
        })
        .await
        .unwrap();
        assert_eq!(value, 3);
    }

    #[tokio::test]
    async fn a_deadline_names_the_condition_and_the_newest_failure() {
        let error = until_true("a leader", Duration::ZERO, || async {
            Err(Error::new("connection refused"))
        })
        .await
        .unwrap_err();
        assert!(error.mentions("for a leader"), "{error}");
        assert!(error.mentions("last seen: connection refused"), "{error}");
    }
}
