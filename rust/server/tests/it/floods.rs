//! Peers that send more than they may, all at once: other peers notice nothing.

#![cfg(test)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::faulty::serve_faulty;
use crate::support::{Client, PATIENCE, Served, eventually, is_closed, metric, options, page, serve, serve_with};
use delaymq_core::wire::extension::errors::ErrorCode;
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};
use delaymq_core::wire::extension::{PING, PUBLISH};
use delaymq_core::wire::frame::{FRAME_BYTES_MAX, HEAD_BYTES, Header, put_frame};
use delaymq_core::wire::quota::unfinished::UnfinishedLimits;
use delaymq_engine::Durability;
use delaymq_server::ServerOptions;
use socket2::{Domain, Socket, Type};

fn framed(command: i16, opaque: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    put_frame(&mut frame, Header::request(command, 1, opaque), |out| {
        out.extend_from_slice(body);
        Ok(())
    })
    .unwrap();
    frame
}

fn publish(opaque: i32) -> Vec<u8> {
    let mut writer = PublishWriter::default();
    writer.push("order", DueTime::After(3_600_000), &[], b"body").unwrap();
    let mut body = Vec::new();
    writer.put(&mut body, false).unwrap();
    framed(PUBLISH, opaque, &body)
}

#[test]
fn a_connection_has_so_many_requests_under_way_and_all_are_answered_in_the_end() {
    let (served, switches) = serve_faulty(options());
    let (mut flooding, mut other) = (served.connect(), served.connect());
    other.publish("order", &[b"first"], 3_600_000);
    switches.stuck.store(true, Ordering::SeqCst);
    let sent: Vec<u8> = (0..3_000).flat_map(publish).collect();
    let mut writing = flooding.socket.try_clone().unwrap();
    let writing = thread::spawn(move || writing.write_all(&sent).unwrap());
    eventually("as many as may be", || metric(&served, "requests_in_flight") == 1_024);
    other.done(PING, |_| Ok(()));
    other.send(PUBLISH, 0, |out| {
        let mut writer = PublishWriter::default();
        writer.push("order", DueTime::After(0), &[], b"x").unwrap();
        writer.put(out, false)
    });
    eventually("one more, of another", || metric(&served, "requests_in_flight") == 1_025);
    assert_eq!(metric(&served, "waiting_for_log"), 1_025);
    switches.stuck.store(false, Ordering::SeqCst);
    let mut answered: Vec<i32> = (0..3_000)
        .map(|_| {
            let (opaque, code, _) = flooding.answer();
            assert_eq!(code, 0);
            opaque
        })
        .collect();
    writing.join().unwrap();
    answered.sort_unstable();
    assert!(answered.into_iter().eq(0..3_000), "each once");
    assert_eq!(other.answer().1, 0);
}

#[test]
fn a_frame_of_8_mib_is_read_and_one_byte_more_is_not() {
    let served = serve();
    let mut client = served.connect();
    let body = vec![7; FRAME_BYTES_MAX - HEAD_BYTES];
    client.socket.write_all(&framed(PING, 5, &body)).unwrap();
    let (opaque, code, _) = client.answer();
    assert_eq!((opaque, code), (5, ErrorCode::Malformed.number()), "a ping may not be so long, and the frame was read");
    client.done(PING, |_| Ok(()));
    let mut over = framed(PING, 5, &body);
    over[..4].copy_from_slice(&(FRAME_BYTES_MAX as u32 - 3).to_be_bytes());
    client.socket.write_all(&over[..HEAD_BYTES]).unwrap();
    assert!(is_closed(&client.socket));
}

