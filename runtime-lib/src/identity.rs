//! Who this process is, found out without any configuration.
//!
//! In a pod: the pod's name and uid stand in the claims of its bound service-account token, which
//! the kubelet mounts. The token is only read here, not judged: the API server judges it. Outside
//! a pod: a node id and eight random digits.

use std::path::{Path, PathBuf};

use leasehold_core::id::Identity;

use crate::random;

/// Where the kubelet mounts the token of a pod's service account.
pub(crate) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What a pod knows about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) node: Option<String>,
}

/// Reads the pod's own account folder. `Err` says why it is of no use.
pub(crate) fn read_pod(folder: &Path) -> Result<Pod, String> {
    let path = folder.join("token");
    let token = std::fs::read_to_string(&path).map_err(|error| {
        format!(
            "the service-account token {} cannot be read: {error}",
            path.display()
        )
    })?;
    let mut pod = claims(token.trim()).unwrap_or_default();
    if let Ok(namespace) = std::fs::read_to_string(folder.join("namespace")) {
        pod.namespace = Some(namespace.trim().to_owned()).filter(|text| !text.is_empty());
    }
    Ok(pod)
}

/// The claims of a bound token; `None` if it is not of that form.
#[cfg(feature = "kubernetes")]
fn claims(token: &str) -> Option<Pod> {
    let payload = base64url(token.split('.').nth(1)?)?;
    let claims: serde_json::Value = serde_json::from_slice(&payload).ok()?;
    let claims = &claims["kubernetes.io"];
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    Some(Pod {
        namespace: text(&claims["namespace"]),
        name: text(&claims["pod"]["name"]),
        uid: text(&claims["pod"]["uid"]),
        node: text(&claims["node"]["name"]),
    })
}

#[cfg(not(feature = "kubernetes"))]
fn claims(_token: &str) -> Option<Pod> {
    None
}

/// Base64 with the URL alphabet and without padding, as in a JWT.
#[cfg(feature = "kubernetes")]
fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(out)
}

/// The host's name; in a pod it is the pod's name, unless its spec says otherwise.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::env::var("HOSTNAME"))
        .unwrap_or_default();
    let sound: String = name
        .chars()
        .filter(|c| c.is_ascii_graphic() && *c != '#' && *c != '_')
        .collect();
    if sound.is_empty() {
        "unnamed".to_owned()
    } else {
        sound
    }
}

/// A new identity for this process (E8).
pub(crate) fn new_identity(pod: Option<&Pod>, node_id: Option<&str>) -> Result<Identity, String> {
    let process = u32::try_from(random::number() >> 32).unwrap_or(0);
    let bound = pod.and_then(|pod| pod.uid.as_deref().map(|uid| (pod, uid)));
    let identity = if let Some((pod, uid)) = bound {
        let name = pod.name.clone().unwrap_or_else(host_name);
        Identity::of_pod(&name, uid, process)
    } else {
        let node_id = node_id.map_or_else(host_name, str::to_owned);
        Identity::of_node(&node_id, process)
    };
    identity.map_err(|error| error.to_string())
}

/// The folder of the pod's account, or of a test.
pub(crate) fn service_account_folder() -> PathBuf {
    PathBuf::from(SERVICE_ACCOUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The account's folder of a pod; it goes with the test.
    fn folder(token: Option<&str>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("namespace"), "shop\n").unwrap();
        if let Some(token) = token {
            std::fs::write(folder.path().join("token"), token).unwrap();
        }
        folder
    }

    #[test]
    fn a_token_that_cannot_be_read_is_an_error_with_its_path() {
        let folder = folder(None);
        let error = read_pod(folder.path()).unwrap_err();
        assert!(
            error.contains("token") && error.contains("cannot be read"),
            "{error}"
        );
    }

    #[test]
    fn a_token_of_another_form_still_gives_the_namespace() {
        for token in ["", "opaque", "a.b.c", "a.!!!.c", "a.bm8ganNvbg.c"] {
            let folder = folder(Some(token));
            let pod = read_pod(folder.path()).unwrap();
            assert_eq!(pod.namespace.as_deref(), Some("shop"), "{token}");
            assert_eq!(pod.uid, None, "{token}");
        }
    }

    #[cfg(feature = "kubernetes")]
    #[test]
    fn a_bound_token_names_pod_uid_and_node() {
        // {"kubernetes.io":{"namespace":"shop","node":{"name":"n1","uid":"x"},"pod":{"name":"orders-1","uid":"u-1"}}}
        let payload = "eyJrdWJlcm5ldGVzLmlvIjp7Im5hbWVzcGFjZSI6InNob3AiLCJub2RlIjp7Im5hbWUiOiJuMSIsInVpZCI6IngifSwicG9kIjp7Im5hbWUiOiJvcmRlcnMtMSIsInVpZCI6InUtMSJ9fX0";
        let folder = folder(Some(&format!("e30.{payload}.sig")));
        let pod = read_pod(folder.path()).unwrap();
        assert_eq!(pod.name.as_deref(), Some("orders-1"));
        assert_eq!(pod.uid.as_deref(), Some("u-1"));
        assert_eq!(pod.node.as_deref(), Some("n1"));
        let identity = new_identity(Some(&pod), None).unwrap();
        assert!(identity.as_str().starts_with("orders-1_u-1_"), "{identity}");
    }

    #[test]
    fn outside_a_pod_the_identity_begins_with_the_node_id() {
        let identity = new_identity(None, Some("laptop")).unwrap();
        assert!(identity.as_str().starts_with("laptop__"), "{identity}");
        assert_ne!(identity, new_identity(None, Some("laptop")).unwrap());
    }
}
