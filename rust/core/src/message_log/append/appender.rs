//! Writes batches to the disk, in order, and rolls from segment to segment.
//!
//! If a segment has no room for the next batch, it is synced, sealed and synced again before the next segment
//! takes its first batch, at every durability. Therefore only the last segment can be suspect. The first
//! failed write or sync poisons the appender, because the page cache proves nothing after a failure.

mod foreign;

use std::collections::VecDeque;
use std::sync::Arc;

use super::commit_options::Mark;
use super::durability::Durability;
use super::growth::SegmentGrowth;
use super::interface::{AppendMarks, Appended, AppenderStart, malformed, not_begun};
use super::preparing::{OpenSegment, PreparedSegment, Preparing, install};
use crate::error::{Error, Result};
use crate::message_log::position::LogPosition;
use crate::message_log::read::batch_check::Cursor;
use crate::message_log::segment::{
    SEGMENT_HEADER_BYTES, SegmentHeader, Stream, fresh_room, give_back_rest, segment_path, unless_stopped,
};
use crate::planted::failpoint::{Failpoint, reached};
use crate::planted::{Planted, is_on};
use crate::record::batch::{BATCH_HEADER_BYTES, BatchFields, BatchHeader, LOCAL_SEAL, LOCAL_WITNESS, seal_batch};
use crate::storage::Storage;
use crate::units::{Epoch, Location, Millis, SegmentNumber, Sequence};

/// Bytes of a batch header, in the type of offsets.
const HEADER: u32 = BATCH_HEADER_BYTES as u32;

/// The one writer of the log.
pub struct SegmentAppender {
    storage: Arc<dyn Storage>,
    stream: Stream,
    /// The epoch that `append` writes. `None` after a batch of another copy.
    begun: Option<Epoch>,
    /// The epoch of the last batch with records.
    epoch: Epoch,
    growth: SegmentGrowth,
    current: OpenSegment,
    stock: VecDeque<OpenSegment>,
    offset: u32,
    next_sequence: Sequence,
    chain: u32,
    trusted: Millis,
    synced: Mark,
    witness_due: bool,
    poison: Option<String>,
    closed: bool,
}

impl SegmentAppender {
    /// Begins segment `start.number`. The segment is small and zeroed, since an opening waits for it. Errors:
    /// those of the storage, but never `AlreadyExists`: a file of that name is replaced.
    pub fn open(storage: Arc<dyn Storage>, start: &AppenderStart) -> Result<Self> {
        let growth = SegmentGrowth::new(start.opening_bytes, start.segment_bytes, start.given_bytes);
        let header = SegmentHeader { number: start.number, stream: start.stream, capacity: growth.smallest_bytes() };
        let prepared = Preparing::begin_own(Arc::clone(&storage), header, true)?.finish()?;
        let current = install(&*storage, &prepared)?;
        let end = Location::in_segment(start.number, SEGMENT_HEADER_BYTES);
        Ok(Self {
            storage,
            stream: start.stream,
            begun: Some(start.epoch),
            epoch: start.epoch,
            growth,
            current,
            stock: VecDeque::new(),
            offset: SEGMENT_HEADER_BYTES,
            next_sequence: start.next_sequence,
            chain: start.chain,
            trusted: start.trusted,
            synced: Mark { location: end, sequence: start.next_sequence },
            witness_due: false,
            poison: None,
            closed: false,
        })
    }

    /// Writes one batch. `bytes` starts with room for a batch header, followed by freshly encoded records,
    /// which are completed in place. Rolls first if the batch does not fit. Any error of the storage poisons
    /// the appender.
    pub fn append(&mut self, bytes: &mut [u8], marks: &AppendMarks) -> Result<Appended> {
        self.refuse_if_done()?;
        self.epoch = self.begun.ok_or_else(not_begun)?;
        self.trusted = self.trusted.max(marks.trusted);
        let appended = self.place(bytes, marks);
        self.poison_on_error(appended)
    }

    /// Lets `append` write facts of this epoch from now on. It is durable already, and above all earlier ones.
    ///
    /// # Errors
    /// `Fenced` if a batch of this epoch, or of a later one, is in the log.
    pub fn begin_epoch(&mut self, epoch: Epoch) -> Result<()> {
        if epoch <= self.epoch {
            return Err(Error::Fenced { newest: self.epoch.0, found: epoch.0 });
        }
        self.begun = Some(epoch);
        Ok(())
    }

    /// Makes everything that was appended durable. Returns the synced position.
    pub fn sync(&mut self) -> Result<Mark> {
        self.refuse_if_done()?;
        let synced = self.sync_current();
        self.poison_on_error(synced)?;
        Ok(self.synced)
    }

