//! QMQ's commands, by a client that was written from QMQ's description, and not from this project's codec.

#![cfg(test)]

use std::io::Write;

use crate::support::qmq::{Qmq, checked, message, text};
use crate::support::{eventually, options, page, serve, serve_with};

use delaymq_engine::Durability;

/// From the reference, built there by other means.
const SEND: &str = "0000008b0012dec10ade000a00090000000700000000000a0000000011fcac47020000018bcfe568000000018bcfe652600007742e64656c617900026d310000004d000e716d715f63726561746554696d65000d313730303030303030303030300017716d715f7363686564756c655265636569766554696d65000d3137303030303030363030303000016b000176";
const SEND_STORED: &str = "000000140012dec10ade000000090000000700000001000a";
const REGISTER: &str = "0000007a0012dec10ade0023000900000000000000000023000600077375626a6563740007742e64656c6179000e636c69656e7454797065436f64650001340008636c69656e744964000468404078000d636f6e73756d657247726f757000000007617070436f64650003617070000b7265717565737454797065000131";

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// The ids and codes that an answer lists.
fn failures(mut body: &[u8]) -> Vec<(String, i32)> {
    let mut found = Vec::new();
    let take = |body: &mut &[u8]| {
        let (length, rest) = body.split_at(2);
        let (text, rest) = rest.split_at(usize::from(u16::from_be_bytes(length.try_into().unwrap())));
        *body = rest;
        String::from_utf8(text.to_vec()).unwrap()
    };
    while !body.is_empty() {
        let id = take(&mut body);
        let (code, rest) = body.split_at(4);
        body = rest;
        found.push((id, i32::from_be_bytes(code.try_into().unwrap())));
        assert!(!take(&mut body).is_empty(), "a remark");
    }
    found
}

#[test]
fn the_vectors_of_the_reference_are_answered_as_they_are_there() {
    let served = serve_with(
        delaymq_server::ServerOptions { advertised_address: Some("127.0.0.1:20801".to_owned()), ..options() },
        Durability::Disk,
    );
    let mut qmq = Qmq::to(served.server.address());
    qmq.socket.write_all(&bytes(SEND)).unwrap();
    assert_eq!(hex(&qmq.whole_frame()), SEND_STORED);
    // Its time has long passed, so it is ready at once.
    let mut consumer = served.connect();
    consumer.subscribe(1, "t.delay", "g", 1);
    let found = consumer.messages(1);
    assert!(found[0].is_qmq);
    assert_eq!(hex(&found[0].payload), SEND[48 + 16..], "byte for byte, without its check");

    qmq.socket.write_all(&bytes(REGISTER)).unwrap();
    let answer = qmq.whole_frame();
    let (head, body) = answer.split_at(24);
    assert_eq!(hex(&head[4..]), "0012dec10ade000000090000000000000001".to_owned() + "0023");
    let now = i64::from_be_bytes(body[..8].try_into().unwrap());
    assert!(now > 1_700_000_000_000);
    let mut expected = Vec::new();
    text(&mut expected, "t.delay");
    text(&mut expected, "");
    expected.extend_from_slice(&[0, 4, 0, 1]);
    text(&mut expected, "delaymq");
    text(&mut expected, "127.0.0.1:20801");
    assert_eq!(&body[8..8 + expected.len()], expected);
    assert_eq!(&body[8 + expected.len() + 8..], [1], "for reading and writing");
}

#[test]
fn immediate_and_delayed_messages_share_an_address() {
    let served = serve();
    let mut qmq = Qmq::to(served.server.address());
    let mut consumer = served.connect();
    consumer.subscribe(1, "order", "g", 10);
    let due = i64::try_from(served.store.now().0).unwrap() + 300;
    let (later, now) = (message("order", "later", &[], Some(due)), message("order", "now", &["red"], None));
    let far = message("order", "far", &[], Some(due + 3_600_000));
    let body = [checked(&later), checked(&now), checked(&far)].concat();
    assert_eq!(qmq.ask(10, &body), (0, vec![]));
    let found = consumer.messages(2);
    assert_eq!((&found[0].payload, &found[1].payload), (&now, &later));
    assert!(i64::try_from(served.store.now().0).unwrap() >= due, "it is not early");
    assert_eq!(served.store.status().unwrap().pending, 1);
    assert_eq!(qmq.ask(10, &[]), (0, vec![]), "nothing was sent and nothing failed");
}