#[test]
fn halves_of_large_frames_take_so_much_memory_together_and_small_requests_are_served() {
    let limited = ServerOptions { input_bytes_max: 4 << 20, ..options() };
    let served = serve_with(limited, Durability::Os);
    let mut good = served.connect();
    let half = framed(PING, 5, &vec![7; 1 << 20]);
    let half = &half[..half.len() - 1];
    let hoarders: Vec<Client> = (0..12)
        .map(|_| {
            let mut client = served.connect();
            // Who is over the limit is closed while it sends.
            drop(client.socket.write_all(half));
            client
        })
        .collect();
    eventually("most to be closed", || metric(&served, "cut_off_connections") >= 7);
    good.publish("order", &[&vec![7; 30_000]], 3_600_000);
    let kept = metric(&served, "connections") - 1;
    assert!(kept > 0 && metric(&served, "input_bytes") <= (5 << 20) + 12 * 128 * 1_024, "{kept} are kept");
    drop(hoarders);
    eventually("all to be gone", || metric(&served, "input_bytes") == 0);
    assert_eq!(good.publish("order", &[&vec![7; 1 << 20]], 3_600_000).len(), 1);
}

#[test]
fn who_leaves_requests_unfinished_is_read_no_further_and_others_are() {
    let unfinished = UnfinishedLimits {
        free_bytes: 1 << 20,
        paid_bytes_per_ms: 0,
        held_back_ms: u64::MAX,
        wait_ms_max: u64::MAX,
        ..UnfinishedLimits::default()
    };
    let limited = ServerOptions { unfinished, ..options() };
    let served = serve_with(limited, Durability::Os);
    let (mut trusted, mut good) = (connect_from(&served, [127, 0, 1, 1]), served.connect());
    trusted.publish("order", &[&vec![7; 2 << 20]], 3_600_000);
    let half = framed(PING, 5, &vec![7; FRAME_BYTES_MAX - HEAD_BYTES]);
    connect_from(&served, [127, 0, 1, 1]).socket.write_all(&half[..2 << 20]).unwrap();
    eventually("it to be gone", || metric(&served, "connections") == 2);
    let hostile = connect_from(&served, [127, 0, 1, 1]);
    let mut writing = hostile.socket.try_clone().unwrap();
    let writing = thread::spawn(move || writing.write_all(&half[..half.len() - 1]));
    eventually("what is small", || metric(&served, "input_bytes") >= 64 << 10);
    // Each of these takes turns, in which much of it would have been read.
    for _ in 0..200 {
        trusted.done(PING, |_| Ok(()));
        good.done(PING, |_| Ok(()));
    }
    let read = metric(&served, "input_bytes");
    assert!(read < 192 << 10, "{read}");
    // A new connection from elsewhere, one from there that has kept its word, and small ones from there.
    for body_bytes in [4 << 20, 100] {
        served.connect().publish("order", &[&vec![7; body_bytes]], 3_600_000);
    }
    trusted.publish("order", &[&vec![7; 2 << 20]], 3_600_000);
    connect_from(&served, [127, 0, 1, 1]).publish("order", &[&vec![7; 60_000]], 3_600_000);
    hostile.socket.shutdown(Shutdown::Both).unwrap();
    assert!(writing.join().unwrap().is_err(), "it was not read to its end");
}

#[test]
fn where_too_many_unfinished_requests_wait_one_more_is_closed() {
    let unfinished = UnfinishedLimits { free_bytes: 0, wait_ms_max: 0, ..UnfinishedLimits::default() };
    let limited = ServerOptions { unfinished, ..options() };
    let served = serve_with(limited, Durability::Os);
    let half = framed(PING, 5, &vec![7; 1 << 20]);
    connect_from(&served, [127, 0, 1, 1]).socket.write_all(&half[..1 << 19]).unwrap();
    eventually("it to be gone", || metric(&served, "connections") == 0);
    let mut second = connect_from(&served, [127, 0, 1, 1]);
    second.done(PING, |_| Ok(()));
    // It may be closed while it sends.
    drop(second.socket.write_all(&half[..half.len() - 1]));
    assert!(is_closed(&second.socket));
    let (_, text) = page(served.server.http_address().unwrap(), "GET /metrics");
    assert!(text.contains("delaymq_cut_off_connections_total{reason=\"crowded\"} 1\n"), "{text}");
}

