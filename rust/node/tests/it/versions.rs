//! Nodes of several releases in one group.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use delaymq_core::wire::peer::{Decoder, PEER_VERSION, PeerFrame, Refusal};
use delaymq_peers::PeerAddress;

use crate::support::Group;

/// A made-up next release, as it presents itself.
fn present(stream: &mut TcpStream) {
    let mut bytes = Vec::new();
    PeerFrame::OtherVersion(PEER_VERSION + 1).put(&mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
}

/// The last frame before the connection ends.
fn answer(stream: &mut TcpStream) -> PeerFrame {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut decoder, mut bytes, mut last) = (Decoder::default(), [0; 1_024], None);
    loop {
        let count = stream.read(&mut bytes).unwrap();
        if count == 0 {
            return last.unwrap();
        }
        decoder.feed(&bytes[..count]);
        while let Some(frame) = decoder.next_frame().unwrap() {
            last = Some(frame);
        }
    }
}

#[test]
fn a_node_of_another_version_of_the_protocol_is_refused_in_words_and_the_group_goes_on() {
    let mut group = Group::new(2, 2);
    let later = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = later.local_addr().unwrap().to_string();
    for place in 0..2 {
        let mut options = group.options(place);
        options.cluster.peers.push(PeerAddress { address: address.clone(), node: None });
        group.start_with(place, options);
    }
    group.serves_with(2);
    let refused = PeerFrame::Refusal(Refusal::OtherVersion { refusing: PEER_VERSION, refused: PEER_VERSION + 1 });
    let mut calling = TcpStream::connect(group.address(0)).unwrap();
    present(&mut calling);
    assert_eq!(answer(&mut calling), refused);
    let (mut called, _) = later.accept().unwrap();
    present(&mut called);
    assert_eq!(answer(&mut called), refused);
    let said = RefCell::new(String::new());
    let words = format!("no connection to {address}: ");
    group.wait("reported", |group| {
        said.borrow_mut().push_str(&group.reports());
        let said = said.borrow();
        said.lines().any(|line| line.contains(&words) && line.contains("use one release on both"))
    });
    group.serves_with(2);
    group.wait("accepting publishes", |group| {
        group.primary().is_some_and(|place| group.status(place)["accepts_publishes"] == true)
    });
}
