//! One node of a server: a connection of its own, kept while it works, with time-outs of ours.
//!
//! Nothing here follows the server elsewhere: an answer that names another node is an error.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue,
    IntoConnectionInfo as _, RedisConnectionInfo, RedisError, ServerErrorKind, TlsCertificates,
    aio::MultiplexedConnection,
};
use secrecy::{ExposeSecret, SecretString};

use super::{
    Admin, Persist, Tls,
    meaning::Catalog,
    topology::{Address, Facts},
};
use crate::{backend::BackendError, belief::record::shortened};

/// What a server says that asks for another password, or for none.
const LOGIN_REFUSED: [&str; 3] = ["NOAUTH", "WRONGPASS", "without any password configured"];

/// How nodes are contacted.
#[derive(Clone, Debug)]
pub(super) struct Dial {
    pub(super) admin: Admin,
    pub(super) tls: Option<Tls>,
    pub(super) connect_timeout: Duration,
    pub(super) answer_timeout: Duration,
}

impl Dial {
    /// A new connection, logged in as anybody.
    pub(super) async fn login(
        &self,
        address: &Address,
        who: &Admin,
    ) -> Result<MultiplexedConnection, BackendError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.answer_timeout));
        let dialled = async {
            let client = self.client(address)?;
            let dialled = client.get_multiplexed_async_connection_with_config(&config);
            let mut connection = dialled.await?;
            // By ourselves: the library would not say why a login was refused.
            let mut auth = redis::cmd("AUTH");
            auth.arg(&who.username).arg(who.password.expose_secret());
            if who.username.is_some() || !who.password.expose_secret().is_empty() {
                auth.query_async::<()>(&mut connection).await?;
            }
            Ok(connection)
        };
        // The library's own limit covers neither the name look-up nor a silent TLS handshake.
        let limit = self.connect_timeout + self.answer_timeout;
        match tokio::time::timeout(limit, dialled).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(self.sorted(address, who, "auth", &error)),
            Err(_elapsed) => Err(BackendError::Unreachable {
                server: address.to_string(),
                problem: format!("no connection within {} s", limit.as_secs()),
            }),
        }
    }

    fn client(&self, address: &Address) -> Result<Client, RedisError> {
        let (host, port) = (address.host.clone(), address.port);
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        let info = (host.as_str(), port).into_connection_info()?;
        let Some(tls) = &self.tls else {
            return Client::open(info.set_redis_settings(settings));
        };
        let secured = ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        };
        let info = info.set_addr(secured).set_redis_settings(settings);
        match &tls.ca {
            Some(ca) => {
                let certificates = TlsCertificates {
                    client_tls: None,
                    root_cert: Some(ca.clone().into_bytes()),
                };
                Client::build_with_tls(info, certificates)
            }
            None => Client::open(info),
        }
    }

    /// What an error means; `needs` is the command as a rule names it.
    pub(super) fn sorted(
        &self,
        address: &Address,
        who: &Admin,
        needs: &str,
        error: &RedisError,
    ) -> BackendError {
        let server = address.to_string();
        let login = who.name().to_owned();
        let problem = said(error, [&self.admin.password, &who.password]);
        let what = needs.replace('|', " ").to_ascii_uppercase();
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoPerm) => BackendError::NotAllowed {
                remedy: format!("ACL SETUSER {login} +{needs}"),
                server,
                login,
                what: format!("run {what}"),
            },
            _ if LOGIN_REFUSED.iter().any(|text| problem.contains(text)) => {
                BackendError::LoginRefused {
                    server,
                    login,
                    problem,
                }
            }
            ErrorKind::InvalidClientConfig => BackendError::Invalid {
                field: "tls",
                problem,
            },
            _ if is_broken(error) => BackendError::Unreachable { server, problem },
            _ => BackendError::Refused {
                server,
                what,
                problem,
            },
        }
    }
}

// The connection is of no use any more, or there never was one.
fn is_broken(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_timeout()
}

/// What an error says, without passwords that a false server could send back.
fn said<const N: usize>(error: &RedisError, passwords: [&SecretString; N]) -> String {
    let mut text = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ if error.is_timeout() => "no answer in time".to_owned(),
        _ => error.to_string(),
    };
    for password in passwords.map(ExposeSecret::expose_secret) {
        if !password.is_empty() {
            text = text.replace(password, "…");
        }
    }
    let printable = text
        .chars()
        .map(|one| if one.is_control() { ' ' } else { one });
    shortened(printable.collect::<String>().trim())
}

/// See the module.
pub(super) struct Node {
    pub(super) address: Address,
    who: Option<Admin>, // a Sentinel has its own
    link: tokio::sync::Mutex<Option<MultiplexedConnection>>,
    // Both belong to one start of the node, named by its run_id.
    catalog: Mutex<Option<(String, Arc<Catalog>)>>,
    saving: Mutex<Option<(String, Saved)>>,
}

/// How users outlive a restart of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// By `ACL SAVE`.
    ToAclFile,
    /// By `CONFIG REWRITE`.
    ToConfigFile,
    /// They do not, and need not as far as the class says.
    Nowhere,
    /// They should, but it fails.
    Failed(String),
}

impl Node {
    pub(super) fn new(address: Address, who: Option<Admin>) -> Self {
        Self {
            address,
            who,
            link: tokio::sync::Mutex::default(),
            catalog: Mutex::default(),
            saving: Mutex::default(),
        }
    }

