//! Frames read back, are as they were, and no damaged one is read.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::frame::{CHECK_BYTES, HEAD_BYTES};
use super::*;
use crate::error::Error;
use crate::message_log::{EpochEntry, HistoryEnd};
use crate::replication::{
    FilePart, FilePlace, History, LoadMessage, Message, NodeId, SentFile, SnapshotFile, SnapshotOffer, Version,
    WantedRecord,
};
use crate::run::{LoadName, StagedRun};
use crate::units::{DueKey, Epoch, Millis, Sequence};
use crate::wire::malformed::Malformed;

fn hello() -> Hello {
    Hello {
        format_level: 1,
        stream: [5; 16],
        timeline: 3,
        node: NodeId([7; 16]),
        nonce: 0x0102_0304_0506_0708,
        segment_bytes: 0x0400_0000,
        client_address: "one.example:20801".to_owned(),
        peer_address: "one.example:20811".to_owned(),
        others: vec![(NodeId([8; 16]), "two.example:20811".to_owned())],
    }
}

fn put(frame: &PeerFrame) -> Vec<u8> {
    let mut out = b"before".to_vec();
    frame.put(&mut out).unwrap();
    out.split_off(6)
}

/// The frames of a stream that comes in pieces, and the fault that ends it.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<PeerFrame>, Option<Malformed>) {
    let mut decoder = Decoder::default();
    decoder.admit();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(fault) => {
                    assert_eq!(decoder.next_frame(), Err(fault.clone()), "and nothing after it");
                    return (frames, Some(fault));
                }
            }
        }
    }
    (frames, None)
}

fn history(epochs: u32) -> History {
    let entry = |number: u32| EpochEntry {
        epoch: Epoch(number),
        first_sequence: Sequence(u64::from(number) * 100),
        chain_before: number ^ 0xabcd,
    };
    let end = HistoryEnd { sequence: Sequence(1_000), chain: 0x0102_0304 };
    History { epochs: (1..=epochs).map(entry).collect(), end }
}

/// One frame of each kind, each field with another value.
fn samples() -> Vec<PeerFrame> {
    let (epoch, attempt) = (Epoch(9), 0x1122);
    let file = |path: &str, length| SnapshotFile { path: path.to_owned(), length };
    let files = vec![file("log/0000000007.segment", 0x1000), file("runs/0000000001.run", 0xee)];
    let offer = SnapshotOffer { number: 0xcc, committed: Sequence(0xd0), end: Sequence(0xdd), bytes: 0xdf, files };
    let name = LoadName { staged: Millis(0x1122), nonce: [6; 16] };
    let run = StagedRun { name, length: 0x3344, digest: 0x5566, rows: 0x77 };
    let place = FilePlace { file: SentFile::Snapshot { number: 0xcc, file: 1 }, offset: 0xff };
    let in_load = FilePlace { file: SentFile::Load(name), offset: 0xaa };
    let part = |place| FilePart { place, zeros: 0x1122_3344, bytes: b"part".to_vec() };
    let messages = vec![
        Message::Lead { epoch, attempt, seen: (0x3344, Version(0x55)) },
        Message::Promised { epoch, attempt, answer: 0x66, history: history(2) },
        Message::Match { epoch, attempt, answer: 0x66, last_epoch: Epoch(8), end: Sequence(0x77) },
        Message::Batches { epoch, attempt, from: Sequence(1), committed: Sequence(2), bytes: b"batches".to_vec() },
        Message::Heartbeat {
            epoch,
            attempt,
            end: Sequence(0x88),
            committed: Sequence(0x99),
            beat: 0xcc,
            ahead_ms: Some(-0xdd),
        },
        Message::Synced { epoch, attempt, end: Sequence(0xaa), beat: 0xcc, wall: Millis(0xee) },
        Message::Resend { epoch, attempt, from: Sequence(0xbb) },
        Message::Unmatched { epoch },
        Message::Refused { epoch },
        Message::TakeOver { epoch, attempt },
        Message::Snapshot { epoch, attempt, offer },
        Message::AskPart { epoch, attempt, place },
        Message::AskPart { epoch, attempt, place: in_load },
        Message::Part { epoch, attempt, part: part(place) },
        Message::Part { epoch, attempt, part: part(in_load) },
        Message::AskRecord {
            epoch,
            wanted: WantedRecord {
                sequence: Sequence(0x12),
                record_check: 0x3456,
                first_due: Millis(0x78),
                key: DueKey { due: Millis(0x9a), sequence: Sequence(0xbc) },
            },
        },
        Message::Record { epoch, sequence: Sequence(0x12), payload: Some(b"payload".to_vec()) },
        Message::Record { epoch, sequence: Sequence(0x12), payload: None },
    ];
    let loads = [
        LoadMessage::Hold { number: 0x88, runs: vec![run, StagedRun { rows: 0x99, ..run }] },
        LoadMessage::Held { number: 0x88 },
    ];
    let refusals = [
        Refusal::OtherStream,
        Refusal::OtherTimeline,
        Refusal::CopiedFolder,
        Refusal::Itself,
        Refusal::OtherVersion { refusing: 1, refused: 2 },
        Refusal::OtherNode,
        Refusal::TwoAddresses,
        Refusal::OtherSegmentBytes,
    ];
    let mut frames = vec![PeerFrame::Hello(hello()), PeerFrame::Begin, PeerFrame::OtherVersion(2)];
    frames.extend(refusals.map(PeerFrame::Refusal));
    frames.extend(messages.into_iter().map(PeerFrame::Message));
    frames.extend(loads.map(|message| PeerFrame::Message(Message::Load { epoch, attempt, message })));
    frames
}

