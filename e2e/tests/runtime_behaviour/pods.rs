//! Deployments of the example service on the node that runs pods as processes.

use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use leasehold_e2e::history::{self, Event, Line};
use leasehold_e2e::node::WORKLOAD_IMAGE;
use leasehold_e2e::{Result, Step as _, wait};
use serde_json::json;

use crate::ground::{Ground, PATIENCE};

/// Name of the container in the pods.
pub(crate) const CONTAINER: &str = "workload";

pub(crate) struct Deployed<'a> {
    ground: &'a Ground,
    name: String,
    history: PathBuf,
}

impl<'a> Deployed<'a> {
    /// Creates a Deployment; all its pods write one history, and share their ledgers with every
    /// other candidate of the same service.
    pub(crate) async fn create(
        ground: &'a Ground,
        name: &str,
        replicas: i32,
        grace_seconds: i64,
        env: &[(&str, &str)],
    ) -> Result<Self> {
        ground.namespace.cluster().node().await?;
        let history = ground.folder.join(format!("{name}.pods"));
        let mut variables = vec![
            json!({ "name": "WORKLOAD_EVENTS", "value": history }),
            json!({ "name": "WORKLOAD_LEDGER", "value": ground.folder.join("{service}.ledger") }),
            json!({ "name": "WORKLOAD_TIMING", "value": "fast" }),
            json!({ "name": "WORKLOAD_CHECK_EVERY_MS", "value": "100" }),
        ];
        for (variable, value) in env {
            variables.retain(|known| known["name"] != *variable);
            variables.push(json!({ "name": variable, "value": value }));
        }
        let deployment: Deployment = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": { "app": name } },
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": {
                        "serviceAccountName": ground.account.name,
                        "terminationGracePeriodSeconds": grace_seconds,
                        "nodeSelector": { "leasehold.dev/process-node": "true" },
                        "containers": [{
                            "name": CONTAINER,
                            "image": WORKLOAD_IMAGE,
                            "env": variables,
                        }],
                    },
                },
            },
        }))?;
        let deployments: Api<Deployment> = ground.namespace.api();
        deployments
            .create(&PostParams::default(), &deployment)
            .await
            .step(|| format!("creating Deployment {name}"))?;
        Ok(Self {
            ground,
            name: name.to_owned(),
            history,
        })
    }

    pub(crate) async fn scale(&self, replicas: i32) -> Result<()> {
        let deployments: Api<Deployment> = self.ground.namespace.api();
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        deployments
            .patch(&self.name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// The history of all its pods.
    pub(crate) fn history(&self) -> &Path {
        &self.history
    }

    pub(crate) fn lines(&self) -> Result<Vec<Line>> {
        if self.history.exists() {
            history::read(&[&self.history])
        } else {
            Ok(Vec::new())
        }
    }

    /// Waits until one of its pods leads, anew after `since`.
    pub(crate) async fn gained(&self, since: u64) -> Result<Line> {
        let what = format!("a pod of {} to lead", self.name);
        wait::until(&what, PATIENCE, || async {
            let mut lines = self.lines()?.into_iter();
            Ok(lines.find(|line| line.event == Event::Gained && line.t > since))
        })
        .await
    }

    /// Waits until this many processes of it have begun to campaign after `since`.
    pub(crate) async fn started(&self, count: usize, since: u64) -> Result<()> {
        let what = format!("{count} processes of {} to start", self.name);
        wait::until_true(&what, PATIENCE, || async {
            let lines = self.lines()?;
            let started = lines
                .iter()
                .filter(|l| l.event == Event::Started && l.t > since);
            Ok(started.count() >= count)
        })
        .await
    }
}
