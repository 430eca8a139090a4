//! What is written reads back, each error crosses whole, and arbitrary bytes are refused.

use proptest::prelude::*;

use super::administration::{Expire, GroupAt, GroupName, Listed, Listing, ROWS_MAX, Redrive, read_number};
use super::consume::{Credit, Deliver, Delivered, IN_FLIGHT_MAX, PayloadForm, Subscribe, Subscribed, put_deliver};
use super::dead_letters::{DeadLetters, Letter, LetterPayload, Letters};
use super::errors::{Attribute, ERROR_TEXT_BYTES_MAX, ErrorCode, RemoteError, Value};
use super::hello::{Hello, Welcome, put_ping};
use super::publish::{Cancelled, DueTime, PublishWriter, put_outcomes, put_receipts, read_outcomes, read_receipts};
use super::request::OwnRequest;
use super::settle::{Acknowledge, GiveBack, GivenBack, KeyRange, PutAway};
use super::status::StatusTold;
use super::{
    ACKNOWLEDGE, CANCEL, CREDIT, DEAD_LETTERS, EXPIRE, FLUSH, GIVE_BACK, GROUPS, HELLO, PING, PUBLISH, PUT_AWAY,
    REDRIVE, REMOVE_GROUP, RESET_GROUP, START_GROUP, STATUS, SUBJECTS, SUBSCRIBE, UNSUBSCRIBE,
};
use crate::error::{Error, StorageFault};
use crate::message_log::Durability;
use crate::queues::tags::{Filter, TagRule};
use crate::record::name::GroupStart;
use crate::store::{GroupListed, Receipt, SubjectListed};
use crate::units::{DueKey, Epoch, GroupNumber, Millis, ReadyNumber, Sequence, SubjectNumber};
use crate::wire::malformed::Malformed;
use crate::wire::pull::ConsumerName;
use crate::wire::reader::Reader;

fn receipt(sequence: u64) -> Receipt {
    let key = DueKey { due: Millis(1_800_000_000_123), sequence: Sequence(sequence) };
    Receipt::new([7; 16], Epoch(3), key, SubjectNumber(5), 17, &[9; 16])
}

fn name() -> GroupName<'static> {
    GroupName { subject: "orders", group: "billing" }
}

fn subscribe() -> Subscribe<'static> {
    Subscribe {
        subscription: 4,
        name: ConsumerName { subject: "orders", group: "billing", consumer: "" },
        start: GroupStart::Latest,
        is_broadcast: false,
        in_flight_max: 256,
        credit: 1_024,
        filters: vec![Filter::Tags { rule: TagRule::All, tags: vec!["a".to_owned()] }],
    }
}

fn batch() -> PublishWriter {
    let mut writer = PublishWriter::default();
    writer.push("orders", DueTime::After(5_000), b"", b"one").unwrap();
    writer.push("other", DueTime::At(Millis(9)), &[0; 5], b"").unwrap();
    writer.push("orders", DueTime::After(0), b"", b"three").unwrap();
    writer
}

