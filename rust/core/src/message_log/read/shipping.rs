//! Finds the batches from a sequence on, to be sent to another copy of the log.

use std::sync::Arc;

use super::reader::BatchReader;
use crate::error::{Error, Result};
use crate::message_log::append::commit_options::Mark;
use crate::message_log::holes::Holes;
use crate::message_log::position::LogPosition;
use crate::message_log::segment::Stream;
use crate::storage::Storage;
use crate::units::Sequence;

/// Reads the batches from the one that begins with `first` up to `written`, unchanged. Seals and witnesses are left out.
/// [`BatchReader::extend`] makes the range longer when the log has grown. Of the log, only the headers of one segment
/// are read to find the place.
///
/// `kept` are the positions at which the kept segments begin, in order.
///
/// # Errors
/// `NotKept` if the segment of a fact was removed, or a fact is in a hole. `InvalidArgument` if no batch begins with
/// that sequence. `Corrupt` and `MissingFile` if the log is damaged, and those of the storage.
pub fn batches_from(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    kept: impl IntoIterator<Item = LogPosition>,
    holes: &Holes,
    first: Sequence,
    written: Mark,
) -> Result<BatchReader> {
    let reader = |start| BatchReader::new(Arc::clone(storage), stream, start, written.location);
    if first == written.sequence {
        return Ok(reader(written.location));
    }
    if first > written.sequence {
        let (expected, found) = (format!("{} or less", written.sequence), first.to_string());
        return Err(Error::InvalidArgument { argument: "sequence", expected, found });
    }
    let mut kept = kept.into_iter().peekable();
    let floor = kept.peek().map_or(written.sequence, |start| start.next_sequence);
    let whole_from = holes.iter().map(|hole| hole.to.next_sequence).fold(floor, Sequence::max);
    let start = kept.take_while(|start| start.next_sequence <= first).last();
    let Some(start) = start.filter(|_| whole_from <= first) else {
        return Err(Error::NotKept { sequence: first.0, first: whole_from.0 });
    };
    let mut batches = reader(start.end);
    batches.pass_to(first)?;
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_log::holes::Hole;
    use crate::message_log::segment::{SEGMENT_HEADER_BYTES, segment_path};
    use crate::message_log::tests::fixture::{KIND_FACT, Log, STREAM, encode, shared};
    use crate::message_log::{Appended, ScanStart};
    use crate::storage::{Call, read_upto};
    use crate::units::{Epoch, Location, Millis, SegmentNumber};

    const SMALL: u32 = 8 << 10;

    struct Kept {
        log: Log,
        batches: Vec<Appended>,
        segments: Vec<LogPosition>,
    }

    fn filled() -> Kept {
        let mut kept = Kept { log: Log::new(SMALL), batches: Vec::new(), segments: vec![position(0, &first_mark())] };
        for number in 0..40_u8 {
            let chain = kept.log.appender.chain();
            let records = [vec![number; 300], vec![number; 20]].map(|payload| encode(KIND_FACT, &payload));
            let appended = kept.log.write_records(&records[..=usize::from(number % 2)]);
            if appended.rolled {
                let sequence = Sequence(appended.header.base_sequence.get());
                kept.segments.push(position(chain, &Mark { location: appended.start, sequence }));
            }
            if number % 5 == 4 {
                kept.log.witness();
            }
            kept.batches.push(appended);
        }
        kept
    }

    fn first_mark() -> Mark {
        Mark { location: ScanStart::BEGINNING.location, sequence: Sequence(1) }
    }

    fn position(chain: u32, mark: &Mark) -> LogPosition {
        let (end, next_sequence) = (mark.location, mark.sequence);
        LogPosition { end, chain, next_sequence, epoch: Epoch(1), trusted: Millis(1000) }
    }

    impl Kept {
        fn from(&self, first: u64, written: Mark) -> Result<BatchReader> {
            self.past(&Holes::default(), first, written)
        }

        fn past(&self, holes: &Holes, first: u64, written: Mark) -> Result<BatchReader> {
            let segments = self.segments.iter().copied();
            batches_from(&shared(&self.log.storage), STREAM, segments, holes, Sequence(first), written)
        }

        fn bytes_of(&self, batch: &Appended) -> Vec<u8> {
            let file = self.log.storage.open(&segment_path(batch.start.segment().unwrap())).unwrap();
            read_upto(&*file, batch.start.offset().into(), batch.header.length.get() as usize).unwrap()
        }
    }

    fn all(reader: &mut BatchReader) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| reader.next_batch().unwrap().map(|batch| batch.bytes)).collect()
    }

    #[test]
    fn from_each_batch_on_all_later_ones_come_as_they_were_written() {
        let kept = filled();
        assert!(kept.segments.len() > 2);
        let written = kept.log.appender.written();
        let bytes: Vec<_> = kept.batches.iter().map(|batch| kept.bytes_of(batch)).collect();
        for (place, batch) in kept.batches.iter().enumerate() {
            let first = batch.header.base_sequence.get();
            let found = all(&mut kept.from(first, written).unwrap());
            assert!(found == bytes[place..], "from {first}");
            let one = all(&mut kept.from(first, batch.end).unwrap());
            assert!(one == bytes[place..=place], "{first} alone");
        }
    }

    #[test]
    fn at_its_end_the_reader_waits_for_what_is_written_next_also_in_the_next_segment() {
        let mut kept = filled();
        let end = kept.log.appender.written();
        let mut reader = kept.from(end.sequence.0, end).unwrap();
        assert!(all(&mut reader).is_empty());
        for number in 0..20 {
            let next = kept.log.write(&[&[number; 900]]);
            reader.extend(next.end.location);
            assert_eq!(all(&mut reader), [kept.bytes_of(&next)], "unsynced, and exactly this one");
        }
    }

    #[test]
    fn one_segment_alone_is_read_to_find_the_place() {
        let kept = filled();
        let (last, written) = (kept.batches.last().unwrap(), kept.log.appender.written());
        let before = kept.log.storage.counts().bytes_read();
        kept.from(last.header.base_sequence.get(), written).unwrap();
        let read = kept.log.storage.counts().bytes_read() - before;
        assert!(read <= u64::from(SMALL + SEGMENT_HEADER_BYTES), "{read}");
        let opens = kept.log.storage.counts().of(Call::Open);
        kept.from(written.sequence.0, written).unwrap();
        assert_eq!(kept.log.storage.counts().of(Call::Open), opens, "the end is known");
    }

    #[test]
    fn what_is_not_kept_is_named_with_what_is() {
        let mut kept = filled();
        let written = kept.log.appender.written();
        kept.segments.remove(0);
        let floor = kept.segments[0].next_sequence;
        assert!(kept.from(floor.0, written).is_ok());
        let refused = kept.from(floor.0 - 1, written).map(drop);
        assert_eq!(refused, Err(Error::NotKept { sequence: floor.0 - 1, first: floor.0 }));
        kept.segments.clear();
        let refused = kept.from(1, written).map(drop);
        assert_eq!(refused, Err(Error::NotKept { sequence: 1, first: written.sequence.0 }));
        assert!(kept.from(written.sequence.0, written).is_ok());
    }

    #[test]
    fn facts_in_a_hole_are_not_kept() {
        let kept = filled();
        let written = kept.log.appender.written();
        let at = |place: usize| {
            let batch = &kept.batches[place];
            let mark = Mark { location: batch.start, sequence: Sequence(batch.header.base_sequence.get()) };
            position(batch.header.chain_before.get(), &mark)
        };
        let hole = Hole { from: at(2), to: at(4) };
        let (begins, ends) = (hole.from.next_sequence.0, hole.to.next_sequence.0);
        let holes = Holes::of(vec![hole]).unwrap();
        for first in [1, begins] {
            let refused = kept.past(&holes, first, written).map(drop);
            assert_eq!(refused, Err(Error::NotKept { sequence: first, first: ends }));
        }
        assert_eq!(all(&mut kept.past(&holes, ends, written).unwrap()).len(), 36);
    }

    #[test]
    fn a_sequence_within_a_batch_or_behind_the_log_is_refused() {
        let kept = filled();
        let written = kept.log.appender.written();
        for first in [3, written.sequence.0 + 1] {
            let refused = kept.from(first, written).map(drop);
            assert!(matches!(refused, Err(Error::InvalidArgument { argument: "sequence", .. })), "{first}");
        }
    }

    #[test]
    fn damage_on_the_way_is_named() {
        let kept = filled();
        let (written, damaged) = (kept.log.appender.written(), kept.batches[1].start);
        let path = segment_path(SegmentNumber(1));
        assert!(kept.log.storage.damage(&path, u64::from(Location(damaged.0).offset()) + 20, 1));
        assert!(matches!(kept.from(5, written).map(drop), Err(Error::Corrupt { path: named, .. }) if named == path));
    }
}
