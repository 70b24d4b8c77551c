//! kubectl, from the same build as the API server, so that what a test or the
//! demo shows is what a user of that version would see.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::error::{Error, Result, Step};
use crate::programs;

/// kubectl with one identity and one namespace.
#[derive(Clone, Debug)]
pub struct Kubectl {
    kubeconfig: PathBuf,
    namespace: Option<String>,
}

impl Kubectl {
    /// With the identity in `kubeconfig`.
    pub fn new(kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            namespace: None,
        }
    }

    /// In `namespace` unless the arguments say otherwise.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Runs it and returns what it printed; an error holds what it complained.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = self.output(arguments, None).await?;
        succeeded(arguments, &output)
    }

    /// Runs it with `input` as its standard input, e.g. for `apply -f -`.
    pub async fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<String> {
        let output = self.output(arguments, Some(input)).await?;
        succeeded(arguments, &output)
    }

    /// Runs it and returns the complaint of a call that must fail.
    pub async fn refused(&self, arguments: &[&str]) -> Result<String> {
        let output = self.output(arguments, None).await?;
        if output.status.success() {
            return Err(Error::new(format!(
                "kubectl {} was accepted: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stdout)
            )));
        }
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    async fn output(
        &self,
        arguments: &[&str],
        input: Option<&str>,
    ) -> Result<std::process::Output> {
        let running = || format!("running kubectl {}", arguments.join(" "));
        let mut command = Command::new(programs::control_plane()?);
        command
            .arg("kubectl")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig);
        if let Some(namespace) = &self.namespace {
            command.arg("--namespace").arg(namespace);
        }
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let stdin = if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let mut child = command.stdin(stdin).spawn().step(running)?;
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            use tokio::io::AsyncWriteExt as _;
            stdin.write_all(input.as_bytes()).await.step(running)?;
        }
        child.wait_with_output().await.step(running)
    }
}

fn succeeded(arguments: &[&str], output: &std::process::Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(Error::new(format!(
        "kubectl {}: {}",
        arguments.join(" "),
        complaint.trim()
    )))
}
