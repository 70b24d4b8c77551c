//! A pool in Postgres, whose login is made, replaced and dropped by plain SQL as the operator does.

use std::time::Instant;

use leasehold::binding::Binding;
use leasehold_e2e::error::Result;
use leasehold_e2e::servers::Postgres;
use leasehold_e2e::wait;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::load::{Files, Load, Login, RETIRED_MAX, ROTATIONS, port};

/// The superuser, and what it sees of logins.
struct Admin(PgConnection);

impl Admin {
    async fn of(server: &Postgres) -> Result<Self> {
        let mut admin = Self(PgConnection::connect(server.url()).await?);
        let shared = "CREATE ROLE orders NOLOGIN; CREATE SCHEMA AUTHORIZATION orders; \
             CREATE TABLE orders.served (login text, times bigint); \
             ALTER TABLE orders.served OWNER TO orders";
        for statement in shared.split("; ") {
            admin.run(statement.to_owned()).await?;
        }
        Ok(admin)
    }

    async fn run(&mut self, statement: String) -> Result<()> {
        let statement = sqlx::query(AssertSqlSafe(statement));
        statement.execute(&mut self.0).await?;
        Ok(())
    }

    async fn make(&mut self, login: &Login) -> Result<()> {
        let (name, password) = (login.name, &login.password);
        self.run(format!("CREATE ROLE {name} LOGIN PASSWORD '{password}'"))
            .await?;
        self.run(format!("GRANT orders TO {name}")).await?;
        self.run(format!("ALTER ROLE {name} SET role = orders"))
            .await
    }

    async fn sessions(&mut self, name: &str) -> Result<i64> {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
        let count = sqlx::query_scalar(count).bind(name);
        Ok(count.fetch_one(&mut self.0).await?)
    }