/// A request of each command.
fn every_request() -> Vec<(i16, Vec<u8>)> {
    let written = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        put(&mut out);
        out
    };
    let hello = Hello { version_min: 1, version_max: 3, client: "delaymq-python 0.1.0", token: b"secret" };
    let range = KeyRange { queue: 1, first: 7, count: 3 };
    let ranges = Acknowledge { subscription: 4, ranges: vec![range, KeyRange { queue: 0, first: 0, count: 1 }] };
    let back = GiveBack { subscription: 4, messages: vec![GivenBack { queue: 0, offset: 9, delay_ms: 250 }] };
    let away = PutAway { subscription: 4, reason: "no such order", keys: vec![(0, 1), (1, 2)] };
    let listing = Listing { after: 70, count_max: 100 };
    let at = GroupAt { name: name(), start: GroupStart::Earliest };
    vec![
        (HELLO, written(&|out| hello.put(out).unwrap())),
        (PING, written(&|out| put_ping(out, b"ping").unwrap())),
        (PUBLISH, written(&|out| batch().put(out, true).unwrap())),
        (CANCEL, written(&|out| put_receipts(out, [receipt(1), receipt(2)].into_iter()).unwrap())),
        (SUBSCRIBE, written(&|out| subscribe().put(out).unwrap())),
        (CREDIT, written(&|out| Credit { subscription: 4, credit: 64 }.put(out))),
        (ACKNOWLEDGE, written(&|out| ranges.put(out).unwrap())),
        (GIVE_BACK, written(&|out| back.put(out).unwrap())),
        (PUT_AWAY, written(&|out| away.put(out).unwrap())),
        (FLUSH, 4_u32.to_be_bytes().to_vec()),
        (UNSUBSCRIBE, 4_u32.to_be_bytes().to_vec()),
        (STATUS, Vec::new()),
        (GROUPS, written(&|out| listing.put(out))),
        (SUBJECTS, written(&|out| listing.put(out))),
        (START_GROUP, written(&|out| at.put(out).unwrap())),
        (RESET_GROUP, written(&|out| at.put(out).unwrap())),
        (REMOVE_GROUP, written(&|out| name().put(out).unwrap())),
        (DEAD_LETTERS, written(&|out| DeadLetters { name: name(), listing }.put(out).unwrap())),
        (REDRIVE, written(&|out| Redrive { name: name(), count_max: u64::MAX }.put(out).unwrap())),
        (EXPIRE, written(&|out| Expire { subject: "orders", older_than_ms: 60_000 }.put(out).unwrap())),
    ]
}

#[test]
fn every_request_reads_back_and_none_is_taken_for_another() {
    let requests = every_request();
    let read: Vec<_> =
        requests.iter().map(|(command, body)| OwnRequest::read(*command, body).unwrap().unwrap()).collect();
    for (index, one) in read.iter().enumerate() {
        assert_eq!(read.iter().position(|other| other == one), Some(index));
    }
    assert!(read.contains(&OwnRequest::Subscribe(subscribe())));
    assert!(read.contains(&OwnRequest::Cancel(vec![receipt(1), receipt(2)])));
    assert!(read.contains(&OwnRequest::Ping(b"ping")));
    assert!(read.contains(&OwnRequest::Groups(Listing { after: 70, count_max: 100 })));
    assert!(read.contains(&OwnRequest::PutAway(PutAway {
        subscription: 4,
        reason: "no such order",
        keys: vec![(0, 1), (1, 2)],
    })));
    let OwnRequest::Publish(publish) = &read[2] else { panic!("{:?}", read[2]) };
    let told: Vec<_> = publish.messages.iter().map(|one| (one.subject, one.due, one.meta.len(), one.body)).collect();
    let expected: [(&str, DueTime, usize, &[u8]); 3] = [
        ("orders", DueTime::After(5_000), 0, b"one"),
        ("other", DueTime::At(Millis(9)), 5, b""),
        ("orders", DueTime::After(0), 0, b"three"),
    ];
    assert_eq!(told, expected);
    assert!(publish.wants_receipts);
    assert_eq!(OwnRequest::read(199, b""), Ok(None));
}

#[test]
fn every_prefix_of_a_request_is_refused() {
    for (command, body) in every_request() {
        if command == PING {
            continue;
        }
        for cut in 0..body.len() {
            assert!(OwnRequest::read(command, &body[..cut]).is_err(), "{command} {cut}");
        }
        let longer = [&body[..], &[0]].concat();
        assert!(OwnRequest::read(command, &longer).is_err(), "{command}");
    }
}

#[test]
fn counts_that_the_bytes_cannot_hold_are_refused_before_room_is_made() {
    let huge = [&4_u32.to_be_bytes()[..], &[0, 0, 0xff, 0xff]].concat();
    for command in [ACKNOWLEDGE, GIVE_BACK] {
        assert!(matches!(OwnRequest::read(command, &huge), Err(Malformed::Short { .. })), "{command}");
    }
    let beyond = [&4_u32.to_be_bytes()[..], &[0xff; 4]].concat();
    assert!(matches!(OwnRequest::read(ACKNOWLEDGE, &beyond), Err(Malformed::TooLarge { .. })));
    assert!(matches!(OwnRequest::read(CANCEL, &[0, 0, 0x27, 0x11]), Err(Malformed::TooLarge { .. })));
    let mut listing = Vec::new();
    Listing { after: 0, count_max: ROWS_MAX as u32 + 1 }.put(&mut listing);
    assert!(OwnRequest::read(GROUPS, &listing).is_err());
    assert!(OwnRequest::read(PING, &[0; 1_025]).is_err());
    let over = Subscribe { in_flight_max: IN_FLIGHT_MAX + 1, ..subscribe() };
    assert!(over.put(&mut Vec::new()).is_err());
    let mut none = Vec::new();
    Subscribe { in_flight_max: 0, ..subscribe() }.put(&mut none).unwrap();
    assert!(OwnRequest::read(SUBSCRIBE, &none).is_err());
}

