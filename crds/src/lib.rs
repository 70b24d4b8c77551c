//! API types of Leasehold: one place for kinds, names and keys that operator, runtime and tests share.
//!
//! No client and no decisions live here. The CRD YAML beside this crate's manifest is generated from
//! these types (`cargo xtask crds`).

pub mod backend_class;
pub mod cluster_service;
pub mod condition;
pub mod duration;
pub mod keys;
pub mod names;
pub mod settings;

pub use backend_class::{
    BackendClass, BackendClassSpec, BackendClassStatus, PostgresBackend, RedisBackend,
    RedisTopology, SecretReference, TlsMode, TlsSpec,
};
pub use cluster_service::{
    BackendKind, BindingStatus, ClusterScope, ClusterService, ClusterServiceSpec,
    ClusterServiceStatus, CredentialStatus, DeletionPolicy, Hash, LastRebalance, Leader,
    LeaderStrategy, LeadershipTerm, LeaseSpec, MembersStatus, PartitionsStatus, PerPod,
    PostgresSpec, Privileges, RedisProfile, RedisSpec, RotationSpec,
};
pub use names::{ClusterId, InvalidClusterId};
pub use settings::Settings;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// Every CRD of the project, with the name of its YAML file.
pub fn all() -> Vec<(String, CustomResourceDefinition)> {
    [ClusterService::crd(), BackendClass::crd()]
        .into_iter()
        .map(|crd| {
            (
                format!("{}.yaml", crd.metadata.name.clone().unwrap_or_default()),
                crd,
            )
        })
        .collect()
}
