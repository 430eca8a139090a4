//! A log in memory for the tests of this module.

use std::sync::Arc;

use crate::message_log::*;
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::record::header::{Records, encode_record};
use crate::record::message::KIND_MESSAGE;
use crate::storage::{MemoryStorage, Storage};
use crate::units::{Epoch, Millis, SegmentNumber, Sequence};

/// A kind of fact that the scan does not treat as a message.
pub(in crate::message_log) const KIND_FACT: u8 = 12;
pub(in crate::message_log) const STREAM: Stream = Stream { id: [0xAB; 16], timeline: 1 };

pub(in crate::message_log) fn encode(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_record(&mut bytes, kind, 0, &[5; 24], &[payload]);
    bytes
}

pub(in crate::message_log) fn batch_of(records: &[Vec<u8>]) -> Vec<u8> {
    [vec![0; BATCH_HEADER_BYTES], records.concat()].concat()
}

/// A store's folders, and one appender.
pub(in crate::message_log) struct Log {
    pub(in crate::message_log) storage: MemoryStorage,
    pub(in crate::message_log) appender: SegmentAppender,
}

pub(in crate::message_log) fn shared(storage: &MemoryStorage) -> Arc<dyn Storage> {
    Arc::new(storage.clone())
}

pub(in crate::message_log) fn empty_storage() -> MemoryStorage {
    let storage = MemoryStorage::new(7);
    storage.create_folder(LOG_FOLDER).unwrap();
    storage.sync_folder("").unwrap();
    storage
}

pub(in crate::message_log) fn start(segment_bytes: u32) -> AppenderStart {
    AppenderStart {
        stream: STREAM,
        epoch: Epoch(1),
        number: SegmentNumber(1),
        chain: 0,
        next_sequence: Sequence(1),
        trusted: Millis(1000),
        segment_bytes,
        opening_bytes: segment_bytes,
        given_bytes: 0,
    }
}

pub(in crate::message_log) fn marks(record_count: u32, durability: Durability) -> AppendMarks {
    AppendMarks { record_count, trusted: Millis(1000), held: false, committed: Location(0), durability }
}

use crate::units::Location;

impl Log {
    pub(in crate::message_log) fn new(segment_bytes: u32) -> Self {
        Self::in_storage(empty_storage(), &start(segment_bytes))
    }

    pub(in crate::message_log) fn in_storage(storage: MemoryStorage, start: &AppenderStart) -> Self {
        let appender = SegmentAppender::open(shared(&storage), start).unwrap();
        Self { storage, appender }
    }

    /// Writes one batch of messages with these payloads, unsynced.
    pub(in crate::message_log) fn write(&mut self, payloads: &[&[u8]]) -> Appended {
        self.write_records(&payloads.iter().map(|payload| encode(KIND_MESSAGE, payload)).collect::<Vec<_>>())
    }

    pub(in crate::message_log) fn write_records(&mut self, records: &[Vec<u8>]) -> Appended {
        let count = records.len() as u32;
        self.appender.append(&mut batch_of(records), &marks(count, Durability::Disk)).unwrap()
    }

    /// Like `write`, and syncs.
    pub(in crate::message_log) fn commit(&mut self, payloads: &[&[u8]]) -> Appended {
        let appended = self.write(payloads);
        self.appender.sync().unwrap();
        appended
    }

    pub(in crate::message_log) fn witness(&mut self) -> bool {
        self.appender.append_witness(Millis(1000), false, Location(0)).unwrap()
    }

    pub(in crate::message_log) fn prepare(&mut self, zero: bool) {
        let prepared = Preparing::begin(shared(&self.storage), self.appender.plan_next(0), zero).unwrap();
        self.appender.adopt(prepared.finish().unwrap()).unwrap();
    }

    pub(in crate::message_log) fn close(&mut self) {
        self.appender.seal_and_close(Location(0)).unwrap();
    }
}

pub(in crate::message_log) fn scan(storage: &MemoryStorage) -> crate::Result<(Vec<Vec<u8>>, ScanEnd)> {
    scan_from(storage, &ScanStart::BEGINNING)
}

/// All payloads that a scan returns, and its end.
pub(in crate::message_log) fn scan_from(
    storage: &MemoryStorage,
    start: &ScanStart,
) -> crate::Result<(Vec<Vec<u8>>, ScanEnd)> {
    let mut scanner = Scanner::new(shared(storage), STREAM, start)?;
    let mut payloads = Vec::new();
    while let Some(batch) = scanner.next_batch()? {
        let base = Sequence(batch.header.base_sequence.get());
        assert_eq!(base, start.next_sequence.plus(payloads.len() as u64), "sequences are dense");
        payloads.extend(Records::new(batch.records(), base).map(|record| record.unwrap().1.payload.to_vec()));
        scanner.recycle(batch.bytes);
    }
    let ending = scanner.ending().clone();
    assert_eq!(ending.next_sequence, start.next_sequence.plus(payloads.len() as u64));
    Ok((payloads, ending))
}
