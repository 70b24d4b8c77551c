//! Requests that are under way beside each other, answered in any order.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

/// Futures of which the next finished one is awaited. All are dropped with it.
pub(super) struct Pending<T> {
    futures: Vec<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T> Pending<T> {
    pub(super) fn new() -> Self {
        Self {
            futures: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, future: impl Future<Output = T> + Send + 'static) {
        self.futures.push(Box::pin(future));
    }

    /// The answer of whichever is ready first; never returns while there is none. Dropping this
    /// loses nothing.
    pub(super) async fn next(&mut self) -> T {
        std::future::poll_fn(|context| {
            for position in 0..self.futures.len() {
                if let Poll::Ready(answer) = self.futures[position].as_mut().poll(context) {
                    drop(self.futures.swap_remove(position));
                    return Poll::Ready(answer);
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whatever_is_ready_comes_first_and_nothing_is_lost() {
        let mut pending = Pending::new();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        pending.push(async move { receiver.await.unwrap() });
        pending.push(async { 2 });
        assert_eq!(pending.next().await, 2);
        sender.send(1).unwrap();
        assert_eq!(pending.next().await, 1);
        let idle = tokio::time::timeout(std::time::Duration::ZERO, pending.next());
        assert!(idle.await.is_err());
    }
}
