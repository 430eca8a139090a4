//! QMQ's clients at a node that is not the primary.

#![cfg(test)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use delaymq_core::planted::Planted;
use delaymq_engine::Durability;
use delaymq_server::{AccessOptions, Network, ServerOptions, Standby, TokenHash};
use socket2::{Domain, Socket, Type};

use crate::planting::Everywhere;
use crate::support::group::{end, primary_at, standby_of, standby_with};
use crate::support::qmq::{HOLD_MS, Pull, Qmq, ids, message, pull};
use crate::support::{PATIENCE, eventually, is_closed, metric, options, page, serve, serve_with};

/// Faults of relays are planted for all threads, so one test of them runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn value_of(standby: &Standby, name: &str) -> u64 {
    let (_, text) = page(standby.http_address().unwrap(), "GET /metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap().parse().unwrap()
}

/// A QMQ client that has sent a pull through the standby and waits for its answer.
fn waiting(standby: &Standby, before: u64) -> Qmq {
    let mut qmq = Qmq::to(standby.address());
    qmq.ask_pull(&Pull { hold_ms: HOLD_MS, ..pull("order", "g", "consumer") });
    eventually("it is relayed", || value_of(standby, "delaymq_relays_total") == before + 1);
    qmq
}

#[test]
fn qmq_clients_are_relayed_both_ways() {
    let _alone = ALONE.lock();
    let served = serve();
    let standby = standby_of(served.server.address());
    let mut consumer = Qmq::to(standby.address());
    let names = Pull { count: 200, hold_ms: HOLD_MS, ..pull("order", "g", "consumer") };
    // Its group begins with what comes from now on.
    assert_eq!(consumer.pull(&pull("order", "g", "consumer")), []);
    let mut producer = Qmq::to(standby.address());
    let messages: Vec<Vec<u8>> =
        (0..200).map(|number| message("order", &format!("m{number}"), &["tag"; 3], None)).collect();
    producer.store(&messages);
    let found = consumer.take(&names, 200);
    assert_eq!(ids(&found), (0..200).map(|number| format!("m{number}")).collect::<Vec<_>>());
    assert_eq!(consumer.acknowledge(&names, found[0].offset, found[199].offset), 0);
    assert_eq!((value_of(&standby, "delaymq_relays_total"), value_of(&standby, "delaymq_relayed_connections")), (2, 2));
    assert_eq!(metric(&served, "connections"), 2, "the primary has a connection for each");
    drop((producer, consumer));
    eventually("they have left", || metric(&served, "connections") == 0);
    eventually("and here", || value_of(&standby, "delaymq_relayed_connections") == 0);
    assert_eq!(value_of(&standby, "delaymq_failed_relays_total"), 0);
}

#[test]
fn a_relay_ends_with_the_primary_with_a_change_of_it_and_with_the_standby() {
    let _alone = ALONE.lock();
    let (served, other) = (serve(), serve());
    let standby = standby_of(served.server.address());
    let first = waiting(&standby, 0);
    // The same primary in a later epoch is no change.
    let mut known = primary_at(served.server.address());
    known.epoch.0 += 1;
    standby.set_primary(Some(known));
    let second = waiting(&standby, 1);
    assert_eq!(value_of(&standby, "delaymq_relayed_connections"), 2);
    standby.set_primary(Some(primary_at(other.server.address())));
    assert!(is_closed(&first.socket) && is_closed(&second.socket));
    eventually("the primary sees that", || metric(&served, "connections") == 0);

    let third = waiting(&standby, 2);
    drop(other.server);
    assert!(is_closed(&third.socket));
    standby.set_primary(Some(primary_at(served.server.address())));
    let fourth = waiting(&standby, 3);
    standby.set_primary(None);
    assert!(is_closed(&fourth.socket));
    standby.set_primary(Some(primary_at(served.server.address())));
    let fifth = waiting(&standby, 4);
    standby.stop(Duration::from_secs(3_600));
    assert!(standby.wait(PATIENCE).is_some());
    assert!(is_closed(&fifth.socket));

    let _plant = Everywhere::plant(Some(Planted::StalePrimaryKept));
    let standby = standby_of(served.server.address());
    let kept = waiting(&standby, 0);
    standby.set_primary(None);
    let mut refused = Qmq::to(standby.address());
    refused.ask_pull(&pull("order", "g", "consumer"));
    assert!(is_closed(&refused.socket), "the standby has heard of the change");
    assert_eq!(metric(&served, "connections"), 1, "the planted fault is seen");
    drop(kept);
}

