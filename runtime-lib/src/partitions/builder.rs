//! What a program says of a partitioned service before it starts.

use std::future::Future;
use std::sync::{Arc, Mutex};

use leasehold_core::partition::{HashId, Layout, MemberRecord};
use tokio::sync::{oneshot, watch};

use super::member::{self, Membership};
use super::works::Work;
use super::{PartitionGuard, PartitionedHandle, Policy, Shared, Started, member_name, planning};
use crate::changes::Hub;
use crate::config::WEIGHT_MAX;
use crate::elector::{self, Elector};
use crate::error::{RunError, StartError};
use crate::key::LeaseKey;
use crate::service::{ServiceBuilder, identity_for};
use crate::settings::Sources;
use crate::view::Board;
use crate::watchdog::{Veto, Watchdog};

/// What is done when the work of a partition does not finish in time for another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDrainTimeout {
    /// It goes on, and the next owner waits; `partition.stuck` says so.
    #[default]
    Wait,
    /// The member gives up its present life, and with it everything that it runs: every work is
    /// dropped, and it joins again.
    FenceMember,
}

/// Describes a partitioned service before it starts.
#[must_use = "a service does nothing until it is run or spawned"]
pub struct PartitionedBuilder {
    service: ServiceBuilder,
    partitions: Option<u16>,
    hash: Option<HashId>,
    weight: Option<u32>,
    on_drain_timeout: OnDrainTimeout,
}

impl PartitionedBuilder {
    pub(crate) fn new(service: ServiceBuilder) -> Self {
        Self {
            service,
            partitions: None,
            hash: None,
            weight: None,
            on_drain_timeout: OnDrainTimeout::default(),
        }
    }

    /// Fixes the number of partitions, 1 to 4096; default: the declared settings, then
    /// `LEASEHOLD_PARTITIONS`, then 64. A number that is not fixed can be changed while pods run.
    pub fn partitions(mut self, count: u16) -> Self {
        self.partitions = Some(count);
        self
    }

    /// Fixes how a key becomes a partition; default: the declared settings, then `cs-hash/1`.
    pub fn hash(mut self, hash: HashId) -> Self {
        self.hash = Some(hash);
        self
    }

