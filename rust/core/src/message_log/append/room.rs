//! Predicts where submissions will lie in the segments. The prediction never assumes more room than the
//! appender has.
//!
//! Each submission is charged a whole batch header, and group commit begins a new batch when a submission
//! goes to another segment. The appender writes one header for several submissions, so its position is at or
//! before the one predicted here.

use std::collections::VecDeque;

use crate::record::batch::BATCH_HEADER_BYTES;

/// A predicted place: a segment, 0 for the current one, and the free bytes there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::message_log) struct Place {
    pub(in crate::message_log) segment: usize,
    free: u64,
}

/// The room in the current segment and in the prepared ones.
#[derive(Debug, Default)]
pub(in crate::message_log) struct Room {
    rooms: VecDeque<u64>,
    end: Place,
}

impl Room {
    /// Starts again from the room that the appender has. Queued batches must then be placed again.
    pub(super) fn reset(&mut self, tail: u64, prepared: impl IntoIterator<Item = u64>) {
        // One witness may be written before the queued batches.
        let tail = tail.saturating_sub(BATCH_HEADER_BYTES as u64);
        self.rooms.clear();
        self.rooms.extend(prepared);
        self.end = Place { segment: 0, free: tail };
    }

    /// The place after `charge` more bytes. `None` if they fit nowhere.
    pub(super) fn foresee(&self, charge: u64) -> Option<Place> {
        let mut place = self.end;
        while place.free < charge {
            place = Place { segment: place.segment.saturating_add(1), free: *self.rooms.get(place.segment)? };
        }
        Some(Place { free: place.free.saturating_sub(charge), ..place })
    }

    /// Takes the room up to a place that `foresee` returned.
    pub(in crate::message_log) fn take(&mut self, place: Place) {
        self.end = place;
    }

    /// The place after the last submission.
    pub(in crate::message_log) fn end(&self) -> Place {
        self.end
    }

    /// How many prepared segments stay untouched if the log ends at `place`.
    pub(super) fn untouched(&self, place: Place) -> usize {
        self.rooms.len().saturating_sub(place.segment)
    }

    /// Bytes that may still be taken, `preparing` bytes of a new segment included, less the largest segment:
    /// finishing needs one.
    pub(super) fn spare_bytes(&self, preparing: u64) -> u64 {
        let segments = || self.rooms.iter().skip(self.end.segment).copied().chain([preparing]);
        let all = segments().fold(self.end.free, u64::saturating_add);
        all.saturating_sub(segments().max().unwrap_or_default())
    }

    /// Uses up all room, because a queued batch does not fit.
    pub(super) fn exhaust(&mut self) {
        self.end = Place { segment: self.rooms.len(), free: 0 };
    }
}