#[test]
fn a_client_is_closed_where_no_primary_is_known_or_reached() {
    let _alone = ALONE.lock();
    let standby = standby_with(options());
    let closes = || {
        let mut qmq = Qmq::to(standby.address());
        qmq.ask_pull(&pull("order", "g", "consumer"));
        is_closed(&qmq.socket)
    };
    assert!(closes());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    standby.set_primary(Some(primary_at(nobody)));
    assert!(closes());
    let mut nameless = primary_at(nobody);
    nameless.address = String::new();
    standby.set_primary(Some(nameless));
    assert!(closes());
    let numbers = ["delaymq_failed_relays_total", "delaymq_relays_total", "delaymq_relayed_connections"];
    assert_eq!(numbers.map(|name| value_of(&standby, name)), [3, 0, 0]);
}

#[test]
fn standbys_that_take_each_other_for_the_primary_make_no_loop() {
    let _alone = ALONE.lock();
    let (one, other) = each_others_primary();
    let alone = standby_with(options());
    alone.set_primary(Some(primary_at(alone.address())));
    for (standby, next) in [(&one, &other), (&alone, &alone)] {
        let mut qmq = Qmq::to(standby.address());
        qmq.ask_pull(&pull("order", "g", "consumer"));
        assert!(is_closed(&qmq.socket));
        eventually("it ends", || value_of(standby, "delaymq_connections") == 0);
        assert_eq!(value_of(standby, "delaymq_relays_total"), 1);
        let ended = "delaymq_cut_off_connections_total{reason=\"turned_away\"}";
        assert_eq!(value_of(next, ended), 1, "the next does not pass it on");
    }
    assert_eq!(value_of(&other, "delaymq_relays_total"), 0);

    let _plant = Everywhere::plant(Some(Planted::RelayUnmarked));
    let (one, other) = each_others_primary();
    let mut qmq = Qmq::to(one.address());
    qmq.ask_pull(&pull("order", "g", "consumer"));
    eventually("the planted fault is seen", || value_of(&other, "delaymq_relays_total") > 0);
}

/// Two standbys that take each other for the primary, with few connections.
fn each_others_primary() -> (Standby, Standby) {
    let few = || ServerOptions { connections_max: 16, ..options() };
    let (one, other) = (standby_with(few()), standby_with(few()));
    one.set_primary(Some(primary_at(other.address())));
    other.set_primary(Some(primary_at(one.address())));
    (one, other)
}

#[test]
fn the_addresses_of_qmq_clients_count_at_both_nodes() {
    let _alone = ALONE.lock();
    let guarded = |from: &str| {
        let access = AccessOptions {
            token: Some(TokenHash::of(b"the token")),
            admin_token: None,
            qmq_clients_from: vec![Network::parse("server.qmq_clients_from", from).unwrap()],
        };
        ServerOptions { access, ..options() }
    };
    let served = serve_with(guarded("127.0.0.1"), Durability::Os);
    let standby = standby_with(ServerOptions { strangers_max: 0, ..guarded("127.0.0.2") });
    standby.set_primary(Some(primary_at(served.server.address())));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), 0)).into()).unwrap();
    socket.connect(&standby.address().into()).unwrap();
    let mut qmq = Qmq::over(socket.into());
    qmq.store(&[message("order", "one", &[], None)]);
    assert_eq!(metric(&served, "turned_away_qmq_clients"), 0, "the primary sees the standby");
}

#[test]
fn a_client_that_does_not_read_is_closed_and_others_go_on() {
    let _alone = ALONE.lock();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut limited = options();
    limited.connection.reader_ms_max = 300;
    let standby = standby_with(limited);
    standby.set_primary(Some(primary_at(listener.local_addr().unwrap())));
    let mut slow = Qmq::to(standby.address());
    slow.ask_pull(&pull("order", "g", "consumer"));
    let (mut primary, _) = listener.accept().unwrap();
    let writes = std::thread::spawn(move || while primary.write_all(&[7; 4_096]).is_ok() {});
    let mut good = Qmq::to(standby.address());
    good.ask_pull(&pull("order", "g", "consumer"));
    let (mut second, _) = listener.accept().unwrap();
    echo_once(&mut second, &mut good.socket);
    eventually("the slow one is closed", || value_of(&standby, "delaymq_relayed_connections") == 1);
    writes.join().unwrap();
    echo_once(&mut second, &mut good.socket);
    end(&standby);
    drop(slow);
}

/// A byte goes through the relay.
fn echo_once(primary: &mut TcpStream, client: &mut TcpStream) {
    primary.write_all(b"x").unwrap();
    let mut byte = [0];
    client.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x");
}
