//! Credentials that the API server does not accept, or accepts no longer. No process ends by them,
//! no leadership outlives them, and everybody says what is wrong.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use leasehold::{Identity, ServiceHandle};
use leasehold_e2e::cluster::{Account, lease_rules};
use leasehold_e2e::{ControlPlane, Error, Result};
use rcgen::{KeyPair, SigningKey as _};
use serde_json::{Value, json};

use crate::ground::{Ground, demand, spawn, until_error, until_role};

const REFUSED: &str = "does not accept the credentials";

/// A token that is none, and a server that is not there.
pub(crate) async fn wrong_credentials_and_servers_are_said_and_end_no_process(
    ground: &Ground,
) -> Result<()> {
    let token = |file: &mut serde_yaml::Value| {
        file["users"][0]["user"]["token"] = "no-token".into();
    };
    let server = |file: &mut serde_yaml::Value| {
        file["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
    };
    let sound = &ground.account.kubeconfig;
    let (stranger, strange) = member(ground, "stranger", altered(sound, "wrong", token)?).await?;
    let (astray, lost) = member(ground, "astray", altered(sound, "astray", server)?).await?;
    until_error(&strange, REFUSED).await?;
    until_error(&lost, "cannot be reached").await?;
    for handle in [&strange, &lost] {
        let status = handle.status();
        demand(status.role == "candidate" && status.token.is_none(), || {
            format!("{status:?}")
        })?;
    }
    stranger.close().await;
    astray.close().await;
    Ok(())
}

/// The account is deleted under its leader: every later request is refused.
pub(crate) async fn a_leader_whose_account_is_deleted_says_so_and_leads_no_longer(
    ground: &Ground,
) -> Result<()> {
    let account = ground.namespace.account("revoked", lease_rules()).await?;
    let (revoked, handle) = member(ground, "revoked", account.kubeconfig).await?;
    until_role(&handle, "leader").await?;
    ground
        .namespace
        .kubectl()
        .run(&["delete", "serviceaccount", "revoked"])
        .await?;
    until_error(&handle, REFUSED).await?;
    until_role(&handle, "candidate").await?;
    revoked.close().await;
    Ok(())
}

/// The token is sound when the leader begins and expires soon after.
pub(crate) async fn a_leader_whose_token_expires_says_so_and_leads_no_longer(
    ground: &Ground,
) -> Result<()> {
    let cluster = ground.namespace.cluster();
    let Some(plane) = cluster.control_plane_or_skip("a token that expires within a minute") else {
        return Ok(());
    };
    let account = ground.namespace.account("expiring", lease_rules()).await?;
    // The API server grants a minute beyond the end, and remembers its answer for 10 s.
    let expires = Timestamp::now().as_second() - 60 + 15;
    let token = token_until(ground, plane, &account, expires).await?;
    let kubeconfig = altered(&account.kubeconfig, "brief", |file| {
        file["users"][0]["user"]["token"] = token.into();
    })?;
    let (expiring, handle) = member(ground, "expiring", kubeconfig).await?;
    until_role(&handle, "leader").await?;
    until_error(&handle, REFUSED).await?;
    until_role(&handle, "candidate").await?;
    expiring.close().await;
    Ok(())
}

async fn member(
    ground: &Ground,
    name: &str,
    kubeconfig: PathBuf,
) -> Result<(leasehold::Cluster, ServiceHandle)> {
    let account = Account {
        name: name.to_owned(),
        kubeconfig,
    };
    let identity = Identity::of_node(name, 1)?;
    let member = ground
        .member_as(&account, ground.namespace.name(), identity)
        .await?;
    let handle = spawn(member.service(name))?;
    Ok((member, handle))
}

/// A copy of a kubeconfig with something else in it.
fn altered(
    kubeconfig: &Path,
    name: &str,
    alter: impl FnOnce(&mut serde_yaml::Value),
) -> Result<PathBuf> {
    let mut file: serde_yaml::Value = serde_yaml::from_str(&std::fs::read_to_string(kubeconfig)?)?;
    alter(&mut file);
    let path = kubeconfig.with_extension(format!("{name}.kubeconfig"));
    std::fs::write(&path, serde_yaml::to_string(&file)?)?;
    Ok(path)
}

/// A service-account token like the API server's own, signed with its key: a TokenRequest gives
/// none that lives for less than ten minutes.
async fn token_until(
    ground: &Ground,
    plane: &ControlPlane,
    account: &Account,
    expires: i64,
) -> Result<String> {
    const ISSUER: &str = "https://kubernetes.default.svc";
    let namespace = ground.namespace.name();
    let object = ground
        .namespace
        .api::<ServiceAccount>()
        .get(&account.name)
        .await?;
    let claims = json!({
        "iss": ISSUER,
        "aud": [ISSUER],
        "sub": format!("system:serviceaccount:{namespace}:{}", account.name),
        "iat": expires - 600,
        "nbf": expires - 600,
        "exp": expires,
        "kubernetes.io": {
            "namespace": namespace,
            "serviceaccount": { "name": account.name, "uid": object.metadata.uid },
        },
    });
    let header = json!({ "alg": "ES256", "typ": "JWT" });
    let part = |value: &Value| base64url(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let key = std::fs::read_to_string(plane.path().join("pki").join("accounts.key"))?;
    let signature = KeyPair::from_pem(&key)?.sign(signed.as_bytes())?;
    Ok(format!(
        "{signed}.{}",
        base64url(&raw_signature(&signature)?)
    ))
}

/// r and s with 32 bytes each, from their ASN.1 form.
fn raw_signature(asn1: &[u8]) -> Result<Vec<u8>> {
    let mut raw = Vec::new();
    let mut rest = asn1.get(2..).unwrap_or_default();
    for _ in 0..2 {
        let &[2, length, ref after @ ..] = rest else {
            return Err(Error::new(format!("not an ECDSA signature: {asn1:?}")));
        };
        let (number, after) = after.split_at(usize::from(length).min(after.len()));
        let number = &number[number.len().saturating_sub(32)..];
        raw.extend(std::iter::repeat_n(0, 32 - number.len()));
        raw.extend(number);
        rest = after;
    }
    Ok(raw)
}

/// Base64 with the URL alphabet and without padding.
fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0_usize, |bits, &byte| bits << 8 | usize::from(byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(char::from(ALPHABET[bits >> (18 - 6 * digit) & 63]));
        }
    }
    text
}
