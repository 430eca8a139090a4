//! Written bytes read back equal in every version, and arbitrary bytes are refused without a panic.

use bytes::BufMut;
use proptest::prelude::*;

use super::ack::{AckRequest, put_ack, read_ack};
use super::consume_manage::{ConsumeManage, put_consume_manage, read_consume_manage};
use super::message::{FLAG_TAGS, MessageParts, WireMessage, put_attribute, put_message, put_opaque_body};
use super::pull::{ConsumerName, PullRequest, put_pull, put_pulled, read_pull, read_pulled};
use super::register::{ClientType, RegisterRequest, put_register, read_register, read_registered};
use super::send::{SendCode, put_sent, read_failures, read_send};
use crate::queues::tags::{Filter, TagRule};
use crate::record::limits::BODY_BYTES_MAX;
use crate::store::StartAt;
use crate::units::{Millis, PullOffset};
use crate::wire::malformed::Malformed;
use crate::wire::reader::Reader;

fn message_of(subject: &str, message_id: &str, tags: &[&str], body: &[u8]) -> Vec<u8> {
    let parts =
        MessageParts { created: Millis(5), due: Some(Millis(9)), subject, message_id, tags, is_opaque: false, body };
    let mut out = Vec::new();
    put_message(&mut out, &parts).unwrap();
    out
}

fn attributes_of(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value) in pairs {
        put_attribute(&mut body, key, value).unwrap();
    }
    body
}

/// The verdict on a message: its code and the start of the remark, or `None` if it is stored.
fn judged(bytes: &[u8]) -> Option<(SendCode, String)> {
    let mut request = Vec::new();
    put_sent(&mut request, bytes);
    let sent = read_send(&request).unwrap();
    sent[0].judge().err().map(|failure| (failure.code, failure.remark))
}

#[test]
fn what_can_never_be_stored_is_refused_for_good_and_by_name() {
    assert_eq!(judged(&message_of("s", "m", &["t"; 10], b"")), None);
    assert_eq!(judged(&message_of("%RETRY%s%g", "m", &[], b"")), None);
    let long = "i".repeat(101);
    let cases: [(&str, Vec<u8>); 6] = [
        ("subject", message_of("", "m", &[], b"")),
        ("subject", message_of("a/b", "m", &[], b"")),
        ("subject", message_of("%RETRY%s", "m", &[], b"")),
        ("message_id", message_of("s", &long, &[], b"")),
        ("message_id", message_of("s", "", &[], b"")),
        ("attributes", message_of("s", "m", &[], b"\x00\x05abc")),
    ];
    for (argument, bytes) in cases {
        let (code, remark) = judged(&bytes).unwrap();
        assert_eq!(code, SendCode::Refused, "{remark}");
        assert!(remark.starts_with(argument), "{remark}");
    }
}

#[test]
fn eleven_tags_and_a_body_one_over_are_refused() {
    let mut eleven = vec![FLAG_TAGS];
    eleven.put_i64(1);
    eleven.put_i64(1);
    for text in ["s", "m"] {
        crate::wire::fields::put_text(&mut eleven, "x", text).unwrap();
    }
    eleven.put_u8(11);
    for _ in 0..11 {
        crate::wire::fields::put_text(&mut eleven, "x", "t").unwrap();
    }
    eleven.put_i32(0);
    assert_eq!(judged(&eleven).unwrap().0, SendCode::Refused);

    let parts = |body: usize| {
        let mut out = message_of("s", "m", &[], b"");
        out.truncate(out.len() - 4);
        out.put_u32(body as u32);
        out.resize(out.len() + body, 0);
        out
    };
    // Zeros are empty keys and values, so both bodies are attributes.
    assert_eq!(judged(&parts(BODY_BYTES_MAX)), None);
    let (code, remark) = judged(&parts(BODY_BYTES_MAX + 4)).unwrap();
    assert_eq!((code, remark.starts_with("body is too large")), (SendCode::Refused, true));
}

#[test]
fn a_wrong_check_may_be_tried_again() {
    let mut request = Vec::new();
    put_sent(&mut request, &message_of("s", "m", &[], b""));
    request[7] ^= 1;
    let sent = read_send(&request).unwrap();
    let failure = sent[0].judge().unwrap_err();
    assert_eq!((failure.code, failure.message_id.as_str()), (SendCode::StoreError, "m"));
    assert!(failure.remark.starts_with("check:"), "{}", failure.remark);
}

