//! The bytes of the reference on QMQ's protocol, read and written.

use bytes::Bytes;

use super::ack::{AckRequest, put_ack, read_ack};
use super::message::{CREATED_KEY, FLAG_DELAY, MessageParts, put_attribute, put_message};
use super::pull::{ConsumerName, PullRequest, put_pull, read_pull};
use super::register::{
    Access, BrokerGroup, ClientType, RegisterAnswer, RegisterRequest, put_register, put_registered, read_register,
    read_registered,
};
use super::send::{Failure, SendCode, put_failures, put_sent, read_failures, read_send};
use crate::error::Result;
use crate::units::{Millis, PullOffset};
use crate::wire::frame::{Frame, Header, put_frame, read_frame};

const SEND_DELAYED: &str = "\
     0000008b0012dec10ade000a00090000000700000000000a0000000011fcac47020000018bcfe568000000018bcfe652\
     600007742e64656c617900026d310000004d000e716d715f63726561746554696d65000d313730303030303030303030\
     300017716d715f7363686564756c655265636569766554696d65000d3137303030303030363030303000016b000176";
const SEND_ALL_STORED: &str = "\
     000000140012dec10ade000000090000000700000001000a";
const SEND_ONE_READ_ONLY: &str = "\
     0000002e0012dec10ade000000090000000700000001000a00026d3100000004001042524f4b45522052454144204f4e\
     4c59";
const REGISTER: &str = "\
     0000007a0012dec10ade0023000900000000000000000023000600077375626a6563740007742e64656c6179000e636c\
     69656e7454797065436f64650001340008636c69656e744964000468404078000d636f6e73756d657247726f75700000\
     0007617070436f64650003617070000b7265717565737454797065000131";
const REGISTERED: &str = "\
     000000490012dec10ade00000009000000000000000100230000018bcfe568000007742e64656c617900000004000100\
     026431000f3132372e302e302e313a32303830310000018bcfe5680001";
const PULL_NINE: &str = "\
     000000540012dec10ade000b00090000000800000000000b0007742e64656c617900016700046840407800000032ffff\
     ffffffffffffffffffffffffffffffffffffffffffff00000000000009c400000000010001000000";
const ACK_FIRST: &str = "\
     000000370012dec10ade000c00090000000900000000000c0007742e64656c6179000167000468404078000000000000\
     0000000000000000000000";

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap()).collect()
}

fn frame_of(hex: &str) -> Frame {
    read_frame(&Bytes::from(bytes_of(hex))).unwrap()
}

fn framed(header: Header, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(&mut out, header, fill).unwrap();
    out
}

fn consumer() -> ConsumerName<'static> {
    ConsumerName { subject: "t.delay", group: "g", consumer: "h@@x" }
}

#[test]
fn a_delayed_message_is_sent() {
    let frame = frame_of(SEND_DELAYED);
    assert_eq!(frame.header, Header::request(10, 9, 7));
    let sent = read_send(&frame.body).unwrap();
    assert_eq!((sent.len(), sent[0].check), (1, 0x11fc_ac47));
    sent[0].judge().unwrap();
    let message = sent[0].message;
    assert_eq!((message.flags, message.subject, message.message_id), (FLAG_DELAY, "t.delay", "m1"));
    assert_eq!((message.created_ms, message.due()), (1_700_000_000_000, Some(Millis(1_700_000_060_000))));
    assert_eq!((message.attribute("k"), message.attribute("other")), (Some("v"), None));
    assert_eq!(message.attribute("qmq_scheduleReceiveTime"), Some("1700000060000"));
    assert_eq!(message.attributes().count(), 3);

    let mut body = Vec::new();
    let pairs = [(CREATED_KEY, "1700000000000"), ("qmq_scheduleReceiveTime", "1700000060000"), ("k", "v")];
    for (key, value) in pairs {
        put_attribute(&mut body, key, value).unwrap();
    }
    let parts = MessageParts {
        created: Millis(1_700_000_000_000),
        due: Some(Millis(1_700_000_060_000)),
        subject: "t.delay",
        message_id: "m1",
        tags: &[],
        is_opaque: false,
        body: &body,
    };
    let mut written = Vec::new();
    put_message(&mut written, &parts).unwrap();
    let again = framed(frame.header, |out| {
        put_sent(out, &written);
        Ok(())
    });
    assert_eq!(again, bytes_of(SEND_DELAYED));
}

