//! Plain HTTP: where clients find the server, how it is, what it counts.

use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use delaymq_core::wire::http::{HTTP_HEAD_BYTES_MAX, HttpRequest, put_http, read_http};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::hub::Hub;
use crate::metrics;
use crate::pool::Pool;

/// How long a request may take to arrive, and an answer to be read.
const PATIENCE: Duration = Duration::from_secs(10);
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
/// The type of Prometheus' text.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// An answer.
struct Page {
    status: u16,
    kind: &'static str,
    body: String,
}

fn text(status: u16, body: impl Into<String>) -> Page {
    Page { status, kind: TEXT, body: body.into() }
}

/// What `/onoffline` answers; none of its words needs to be escaped.
fn json(status: u16, code: i32, message: &str) -> Page {
    let body = format!("{{\"status\":{code},\"message\":\"{message}\",\"data\":null}}");
    Page { status, kind: JSON, body }
}

/// Answers the requests of one connection until it is over.
pub(crate) async fn answer(hub: &Rc<Hub>, socket: &TcpStream) -> io::Result<()> {
    let mut input = BytesMut::new();
    loop {
        let (page, taken, keeps_alive) = match read_http(&input) {
            Ok(None) => {
                if !within(fill(socket, &mut input)).await? {
                    return Ok(());
                }
                continue;
            }
            Ok(Some(request)) => (route(hub, &request).await, request.head_bytes, request.keeps_alive),
            Err(fault) => (text(fault.status(), "the request is refused\n"), 0, false),
        };
        let keeps_alive = keeps_alive && !hub.is_draining();
        let mut out = Vec::new();
        put_http(&mut out, page.status, page.kind, page.body.as_bytes(), keeps_alive);
        within(write(socket, &out)).await?;
        if !keeps_alive {
            return Ok(());
        }
        drop(input.split_to(taken));
    }
}

async fn within<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// False at the end of what the peer sends.
async fn fill(socket: &TcpStream, input: &mut BytesMut) -> io::Result<bool> {
    input.reserve(HTTP_HEAD_BYTES_MAX.saturating_sub(input.len()).max(1));
    loop {
        socket.readable().await?;
        match socket.try_read_buf(input) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => return other.map(|count| count > 0),
        }
    }
}

async fn write(socket: &TcpStream, mut out: &[u8]) -> io::Result<()> {
    while !out.is_empty() {
        socket.writable().await?;
        match socket.try_write(out) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => out = out.get(other?..).unwrap_or_default(),
        }
    }
    Ok(())
}

async fn route(hub: &Rc<Hub>, request: &HttpRequest<'_>) -> Page {
    let is_known = matches!(request.path, "/meta/address" | "/onoffline" | "/health" | "/ready" | "/metrics");
    if !is_known {
        return text(404, "there is nothing here\n");
    }
    if request.method != "GET" {
        return text(405, "only GET is answered\n");
    }
    match request.path {
        // Answered without the owner and without the disk, since clients wait for half a second.
        "/meta/address" => text(200, hub.registry.borrow().address()),
        "/onoffline" => on_offline(hub, request),
        "/ready" => ready(hub),
        "/metrics" => told(hub).await,
        _ => text(200, "the server runs\n"),
    }
}

fn ready(hub: &Hub) -> Page {
    if hub.is_draining() {
        return text(503, "the server is stopping\n");
    }
    match hub.store.check() {
        Ok(()) => text(200, "the server takes work\n"),
        Err(error) => text(503, format!("{error}\n")),
    }
}

fn on_offline(hub: &Hub, request: &HttpRequest<'_>) -> Page {
    let parameter = |name: &str| request.parameter(name).filter(|value| !value.is_empty());
    match parameter("operation").as_deref() {
        Some("query") => {}
        Some("update") => return json(403, -1, "consumers are switched by an administrator's token alone"),
        _ => return json(400, -1, "operation must be query or update"),
    }
    match (parameter("clientId"), parameter("subject"), parameter("consumerGroup")) {
        (Some(client_id), Some(subject), Some(group)) => {
            let is_off = hub.registry.borrow().is_switched_off(&client_id, &subject, &group);
            json(200, 0, if is_off { "OFF" } else { "ON" })
        }
        _ => json(400, -1, "clientId, subject and consumerGroup must be given"),
    }
}

async fn told(hub: &Rc<Hub>) -> Page {
    let Some(place) = hub.pool.place() else { return text(503, "too much is under way\n") };
    let store = std::sync::Arc::clone(&hub.store);
    match Pool::ask(place, move || store.status()).await {
        Some(Ok(status)) => Page { status: 200, kind: METRICS, body: metrics::text(hub, &status) },
        Some(Err(error)) => text(503, format!("{error}\n")),
        None => text(503, "the server failed while it counted\n"),
    }
}
