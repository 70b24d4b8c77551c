//! Why a store did not do what it was asked to. Kept apart by what a person has to do about it.

use leasehold_core::time::Duration;

/// A failed request to a lease store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No connection, or it broke.
    #[error("the lease store cannot be reached: {detail}")]
    Unreachable {
        /// What the transport said.
        detail: String,
    },
    /// No answer in time.
    #[error("the lease store did not answer within {:.1} s ({verb})", .limit.as_secs_f64())]
    TimedOut {
        /// The verb of the request.
        verb: &'static str,
        /// The time it had.
        limit: Duration,
    },
    /// The account lacks a right.
    #[error(
        "no right to {verb} {resource} in namespace {namespace:?}: {detail}\n{}",
        role_that_would_help(.namespace, .account.as_deref())
    )]
    Denied {
        /// The refused verb.
        verb: &'static str,
        /// The resource, with its API group.
        resource: &'static str,
        /// The namespace.
        namespace: String,
        /// The account, if the server named it.
        account: Option<String>,
        /// What the server said.
        detail: String,
    },
    /// The credentials are not valid (expired, revoked, of another cluster).
    #[error(
        "the API server does not accept the credentials ({detail}); renew the kubeconfig or the service-account token"
    )]
    Unauthorized {
        /// What the server said.
        detail: String,
    },
    /// The namespace does not exist or is being deleted.
    #[error("namespace {namespace:?} is gone or being deleted: {detail}")]
    NamespaceGone {
        /// The namespace.
        namespace: String,
        /// What the server said.
        detail: String,
    },
    /// The store asked for patience.
    #[error("the lease store throttles: {detail}")]
    Throttled {
        /// For how long, if it said so.
        retry_after: Option<Duration>,
        /// What the server said.
        detail: String,
    },
    /// The store has a fault of its own.
    #[error("the lease store failed with status {status}: {detail}")]
    Server {
        /// HTTP status, or its equal.
        status: u16,
        /// The server's wish, if it named one.
        retry_after: Option<Duration>,
        /// What the server said.
        detail: String,
    },
    /// The store refused what we sent; this is a fault of ours or of a foreign edit.
    #[error("the lease store refused the record: {detail}")]
    Invalid {
        /// What the server said.
        detail: String,
    },
    /// The answer cannot be understood, or its revision is out of range (E7).
    #[error("the lease store's answer cannot be used: {detail}")]
    Malformed {
        /// What is wrong with it.
        detail: String,
    },
    /// The watch began before what the store still remembers.
    #[error("the watch is too old: {detail}")]
    Expired {
        /// What the server said.
        detail: String,
    },
}

impl StoreError {
    /// After a write: it may have been carried out (E2).
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::TimedOut { .. }
                | Self::Server { .. }
                | Self::Malformed { .. }
        )
    }

    /// The way to the store is broken: connections are worth dialling anew.
    pub(crate) fn is_transport(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. })
    }

    /// The server's wish, if it named one.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Throttled { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// One word for logs and metrics, from a closed list.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::TimedOut { .. } => "timed_out",
            Self::Denied { .. } => "denied",
            Self::Unauthorized { .. } => "unauthorized",
            Self::NamespaceGone { .. } => "namespace_gone",
            Self::Throttled { .. } => "throttled",
            Self::Server { .. } => "server_error",
            Self::Invalid { .. } => "invalid",
            Self::Malformed { .. } => "malformed",
            Self::Expired { .. } => "expired",
        }
    }
}

/// The Role that grants everything a candidate needs, ready to be applied.
fn role_that_would_help(namespace: &str, account: Option<&str>) -> String {
    let subject = account.and_then(|name| {
        let (of, name) = name
            .strip_prefix("system:serviceaccount:")?
            .split_once(':')?;
        Some(format!(
            "  - {{kind: ServiceAccount, name: {name}, namespace: {of}}}"
        ))
    });
    let subject = subject.unwrap_or_else(|| {
        let name = account.unwrap_or("<the account above>");
        format!("  - {{kind: User, name: {name:?}, apiGroup: rbac.authorization.k8s.io}}")
    });
    format!(
        "This Role and RoleBinding would help:\n\
         apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: Role\n\
         metadata: {{name: leasehold, namespace: {namespace}}}\n\
         rules:\n\
         \x20 - apiGroups: [coordination.k8s.io]\n\
         \x20   resources: [leases]\n\
         \x20   verbs: [get, list, watch, create, update]\n\
         ---\n\
         apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: RoleBinding\n\
         metadata: {{name: leasehold, namespace: {namespace}}}\n\
         roleRef: {{kind: Role, name: leasehold, apiGroup: rbac.authorization.k8s.io}}\n\
         subjects:\n{subject}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_names_verb_resource_namespace_and_the_role_that_helps() {
        let error = StoreError::Denied {
            verb: "create",
            resource: "leases.coordination.k8s.io",
            namespace: "shop".to_owned(),
            account: Some("system:serviceaccount:shop:orders".to_owned()),
            detail: "forbidden".to_owned(),
        };
        let text = error.to_string();
        for part in [
            "no right to create leases.coordination.k8s.io in namespace \"shop\"",
            "verbs: [get, list, watch, create, update]",
            "{kind: ServiceAccount, name: orders, namespace: shop}",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!error.is_outcome_unknown());
    }

    #[test]
    fn the_outcome_is_unknown_only_where_the_write_may_have_happened() {
        let unknown = StoreError::TimedOut {
            verb: "update",
            limit: Duration::from_secs(2),
        };
        assert!(unknown.is_outcome_unknown() && unknown.is_transport());
        let throttled = StoreError::Throttled {
            retry_after: None,
            detail: String::new(),
        };
        assert!(!throttled.is_outcome_unknown());
    }
}
