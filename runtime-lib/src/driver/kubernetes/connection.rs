//! From a configuration to a client, with errors that say what to do.

use std::path::PathBuf;
use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};

use super::dialer::{self, Dialer};

/// A configuration with which no API server can be reached.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// The configuration that the kubelet gives every pod.
pub(crate) fn config_of_pod() -> Result<kube::Config, ConfigError> {
    kube::Config::incluster_env().map_err(|error| {
        ConfigError(format!(
            "the pod's service account cannot be used ({error}); mount its token \
             (automountServiceAccountToken: true)"
        ))
    })
}

/// The configuration of `KUBECONFIG` or `~/.kube/config`.
pub(crate) async fn config_from_kubeconfig() -> Result<kube::Config, ConfigError> {
    let place = kubeconfig_place();
    let kubeconfig = Kubeconfig::read().map_err(|error| {
        ConfigError(format!(
            "kubeconfig {place} cannot be read ({error}); set KUBECONFIG to an existing file"
        ))
    })?;
    kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| ConfigError(format!("kubeconfig {place} is not usable: {error}")))
}

fn kubeconfig_place() -> String {
    match std::env::var_os("KUBECONFIG") {
        Some(path) => format!("KUBECONFIG={}", PathBuf::from(path).display()),
        None => "~/.kube/config".to_owned(),
    }
}

/// A client with connections of its own.
pub(super) fn connect(
    config: &kube::Config,
) -> Result<(kube::Client, Arc<dyn Dialer>), ConfigError> {
    // Where several TLS providers are linked, rustls would refuse to choose; the first call wins.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Some(proxy) = config.proxy_url.as_ref().filter(|_| !is_loopback(config)) {
        return Err(ConfigError(format!(
            "the API server would have to be reached through the proxy {proxy}, which is not \
             supported; add its host to NO_PROXY or remove proxy-url from the kubeconfig"
        )));
    }
    dialer::connect(config)
        .map_err(|error| ConfigError(format!("the credentials cannot be used: {error}")))
}

fn is_loopback(config: &kube::Config) -> bool {
    let host = config.cluster_url.host().unwrap_or_default();
    host == "localhost"
        || host
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}
