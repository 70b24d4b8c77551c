//! The API server's audit log: who asked for what, when, with what outcome.
//! It counts requests for the figures, and shows which rights were used.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

use jiff::Timestamp;
use serde::Deserialize;

use crate::error::{Error, Result, Step};

/// The log of one control plane.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: PathBuf,
}

/// A place in the log: what was answered before it and what after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

/// One answered request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Names the request in all its lines: a watch has one for its start and
    /// one for its end.
    #[serde(rename = "auditID")]
    pub id: String,
    /// `ResponseStarted` (long requests), `ResponseComplete` or `Panic`.
    pub stage: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …
    pub verb: String,
    /// Who asked.
    pub user: User,
    /// The client program's own name for itself.
    #[serde(default)]
    pub user_agent: String,
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub uri: String,
    /// What it was about; absent for paths such as `/version`.
    #[serde(default)]
    pub object_ref: ObjectRef,
    /// The outcome, once there is one.
    #[serde(default)]
    pub response_status: Option<Outcome>,
    /// When the API server got it.
    #[serde(rename = "requestReceivedTimestamp")]
    pub received: Timestamp,
}

/// Who asked.
#[derive(Clone, Debug, Deserialize)]
pub struct User {
    /// E.g. `system:serviceaccount:shop:orders`.
    #[serde(default)]
    pub username: String,
}

/// The object or list a request was about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectRef {
    /// Plural, e.g. `leases`.
    pub resource: String,
    /// E.g. `status`.
    pub subresource: String,
    /// Empty for the core group.
    pub api_group: String,
    /// Empty for cluster-wide requests.
    pub namespace: String,
    /// Empty for lists and most creates.
    pub name: String,
}

/// How a request ended.
#[derive(Clone, Debug, Deserialize)]
pub struct Outcome {
    /// HTTP status.
    #[serde(default)]
    pub code: u16,
}

impl Request {
    /// Whether it can change something.
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    /// The resource with its subresource, as RBAC writes it.
    pub fn resource(&self) -> String {
        let ObjectRef {
            resource,
            subresource,
            ..
        } = &self.object_ref;
        if subresource.is_empty() {
            resource.clone()
        } else {
            format!("{resource}/{subresource}")
        }
    }
}

/// Which requests to count. Empty: all of them.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    user: Option<String>,
    user_agent: Option<String>,
    verbs: Vec<&'static str>,
    resource: Option<String>,
    namespace: Option<String>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
}

impl Filter {
    /// Only of a service account.
    #[must_use]
    pub fn account(self, namespace: &str, name: &str) -> Self {
        self.user(&format!("system:serviceaccount:{namespace}:{name}"))
    }

    /// Only of this user.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Only of client programs whose name for themselves begins like this.
    #[must_use]
    pub fn user_agent(mut self, beginning: &str) -> Self {
        self.user_agent = Some(beginning.to_owned());
        self
    }

    /// Only with one of these verbs.
    #[must_use]
    pub fn verbs(mut self, verbs: &[&'static str]) -> Self {
        self.verbs = verbs.to_vec();
        self
    }

    /// Only about this resource, subresources included, e.g. `leases`.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only received at `from` or later.
    #[must_use]
    pub fn from(mut self, from: Timestamp) -> Self {
        self.from = Some(from);
        self
    }

    /// Only received before `to`.
    #[must_use]
    pub fn to(mut self, to: Timestamp) -> Self {
        self.to = Some(to);
        self
    }

    /// Whether `request` is one of them.
    pub fn admits(&self, request: &Request) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        is(&self.user, &request.user.username)
            && self
                .user_agent
                .as_ref()
                .is_none_or(|start| request.user_agent.starts_with(start))
            && (self.verbs.is_empty() || self.verbs.contains(&request.verb.as_str()))
            && is(&self.resource, &request.object_ref.resource)
            && is(&self.namespace, &request.object_ref.namespace)
            && self.from.is_none_or(|from| request.received >= from)
            && self.to.is_none_or(|to| request.received < to)
    }
}

impl AuditLog {
    /// The log at `path`, which may not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The present end of the log.
    pub fn mark(&self) -> Result<Mark> {
        match std::fs::metadata(&self.path) {
            Ok(metadata) => Ok(Mark(metadata.len())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Mark(0)),
            Err(error) => Err(error).step(|| format!("reading {}", self.path.display())),
        }
    }

