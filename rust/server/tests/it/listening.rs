//! Addresses that outlive the servers and standbys that take turns there.

#![cfg(test)]

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delaymq_core::wire::extension::PING;
use delaymq_core::wire::extension::errors::ErrorCode;
use delaymq_engine::{Durability, Store};
use delaymq_server::{Listening, Server, ServerError, Standby};

use crate::support::group::{Group, end, listening, opened, pinged};
use crate::support::{Client, PATIENCE, eventually, is_closed, metric_at, options, page, store_options};

const ROUNDS: usize = 20;

struct Turns {
    listening: Listening,
    store: Arc<Store>,
    _folder: tempfile::TempDir,
}

fn turns() -> Turns {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), store_options(Durability::Os), &mut |_| {}).unwrap();
    Turns { listening: listening(options()), store, _folder: folder }
}

impl Turns {
    fn server(&self) -> Server {
        Server::start_on(&self.listening, Arc::clone(&self.store), Some(Arc::new(Group::default()))).unwrap()
    }

    fn standby(&self) -> Standby {
        Standby::start(&self.listening, Arc::new(Group::default())).unwrap()
    }

    fn connect(&self) -> Client {
        Client::to(self.listening.address())
    }
}

fn end_server(server: &Server) {
    server.stop(Duration::ZERO);
    assert!(server.wait(PATIENCE).is_some());
}

#[test]
fn who_connects_between_two_roles_is_answered_by_the_next() {
    let turns = turns();
    // Nobody is there yet.
    let mut early = turns.connect();
    let server = turns.server();
    assert!(early.is_served());
    assert_eq!((server.address(), server.http_address()), (turns.listening.address(), turns.listening.http_address()));
    end_server(&server);
    assert!(is_closed(&early.socket));

    // The server is not dropped yet.
    let mut between = turns.connect();
    let standby = turns.standby();
    between.refused(PING, ErrorCode::NotPrimary, |_| Ok(()));
    assert!(is_closed(&between.socket));
    drop(server);
    end(&standby);
    let mut again = turns.connect();
    let server = turns.server();
    assert!(again.is_served());
    drop(standby);
    assert!(again.is_served(), "the end of the other changes nothing");
    let http = turns.listening.http_address().unwrap();
    assert_eq!(page(http, "GET /health").0, 200);
    end_server(&server);
}

#[test]
fn a_server_that_still_answers_leaves_new_connections_to_the_next() {
    let turns = turns();
    let server = turns.server();
    // It reads nothing, and more waits for it than the buffers of a socket take.
    let (mut producer, mut old) = (turns.connect(), turns.connect());
    for _ in 0..16 {
        producer.publish("order", &[&vec![7; 1 << 20]], 0);
    }
    old.subscribe(1, "order", "g", 1_000);
    let http = server.http_address().unwrap();
    eventually("a full socket", || metric_at(http, "sent_messages") > 8);
    server.stop(PATIENCE);
    assert!(is_closed(&producer.socket));
    let mut new = turns.connect();
    new.send(PING, 0, |_| Ok(()));
    assert_eq!(server.wait(Duration::from_millis(50)), None, "it still writes");
    end_server(&server);
    let _standby = turns.standby();
    let (_, code, _) = new.answer();
    assert_eq!(code, ErrorCode::NotPrimary.number());
}

#[test]
fn clients_that_connect_during_changes_are_never_refused() {
    let turns = turns();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let connecting = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                // It panics if the connection is refused. One that was accepted just before a change may be closed.
                turns.connect().is_answered();
                count += 1;
            }
            count
        });
        let library = opened_at_a_server(&turns);
        for _ in 0..ROUNDS {
            let standby = turns.standby();
            std::thread::sleep(Duration::from_millis(5));
            end(&standby);
            let server = turns.server();
            assert_eq!(
                pinged(&library).unwrap().body,
                b"ping".to_vec(),
                "a client of the library waits for the server"
            );
            end_server(&server);
        }
        is_over.store(true, Ordering::Relaxed);
        let _server = turns.server();
        assert!(connecting.join().unwrap() > ROUNDS);
        library.end();
    });
}

/// A client of the library is opened by a server, and meets standbys later.
fn opened_at_a_server(turns: &Turns) -> delaymq_client::transport::Connection {
    let server = turns.server();
    let library = opened(&[turns.listening.address()], b"").unwrap();
    end_server(&server);
    library
}

#[test]
fn an_address_is_given_up_with_the_last_that_listens() {
    let turns = turns();
    let (address, server) = (turns.listening.address(), turns.server());
    let is_taken = |listening: Option<Listening>| {
        drop(listening);
        TcpListener::bind(address).is_err()
    };
    assert!(is_taken(None));
    end_server(&server);
    assert!(is_taken(None), "the addresses outlive the server");
    assert!(!is_taken(Some(turns.listening)));
}

#[test]
fn an_address_where_another_process_listens_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = delaymq_server::ServerOptions { listen: taken.local_addr().unwrap(), ..options() };
    let refused = delaymq_server::Places::take(options).and_then(delaymq_server::Places::listen).err();
    assert!(matches!(refused, Some(ServerError::Listen { address, .. }) if address == taken.local_addr().unwrap()));
}
