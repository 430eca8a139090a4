//! The addresses of a server: taken, and then listened on.

use std::io;
use std::net::{SocketAddr, TcpListener};

use delaymq_core::wire::qmq::registry::RegistryOptions;
use socket2::{Domain, Socket, Type};

use crate::access::control;
use crate::options::{ServerError, ServerOptions};

/// Connections that may wait to be accepted: all clients come at once when a server is back.
const BACKLOG: i32 = 1_024;

/// The addresses of a server that has no store yet. They are taken, and nothing listens there.
pub struct Places {
    options: ServerOptions,
    socket: Socket,
    http: Option<Socket>,
}

impl Places {
    /// Takes the addresses, and checks the options as far as possible without a store.
    ///
    /// # Errors
    /// `Listen` if it cannot listen on an address; `Store` with `InvalidArgument` naming `server.token_hash` or
    /// `server.advertised_address` if one is needed, or `advertised_address`.
    pub fn take(options: ServerOptions) -> Result<Self, ServerError> {
        control::check(&options)?;
        if let Some(advertised) = &options.advertised_address {
            RegistryOptions::new(advertised)?;
        }
        let socket = bound(options.listen)?;
        let http = options.http.map(bound).transpose()?;
        Ok(Self { options, socket, http })
    }

    /// Listens on the addresses.
    ///
    /// # Errors
    /// `Listen` if another process listens there by now.
    pub fn listen(self) -> Result<Listening, ServerError> {
        let Self { options, socket, http } = self;
        let listener = listen(options.listen, socket)?;
        let http = options.http.zip(http).map(|(address, socket)| listen(address, socket)).transpose()?;
        Ok(Listening { options, listener, http })
    }
}

/// The addresses of a server, which are listened on. Servers and standbys take turns there: each has its own copies of
/// the sockets, so a port is never given up between them. A connection that comes meanwhile waits, and the next one
/// accepts it.
pub struct Listening {
    pub(crate) options: ServerOptions,
    listener: Listener,
    http: Option<Listener>,
}

/// A socket that listens, and its address.
type Listener = (TcpListener, SocketAddr);

impl Listening {
    /// The address for connections.
    pub const fn address(&self) -> SocketAddr {
        self.listener.1
    }

    /// The address for plain HTTP.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|(_, address)| *address)
    }

    /// The address that clients are told.
    pub(crate) fn advertised_address(&self) -> String {
        self.options.advertised_address.clone().unwrap_or_else(|| self.address().to_string())
    }

    /// Copies of the sockets, for one server or standby. Call it within its runtime.
    pub(crate) fn copies(&self) -> Result<Copies, ServerError> {
        let http = self.http.as_ref().map(copy).transpose()?;
        Ok(Copies { peers: copy(&self.listener)?, http })
    }
}

/// The sockets on which one server or standby accepts connections.
pub(crate) struct Copies {
    pub(crate) peers: tokio::net::TcpListener,
    pub(crate) http: Option<tokio::net::TcpListener>,
}

fn copy((listener, address): &Listener) -> Result<tokio::net::TcpListener, ServerError> {
    let copied = listener.try_clone().and_then(tokio::net::TcpListener::from_std);
    copied.map_err(|error| failed(*address, &error))
}

fn failed(address: SocketAddr, error: &io::Error) -> ServerError {
    ServerError::Listen { address, reason: error.to_string() }
}

/// A socket that has an address and does not listen.
fn bound(address: SocketAddr) -> Result<Socket, ServerError> {
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        // After a restart, connections of the last server may still be closing.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    };
    bind().map_err(|error| failed(address, &error))
}

fn listen(address: SocketAddr, socket: Socket) -> Result<Listener, ServerError> {
    let listens = || {
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listens().map_err(|error| failed(address, &error))
}
