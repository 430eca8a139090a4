//! Written requests and answers read back equal, each error keeps its details, and arbitrary bytes are refused.

#[cfg(test)]
pub(super) mod golden;
#[cfg(test)]
pub(super) mod samples;

use proptest::prelude::*;

use super::administration::{Listed, Listing, ROWS_MAX, read_number};
use super::clock::ClockTold;
use super::consume::{Deliver, Delivered, IN_FLIGHT_MAX, PayloadForm, Subscribe, Subscribed, put_deliver};
use super::dead_letters::Letters;
use super::errors::{Attribute, ERROR_TEXT_BYTES_MAX, ErrorCode, RemoteError, Value};
use super::forecast::ForecastTold;
use super::hello::{Hello, Welcome};
use super::load::{LoadAsked, LoadTold};
use super::moves::{Moved, put_moved, put_moves, read_moved};
use super::pending::{CountsTold, PendingTold, read_fates};
use super::proof::Proof;
use super::publish::{Cancelled, DueTime, put_outcomes, put_receipts, read_outcomes, read_receipts};
use super::recurring::SeriesTold;
use super::request::OwnRequest;
use super::settle::{Acknowledge, KeyRange, PutAway};
use super::status::StatusTold;
use super::terms::{KeyAsked, TermsAsked, TermsWriter, put_key_move};
use super::{ACKNOWLEDGE, CANCEL, COMMANDS, GIVE_BACK, GROUPS, PING, PUBLISH, PUT_AWAY, SUBSCRIBE};
use crate::clock::Hold;
use crate::clock::report::ClockReport;
use crate::error::Error;
use crate::message_log::Durability;
use crate::record::adopt::LOAD_RUNS_MAX;
use crate::store::{ConsumerListed, GroupListed, Receipt, SubjectListed};
use crate::units::Millis;
use crate::wire::malformed::Malformed;
use crate::wire::reader::Reader;
use samples::{
    FATES, LOAD_TOLD, ORDER_17, STEPPED, TERMS, batch, clock_told, consumers, counts_told, delivered, every_answer,
    every_error, every_request, forecast_told, groups, letters, load_asked, moves, pending_told, receipt, series_told,
    status, subjects, subscribe, terms, welcome,
};

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
fn every_command_has_a_request_which_is_written_as_it_was_read() {
    let requests = every_request();
    for (command, body) in &requests {
        let mut written = Vec::new();
        OwnRequest::read(*command, body).unwrap().unwrap().put(&mut written).unwrap();
        assert_eq!(&written, body, "{command}");
    }
    for (command, name) in COMMANDS {
        assert!(requests.iter().any(|(known, _)| *known == command), "{name}");
    }
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
fn keys_of_queues_that_are_none_and_ranges_without_an_end_are_refused() {
    let refused = |queue: u32, first: u64, count: u64| {
        let mut body = Vec::new();
        Acknowledge { subscription: 1, ranges: vec![KeyRange { queue, first, count }] }.put(&mut body).unwrap();
        OwnRequest::read(ACKNOWLEDGE, &body).is_err()
    };
    assert_eq!([refused(0, 0, 1), refused(1, 0, u64::MAX), refused(0, u64::MAX - 1, 1)], [false; 3]);
    assert_eq!([refused(2, 0, 1), refused(19_999, 0, 1)], [false; 2], "of a later subject");
    assert_eq!([refused(20_000, 0, 1), refused(u32::MAX, 0, 1)], [true; 2]);
    assert_eq!([refused(0, 0, 0), refused(0, 2, u64::MAX - 1)], [true; 2]);
    let mut away = Vec::new();
    PutAway { subscription: 1, reason: "", keys: vec![(20_000, 0)] }.put(&mut away).unwrap();
    assert!(OwnRequest::read(PUT_AWAY, &away).is_err());
    let longer = PutAway { subscription: 1, reason: &"x".repeat(1_025), keys: Vec::new() };
    assert!(longer.put(&mut Vec::new()).is_err());
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
    // A message with the index of a subject that the request does not have.
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
fn what_was_moved_reads_back() {
    let moved = [Moved::Done(receipt(9)), Moved::AlreadyDispatched, Moved::NotFound, Moved::Done(receipt(10))];
    let mut out = Vec::new();
    put_moved(&mut out, &moved).unwrap();
    assert_eq!(read_moved(&out), Ok(moved.to_vec()));
    for cut in 0..out.len() {
        assert!(read_moved(&out[..cut]).is_err(), "{cut}");
    }
    for (at, byte) in [(4, 3), (5, 2), (3, 5)] {
        let mut other = out.clone();
        other[at] = byte;
        assert!(read_moved(&other).is_err(), "{at}");
    }
    let mut body = Vec::new();
    put_moves(&mut body, &moves()).unwrap();
    assert_eq!(OwnRequest::read(super::MOVE, &body), Ok(Some(OwnRequest::Move(moves().to_vec()))));
    for (at, byte) in [(4, 2), (13, 2), (3, 3)] {
        let mut other = body.clone();
        other[at] = byte;
        assert!(OwnRequest::read(super::MOVE, &other).is_err(), "{at}");
    }
    assert!(matches!(OwnRequest::read(super::MOVE, &[0, 0, 0x27, 0x11]), Err(Malformed::TooLarge { .. })));
}

#[test]
fn terms_and_what_is_asked_by_key_read_back() {
    let mut body = Vec::new();
    terms().put(&mut body, &batch(), true).unwrap();
    let Ok(Some(OwnRequest::PublishOnTerms(read))) = OwnRequest::read(super::PUBLISH_ON_TERMS, &body) else {
        panic!("it is one")
    };
    assert_eq!((read.terms, read.publish.messages.len()), (TERMS.to_vec(), 3));
    let at = body.len() - 29;
    // The first place after the last message, no flag, an unknown flag, an unknown policy, repeated places, an unknown
    // kind of expiry, and what is to happen then.
    let unknown = [(at + 19, 2), (at + 20, 0), (at + 20, 3)];
    let wrong = [(at + 3, 3), (at + 4, 0), (at + 4, 8), (at + 5, 3), (at + 13, 0), (at + 4, 2)];
    for (at, byte) in wrong.into_iter().chain(unknown) {
        let mut other = body.clone();
        other[at] = byte;
        assert!(OwnRequest::read(super::PUBLISH_ON_TERMS, &other).is_err(), "{at} {byte}");
    }
    let mut writer = TermsWriter::default();
    writer.push(&TermsAsked { key: None, deduplicates: false, ..TERMS[0] }).unwrap();
    assert!(writer.is_empty());
    assert!(writer.push(&TermsAsked { key: Some("a b"), ..TERMS[0] }).is_err());
    let mut asked = Vec::new();
    put_key_move(&mut asked, &ORDER_17, DueTime::At(Millis(9))).unwrap();
    let read = OwnRequest::read(super::MOVE_KEY, &asked);
    assert_eq!(read, Ok(Some(OwnRequest::MoveKey(ORDER_17, DueTime::At(Millis(9)), None))));
    let kind = asked.len() - 9;
    asked[kind] = 2;
    assert!(OwnRequest::read(super::MOVE_KEY, &asked).is_err());
    assert!(KeyAsked { key: "", ..ORDER_17 }.put(&mut Vec::new()).is_err());
}

#[test]
fn a_load_names_each_run_and_no_more_of_them_than_one_fact_adopts() {
    let mut out = Vec::new();
    load_asked().put(&mut out).unwrap();
    assert_eq!(OwnRequest::read(super::LOAD, &out), Ok(Some(OwnRequest::Load(load_asked()))));
    for cut in 0..out.len() {
        assert!(OwnRequest::read(super::LOAD, &out[..cut]).is_err(), "{cut}");
    }
    let runs = vec![load_asked().runs[0]; LOAD_RUNS_MAX + 1];
    let most = LoadAsked { job: "nightly", runs: runs[1..].to_vec() };
    out.clear();
    most.put(&mut out).unwrap();
    assert_eq!(OwnRequest::read(super::LOAD, &out), Ok(Some(OwnRequest::Load(most))));
    assert!(LoadAsked { job: "nightly", runs }.put(&mut Vec::new()).is_err());
    assert!(LoadAsked { job: "a b", runs: Vec::new() }.put(&mut Vec::new()).is_err());
    let count = 2 + "nightly".len() + 2;
    out[count] = 0x11; // so many would be 4,352
    assert!(OwnRequest::read(super::LOAD, &out).is_err());
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
fn a_clock_reads_back_with_its_hold_and_cut_nowhere() {
    let stepped = Hold::SteppedAhead { by_ms: 3_600_000, while_closed: false };
    let behind = Hold::BehindFloor { floor: Millis(1_900_000_000_000) };
    let free = ClockReport { held: None, is_synchronised: true, ..clock_told(stepped, None).0 };
    let all = [clock_told(STEPPED, None), clock_told(stepped, Some(0)), clock_told(behind, None), ClockTold(free)];
    for told in all {
        let mut out = Vec::new();
        told.put(&mut out);
        assert_eq!(ClockTold::read(&out), Ok(told));
        assert!((0..out.len()).all(|cut| ClockTold::read(&out[..cut]).is_err()));
    }
}

#[test]
fn what_a_server_tells_reads_back() {
    let answers = every_answer();
    assert_eq!(Welcome::read(&answers[1]), Ok(welcome()));
    assert_eq!(StatusTold::read(&answers[2]), Ok(status()));
    assert_eq!(Listed::<GroupListed>::read(&answers[3]), Ok(groups()));
    assert_eq!(Listed::<SubjectListed>::read(&answers[4]), Ok(subjects()));
    assert_eq!(Letters::read(&answers[5]), Ok(letters()));
    assert_eq!(Listed::<ConsumerListed>::read(&answers[7]), Ok(consumers()));
    assert_eq!(PendingTold::read(&answers[8]), Ok(pending_told()));
    assert_eq!(CountsTold::read(&answers[9]), Ok(counts_told()));
    assert_eq!(ForecastTold::read(&answers[11]), Ok(forecast_told()));
    assert_eq!(SeriesTold::read(&answers[12]), Ok(series_told()));
    assert_eq!(LoadTold::read(&answers[13]), Ok(LOAD_TOLD));
    assert_eq!(ClockTold::read(&answers[14]), Ok(clock_told(STEPPED, Some(60_000))));
    assert_eq!(read_fates(&answers[10]), Ok(FATES.to_vec()));
    assert_eq!(read_number(&7_u64.to_be_bytes()), Ok(7));

    let subscribed = Subscribed { consumer: "host@7".to_owned(), is_new: true };
    let mut out = Vec::new();
    subscribed.put(&mut out).unwrap();
    assert_eq!(Subscribed::read(&out), Ok(subscribed));

    let sound = StatusTold { poisoned: None, durability: Durability::Disk, ..status() };
    out.clear();
    sound.put(&mut out).unwrap();
    assert_eq!(StatusTold::read(&out), Ok(sound));
    out[1] = 128;
    assert!(StatusTold::read(&out).is_err());
    let low = StatusTold { room_low: true, free_bytes: Some(1 << 40), ..status() };
    out.clear();
    low.put(&mut out).unwrap();
    assert_eq!(StatusTold::read(&out), Ok(low));
    assert!((0..out.len()).all(|cut| StatusTold::read(&out[..cut]).is_err()));
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

#[test]
fn a_delivery_tells_the_receipt_that_its_message_was_published_with() {
    let published = receipt(11);
    let message = Delivered {
        sequence: published.key.sequence,
        first_due: published.key.due,
        proof: Proof::of(&published),
        ..delivered(&[7; 19], PayloadForm::Opaque)
    };
    let mut out = Vec::new();
    put_deliver(&mut out, 4, Millis(21), 1).unwrap();
    message.put(&mut out).unwrap();
    let read = Deliver::read(&out).unwrap().messages[0].receipt(published.stream);
    assert!(read == published && read.is_genuine(&[9; 16]));
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
    // The errors of the embedded store: the classes and attributes of `delaymq.errors`.
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
        "DiskFull()",
        "Closed()",
        "ForkedProcess(owner caller)",
        "InvalidArgument(argument expected found)",
        "TooLarge(argument limit found)",
        "NotEnoughCopies(copies min_copies maybe_stored)",
        "NotEnoughCopies(copies min_copies maybe_stored)",
        "NotPrimary(address epoch)",
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
    // An attribute of a later release is skipped.
    let odd = RemoteError::read(1_001, &[0, 0, 0, 0, 1, 200, 1, 0, 0, 0, 0, 0, 0, 0, 9]).unwrap();
    assert!(odd.details.is_empty());
}

#[test]
fn the_document_has_every_error_and_every_command() {
    let document = include_str!("../../../../../../docs/protocol.md");
    for code in ErrorCode::ALL {
        let row = format!(
            "| {} | {code:?} | `{}` | {}",
            code.number(),
            code.class(),
            if code.is_passing() { "yes" } else { "no" }
        );
        assert!(document.contains(&row), "{row}");
    }
    for (command, name) in COMMANDS.into_iter().chain([(super::DELIVER, "deliver")]) {
        let row = format!(" {command} {}", name.to_uppercase());
        assert!(document.contains(&row), "{row}");
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
    fn arbitrary_bodies_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), command in 195_i16..250) {
        let _ = OwnRequest::read(command, &bytes);
        let _ = RemoteError::read(command, &bytes);
        let _ = Welcome::read(&bytes);
        let _ = Subscribed::read(&bytes);
        let _ = Deliver::read(&bytes);
        let _ = StatusTold::read(&bytes);
        let _ = Listed::<GroupListed>::read(&bytes);
        let _ = Listed::<SubjectListed>::read(&bytes);
        let _ = Listed::<ConsumerListed>::read(&bytes);
        let _ = Letters::read(&bytes);
        let _ = read_outcomes(&bytes);
        let _ = read_number(&bytes);
    }

    #[test]
    fn changed_requests_never_panic(which in 0_usize..22, at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let (command, mut body) = every_request().swap_remove(which);
        if !body.is_empty() {
            let at = at.index(body.len());
            body[at] = with;
            let _ = OwnRequest::read(command, &body);
        }
    }

    #[test]
    fn acknowledged_ranges_read_back(ranges in prop::collection::vec((0_u32..20_000, 0_u64..1000, 1_u64..1000), 0..50)) {
        let ranges = ranges.into_iter().map(|(queue, first, count)| KeyRange { queue, first, count }).collect();
        let request = Acknowledge { subscription: 1, ranges };
        let mut body = Vec::new();
        request.put(&mut body).unwrap();
        prop_assert_eq!(OwnRequest::read(ACKNOWLEDGE, &body), Ok(Some(OwnRequest::Acknowledge(request))));
    }
}

#[test]
fn meta_that_is_longer_than_its_payload_is_refused() {
    let payload = b"mebody";
    let longer = Delivered { meta_length: 7, ..delivered(payload, PayloadForm::Opaque) };
    let mut out = Vec::new();
    put_deliver(&mut out, 4, Millis(30), 1).unwrap();
    longer.put(&mut out).unwrap();
    let refused = Deliver::read(&out).map(drop);
    assert_eq!(refused, Err(Malformed::TooLarge { field: "meta", limit: 6, found: 7 }));
    let mut told = letters();
    told.letters.truncate(1);
    told.letters[0].payload.as_mut().unwrap().meta_length = 7;
    let mut out = Vec::new();
    told.put(&mut out).unwrap();
    let refused = Letters::read(&out).map(drop);
    assert_eq!(refused, Err(Malformed::TooLarge { field: "meta", limit: 6, found: 7 }));
}

#[test]
fn an_error_is_shortened_between_letters_and_has_so_many_details_at_most() {
    let words = format!("{}é", "x".repeat(ERROR_TEXT_BYTES_MAX - 1));
    let error = RemoteError { code: ErrorCode::Other, words, details: Vec::new() };
    let mut out = Vec::new();
    error.put(&mut out).unwrap();
    let read = RemoteError::read(ErrorCode::Other.number(), &out).unwrap();
    assert_eq!(read.words, "x".repeat(ERROR_TEXT_BYTES_MAX - 1));
    *out.last_mut().unwrap() = u8::MAX;
    let refused = RemoteError::read(ErrorCode::Other.number(), &out);
    assert!(matches!(refused, Err(Malformed::TooLarge { field: "error", found: 255, .. })), "{refused:?}");
}
