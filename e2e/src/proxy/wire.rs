//! Faults of the wire: bytes that come late, get lost, or fall silent, while
//! both ends believe that the connection stands.

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// The switches of one link.
#[derive(Default)]
pub(super) struct Wire {
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    flow: Flow,
    /// Connections are numbered from 1.
    newest: u64,
    /// Connections up to this one are silent for good.
    silent_to: u64,
    /// Connections up to this one are closed.
    cut_to: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Flow {
    #[default]
    Open,
    Held,
    BlackHole,
}

impl Wire {
    pub(super) fn hold(&self) {
        self.state.send_modify(|state| state.flow = Flow::Held);
    }

    pub(super) fn let_go(&self) {
        self.state.send_modify(|state| state.flow = Flow::Open);
    }

    pub(super) fn black_hole(&self) {
        self.state.send_modify(|state| {
            state.flow = Flow::BlackHole;
            state.silent_to = state.newest;
        });
    }

    pub(super) fn half_open(&self) {
        self.state
            .send_modify(|state| state.silent_to = state.newest);
    }

    pub(super) fn cut(&self) {
        self.state.send_modify(|state| state.cut_to = state.newest);
    }

    pub(super) fn opened(&self) -> u64 {
        self.state.borrow().newest
    }

    /// Numbers a new connection.
    pub(super) fn admit(&self) -> Connection {
        let mut number = 0;
        self.state.send_modify(|state| {
            state.newest += 1;
            number = state.newest;
            if state.flow == Flow::BlackHole {
                state.silent_to = number;
            }
        });
        Connection {
            number,
            state: self.state.subscribe(),
        }
    }
}

/// One connection of a link.
#[derive(Clone)]
pub(super) struct Connection {
    number: u64,
    state: watch::Receiver<State>,
}

impl Connection {
    /// Hands bytes on in both directions until both ends are done or it is cut.
    pub(super) async fn join(
        self,
        client: TcpStream,
        server: impl AsyncRead + AsyncWrite + Send + 'static,
    ) {
        let (client_out, client_in) = client.into_split();
        let (server_out, server_in) = tokio::io::split(server);
        let up = self.clone().pump(client_out, server_in);
        let down = self.clone().pump(server_out, client_in);
        let both = async { tokio::join!(up, down) };
        tokio::select! {
            _ = both => {}
            () = self.until_cut() => {}
        }
    }

    async fn pump(mut self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            // An error of one side is an end to the other.
            let count = from.read(&mut buffer).await.unwrap_or(0);
            self.passable().await;
            if count == 0 {
                let _ = to.shutdown().await;
                return;
            }
            if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }

    /// Returns when bytes may pass; never, once the connection is silent.
    async fn passable(&mut self) {
        let number = self.number;
        let passable = |state: &State| state.flow == Flow::Open && number > state.silent_to;
        if self.state.wait_for(passable).await.is_err() {
            // The link is gone; its connections are about to be ended.
            std::future::pending::<()>().await;
        }
    }

    async fn until_cut(mut self) {
        let number = self.number;
        let _ = self.state.wait_for(|state| number <= state.cut_to).await;
    }
}
