//! Peers that are slow, wrong or many, and the stop of a server.

#![cfg(test)]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::support::qmq::{Qmq, pull};
use crate::support::{
    Client, PATIENCE, eventually, is_closed, metric, options, page, serve, serve_with, store_options,
};
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};
use delaymq_core::wire::extension::{PING, PUBLISH};
use delaymq_core::wire::frame::{Header, put_frame};
use delaymq_core::wire::qmq::pull::PULL;
use delaymq_core::wire::quota::connection_limits::ConnectionLimits;
use delaymq_engine::{Durability, Store, SubscribeOptions};
use delaymq_server::{Server, ServerError, ServerOptions, Stopped};

fn with_limits(change: impl FnOnce(&mut ConnectionLimits)) -> ServerOptions {
    let mut limited = options();
    change(&mut limited.connection);
    limited
}

fn ping(client: &mut Client) {
    assert_eq!(client.done(PING, |_| Ok(())), b"");
}

#[test]
fn a_reader_that_does_not_read_is_cut_off_and_its_messages_go_to_others() {
    let served = serve_with(
        with_limits(|limits| (limits.reader_ms_max, limits.output_bytes_max) = (300, 64 << 10)),
        Durability::Disk,
    );
    let mut producer = served.connect();
    let body = vec![7; 1 << 20];
    // More than the buffers of a socket take.
    for _ in 0..24 {
        producer.publish("order", &[&body], 0);
    }
    let mut slow = served.connect();
    slow.subscribe(1, "order", "g", 1_000);
    eventually("its end", || metric(&served, "cut_off_connections") == 1);
    let mut other = served.connect();
    other.subscribe(1, "order", "g", 1_000);
    let messages = other.messages(24);
    assert!(messages.iter().all(|message| message.body == body));
    ping(&mut producer);
    drop(slow);
}

#[test]
fn garbage_ends_its_connection_and_no_other() {
    let served = serve();
    let mut good = served.connect();
    ping(&mut good);
    let raw = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(served.server.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(bytes).unwrap();
        socket
    };
    let mut valid = Vec::new();
    put_frame(&mut valid, Header::request(PING, 1, 5), |_| Ok(())).unwrap();
    let wrong_magic = [&valid[..6], &[1, 2, 3, 4], &valid[10..]].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0xFF; 100],
        vec![0; 100],
        i32::MAX.to_be_bytes().to_vec(),
        wrong_magic,
    ] {
        assert!(is_closed(&raw(&bytes)), "{bytes:?}");
        // Behind a valid request, which is answered first.
        let mut after = Client::to(served.server.address());
        after.socket.write_all(&[&valid[..], &bytes].concat()).unwrap();
        assert_eq!(after.answer(), (5, 0, vec![]));
        assert!(is_closed(&after.socket));
    }
    ping(&mut good);
    assert_eq!(metric(&served, "cut_off_connections"), 10);
}

#[test]
fn an_answer_in_place_of_a_request_costs_no_connection() {
    let served = serve();
    let mut client = served.connect();
    let mut bytes = Vec::new();
    put_frame(&mut bytes, Header::request(PING, 1, 5).answered(0), |_| Ok(())).unwrap();
    put_frame(&mut bytes, Header::request(PING, 1, 6), |_| Ok(())).unwrap();
    client.socket.write_all(&bytes).unwrap();
    assert_eq!(client.answer(), (6, 0, vec![]));
    assert_eq!(metric(&served, "cut_off_connections"), 0);
}

#[test]
fn a_frame_split_anywhere_is_one_frame() {
    let served = serve();
    let mut client = served.connect();
    let mut frame = Vec::new();
    for opaque in [1, 2] {
        put_frame(&mut frame, Header::request(PING, 1, opaque), |out| {
            out.extend_from_slice(b"split");
            Ok(())
        })
        .unwrap();
    }
    for cut in 1..frame.len() {
        client.socket.write_all(&frame[..cut]).unwrap();
        client.socket.flush().unwrap();
        std::thread::yield_now();
        client.socket.write_all(&frame[cut..]).unwrap();
        for opaque in [1, 2] {
            assert_eq!(client.answer(), (opaque, 0, b"split".to_vec()));
        }
    }
}

#[test]
fn silent_and_halting_peers_are_closed() {
    let served = serve_with(
        with_limits(|limits| (limits.first_request_ms_max, limits.frame_ms_max) = (100, 200)),
        Durability::Disk,
    );
    let mut proven = served.connect();
    ping(&mut proven);
    let silent = served.connect();
    assert!(is_closed(&silent.socket));
    let mut halting = served.connect();
    ping(&mut halting);
    halting.socket.write_all(&[0, 0, 0]).unwrap();
    assert!(is_closed(&halting.socket));
    ping(&mut proven);
}

