//! A service that runs: the work of each term, and the handle on it.

use std::future::Future;
use std::sync::Arc;

use leasehold_core::id::{FencingToken, Revision, Term};
use leasehold_core::time::Duration;
use tokio::sync::mpsc;
use tracing::Instrument;

use crate::changes::{Hub, LeadershipChanges};
use crate::cluster::{Cluster, Registration};
use crate::elector::{Command, Ends};
use crate::error::{RunError, StartError};
use crate::leadership::{Begun, FOREVER, Guarded, Leadership, LostReason};
use crate::view::{Board, ServiceStatus};

/// A service that has been started and waits for somebody to do its work.
pub(super) struct Started {
    pub(super) hub: Arc<Hub>,
    pub(super) board: Arc<Board>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Elected(Ends),
    Local(Local),
}

pub(super) struct Local {
    pub(super) cluster: Cluster,
    pub(super) queue: mpsc::UnboundedReceiver<Command>,
    pub(super) drain_timeout: Duration,
    pub(super) _registration: Registration,
}

impl Started {
    pub(super) async fn drive<W, F>(self, work: W) -> Result<(), RunError>
    where
        W: FnMut(Leadership) -> F + Send,
        F: Future<Output = ()> + Send,
    {
        match self.kind {
            Kind::Elected(ends) => drive_terms(ends, work, &self.board).await,
            Kind::Local(local) => local.drive(work, &self.hub).await,
        }
    }
}

/// If the service's future is dropped, nobody is left to do the work: the election must end.
struct AbandonOnDrop(Option<mpsc::UnboundedSender<Command>>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        if let Some(commands) = self.0.take() {
            let _ = commands.send(Command::Abandon);
        }
    }
}

/// Does the work of each term, as the elector begins it.
async fn drive_terms<W, F>(mut ends: Ends, mut work: W, board: &Board) -> Result<(), RunError>
where
    W: FnMut(Leadership) -> F + Send,
    F: Future<Output = ()> + Send,
{
    let mut abandon = AbandonOnDrop(Some(ends.commands.clone()));
    while let Some(leadership) = ends.terms.recv().await {
        // E9: also the first call belongs to the work.
        if leadership.check().is_ok() {
            let (term, token) = (leadership.term(), leadership.token());
            let span = tracing::info_span!("term", %term, %token);
            let work = span.in_scope(|| work(leadership.clone()));
            Guarded::new(work, leadership).instrument(span).await;
        }
        // A closed queue means that the elector has ended; then the terms end as well.
        let _ = ends.commands.send(Command::WorkEnded);
    }
    abandon.0 = None;
    match ends.task.await {
        Ok(()) if board.overran() => Err(RunError::DrainOverrun),
        Ok(()) => Ok(()),
        Err(_) => Err(RunError::ElectionEnded),
    }
}

impl Local {
    /// The work runs at once; its leadership means nothing beyond this node.
    async fn drive<W, F>(mut self, mut work: W, hub: &Hub) -> Result<(), RunError>
    where
        W: FnMut(Leadership) -> F + Send,
        F: Future<Output = ()> + Send,
    {
        let revision = Revision::new(1).map_err(|error| StartError::new(error.to_string()))?;
        let token = FencingToken::new(self.cluster.token_era(), revision);
        let clock = self.cluster.clock().clone();
        let begun = Begun::new(clock.clone(), Term::new(1), token, FOREVER);
        let leadership = begun.leadership();
        let mut working = std::pin::pin!(Guarded::new(work(leadership.clone()), leadership));
        let mut shutdown = self.cluster.shutdown_asked();
        tokio::select! {
            () = &mut working => { hub.close(); return Ok(()) }
            _ = shutdown.wait_for(|asked| *asked) => {}
            _ = self.queue.recv() => {}
        }
        begun.ask_to_drain();
        let outcome = tokio::select! {
            () = &mut working => Ok(()),
            () = clock.sleep(self.drain_timeout) => Err(RunError::DrainOverrun),
        };
        begun.end(LostReason::Resigned);
        hub.close();
        outcome
    }
}

/// A service that runs in a task of its own. Dropping the handle shuts the service down.
#[must_use = "dropping the handle shuts the service down"]
pub struct ServiceHandle {
    pub(super) hub: Arc<Hub>,
    pub(super) board: Arc<Board>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) task: Option<tokio::task::JoinHandle<Result<(), RunError>>>,
}

impl ServiceHandle {
    /// The leadership changes of this service's cluster id, own and of others, in order.
    pub fn changes(&self) -> LeadershipChanges {
        self.hub.subscribe()
    }

    /// Drains, releases, and lets others lead for one lease duration.
    pub fn step_down(&self) {
        let _ = self.commands.send(Command::StepDown);
    }

    /// Begins to shut this service down: drain, then release.
    pub fn shutdown(&self) {
        let _ = self.commands.send(Command::Shutdown);
    }

    /// Waits until the service has ended, after a shutdown of it or of its cluster.
    pub async fn finished(mut self) -> Result<(), RunError> {
        let Some(task) = self.task.take() else {
            return Ok(());
        };
        match task.await {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => Err(RunError::WorkPanicked(panic_text(
                error.into_panic().as_ref(),
            ))),
            Err(_) => Err(RunError::ElectionEnded),
        }
    }

    /// What the service believes and waits for.
    pub fn status(&self) -> ServiceStatus {
        self.board.status()
    }
}

impl Drop for ServiceHandle {
    fn drop(&mut self) {
        if self.task.is_some() {
            self.shutdown();
        }
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no text".to_owned())
}
