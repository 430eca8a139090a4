//! Where submissions will lie: a run ahead of the appender, never more hopeful than it.
//!
//! Each submission is charged a whole batch header, and whoever forms batches begins a new one
//! where a submission moves to another segment. So the appender, who joins some of them, stands at
//! or before the place that is foreseen here.

use std::collections::VecDeque;

use crate::record::batch::BATCH_HEADER_BYTES;

/// A place that was foreseen: which segment, 0 for the current one, and what is free there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::message_log) struct Place {
    pub(in crate::message_log) segment: usize,
    free: u64,
}

/// The room that is prepared.
#[derive(Debug, Default)]
pub(in crate::message_log) struct Room {
    rooms: VecDeque<u64>,
    end: Place,
}

impl Room {
    /// Starts anew from what the appender has; what is queued must be placed again.
    pub(super) fn reset(&mut self, tail: u64, prepared: impl IntoIterator<Item = u64>) {
        // One witness may be written before what is queued.
        let tail = tail.saturating_sub(BATCH_HEADER_BYTES as u64);
        self.rooms.clear();
        self.rooms.extend(prepared);
        self.end = Place { segment: 0, free: tail };
    }

    /// Where `charge` bytes would go; `None` where they fit nowhere.
    pub(super) fn foresee(&self, charge: u64) -> Option<Place> {
        let mut place = self.end;
        while place.free < charge {
            place = Place { segment: place.segment.saturating_add(1), free: *self.rooms.get(place.segment)? };
        }
        Some(Place { free: place.free.saturating_sub(charge), ..place })
    }

    /// Takes what was foreseen.
    pub(in crate::message_log) fn take(&mut self, place: Place) {
        self.end = place;
    }

    /// Where the last one went.
    pub(in crate::message_log) fn end(&self) -> Place {
        self.end
    }

    /// How many prepared segments stay untouched if the log ends at `place`.
    pub(super) fn untouched(&self, place: Place) -> usize {
        self.rooms.len().saturating_sub(place.segment)
    }

    /// Bytes that may still be taken but for one segment, which finishing needs; `preparing` more are on their way.
    pub(super) fn spare_bytes(&self, preparing: u64) -> u64 {
        let segments = || self.rooms.iter().skip(self.end.segment).copied().chain([preparing]);
        let all = segments().fold(self.end.free, u64::saturating_add);
        all.saturating_sub(segments().max().unwrap_or_default())
    }

    /// Uses up everything, where what is queued does not fit what is prepared.
    pub(super) fn exhaust(&mut self) {
        self.end = Place { segment: self.rooms.len(), free: 0 };
    }
}
