//! Kubeconfig files: the administrator's, the components', and one for each
//! service account under test, made from a TokenRequest.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::certificates::{CertificateFiles, write_private};
use crate::error::{Error, Result, Step};

/// How long a token for code under test lives: longer than any test run.
const TOKEN_SECONDS: i64 = 24 * 3600;

/// Writes the kubeconfig of a client certificate.
pub fn write_for_certificate(
    path: &Path,
    server: &str,
    ca: &Path,
    client: &CertificateFiles,
) -> Result<()> {
    let user = json!({
        "client-certificate": client.certificate,
        "client-key": client.key,
    });
    let cluster = json!({ "server": server, "certificate-authority": ca });
    write(path, &cluster, &user, None)
}

/// Writes a kubeconfig for a service account of the cluster that `admin` (a
/// kubeconfig) reaches: same server, the account's own token, its namespace.
pub async fn write_for_account(
    admin: &Path,
    namespace: &str,
    account: &str,
    path: PathBuf,
) -> Result<PathBuf> {
    let requesting = || format!("requesting a token for service account {namespace}/{account}");
    let accounts: Api<ServiceAccount> = Api::namespaced(client(admin).await?, namespace);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .step(requesting)?;
    let token = answer
        .status
        .map(|status| status.token)
        .ok_or_else(|| Error::new("the answer holds no token"))
        .step(requesting)?;
    let cluster = current_cluster(admin)?;
    write(&path, &cluster, &json!({ "token": token }), Some(namespace))?;
    Ok(path)
}

/// A client for a kubeconfig file. It belongs to the tokio runtime it was made
/// in, so every test makes its own; it never retries by itself, so that counts
/// of requests are counts of intentions.
pub async fn client(kubeconfig: &Path) -> Result<Client> {
    Ok(Client::try_from(config(kubeconfig).await?)?)
}

/// The configuration behind [`client`].
pub async fn config(kubeconfig: &Path) -> Result<Config> {
    let reading = || format!("reading kubeconfig {}", kubeconfig.display());
    let file = Kubeconfig::read_from(kubeconfig).step(reading)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .step(reading)?;
    config.default_retry = false;
    Ok(config)
}

/// The server's URL in a kubeconfig.
pub fn server(kubeconfig: &Path) -> Result<String> {
    let cluster = current_cluster(kubeconfig)?;
    cluster["server"]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| {
            Error::new(format!(
                "kubeconfig {}: its cluster names no server",
                kubeconfig.display()
            ))
        })
}

/// The cluster entry of the current context, with paths made absolute.
fn current_cluster(kubeconfig: &Path) -> Result<Value> {
    let reading = || format!("reading kubeconfig {}", kubeconfig.display());
    let text = std::fs::read_to_string(kubeconfig).step(reading)?;
    let file: Value = serde_yaml::from_str(&text).step(reading)?;
    let named = |list: &str, name: &Value, field: &str| {
        file[list]
            .as_array()
            .and_then(|entries| entries.iter().find(|entry| &entry["name"] == name))
            .map(|entry| entry[field].clone())
            .ok_or_else(|| {
                Error::new(format!(
                    "kubeconfig {}: no entry {name} in {list}",
                    kubeconfig.display()
                ))
            })
    };
    let context = named("contexts", &file["current-context"], "context")?;
    let mut cluster = named("clusters", &context["cluster"], "cluster")?;
    if let Some(ca) = cluster["certificate-authority"].as_str().map(PathBuf::from)
        && ca.is_relative()
        && let Some(folder) = kubeconfig.parent()
    {
        cluster["certificate-authority"] = json!(folder.join(ca));
    }
    Ok(cluster)
}

fn write(path: &Path, cluster: &Value, user: &Value, namespace: Option<&str>) -> Result<()> {
    let mut context = json!({ "cluster": "leasehold", "user": "leasehold" });
    if let Some(namespace) = namespace {
        context["namespace"] = json!(namespace);
    }
    let file = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "leasehold",
        "contexts": [{ "name": "leasehold", "context": context }],
        "clusters": [{ "name": "leasehold", "cluster": cluster }],
        "users": [{ "name": "leasehold", "user": user }],
    });
    write_private(path, &serde_yaml::to_string(&file)?)
}