    /// Syncs, then writes an empty batch that records this, and syncs that batch. Later damage before it can
    /// then not be taken for a torn tail. Writes no batch if the last batch records the sync already, or if
    /// only the seal has room. Returns true if it wrote a batch; `synced` and `tail_room` have then moved.
    pub fn append_witness(&mut self, trusted: Millis, held: bool, committed: Location) -> Result<bool> {
        self.refuse_if_done()?;
        let synced = self.sync_current();
        self.poison_on_error(synced)?;
        if !self.witness_due || self.tail_room() < u64::from(HEADER) || is_on(Planted::WitnessNotWritten) {
            return Ok(false);
        }
        let fields = BatchFields { trusted: self.trusted.max(trusted), held, ..self.fields(committed) };
        let written = self.write_witness(&fields);
        self.poison_on_error(written)?;
        Ok(true)
    }

    /// Syncs, seals and syncs again, so that the log ends here on purpose. The disk space that was prepared for more
    /// batches is given back. If that fails, the next opening does it.
    pub fn seal_and_close(&mut self, committed: Location) -> Result<()> {
        self.refuse_if_done()?;
        let sealed = self.seal(committed);
        self.poison_on_error(sealed)?;
        self.closed = true;
        self.give_space_back()
    }

    /// Removes the prepared segments, the last one first, and punches the current one behind its seal. A prepared
    /// segment holds no batch, so it does no harm if a power cut brings its file back.
    fn give_space_back(&mut self) -> Result<()> {
        while let Some(segment) = self.stock.pop_back() {
            unless_stopped(self.storage.remove(&segment_path(segment.number)))?;
        }
        give_back_rest(&*self.current.file, u64::from(self.offset))
    }

    /// Adds a prepared segment to the stock: gives it its final name, durably. If its number was used in the
    /// meantime, it gets the next number. An error does not poison the appender; the segment is then not in
    /// the stock.
    pub fn adopt(&mut self, mut prepared: PreparedSegment) -> Result<()> {
        self.refuse_if_done()?;
        let number = self.next_to_prepare();
        if prepared.header.number != number {
            prepared.header.number = number;
            prepared.file.write_at(0, &prepared.header.to_block())?;
            prepared.file.sync_data()?;
        }
        let segment = install(&*self.storage, &prepared)?;
        self.stock.push_back(segment);
        Ok(())
    }

    /// The header of the next segment to prepare. A publish of `awaited_bytes` of records waits for it; 0 if none
    /// waits.
    pub fn plan_next(&self, awaited_bytes: u64) -> SegmentHeader {
        let capacity = self.growth.next_bytes(awaited_bytes);
        SegmentHeader { number: self.next_to_prepare(), stream: self.stream, capacity }
    }

    fn next_to_prepare(&self) -> SegmentNumber {
        self.stock.back().map_or(self.current.number, |last| last.number).next()
    }

    /// Bytes that batches, with their headers, can still take in the current segment. The room of its seal is
    /// not included.
    pub fn tail_room(&self) -> u64 {
        u64::from(self.current.capacity.saturating_sub(self.offset).saturating_sub(HEADER))
    }

