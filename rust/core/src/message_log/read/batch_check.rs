//! Checks one batch: whether it belongs where it is, and whether it is whole.

use super::window::Window;
use crate::error::{Error, Result};
use crate::message_log::holes::Hole;
use crate::message_log::position::LogPosition;
use crate::planted::{self, Planted};
use crate::record::adopt::sequences_of;
use crate::record::batch::{BATCH_HEADER_BYTES, BatchHeader, chain_of};
use crate::record::header::{RawRecord, RecordFault, Records};
use crate::record::message::KIND_MESSAGE;
use crate::units::{Epoch, Location, Millis, SegmentNumber, Sequence};

/// A fault, and its offset in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::message_log) struct Fault {
    pub(in crate::message_log) offset: u32,
    pub(in crate::message_log) expected: String,
    pub(in crate::message_log) found: String,
}

impl Fault {
    fn new(offset: u32, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { offset, expected: expected.into(), found: found.into() }
    }

    pub(in crate::message_log) fn corrupt(&self, path: &str) -> Error {
        Error::corrupt(path, u64::from(self.offset), &self.expected, &self.found)
    }
}

/// The position and the values after the batches read so far.
#[derive(Clone, Copy, Debug)]
pub(in crate::message_log) struct Cursor {
    pub(in crate::message_log) location: Location,
    pub(in crate::message_log) chain: u32,
    pub(in crate::message_log) next_sequence: Sequence,
    /// The epoch of the last batch with records. Batches without records are local to a copy: what they say binds no
    /// batch after them.
    pub(in crate::message_log) epoch: Epoch,
    /// The trusted time of the last batch with records.
    pub(in crate::message_log) trusted: Millis,
}

impl Cursor {
    /// The cursor after the batch with this header, which starts here.
    pub(in crate::message_log) fn after(&self, header: &BatchHeader) -> Self {
        let location = Location(self.location.0.saturating_add(u64::from(header.length.get())));
        if header.record_count.get() == 0 {
            return Self { location, ..*self };
        }
        Self {
            location,
            chain: header.chain.get(),
            next_sequence: self.next_sequence.plus(u64::from(header.count.get())),
            epoch: Epoch(header.epoch.get()),
            trusted: Millis(header.trusted_ms.get()),
        }
    }

    /// The same as a position.
    pub(in crate::message_log) fn position(&self) -> LogPosition {
        let Self { location: end, chain, next_sequence, epoch, trusted } = *self;
        LogPosition { end, chain, next_sequence, epoch, trusted }
    }

    /// The cursor after a hole, which starts here.
    pub(in crate::message_log) fn behind_hole(&self, hole: &Hole) -> Self {
        Self {
            location: hole.to.end,
            chain: hole.to.chain,
            next_sequence: hole.to.next_sequence,
            epoch: hole.to.epoch,
            trusted: self.trusted.max(hole.to.trusted),
        }
    }

    /// Returns the fault of a hole that should begin here but does not fit.
    pub(in crate::message_log) fn check_hole(&self, hole: &Hole) -> Option<Fault> {
        let is = |chain: u32, next: Sequence| format!("a hole from sequence {next} behind chain {chain:08x}");
        let (expected, found) = ((self.chain, self.next_sequence), (hole.from.chain, hole.from.next_sequence));
        let at = self.location.offset();
        (expected != found).then(|| Fault::new(at, is(expected.0, expected.1), is(found.0, found.1)))
    }

