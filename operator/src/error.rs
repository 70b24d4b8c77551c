//! What can go wrong in a reconcile, in words that tell what to do, and when to look again.

use std::time::Duration;

use leasehold_crds::condition::reason;

use crate::belief::record::shortened;

/// Why a pass did not reach its goal.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another replica may lead by now: nothing may be written.
    #[error("this replica does not lead any more")]
    NotLeading,
    /// A permission is missing.
    #[error("{action} is forbidden; {} with this rule would help: {}", role_in(.namespace), .action.rule())]
    Forbidden {
        /// What was tried.
        action: Action,
        /// Where.
        namespace: String,
    },
    /// The namespace is being deleted, so nothing may be made in it.
    #[error("namespace {namespace} is being deleted; nothing is made in it any more")]
    Terminating {
        /// Which.
        namespace: String,
    },
    /// A Lease of the needed name belongs to somebody else.
    #[error(
        "Lease {lease} exists but {why}; it is left alone. Rename or delete it, or choose another clusterId"
    )]
    Foreign {
        /// Its name.
        lease: String,
        /// How it was recognised.
        why: String,
    },
    /// Something changed meanwhile; the news of it is on its way.
    #[error("{action} met a newer version")]
    Conflict {
        /// What was tried.
        action: Action,
    },
    /// No answer in time.
    #[error("{action} had no answer within {} s", .limit.as_secs())]
    Timeout {
        /// What was tried.
        action: Action,
        /// How long it waited.
        limit: Duration,
    },
    /// The API server refused or could not be reached.
    #[error("{action} failed: {}", shortened(&.source.to_string()))]
    Api {
        /// What was tried.
        action: Action,
        /// What the client says.
        source: Box<kube::Error>,
    },
    /// The object cannot be read; a newer schema may have let it in.
    #[error("the {kind} cannot be read: {problem}")]
    Unreadable {
        /// Of which kind.
        kind: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// get, list, create, update, patch or delete.
    pub verb: &'static str,
    /// API group.
    pub group: &'static str,
    /// Plural name, with the subresource.
    pub resource: &'static str,
}

impl Action {
    /// The rule that permits it, as it stands in a Role.
    pub fn rule(&self) -> String {
        format!(
            "{{apiGroups: [{:?}], resources: [{:?}], verbs: [{:?}]}}",
            self.group, self.resource, self.verb
        )
    }

    /// The whole Role that permits it.
    pub fn role(&self, namespace: &str) -> String {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: leasehold-operator-{}, \
             namespace: {namespace}}}\nrules:\n- {}",
            self.resource.replace('/', "-"),
            self.rule()
        )
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}.{}", self.verb, self.resource, self.group)
    }
}

/// Where the missing rule belongs; what has no namespace needs one for the whole cluster.
fn role_in(namespace: &str) -> String {
    if namespace.is_empty() {
        "a ClusterRole".to_owned()
    } else {
        format!("a Role in namespace {namespace}")
    }
}

impl Error {
    /// Sorts an answer of the API server.
    pub fn from_kube(action: Action, namespace: &str, error: kube::Error) -> Self {
        if let kube::Error::Api(status) = &error {
            let is_terminating = status.details.as_ref().is_some_and(|details| {
                details
                    .causes
                    .iter()
                    .any(|cause| cause.reason == "NamespaceTerminating")
            });
            if is_terminating {
                return Self::Terminating {
                    namespace: namespace.to_owned(),
                };
            }
            if status.is_forbidden() {
                return Self::Forbidden {
                    action,
                    namespace: namespace.to_owned(),
                };
            }
            if status.is_conflict() || status.is_already_exists() {
                return Self::Conflict { action };
            }
        }
        Self::Api {
            action,
            source: Box::new(error),
        }
    }

    /// What was to be changed or deleted is gone meanwhile: that is none, and no error.
    pub fn gone_is_fine<T>(result: Result<T, Self>) -> Result<Option<T>, Self> {
        match result {
            Err(Self::Api { source, .. }) if matches!(&*source, kube::Error::Api(status) if status.is_not_found()) => {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// The reason in conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Forbidden { .. } => reason::PERMISSION_DENIED,
            Self::Terminating { .. } => reason::NAMESPACE_TERMINATING,
            Self::Foreign { .. } => reason::LEASE_FOREIGN,
            Self::Unreadable { .. } => reason::SPEC_INVALID,
            Self::NotLeading | Self::Conflict { .. } | Self::Timeout { .. } | Self::Api { .. } => {
                reason::WRITE_FAILED
            }
        }
    }

    /// Nothing will change until somebody acts.
    pub fn needs_somebody(&self) -> bool {
        matches!(
            self,
            Self::Forbidden { .. } | Self::Foreign { .. } | Self::Unreadable { .. }
        )
    }

    /// The word in metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Self::NotLeading => "not_leading",
            Self::Forbidden { .. } => "forbidden",
            Self::Terminating { .. } => "terminating",
            Self::Foreign { .. } => "foreign",
            Self::Conflict { .. } => "conflict",
            Self::Timeout { .. } => "timeout",
            Self::Api { .. } => "api",
            Self::Unreadable { .. } => "unreadable",
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    const CREATE: Action = Action {
        verb: "create",
        group: "coordination.k8s.io",
        resource: "leases",
    };

    #[test]
    fn a_missing_permission_names_verb_resource_namespace_and_the_role_that_would_help() {
        let status = Status::failure("leases is forbidden", "Forbidden").with_code(403);
        let error = Error::from_kube(CREATE, "demo", kube::Error::Api(Box::new(status)));
        let message = error.to_string();
        for part in [
            "create leases.coordination.k8s.io is forbidden",
            "namespace demo",
            r#"{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"]}"#,
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(CREATE.role("demo").contains("kind: Role"));
        assert_eq!(error.reason(), reason::PERMISSION_DENIED);
    }

    #[test]
    fn a_dying_namespace_is_no_missing_permission() {
        let status = serde_json::from_value(serde_json::json!({
            "status": "Failure", "message": "being terminated", "reason": "Forbidden", "code": 403,
            "details": {"causes": [{"reason": "NamespaceTerminating", "message": "", "field": ""}]},
        }))
        .unwrap();
        let error = Error::from_kube(CREATE, "demo", kube::Error::Api(Box::new(status)));
        assert!(matches!(error, Error::Terminating { .. }), "{error}");
    }
}
