//! Connections that must not count. After each, two good nodes still talk to each other.

use std::net::TcpListener;
use std::sync::Arc;

use delaymq_core::replication::{Message, NodeId};
use delaymq_core::units::Epoch;
use delaymq_core::wire::malformed::Malformed;
use delaymq_core::wire::peer::{FRAME_BYTES_MAX, Hello, PeerFrame, Refusal};
use delaymq_peers::Direction::{Incoming, Outgoing};
use delaymq_peers::{Fault, PeerAddress, PeerEvent, PeersError, TlsFiles};

use crate::certificates::Authority;
use crate::nodes::{Node, connect, hello, must_talk, numbered};
use crate::raw::{Raw, bytes_of};

/// What a stranger sends, with its name and the fault that it causes.
type Case = (&'static str, Vec<u8>, fn(&Fault) -> bool);

/// Two good nodes, without TLS.
fn pair() -> (Node, Node) {
    let (one, other) = (Node::start(hello(1), None), Node::start(hello(2), None));
    connect(&[&one, &other]);
    (one, other)
}

/// A node with this hello and the first node refuse each other.
fn must_refuse(strange: Hello, refusal: Refusal) {
    let (one, other) = pair();
    let strange = Node::start(strange, None);
    strange.peers.set_peers([one.address()]).unwrap();
    one.events.wait_refused(
        Incoming,
        "its refusal",
        |fault| matches!(fault, Fault::Refuses(found) if *found == refusal),
    );
    strange.events.wait_refused(
        Outgoing,
        "being refused",
        |fault| matches!(fault, Fault::RefusedBy(found) if *found == refusal),
    );
    one.peers.set_peers([other.address(), PeerAddress { node: None, ..strange.address() }]).unwrap();
    one.events.wait_refused(
        Outgoing,
        "being refused",
        |fault| matches!(fault, Fault::RefusedBy(found) if *found == refusal),
    );
    must_talk(&one, &other, 1);
    assert_eq!(strange.events.count(|event| matches!(event, PeerEvent::Connected { .. })), 0);
}

#[test]
fn another_stream_is_refused() {
    must_refuse(Hello { stream: [8; 16], ..hello(3) }, Refusal::OtherStream);
}

#[test]
fn another_timeline_is_refused() {
    must_refuse(Hello { timeline: 2, ..hello(3) }, Refusal::OtherTimeline);
}

#[test]
fn another_size_of_segments_is_refused() {
    must_refuse(Hello { segment_bytes: 32 << 20, ..hello(3) }, Refusal::OtherSegmentBytes);
}

#[test]
fn a_copied_folder_is_refused() {
    must_refuse(Hello { nonce: 3, ..hello(1) }, Refusal::CopiedFolder);
}

#[test]
fn a_node_refuses_itself_and_the_others_go_on() {
    let (one, other) = pair();
    one.peers.set_peers([other.address(), PeerAddress { node: None, ..one.address() }]).unwrap();
    let is_itself = |fault: &Fault| matches!(fault, Fault::Refuses(Refusal::Itself));
    one.events.wait_refused(Incoming, "itself", is_itself);
    one.events.wait_refused(Outgoing, "itself", |fault| matches!(fault, Fault::RefusedBy(Refusal::Itself)));
    must_talk(&one, &other, 1);
}

#[test]
fn another_node_than_the_configured_one_is_refused() {
    let (one, other) = pair();
    let strange = Node::start(hello(3), None);
    let misplaced = PeerAddress { node: Some(NodeId([4; 16])), ..strange.address() };
    one.peers.set_peers([other.address(), misplaced]).unwrap();
    one.events.wait_refused(Outgoing, "the refusal", |fault| matches!(fault, Fault::Refuses(Refusal::OtherNode)));
    let is_refused = |fault: &Fault| matches!(fault, Fault::RefusedBy(Refusal::OtherNode));
    strange.events.wait_refused(Incoming, "being refused", is_refused);
    must_talk(&one, &other, 1);
    assert_eq!(strange.events.count(|event| matches!(event, PeerEvent::Connected { .. })), 0);
}

#[test]
fn a_node_at_two_addresses_keeps_the_first_connection() {
    let (one, other) = pair();
    let port = other.peers.address().port();
    let again = PeerAddress { address: format!("localhost:{port}"), node: None };
    one.peers.set_peers([other.address(), again]).unwrap();
    one.events.wait_refused(Outgoing, "the refusal", |fault| matches!(fault, Fault::Refuses(Refusal::TwoAddresses)));
    other
        .events
        .wait_refused(Incoming, "being refused", |fault| matches!(fault, Fault::RefusedBy(Refusal::TwoAddresses)));
    must_talk(&one, &other, 1);
    let connected = |event: &PeerEvent| matches!(event, PeerEvent::Connected { hello, .. } if hello.node == one.id);
    assert_eq!(other.events.count(connected), 2, "one of each direction, and never again");
}

/// The hello of the first node, which is connected to this one and says where.
fn naming(other: &Node) -> Hello {
    Hello { others: vec![(other.id, other.address().address)], ..hello(1) }
}

#[test]
fn a_newer_version_is_refused_with_both_versions() {
    let (one, other) = pair();
    let mut newer = Raw::connect(&one);
    newer.put(&PeerFrame::OtherVersion(2));
    let refusal = Refusal::OtherVersion { refusing: 1, refused: 2 };
    assert_eq!(newer.next(), Some(PeerFrame::Refusal(refusal)));
    one.events.wait_refused(
        Incoming,
        "the refusal",
        |fault| matches!(fault, Fault::Refuses(found) if *found == refusal),
    );

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = PeerAddress { address: listener.local_addr().unwrap().to_string(), node: None };
    one.peers.set_peers([other.address(), address]).unwrap();
    let mut newer = Raw::accept(&listener);
    assert_eq!(newer.next(), Some(PeerFrame::Hello(naming(&other))));
    newer.put(&PeerFrame::OtherVersion(2));
    assert_eq!(newer.next(), Some(PeerFrame::Refusal(refusal)));
    one.events.wait_refused(
        Outgoing,
        "the refusal",
        |fault| matches!(fault, Fault::Refuses(found) if *found == refusal),
    );
    must_talk(&one, &other, 1);
}

#[test]
fn garbage_and_oversize_frames_before_the_hello_end_the_connection() {
    let (one, other) = pair();
    let head = |length: u32| {
        let bytes = bytes_of(&PeerFrame::Begin);
        let mut head = [&length.to_be_bytes()[..], &bytes[4..5]].concat();
        head.extend(crc32fast::hash(&head).to_be_bytes());
        head
    };
    let garbage = b"GET / HTTP/1.1\r\nHost: anywhere\r\n\r\n".to_vec();
    let batch = bytes_of(&PeerFrame::Message(numbered(3)));
    let cases: [Case; 4] = [
        ("garbage", garbage, |fault| matches!(fault, Fault::Malformed(Malformed::Value { field: "head_check", .. }))),
        ("oversize", head(4_097), |fault| matches!(fault, Fault::Malformed(Malformed::TooLarge { limit: 4_096, .. }))),
        ("a message", batch, |fault| matches!(fault, Fault::Unexpected { expected: "a hello" })),
        ("the end", Vec::new(), |fault| matches!(fault, Fault::Ended)),
    ];
    for (what, bytes, is_it) in cases {
        let mut strange = Raw::connect(&one);
        strange.write(&bytes);
        strange.socket.shutdown(std::net::Shutdown::Write).unwrap();
        strange.wait_end();
        one.events.wait_refused(Incoming, what, is_it);
    }
    must_talk(&one, &other, 1);
}

#[test]
fn bad_frames_after_the_hello_end_the_connection() {
    let (one, other) = pair();
    let mut damaged = bytes_of(&PeerFrame::Message(numbered(3)));
    *damaged.last_mut().unwrap() ^= 1;
    let over = u32::try_from(FRAME_BYTES_MAX).unwrap() + 1;
    let mut oversize = [&over.to_be_bytes()[..], &[19]].concat();
    oversize.extend(crc32fast::hash(&oversize).to_be_bytes());
    let cases: [Case; 3] = [
        ("damage", damaged, |fault| matches!(fault, Fault::Malformed(Malformed::Value { field: "check", .. }))),
        ("oversize", oversize, |fault| matches!(fault, Fault::Malformed(Malformed::TooLarge { field: "frame", .. }))),
        ("a second hello", bytes_of(&PeerFrame::Hello(hello(3))), |fault| matches!(fault, Fault::Unexpected { .. })),
    ];
    for (number, (what, bytes, is_it)) in (10..).zip(cases) {
        let mut strange = Raw::begin(&one, hello(3));
        strange.put(&PeerFrame::Message(numbered(number)));
        strange.write(&bytes);
        strange.wait_end();
        one.events.wait_ended(Incoming, what, is_it);
        one.wait_message(NodeId([3; 16]), &numbered(number));
    }
    must_talk(&one, &other, 1);
}

#[test]
fn a_stranger_that_says_nothing_or_half_a_hello_is_ended_in_time() {
    let (one, other) = pair();
    let is_silent = |event: &PeerEvent| matches!(event, PeerEvent::Refused { fault: Fault::Silent, .. });
    let mut silent = Raw::connect(&one);
    let mut slow = Raw::connect(&one);
    slow.write(&bytes_of(&PeerFrame::Hello(hello(3)))[..20]);
    let mut undecided = Raw::connect(&one);
    undecided.put(&PeerFrame::Hello(hello(4)));
    must_talk(&one, &other, 1);
    for stranger in [&mut silent, &mut slow, &mut undecided] {
        stranger.wait_end();
    }
    one.events.wait("three ends", |list| (list.iter().filter(|event| is_silent(event)).count() >= 3).then_some(()));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = PeerAddress { address: listener.local_addr().unwrap().to_string(), node: None };
    one.peers.set_peers([other.address(), address]).unwrap();
    one.events.wait_refused(Outgoing, "a node that does not answer", |fault| matches!(fault, Fault::Silent));
    must_talk(&one, &other, 2);
}

#[test]
fn a_node_that_talks_back_where_it_only_receives_is_ended() {
    let (one, other) = pair();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = PeerAddress { address: listener.local_addr().unwrap().to_string(), node: None };
    one.peers.set_peers([other.address(), address]).unwrap();
    let mut strange = Raw::accept(&listener);
    assert_eq!(strange.next(), Some(PeerFrame::Hello(naming(&other))));
    strange.put(&PeerFrame::Hello(hello(3)));
    assert_eq!(strange.next(), Some(PeerFrame::Begin));
    strange.put(&PeerFrame::Message(Message::Refused { epoch: Epoch(7) }));
    one.events.wait_ended(Outgoing, "its end", |fault| matches!(fault, Fault::Unexpected { .. }));
    assert_eq!(one.events.count(|event| matches!(event, PeerEvent::Message(node, _) if *node == NodeId([3; 16]))), 0);
    must_talk(&one, &other, 1);
}

/// Two good nodes of one authority.
fn secured(authority: &Authority) -> (Node, Node) {
    let tls = |name| Some(authority.files(name, "127.0.0.1"));
    let (one, other) = (Node::start(hello(1), tls("one")), Node::start(hello(2), tls("other")));
    connect(&[&one, &other]);
    (one, other)
}

/// A node with these files gets no connection in either direction.
fn must_not_count(one: &Node, other: &Node, tls: Option<TlsFiles>) {
    let strange = Node::start(hello(3), tls);
    strange.peers.set_peers([one.address()]).unwrap();
    one.peers.set_peers([other.address(), strange.address()]).unwrap();
    let is_tls = |fault: &Fault| matches!(fault, Fault::Tls(_));
    one.events.wait_refused(Outgoing, "its certificate is refused", is_tls);
    one.events.wait_refused(Incoming, "its certificate is refused", is_tls);
    let refused = |list: &[PeerEvent], of| {
        list.iter().any(|event| matches!(event, PeerEvent::Refused { direction, .. } if *direction == of))
    };
    strange.events.wait("it learns that", |list| (refused(list, Outgoing) && refused(list, Incoming)).then_some(()));
    must_talk(one, other, 1);
    let of_strange =
        |event: &PeerEvent| matches!(event, PeerEvent::Connected { hello, .. } if hello.node == strange.id);
    assert_eq!(one.events.count(of_strange), 0);
    assert_eq!(strange.events.count(|event| matches!(event, PeerEvent::Connected { .. })), 0);
}

#[test]
fn a_certificate_of_another_authority_is_refused_by_both_ends() {
    let authority = Authority::new();
    let (one, other) = secured(&authority);
    must_not_count(&one, &other, Some(Authority::new().files("strange", "127.0.0.1")));
}

#[test]
fn a_node_that_trusts_the_authority_with_a_certificate_of_another_is_refused() {
    let authority = Authority::new();
    let (one, other) = secured(&authority);
    let strange = Authority::new();
    let files = strange.files("strange", "127.0.0.1");
    let authorities = authority.folder().join("authority.pem");
    must_not_count(&one, &other, Some(TlsFiles { authorities, ..files }));
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    let authority = Authority::new();
    let (one, other) = secured(&authority);
    let strange = Node::start(hello(3), Some(authority.files("strange", "127.0.0.9")));
    one.peers.set_peers([other.address(), strange.address()]).unwrap();
    one.events.wait_refused(Outgoing, "its certificate is refused", |fault| matches!(fault, Fault::Tls(_)));
    must_talk(&one, &other, 1);
}

#[test]
fn a_client_without_a_certificate_and_one_without_tls_are_refused() {
    let authority = Authority::new();
    let (one, other) = secured(&authority);
    let mut plain = Raw::connect(&one);
    plain.put(&PeerFrame::Hello(hello(3)));
    plain.wait_end();
    let is_tls =
        |event: &PeerEvent| matches!(event, PeerEvent::Refused { direction: Incoming, fault: Fault::Tls(_), .. });
    one.events.wait_for("plain bytes are refused", is_tls);

    let mut raw = Raw::connect(&one);
    let mut client = nameless(&authority);
    drop(client.complete_io(&mut raw.socket));
    drop(client.complete_io(&mut raw.socket));
    one.events.wait("no certificate is refused", |list| {
        (list.iter().filter(|event| is_tls(event)).count() >= 2).then_some(())
    });
    must_talk(&one, &other, 1);
}

/// A client that trusts the authority and has no certificate.
fn nameless(authority: &Authority) -> rustls::ClientConnection {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.folder().join("authority.pem")).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    rustls::ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap()
}