#[test]
fn a_batch_over_the_limit_is_refused_before_anything_is_stored() {
    let message = message_of("s", "m", &[], b"");
    let mut request = Vec::new();
    for _ in 0..10_000 {
        put_sent(&mut request, &message);
    }
    assert_eq!(read_send(&request).unwrap().len(), 10_000);
    put_sent(&mut request, &message);
    assert!(matches!(read_send(&request), Err(Malformed::TooLarge { field: "messages", .. })));
}

#[test]
fn a_client_before_tags_gets_messages_without_them() {
    let bytes = message_of("s", "m", &["one", "two"], &attributes_of(&[("k", "v")]));
    let message = WireMessage::read_whole(&bytes).unwrap();
    assert_eq!(message.tags().collect::<Vec<_>>(), ["one", "two"]);
    let (mut new, mut old) = (Vec::new(), Vec::new());
    message.put_for(&mut new, 8);
    message.put_for(&mut old, 7);
    assert_eq!(new, bytes);
    assert_eq!(old, [&bytes[..23], &bytes[34..]].concat());
    assert_eq!(old[0] & FLAG_TAGS, FLAG_TAGS);
    let mut plain = Vec::new();
    let untagged = message_of("s", "m", &[], b"");
    WireMessage::read_whole(&untagged).unwrap().put_for(&mut plain, 7);
    assert_eq!(plain, untagged);
}

#[test]
fn an_opaque_body_is_attributes_and_any_bytes() {
    let mut body = Vec::new();
    put_opaque_body(&mut body, &[("k", b"\xff"), ("l", b"")], b"rest\x00").unwrap();
    let parts = MessageParts {
        created: Millis(5),
        due: None,
        subject: "s",
        message_id: "m",
        tags: &[],
        is_opaque: true,
        body: &body,
    };
    let mut bytes = Vec::new();
    put_message(&mut bytes, &parts).unwrap();
    let message = WireMessage::read_whole(&bytes).unwrap();
    let opaque = message.opaque_body().unwrap();
    assert_eq!(opaque.attributes().collect::<Vec<_>>(), [("k", &b"\xff"[..]), ("l", b"")]);
    assert_eq!((opaque.bytes, message.due(), message.attributes().count()), (&b"rest\x00"[..], None, 0));
    assert_eq!(judged(&bytes), None);
    bytes[0] &= !8;
    assert!(WireMessage::read_whole(&bytes).unwrap().opaque_body().is_err());
    assert_eq!(judged(&bytes).unwrap().0, SendCode::Refused);
}

fn pull(filters: Vec<Filter>) -> PullRequest<'static> {
    PullRequest {
        name: ConsumerName { subject: "%RETRY%s%g", group: "g", consumer: "c" },
        count: 20_000,
        offset: -1,
        first: 3,
        last: 7,
        timeout_ms: 400_000,
        is_broadcast: true,
        filters,
    }
}

#[test]
fn each_version_of_a_pull_has_its_filters() {
    let tags = |rule| Filter::Tags { rule, tags: vec!["a".to_owned(), "b".to_owned()] };
    let part = Filter::SubEnvironment { environment: "e".to_owned(), part: "p".to_owned() };
    let good = [
        (7, vec![]),
        (8, vec![]),
        (8, vec![tags(TagRule::Any)]),
        (9, vec![]),
        (9, vec![tags(TagRule::All), part.clone()]),
    ];
    for (version, filters) in good {
        let request = pull(filters);
        let mut body = Vec::new();
        put_pull(&mut body, &request, version).unwrap();
        assert_eq!(read_pull(&body, version), Ok(request));
    }
    for (version, filters) in [(7, vec![tags(TagRule::Any)]), (8, vec![part])] {
        assert!(put_pull(&mut Vec::new(), &pull(filters), version).is_err(), "{version}");
    }
}