#[test]
fn a_batch_is_filled_up_to_its_limits_and_refused_as_by_the_store() {
    let mut writer = batch();
    let before = (writer.len(), writer.bytes());
    let refused: [(&str, crate::Result<()>); 4] = [
        ("subject", writer.push("a b", DueTime::After(0), b"", b"")),
        ("body", writer.push("a", DueTime::After(0), b"", &vec![0; (4 << 20) + 1])),
        ("meta", writer.push("a", DueTime::After(0), b"x", b"")),
        ("subject", writer.push("", DueTime::After(0), b"", b"")),
    ];
    for (expected, result) in refused {
        let Err(Error::InvalidArgument { argument, .. } | Error::TooLarge { argument, .. }) = result else {
            panic!("{expected}")
        };
        assert_eq!(argument, expected);
    }
    assert_eq!((writer.len(), writer.bytes()), before);
    let large = vec![0; 3 << 20];
    writer.push("a", DueTime::After(0), b"", &large).unwrap();
    writer.push("a", DueTime::After(0), b"", &large).unwrap();
    let full = writer.push("a", DueTime::After(0), b"", &large);
    assert!(matches!(full, Err(Error::TooLarge { argument: "frame", .. })));
    let mut out = Vec::new();
    writer.put(&mut out, false).unwrap();
    assert_eq!(out.len(), writer.bytes());
    writer.clear();
    for _ in 0..10_000 {
        writer.push("a", DueTime::After(0), b"", b"").unwrap();
    }
    assert!(matches!(writer.push("a", DueTime::After(0), b"", b""), Err(Error::TooLarge { argument: "messages", .. })));
}

#[test]
fn a_payload_that_changed_on_its_way_is_noticed() {
    let mut body = Vec::new();
    batch().put(&mut body, true).unwrap();
    let last = body.len() - 1;
    body[last] ^= 1;
    let Ok(Some(OwnRequest::Publish(publish))) = OwnRequest::read(PUBLISH, &body) else { panic!() };
    let whole: Vec<bool> = publish.messages.iter().map(|one| one.check().is_ok()).collect();
    assert_eq!(whole, [true, true, false]);
    // A message that names a subject which the request does not have.
    body[1 + 4 + 8 + 7 + 4 + 1] = 9;
    assert!(OwnRequest::read(PUBLISH, &body).is_err());
}

#[test]
fn receipts_and_outcomes_read_back() {
    let receipts: Vec<Receipt> = (0..50).map(receipt).collect();
    let mut out = Vec::new();
    put_receipts(&mut out, receipts.iter().copied()).unwrap();
    assert_eq!(read_receipts(&mut Reader::new(&out)), Ok(receipts));
    out[4] = 2; // a version of receipts that is none
    assert!(read_receipts(&mut Reader::new(&out)).is_err());
    let outcomes = [Cancelled::Done, Cancelled::AlreadyDispatched, Cancelled::NotFound];
    let mut out = Vec::new();
    put_outcomes(&mut out, &outcomes).unwrap();
    assert_eq!(read_outcomes(&out), Ok(outcomes.to_vec()));
    out[4] = 3;
    assert!(read_outcomes(&out).is_err());
}

#[test]
fn both_sides_take_the_latest_version_that_they_share() {
    let hello = |version_min, version_max| Hello { version_min, version_max, client: "", token: b"" };
    assert_eq!(hello(1, 3).version_with(1, 1), Some(1));
    assert_eq!(hello(1, 3).version_with(2, 5), Some(3));
    assert_eq!(hello(2, 3).version_with(1, 1), None);
    assert_eq!(hello(1, 1).version_with(2, 2), None);
}