#[test]
fn files_and_addresses_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let good = authority.files("one", "127.0.0.1");
    let missing = authority.folder().join("missing.pem");
    let empty = authority.folder().join("empty.pem");
    std::fs::write(&empty, "no certificate").unwrap();
    for (option, files) in [
        ("authorities", TlsFiles { authorities: missing.clone(), ..good.clone() }),
        ("authorities", TlsFiles { authorities: empty.clone(), ..good.clone() }),
        ("certificate", TlsFiles { certificate: empty, ..good.clone() }),
        ("certificate", TlsFiles { key: authority.files("two", "127.0.0.1").key, ..good.clone() }),
        ("key", TlsFiles { key: missing, ..good.clone() }),
    ] {
        let refused = start("127.0.0.1:0", &[], Some(files));
        assert!(
            matches!(&refused, Some(PeersError::InvalidOption { option: found, .. }) if *found == option),
            "{refused:?}"
        );
    }
    for (option, listen, peer, tls) in [
        ("listen", "0.0.0.0:0", "127.0.0.1:1", None),
        ("peers", "127.0.0.1:0", "192.0.2.1:1", None),
        ("peers", "127.0.0.1:0", "127.0.0.1", None),
        ("peers", "127.0.0.1:0", ":7000", None),
        ("peers", "127.0.0.1:0", "a host:7000", Some(good.clone())),
    ] {
        let refused = start(listen, &[peer], tls);
        assert!(
            matches!(&refused, Some(PeersError::InvalidOption { option: found, .. }) if *found == option),
            "{refused:?}"
        );
    }
    let long = format!("{}:7000", "a".repeat(255));
    for (address, is_usable) in [("", true), (&long[1..], true), (&long, false), ("127.0.0.1", false), (":7000", false)]
    {
        let hello = Hello { client_address: address.to_owned(), ..hello(1) };
        let refused = start_with(hello, "127.0.0.1:0", &[], None);
        let is_named = matches!(refused, Some(PeersError::InvalidOption { option: "client_address", .. }));
        assert_eq!((is_named, refused.is_none()), (!is_usable, is_usable), "{address:?}: {refused:?}");
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = start(&taken.local_addr().unwrap().to_string(), &[], None);
    assert!(matches!(refused, Some(PeersError::Listen { .. })), "{refused:?}");
    assert!(start("[::1]:0", &["[::1]:7000"], Some(good)).is_none());
}

fn start(listen: &str, peers: &[&str], tls: Option<TlsFiles>) -> Option<PeersError> {
    start_with(hello(1), listen, peers, tls)
}

fn start_with(hello: Hello, listen: &str, peers: &[&str], tls: Option<TlsFiles>) -> Option<PeersError> {
    let address = |address: &&str| PeerAddress { address: (*address).to_owned(), node: None };
    delaymq_peers::Peers::start(delaymq_peers::PeerOptions {
        hello,
        listen: listen.parse().unwrap(),
        peers: peers.iter().map(address).collect(),
        tls,
        queue_bytes_max: 1,
        sink: Arc::new(drop),
    })
    .err()
}