#[test]
fn filters_ask_for_what_a_message_may_have_and_for_so_much_together() {
    let tags = |tags: Vec<String>| Filter::Tags { rule: TagRule::Any, tags };
    let part = |environment: usize, part: usize| Filter::SubEnvironment {
        environment: "e".repeat(environment),
        part: "p".repeat(part),
    };
    // 32 KiB is 128 words of 255 bytes and one of 128.
    let all = |last: usize| {
        let words = |count| tags(vec!["x".repeat(255); count]);
        vec![words(120), words(6), part(255, 255), tags(vec!["y".repeat(last)])]
    };
    let good = [vec![tags(vec!["x".repeat(255)])], vec![part(255, 255)], all(128)];
    for filters in good {
        let request = pull(filters);
        let mut body = Vec::new();
        put_pull(&mut body, &request, 9).unwrap();
        assert_eq!(read_pull(&body, 9), Ok(request));
    }
    let over = [vec![tags(vec!["x".repeat(256)])], vec![part(256, 0)], vec![part(0, 256)], all(129)];
    for filters in over {
        let mut body = Vec::new();
        assert!(put_pull(&mut body, &pull(filters.clone()), 9).is_err());
        // The same, in the layout of the wire.
        let mut body = Vec::new();
        put_pull(&mut body, &pull(Vec::new()), 7).unwrap();
        body.put_u32(filters.len() as u32);
        for filter in &filters {
            match filter {
                Filter::Tags { tags, .. } => {
                    body.put_slice(&[0, 1, 0, 1, tags.len() as u8]);
                }
                Filter::SubEnvironment { .. } => body.put_slice(&[0, 2]),
                Filter::Attribute { .. } => unreachable!("QMQ has no such filter"),
            }
            for word in filter.words() {
                body.put_u16(word.len() as u16);
                body.put_slice(word);
            }
        }
        assert!(matches!(read_pull(&body, 9), Err(Malformed::TooLarge { .. })), "{filters:?}");
    }
    let one = vec![tags(vec!["x".repeat(256)])];
    assert!(put_pull(&mut Vec::new(), &pull(one), 8).is_err());
    let filter = all(128).pop().unwrap();
    assert!(filter.memory_bytes() > 128 && tags(vec![String::new(); 127]).memory_bytes() > 127 * 24);
}

#[test]
fn a_pull_asks_for_no_more_than_it_may_have() {
    let mut request = pull(Vec::new());
    assert_eq!((request.count_max(), request.hold_ms()), (Some(10_000), Some(300_000)));
    assert_eq!(request.received(), Some(PullOffset(7)));
    (request.count, request.timeout_ms, request.last) = (0, 0, -1);
    assert_eq!((request.count_max(), request.hold_ms(), request.received()), (None, None, None));
    (request.count, request.timeout_ms) = (-5, i64::MIN);
    assert_eq!((request.count_max(), request.hold_ms()), (None, None));
    assert!(request.name.is_usable());
    request.name.group = "a/b";
    assert!(!request.name.is_usable());
    request.name.group = "";
    assert!(!request.name.is_usable());
}

#[test]
fn filters_that_nobody_knows_are_refused() {
    let mut plain = Vec::new();
    put_pull(&mut plain, &pull(Vec::new()), 7).unwrap();
    for (tail, version) in [
        (&[0, 0, 0, 1, 0, 3][..], 9),          // a type of 3
        (&[0, 0, 0, 1, 0, 1, 0, 3, 0][..], 9), // a rule of 3
        (&[0, 0, 0, 17][..], 9),               // too many
        (&[0xff, 0xff, 0xff, 0xff][..], 9),    // a negative count
        (&[0, 1, 0xff][..], 8),                // a negative count of tags
        (&[0, 0, 0, 0, 0][..], 8),             // a byte too many
    ] {
        assert!(read_pull(&[&plain, tail].concat(), version).is_err(), "{tail:?}");
    }
}

#[test]
fn an_acknowledgement_has_a_range_or_none() {
    let name = ConsumerName { subject: "s", group: "g", consumer: "c" };
    for version in [4, 7, 8, 9] {
        for offsets in [None, Some((PullOffset(2), PullOffset(2))), Some((PullOffset(0), PullOffset(1 << 40)))] {
            let request = AckRequest { name, offsets, is_broadcast: version >= 8 };
            let mut body = Vec::new();
            put_ack(&mut body, &request, version).unwrap();
            assert_eq!(read_ack(&body, version), Ok(request));
        }
    }
    let mut body = Vec::new();
    name.put(&mut body).unwrap();
    body.put_i64(5);
    let before = body.len();
    body.put_i64(4);
    let backwards = Some((PullOffset(5), PullOffset(4)));
    assert_eq!(read_ack(&body, 7).map(|request| request.offsets), Ok(backwards), "for its consumer's log to judge");
    body.truncate(before);
    body.put_i64(-4);
    assert_eq!(read_ack(&body, 7).map(|request| request.offsets), Ok(None));
}