    /// Checks that a batch whose header is whole continues from here.
    fn check_follows(&self, header: &BatchHeader) -> std::result::Result<(), Fault> {
        let at = self.location.offset();
        let (base, next) = (header.base_sequence.get(), self.next_sequence);
        if base != next.0 {
            return Err(Fault::new(at, format!("a batch from sequence {next}"), format!("one from {base}")));
        }
        if header.chain_before.get() != self.chain && !planted::is_on(Planted::ChainNotCompared) {
            let (expected, found) = (self.chain, header.chain_before.get());
            return Err(Fault::new(at, format!("a batch behind chain {expected:08x}"), format!("behind {found:08x}")));
        }
        if header.epoch.get() < self.epoch.0 {
            let (least, found) = (self.epoch, header.epoch.get());
            return Err(Fault::new(at, format!("epoch {least} or later"), format!("epoch {found}")));
        }
        if header.trusted_ms.get() < self.trusted.0 {
            let (least, found) = (self.trusted, header.trusted_ms.get());
            return Err(Fault::new(at, format!("trusted time {least} or later"), format!("{found}")));
        }
        Ok(())
    }
}

/// The payloads of a batch that fail their check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::message_log) struct Payloads {
    /// The number of damaged message payloads. Each message can be voided alone.
    pub(in crate::message_log) messages: u64,
    /// The first damaged payload of any kind.
    pub(in crate::message_log) first: Option<Fault>,
    /// The first damaged payload that is not of a message. The fact itself is lost.
    pub(in crate::message_log) first_fact: Option<Fault>,
}

impl Payloads {
    /// Checks one payload, of the record at `record_at` in the file.
    fn check(&mut self, record_at: u32, record: &RawRecord<'_>) {
        if record.payload_is_whole() {
            return;
        }
        let (found, expected) = (crc32fast::hash(record.payload), record.header.payload_check.get());
        let fault = Fault::new(record_at, format!("payload check {expected:08x}"), format!("{found:08x}"));
        if record.header.kind == KIND_MESSAGE {
            self.messages = self.messages.saturating_add(1);
        } else {
            self.first_fact.get_or_insert_with(|| fault.clone());
        }
        self.first.get_or_insert(fault);
    }
}

/// The result of checking the batch at the cursor.
pub(in crate::message_log) enum Judged {
    /// The batch continues the log and is whole, apart from the payloads listed.
    Batch(BatchHeader, Payloads),
    /// There is no such batch. If its header is whole, the second number is where the batch would end.
    Broken(Fault, u32),
}

/// A buffer that is reused from batch to batch.
pub(in crate::message_log) type Scratch = Vec<u8>;

/// Checks the batch at the cursor, which is in the window's segment.
pub(in crate::message_log) fn judge(window: &mut Window, cursor: &Cursor, scratch: &mut Scratch) -> Result<Judged> {
    let at = cursor.location.offset();
    let broken = |fault: Fault, end: u32| Ok(Judged::Broken(fault, end));
    let stream = window.stream().id;
    let header = match read_header(window, at)? {
        Ok(header) => header,
        Err(fault) => return broken(fault, at),
    };
    let end = at.saturating_add(header.length.get());
    if let Err(fault) = cursor.check_follows(&header) {
        return broken(fault, end);
    }
    let bytes = window.bytes(at, header.length.get() as usize)?;
    if planted::is_on(Planted::TornTailAccepted) {
        return Ok(Judged::Batch(header, Payloads::default()));
    }
    let mut payloads = Payloads::default();
    let checked = check_each(bytes, at, &header, &stream, scratch, |record_at, record| {
        payloads.check(record_at, record);
    });
    match checked {
        Ok(()) => Ok(Judged::Batch(header, payloads)),
        Err(fault) => broken(fault, end),
    }
}

/// Reads the header at `at`, and checks that it is whole, belongs in this segment and fits it.
pub(in crate::message_log) fn read_header(
    window: &mut Window,
    at: u32,
) -> Result<std::result::Result<BatchHeader, Fault>> {
    let (number, room) = (window.number(), window.end().saturating_sub(at));
    let bytes = window.bytes(at, BATCH_HEADER_BYTES)?;
    let Some(header) = BatchHeader::read(bytes) else {
        let found = if bytes.iter().all(|byte| *byte == 0) { "zeros" } else { "other bytes" };
        return Ok(Err(Fault::new(at, "a batch header", found)));
    };
    Ok(check_place(&header, Location::in_segment(number, at), number, room).map(|()| header))
}

