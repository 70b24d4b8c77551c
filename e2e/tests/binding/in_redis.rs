//! A connection to Redis, whose user is made, replaced and deleted as the operator does.

use std::time::{Duration, Instant};

use leasehold::binding::{Binding, RedisConnection};
use leasehold_e2e::error::Result;
use leasehold_e2e::servers::Redis;
use leasehold_e2e::wait;
use redis::aio::{
    ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection,
};
use redis::{ErrorKind, RedisError};

use crate::load::{Files, Load, Login, RETIRED_MAX, ROTATIONS, port};

/// The `default` user, and what it sees of others.
struct Admin(MultiplexedConnection);

impl Admin {
    async fn of(server: &Redis) -> Result<Self> {
        let client = redis::Client::open(server.url())?;
        Ok(Self(client.get_multiplexed_async_connection().await?))
    }

    async fn make(&mut self, login: &Login) -> Result<()> {
        let mut command = redis::cmd("ACL");
        command
            .arg("SETUSER")
            .arg(login.name)
            .arg("reset")
            .arg("on");
        command.arg(format!(">{}", login.password));
        command.arg("~orders:*").arg("+@all").arg("-@dangerous");
        Ok(command.exec_async(&mut self.0).await?)
    }

    async fn sessions(&mut self, name: &str) -> Result<usize> {
        let list: String = redis::cmd("CLIENT")
            .arg("LIST")
            .query_async(&mut self.0)
            .await?;
        let field = format!(" user={name} ");
        Ok(list.lines().filter(|line| line.contains(&field)).count())
    }