/// `DELAYMQ_WRITE_GOLDEN=1` writes the file if it is not there.
#[test]
fn every_frame_of_version_1_is_as_it_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/peer_frames/golden.hex");
    // The fuzzer takes two bytes before the frames.
    let mut written = "# as version 1 of the protocol has them\n0000\n".to_owned();
    for frame in samples() {
        written.extend(put(&frame).iter().map(|byte| format!("{byte:02x}")));
        written.push('\n');
    }
    if !path.exists() && std::env::var_os("DELAYMQ_WRITE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &written).unwrap();
    }
    assert_eq!(written, fs::read_to_string(&path).unwrap(), "{}", path.display());
}

#[test]
fn a_frame_is_laid_out_as_documented() {
    let frame = put(&PeerFrame::Message(Message::Refused { epoch: Epoch(0x0a0b) }));
    let check = crc32fast::hash(&frame[..13]).to_be_bytes();
    assert_eq!(frame[..5], [0, 0, 0, 17, 24]);
    assert_eq!(frame[5..9], crc32fast::hash(&frame[..5]).to_be_bytes());
    assert_eq!((&frame[9..13], &frame[13..]), (&[0, 0, 0x0a, 0x0b][..], &check[..]));
    let hello = put(&PeerFrame::Hello(hello()));
    assert_eq!(hello[9..19], *b"DMQPEERS\x00\x01");
    assert_eq!(hello.len(), 71 + 4 + 4 + 17 + 4 + 17 + 4 + 16 + 4 + 17);
}

#[test]
fn a_stream_reads_the_same_wherever_it_is_cut() {
    let frames = samples();
    let stream: Vec<u8> = frames.iter().flat_map(put).collect();
    for length in [1, 2, 7, 100, stream.len()] {
        assert_eq!(read(stream.chunks(length)), (frames.clone(), None), "pieces of {length}");
    }
}

#[test]
fn a_part_of_a_frame_waits_for_the_rest() {
    for frame in samples() {
        let bytes = put(&frame);
        for cut in 0..bytes.len() {
            let (first, rest) = bytes.split_at(cut);
            assert_eq!(read([first]), (Vec::new(), None), "{frame:?} at {cut}");
            assert_eq!(read([first, rest]), (vec![frame.clone()], None), "{frame:?} at {cut}");
        }
    }
}

#[test]
fn each_bit_that_flips_is_found_when_the_frame_has_come() {
    for frame in samples() {
        let bytes = put(&frame);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (frames, fault) = read([&flipped[..]]);
            assert!(frames.is_empty() && fault.is_some(), "{frame:?} with bit {bit}");
        }
    }
}

/// A frame of this kind with checks that are right.
fn sealed(kind: u8, fields: &[u8]) -> Vec<u8> {
    let length = (HEAD_BYTES + fields.len() + CHECK_BYTES) as u32;
    let mut out = [&length.to_be_bytes()[..], &[kind]].concat();
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out.extend(fields);
    out.extend(crc32fast::hash(&out).to_be_bytes());
    out
}