#[test]
fn what_is_no_request_proves_nobody() {
    let served = serve_with(with_limits(|limits| limits.first_request_ms_max = 1_000), Durability::Os);
    let framed = |command, version, body: &[u8]| {
        let mut frame = Vec::new();
        put_frame(&mut frame, Header::request(command, version, 7), |out| {
            out.extend_from_slice(body);
            Ok(())
        })
        .unwrap();
        frame
    };
    // A command that nobody knows, a version that nobody speaks, bodies that are none.
    for frame in [framed(99, 1, b""), framed(PUBLISH, 9, b""), framed(PUBLISH, 1, b"x"), framed(PULL, 9, b"x")] {
        let mut client = served.connect();
        client.socket.write_all(&frame).unwrap();
        let (opaque, code, _) = client.answer();
        assert_eq!((opaque, code == 0), (7, false), "it is answered all the same");
        assert!(is_closed(&client.socket));
    }
    eventually("all to be counted", || metric(&served, "cut_off_connections") == 4);
    let (mut own, mut qmq) = (served.connect(), Qmq::to(served.server.address()));
    ping(&mut own);
    assert!(qmq.pull(&pull("order", "g", "c")).is_empty());
    std::thread::sleep(Duration::from_secs(2));
    ping(&mut own);
    assert!(qmq.pull(&pull("order", "g", "c")).is_empty());
}

#[test]
fn who_has_a_subscription_and_is_not_heard_of_is_closed_and_its_messages_go_to_others() {
    let served = serve_with(with_limits(|limits| limits.silence_ms_max = 2_000), Durability::Disk);
    let mut idle = served.connect();
    idle.publish("order", &[b"held"], 0);
    let mut silent = served.connect();
    silent.subscribe(1, "order", "g", 10);
    assert_eq!(silent.messages(1).len(), 1);
    // It reads, and its machine answers for it: nothing of that is a sign of life.
    assert!(is_closed(&silent.socket));
    assert_eq!(metric(&served, "cut_off_connections"), 1);
    let mut lively = served.connect();
    lively.subscribe(1, "order", "g", 10);
    let found = lively.messages(1);
    assert_eq!((found[0].body.as_slice(), found[0].redelivered), (&b"held"[..], true));
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(300));
        ping(&mut lively);
    }
    lively.acknowledge(&found);
    ping(&mut idle);
    let group = &served.store.groups().unwrap()[0];
    assert_eq!((group.lag, group.in_flight), (0, 0));
}

#[test]
fn a_thousand_idle_connections_are_kept_and_one_more_than_the_limit_is_not() {
    let limited = ServerOptions { connections_per_address_max: 1_001, ..options() };
    let served = serve_with(limited, Durability::Os);
    let proven = |_| {
        let mut client = served.connect();
        ping(&mut client);
        client
    };
    let mut idle: Vec<Client> = (0..1_000).map(proven).collect();
    assert_eq!(metric(&served, "connections"), 1_000);
    let mut last = served.connect();
    ping(&mut last);
    assert!(is_closed(&served.connect().socket), "one over the limit of its address");
    assert_eq!(metric(&served, "refused_connections"), 1);
    drop(idle.pop());
    eventually("the room of one that has gone", || metric(&served, "connections") == 1_000);
    ping(&mut served.connect());
    idle.iter_mut().for_each(ping);
}