#[test]
fn only_what_was_not_stored_is_listed() {
    let served = serve();
    let mut qmq = Qmq::to(served.server.address());
    let (good, bad_name) = (message("order", "good", &[], None), message("a b", "name", &[], None));
    let too_far = message("order", "far", &[], Some(i64::MAX));
    let tags = ["t"; 11];
    let many_tags = message("order", "tags", &tags, None);
    let mut turned = checked(&message("order", "crc", &[], None));
    *turned.last_mut().unwrap() ^= 1;
    let body = [checked(&good), checked(&bad_name), turned, checked(&too_far), checked(&many_tags)].concat();
    let (code, answer) = qmq.ask(10, &body);
    let mut listed = failures(&answer);
    listed.sort();
    let expected = [("crc", 6), ("far", 1), ("name", 1), ("tags", 1)].map(|(id, code)| (id.to_owned(), code));
    assert_eq!((code, listed.as_slice()), (0, &expected[..]));
    eventually("the good one", || served.store.status().unwrap().ready == 1);
    assert_eq!(served.store.status().unwrap().metrics.published, 1);
    // A body that is no messages fails as a whole, and the connection goes on.
    assert_eq!(qmq.ask(10, &body[..body.len() - 1]), (51, vec![]));
    // Where nothing can be stored, every message is listed to be tried again, but for those that never
    // can be.
    served.store.close().unwrap();
    let (code, answer) = qmq.ask(10, &[checked(&good), checked(&bad_name)].concat());
    assert_eq!((code, failures(&answer)), (0, vec![("good".to_owned(), 6), ("name".to_owned(), 1)]));
}

#[test]
fn a_retry_that_a_consumer_sends_reaches_its_group_after_a_while() {
    let served = serve();
    let mut qmq = Qmq::to(served.server.address());
    let (retry, dead) = ("%RETRY%order%billing", "%DEAD_RETRY%order%billing");
    let body = [checked(&message(retry, "r", &[], None)), checked(&message(dead, "d", &[], None))].concat();
    assert_eq!(qmq.ask(10, &body), (0, vec![]));
    assert_eq!(served.store.status().unwrap().pending, 1, "the retry waits, the dead letter does not");
    let groups = |name: &str| served.store.groups().unwrap().iter().filter(|group| group.name == name).count();
    assert_eq!(groups("billing"), 0, "a group of users is not made by that");
    served.connect().subscribe(1, "order", "billing", 1);
    let letters = served.store.dead_letters("order", "billing", 10).unwrap();
    assert_eq!((letters.len(), letters[0].reason.as_str()), (1, "sent there by its consumer"));
}

#[test]
fn unknown_commands_are_answered_and_the_connection_goes_on() {
    let served = serve();
    let mut qmq = Qmq::to(served.server.address());
    for command in [20, 21, 24, 26, 30, 40, 100, 11, 12, 25, -1] {
        let malformed = match command {
            11 | 12 => 51,
            25 => 53,
            _ => 3,
        };
        assert_eq!(qmq.ask(command, b"anything").0, malformed, "{command}");
    }
}

#[test]
fn plain_http_says_where_and_how_the_server_is() {
    let served = serve();
    let http = served.server.http_address().unwrap();
    let address = served.server.address().to_string();
    assert_eq!(page(http, "GET /meta/address"), (200, address));
    assert_eq!(page(http, "GET /health").0, 200);
    assert_eq!(page(http, "GET /ready").0, 200);
    let query = "GET /onoffline?operation=query&clientId=c&subject=s&consumerGroup=g";
    assert_eq!(page(http, query), (200, r#"{"status":0,"message":"ON","data":null}"#.to_owned()));
    assert_eq!(page(http, &query.replace("query", "update")).0, 403);
    assert_eq!(page(http, "GET /onoffline?operation=query").0, 400);
    assert_eq!(page(http, "POST /meta/address").0, 405);
    assert_eq!(page(http, "GET /nothing").0, 404);
    assert_eq!(page(http, "nonsense").0, 400);
    let (status, metrics) = page(http, "GET /metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("# TYPE delaymq_pending_messages gauge\ndelaymq_pending_messages 0\n"), "{metrics}");
    served.store.close().unwrap();
    assert_eq!((page(http, "GET /ready").0, page(http, "GET /health").0), (503, 200));
}
