//! The end of all connections, in a process of its own: it counts threads and descriptors.
#![cfg(target_os = "linux")]

use std::fs::read_dir;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use delaymq_peers::{Direction, PeerAddress, PeerEvent};

use crate::certificates::Authority;
use crate::nodes::{AT_MOST, Node, connect, hello, must_talk};

/// The threads and the descriptors of this process.
fn counted() -> (usize, usize) {
    (read_dir("/proc/self/task").unwrap().count(), read_dir("/proc/self/fd").unwrap().count())
}

#[test]
fn a_close_ends_every_thread_and_descriptor_whatever_they_wait_for() {
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let ended = alone.args(["--exact", "closing::alone", "--ignored", "--nocapture"]).output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
#[ignore = "it counts the threads of its process, so the test above runs it alone"]
fn alone() {
    let authority = Authority::new();
    let tls = |name| Some(authority.files(name, "127.0.0.1"));
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let before = counted();
    for round in 0..5 {
        let (one, other) = (Node::start(hello(1), tls("one")), Node::start(hello(2), tls("other")));
        connect(&[&one, &other]);
        must_talk(&one, &other, round);
        let strangers: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(one.peers.address()).unwrap()).collect();
        // One address does not say hello, and nobody listens at another.
        let further = [mute.local_addr().unwrap(), nobody].map(|address| address.to_string());
        let further = further.map(|address| PeerAddress { address, node: None });
        one.peers.set_peers([other.address()].into_iter().chain(further)).unwrap();
        let accepted = mute.accept().unwrap().0;
        one.events.wait_refused(Direction::Outgoing, "nobody listens", |_| true);

        let started = Instant::now();
        one.peers.close();
        assert!(started.elapsed() < AT_MOST);
        let reported = one.events.count(|_| true);
        let ends = |event: &PeerEvent| matches!(event, PeerEvent::Disconnected { .. });
        assert_eq!(one.events.count(ends), 2, "both ends are reported");
        one.peers.set_peers([other.address()]).unwrap();
        one.peers.close();
        assert!(one.peers.status().is_empty());
        drop(other);
        assert_eq!(one.events.count(|_| true), reported, "and nothing after the close");
        drop((one, strangers, accepted));
    }
    // The kernel lists a thread for a moment after it was joined.
    let end = Instant::now() + AT_MOST;
    while counted() != before && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(counted(), before);
}
