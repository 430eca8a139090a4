//! Requests of plain HTTP, and the pages of a server over a store: its address, its health, its metrics.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use delaymq_core::clock::report::HeldReport;
use delaymq_core::wire::http::{HTTP_HEAD_BYTES_MAX, HttpRequest, put_http, read_http};
use tokio::net::TcpStream;

use crate::blocking_pool::{Pool, Work};
use crate::connection::host::Host;
use crate::connection::sockets::{within, write};
use crate::http::cluster;
use crate::http::metrics;
use crate::http::on_offline::on_offline;
use crate::http::page::{Page, text};
use crate::server_state::ServerState;

/// Answers the requests of one connection until it is over.
pub(crate) async fn answer<H: Host>(host: &Rc<H>, socket: &TcpStream, address: IpAddr) -> io::Result<()> {
    let mut input = BytesMut::new();
    let patience = Duration::from_millis(host.options().http_ms_max);
    loop {
        if !within(patience, fill(socket, &mut input)).await? {
            return Ok(());
        }
        let (page, taken, keeps_alive) = match read_http(&input) {
            Ok(None) => continue,
            Ok(Some(request)) => (route(host, &request, address).await, request.head_bytes, request.keeps_alive),
            Err(fault) => (text(fault.status(), "the request is refused\n"), 0, false),
        };
        let keeps_alive = keeps_alive && !host.is_draining();
        let mut out = Vec::new();
        put_http(&mut out, page.status, page.kind, page.body.as_bytes(), keeps_alive);
        within(patience, write(socket, &out)).await?;
        if !keeps_alive {
            return Ok(());
        }
        drop(input.split_to(taken));
    }
}

/// Reads until the head is complete or malformed. Returns false if the peer sends no more.
async fn fill(socket: &TcpStream, input: &mut BytesMut) -> io::Result<bool> {
    while matches!(read_http(input), Ok(None)) {
        input.reserve(HTTP_HEAD_BYTES_MAX.saturating_sub(input.len()).max(1));
        socket.readable().await?;
        match socket.try_read_buf(input) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

async fn route<H: Host>(host: &Rc<H>, request: &HttpRequest<'_>, address: IpAddr) -> Page {
    let cluster = host.cluster();
    let of_cluster = cluster.and_then(|_| cluster::method(request.path));
    let is_known = matches!(request.path, "/meta/address" | "/onoffline" | "/health" | "/ready" | "/metrics");
    let Some(method) = of_cluster.or(is_known.then_some("GET")) else {
        return text(404, "there is nothing here\n");
    };
    if request.method != method {
        return text(405, format!("only {method} is answered\n"));
    }
    match (request.path, cluster) {
        ("/health", _) => text(200, "the server runs\n"),
        (_, Some(cluster)) if of_cluster.is_some() => {
            cluster::page(cluster, &host.entrance().access, request, address, host.now())
        }
        _ => Rc::clone(host).page(request, address).await,
    }
}

/// A page of a server over a store.
pub(crate) async fn page_of_store(state: &Rc<ServerState>, request: &HttpRequest<'_>, address: IpAddr) -> Page {
    match request.path {
        // Answered without the owner and without the disk, since clients wait half a second only.
        "/meta/address" => text(200, state.registry.borrow().address()),
        "/onoffline" => on_offline(state, request, address).await,
        "/ready" => ready(state),
        _ => metrics_page(state).await,
    }
}

fn ready(state: &ServerState) -> Page {
    if state.is_draining() {
        return text(503, "the server is stopping\n");
    }
    match state.store.check() {
        // Read without the owner and without the disk.
        Ok(()) => match state.store.clock() {
            Ok(clock) => text(200, ready_words(clock.held)),
            Err(error) => text(503, format!("{error}\n")),
        },
        Err(error) => text(503, format!("{error}\n")),
    }
}

/// A server that holds dispatch takes work, too: publishes go on.
fn ready_words(held: Option<HeldReport>) -> String {
    held.map_or_else(|| "the server takes work\n".to_owned(), |held| format!("the server takes work; {held}\n"))
}

async fn metrics_page(state: &Rc<ServerState>) -> Page {
    let Some(place) = state.pool.place() else { return text(503, "too much is under way\n") };
    let store = std::sync::Arc::clone(&state.store);
    match Pool::ask(place, Work::LookUp, move || store.status()).await {
        Some(Ok(status)) => metrics::page(metrics::text(state, &status), state.cluster.as_deref()),
        Some(Err(error)) => text(503, format!("{error}\n")),
        None => text(503, "the server failed while it counted\n"),
    }
}