#[test]
fn a_group_is_moved_or_let_be() {
    for start in [None, Some(StartAt::Latest), Some(StartAt::Earliest)] {
        let request = ConsumeManage { subject: "s", group: "g", start };
        let mut body = Vec::new();
        put_consume_manage(&mut body, &request).unwrap();
        assert_eq!(read_consume_manage(&body), Ok(request));
    }
}

#[test]
fn a_registration_is_read_in_any_order_of_its_keys() {
    let mut body = Vec::new();
    body.put_i16(4);
    for (key, value) in [("requestType", "2"), ("unknown", "x"), ("consumerGroup", "g"), ("subject", "s")] {
        put_attribute(&mut body, key, value).unwrap();
    }
    let request = read_register(&body).unwrap();
    assert_eq!((request.subject, request.group, request.is_new), ("s", "g", false));
    assert_eq!((request.client_type, request.client_id), (ClientType::Other, ""));
    for (key, value) in [("clientTypeCode", "5"), ("clientTypeCode", "x"), ("requestType", "")] {
        let mut body = Vec::new();
        body.put_i16(1);
        put_attribute(&mut body, key, value).unwrap();
        assert!(read_register(&body).is_err(), "{key}={value}");
    }
    assert!(read_register(&[0xff, 0xff]).is_err());
    assert!(read_register(&[0x7f, 0xff]).is_err());
}

#[test]
fn of_two_pairs_of_one_name_the_last_counts_and_the_first_is_not_judged() {
    let mut body = Vec::new();
    body.put_i16(4);
    for (key, value) in [("clientTypeCode", "9"), ("requestType", "x"), ("clientTypeCode", "2"), ("requestType", "2")] {
        put_attribute(&mut body, key, value).unwrap();
    }
    let request = read_register(&body).unwrap();
    assert_eq!((request.client_type, request.is_new), (ClientType::Consumer, false));
}

#[test]
fn every_prefix_of_a_request_is_refused() {
    let mut send = Vec::new();
    put_sent(&mut send, &message_of("s", "m", &["t"], &attributes_of(&[("k", "v")])));
    let mut asked = Vec::new();
    put_pull(&mut asked, &pull(vec![Filter::Tags { rule: TagRule::All, tags: vec!["a".to_owned()] }]), 9).unwrap();
    for cut in 1..send.len() {
        assert!(read_send(&send[..cut]).is_err(), "{cut}");
    }
    for cut in 0..asked.len() {
        assert!(read_pull(&asked[..cut], 9).is_err(), "{cut}");
    }
}