#[test]
fn what_a_server_tells_reads_back() {
    let welcome = Welcome {
        version: 1,
        server: "0.1.0".to_owned(),
        stream: [5; 16],
        frame_bytes_max: 8 << 20,
        messages_max: 10_000,
        body_bytes_max: 4 << 20,
        in_flight_max: IN_FLIGHT_MAX,
        now: Millis(1_800_000_000_000),
    };
    let mut out = Vec::new();
    welcome.put(&mut out).unwrap();
    assert_eq!(Welcome::read(&out), Ok(welcome));

    let subscribed = Subscribed { consumer: "host@7".to_owned(), is_new: true };
    let mut out = Vec::new();
    subscribed.put(&mut out).unwrap();
    assert_eq!(Subscribed::read(&out), Ok(subscribed));

    let told = StatusTold {
        durability: Durability::Os,
        created: true,
        closed: false,
        held: true,
        disk_full: false,
        poisoned: Some("sync failed".to_owned()),
        epoch: Epoch(7),
        pending: 1,
        ready: 2,
        accepted: Sequence(30),
        visible: Sequence(29),
        applied: Sequence(28),
        now: Millis(9),
        recovered_ms: 12,
        recovered_facts: 13,
        voided: 1,
        expired: 2,
        aside: vec!["aside/1".to_owned()],
    };
    let mut out = Vec::new();
    told.put(&mut out).unwrap();
    assert_eq!(StatusTold::read(&out), Ok(told.clone()));
    let told = StatusTold { poisoned: None, durability: Durability::Disk, ..told };
    out.clear();
    told.put(&mut out).unwrap();
    assert_eq!(StatusTold::read(&out), Ok(told));
    out[1] = 32;
    assert!(StatusTold::read(&out).is_err());
    assert_eq!(read_number(&7_u64.to_be_bytes()), Ok(7));
}

#[test]
fn lists_read_back() {
    let group = GroupListed {
        number: GroupNumber(4),
        name: "billing".to_owned(),
        subject: "orders".to_owned(),
        start: ReadyNumber(1),
        cursor: ReadyNumber(2),
        next_number: ReadyNumber(3),
        lag: 4,
        in_flight: 5,
        consumers: 6,
        dead_letters: 7,
    };
    let groups = Listed { next: 9, rows: vec![group.clone(), group] };
    let mut out = Vec::new();
    groups.put(&mut out).unwrap();
    assert_eq!(Listed::<GroupListed>::read(&out), Ok(groups));

    let subject = SubjectListed {
        number: SubjectNumber(4),
        name: "orders".to_owned(),
        ready: 3,
        next_number: ReadyNumber(8),
        groups: vec!["a".to_owned(), "b".to_owned()],
        expired: 2,
        expired_before: Millis(0),
    };
    let subjects = Listed { next: 0, rows: vec![subject] };
    let mut out = Vec::new();
    subjects.put(&mut out).unwrap();
    assert_eq!(Listed::<SubjectListed>::read(&out), Ok(subjects));

    let payload = LetterPayload { published: Millis(6), form: PayloadForm::Qmq, meta_length: 2, bytes: b"mebody" };
    let whole = Letter {
        number: ReadyNumber(1),
        sequence: Sequence(2),
        died: Millis(3),
        attempt: 4,
        reason: "why",
        damage: None,
        payload: Some(payload),
    };
    let damaged = Letter { damage: Some("its row is damaged"), payload: None, reason: "", ..whole };
    let letters = Letters { next: 2, letters: vec![whole, damaged] };
    let mut out = Vec::new();
    letters.put(&mut out).unwrap();
    assert_eq!(Letters::read(&out), Ok(letters));
}

fn delivered(payload: &[u8], form: PayloadForm) -> Delivered<'_> {
    Delivered {
        queue: 1,
        offset: 70,
        form,
        redelivered: true,
        attempt: 2,
        sequence: Sequence(11),
        due: Millis(20),
        first_due: Millis(10),
        published: Millis(5),
        subject: "orders",
        meta_length: 2,
        check: crc32fast::hash(payload),
        payload,
    }
}

