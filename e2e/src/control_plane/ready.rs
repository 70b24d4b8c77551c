//! When a component serves, and what to say when it does not.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;

use super::kubeconfig;
use crate::error::Result;
use crate::process::Process;

/// Generous: a machine with two cores starts an API server in 3 s when idle, and
/// was seen to need half a minute for its bootstrap roles under load.
const START_MAX: Duration = Duration::from_mins(4);

/// Waits for etcd's own health check.
pub(super) async fn etcd(process: &Process, port: u16) -> Result<()> {
    wait_for(process, "etcd to be healthy", || async move {
        Ok(etcd_is_healthy(port))
    })
    .await
}

/// Waits for the API server's own readiness, which includes the bootstrap roles.
pub(super) async fn apiserver(process: &Process, admin: &Path) -> Result<()> {
    let client = kubeconfig::client(admin).await?;
    wait_for(process, "the API server to be ready", || {
        let client = client.clone();
        async move {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            Ok(client.request_text(request).await? == "ok")
        }
    })
    .await
}

/// Waits until the controllers have made the first service account.
pub(super) async fn default_account(controllers: &Process, admin: &Path) -> Result<()> {
    let accounts: Api<ServiceAccount> =
        Api::namespaced(kubeconfig::client(admin).await?, "default");
    wait_for(controllers, "the default service account", || {
        let accounts = accounts.clone();
        async move { Ok(accounts.get_opt("default").await?.is_some()) }
    })
    .await
}

async fn wait_for<P, F>(process: &Process, what: &str, holds: P) -> Result<()>
where
    P: FnMut() -> F,
    F: Future<Output = Result<bool>>,
{
    process.until_it_serves(what, START_MAX, holds).await
}

fn etcd_is_healthy(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(200))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.contains("\"health\":\"true\""))
}
