//! Connections that make a server keep something.

use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::support::qmq::{Pull, Qmq, message_with, pull};
use crate::support::{Served, eventually, metric};

pub(crate) const MEBI: u64 = 1 << 20;

/// What a figure comes to rest at, once it is no longer `from`.
pub(crate) fn settled(what: &str, from: u64, mut figure: impl FnMut() -> u64) -> u64 {
    let (mut last, mut calm) = (from, 0);
    eventually(what, || {
        let now = figure();
        calm = if now == last && now != from { calm + 1 } else { 0 };
        last = now;
        thread::sleep(Duration::from_millis(8));
        calm >= 40
    });
    last
}

pub(crate) fn from_address(served: &Served, address: [u8; 4]) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    socket.connect(&served.server.address().into()).unwrap();
    socket.into()
}

/// A message of so many times 32,000 bytes.
pub(crate) fn large(subject: &str, id: &str, words: usize) -> Vec<u8> {
    let (word, keys) = ("x".repeat(32_000), (0..words).map(|key| format!("k{key}")).collect::<Vec<_>>());
    let attributes: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), word.as_str())).collect();
    message_with(subject, id, &[], None, &attributes)
}

/// A client whose pulls wait, each of them for a group of its own.
pub(crate) fn holding(served: &Served, qmq: &mut Qmq, groups: &[String]) -> Vec<i32> {
    for group in groups {
        assert!(qmq.pull(&pull("order", group, "c")).is_empty());
    }
    let before = metric(served, "held_pulls");
    let long = |group| Pull { hold_ms: 300_000, ..pull("order", group, "c") };
    let held = groups.iter().map(|group| qmq.ask_pull(&long(group))).collect();
    eventually("all wait", || metric(served, "held_pulls") == before + groups.len() as u64);
    held
}

pub(crate) fn groups(of: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{of}-{number}")).collect()
}