#[test]
fn a_delivery_reads_back_and_damage_on_the_way_is_noticed() {
    let messages = [delivered(b"mebody", PayloadForm::Opaque), delivered(b"mewire", PayloadForm::Qmq)];
    let mut out = Vec::new();
    put_deliver(&mut out, 4, Millis(21), messages.len()).unwrap();
    for message in &messages {
        message.put(&mut out).unwrap();
    }
    let read = Deliver::read(&out).unwrap();
    assert_eq!((read.subscription, read.now, &read.messages[..]), (4, Millis(21), &messages[..]));
    assert_eq!(read.messages[0].parts(), (&b"me"[..], &b"body"[..]));
    assert!(read.messages.iter().all(Delivered::is_whole));
    let last = out.len() - 1;
    out[last] ^= 1;
    assert!(!Deliver::read(&out).unwrap().messages[1].is_whole());
    for cut in 0..out.len() {
        assert!(Deliver::read(&out[..cut]).is_err(), "{cut}");
    }
}

fn every_error() -> Vec<Error> {
    let word = "word".to_owned();
    let fault = |fault| Error::Storage { operation: "open", path: word.clone(), fault, message: word.clone() };
    let (path, expected, found) = (word.clone(), word.clone(), word.clone());
    vec![
        fault(StorageFault::NoSpace),
        fault(StorageFault::NotFound),
        fault(StorageFault::AlreadyExists),
        fault(StorageFault::PermissionDenied),
        fault(StorageFault::Io),
        fault(StorageFault::Stopped),
        Error::corrupt("log/1", 7, "a", "b"),
        Error::DamagedPayload { sequence: 3, path, offset: 7, expected, found },
        Error::MissingFile { path: word.clone(), reason: word.clone() },
        Error::NewerFormat { path: word.clone(), offset: 8, found: 9, supported: 1 },
        Error::NotAStore { path: word.clone(), found: word.clone() },
        Error::Locked { path: word.clone() },
        Error::Poisoned { reason: word.clone() },
        Error::DiskFull,
        Error::Closed,
        Error::ForkedProcess { owner: 1, caller: 2 },
        Error::InvalidArgument { argument: "body", expected: word.clone(), found: word.clone() },
        Error::TooLarge { argument: "body", limit: 4, found: 5 },
    ]
}

#[test]
fn every_error_crosses_with_its_details() {
    for error in every_error() {
        let told = RemoteError::from(&error).with(Attribute::Index, 3);
        assert_ne!(told.code, ErrorCode::Other, "{error:?}");
        let mut body = Vec::new();
        told.put(&mut body).unwrap();
        let read = RemoteError::read(told.code.number(), &body).unwrap();
        assert_eq!((&read, read.to_string()), (&told, error.to_string()));
        assert_eq!(read.detail(Attribute::Index), Some(&Value::Number(3)));
    }
    let details: Vec<String> = every_error()
        .iter()
        .map(|error| {
            let told = RemoteError::from(error);
            let names: Vec<_> = told.details.iter().map(|(attribute, _)| attribute.name()).collect();
            format!("{}({})", told.code.class(), names.join(" "))
        })
        .collect();
    // What the embedded store raises: the classes and attributes that `delaymq.errors` speaks of.
    let expected = [
        "DiskFull(path errno reason)",
        "StorageError(path errno reason)",
        "StorageError(path errno reason)",
        "PermissionDenied(path errno reason)",
        "StorageError(path errno reason)",
        "StorageError(path errno reason)",
        "Corrupt(path offset expected found)",
        "DamagedPayload(path offset expected found sequence)",
        "MissingFile(path reason expected found)",
        "NewerFormat(path offset expected found)",
        "NotAStore(path expected found)",
        "Locked(path expected found)",
        "Poisoned(reason)",
        "DiskFull()",
        "Closed()",
        "ForkedProcess(owner caller)",
        "InvalidArgument(argument expected found)",
        "TooLarge(argument limit found)",
    ];
    assert_eq!(details, expected);
    let malformed = Malformed::Short { field: "subject", needed: 4, left: 2 };
    let told = RemoteError::from(&malformed);
    assert_eq!(told.code, ErrorCode::Malformed);
    assert_eq!(told.detail(Attribute::Argument), Some(&Value::Text("subject".to_owned())));
}

