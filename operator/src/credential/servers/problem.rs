//! Why there is no server to work with, for the service that wanted one and for the class.

use leasehold_crds::condition::reason;

use crate::error::Error;

/// Why there is no server to work with.
#[derive(Debug, thiserror::Error)]
pub enum ClassProblem {
    /// No such class.
    #[error("BackendClass {0} does not exist")]
    Missing(String),
    /// Classes are not seen (yet).
    #[error("BackendClasses are not known now: {0}")]
    Unseen(String),
    /// The class does not select the namespace. Nothing else is said of it.
    #[error("namespace {namespace} may not use BackendClass {class}")]
    NotPermitted {
        /// Whose.
        namespace: String,
        /// Which.
        class: String,
    },
    /// The class or its Secrets cannot be used; for the class's own status.
    #[error("BackendClass {class} cannot be used now; its conditions say why")]
    Unusable {
        /// Which.
        class: String,
        /// Why.
        why: Unusable,
    },
    /// The API server did not answer as needed.
    #[error(transparent)]
    Api(#[from] Error),
}

/// Why a class cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// A Secret that it names does not exist.
    #[error("Secret {name} does not exist in namespace {namespace}")]
    SecretAbsent {
        /// Its name.
        name: String,
        /// Where it should be.
        namespace: String,
    },
    /// A Secret that it names holds something else.
    #[error("Secret {name} in namespace {namespace}: {problem}")]
    SecretInvalid {
        /// Its name.
        name: String,
        /// Where it is.
        namespace: String,
        /// Names the key, and never a value.
        problem: String,
    },
    /// The spec makes no sense.
    #[error("{0}")]
    SpecInvalid(String),
}

impl ClassProblem {
    /// The reason in conditions of a ClusterService.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing(_) => reason::CLASS_MISSING,
            Self::NotPermitted { .. } => reason::NOT_PERMITTED,
            Self::Unseen(_) | Self::Unusable { .. } => reason::CLASS_NOT_READY,
            Self::Api(error) => error.reason(),
        }
    }
}
