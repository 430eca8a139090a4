//! Checkpoints with valid checks and bytes that are no valid state, as a bug of a writer or another program could leave
//! them. Each is refused, without a panic.

use std::collections::BTreeSet;

use super::tests::golden;
use super::*;
use crate::storage::MemoryStorage;

const STREAM: Stream = Stream { id: *b"golden stream 01", timeline: 1 };

/// Reads the golden checkpoint of this format with a change, after which its checks are computed again.
fn crafted(stream: &Stream, number: u32, change: impl FnOnce(&mut Vec<u8>)) -> Result<ReadCheckpoint> {
    let mut bytes = golden(include_str!("../../../../../tests/golden/checkpoint.hex"));
    change(&mut bytes);
    let (digest, check) = (digest_of(&bytes), crc32fast::hash(&bytes[CHECKPOINT_HEADER_BYTES..]));
    bytes[36..40].copy_from_slice(&digest.to_le_bytes());
    bytes[56..60].copy_from_slice(&check.to_le_bytes());
    read_bytes(stream, number, &mut bytes)
}

fn read_bytes(stream: &Stream, number: u32, bytes: &mut [u8]) -> Result<ReadCheckpoint> {
    let check = crc32fast::hash(&bytes[..CHECKED_BYTES]);
    bytes[60..64].copy_from_slice(&check.to_le_bytes());
    let storage = MemoryStorage::new(1);
    storage.create_folder(CHECKPOINT_FOLDER).unwrap();
    storage.create(&checkpoint_path(number)).and_then(|file| file.write_at(0, bytes)).unwrap();
    read_checkpoint(&storage, stream, number)
}

fn digest_of(bytes: &[u8]) -> u32 {
    let logical = u64::from_le_bytes(*bytes[48..].first_chunk().unwrap()) as usize;
    crc32fast::hash(bytes[CHECKPOINT_HEADER_BYTES..].get(..logical).unwrap_or_default())
}

