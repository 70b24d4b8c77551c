//! Who the tests log in, and how.

use leasehold_e2e::error::{Error, Result};
use leasehold_e2e::servers::Redis;
use leasehold_operator::backend::redis::{
    Address, Admin, Endpoint, Profile, Server, Topology, Wants,
};
use leasehold_operator::backend::{LoginState, Slot, Subject};
use leasehold_operator::credential::names::Names;
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisError};
use secrecy::SecretString;

/// A service of the installation of these tests.
pub(crate) fn subject(name: &str, profile: Profile) -> Subject<Wants> {
    Subject {
        names: Names {
            installation: "5e1f".to_owned(),
            namespace: "demo".to_owned(),
            namespace_uid: "u-1".to_owned(),
            cluster_id: name.to_owned(),
            service: name.to_owned(),
        },
        wants: Wants { profile },
    }
}

/// `default` of that server.
pub(crate) fn admin(redis: &Redis) -> Admin {
    Admin {
        username: None,
        password: redis.password().into(),
    }
}

pub(crate) fn address(redis: &Redis) -> Address {
    Address::new("127.0.0.1", redis.port())
}

/// One node alone.
pub(crate) fn standalone(redis: &Redis) -> Result<Server> {
    let endpoint = Endpoint::new(Topology::Standalone, vec![address(redis)]);
    Ok(Server::new(endpoint, admin(redis))?)
}

/// A consumer: a connection under one of the users.
pub(crate) async fn log_in(
    redis: &Redis,
    subject: &Subject<Wants>,
    slot: Slot,
    password: &str,
) -> Result<MultiplexedConnection, RedisError> {
    let user = subject.names.login(slot);
    let url = format!("redis://{user}:{password}@127.0.0.1:{}/", redis.port());
    redis::Client::open(url)?
        .get_multiplexed_async_connection()
        .await
}

/// One command line; words are split at blanks.
pub(crate) async fn run<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    line: &str,
) -> Result<T, RedisError> {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    words.for_each(|word| {
        command.arg(word);
    });
    command.query_async(connection).await
}

/// The verifier of a password.
pub(crate) fn verifier(password: &str) -> leasehold_operator::backend::Verifier {
    leasehold_operator::backend::redis::verifier(&SecretString::from(password))
}

/// A user as one look shows it: is it in shape, and how many sessions has it.
pub(crate) async fn seen(
    server: &Server,
    subject: &Subject<Wants>,
    slot: Slot,
) -> Result<Option<(bool, u64)>> {
    let state = server.look(subject).await?;
    let index = usize::from(slot == Slot::B);
    match &state.logins[index] {
        LoginState::Absent => Ok(None),
        LoginState::Ours {
            is_in_shape,
            sessions,
            ..
        } => Ok(Some((*is_in_shape, *sessions))),
        LoginState::Foreign(owner) => Err(Error::new(format!("it belongs to {owner}"))),
    }
}
