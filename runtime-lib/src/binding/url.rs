//! What the URL of a server says, in parts. Its errors never repeat it.

use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use url::{Host, Url};

use super::BindingKind;

/// A URL of a kind that its clients can read.
pub(super) struct Parts {
    /// Empty if there is none, which Postgres takes as a local socket.
    pub(super) host: String,
    pub(super) port: Option<u16>,
    pub(super) username: Option<String>,
    pub(super) password: Option<SecretString>,
    /// The database, by name or number.
    pub(super) path: Option<String>,
    /// Redis: its scheme asks for TLS.
    pub(super) tls: bool,
}

/// Reads it, or says what would be allowed.
pub(super) fn parts(kind: BindingKind, text: &str) -> Result<Parts, String> {
    let allowed = match kind {
        BindingKind::Postgres => "postgres://user:password@host:5432/database",
        BindingKind::Redis => "redis://user:password@host:6379/0, or rediss:// for TLS",
    };
    // The reason is one of a few sentences, without anything of the text.
    let url = Url::parse(text).map_err(|reason| format!("{reason}; allowed is {allowed}"))?;
    let schemes = match kind {
        BindingKind::Postgres => ["postgres", "postgresql"],
        BindingKind::Redis => ["redis", "rediss"],
    };
    if !schemes.contains(&url.scheme()) {
        return Err(format!("is of another scheme; allowed is {allowed}"));
    }
    if url.fragment() == Some("insecure") {
        return Err(
            "ends in #insecure, which would trust any server; give the certificate of its CA \
             instead, in a folder with ca.crt"
                .to_owned(),
        );
    }
    if url.fragment().is_some() {
        return Err(format!("has a fragment (#); allowed is {allowed}"));
    }
    let decoded = |text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded
            .map(std::borrow::Cow::into_owned)
            .map_err(|_| format!("is not UTF-8 behind its percent signs; allowed is {allowed}"))
    };
    let host = match url.host() {
        Some(Host::Domain(name)) => decoded(name)?,
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(), // without brackets
        None => String::new(),
    };
    if host.is_empty() && kind == BindingKind::Redis {
        return Err(format!("names no host; allowed is {allowed}"));
    }
    let named = |text: &str| (!text.is_empty()).then(|| decoded(text)).transpose();
    let path = named(url.path().trim_matches('/'))?;
    let number = |path: &String| path.parse::<u16>().is_err();
    if kind == BindingKind::Redis && path.as_ref().is_some_and(number) {
        return Err(format!(
            "has a path that is no number; allowed is {allowed}"
        ));
    }
    Ok(Parts {
        host,
        port: url.port(),
        username: named(url.username())?,
        password: url.password().map(decoded).transpose()?.map(Into::into),
        path,
        tls: url.scheme() == "rediss",
    })
}