proptest! {
    #[test]
    fn messages_read_back_in_order(
        sent in prop::collection::vec(
            ("[a-z]{1,5}", "[a-z0-9]{1,5}", prop::collection::vec("[a-z]{1,3}", 0..4), "\\PC{0,20}", any::<bool>()),
            0..6,
        ),
    ) {
        let mut request = Vec::new();
        let mut answer = Vec::new();
        put_pulled(&mut answer, PullOffset(70));
        for (subject, message_id, tags, value, later) in &sent {
            let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
            let body = attributes_of(&[("key", value)]);
            let due = later.then_some(Millis(77));
            let parts = MessageParts { created: Millis(5), due, subject, message_id, tags: &tags, is_opaque: false, body: &body };
            let mut bytes = Vec::new();
            put_message(&mut bytes, &parts).unwrap();
            put_sent(&mut request, &bytes);
            WireMessage::read_whole(&bytes).unwrap().put_for(&mut answer, 9);
        }
        let read = read_send(&request).unwrap();
        let (first, pulled) = read_pulled(&answer).unwrap();
        prop_assert_eq!((read.len(), pulled.len(), first), (sent.len(), sent.len(), PullOffset(70)));
        for ((one, (subject, message_id, tags, value, later)), again) in read.iter().zip(&sent).zip(&pulled) {
            prop_assert_eq!(one.judge(), Ok(()));
            prop_assert_eq!(&one.message, again);
            prop_assert_eq!((one.message.subject, one.message.message_id), (subject.as_str(), message_id.as_str()));
            prop_assert_eq!(one.message.tags().collect::<Vec<_>>(), tags.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert_eq!(one.message.attribute("key"), Some(value.as_str()));
            prop_assert_eq!(one.message.due(), later.then_some(Millis(77)));
        }
    }

    #[test]
    fn registrations_read_back(
        (subject, app_code, client_id, group, room) in ("\\PC{0,9}", "\\PC{0,9}", "\\PC{0,9}", "\\PC{0,9}", "\\PC{0,9}"),
        kind in 1_u8..5,
        is_new in any::<bool>(),
    ) {
        let request = RegisterRequest {
            subject: &subject,
            client_type: ClientType::of(kind).unwrap(),
            app_code: &app_code,
            client_id: &client_id,
            group: &group,
            is_new,
            room: &room,
        };
        let mut body = Vec::new();
        put_register(&mut body, &request).unwrap();
        prop_assert_eq!(read_register(&body), Ok(request));
    }

    #[test]
    fn arbitrary_bodies_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), version in 0_i16..11) {
        let _ = read_send(&bytes).map(|sent| sent.iter().all(|one| one.judge().is_ok()));
        let _ = read_failures(&bytes);
        let _ = read_pull(&bytes, version);
        let _ = read_pulled(&bytes);
        let _ = read_ack(&bytes, version);
        let _ = read_consume_manage(&bytes);
        let _ = read_register(&bytes);
        let _ = read_registered(&bytes);
        if let Ok(message) = WireMessage::read(&mut Reader::new(&bytes)) {
            let _ = (message.tags().count(), message.attributes().count(), message.opaque_body().is_ok());
            message.put_for(&mut Vec::new(), version);
        }
    }

    #[test]
    fn a_changed_byte_never_passes_unnoticed(at in 0_usize..100, with in 1_u8..=255) {
        let bytes = message_of("subject", "m1", &["t"], &attributes_of(&[("k", "v")]));
        let mut request = Vec::new();
        put_sent(&mut request, &bytes);
        let at = at % request.len();
        request[at] ^= with;
        let passes = read_send(&request).is_ok_and(|sent| sent.iter().all(|one| one.judge().is_ok()));
        prop_assert!(!passes);
    }
}

#[test]
fn more_groups_or_messages_than_an_answer_may_have_are_refused_before_they_are_read() {
    let mut registered = Vec::new();
    registered.put_i64(1);
    for name in ["s", "g"] {
        registered.put_u16(name.len() as u16);
        registered.put_slice(name.as_bytes());
    }
    registered.put_slice(&[0, 1]);
    registered.put_u16(1_025);
    let refused = read_registered(&registered).unwrap_err();
    assert_eq!(refused, Malformed::TooLarge { field: "groups", limit: 1_024, found: 1_025 });
    let (message, most) = (message_of("s", "m", &[], b""), u64::from(crate::wire::qmq::pull::PULL_COUNT_MAX));
    let mut pulled = Vec::new();
    put_pulled(&mut pulled, PullOffset(7));
    for _ in 0..most {
        pulled.extend_from_slice(&message);
    }
    assert_eq!(read_pulled(&pulled).map(|(first, messages)| (first, messages.len() as u64)), Ok((PullOffset(7), most)));
    pulled.extend_from_slice(&message);
    let refused = read_pulled(&pulled).unwrap_err();
    assert_eq!(refused, Malformed::TooLarge { field: "messages", limit: most, found: most + 1 });
}

#[test]
fn a_consumer_is_usable_where_none_of_its_three_names_is_empty_or_holds_what_qmq_refuses() {
    let of = |subject, group, consumer| ConsumerName { subject, group, consumer }.is_usable();
    assert!(of("s", "g", "c"));
    for bad in ["", "a/b", "a\rb", "a\nb"] {
        assert!(!of(bad, "g", "c") && !of("s", bad, "c") && !of("s", "g", bad), "{bad:?}");
    }
}
