//! Batches that pass their own checks but do not belong where they are. Each is reported by the rule that it
//! breaks, and neither it nor a later batch is returned.

use super::fixture::{KIND_FACT, Log, STREAM, encode, scan, shared};
use crate::message_log::{ScanStart, Scanner};
use crate::record::adopt::{AdoptedRun, encode_adopt};
use crate::record::batch::{BATCH_HEADER_BYTES, BatchHeader, LOCAL_SEAL, LOCAL_WITNESS};
use crate::record::terms::NameHash;
use crate::storage::Storage;
use crate::units::{Millis, Sequence};
use zerocopy::IntoBytes;

const SMALL: u32 = 8 << 10;

/// The expectation that a scan reports for the last of two batches, whose header `change` has modified and
/// whose check is written again.
fn expected_of(change: impl FnOnce(&mut BatchHeader)) -> Option<String> {
    let mut log = Log::new(SMALL);
    log.commit(&[b"first"]);
    let last = log.commit(&[b"one", b"two"]);
    let path = crate::message_log::segment_path(last.start.segment().unwrap());
    let at = last.start.offset() as usize;
    let bytes = log.storage.image()[&path].clone();
    let mut header = BatchHeader::read(&bytes[at..]).unwrap();
    change(&mut header);
    header.header_check = header.expected_check().into();
    log.storage.open(&path).unwrap().write_at(at as u64, &header.as_bytes()[..BATCH_HEADER_BYTES]).unwrap();
    let (payloads, end) = scan(&log.storage).unwrap();
    assert_eq!(payloads.len(), if end.torn.is_some() { 1 } else { 3 });
    end.torn.map(|torn| torn.expected)
}

#[test]
fn a_batch_is_what_its_place_and_its_records_say() {
    assert_eq!(expected_of(|_| {}), None);
    let words = |change: &dyn Fn(&mut BatchHeader)| expected_of(change).unwrap();
    assert_eq!(words(&|header| header.segment = 9.into()), "a batch of segment 1");
    assert!(words(&|header| header.length = (SMALL + 8).into()).starts_with("a batch of at most "));
    assert_eq!(words(&|header| header.length = 8.into()), "a batch header");
    assert_eq!(words(&|header| header.length = (header.length.get() + 1).into()), "a batch header");
    assert_eq!(words(&|header| header.synced = u64::MAX.into()), "a synced position before the batch");
    assert_eq!(words(&|header| header.record_count = 3.into()), "3 records");
    assert_eq!(words(&|header| header.count = 3.into()), "2 sequences");
    for flag in [LOCAL_SEAL, LOCAL_WITNESS] {
        assert_eq!(words(&|header| header.local_flags = flag.into()), "a seal or a witness without records");
    }
    assert!(words(&|header| header.chain = (!header.chain.get()).into()).starts_with("chain "));
    assert!(words(&|header| header.trusted_ms = (header.trusted_ms.get() + 1).into()).starts_with("chain "));
}

fn adoption(rows: u32) -> Vec<u8> {
    let run = AdoptedRun { staged: Millis(1), nonce: [1; 16], length: 1, digest: 1, rows };
    let mut record = Vec::new();
    encode_adopt(&mut record, NameHash::default(), &[run]);
    record
}

#[test]
fn the_next_batch_begins_behind_all_that_an_adoption_takes() {
    let mut log = Log::new(SMALL);
    log.write_records(&[encode(KIND_FACT, b"a fact"), adoption(50)]);
    let next = log.commit(&[b"next"]);
    assert_eq!(next.header.base_sequence.get(), 52);
    let scanner = Scanner::new(shared(&log.storage), STREAM, &ScanStart::BEGINNING).unwrap();
    let end = scanner.ending();
    assert_eq!((&end.torn, end.next_sequence), (&None, Sequence(53)));
}

#[test]
fn nothing_stands_behind_an_adoption() {
    let mut log = Log::new(SMALL);
    log.write_records(&[adoption(50), encode(KIND_FACT, b"a fact")]);
    let (_, end) = scan(&log.storage).unwrap();
    assert_eq!(end.torn.map(|torn| torn.expected), Some("nothing behind an adoption".to_owned()));
}