    /// Bytes that batches can take in each segment of the stock, in the order of use.
    pub fn stock_rooms(&self) -> impl Iterator<Item = u64> + '_ {
        self.stock.iter().map(|segment| u64::from(fresh_room(segment.capacity)))
    }

    /// Where the next batch may start, and the sequence of its first fact.
    pub fn written(&self) -> Mark {
        Mark { location: self.position(), sequence: self.next_sequence }
    }

    /// The end of the log, with the values that the next batch must continue.
    pub fn end(&self) -> LogPosition {
        self.cursor().position()
    }

    /// The position up to which the log is known to be durable.
    pub fn synced(&self) -> Mark {
        self.synced
    }

    /// The chain after the last batch.
    pub fn chain(&self) -> u32 {
        self.chain
    }

    /// True if no later batch vouches for the last batch with records.
    pub fn witness_due(&self) -> bool {
        self.witness_due
    }

    fn position(&self) -> Location {
        Location::in_segment(self.current.number, self.offset)
    }

    fn place(&mut self, bytes: &mut [u8], marks: &AppendMarks) -> Result<Appended> {
        let rolled = self.make_room(bytes.len() as u64, marks.committed)?;
        let fields = BatchFields {
            record_count: marks.record_count,
            held: marks.held,
            durability: marks.durability.code(),
            ..self.fields(marks.committed)
        };
        seal_batch(bytes, &fields).ok_or_else(|| malformed(bytes.len(), marks.record_count))?;
        let header = BatchHeader::read(bytes).ok_or_else(|| malformed(bytes.len(), marks.record_count))?;
        self.write_facts(bytes, header, rolled)
    }

    /// Rolls until a batch of `length` bytes fits. Returns true if it begins a segment.
    fn make_room(&mut self, length: u64, committed: Location) -> Result<bool> {
        let rolled = self.tail_room() < length;
        while self.tail_room() < length {
            self.refuse_too_large(length)?;
            self.roll(committed, length)?;
        }
        Ok(rolled)
    }

    fn refuse_too_large(&self, length: u64) -> Result<()> {
        let limit = u64::from(fresh_room(self.growth.largest_bytes()));
        if length > limit { Err(Error::TooLarge { argument: "batch", limit, found: length }) } else { Ok(()) }
    }

    fn write_facts(&mut self, bytes: &[u8], header: BatchHeader, rolled: bool) -> Result<Appended> {
        let start = self.position();
        self.chain = header.chain.get();
        reached(Failpoint::AppendBegins);
        self.write(bytes)?;
        reached(Failpoint::AppendWritten);
        self.next_sequence = self.next_sequence.plus(u64::from(header.count.get()));
        self.witness_due = true;
        Ok(Appended { header, start, end: self.written(), synced: self.synced, rolled })
    }

    fn cursor(&self) -> Cursor {
        Cursor {
            location: self.position(),
            chain: self.chain,
            next_sequence: self.next_sequence,
            epoch: self.epoch,
            trusted: self.trusted,
        }
    }

    fn fields(&self, committed: Location) -> BatchFields {
        BatchFields {
            stream: self.stream.id,
            epoch: self.epoch,
            base_sequence: self.next_sequence,
            record_count: 0,
            trusted: self.trusted,
            held: false,
            chain_before: self.chain,
            durability: Durability::Disk.code(),
            synced: if is_on(Planted::WrittenVouchedFor) { self.position() } else { self.synced.location },
            committed,
            segment: self.current.number,
            local_flags: 0,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.current.file.write_at(u64::from(self.offset), bytes)?;
        self.offset = self.offset.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.growth.note_given(bytes.len() as u64);
        Ok(())
    }

    fn write_empty(&mut self, local_flags: u32, fields: &BatchFields) -> Result<()> {
        let mut bytes = [0; BATCH_HEADER_BYTES];
        seal_batch(&mut bytes, &BatchFields { local_flags, ..*fields }).ok_or_else(|| malformed(bytes.len(), 0))?;
        self.write(&bytes)
    }

    /// Writes a witness for what is synced, and syncs it.
    fn write_witness(&mut self, fields: &BatchFields) -> Result<()> {
        self.write_empty(LOCAL_WITNESS, fields)?;
        reached(Failpoint::WitnessWritten);
        self.sync_current()?;
        self.witness_due = false;
        Ok(())
    }

    /// Like `sync_current`, for a segment that is full.
    fn sync_full(&mut self) -> Result<()> {
        if is_on(Planted::RolledUnsynced) { Ok(()) } else { self.sync_current() }
    }

    fn sync_current(&mut self) -> Result<()> {
        if self.synced.location != self.position() {
            reached(Failpoint::LogSyncBegins);
            if !self.leaves_sector_unsynced() {
                let synced = self.current.file.sync_data();
                if !is_on(Planted::SyncErrorSwallowed) {
                    synced?;
                }
            }
            reached(Failpoint::LogSynced);
            self.synced = self.written();
        }
        Ok(())
    }

    /// A planted fault: skips the sync of an append that ends in the sector where the last sync ended.
    fn leaves_sector_unsynced(&self) -> bool {
        let sector = |location: Location| location.0 / 512;
        is_on(Planted::PartialSectorNotSynced) && sector(self.synced.location) == sector(self.position())
    }

    fn seal(&mut self, committed: Location) -> Result<()> {
        self.sync_full()?;
        self.write_empty(LOCAL_SEAL, &self.fields(committed))?;
        reached(Failpoint::SealWritten);
        self.sync_full()?;
        self.witness_due = false;
        Ok(())
    }

    /// Ends the current segment and begins the next one: a prepared one if there is any. Otherwise a segment
    /// is made now for a batch of `length` bytes, not zeroed, since zeroing would take too long.
    fn roll(&mut self, committed: Location, length: u64) -> Result<()> {
        reached(Failpoint::RollBegins);
        self.seal(committed)?;
        let next = if let Some(prepared) = self.stock.pop_front() {
            prepared
        } else {
            let prepared = Preparing::begin_own(Arc::clone(&self.storage), self.plan_next(length), false)?.finish()?;
            install(&*self.storage, &prepared)?
        };
        self.current = next;
        self.offset = SEGMENT_HEADER_BYTES;
        self.synced = self.written();
        reached(Failpoint::Rolled);
        Ok(())
    }

    fn refuse_if_done(&self) -> Result<()> {
        match &self.poison {
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
            None if self.closed => Err(Error::Closed),
            None => Ok(()),
        }
    }

    fn poison_on_error<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.poison = Some(error.to_string());
        }
        result
    }
}

#[cfg(test)]
#[path = "appender_tests.rs"]
mod tests;
