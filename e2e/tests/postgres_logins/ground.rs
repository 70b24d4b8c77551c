//! A server with an admin who may make roles and databases and nothing else, and services on it.

use leasehold_e2e::error::Result;
use leasehold_e2e::servers::Postgres;
use leasehold_operator::backend::postgres::{Admin, Endpoint, Server, Tls, TlsMode, Wants};
use leasehold_operator::backend::{BackendError, LoginState, Removal, Slot, Subject, Verifier};
use leasehold_operator::credential::names::Names;
use secrecy::{ExposeSecret as _, SecretString};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// The admin. Its name needs quotes.
pub(crate) const ADMIN: &str = "Keeper of logins";

/// A machine that compiles meanwhile is slow.
pub(crate) const PATIENCE: u32 = 6;

pub(crate) struct Ground {
    pub(crate) server: Postgres,
    pub(crate) admin: Admin,
}

/// A password and its verifier, as they stand in a Secret.
pub(crate) struct Pair {
    pub(crate) password: SecretString,
    pub(crate) verifier: Verifier,
}

impl Ground {
    pub(crate) async fn start() -> Result<Self> {
        let server = Postgres::start().await?;
        let admin = Admin {
            username: ADMIN.to_owned(),
            password: pair().password,
        };
        let ground = Self { server, admin };
        let password = ground.admin.password.expose_secret();
        let sql =
            format!("CREATE ROLE \"{ADMIN}\" LOGIN CREATEROLE CREATEDB PASSWORD '{password}'");
        ground.by_superuser(&sql).await?;
        Ok(ground)
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        let options: PgConnectOptions = self.server.url().parse().unwrap();
        Endpoint {
            host: "127.0.0.1".to_owned(),
            port: options.get_port(),
            database: "postgres".to_owned(),
            tls: Tls {
                mode: TlsMode::Disable,
                ca: None,
            },
            pooled: false,
        }
    }

    /// An operator's view of the server; each has a connection of its own.
    pub(crate) fn operator(&self) -> Server {
        Server::new(self.endpoint(), self.admin.clone()).patient(PATIENCE)
    }

    pub(crate) async fn superuser(&self, database: &str) -> Result<PgConnection> {
        let options: PgConnectOptions = self.server.url().parse()?;
        Ok(PgConnection::connect_with(&options.database(database)).await?)
    }

    /// What somebody does by hand.
    pub(crate) async fn by_superuser(&self, sql: &str) -> Result<()> {
        self.by_superuser_in("postgres", sql).await
    }

    pub(crate) async fn by_superuser_in(&self, database: &str, sql: &str) -> Result<()> {
        let mut client = self.superuser(database).await?;
        run(&mut client, sql).await?;
        Ok(client.close().await?)
    }

    /// Asks for one text.
    pub(crate) async fn ask(&self, sql: &str) -> Result<String> {
        let mut client = self.superuser("postgres").await?;
        let answer = sqlx::query_scalar(AssertSqlSafe(sql))
            .fetch_one(&mut client)
            .await?;
        client.close().await?;
        Ok(answer)
    }

    /// Logs in as a service does, to a database of choice.
    pub(crate) async fn client_in(
        &self,
        database: &str,
        login: &str,
        password: &SecretString,
    ) -> sqlx::Result<PgConnection> {
        let options: PgConnectOptions = self.server.url().parse()?;
        let options = options.username(login).password(password.expose_secret());
        PgConnection::connect_with(&options.database(database)).await
    }

    /// Logs in as a service does.
    pub(crate) async fn client(
        &self,
        subject: &Subject<Wants>,
        slot: Slot,
        pair: &Pair,
    ) -> sqlx::Result<PgConnection> {
        let database = subject.wants.database(&subject.names);
        self.client_in(&database, &subject.names.login(slot), &pair.password)
            .await
    }

    /// A service whose first login works, with its password.
    pub(crate) async fn service(
        &self,
        operator: &Server,
        name: &str,
    ) -> Result<(Subject<Wants>, Pair)> {
        let subject = subject(name);
        let pair = self.settle(operator, &subject).await?;
        Ok((subject, pair))
    }

    /// Makes all of a service, and its first login.
    pub(crate) async fn settle(&self, operator: &Server, subject: &Subject<Wants>) -> Result<Pair> {
        let pair = pair();
        operator.provision(subject).await?;
        operator.set_login(subject, 1, &pair.verifier).await?;
        operator.verify(subject, Slot::A, &pair.password).await?;
        Ok(pair)
    }
}

pub(crate) fn subject(name: &str) -> Subject<Wants> {
    Subject {
        names: Names {
            installation: "5e1f".to_owned(),
            namespace: "shop".to_owned(),
            namespace_uid: "0b1c".to_owned(),
            cluster_id: name.to_owned(),
            service: name.to_owned(),
        },
        wants: Wants::default(),
    }
}

pub(crate) fn pair() -> Pair {
    let password = format!("{:032x}", rand::random::<u128>());
    let verifier = postgres_protocol::password::scram_sha_256(password.as_bytes());
    Pair {
        password: password.into(),
        verifier: Verifier(verifier.into()),
    }
}

/// Removes all that it sees now.
pub(crate) async fn remove(
    operator: &Server,
    subject: &Subject<Wants>,
    with_shared: bool,
) -> std::result::Result<Removal, BackendError> {
    let sight = operator.sight(subject).await?;
    operator.remove(subject, with_shared, &sight).await
}

pub(crate) async fn run(client: &mut PgConnection, sql: &str) -> sqlx::Result<()> {
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(client)
        .await
        .map(drop)
}

pub(crate) async fn number(client: &mut PgConnection, sql: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(client)
        .await
}

pub(crate) async fn text(client: &mut PgConnection, sql: &str) -> sqlx::Result<String> {
    sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(client)
        .await
}

/// The code of an error that the server gave.
pub(crate) fn code<T>(outcome: sqlx::Result<T>) -> String {
    match outcome {
        Ok(_) => "none".to_owned(),
        Err(error) => error
            .as_database_error()
            .and_then(|error| error.code().map(std::borrow::Cow::into_owned))
            .unwrap_or_else(|| error.to_string()),
    }
}

pub(crate) fn error<T>(outcome: std::result::Result<T, BackendError>) -> BackendError {
    match outcome {
        Ok(_) => panic!("it was done"),
        Err(error) => error,
    }
}

/// Generation, shape and sessions of a login that must be ours.
pub(crate) fn ours(state: &LoginState) -> (u64, bool, u64) {
    match state {
        LoginState::Ours {
            generation,
            is_in_shape,
            sessions,
            ..
        } => (*generation, *is_in_shape, *sessions),
        other => panic!("{other:?}"),
    }
}