/// The offset and the expectation of the error, if a checkpoint is refused as damaged.
fn expected<T>(read: Result<T>) -> Option<(u64, String)> {
    match read {
        Ok(_) => None,
        Err(Error::Corrupt { path, offset, expected, .. }) => {
            assert!(path.starts_with("checkpoints/"));
            Some((offset, expected))
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_checkpoint_of_another_number_stream_or_timeline_is_refused() {
    assert_eq!(expected(crafted(&STREAM, 1, |_| {})), None);
    assert_eq!(expected(crafted(&STREAM, 2, |_| {})), Some((12, "checkpoint number 2".to_owned())));
    for other in [Stream { id: [7; 16], ..STREAM }, Stream { timeline: 0, ..STREAM }] {
        assert_eq!(expected(crafted(&other, 1, |bytes| bytes[32] = 1)).map(|(offset, _)| offset), Some(16));
    }
    // An earlier timeline is part of this one's history.
    assert_eq!(expected(crafted(&Stream { timeline: 2, ..STREAM }, 1, |bytes| bytes[32] = 1)), None);
}

#[test]
fn a_body_of_another_length_or_digest_is_refused() {
    let longer = crafted(&STREAM, 1, |bytes| bytes.push(0));
    assert_eq!(expected(longer).map(|(offset, _)| offset), Some(40));
    let mut bytes = golden(include_str!("../../../../../tests/golden/checkpoint.hex"));
    bytes[36] ^= 1;
    assert_eq!(expected(read_bytes(&STREAM, 1, &mut bytes)).map(|(offset, _)| offset), Some(36));
    let storage = MemoryStorage::new(1);
    storage.create_folder(CHECKPOINT_FOLDER).unwrap();
    storage.create(&checkpoint_path(1)).and_then(|file| file.write_at(0, &bytes[..63])).unwrap();
    assert_eq!(expected(read_checkpoint(&storage, &STREAM, 1)), Some((0, "a checkpoint header".to_owned())));
}

#[test]
fn every_shorter_and_every_longer_body_is_refused() {
    let whole = golden(include_str!("../../../../../tests/golden/checkpoint.hex"));
    let body = whole.len() - CHECKPOINT_HEADER_BYTES;
    for length in (0..body).chain([body + 1]) {
        let read = crafted(&STREAM, 1, |bytes| {
            bytes.resize(CHECKPOINT_HEADER_BYTES + length, 0);
            bytes[40..48].copy_from_slice(&(length as u64).to_le_bytes());
        });
        assert!(expected(read).is_some(), "a body of {length} bytes is taken");
    }
}

#[test]
fn a_changed_byte_makes_another_state_or_is_refused_and_every_rule_refuses_something() {
    let whole = golden(include_str!("../../../../../tests/golden/checkpoint.hex"));
    let mut refused = BTreeSet::new();
    for offset in CHECKPOINT_HEADER_BYTES..whole.len() {
        for mask in [0x01, 0x02, 0x80, 0xFF] {
            let read = crafted(&STREAM, 1, |bytes| bytes[offset] ^= mask);
            refused.extend(expected(read).map(|(_, words)| words.split(" of at most").next().unwrap().to_owned()));
        }
    }
    for rule in [
        "a count",
        "UTF-8 text",
        "what ended of each window",
        "a minute behind the one before, with something in it",
        "a subject with a number and name of its own",
        "a group of a known subject",
        "offsets that ascend",
        "the bits of a window",
        "a window behind the one before and below the next sequence",
        "subjects of a file that ascend",
        "the subjects of a file, or none where they are not known",
    ] {
        assert!(refused.contains(rule), "{rule} is not among {refused:?}");
    }
}

#[test]
fn a_subject_with_a_number_that_none_can_have_is_refused() {
    let whole = golden(include_str!("../../../../../tests/golden/checkpoint.hex"));
    let name = whole.windows(6).position(|window| window == b"orders").unwrap();
    // The number of the subject comes before the length of its name.
    let read = crafted(&STREAM, 1, |bytes| bytes[name - 12..name - 8].copy_from_slice(&u32::MAX.to_le_bytes()));
    assert_eq!(expected(read).unwrap().1, "a subject with a number and name of its own");
}

/// The offset of the number of the first of two series in the golden checkpoint. The second series has no pending
/// message.
fn first_series(whole: &[u8]) -> usize {
    let name = "dünning".as_bytes();
    // The number, the subject and the length of the name come before the name.
    whole.windows(name.len()).position(|window| window == name).unwrap() - 20
}

fn body_of_first_series(whole: &[u8]) -> usize {
    let series = first_series(whole);
    series + whole[series..].windows(5).position(|window| window == b"again").unwrap()
}

#[test]
fn series_of_no_subject_or_that_wait_for_nothing_are_refused() {
    let whole = golden(include_str!("../../../../../tests/golden/checkpoint.hex"));
    let series = first_series(&whole);
    let number = u64::from_le_bytes(*whole[series..].first_chunk().unwrap());
    assert_eq!(number, 36);
    let rule = "series of known subjects that wait for pending messages";
    let of_no_subject =
        crafted(&STREAM, 1, |bytes| bytes[series + 8..series + 12].copy_from_slice(&7_u32.to_le_bytes()));
    assert_eq!(expected(of_no_subject).unwrap().1, rule);
    // The sequence of the pending message comes before the lengths of the meta, which is empty, and of the body.
    let pending = body_of_first_series(&whole) - 24;
    assert_eq!(whole[pending..pending + 8], 39_u64.to_le_bytes());
    for sequence in [33_u64, 36, 38] {
        let read = crafted(&STREAM, 1, |bytes| bytes[pending..pending + 8].copy_from_slice(&sequence.to_le_bytes()));
        assert_eq!(expected(read).unwrap().1, rule, "{sequence}");
    }
}

#[test]
fn a_series_that_is_too_large_or_of_a_time_that_none_has_is_refused() {
    let whole = golden(include_str!("../../../../../tests/golden/checkpoint.hex"));
    let body = body_of_first_series(&whole);
    let lengthened = |more: usize| {
        crafted(&STREAM, 1, |bytes| {
            bytes[body - 8..body].copy_from_slice(&(5 + more as u64).to_le_bytes());
            bytes.splice(body..body, vec![0; more]);
            for at in [40, 48] {
                let length = u64::from_le_bytes(*bytes[at..].first_chunk().unwrap()) + more as u64;
                bytes[at..at + 8].copy_from_slice(&length.to_le_bytes());
            }
        })
    };
    assert_eq!(expected(lengthened(60_000)), None);
    assert_eq!(expected(lengthened(66_000)).unwrap().1, "series that take no more than they may");
}
