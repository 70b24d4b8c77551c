//! The schema on a real API server: every sample of `crds/tests/samples` is accepted or refused as its
//! first line says, by server-side dry run, so that cost budgets, patterns and defaults are the real ones.

use futures::{StreamExt as _, stream};
use leasehold_e2e::kubectl::Kubectl;
use leasehold_e2e::{Result, TestNamespace, programs};

use super::stage::namespace;

struct Sample {
    name: String,
    text: String,
}

impl Sample {
    fn expectation(&self) -> Option<&str> {
        self.text
            .strip_prefix("# ")?
            .lines()
            .next()?
            .split_once(": ")
            .map(|(_, part)| part)
    }

    fn documents(&self) -> Vec<&str> {
        self.text.split("\n---\n").collect()
    }
}

fn samples(folder: &str) -> Vec<Sample> {
    let folder = programs::workspace()
        .join("crds/tests/samples")
        .join(folder);
    let mut samples: Vec<Sample> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            Sample {
                name: path.file_stem().unwrap().to_string_lossy().into_owned(),
                text: std::fs::read_to_string(&path).unwrap(),
            }
        })
        .collect();
    samples.sort_by(|a, b| a.name.cmp(&b.name));
    samples
}

/// What the API server says to the last document after the first one was stored.
async fn outcome(kubectl: &Kubectl, sample: &Sample) -> Result<String> {
    let dry = ["create", "--dry-run=server", "-o", "yaml", "-f", "-"];
    match sample.documents().as_slice() {
        [new] => kubectl.run_with_input(&dry, new).await,
        [old, new] => {
            kubectl.run_with_input(&["create", "-f", "-"], old).await?;
            let replace = ["replace", "--dry-run=server", "-o", "yaml", "-f", "-"];
            let outcome = kubectl.run_with_input(&replace, new).await;
            kubectl.run_with_input(&["delete", "-f", "-"], old).await?;
            outcome
        }
        other => panic!("{}: {} documents", sample.name, other.len()),
    }
}

/// Single documents in parallel, updates (which store something) one after the other.
async fn outcomes(
    namespace: &TestNamespace<'_>,
    samples: Vec<Sample>,
) -> Vec<(Sample, Result<String>)> {
    let kubectl = namespace.kubectl();
    let (single, updates): (Vec<_>, Vec<_>) = samples
        .into_iter()
        .partition(|sample| sample.documents().len() == 1);
    let run = |sample: Sample| {
        let kubectl = kubectl.clone();
        async move {
            let outcome = outcome(&kubectl, &sample).await;
            (sample, outcome)
        }
    };
    let mut all: Vec<_> = stream::iter(single)
        .map(run)
        .buffer_unordered(4)
        .collect()
        .await;
    for sample in updates {
        all.push(run(sample).await);
    }
    all
}

#[tokio::test]
async fn the_api_server_accepts_every_accepted_sample() -> Result<()> {
    let namespace = namespace("schema-accepts").await?;
    let samples = samples("accepted");
    assert!(samples.len() >= 30);
    for (sample, outcome) in outcomes(&namespace, samples).await {
        let stored = outcome.unwrap_or_else(|error| panic!("{}: {error}", sample.name));
        // Whatever was left out is spelled out by the defaults.
        let fields: &[&str] = if sample.text.contains("kind: BackendClass") {
            &["adminSecretRef:", "tls:", "mode:"]
        } else {
            &[
                "clusterScope:",
                "paused:",
                "durationSeconds:",
                "stopBudgetSeconds:",
                "deletionPolicy:",
                "gracePeriod:",
                "maxGrace:",
            ]
        };
        for field in fields {
            assert!(
                stored.contains(field),
                "{}: {field} in\n{stored}",
                sample.name
            );
        }
    }
    namespace.finish().await
}

#[tokio::test]
async fn the_api_server_refuses_every_rejected_sample_for_the_reason_it_names() -> Result<()> {
    let namespace = namespace("schema-refuses").await?;
    let samples = samples("rejected");
    assert!(samples.len() >= 120);
    let mut wrong = Vec::new();
    for (sample, outcome) in outcomes(&namespace, samples).await {
        let expected = sample
            .expectation()
            .unwrap_or_else(|| panic!("{}", sample.name));
        match outcome {
            Ok(stored) => wrong.push(format!("{} was accepted:\n{stored}", sample.name)),
            Err(error) if error.mentions(expected) => {}
            Err(error) => wrong.push(format!("{}: {error}", sample.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    namespace.finish().await
}

#[tokio::test]
async fn kubectl_explains_every_field() -> Result<()> {
    let namespace = namespace("schema-explains").await?;
    let kubectl = namespace.kubectl();
    let text = kubectl.run(&["explain", "csvc.spec.lease"]).await?;
    for field in [
        "durationSeconds",
        "heartbeatSeconds",
        "attemptTimeoutSeconds",
        "stopBudgetSeconds",
    ] {
        assert!(text.contains(field), "{text}");
    }
    let text = kubectl.run(&["explain", "bclass.spec"]).await?;
    assert!(text.contains("Absent: none"), "{text}");
    let text = kubectl.run(&["explain", "csvc.spec.rotation"]).await?;
    for field in ["interval", "gracePeriod", "maxGrace", "trigger"] {
        assert!(text.contains(field), "{text}");
    }
    let text = kubectl.run(&["explain", "csvc.status.history"]).await?;
    assert!(text.contains("newest first"), "{text}");
    namespace.finish().await
}