fn check_place(
    header: &BatchHeader,
    location: Location,
    number: SegmentNumber,
    room: u32,
) -> std::result::Result<(), Fault> {
    let at = location.offset();
    if header.segment.get() != number.0 {
        let found = format!("one of segment {}", header.segment.get());
        return Err(Fault::new(at, format!("a batch of segment {number}"), found));
    }
    if header.length.get() > room {
        let found = format!("{} bytes", header.length.get());
        return Err(Fault::new(at, format!("a batch of at most {room} bytes"), found));
    }
    if header.synced.get() > location.0 {
        let found = Location(header.synced.get()).to_string();
        return Err(Fault::new(at, "a synced position before the batch", found));
    }
    Ok(())
}

/// Checks the records of a batch, each with its sequence, and the chain over all of them, but not their
/// payloads.
pub(in crate::message_log) fn check_records(
    bytes: &[u8],
    at: u32,
    header: &BatchHeader,
    stream: &[u8; 16],
    scratch: &mut Scratch,
) -> std::result::Result<(), Fault> {
    check_each(bytes, at, header, stream, scratch, |_, _| {})
}

/// Like `check_records`, and passes each whole record to `show`, with its offset in the file.
pub(in crate::message_log) fn check_each(
    bytes: &[u8],
    at: u32,
    header: &BatchHeader,
    stream: &[u8; 16],
    scratch: &mut Scratch,
    mut show: impl FnMut(u32, &RawRecord<'_>),
) -> std::result::Result<(), Fault> {
    scratch.clear();
    let length = header.length.get() as usize;
    let body = bytes.get(BATCH_HEADER_BYTES..length);
    let Some(body) = body else {
        return Err(Fault::new(at, format!("{length} bytes"), format!("{}", bytes.len())));
    };
    let mut records = Records::new(body, Sequence(header.base_sequence.get()));
    let mut taken = 0_u64;
    loop {
        let record_at = offset_of(at, records.offset());
        match records.next() {
            None => break,
            Some(Ok((_, record))) => {
                scratch.extend_from_slice(&record.header.header_check.get().to_le_bytes());
                // A record after an adoption would take the sequence of an adopted message.
                if taken != scratch.len() as u64 / 4 - 1 {
                    return Err(Fault::new(record_at, "nothing behind an adoption", "a record"));
                }
                taken = taken.saturating_add(sequences_of(&record));
                show(record_at, &record);
            }
            Some(Err(fault)) => return Err(record_fault(record_at, &fault)),
        }
    }
    let (count, found) = (header.record_count.get(), scratch.len() / 4);
    if found as u64 != u64::from(count) {
        return Err(Fault::new(at, format!("{count} records"), format!("{found}")));
    }
    if u64::from(header.count.get()) != taken {
        return Err(Fault::new(at, format!("{taken} sequences"), format!("{}", header.count.get())));
    }
    if count > 0 && (header.is_seal() || header.is_witness()) {
        return Err(Fault::new(at, "a seal or a witness without records", format!("{count} records")));
    }
    let chain = if count == 0 { header.chain_before.get() } else { chain_of(stream, header, scratch) };
    if chain != header.chain.get() {
        let found = format!("{:08x}", header.chain.get());
        return Err(Fault::new(at, format!("chain {chain:08x}"), found));
    }
    Ok(())
}

fn record_fault(at: u32, fault: &RecordFault) -> Fault {
    match fault {
        RecordFault::Short => Fault::new(at, "a whole record", "fewer bytes than its length says"),
        RecordFault::Length(length) => Fault::new(at, "the length of a record", length.to_string()),
        RecordFault::HeaderCheck { expected, found } => {
            Fault::new(at, format!("record check {expected:08x}"), format!("{found:08x}"))
        }
    }
}

fn offset_of(batch_at: u32, in_body: usize) -> u32 {
    let in_batch = u32::try_from(in_body.saturating_add(BATCH_HEADER_BYTES)).unwrap_or(u32::MAX);
    batch_at.saturating_add(in_batch)
}