    /// This process's share relative to others, 1 to 1000; default: `LEASEHOLD_WEIGHT`, then 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = Some(weight);
        self
    }

    /// What is done when the work of a partition does not finish within the drain timeout although
    /// another member waits for it; default: [`OnDrainTimeout::Wait`].
    pub fn on_drain_timeout(mut self, choice: OnDrainTimeout) -> Self {
        self.on_drain_timeout = choice;
        self
    }

    /// Runs the service until the cluster shuts down. `work` is called for each partition that
    /// this process gets, each in a task of its own; its future is dropped when the partition is
    /// lost. Work that returns or panics while the partition is ours is started again after a
    /// pause of 1 s, doubled each time up to a minute.
    pub async fn run<W, F>(self, work: W) -> Result<(), RunError>
    where
        W: Fn(PartitionGuard) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.start(erase(work))?.drive().await
    }

    /// The same in tasks of its own.
    pub fn spawn<W, F>(self, work: W) -> Result<PartitionedHandle, StartError>
    where
        W: Fn(PartitionGuard) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let started = self.start(erase(work))?;
        let (shared, hub) = (Arc::clone(&started.shared), Arc::clone(&started.hub));
        let task = Some(tokio::spawn(started.drive()));
        Ok(PartitionedHandle { shared, hub, task })
    }

    /// Checks everything and starts the tasks.
    fn start(self, work: Work) -> Result<Started, StartError> {
        let (id, member) = self.check()?;
        let sources = Sources {
            code_partitions: self.partitions,
            code_hash: self.hash,
            ..self.service.sources()
        };
        let about = self.about(&member, &sources);
        let Self {
            service,
            on_drain_timeout,
            ..
        } = self;
        let cluster = service.cluster.clone();
        let clock = cluster.clock().clone();
        let board = Board::new(&service.name, id.cluster_id(), clock.clone());
        let registration = cluster.register(&service.name, Some(id.clone()), Arc::clone(&board))?;
        let registration = Arc::new(registration);
        let (leader_identity, may_reclaim_leader) = identity_for(&cluster, &id);
        let (identity, may_reclaim) = identity_for(&cluster, &member);
        let name = member_name(cluster.identity().as_str()).into();
        let shared = Arc::new(Shared {
            name,
            member,
            identity,
            leader_identity: leader_identity.clone(),
            token_era: cluster.token_era(),
            store: cluster.store()?,
            clock: clock.clone(),
            board: Arc::clone(&board),
            roster: Arc::default(),
            policy: watch::Sender::new(Policy::of(&sources)),
            table: watch::Sender::new(None),
            stopping: watch::Sender::new(false),
            left: watch::Sender::new(false),
            alone: watch::Sender::new(false),
            sightings: Mutex::default(),
            id: id.clone(),
        });
        cluster.note_partitions(&id, &shared);
        let (for_leader, for_member) = share(service.veto);
        let hub = Hub::new();
        let setup = elector::Setup {
            sources: sources.clone(),
            partitioned: true,
            may_reclaim: may_reclaim_leader,
            token_era: cluster.token_era(),
            store: Arc::clone(&shared.store),
            clock,
            // The leader lease is renewed only as long as the planner goes round.
            watchdog: Watchdog::new(for_leader, Some(planning::SILENCE_MAX)),
            service: service.name,
            key: id,
            identity: leader_identity,
            hub: Arc::clone(&hub),
            board,
            registration: Arc::clone(&registration),
        };
        let ends = Elector::start(setup, shared.stopping.subscribe());
        let membership = Membership::new(member::Setup {
            shared: Arc::clone(&shared),
            sources,
            about,
            may_reclaim,
            work,
            watchdog: Watchdog::new(for_member, service.progress_timeout),
            on_drain_timeout,
            registration,
        });
        let (care, abandoned) = oneshot::channel();
        Ok(Started {
            member: tokio::spawn(membership.run(abandoned)),
            cluster_stops: cluster.shutdown_asked(),
            shared,
            hub,
            ends,
            care,
        })
    }

    /// Every problem at once; else the keys of the cluster id and of the member.
    fn check(&self) -> Result<(LeaseKey, LeaseKey), StartError> {
        let (id, mut problems) = self.service.find_problems();
        let service = &self.service.name;
        if let Some(count) = self.partitions
            && let Err(error) = Layout::new(1, HashId::default(), count)
        {
            problems.push(format!("service {service:?}: {error}"));
        }
        if let Some(weight) = self.weight
            && !(1..=WEIGHT_MAX).contains(&weight)
        {
            problems.push(format!(
                "service {service:?}: weight: found {weight}, allowed are 1 to {WEIGHT_MAX}"
            ));
        }
        let name = member_name(self.service.cluster.identity().as_str());
        let member = id.as_ref().map(|id| id.member(name)).transpose();
        let member = member.map_err(|error| {
            problems.push(format!(
                "service {service:?}: {error}; outside a pod set LEASEHOLD_NODE_ID"
            ));
        });
        StartError::unless_empty(problems)?;
        match (id, member) {
            (Some(id), Ok(Some(member))) => Ok((id, member)),
            _ => Err(StartError::new("no cluster id")),
        }
    }

    /// What this member says of itself, and where that comes from.
    fn about(&self, member: &LeaseKey, sources: &Sources) -> MemberRecord {
        let environment = self.service.cluster.environment();
        let name = member_name(self.service.cluster.identity().as_str());
        let (revision, from) = if let Some(revision) = &environment.revision {
            (Some(Arc::clone(revision)), "LEASEHOLD_REVISION")
        } else if let Some(revision) = revision_in(name).filter(|_| environment.in_pod) {
            (Some(revision.into()), "the name of the pod")
        } else {
            (None, "nowhere")
        };
        let zone = environment.zone.clone();
        let weight = self.weight.or(environment.weight).unwrap_or(1);
        tracing::info!(cluster_id = %member, member = name, ?revision, revision_from = from, ?zone, weight, "this process as a member");
        MemberRecord {
            hash: sources.hash(),
            revision,
            zone,
            weight,
            ..MemberRecord::default()
        }
    }
}

fn erase<W, F>(work: W) -> Work
where
    W: Fn(PartitionGuard) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move |guard| Box::pin(work(guard)))
}

/// One veto for two who ask.
fn share(veto: Option<Veto>) -> (Option<Veto>, Option<Veto>) {
    let Some(veto) = veto.map(Arc::new) else {
        return (None, None);
    };
    let other = Arc::clone(&veto);
    (
        Some(Box::new(move || veto())),
        Some(Box::new(move || other())),
    )
}

/// The ReplicaSet's part of a Deployment's pod: `<deployment>-<hash>-<5 characters>`.
fn revision_in(pod: &str) -> Option<&str> {
    /// The letters and digits that Kubernetes makes such parts of.
    const ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
    let made_of = |part: &str| !part.is_empty() && part.chars().all(|c| ALPHABET.contains(c));
    let (rest, end) = pod.rsplit_once('-')?;
    let (deployment, hash) = rest.rsplit_once('-')?;
    let fits = end.len() == 5 && made_of(end) && (6..=10).contains(&hash.len()) && made_of(hash);
    (fits && !deployment.is_empty()).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_the_replica_sets_part_of_a_pods_name() {
        for (pod, revision) in [
            ("orders-6d4b9f7c8d-x7zq2", Some("6d4b9f7c8d")),
            ("a-b-5c689d88bb-abcde", None), // `a` and `e` are no letters of such a part
            ("a-b-5c689d88bb-bcdfg", Some("5c689d88bb")),
            ("orders-0", None),
            ("orders-backend-north", None),
            ("5c689d88bb-bcdfg", None),
            ("orders", None),
            ("", None),
        ] {
            assert_eq!(revision_in(pod), revision, "{pod}");
        }
    }

    #[test]
    fn both_who_ask_hear_the_same_veto() {
        let (first, second) = share(Some(Box::new(|| false)));
        assert!(!first.unwrap()() && !second.unwrap()());
        assert!(share(None).0.is_none());
    }
}