#[test]
fn numbers_of_errors_are_their_own() {
    for code in ErrorCode::ALL {
        assert_eq!(ErrorCode::of(code.number()), Some(*code));
        assert!(code.number() >= 1_000, "{code:?} could be a code of QMQ");
    }
    assert_eq!(ErrorCode::of(999), None);
    let later = RemoteError::read(4_242, &[0, 0, 0, 0, 0]).unwrap();
    assert_eq!(later.code, ErrorCode::Other);
    // An attribute of a later release is let be.
    let odd = RemoteError::read(1_001, &[0, 0, 0, 0, 1, 200, 1, 0, 0, 0, 0, 0, 0, 0, 9]).unwrap();
    assert!(odd.details.is_empty());
}

#[test]
fn the_document_has_every_error_and_every_command() {
    let document = include_str!("../../../../../docs/protocol.md");
    for code in ErrorCode::ALL {
        let row = format!(
            "| {} | {code:?} | `{}` | {}",
            code.number(),
            code.class(),
            if code.is_passing() { "yes" } else { "no" }
        );
        assert!(document.contains(&row), "{row}");
    }
    for (command, word) in [
        (HELLO, "HELLO"),
        (PING, "PING"),
        (PUBLISH, "PUBLISH"),
        (CANCEL, "CANCEL"),
        (SUBSCRIBE, "SUBSCRIBE"),
        (CREDIT, "CREDIT"),
        (super::DELIVER, "DELIVER"),
        (ACKNOWLEDGE, "ACKNOWLEDGE"),
        (GIVE_BACK, "GIVE_BACK"),
        (PUT_AWAY, "PUT_AWAY"),
        (FLUSH, "FLUSH"),
        (UNSUBSCRIBE, "UNSUBSCRIBE"),
        (STATUS, "STATUS"),
        (GROUPS, "GROUPS"),
        (SUBJECTS, "SUBJECTS"),
        (START_GROUP, "START_GROUP"),
        (RESET_GROUP, "RESET_GROUP"),
        (REMOVE_GROUP, "REMOVE_GROUP"),
        (DEAD_LETTERS, "DEAD_LETTERS"),
        (REDRIVE, "REDRIVE"),
        (EXPIRE, "EXPIRE"),
    ] {
        assert!(document.contains(&format!(" {command} {word}")), "{command} {word}");
    }
}

#[test]
fn long_words_of_an_error_are_cut_between_letters() {
    let long = "ä".repeat(ERROR_TEXT_BYTES_MAX);
    let told = RemoteError::new(ErrorCode::Busy, &long).with(Attribute::Reason, long.as_str());
    let mut body = Vec::new();
    told.put(&mut body).unwrap();
    let read = RemoteError::read(told.code.number(), &body).unwrap();
    assert_eq!(read.words, "ä".repeat(ERROR_TEXT_BYTES_MAX / 2));
    assert!(read.code.is_passing());
    assert!(!ErrorCode::InvalidArgument.is_passing());
}

proptest! {
    #[test]
    fn arbitrary_bodies_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), command in 195_i16..235) {
        let _ = OwnRequest::read(command, &bytes);
        let _ = RemoteError::read(command, &bytes);
        let _ = Welcome::read(&bytes);
        let _ = Subscribed::read(&bytes);
        let _ = Deliver::read(&bytes);
        let _ = StatusTold::read(&bytes);
        let _ = Listed::<GroupListed>::read(&bytes);
        let _ = Listed::<SubjectListed>::read(&bytes);
        let _ = Letters::read(&bytes);
        let _ = read_outcomes(&bytes);
        let _ = read_number(&bytes);
    }

    #[test]
    fn changed_requests_never_panic(which in 0_usize..20, at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let (command, mut body) = every_request().swap_remove(which);
        if !body.is_empty() {
            let at = at.index(body.len());
            body[at] = with;
            let _ = OwnRequest::read(command, &body);
        }
    }

    #[test]
    fn acknowledged_ranges_read_back(ranges in prop::collection::vec((0_u8..2, 0_u64..1000, 1_u64..1000), 0..50)) {
        let ranges = ranges.into_iter().map(|(queue, first, count)| KeyRange { queue, first, count }).collect();
        let request = Acknowledge { subscription: 1, ranges };
        let mut body = Vec::new();
        request.put(&mut body).unwrap();
        prop_assert_eq!(OwnRequest::read(ACKNOWLEDGE, &body), Ok(Some(OwnRequest::Acknowledge(request))));
    }
}
