//! A machine whose log is a list of numbers, of which a beginning is durable. Many short histories can be lived with it.

use delaymq_core::message_log::{EpochEntry, HistoryEnd};
use delaymq_core::replication::{History, LogView, NodeId, Promise};
use delaymq_core::units::{Epoch, Sequence};

use super::machine::{Machine, Mark, Marks};
use super::plan::Plan;
use crate::chance::Chance;

/// A fact: the epoch that wrote it, and a number that no other fact has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Record {
    epoch: Epoch,
    content: u64,
}

/// Bytes of a record in a message.
const RECORD_BYTES: usize = 12;

/// See the module.
#[derive(Clone, Debug)]
pub struct Numbers {
    records: Vec<Record>,
    marks: Marks,
    durable: usize,
    epoch: Epoch,
    promise: Promise,
}

fn number(sequence: Sequence) -> usize {
    usize::try_from(sequence.0.saturating_sub(1)).unwrap_or(usize::MAX)
}

fn sequence(records: usize) -> Sequence {
    Sequence(records as u64 + 1)
}

fn chain_of(before: u32, record: Record) -> u32 {
    let mixed = (u64::from(before) << 32 | u64::from(record.epoch.0)) ^ record.content.rotate_left(17);
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 31) as u32
}

impl Numbers {
    fn append_one(&mut self, record: Record) {
        let chain = chain_of(self.chain(), record);
        self.records.push(record);
        self.marks.push(Mark { end: self.end(), chain, is_awaited: record.content > 0 });
    }

    /// The chain after the last record.
    fn chain(&self) -> u32 {
        self.marks.chain_at(self.end()).unwrap_or_default()
    }
}

impl Machine for Numbers {
    fn new(_id: NodeId, _seed: u64, _plan: &Plan) -> Self {
        Self { records: Vec::new(), marks: Marks::default(), durable: 0, epoch: Epoch(0), promise: Promise::default() }
    }

    fn marks(&self) -> &Marks {
        &self.marks
    }

    fn start(&mut self) -> Sequence {
        Sequence(1)
    }

    fn crash(&mut self, chance: &mut Chance) {
        let undurable = self.records.len().saturating_sub(self.durable);
        let kept = usize::try_from(chance.below(undurable as u64 + 1)).unwrap_or(0);
        self.cut(Epoch(0), sequence(self.durable.saturating_add(kept)));
    }

    fn promise(&self) -> Promise {
        self.promise
    }

    fn keep_promise(&mut self, promise: Promise) -> bool {
        self.promise = promise;
        true
    }

    fn sync(&mut self) -> bool {
        let has_synced = self.durable < self.records.len();
        self.durable = self.records.len();
        has_synced
    }

    fn follow(&mut self) {}

    fn begin(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.append_one(Record { epoch, content: 0 });
    }

    fn work(&mut self, _accepts: bool, calls: u64, chance: &mut Chance) {
        for _ in 0..calls {
            self.append_one(Record { epoch: self.epoch, content: chance.next_number() | 1 });
        }
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        let Some((before, records)) = bytes.split_first_chunk::<4>() else { return false };
        if u32::from_le_bytes(*before) != self.chain() {
            return false;
        }
        for record in records.chunks_exact(RECORD_BYTES) {
            let Some((epoch, content)) = record.split_first_chunk::<4>() else { return false };
            let content = u64::from_le_bytes(content.try_into().unwrap_or_default());
            self.append_one(Record { epoch: Epoch(u32::from_le_bytes(*epoch)), content });
        }
        true
    }

    fn cut(&mut self, _epoch: Epoch, end: Sequence) {
        self.records.truncate(number(end));
        self.marks.cut(end);
        self.durable = self.records.len();
    }

    fn commit(&mut self, _end: Sequence, _is_enough: bool) {}

    fn ship(&mut self, first: Sequence) -> Option<Vec<u8>> {
        let mut bytes = self.marks.chain_at(first).unwrap_or_default().to_le_bytes().to_vec();
        for record in self.records.iter().skip(number(first)) {
            bytes.extend_from_slice(&record.epoch.0.to_le_bytes());
            bytes.extend_from_slice(&record.content.to_le_bytes());
        }
        Some(bytes)
    }
}

impl LogView for Numbers {
    fn history(&self) -> History {
        let mut epochs: Vec<EpochEntry> = Vec::new();
        let mut chain_before = 0;
        for (place, record) in self.records.iter().enumerate() {
            if epochs.last().is_none_or(|last| last.epoch != record.epoch) {
                epochs.push(EpochEntry { epoch: record.epoch, first_sequence: sequence(place), chain_before });
            }
            chain_before = self.marks.chain_at(sequence(place + 1)).unwrap_or_default();
        }
        History { epochs, end: HistoryEnd { sequence: Sequence(self.records.len() as u64), chain: self.chain() } }
    }

    fn end(&self) -> Sequence {
        sequence(self.records.len())
    }

    fn durable(&self) -> Sequence {
        sequence(self.durable)
    }
}
