//! The Secrets that a class names: its admin credential and its certificate authority. Whatever is wrong
//! with one is said by its key, never by its value.

use k8s_openapi::api::core::v1::Secret;
use leasehold_crds::keys::secret as keys;
use secrecy::{ExposeSecret as _, SecretString};

/// Longest CA bundle that is taken, in bytes.
const CA_MAX: usize = 256 * 1024;
/// Longest user name or password that is taken, in bytes.
const VALUE_MAX: usize = 4096;
/// Keys of the login at Redis Sentinels.
const SENTINEL: (&str, &str) = ("sentinel-username", "sentinel-password");

/// How the operator logs in at a server.
#[derive(Clone, Debug)]
pub struct AdminCredential {
    /// Its name there.
    pub username: String,
    /// Its password.
    pub password: SecretString,
    /// The login at Sentinels, if they ask for one.
    pub sentinel: Option<(Option<String>, SecretString)>,
}

/// Reads the admin credential of a class.
pub fn admin_of(secret: &Secret) -> Result<AdminCredential, String> {
    let text = |key| text_of(secret, key);
    let needed = |key| text(key)?.ok_or_else(|| format!("key {key:?} is missing"));
    let username = needed(keys::USERNAME)?;
    let password = needed(keys::PASSWORD)?;
    let sentinel = match (text(SENTINEL.0)?, text(SENTINEL.1)?) {
        (username, Some(password)) => {
            Some((username.map(|it| it.expose_secret().to_owned()), password))
        }
        (Some(_), None) => return Err(format!("key {:?} is missing", SENTINEL.1)),
        (None, None) => None,
    };
    Ok(AdminCredential {
        username: username.expose_secret().to_owned(),
        password,
        sentinel,
    })
}

/// Reads the certificate authority of a class.
pub fn authority_of(secret: &Secret) -> Result<String, String> {
    let key = keys::CA_CERT;
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    let bytes = bytes.ok_or_else(|| format!("key {key:?} is missing"))?;
    if bytes.0.len() > CA_MAX {
        return Err(format!(
            "key {key:?} has {} bytes; allowed: up to {CA_MAX}",
            bytes.0.len()
        ));
    }
    let text = std::str::from_utf8(&bytes.0).map_err(|_| format!("key {key:?} is no text"))?;
    if text.contains("PRIVATE KEY") {
        return Err(format!(
            "key {key:?} holds a private key; services would get it, so take it out"
        ));
    }
    if !text.contains("-----BEGIN CERTIFICATE-----") {
        return Err(format!("key {key:?} holds no certificate in PEM"));
    }
    Ok(text.to_owned())
}

/// A line break at the end is the usual accident; trimming it would hide that another one is needed.
fn text_of(secret: &Secret, key: &str) -> Result<Option<SecretString>, String> {
    let Some(bytes) = secret.data.as_ref().and_then(|data| data.get(key)) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes.0).map_err(|_| format!("key {key:?} is no UTF-8"))?;
    let problem = if text.is_empty() {
        "is empty"
    } else if text.len() > VALUE_MAX {
        "is longer than 4096 bytes"
    } else if text.ends_with(['\n', '\r']) {
        "ends with a line break; write it without one (echo -n)"
    } else if text.contains(char::is_control) {
        "holds control characters"
    } else {
        return Ok(Some(text.to_owned().into()));
    };
    Err(format!("key {key:?} {problem}"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;

    fn secret(pairs: &[(&str, &[u8])]) -> Secret {
        let data = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec())));
        Secret {
            data: Some(data.collect()),
            ..Secret::default()
        }
    }

    #[test]
    fn an_admin_is_a_name_and_a_password_and_shows_no_password() {
        let admin = admin_of(&secret(&[("username", b"adm"), ("password", b"canary-7")])).unwrap();
        assert_eq!(admin.username, "adm");
        assert_eq!(admin.password.expose_secret(), "canary-7");
        assert!(!format!("{admin:?}").contains("canary"));
        assert!(admin.sentinel.is_none());
        let with = [
            ("username", &b"adm"[..]),
            ("password", b"p"),
            ("sentinel-password", b"s"),
        ];
        let (username, password) = admin_of(&secret(&with)).unwrap().sentinel.unwrap();
        assert_eq!((username, password.expose_secret()), (None, "s"));
    }

    #[test]
    fn what_is_wrong_is_said_by_its_key_and_never_by_its_value() {
        for (password, problem) in [
            (&b""[..], "is empty"),
            (b"canary\n", "ends with a line break"),
            (b"can\0ary", "control characters"),
            (b"canary\xff", "no UTF-8"),
            (&[b'x'; 5000], "longer than"),
        ] {
            let found = admin_of(&secret(&[("username", b"adm"), ("password", password)]));
            let message = found.unwrap_err();
            assert!(message.contains(problem), "{message}");
            assert!(message.contains("\"password\""), "{message}");
            assert!(!message.contains("canary"), "{message}");
        }
        let message = admin_of(&secret(&[("password", b"canary")])).unwrap_err();
        assert_eq!(message, "key \"username\" is missing");
        assert!(admin_of(&Secret::default()).is_err());
    }

    #[test]
    fn an_authority_is_certificates_alone() {
        let pem = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";
        assert!(authority_of(&secret(&[("ca.crt", pem)])).is_ok());
        let key = [&pem[..], b"-----BEGIN EC PRIVATE KEY-----\n"].concat();
        for (value, problem) in [
            (&key[..], "private key"),
            (b"x", "no certificate"),
            (b"\xff", "is no text"),
            (&vec![b'x'; CA_MAX + 1], "bytes; allowed"),
        ] {
            let message = authority_of(&secret(&[("ca.crt", value)])).unwrap_err();
            assert!(message.contains(problem), "{message}");
        }
        assert!(authority_of(&secret(&[("tls.crt", pem)])).is_err());
    }
}