#[test]
fn fields_that_no_node_sends_are_named() {
    let named = |kind, fields: &[u8]| match read([&sealed(kind, fields)[..]]) {
        (frames, Some(fault)) if frames.is_empty() => fault,
        other => panic!("{other:?}"),
    };
    let value = |fault| match fault {
        Malformed::Value { field, .. } => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(value(named(0, b"")), "kind");
    assert_eq!(value(named(15, b"")), "kind");
    assert_eq!(value(named(35, &[0; 40])), "kind");
    assert_eq!(value(named(1, b"DMQOTHER\x00\x01")), "magic");
    assert_eq!(value(named(2, &[0])), "refusal");
    assert_eq!(value(named(2, &[9])), "refusal");
    assert!(matches!(named(3, &[0]), Malformed::LeftOver { field: "frame", count: 1 }));
    assert!(matches!(named(24, &[0; 3]), Malformed::Short { field: "epoch", .. }));
    assert!(matches!(named(1, b"DMQPEERS\x00\x01"), Malformed::Short { field: "format_level", .. }));
    let many = [&[0; 20][..], &u32::MAX.to_be_bytes()].concat();
    assert!(matches!(named(17, &many), Malformed::TooLarge { field: "history", .. }));
    let few = [&[0; 20][..], &3_u32.to_be_bytes(), &[0; 44]].concat();
    assert!(matches!(named(17, &few), Malformed::Short { field: "history", .. }));
    let long = [&[0; 28][..], &u32::MAX.to_be_bytes()].concat();
    assert!(matches!(named(19, &long), Malformed::TooLarge { field: "batches", .. }));
}

#[test]
fn a_hello_of_another_version_is_read_as_far_as_its_version() {
    let later = sealed(1, b"DMQPEERS\x00\x02and fields that nobody knows yet");
    assert_eq!(read([&later[..]]), (vec![PeerFrame::OtherVersion(2)], None));
}

#[test]
fn a_length_over_the_limit_is_refused_by_the_head() {
    let head = |length: u32| {
        let mut head = [&length.to_be_bytes()[..], &[19]].concat();
        head.extend(crc32fast::hash(&head).to_be_bytes());
        head
    };
    let over = |length| matches!(read([&head(length)[..]]).1, Some(Malformed::TooLarge { field: "frame", .. }));
    assert!(!over(FRAME_BYTES_MAX as u32) && over(FRAME_BYTES_MAX as u32 + 1) && over(u32::MAX));
    assert!(matches!(read([&head(12)[..]]).1, Some(Malformed::Value { field: "frame", .. })));
    let mut stranger = Decoder::default();
    stranger.feed(&head(HELLO_FRAME_BYTES_MAX as u32));
    assert_eq!(stranger.next_frame(), Ok(None));
    let mut stranger = Decoder::default();
    stranger.feed(&head(HELLO_FRAME_BYTES_MAX as u32 + 1));
    assert!(matches!(stranger.next_frame(), Err(Malformed::TooLarge { field: "frame", limit: 4_096, .. })));
}

#[test]
fn memory_follows_what_has_come_and_is_given_back() {
    let length = 3 << 20;
    let bytes = vec![1; length];
    let (from, committed) = (Sequence(1), Sequence(1));
    let frame = put(&PeerFrame::Message(Message::Batches { epoch: Epoch(1), attempt: 1, from, committed, bytes }));
    let mut decoder = Decoder::default();
    decoder.admit();
    let mut fed = 0;
    for piece in frame.chunks(1_000) {
        assert_eq!(decoder.next_frame(), Ok(None));
        decoder.feed(piece);
        fed += piece.len();
        assert!(decoder.memory_bytes() <= 2 * fed, "{} for {fed}", decoder.memory_bytes());
    }
    assert!(decoder.next_frame().unwrap().is_some());
    assert!(decoder.memory_bytes() <= 1 << 20, "{}", decoder.memory_bytes());
}

#[test]
fn one_batch_of_the_largest_segment_and_the_longest_history_fit_a_frame() {
    let batches = HEAD_BYTES + 4 + 3 * 8 + 4 + BATCHES_BYTES_MAX + CHECK_BYTES;
    assert!(batches <= FRAME_BYTES_MAX);
    assert!(BATCHES_BYTES_MAX as u64 >= crate::message_log::records_max(crate::message_log::SEGMENT_BYTES_MAX));
    let promised = |epochs| {
        let entry = EpochEntry { epoch: Epoch(1), first_sequence: Sequence(1), chain_before: 1 };
        let history = History { epochs: vec![entry; epochs], ..History::default() };
        PeerFrame::Message(Message::Promised { epoch: Epoch(1), attempt: 1, answer: 1, history })
    };
    let longest = promised(HISTORY_EPOCHS_MAX);
    assert_eq!(read([&put(&longest)[..]]), (vec![longest], None));
    let mut out = b"before".to_vec();
    let refused = promised(HISTORY_EPOCHS_MAX + 1).put(&mut out);
    assert!(matches!(refused, Err(Error::TooLarge { argument: "history", .. })));
    assert_eq!(out, b"before");
}

#[test]
fn a_hello_is_refused_for_the_first_thing_that_differs() {
    let own = hello();
    let other = || Hello { node: NodeId([8; 16]), nonce: 1, client_address: String::new(), ..hello() };
    assert_eq!(own.judge(&other()), Ok(()));
    assert_eq!(own.judge(&Hello { format_level: 2, ..other() }), Ok(()), "a node that is upgraded later");
    assert_eq!(own.judge(&own), Err(Refusal::Itself));
    assert_eq!(own.judge(&Hello { nonce: 1, ..hello() }), Err(Refusal::CopiedFolder));
    assert_eq!(own.judge(&Hello { stream: [6; 16], ..other() }), Err(Refusal::OtherStream));
    assert_eq!(own.judge(&Hello { timeline: 4, ..other() }), Err(Refusal::OtherTimeline));
    assert_eq!(own.judge(&Hello { segment_bytes: 0x0800_0000, ..other() }), Err(Refusal::OtherSegmentBytes));
}

#[test]
fn an_address_for_clients_has_its_limit_and_is_text() {
    let addressed = |bytes: usize| {
        let (address, peer_address) = ("a".repeat(bytes), "b".repeat(bytes));
        let others = vec![(NodeId([8; 16]), address.clone()); OTHERS_MAX];
        Hello { client_address: address, peer_address, others, ..hello() }
    };
    let (empty, longest) = (PeerFrame::Hello(addressed(0)), PeerFrame::Hello(addressed(ADDRESS_BYTES_MAX)));
    let bytes = put(&longest);
    assert!(bytes.len() <= HELLO_FRAME_BYTES_MAX);
    assert_eq!(read([&put(&empty)[..], &bytes[..]]), (vec![empty, longest], None));
    let mut out = b"before".to_vec();
    let refused = PeerFrame::Hello(addressed(ADDRESS_BYTES_MAX + 1)).put(&mut out);
    assert!(matches!(refused, Err(Error::TooLarge { argument: "client_address", .. })));
    assert_eq!(out, b"before");

    let many = Hello { others: vec![(NodeId([8; 16]), String::new()); OTHERS_MAX + 1], ..hello() };
    let refused = PeerFrame::Hello(many).put(&mut out);
    assert!(matches!(refused, Err(Error::TooLarge { argument: "others", .. })));

    // The fields before the first address, and an address for nodes and no others behind it.
    let fields = &put(&PeerFrame::Hello(addressed(0)))[HEAD_BYTES..][..62];
    let behind = |length: u32, text: &[u8]| read([&sealed(1, &[fields, &length.to_be_bytes(), text].concat())[..]]).1;
    let over = behind(260, &[b'a'; 260]);
    assert!(matches!(over, Some(Malformed::TooLarge { field: "client_address", limit: 259, found: 260 })), "{over:?}");
    assert!(matches!(behind(2, b"a"), Some(Malformed::Short { field: "client_address", .. })));
    assert!(matches!(behind(1, b"\xff"), Some(Malformed::NotText { field: "client_address", .. })));
    assert!(matches!(behind(0, &[0; 9]), Some(Malformed::LeftOver { field: "frame", count: 1 })));
    assert!(matches!(
        behind(0, &[0, 0, 0, 0, 0, 0, 0, 9]),
        Some(Malformed::TooLarge { field: "others", limit: 8, .. })
    ));
    assert!(matches!(behind(0, &[0, 0, 0, 0, 0, 0, 0, 1]), Some(Malformed::Short { field: "others", .. })));
}

fn any_history() -> impl Strategy<Value = History> {
    let entry = any::<(u32, u64, u32)>().prop_map(|(epoch, first, chain_before)| EpochEntry {
        epoch: Epoch(epoch),
        first_sequence: Sequence(first),
        chain_before,
    });
    (prop::collection::vec(entry, 0..20), any::<(u64, u32)>()).prop_map(|(epochs, (sequence, chain))| History {
        epochs,
        end: HistoryEnd { sequence: Sequence(sequence), chain },
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    let numbers = any::<(u32, u64, u64, u64, u32)>();
    let parts = (0..15_u8, numbers, any_history(), prop::collection::vec(any::<u8>(), 0..300));
    parts.prop_map(|(kind, (epoch, attempt, first, second, last), history, bytes)| {
        let (epoch, one, two) = (Epoch(epoch), Sequence(first), Sequence(second));
        match kind {
            0 => Message::Lead { epoch, attempt, seen: (first, Version(second)) },
            1 => Message::Promised { epoch, attempt, answer: first, history },
            2 => Message::Match { epoch, attempt, answer: first, last_epoch: Epoch(last), end: two },
            3 => Message::Batches { epoch, attempt, from: one, committed: two, bytes },
            4 => Message::Heartbeat {
                epoch,
                attempt,
                end: one,
                committed: two,
                beat: first,
                ahead_ms: Some(-i64::from(last)).filter(|ahead_ms| *ahead_ms % 2 == 0),
            },
            5 => Message::Synced { epoch, attempt, end: one, beat: second, wall: Millis(u64::from(last)) },
            6 => Message::Resend { epoch, attempt, from: one },
            7 => Message::Unmatched { epoch },
            8 => Message::Refused { epoch },
            9 => {
                let path = bytes.iter().map(|byte| char::from(byte % 128)).take(255).collect();
                let files = vec![SnapshotFile { path, length: second }; usize::from(attempt % 3 == 0)];
                Message::Snapshot {
                    epoch,
                    attempt,
                    offer: SnapshotOffer { number: first, committed: one, end: two, bytes: second, files },
                }
            }
            10 | 11 => {
                let name = LoadName { staged: Millis(first), nonce: [last.to_le_bytes()[0]; 16] };
                let in_snapshot = SentFile::Snapshot { number: first, file: last };
                let file = if attempt % 2 == 0 { in_snapshot } else { SentFile::Load(name) };
                let place = FilePlace { file, offset: second };
                if kind == 10 {
                    Message::AskPart { epoch, attempt, place }
                } else {
                    Message::Part { epoch, attempt, part: FilePart { place, zeros: second, bytes } }
                }
            }
            12 => {
                let key = DueKey { due: Millis(attempt), sequence: two };
                let wanted = WantedRecord { sequence: one, record_check: last, first_due: Millis(second), key };
                Message::AskRecord { epoch, wanted }
            }
            13 => {
                let payload = Some(bytes).filter(|_| attempt % 2 == 0);
                Message::Record { epoch, sequence: one, payload }
            }
            _ => Message::TakeOver { epoch, attempt },
        }
    })
}

proptest! {
    #[test]
    fn messages_read_back_in_any_pieces(
        messages in prop::collection::vec(any_message(), 1..8),
        length in 1..200_usize,
    ) {
        let frames: Vec<_> = messages.into_iter().map(PeerFrame::Message).collect();
        let stream: Vec<u8> = frames.iter().flat_map(put).collect();
        prop_assert_eq!(read(stream.chunks(length)), (frames, None));
    }

    #[test]
    fn a_hello_reads_back(
        parts in any::<(u32, [u8; 16], u32, [u8; 16], u64, u32)>(),
        (client_address, peer_address) in (".{0,60}", ".{0,60}"),
        others in prop::collection::vec((any::<[u8; 16]>().prop_map(NodeId), ".{0,60}"), 0..OTHERS_MAX),
    ) {
        let (format_level, stream, timeline, node, nonce, segment_bytes) = parts;
        let node = NodeId(node);
        let hello = Hello {
            format_level,
            stream,
            timeline,
            node,
            nonce,
            segment_bytes,
            client_address,
            peer_address,
            others,
        };
        let frame = PeerFrame::Hello(hello);
        prop_assert_eq!(read([&put(&frame)[..]]), (vec![frame], None));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), kind in 0..36_u8) {
        read([&bytes[..]]);
        read([&sealed(kind, &bytes)[..]]);
    }
}