#[test]
fn a_send_is_answered() {
    let stored = frame_of(SEND_ALL_STORED);
    assert_eq!(stored.header, Header::request(10, 9, 7).answered(0));
    assert_eq!(read_failures(&stored.body), Ok(Vec::new()));
    assert_eq!(framed(stored.header, |_| Ok(())), bytes_of(SEND_ALL_STORED));

    let refused = frame_of(SEND_ONE_READ_ONLY);
    let failures = read_failures(&refused.body).unwrap();
    let remark = "BROKER READ ONLY".to_owned();
    assert_eq!(failures, [Failure { message_id: "m1".to_owned(), code: SendCode::ReadOnly, remark }]);
    assert_eq!(framed(refused.header, |out| put_failures(out, &failures)), bytes_of(SEND_ONE_READ_ONLY));
}

#[test]
fn a_client_registers() {
    let frame = frame_of(REGISTER);
    assert_eq!(frame.header, Header::request(35, 9, 0));
    let request = RegisterRequest {
        subject: "t.delay",
        client_type: ClientType::DelayProducer,
        app_code: "app",
        client_id: "h@@x",
        group: "",
        is_new: true,
        room: "",
    };
    assert_eq!(read_register(&frame.body), Ok(request));
    assert_eq!(framed(frame.header, |out| put_register(out, &request)), bytes_of(REGISTER));

    let answered = frame_of(REGISTERED);
    let answer = RegisterAnswer {
        timestamp_ms: 1_700_000_000_000,
        subject: "t.delay".to_owned(),
        group: String::new(),
        is_online: true,
        client_type: ClientType::DelayProducer,
        groups: vec![BrokerGroup {
            name: "d1".to_owned(),
            address: "127.0.0.1:20801".to_owned(),
            updated_ms: 1_700_000_000_000,
            access: Access::ReadWrite,
        }],
    };
    assert_eq!(answered.header, frame.header.answered(0));
    assert_eq!(read_registered(&answered.body), Ok(answer.clone()));
    assert_eq!(framed(answered.header, |out| put_registered(out, &answer)), bytes_of(REGISTERED));
}

#[test]
fn a_listener_pulls() {
    let frame = frame_of(PULL_NINE);
    assert_eq!(frame.header, Header::request(11, 9, 8));
    let request = read_pull(&frame.body, frame.header.version).unwrap();
    let expected = PullRequest {
        name: consumer(),
        count: 50,
        offset: -1,
        first: -1,
        last: -1,
        timeout_ms: 2_500,
        is_broadcast: false,
        filters: Vec::new(),
    };
    assert_eq!(request, expected);
    assert_eq!((request.count_max(), request.hold_ms(), request.received()), (Some(50), Some(2_500), None));
    assert_eq!(framed(frame.header, |out| put_pull(out, &request, 9)), bytes_of(PULL_NINE));
}

#[test]
fn a_consumer_acknowledges() {
    let frame = frame_of(ACK_FIRST);
    assert_eq!(frame.header, Header::request(12, 9, 9));
    let request = AckRequest { name: consumer(), offsets: Some((PullOffset(0), PullOffset(0))), is_broadcast: false };
    assert_eq!(read_ack(&frame.body, 9), Ok(request));
    assert_eq!(framed(frame.header, |out| put_ack(out, &request, 9)), bytes_of(ACK_FIRST));
}