    async fn until_unused(&mut self, name: &str) -> Result<()> {
        let begun = Instant::now();
        while self.sessions(name).await? > 0 {
            assert!(begun.elapsed() < RETIRED_MAX, "sessions of {name}");
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn delete(&mut self, name: &str) -> Result<()> {
        let mut command = redis::cmd("ACL");
        command.arg("DELUSER").arg(name);
        Ok(command.exec_async(&mut self.0).await?)
    }
}

fn files(login: &Login, server: &Redis) -> Result<Files> {
    let (name, password, port) = (login.name, &login.password, port(server.url())?);
    let uri = format!("redis://{name}:{password}@127.0.0.1:{port}/0");
    let rest = [("key-prefix", "orders:"), ("uri", &uri)];
    Ok(login.files("redis", port, &rest))
}

fn config() -> ConnectionManagerConfig {
    let patient = Some(Duration::from_secs(20));
    let config = ConnectionManagerConfig::new().set_connection_timeout(patient);
    config.set_response_timeout(patient)
}

async fn count(mut connection: impl ConnectionLike) -> Result<(), RedisError> {
    let mut both = redis::pipe();
    both.atomic().incr("orders:a", 1).incr("orders:b", 1);
    both.exec_async(&mut connection).await?;
    let mut incr = redis::cmd("INCR");
    incr.arg("orders:c").exec_async(&mut connection).await
}

fn load_on<C: ConnectionLike + Clone + Send + Sync + 'static>(connection: &C) -> Load {
    let load = Load::default();
    for _ in 0..8 {
        let connection = connection.clone();
        load.add(move || {
            let counted = count(connection.clone());
            async move { Ok(counted.await?) }
        });
    }
    load
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_and_no_session_stays_while_the_user_changes() -> Result<()> {
    let server = Redis::start().await?;
    let mut admin = Admin::of(&server).await?;
    let folder = tempfile::tempdir()?;
    let mut old = Login::of_generation(0);
    admin.make(&old).await?;
    let mut mount = files(&old, &server)?.mount(folder.path())?;
    let binding = Binding::folder(mount.path()).await?;
    assert_eq!(binding.current().key_prefix(), Some("orders:"));
    let connection = binding.redis(config())?;
    let load = load_on(&connection);
    let mut longest = Duration::ZERO;
    for generation in 1..=ROTATIONS {
        let next = Login::of_generation(generation);
        admin.make(&next).await?;
        load.until_more(200).await?;
        assert!(admin.sessions(old.name).await? > 0);
        let begun = Instant::now();
        files(&next, &server)?.put(&mut mount)?;
        admin.until_unused(old.name).await?;
        longest = longest.max(begun.elapsed());
        admin.delete(old.name).await?;
        old = next;
    }
    load.until_more(200).await?;
    load.end();
    let (done, failed) = (load.done(), load.failed());
    println!("{ROTATIONS} rotations, {done} requests, longest until unused {longest:?}");
    assert_eq!(failed, Vec::<String>::new());
    Ok(())
}

/// The positive control: a connection that cannot reload keeps its session, and fails without its
/// user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_reloading_the_session_stays_and_fails_once_its_user_is_gone() -> Result<()> {
    let server = Redis::start().await?;
    let mut admin = Admin::of(&server).await?;
    let folder = tempfile::tempdir()?;
    let (old, next) = (Login::of_generation(0), Login::of_generation(1));
    admin.make(&old).await?;
    admin.make(&next).await?;
    let mut mount = files(&old, &server)?.mount(folder.path())?;
    let reloading = Binding::folder(mount.path()).await?.redis(config())?;
    count(reloading.clone()).await?;
    let fixed = fixed(&old, &server).await?;
    let load = load_on(&fixed);
    load.until_more(200).await?;
    assert_eq!(admin.sessions(old.name).await?, 2);
    files(&next, &server)?.put(&mut mount)?;
    let look = async || Ok(Admin::of(&server).await?.sessions(next.name).await? == 1);
    wait::until_true("the other connection to go over", RETIRED_MAX, look).await?;
    load.until_more(2000).await?;
    assert_eq!(admin.sessions(old.name).await?, 1);
    assert_eq!(load.failed(), Vec::<String>::new());
    admin.delete(old.name).await?;
    load.until_failed().await?;
    count(reloading).await?;
    load.end();
    Ok(())
}

async fn fixed(login: &Login, server: &Redis) -> Result<ConnectionManager> {
    let (name, password, port) = (login.name, &login.password, port(server.url())?);
    let url = format!("redis://{name}:{password}@127.0.0.1:{port}/0");
    let client = redis::Client::open(url)?;
    let config = config().set_number_of_retries(0);
    Ok(ConnectionManager::new_with_config(client, config).await?)
}

async fn until_counted(connection: &RedisConnection) -> Result<()> {
    let look = || async { Ok(count(connection.clone()).await.is_ok()) };
    wait::until_true("an answer", RETIRED_MAX, look).await
}

/// A Redis that restarts has forgotten its users, until somebody makes them again. The positive
/// control is redis-rs alone, which gives up its connection for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_was_forgotten_and_made_again_is_used_again() -> Result<()> {
    let server = Redis::start().await?;
    let mut admin = Admin::of(&server).await?;
    let folder = tempfile::tempdir()?;
    let login = Login::of_generation(0);
    admin.make(&login).await?;
    let mount = files(&login, &server)?.mount(folder.path())?;
    let ours = Binding::folder(mount.path()).await?.redis(config())?;
    let theirs = fixed(&login, &server).await?;
    count(ours.clone()).await?;
    count(theirs.clone()).await?;
    server.restart().await?;
    let refused = |error: &RedisError| error.kind() == ErrorKind::AuthenticationFailed;
    let look = || async {
        let theirs = count(theirs.clone()).await;
        Ok(theirs.is_err_and(|error| refused(&error)))
    };
    wait::until_true("redis-rs to be refused", RETIRED_MAX, look).await?;
    let look = || async {
        let ours = count(ours.clone()).await;
        Ok(ours.is_err_and(|error| refused(&error)))
    };
    wait::until_true("ours to be refused", RETIRED_MAX, look).await?;
    Admin::of(&server).await?.make(&login).await?;
    until_counted(&ours).await?;
    let theirs = count(theirs).await.unwrap_err();
    assert!(refused(&theirs), "{theirs}");
    Ok(())
}