fn connect_from(served: &Served, address: [u8; 4]) -> Client {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    socket.connect(&served.server.address().into()).unwrap();
    Client::over(socket.into())
}

#[test]
fn floods_of_peers_with_garbage_halves_and_silence_leave_others_alone() {
    let limited = ServerOptions { connections_per_address_max: 200, ..options() };
    let served = serve_with(limited, Durability::Os);
    let mut good = served.connect();
    good.subscribe(1, "order", "g", 10_000);
    let is_over = AtomicBool::new(false);
    let address = served.server.address();
    thread::scope(|scope| {
        for pattern in 0..3_u8 {
            let is_over = &is_over;
            scope.spawn(move || {
                let valid = publish(1);
                let mut kept = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    // The system may have no port left for a moment.
                    let Ok(mut socket) = TcpStream::connect(address) else { continue };
                    // Those over the limit are closed before they are written to.
                    drop(match pattern {
                        0 => socket.write_all(&[0xFF; 4_096]),
                        1 => socket.write_all(&valid[..valid.len() / 2]),
                        _ => Ok(()),
                    });
                    kept.push(socket);
                    if kept.len() > 100 {
                        kept.clear();
                    }
                }
            });
        }
        for round in 0..200_u32 {
            let body = round.to_be_bytes();
            let mut writer = PublishWriter::default();
            writer.push("order", DueTime::After(0), &[], &body).unwrap();
            let asked = good.send(PUBLISH, 0, |out| writer.put(out, false));
            assert_eq!(good.answer(), (asked, 0, vec![0; 4]));
            assert_eq!(good.messages(1)[0].body, body);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(metric(&served, "refused_connections") + metric(&served, "cut_off_connections") > 0);
    let (told, _) = served.server.notices();
    assert!(told.len() <= 64, "what is told of them is little");
    eventually("all to be gone", || metric(&served, "connections") == 1);
}

#[test]
fn http_takes_a_head_in_its_time_and_so_many_of_an_address() {
    let limited = ServerOptions { http_ms_max: 300, http_connections_per_address_max: 3, ..options() };
    let served = serve_with(limited, Durability::Os);
    let http = served.server.http_address().unwrap();
    let connect = || {
        let socket = TcpStream::connect(http).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let silent = connect();
    let mut dripping = connect();
    // However often a byte comes, the head must be there in time.
    let sent = (0..1_000).take_while(|_| {
        thread::sleep(Duration::from_millis(10));
        dripping.write_all(b"G").is_ok()
    });
    assert!(sent.count() < 1_000);
    assert!(is_closed(&silent));
    let many: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
    assert!(many.iter().all(is_closed));
    eventually("room", || page_or_none(http) == Some(200));
    assert!(metric(&served, "refused_connections") >= 5);
    served.connect().done(PING, |_| Ok(()));
}

/// The status of `/health`; `None` where the connection was refused.
fn page_or_none(http: std::net::SocketAddr) -> Option<u16> {
    let mut socket = TcpStream::connect(http).ok()?;
    socket.write_all(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    socket.read_to_string(&mut text).ok()?;
    text.split(' ').nth(1)?.parse().ok()
}

#[test]
fn ready_is_about_work_and_health_about_life() {
    let served = serve();
    let http = served.server.http_address().unwrap();
    assert_eq!((page(http, "GET /ready").0, page(http, "GET /health").0), (200, 200));
    // A message is on its way out to who does not read it, so the stop takes its time.
    let mut slow = served.connect();
    slow.subscribe(1, "order", "g", 1_000);
    let mut producer: Client = served.connect();
    let body = vec![7; 1 << 20];
    for _ in 0..24 {
        producer.publish("order", &[&body], 0);
    }
    eventually("a full socket", || metric(&served, "sent_messages") > 8);
    served.server.stop(PATIENCE);
    eventually("the stop", || page(http, "GET /ready").0 == 503);
    assert_eq!(page(http, "GET /health").0, 200);
    served.server.stop(Duration::ZERO);
    assert!(served.server.wait(PATIENCE).is_some());
}
