//! A node that is not the primary: the answers to its clients, and its limits.

#![cfg(test)]

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use delaymq_core::wire::extension::errors::{Attribute, ErrorCode, RemoteError, Value};
use delaymq_core::wire::extension::hello::Hello;
use delaymq_core::wire::extension::{EXTENSION_VERSION, HELLO, PING, STATUS};
use delaymq_core::wire::frame::{Header, put_frame};
use delaymq_core::wire::qmq::send::SEND;
use delaymq_engine::Durability;
use delaymq_server::{AccessOptions, Network, ServerOptions, Standby, Stopped, TokenHash};

use crate::support::group::{end, opened, pinged, primary_at, standby_of, standby_with};
use crate::support::{Client, PATIENCE, eventually, is_closed, options, page, serve, serve_with};

const TOKEN: &[u8] = b"the token";

fn guarded(from: &[&str]) -> ServerOptions {
    let networks = from.iter().map(|text| Network::parse("server.qmq_clients_from", text).unwrap());
    let access =
        AccessOptions { token: Some(TokenHash::of(TOKEN)), admin_token: None, qmq_clients_from: networks.collect() };
    ServerOptions { access, ..options() }
}

fn hello(token: &[u8]) -> impl FnOnce(&mut Vec<u8>) -> delaymq_core::error::Result<()> + '_ {
    move |out| Hello { version_min: 1, version_max: 1, client: "test", token }.put(out)
}

fn value_of(standby: &Standby, sample: &str) -> Option<u64> {
    let (status, text) = page(standby.http_address().unwrap(), "GET /metrics");
    assert_eq!(status, 200);
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|value| value.parse().unwrap())
}

