//! What a binding says: where the server is, and how to log in. Nothing here prints a password,
//! and no problem repeats what a file holds: a password may stand in the wrong one.

use std::fmt;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};

use super::BindingKind;
use super::folder::Files;
use super::url::{Parts, parts};
use crate::error::StartError;

/// The words of libpq.
const SSL_MODES: [&str; 6] = [
    "disable",
    "allow",
    "prefer",
    "require",
    "verify-ca",
    "verify-full",
];

/// How to log in to one server.
pub struct Credentials {
    kind: BindingKind,
    host: String,
    port: u16,
    username: Option<String>,
    password: Option<SecretString>,
    database: Option<String>,
    key_prefix: Option<String>,
    /// Postgres: one of libpq's words.
    pub(super) ssl_mode: Option<String>,
    /// Redis: TLS with a verified certificate.
    pub(super) tls: bool,
    /// The certificates of its CA, in PEM.
    pub(super) ca: Option<Vec<u8>>,
    /// The whole URL, if it comes from a variable: it may have parameters.
    pub(super) url: Option<SecretString>,
}

impl Credentials {
    /// Which server it is.
    pub fn kind(&self) -> BindingKind {
        self.kind
    }

    /// A DNS name or an address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The login, if one is named.
    pub fn username(&self) -> Option<&str> {
        self.username.as_deref()
    }

    /// The password, if there is one.
    pub fn password(&self) -> Option<&SecretString> {
        self.password.as_ref()
    }

    /// The database: a name, or in Redis a number.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Redis: what every key and channel of this login begins with.
    pub fn key_prefix(&self) -> Option<&str> {
        self.key_prefix.as_deref()
    }

    /// From the variable of its kind.
    pub(super) fn from_variable(kind: BindingKind, text: &str) -> Result<Self, StartError> {
        let refused = |problem| StartError::new(format!("{}: {problem}", kind.variable()));
        let parts = parts(kind, text).map_err(refused)?;
        let credentials = Self {
            kind,
            host: parts.host,
            port: parts.port.unwrap_or(default_port(kind)),
            username: parts.username,
            password: parts.password,
            database: parts.path,
            key_prefix: None,
            ssl_mode: None,
            tls: parts.tls,
            ca: None,
            url: Some(text.into()),
        };
        #[cfg(feature = "postgres")]
        if kind == BindingKind::Postgres {
            super::postgres::connect_options(&credentials).map_err(refused)?;
        }
        Ok(credentials)
    }

    /// From the files of a folder, with every problem.
    pub(super) fn from_files(files: &Files) -> Result<Self, StartError> {
        let mut reader = Reader {
            files,
            problems: Vec::new(),
        };
        let kind = reader.take("type", "postgresql or redis", |text| {
            let kinds = [BindingKind::Postgres, BindingKind::Redis];
            kinds.into_iter().find(|kind| kind.word() == text)
        });
        let kind = reader.required("type", kind);
        let is_redis = kind == Some(BindingKind::Redis);
        let host = reader.take("host", "a DNS name or an IP address", host);
        let host = reader.required("host", host);
        let port = reader.take("port", "a whole number from 1 to 65535", |text| {
            text.parse().ok().filter(|port| *port > 0)
        });
        let mut username = reader.text("username");
        if !is_redis {
            username = reader.required("username", username);
        }
        let password = reader.text("password");
        let password = reader.required("password", password);
        let database = reader.text("database");
        let key_prefix = reader.text("key-prefix");
        let ssl_mode = reader.take("sslmode", &SSL_MODES.join(", "), |text| {
            SSL_MODES.contains(&text).then(|| text.to_owned())
        });
        let ca = reader.certificates("ca.crt");
        let login = Login {
            username: username.as_deref(),
            password: password.as_deref(),
        };
        let uri = kind.and_then(|kind| reader.uri("uri", kind, &login));
        let tls = uri.as_ref().map_or(ca.is_some(), |uri| uri.tls);
        if is_redis && ca.is_some() && !tls && uri.is_some() {
            reader.refuse(
                "uri",
                "is without TLS beside a ca.crt; allowed is rediss://",
            );
        }
        let (Some(kind), Some(host), true) = (kind, host, reader.problems.is_empty()) else {
            return Err(reader.refused());
        };
        let number = uri.and_then(|uri| uri.path);
        Ok(Self {
            kind,
            host,
            port: port.unwrap_or(default_port(kind)),
            username,
            password: password.map(Into::into),
            database: if is_redis { number } else { database },
            key_prefix,
            ssl_mode: ssl_mode.or_else(|| ca.is_some().then(|| "verify-full".to_owned())),
            tls,
            ca,
            url: None,
        })
    }

