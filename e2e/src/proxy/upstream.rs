//! The side of the proxy that faces the server, and the keys of both sides.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::error::{Result, Step};

/// The server behind the proxy.
#[derive(Clone)]
pub(super) struct Upstream {
    address: SocketAddr,
    tls: Option<TlsConnector>,
}

impl Upstream {
    pub(super) fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }

    pub(super) fn with_tls(address: SocketAddr, ca: &Path) -> Result<Self> {
        choose_provider();
        let reading = || format!("reading {}", ca.display());
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca).step(reading)? {
            roots.add(certificate.step(reading)?).step(reading)?;
        }
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            address,
            tls: Some(TlsConnector::from(Arc::new(config))),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends one request over a connection of its own.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> io::Result<Response<Incoming>> {
        let tcp = TcpStream::connect(self.address).await?;
        tcp.set_nodelay(true)?;
        match &self.tls {
            None => send_over(tcp, request).await,
            Some(tls) => {
                let name = ServerName::IpAddress(self.address.ip().into());
                send_over(tls.connect(name, tcp).await?, request).await
            }
        }
    }
}

async fn send_over<S>(stream: S, request: Request<Full<Bytes>>) -> io::Result<Response<Incoming>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    // It ends with the exchange.
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(io::Error::other)
}

/// Ends the TLS of clients with the server's own certificate. Only HTTP/1.1 is
/// offered.
pub(super) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    choose_provider();
    let reading = || format!("reading {}", certificate.display());
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .step(reading)?
        .collect::<std::result::Result<_, _>>()
        .step(reading)?;
    let key = PrivateKeyDer::from_pem_file(key).step(|| format!("reading {}", key.display()))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .step(|| "preparing the TLS side of the fault proxy")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Where several providers are linked, rustls would refuse to choose; the
/// first call wins.
fn choose_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
