//! Bad links on demand: a proxy in front of the API server whose faults are
//! switched while it runs. Every client gets a [`Link`], a port of its own, so
//! that one side of an election can suffer while the other does not.
//!
//! ```text
//!              ┌────────────────────────── Link ──────────────────────────┐
//!   client ──▶ │ wire: hold, black hole, half-open, cut                    │
//!              │   ├─ pass-through: the client's own TLS to the server ────┼──▶ API
//!              │   └─ http: TLS ends here; rules per request, counting ────┼──▶ server
//!              └───────────────────────────────────────────────────────────┘
//! ```

mod exchange;
pub mod malformed;
pub mod rules;
#[cfg(test)]
mod tests;
mod upstream;
mod wire;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::control_plane::{ControlPlane, certificates::write_private, kubeconfig};
use crate::error::{Result, Step};

use exchange::Exchanges;
pub use exchange::Seen;
pub use rules::{Action, RuleHandle, When};
use upstream::Upstream;
use wire::Wire;

/// Bytes that are under way inside an http link.
const PIPE_BYTES: usize = 64 * 1024;

/// Makes links to one server.
pub struct FaultProxy {
    upstream: Upstream,
    acceptor: Option<tokio_rustls::TlsAcceptor>,
}

impl FaultProxy {
    /// In front of a control plane's API server, with that server's own
    /// certificate: clients see no difference but the port.
    pub fn in_front_of(plane: &ControlPlane) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, plane.api_port()));
        let pki = plane.path().join("pki");
        Ok(Self {
            upstream: Upstream::with_tls(address, &plane.ca())?,
            acceptor: Some(upstream::acceptor(
                &pki.join("kube-apiserver.crt"),
                &pki.join("kube-apiserver.key"),
            )?),
        })
    }

    /// In front of a server without TLS.
    pub fn in_front_of_plain(address: SocketAddr) -> Self {
        Self {
            upstream: Upstream::plain(address),
            acceptor: None,
        }
    }

    /// A link that hands bytes through: the client's TLS and HTTP version
    /// reach the server as they are, and only faults of the wire are possible.
    pub async fn pass_through(&self) -> Result<Link> {
        self.link(None).await
    }

    /// A link that ends TLS, speaks HTTP/1.1 to both sides, knows every
    /// request, and takes [`When`] and [`Action`] rules.
    pub async fn http(&self) -> Result<Link> {
        let exchanges = Exchanges::new(self.upstream.clone(), self.acceptor.clone());
        self.link(Some(Arc::new(exchanges))).await
    }

    async fn link(&self, exchanges: Option<Arc<Exchanges>>) -> Result<Link> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.step(|| "opening a port for a link of the fault proxy")?;
        let address = listener.local_addr()?;
        let wire = Arc::new(Wire::default());
        let upstream = self.upstream.address();
        let accepting = tokio::spawn(accept(
            listener,
            Arc::clone(&wire),
            exchanges.clone(),
            upstream,
        ));
        Ok(Link {
            wire,
            exchanges,
            address,
            has_tls: self.acceptor.is_some(),
            accepting,
        })
    }
}

/// One client's way to the server. All connections end when it is dropped.
pub struct Link {
    wire: Arc<Wire>,
    exchanges: Option<Arc<Exchanges>>,
    address: SocketAddr,
    has_tls: bool,
    accepting: JoinHandle<()>,
}

impl Link {
    /// The URL under which the client reaches the server through this link.
    pub fn url(&self) -> String {
        let scheme = if self.has_tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// A copy of `kubeconfig` that goes through this link.
    pub fn kubeconfig(&self, kubeconfig: &Path, name: &str) -> Result<PathBuf> {
        let server = kubeconfig::server(kubeconfig)?;
        let text = std::fs::read_to_string(kubeconfig)
            .step(|| format!("reading kubeconfig {}", kubeconfig.display()))?;
        let path = kubeconfig.with_extension(format!("{name}.kubeconfig"));
        write_private(&path, &text.replace(&server, &self.url()))?;
        Ok(path)
    }

    /// Nothing passes, nothing is lost: it is delivered, late, after
    /// [`Link::let_go`].
    pub fn hold(&self) {
        self.wire.hold();
    }

    /// Ends [`Link::hold`] and [`Link::black_hole`]. Connections that a black
    /// hole swallowed stay silent; new ones work.
    pub fn let_go(&self) {
        self.wire.let_go();
    }

    /// All connections, also new ones, are accepted and swallow everything.
    /// They stay open.
    pub fn black_hole(&self) {
        self.wire.black_hole();
    }

    /// The present connections fall silent in both directions, for good and
    /// without an end the peer could see; new ones work.
    pub fn half_open(&self) {
        self.wire.half_open();
    }

    /// The present connections are closed.
    pub fn cut(&self) {
        self.wire.cut();
    }

    /// How many connections the client has opened so far.
    pub fn connections(&self) -> u64 {
        self.wire.opened()
    }

    /// From now on `action` is done to every request that `when` admits. Rules
    /// apply in the order in which they were made. Only an http link has them:
    /// on another, the rule never matches.
    pub fn rule(&self, when: When, action: Action) -> RuleHandle {
        match &self.exchanges {
            Some(exchanges) => exchanges.rules().add(when, action),
            None => rules::Rules::default().add(when, action),
        }
    }

    /// Every request so far, in the order of arrival; empty unless this is an
    /// http link.
    pub fn seen(&self) -> Vec<Seen> {
        self.exchanges
            .as_ref()
            .map_or_else(Vec::new, |exchanges| exchanges.seen())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Accepts until aborted; the connections end with it.
async fn accept(
    listener: TcpListener,
    wire: Arc<Wire>,
    exchanges: Option<Arc<Exchanges>>,
    upstream: SocketAddr,
) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Out of file descriptors, say; the next may do better.
            tokio::task::yield_now().await;
            continue;
        };
        let _ = client.set_nodelay(true);
        let connection = wire.admit();
        let exchanges = exchanges.clone();
        connections.spawn(async move {
            match exchanges {
                None => {
                    if let Ok(server) = TcpStream::connect(upstream).await {
                        let _ = server.set_nodelay(true);
                        connection.join(client, server).await;
                    }
                }
                Some(exchanges) => {
                    let (outside, inside) = tokio::io::duplex(PIPE_BYTES);
                    tokio::join!(connection.join(client, outside), exchanges.serve(inside));
                }
            }
        });
        while connections.try_join_next().is_some() {}
    }
}