#[test]
fn connections_over_the_limit_are_closed_and_those_within_go_on() {
    let limited = ServerOptions { connections_max: 2, http_connections_max: 1, ..options() };
    let served = serve_with(limited, Durability::Os);
    let (mut first, mut second) = (served.connect(), served.connect());
    ping(&mut first);
    ping(&mut second);
    assert!(is_closed(&served.connect().socket));
    let http = served.server.http_address().unwrap();
    let mut held = TcpStream::connect(http).unwrap();
    held.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(held, "GET /health HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = [0; 15];
    held.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let over = TcpStream::connect(http).unwrap();
    over.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(is_closed(&over));
    drop(held);
    ping(&mut first);
    drop(second);
    eventually("room again", || served.connect().is_served());
}

#[test]
fn what_is_published_when_a_stop_begins_is_answered_and_nothing_more_is_taken() {
    let served = serve();
    let mut consumer = served.connect();
    consumer.subscribe(1, "order", "g", 10);
    served.connect().publish("order", &[b"held"], 0);
    assert_eq!(consumer.messages(1).len(), 1);
    let mut producer = served.connect();
    let mut writer = PublishWriter::default();
    for _ in 0..1_000 {
        writer.push("order", DueTime::After(60_000), &[], &[7; 1_000]).unwrap();
    }
    let asked: Vec<i32> = (0..4).map(|_| producer.send(PUBLISH, 0, |out| writer.put(out, false))).collect();
    eventually("the requests", || metric(&served, "requests") >= 6);
    served.server.stop(PATIENCE);
    for opaque in asked {
        assert_eq!(producer.answer(), (opaque, 0, vec![0; 4]));
    }
    assert!(is_closed(&producer.socket) && is_closed(&consumer.socket));
    assert_eq!(served.server.wait(PATIENCE), Some(Stopped { cut_off: 0 }));
    assert!(TcpStream::connect(served.server.address()).is_err());
    // All that was answered is there, and what the consumer held is its group's again.
    assert_eq!(served.store.status().unwrap().pending, 4_000);
    let next = served.store.subscribe("order", "g", SubscribeOptions::default()).unwrap();
    let held = next.pull(1, PATIENCE).unwrap();
    assert_eq!((held[0].body(), held[0].redelivered), (&b"held"[..], true));
}

#[test]
fn who_does_not_read_at_the_end_is_cut_off_when_patience_ends() {
    let served = serve();
    let mut slow = served.connect();
    slow.subscribe(1, "order", "g", 1_000);
    let mut producer = served.connect();
    let body = vec![7; 1 << 20];
    for _ in 0..24 {
        producer.publish("order", &[&body], 0);
    }
    eventually("a full socket", || metric(&served, "sent_messages") > 8);
    served.server.stop(Duration::from_secs(3_600));
    assert_eq!(served.server.wait(Duration::from_millis(200)), None, "it waits for the reader");
    assert_eq!(page(served.server.http_address().unwrap(), "GET /ready").0, 503);
    served.server.stop(Duration::ZERO);
    assert_eq!(served.server.wait(PATIENCE), Some(Stopped { cut_off: 1 }));
    drop(slow);
}

#[test]
fn who_has_nothing_under_way_is_not_cut_off_by_a_stop_without_patience() {
    let served = serve();
    let idle: Vec<Client> = (0..3)
        .map(|_| {
            let mut client = served.connect();
            ping(&mut client);
            client
        })
        .collect();
    served.server.stop(Duration::ZERO);
    assert_eq!(served.server.wait(PATIENCE), Some(Stopped { cut_off: 0 }));
    assert!(idle.iter().all(|client| is_closed(&client.socket)));
}

#[test]
fn what_is_durable_outlives_the_server_and_the_store() {
    let served = serve();
    served.connect().publish("order", &[b"1"], 0);
    let crate::support::Served { server, store, folder } = served;
    drop(server);
    store.close().unwrap();
    drop(store);
    let store = Store::open(folder.path(), store_options(Durability::Disk), &mut |_| {}).unwrap();
    let server = Server::start(Arc::clone(&store), options()).unwrap();
    let mut consumer = Client::to(server.address());
    consumer.subscribe(1, "order", "g", 10);
    assert_eq!(consumer.messages(1)[0].body, b"1");
}

#[test]
fn a_server_starts_on_an_address_of_this_machine_that_is_free() {
    let served = serve();
    let taken = ServerOptions { listen: served.server.address(), ..options() };
    assert!(matches!(Server::start(Arc::clone(&served.store), taken), Err(ServerError::Listen { .. })));
    let open = ServerOptions { listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), ..options() };
    let refused = Server::start(Arc::clone(&served.store), open).err().unwrap();
    assert!(refused.to_string().contains("server.token_hash"), "{refused}");
    let named = ServerOptions { advertised_address: Some("nowhere".to_owned()), ..options() };
    let refused = Server::start(Arc::clone(&served.store), named).err().unwrap();
    assert!(refused.to_string().contains("advertised_address"), "{refused}");
    // Two servers over one store do not take each other's news.
    let other = Server::start(Arc::clone(&served.store), ServerOptions { http: None, ..options() }).unwrap();
    let (mut here, mut there) = (served.connect(), Client::to(other.address()));
    here.subscribe(1, "a", "g", 10);
    there.subscribe(1, "b", "g", 10);
    here.publish("b", &[b"b"], 0);
    there.publish("a", &[b"a"], 0);
    assert_eq!((here.messages(1)[0].body.as_slice(), there.messages(1)[0].body.as_slice()), (&b"a"[..], &b"b"[..]));
}
