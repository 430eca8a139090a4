//! Reads one segment after another through one buffer.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message_log::segment::{SEGMENT_HEADER_BYTES, SegmentHeader, Stream, segment_path};
use crate::storage::{Storage, StorageFile, read_upto};
use crate::units::{Location, SegmentNumber};

/// Bytes of one read. The buffer and the page-cache pages that it is copied from fit the processor's
/// second-level cache.
pub(in crate::message_log) const WINDOW_BYTES: usize = 256 << 10;

/// A segment that is being read, and the part of it that is in memory.
pub(in crate::message_log) struct Window {
    storage: Arc<dyn Storage>,
    stream: Stream,
    number: SegmentNumber,
    /// The offset before which all batches end.
    end: u32,
    file: Option<Arc<dyn StorageFile>>,
    buffer: Vec<u8>,
    buffer_at: u32,
    buffered: usize,
}

/// The result of opening a segment.
pub(in crate::message_log) enum Opening {
    Ready,
    Missing,
    /// The file exists, but its header is not that of the segment. Its bytes can be read.
    Unreadable(Error),
}

impl Window {
    pub(in crate::message_log) fn new(storage: Arc<dyn Storage>, stream: Stream) -> Self {
        Self {
            storage,
            stream,
            number: SegmentNumber(0),
            end: 0,
            file: None,
            buffer: Vec::new(),
            buffer_at: 0,
            buffered: 0,
        }
    }

    pub(in crate::message_log) fn number(&self) -> SegmentNumber {
        self.number
    }

    pub(in crate::message_log) fn end(&self) -> u32 {
        self.end
    }

    pub(in crate::message_log) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(in crate::message_log) fn path(&self) -> String {
        segment_path(self.number)
    }

    pub(in crate::message_log) fn at(&self, offset: u32) -> Location {
        Location::in_segment(self.number, offset)
    }

    pub(in crate::message_log) fn open(&mut self, number: SegmentNumber) -> Result<Opening> {
        let path = segment_path(number);
        self.number = number;
        self.buffered = 0;
        self.end = 0;
        self.file = None;
        let file = match self.storage.open(&path) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(Opening::Missing),
            Err(error) => return Err(error),
        };
        let length = u32::try_from(file.length()?).unwrap_or(u32::MAX);
        let block = read_upto(&*file, 0, SEGMENT_HEADER_BYTES as usize)?;
        self.file = Some(file);
        let header = SegmentHeader::read(&path, &block)
            .and_then(|header| header.check_place(&path, number, &self.stream).map(|()| header));
        match header {
            Ok(header) => {
                self.end = length.min(header.capacity);
                Ok(Opening::Ready)
            }
            // A segment of a later release cannot be checked by this one.
            Err(error @ Error::NewerFormat { .. }) => Err(error),
            Err(error) => {
                self.end = length;
                Ok(Opening::Unreadable(error))
            }
        }
    }

    /// Up to `length` bytes at `offset`; fewer at the end of the segment.
    pub(in crate::message_log) fn bytes(&mut self, offset: u32, length: usize) -> Result<&[u8]> {
        let length = length.min(self.end.saturating_sub(offset) as usize);
        let inside = offset.checked_sub(self.buffer_at).map(|start| start as usize);
        let buffered = inside.filter(|start| start.saturating_add(length) <= self.buffered);
        let start = if let Some(start) = buffered {
            start
        } else {
            self.fill(offset, length)?;
            0
        };
        let end = start.saturating_add(length).min(self.buffered);
        Ok(self.buffer.get(start..end).unwrap_or_default())
    }

    /// Returns no bytes from `end` on from now on.
    pub(in crate::message_log) fn limit(&mut self, end: u32) {
        self.end = self.end.min(end);
        self.buffered = 0;
    }

    /// Forgets the bytes in memory, because the file may have grown.
    pub(in crate::message_log) fn forget(&mut self) {
        self.buffered = 0;
    }

    /// Fills the buffer from `offset` on, and keeps the bytes that are already in memory: the first part of a
    /// batch that crosses the end of the buffer.
    fn fill(&mut self, offset: u32, length: usize) -> Result<()> {
        let wanted = length.max(WINDOW_BYTES).min(self.end.saturating_sub(offset) as usize);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let start = offset.checked_sub(self.buffer_at).map_or(self.buffered, |start| start as usize);
        let kept = self.buffered.saturating_sub(start).min(wanted);
        if kept > 0 {
            self.buffer.copy_within(start..start.saturating_add(kept), 0);
        }
        self.buffered = 0;
        self.buffer_at = offset;
        if let (Some(file), Some(into)) = (&self.file, self.buffer.get_mut(kept..wanted)) {
            let read = file.read_at(u64::from(offset).saturating_add(kept as u64), into)?;
            self.buffered = kept.saturating_add(read);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message_log::tests::fixture::{Log, STREAM, shared};

    #[test]
    fn whatever_is_asked_for_in_whatever_order_is_what_the_file_has() {
        let mut log = Log::new(4 << 20);
        let body: Vec<u8> = (0..2_000_000_u32).flat_map(|word| [word as u8, (word >> 8) as u8]).take(3 << 20).collect();
        log.commit(&[&body]);
        let file = log.storage.open("log/0000000001.segment").unwrap();
        let whole = read_upto(&*file, 0, file.length().unwrap() as usize).unwrap();
        let mut window = Window::new(shared(&log.storage), STREAM);
        assert!(matches!(window.open(SegmentNumber(1)).unwrap(), Opening::Ready));
        let step = WINDOW_BYTES as u32 / 3;
        let on = (0..30).map(|turn| (turn * step, WINDOW_BYTES / 2));
        let back = (0..30).rev().map(|turn| (turn * step + 7, 100 * turn as usize));
        let large = [(5, WINDOW_BYTES * 2), (9, WINDOW_BYTES * 3), (WINDOW_BYTES as u32 * 3 + 1, WINDOW_BYTES * 2)];
        for (offset, length) in on.chain(back).chain(large) {
            let end = (offset as usize + length).min(window.end() as usize);
            let expected = whole.get(offset as usize..end).unwrap_or_default();
            assert!(window.bytes(offset, length).unwrap() == expected, "{length} bytes at {offset}");
        }
    }
}
