//! Connections that are cut after any number of bytes.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use delaymq_core::replication::NodeId;
use delaymq_peers::{PeerAddress, TlsFiles};

use crate::certificates::Authority;
use crate::nodes::{Node, hello, numbered, numbers};

const CUTS: u64 = 40;
/// Some cuts are within TLS and the hellos, which take up to 4 KiB, and most are behind them.
const BYTES_MAX: u64 = 30_000;

/// Passes on bytes to a node until it cuts.
struct Proxy {
    address: SocketAddr,
    cuts: Arc<AtomicU64>,
    is_cutting: Arc<AtomicBool>,
}

impl Proxy {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, is_cutting) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
        let (counted, cutting) = (Arc::clone(&cuts), Arc::clone(&is_cutting));
        // It ends with the process.
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let limit = RandomState::new().hash_one(counted.load(Ordering::Relaxed)) % BYTES_MAX;
                if pass_on(&socket, to, limit, &cutting) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { address, cuts, is_cutting }
    }
}

/// Passes on bytes both ways. True if it cut the connection after `limit` bytes.
fn pass_on(from: &TcpStream, to: SocketAddr, limit: u64, is_cutting: &AtomicBool) -> bool {
    let Ok(to) = TcpStream::connect(to) else { return false };
    let end = || [from, &to].map(|socket| drop(socket.shutdown(Shutdown::Both)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(std::io::copy(&mut &to, &mut &*from));
            end();
        });
        let (mut bytes, mut passed) = ([0; 700], 0);
        let is_cut = loop {
            let Ok(count @ 1..) = (&mut &*from).read(&mut bytes) else { break false };
            let left = usize::try_from(limit - passed).unwrap();
            let taken = if is_cutting.load(Ordering::Relaxed) { count.min(left) } else { count };
            if (&mut &to).write_all(&bytes[..taken]).is_err() {
                break false;
            }
            passed = (passed + taken as u64).min(limit);
            if taken < count {
                break true;
            }
        };
        end();
        is_cut
    })
}

/// What arrives over cut connections is in order, whole, and nothing comes twice.
fn must_go_on(tls: impl Fn(&str) -> Option<TlsFiles>) {
    let (one, other) = (Node::start(hello(1), tls("one")), Node::start(hello(2), tls("other")));
    let proxy = Proxy::start(other.peers.address());
    one.peers.set_peers([PeerAddress { address: proxy.address.to_string(), node: Some(other.id) }]).unwrap();
    let mut number = 0;
    while proxy.cuts.load(Ordering::Relaxed) < CUTS {
        number += 1;
        one.send(other.id, &numbered(number));
    }
    proxy.is_cutting.store(false, Ordering::Relaxed);
    // Messages that wait for a connection that is ending are lost, so the last one is sent until one arrives.
    let last = number;
    while newest(&other, one.id) <= last {
        number += 1;
        one.send(other.id, &numbered(number));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let found = other.events.wait("messages", |list| Some(numbers(list, one.id)));
    assert!(found.is_sorted_by(|earlier, later| earlier < later), "in order, and none twice");
    assert!(found.len() as u64 > CUTS, "many arrive between the cuts: {}", found.len());
}

fn newest(node: &Node, from: NodeId) -> u64 {
    node.events.wait("messages", |list| Some(numbers(list, from).last().copied().unwrap_or(0)))
}

#[test]
fn messages_go_on_after_cuts_anywhere_and_none_comes_twice_or_damaged() {
    must_go_on(|_| None);
}

#[test]
fn the_same_with_tls() {
    let authority = Authority::new();
    must_go_on(|name| Some(authority.files(name, "127.0.0.1")));
}