    /// The requests that were answered (a watch: begun) since `mark`, each
    /// once, in the order of their answers.
    pub fn since(&self, mark: Mark, filter: &Filter) -> Result<Vec<Request>> {
        let reading = || format!("reading {}", self.path.display());
        let mut file = std::fs::File::open(&self.path).step(reading)?;
        file.seek(SeekFrom::Start(mark.0)).step(reading)?;
        let mut lines = BufReader::new(file);
        let mut seen = BTreeSet::new();
        let mut requests = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            lines.read_until(b'\n', &mut line).step(reading)?;
            // A line without its end is still being written.
            if line.last() != Some(&b'\n') {
                return Ok(requests);
            }
            let request: Request = serde_json::from_slice(&line)
                .step(|| String::from_utf8_lossy(&line).into_owned())
                .step(reading)?;
            if filter.admits(&request) && seen.insert(request.id.clone()) {
                requests.push(request);
            }
        }
    }

    /// How often each (verb, resource) was asked for since `mark`.
    pub fn counts(&self, mark: Mark, filter: &Filter) -> Result<BTreeMap<(String, String), usize>> {
        let mut counts = BTreeMap::new();
        for request in self.since(mark, filter)? {
            *counts
                .entry((request.verb.clone(), request.resource()))
                .or_default() += 1;
        }
        Ok(counts)
    }

    /// Fails unless somebody asked at least once: a run in which nothing
    /// happened proves nothing.
    pub fn at_least_one(&self, mark: Mark, filter: &Filter) -> Result<Vec<Request>> {
        let requests = self.since(mark, filter)?;
        if requests.is_empty() {
            return Err(Error::new(format!(
                "no request in the audit log for {filter:?}"
            )));
        }
        Ok(requests)
    }
}

#[cfg(test)]
mod tests {
    use super::{AuditLog, Filter, Mark};

    const LINES: &str = concat!(
        r#"{"auditID":"1","stage":"ResponseComplete","requestURI":"/apis/coordination.k8s.io/v1/namespaces/a/leases/x.leader","verb":"update","user":{"username":"system:serviceaccount:a:w"},"userAgent":"leasehold/0.1","objectRef":{"resource":"leases","namespace":"a","name":"x.leader","apiGroup":"coordination.k8s.io"},"responseStatus":{"metadata":{},"code":409},"requestReceivedTimestamp":"2026-11-29T20:00:01.000000Z","stageTimestamp":"2026-11-29T20:00:01.002000Z"}"#,
        "\n",
        r#"{"auditID":"2","stage":"ResponseStarted","requestURI":"/w","verb":"watch","user":{"username":"admin"},"requestReceivedTimestamp":"2026-11-29T20:00:02.000000Z"}"#,
        "\n",
        r#"{"auditID":"2","stage":"ResponseComplete","requestURI":"/w","verb":"watch","user":{"username":"admin"},"requestReceivedTimestamp":"2026-11-29T20:00:02.000000Z"}"#,
        "\n",
        r#"{"auditID":"3","stage":"Resp"#,
    );

    fn log() -> (tempfile::TempDir, AuditLog) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        std::fs::write(&path, LINES).unwrap();
        (folder, AuditLog::new(path))
    }

    #[test]
    fn a_watch_counts_once_and_an_unfinished_line_not_at_all() {
        let (_folder, log) = log();
        let requests = log.since(Mark(0), &Filter::default()).unwrap();
        assert_eq!(requests.len(), 2);
        assert!(requests[0].is_write() && !requests[1].is_write());
        assert_eq!(
            requests[0]
                .response_status
                .as_ref()
                .map(|status| status.code),
            Some(409)
        );
    }

    #[test]
    fn filters_tell_users_and_resources_apart() {
        let (_folder, log) = log();
        let count = |filter: Filter| log.since(Mark(0), &filter).unwrap().len();
        assert_eq!(
            count(Filter::default().account("a", "w").resource("leases")),
            1
        );
        assert_eq!(
            count(Filter::default().account("a", "w").verbs(&["get"])),
            0
        );
        assert_eq!(
            count(Filter::default().from("2026-11-29T20:00:02Z".parse().unwrap())),
            1
        );
        assert_eq!(count(Filter::default().user_agent("leasehold/")), 1);
        assert!(
            log.at_least_one(Mark(0), &Filter::default().user("nobody"))
                .is_err()
        );
    }
}