    /// One command; `needs` names it as a rule does. A connection that broke since it was last used is
    /// replaced once: all that we ask may be asked twice.
    pub(super) async fn ask<T: FromRedisValue>(
        &self,
        dial: &Dial,
        needs: &str,
        arguments: &[&str],
    ) -> Result<T, BackendError> {
        let who = self.who.as_ref().unwrap_or(&dial.admin);
        let mut command = Cmd::new();
        needs.split('|').for_each(|word| {
            command.arg(word.to_ascii_uppercase());
        });
        command.arg(arguments);
        loop {
            let (mut link, is_used) = self.connected(dial, who).await?;
            match command.query_async(&mut link).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    if is_broken(&error) {
                        *self.link.lock().await = None;
                        if is_used && !error.is_timeout() {
                            continue;
                        }
                    }
                    return Err(dial.sorted(&self.address, who, needs, &error));
                }
            }
        }
    }

    async fn connected(
        &self,
        dial: &Dial,
        who: &Admin,
    ) -> Result<(MultiplexedConnection, bool), BackendError> {
        let mut link = self.link.lock().await;
        if let Some(link) = &*link {
            return Ok((link.clone(), true));
        }
        let fresh = dial.login(&self.address, who).await?;
        *link = Some(fresh.clone());
        Ok((fresh, false))
    }

    /// What it says of itself.
    pub(super) async fn facts(&self, dial: &Dial) -> Result<Facts, BackendError> {
        let text: String = self.ask(dial, "info", &["server", "replication"]).await?;
        Facts::from_info(&text).ok_or_else(|| BackendError::Refused {
            server: self.address.to_string(),
            what: "INFO".to_owned(),
            problem: "it does not answer like a Redis".to_owned(),
        })
    }

    /// Its commands by category.
    pub(super) async fn catalog(
        &self,
        dial: &Dial,
        run_id: &str,
    ) -> Result<Arc<Catalog>, BackendError> {
        if let Some((of, catalog)) = &*lock(&self.catalog)
            && of == run_id
        {
            return Ok(catalog.clone());
        }
        let names: Vec<String> = self.ask(dial, "acl|cat", &[]).await?;
        let mut categories = BTreeMap::new();
        for name in names {
            let commands: Vec<String> = self.ask(dial, "acl|cat", &[&name]).await?;
            categories.insert(name, commands);
        }
        let catalog = Arc::new(Catalog::new(categories));
        *lock(&self.catalog) = Some((run_id.to_owned(), catalog.clone()));
        Ok(catalog)
    }

    /// Writes its users where they outlive a restart, as far as `persist` permits. A failure is kept for
    /// the preflight and stops nothing: a restart is noticed and repaired anyway.
    pub(super) async fn save(&self, dial: &Dial, persist: Persist, facts: &Facts) -> Saved {
        let known = lock(&self.saving).clone();
        let known = known
            .filter(|(of, _)| *of == facts.run_id)
            .map(|(_, saved)| saved);
        let saved = match (persist, known) {
            (Persist::Never, _) | (_, Some(Saved::Nowhere)) => Saved::Nowhere,
            (Persist::Rewrite, Some(Saved::ToConfigFile)) => self.rewrite(dial, facts).await,
            _ => match self.ask::<()>(dial, "acl|save", &[]).await {
                Ok(()) => Saved::ToAclFile,
                Err(BackendError::Refused { problem, .. })
                    if problem.contains("not configured") =>
                {
                    if persist == Persist::Rewrite {
                        self.rewrite(dial, facts).await
                    } else {
                        Saved::Nowhere
                    }
                }
                Err(error) => Saved::Failed(error.to_string()),
            },
        };
        *lock(&self.saving) = Some((facts.run_id.clone(), saved.clone()));
        saved
    }

    /// The categories of its last start that was asked about.
    pub(super) async fn any_catalog(&self, dial: &Dial) -> Result<Arc<Catalog>, BackendError> {
        let known = lock(&self.catalog).clone();
        if let Some((_, catalog)) = known {
            return Ok(catalog);
        }
        let run_id = self.facts(dial).await?.run_id;
        self.catalog(dial, &run_id).await
    }

    /// What became of the last saving since it started, if there was one.
    pub(super) fn saved(&self, facts: &Facts) -> Option<Saved> {
        let saving = lock(&self.saving);
        let saving = saving.as_ref().filter(|(of, _)| *of == facts.run_id);
        saving.map(|(_, saved)| saved.clone())
    }

    async fn rewrite(&self, dial: &Dial, facts: &Facts) -> Saved {
        if !facts.has_config_file {
            return Saved::Nowhere;
        }
        match self.ask::<()>(dial, "config|rewrite", &[]).await {
            Ok(()) => Saved::ToConfigFile,
            Err(error) => Saved::Failed(error.to_string()),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_sends_the_password_back_does_not_get_it_into_an_error() {
        let password = SecretString::from("canary-7f");
        let error = redis::make_extension_error(
            "WRONGPASS".to_owned(),
            Some("for canary-7f\r\n x".to_owned()),
        );
        let text = said(&error, [&password, &SecretString::from("")]);
        assert_eq!(text, "WRONGPASS for …   x");
    }
}