    /// Returns when the login has no session any more.
    async fn until_unused(&mut self, name: &str) -> Result<()> {
        let begun = Instant::now();
        while self.sessions(name).await? > 0 {
            let sessions = self.sessions(name).await?;
            let lasted = begun.elapsed();
            assert!(lasted < RETIRED_MAX, "{sessions} sessions of {name}");
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

fn files(login: &Login, server: &Postgres) -> Result<Files> {
    let (name, password, port) = (login.name, &login.password, port(server.url())?);
    let uri = format!("postgresql://{name}:{password}@127.0.0.1:{port}/postgres");
    let rest = [
        ("database", "postgres"),
        ("uri", &uri),
        ("sslmode", "disable"),
    ];
    Ok(login.files("postgresql", port, &rest))
}

async fn request(pool: PgPool) -> Result<()> {
    let mut transaction = pool.begin().await?;
    sqlx::query("INSERT INTO served SELECT session_user, 1")
        .execute(&mut *transaction)
        .await?;
    let seen: i64 = sqlx::query_scalar("SELECT count(*) FROM (SELECT FROM served LIMIT 1) one")
        .fetch_one(&mut *transaction)
        .await?;
    assert_eq!(seen, 1);
    transaction.commit().await?;
    Ok(())
}

/// A request that lasts longer than it takes to notice a change.
async fn long_request(pool: PgPool) -> Result<()> {
    let mut transaction = pool.begin().await?;
    for statement in [
        "SELECT pg_sleep(1.5)",
        "INSERT INTO served VALUES ('long', 1)",
    ] {
        sqlx::query(statement).execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// As many tasks as make every connection busy, and two that hold theirs for long.
fn load_on(pool: &PgPool) -> Load {
    let load = Load::default();
    for _ in 0..6 {
        let pool = pool.clone();
        load.add(move || request(pool.clone()));
    }
    for _ in 0..2 {
        let pool = pool.clone();
        load.add(move || long_request(pool.clone()));
    }
    load
}

fn options() -> PgPoolOptions {
    PgPoolOptions::new().max_connections(6).min_connections(2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_and_no_session_stays_while_the_login_changes() -> Result<()> {
    let server = Postgres::start().await?;
    let mut admin = Admin::of(&server).await?;
    let folder = tempfile::tempdir()?;
    let mut old = Login::of_generation(0);
    admin.make(&old).await?;
    let mut mount = files(&old, &server)?.mount(folder.path())?;
    let pool = Binding::folder(mount.path())
        .await?
        .postgres_pool(options())?;
    let load = load_on(&pool);
    let mut longest = std::time::Duration::ZERO;
    for generation in 1..=ROTATIONS {
        let next = Login::of_generation(generation);
        admin.make(&next).await?;
        load.until_more(50).await?;
        assert!(admin.sessions(old.name).await? > 0);
        let begun = Instant::now();
        files(&next, &server)?.put(&mut mount)?;
        admin.until_unused(old.name).await?;
        longest = longest.max(begun.elapsed());
        admin.run(format!("DROP ROLE {}", old.name)).await?;
        old = next;
    }
    load.until_more(50).await?;
    load.end();
    let (done, failed) = (load.done(), load.failed());
    println!("{ROTATIONS} rotations, {done} requests, longest until unused {longest:?}");
    assert_eq!(failed, Vec::<String>::new());
    pool.close().await;
    Ok(())
}

/// The positive control of retiring: without it nothing ends the old sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_retiring_a_session_of_the_old_login_stays() -> Result<()> {
    let server = Postgres::start().await?;
    let mut admin = Admin::of(&server).await?;
    let folder = tempfile::tempdir()?;
    let (old, next) = (Login::of_generation(0), Login::of_generation(1));
    admin.make(&old).await?;
    admin.make(&next).await?;
    let mut mount = files(&old, &server)?.mount(folder.path())?;
    let binding = Binding::folder(mount.path()).await?.retiring(false);
    let pool = binding.postgres_pool(options())?;
    let load = load_on(&pool);
    load.until_more(50).await?;
    let before = admin.sessions(old.name).await?;
    files(&next, &server)?.put(&mut mount)?;
    let gone_over = || async { Ok(pool.connect_options().get_username() == next.name) };
    wait::until_true("the pool to go over", RETIRED_MAX, gone_over).await?;
    load.until_more(2000).await?;
    assert!(before > 0);
    assert_eq!(admin.sessions(old.name).await?, before);
    load.end();
    pool.close().await;
    Ok(())
}

/// The positive control of reloading: who cannot reload fails once the old login is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_reloading_requests_fail_once_the_old_login_is_gone() -> Result<()> {
    let server = Postgres::start().await?;
    let mut admin = Admin::of(&server).await?;
    let folder = tempfile::tempdir()?;
    let (old, next) = (Login::of_generation(0), Login::of_generation(1));
    admin.make(&old).await?;
    admin.make(&next).await?;
    let mut mount = files(&old, &server)?.mount(folder.path())?;
    let binding = Binding::folder(mount.path()).await?;
    let reloading = binding.postgres_pool(options())?;
    let fixed = options().connect_lazy_with((*reloading.connect_options()).clone());
    let load = load_on(&fixed);
    load.until_more(50).await?;
    files(&next, &server)?.put(&mut mount)?;
    let gone_over = || async { Ok(reloading.connect_options().get_username() == next.name) };
    wait::until_true("the other pool to go over", RETIRED_MAX, gone_over).await?;
    admin.run(format!("DROP ROLE {}", old.name)).await?;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = 'postgres' AND pid <> pg_backend_pid()";
    admin.run(end.to_owned()).await?;
    load.until_failed().await?;
    request(reloading.clone()).await?;
    load.end();
    Ok(())
}

/// What a Secret holds that was edited by hand does no harm, and no log repeats it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_wrong_leaves_the_login_before_in_use() -> Result<()> {
    let server = Postgres::start().await?;
    let mut admin = Admin::of(&server).await?;
    let folder = tempfile::tempdir()?;
    let (old, next) = (Login::of_generation(0), Login::of_generation(1));
    admin.make(&old).await?;
    let mut mount = files(&old, &server)?.mount(folder.path())?;
    let binding = Binding::folder(mount.path()).await?;
    let pool = binding.postgres_pool(options())?;
    let load = load_on(&pool);
    let mut news = binding.watch();
    files(&next, &server)?.put(&mut mount)?; // nobody has made it
    news.changed().await?;
    load.until_more(500).await?;
    assert_eq!(pool.connect_options().get_username(), old.name);
    admin.make(&next).await?;
    admin.until_unused(old.name).await?;
    load.end();
    assert_eq!(load.failed(), Vec::<String>::new());
    pool.close().await;
    Ok(())
}
