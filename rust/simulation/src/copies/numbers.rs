//! The log of one node: records that are an epoch and a number, of which a beginning is durable.

use delaymq_core::message_log::{EpochEntry, HistoryEnd};
use delaymq_core::replication::{History, LogView};
use delaymq_core::units::{Epoch, Sequence};

/// A fact: the epoch that wrote it, and its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) epoch: Epoch,
    pub(super) content: u64,
}

/// Bytes of a record in a message.
const RECORD_BYTES: usize = 12;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    records: Vec<Record>,
    /// The chain after each record.
    chains: Vec<u32>,
    durable: usize,
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

impl Log {
    pub(super) fn append(&mut self, record: Record) {
        self.chains.push(chain_of(self.chain(), record));
        self.records.push(record);
    }

    /// The chain after the last record.
    fn chain(&self) -> u32 {
        self.chains.last().copied().unwrap_or_default()
    }

    /// The chain after the record before `end`. `None` if the log is shorter.
    pub(super) fn chain_at(&self, end: Sequence) -> Option<u32> {
        match number(end) {
            0 => Some(0),
            records => self.chains.get(records - 1).copied(),
        }
    }

    /// The record with this sequence.
    pub(super) fn record(&self, sequence: Sequence) -> Option<Record> {
        self.records.get(number(sequence)).copied()
    }

    /// The records from `from` on, and the chain before them, as a message carries them.
    pub(super) fn bytes_from(&self, from: Sequence) -> Vec<u8> {
        let mut bytes = self.chain_at(from).unwrap_or_default().to_le_bytes().to_vec();
        for record in self.records.iter().skip(number(from)) {
            bytes.extend_from_slice(&record.epoch.0.to_le_bytes());
            bytes.extend_from_slice(&record.content.to_le_bytes());
        }
        bytes
    }

    /// Appends what another node sent. False if it does not follow.
    pub(super) fn append_foreign(&mut self, bytes: &[u8]) -> bool {
        let Some((before, records)) = bytes.split_first_chunk::<4>() else { return false };
        if u32::from_le_bytes(*before) != self.chain() {
            return false;
        }
        for record in records.chunks_exact(RECORD_BYTES) {
            let Some((epoch, content)) = record.split_first_chunk::<4>() else { return false };
            let content = u64::from_le_bytes(content.try_into().unwrap_or_default());
            self.append(Record { epoch: Epoch(u32::from_le_bytes(*epoch)), content });
        }
        true
    }

    /// Makes everything durable, as a sync does.
    pub(super) fn sync(&mut self) {
        self.durable = self.records.len();
    }

    /// Removes everything from `end` on, durably.
    pub(super) fn cut(&mut self, end: Sequence) {
        self.records.truncate(number(end));
        self.chains.truncate(number(end));
        self.sync();
    }

    /// A crash: of what is not durable, `kept` records remain.
    pub(super) fn crash(&mut self, kept: usize) {
        let end = self.durable.saturating_add(kept).min(self.records.len());
        self.cut(sequence(end));
    }

    /// How many records a crash may lose.
    pub(super) fn undurable(&self) -> usize {
        self.records.len() - self.durable
    }
}

impl LogView for Log {
    fn history(&self) -> History {
        let mut epochs: Vec<EpochEntry> = Vec::new();
        let mut chain_before = 0;
        for (place, (record, chain)) in self.records.iter().zip(&self.chains).enumerate() {
            if epochs.last().is_none_or(|last| last.epoch != record.epoch) {
                epochs.push(EpochEntry { epoch: record.epoch, first_sequence: sequence(place), chain_before });
            }
            chain_before = *chain;
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