fn address_of(error: &RemoteError) -> Option<&str> {
    match error.detail(Attribute::Address) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// The error that a fresh connection gets, which is then closed.
fn refused(
    address: SocketAddr,
    command: i16,
    fill: impl FnOnce(&mut Vec<u8>) -> delaymq_core::Result<()>,
) -> RemoteError {
    let mut client = Client::to(address);
    let (code, body) = client.ask(command, fill);
    assert!(is_closed(&client.socket));
    RemoteError::read(code, &body).unwrap()
}

#[test]
fn a_client_follows_a_standby_to_the_primary() {
    let served = serve();
    let standby = standby_of(served.server.address());
    let connection = opened(&[standby.address()], b"").unwrap();
    assert_eq!(pinged(&connection).unwrap().body, b"ping".to_vec());
    assert_eq!(connection.lost_count(), 1, "a client moves once");
    assert_eq!(value_of(&standby, "delaymq_failed_answers_total{code=\"1033\"}"), Some(1));
    eventually("the client has left", || value_of(&standby, "delaymq_connections") == Some(0));
    connection.end();
}

#[test]
fn a_standby_that_knows_no_primary_says_so_and_the_client_tries_the_other_nodes() {
    let (served, standby) = (serve(), standby_with(options()));
    let error = refused(standby.address(), HELLO, hello(b""));
    assert_eq!((error.code, address_of(&error)), (ErrorCode::NotPrimary, Some("")));
    assert_eq!(error.detail(Attribute::Epoch), None);
    let connection = opened(&[standby.address(), served.server.address()], b"").unwrap();
    assert_eq!(pinged(&connection).unwrap().body, b"ping".to_vec());
    connection.end();
    let failure = opened(&[standby.address()], b"").err().unwrap();
    assert_eq!(failure.not_primary(), Some(&error));
}

#[test]
fn every_first_request_is_refused_with_the_primary_that_is_known_then() {
    let standby = standby_with(options());
    let address = standby.address();
    for primary in ["192.0.2.1:20801", "db.example:1"] {
        let mut known = primary_at(address);
        primary.clone_into(&mut known.address);
        standby.set_primary(Some(known));
        for command in [HELLO, PING, STATUS, 299] {
            let error = refused(address, command, hello(b""));
            assert_eq!((error.code, address_of(&error)), (ErrorCode::NotPrimary, Some(primary)));
            assert_eq!(error.detail(Attribute::Epoch), Some(&Value::Number(7)));
        }
    }
    standby.set_primary(None);
    assert_eq!(address_of(&refused(address, PING, |_| Ok(()))), Some(""));
}

#[test]
fn a_stranger_learns_nothing_but_what_a_server_would_say() {
    let served = serve_with(guarded(&[]), Durability::Os);
    let standby = standby_with(guarded(&[]));
    standby.set_primary(Some(primary_at(served.server.address())));
    let (address, server) = (standby.address(), served.server.address());
    let of_server = |command, token| {
        let (code, body) = Client::to(server).ask(command, hello(token));
        RemoteError::read(code, &body).unwrap()
    };
    for (command, token) in [(PING, TOKEN), (STATUS, TOKEN), (299, TOKEN), (HELLO, &b""[..]), (HELLO, b"The token")] {
        let error = refused(address, command, hello(token));
        assert_eq!((error.code, &error), (ErrorCode::Unauthorized, &of_server(command, token)), "{command}");
    }
    let mut qmq = Client::to(address);
    qmq.send(SEND, 0, |_| Ok(()));
    assert!(is_closed(&qmq.socket));
    assert_eq!(value_of(&standby, "delaymq_turned_away_qmq_clients_total"), Some(1));
    assert_eq!(value_of(&standby, "delaymq_relays_total"), Some(0));

    let error = refused(address, HELLO, hello(TOKEN));
    let named = server.to_string();
    assert_eq!((error.code, address_of(&error)), (ErrorCode::NotPrimary, Some(named.as_str())));
    opened(&[address], TOKEN).unwrap().end();
    assert_eq!(opened(&[address], b"wrong").err().unwrap().not_primary(), None);
    for _ in 0..8 {
        refused(address, HELLO, hello(b"guess"));
    }
    assert_eq!(refused(address, HELLO, hello(TOKEN)).code, ErrorCode::Busy, "no token from there is checked");
    let (notices, _) = standby.notices();
    let words: Vec<_> = notices.iter().map(|one| (one.kind.word(), one.count)).collect();
    let expected = [("unauthorized", 3), ("wrong_token", 10), ("qmq_client_refused", 1)];
    assert_eq!(words[..3], expected, "{words:?}");
}

#[test]
fn connections_have_the_quotas_of_a_server() {
    let few = ServerOptions { connections_max: 3, strangers_max: 2, ..guarded(&["127.0.0.2"]) };
    let standby = standby_with(few);
    let connect = || {
        let socket = TcpStream::connect(standby.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let silent = [connect(), connect()];
    eventually("both are open", || value_of(&standby, "delaymq_connections") == Some(2));
    assert!(is_closed(&connect()));
    assert_eq!(value_of(&standby, "delaymq_refused_connections_total{limit=\"strangers\"}"), Some(1));
    drop(silent);
    eventually("they have left", || value_of(&standby, "delaymq_stranger_connections") == Some(0));
    assert_eq!(refused(standby.address(), HELLO, hello(TOKEN)).code, ErrorCode::NotPrimary);

    let few = ServerOptions { connections_max: 1, ..options() };
    let standby = standby_with(few);
    let first = TcpStream::connect(standby.address()).unwrap();
    eventually("it is open", || value_of(&standby, "delaymq_connections") == Some(1));
    let second = TcpStream::connect(standby.address()).unwrap();
    assert!(is_closed(&second));
    assert_eq!(value_of(&standby, "delaymq_refused_connections_total{limit=\"connections\"}"), Some(1));
    drop(first);
}

#[test]
fn slow_and_wrong_peers_are_cut_off_whatever_their_standing() {
    for mut limited in [options(), guarded(&[])] {
        limited.connection.first_request_ms_max = 200;
        let standby = standby_with(limited);
        let send = |bytes: &[u8]| {
            let mut socket = TcpStream::connect(standby.address()).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.write_all(bytes).unwrap();
            socket
        };
        let mut half = Vec::new();
        put_frame(&mut half, Header::request(HELLO, EXTENSION_VERSION, 1), hello(TOKEN)).unwrap();
        half.pop();
        let mut long = Vec::new();
        let fill = |out: &mut Vec<u8>| {
            out.resize((16 << 10) + 1, 0);
            Ok(())
        };
        put_frame(&mut long, Header::request(HELLO, EXTENSION_VERSION, 1), fill).unwrap();
        assert!(is_closed(&send(b"")) && is_closed(&send(&half)));
        assert_eq!(value_of(&standby, "delaymq_cut_off_connections_total{reason=\"first_request_late\"}"), Some(2));
        assert!(is_closed(&send(b"GET / HTTP/1.1\r\n\r\n")) && is_closed(&send(&long)));
        assert_eq!(value_of(&standby, "delaymq_cut_off_connections_total{reason=\"malformed\"}"), Some(2));
        assert_eq!(value_of(&standby, "delaymq_connections"), Some(0));
    }
}

#[test]
fn a_stop_ends_silent_connections_at_once() {
    let mut patient = options();
    patient.connection.first_request_ms_max = 3_600_000;
    let standby = standby_with(patient);
    let silent = TcpStream::connect(standby.address()).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    eventually("it is open", || value_of(&standby, "delaymq_connections") == Some(1));
    standby.stop(Duration::from_secs(3_600));
    assert_eq!(standby.wait(PATIENCE), Some(Stopped { cut_off: 0 }));
    assert!(is_closed(&silent));
    end(&standby);
}