    /// Nothing that a client would see differs.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let exposed = |secret: &Option<SecretString>| {
            let secret = secret.as_ref();
            secret.map(|secret| secret.expose_secret().to_owned())
        };
        let plain = |it: &Self| {
            let names =
                [&it.username, &it.database, &it.key_prefix, &it.ssl_mode].map(Clone::clone);
            (
                it.kind,
                it.host.clone(),
                it.port,
                names,
                it.tls,
                it.ca.clone(),
            )
        };
        plain(self) == plain(other)
            && exposed(&self.password) == exposed(&other.password)
            && exposed(&self.url) == exposed(&other.url)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("kind", &self.kind)
            .field("host", &self.host)
            .field("port", &self.port)
            .field("username", &self.username)
            .field("database", &self.database)
            .field("key_prefix", &self.key_prefix)
            .field("ssl_mode", &self.ssl_mode)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

fn default_port(kind: BindingKind) -> u16 {
    match kind {
        BindingKind::Postgres => 5432,
        BindingKind::Redis => 6379,
    }
}

/// Nothing that could end a host's name in a URL, or begin a path.
fn host(text: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    let fits = text.len() <= 253 && text.chars().all(allowed);
    fits.then(|| text.to_owned())
}

/// What a URL beside it must agree with.
struct Login<'a> {
    username: Option<&'a str>,
    password: Option<&'a str>,
}

struct Reader<'a> {
    files: &'a Files,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// A value that is UTF-8, not empty, and on one line.
    fn text(&mut self, name: &str) -> Option<String> {
        let bytes = self.bytes(name)?;
        let Ok(text) = String::from_utf8(bytes) else {
            self.refuse(name, "is not UTF-8; allowed is text");
            return None;
        };
        if text.is_empty() {
            self.refuse(name, "is empty; allowed is text, or no file");
            return None;
        }
        if text.ends_with('\n') {
            self.refuse(name, "ends in a newline; allowed is the value alone");
            return None;
        }
        if text.contains(char::is_control) {
            self.refuse(
                name,
                "holds a control character; allowed is text on one line",
            );
            return None;
        }
        Some(text)
    }

    fn take<T>(
        &mut self,
        name: &str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let value = read(&self.text(name)?);
        if value.is_none() {
            self.refuse(name, &format!("allowed is {allowed}"));
        }
        value
    }

    fn certificates(&mut self, name: &str) -> Option<Vec<u8>> {
        let bytes = self.bytes(name)?;
        if String::from_utf8_lossy(&bytes).contains("PRIVATE KEY") {
            self.refuse(name, "holds a private key; allowed are certificates alone");
            return None;
        }
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
        if found.map_or(0, |found| found.len()) == 0 {
            self.refuse(name, "allowed are certificates in PEM");
            return None;
        }
        Some(bytes)
    }

    /// A URL that names another login than the files beside it is half of another version.
    fn uri(&mut self, name: &str, kind: BindingKind, login: &Login<'_>) -> Option<Parts> {
        let text = self.text(name)?;
        let parts = match parts(kind, &text) {
            Ok(parts) => parts,
            Err(problem) => {
                self.refuse(name, &problem);
                return None;
            }
        };
        let user = parts.username.as_deref();
        let word = parts.password.as_ref().map(SecretString::expose_secret);
        let differs = |said: Option<&str>, file: Option<&str>| said.is_some() && said != file;
        let is_other = differs(user, login.username) || differs(word, login.password);
        if is_other && self.problems.is_empty() {
            self.refuse(
                name,
                "names another login than the files username and password",
            );
            return None;
        }
        Some(parts)
    }

    fn required<T>(&mut self, name: &str, value: Option<T>) -> Option<T> {
        if value.is_none() && !self.files.contents.contains_key(name) {
            self.refuse(name, "is missing");
        }
        value
    }

    fn bytes(&mut self, name: &str) -> Option<Vec<u8>> {
        match self.files.contents.get(name)? {
            Ok(bytes) => Some(bytes.clone()),
            Err(problem) => {
                self.refuse(name, &problem.clone());
                None
            }
        }
    }

    fn refuse(&mut self, name: &str, problem: &str) {
        self.problems
            .push(format!("{}: {problem}", self.files.name(name)));
    }

    fn refused(self) -> StartError {
        match StartError::unless_empty(self.problems) {
            Err(error) => error,
            Ok(()) => StartError::new(format!("{}: unusable", self.files.folder.display())),
        }
    }
}
