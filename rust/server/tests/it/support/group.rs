//! A group of copies, as far as servers and standbys see it: one store at most, and no copying.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delaymq_client::failure::Failure;
use delaymq_client::nodes::{Address, Nodes};
use delaymq_client::options::ClientOptions;
use delaymq_client::session::{Outcome, Request};
use delaymq_client::transport::{Connection, Slot, Waited, Waiter};
use delaymq_core::units::Epoch;
use delaymq_core::wire::extension::PING;
use delaymq_server::{ClusterPages, Listening, Places, Primary, ServerOptions, Standby};

use super::{PATIENCE, options};

/// The pages of a group, which note what is asked for.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) asked: Mutex<Vec<String>>,
}

impl Group {
    fn note(&self, text: String) -> Result<(), String> {
        let is_refused = text.ends_with("ff") || text.ends_with(" 99");
        self.asked.lock().unwrap().push(text);
        if is_refused { Err("the copy is behind".to_owned()) } else { Ok(()) }
    }
}

impl ClusterPages for Group {
    fn status(&self) -> String {
        "{\"role\": \"replica\"}".to_owned()
    }

    fn metrics(&self) -> String {
        "# HELP delaymq_copies Copies.\n# TYPE delaymq_copies gauge\ndelaymq_copies 3\n".to_owned()
    }

    fn switch_over(&self, node: &str) -> Result<(), String> {
        self.note(format!("switch over to {node}"))
    }

    fn add(&self, address: &str) -> Result<(), String> {
        self.note(format!("add {address}"))
    }

    fn remove(&self, node: &str, accepts_loss: bool) -> Result<(), String> {
        self.note(format!("remove, {accepts_loss}, {node}"))
    }

    fn set_min_copies(&self, min_copies: usize) -> Result<(), String> {
        self.note(format!("min_copies {min_copies}"))
    }

    fn promote(&self, node: &str) -> Result<(), String> {
        self.note(format!("promote {node}"))
    }

    fn confirm(&self, coordinator: u64) -> Result<(), String> {
        self.note(format!("confirm {coordinator}"))
    }
}

pub(crate) fn listening(options: ServerOptions) -> Listening {
    Places::take(options).unwrap().listen().unwrap()
}

/// A standby at a free address.
pub(crate) fn standby_with(options: ServerOptions) -> Standby {
    Standby::start(&listening(options), Arc::new(Group::default())).unwrap()
}

/// A standby at a free address that knows this primary.
pub(crate) fn standby_of(primary: SocketAddr) -> Standby {
    let standby = standby_with(options());
    standby.set_primary(Some(primary_at(primary)));
    standby
}

pub(crate) fn primary_at(address: SocketAddr) -> Primary {
    Primary { address: address.to_string(), epoch: Epoch(7) }
}

/// Ends a standby, which closes all of its connections.
pub(crate) fn end(standby: &Standby) {
    standby.stop(Duration::ZERO);
    assert!(standby.wait(PATIENCE).is_some());
}

/// The client library, which knows these nodes.
pub(crate) fn opened(nodes: &[SocketAddr], token: &[u8]) -> Result<Connection, Failure> {
    let address = |node: &SocketAddr| Address {
        host: node.ip().to_string(),
        port: node.port(),
        shown: format!("delaymq://{node}"),
    };
    let others = nodes[1..].iter().map(address).collect();
    let options = ClientOptions {
        address: "delaymq://nodes".to_owned(),
        timeout: "20 s".to_owned(),
        client: "test".to_owned(),
        token: token.to_vec(),
        // A primary is awaited for as long.
        hello_ms: 3_000,
        ping_ms: 20_000,
        silence_ms: 20_000,
        again_ms: 250,
    };
    let slot = Slot::new();
    let waiter = Waiter::Thread(Arc::clone(&slot));
    let nodes = Nodes::new(address(&nodes[0]), others);
    let connection = Connection::open(nodes, options, waiter, false, Box::new(|_| {})).unwrap();
    assert_eq!(connection.wait(&slot, PATIENCE), Waited::Ready);
    slot.take().unwrap().map(|_| connection)
}

/// The answer to a ping.
pub(crate) fn pinged(connection: &Connection) -> Outcome {
    let slot = Slot::new();
    let request = Request { retry: true, ..Request::new(PING, b"ping".to_vec()).reading() };
    let waiter = Waiter::Thread(Arc::clone(&slot));
    connection.with(|session, now_ms| session.ask(request, waiter, now_ms))?;
    assert_eq!(connection.wait(&slot, PATIENCE), Waited::Ready);
    slot.take().unwrap()
}
