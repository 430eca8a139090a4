//! A start at a time, counted from the end of its segment where that is less to read.
//!
//! The segments behind it say the number of the next message of each subject. So the messages from the place of the time
//! up to there tell the number of the place, as those before it do. The headers of batches tell where the place is.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::reading::LogPiece;
use crate::error::{Error, Result};
use crate::message_log::BatchReader;
use crate::schedule_log::EntryState;
use crate::store::query::log_lookup::KeptLog;
use crate::store::state::State;
use crate::units::{Location, Millis, ReadyNumber, SubjectNumber};

/// Where batches have fewer bytes on average, their headers cost as much as all they have.
const BATCH_BYTES_MIN: u64 = 4 << 10;
/// So many headers tell the average.
const HEADERS_MIN: u64 = 64;

/// The end of the segment in which a search begins.
#[derive(Clone, Debug)]
pub(super) struct SegmentEnd {
    pub(super) place: Location,
    /// The numbers of the next messages there, less those that were counted.
    pub(super) numbers: BTreeMap<SubjectNumber, ReadyNumber>,
}

impl SegmentEnd {
    /// The place of the first batch of this time, or the end, if there are fewer bytes from there to the end than before
    /// it. `None` otherwise, or if that cannot be told.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn nearer_place(&self, log: &KeptLog, from: Location, since: Millis) -> Result<Option<Location>> {
        let mut reader = BatchReader::new(Arc::clone(&log.storage), log.stream, from, self.place);
        let (mut headers, mut place) = (0_u64, None);
        loop {
            let (start, header) = match reader.next_header() {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(Some(place.unwrap_or(self.place))),
                Err(error @ Error::Storage { .. }) => return Err(error),
                // There is a hole, or damage: messages before it count, and those in it do not.
                Err(_) => return Ok(None),
            };
            if place.is_none() && Millis(header.trusted_ms.get()) >= since {
                place = Some(start);
            }
            headers = headers.saturating_add(1);
            let passed = start.0.saturating_sub(from.0);
            let is_farther =
                place.is_some_and(|place| start.0.saturating_sub(place.0) > place.0.saturating_sub(from.0));
            let is_small = headers >= HEADERS_MIN && passed < headers.saturating_mul(BATCH_BYTES_MIN);
            if is_farther || is_small {
                return Ok(None);
            }
        }
    }

    /// Counts the messages of a piece. False if facts in it cannot be read: then the count says nothing.
    pub(super) fn count(&mut self, piece: &LogPiece, state: &State) -> bool {
        for entry in &piece.entries {
            if state.schedule.state(entry.sequence()) == EntryState::Dispatched
                && let Some(number) = self.numbers.get_mut(&entry.subject())
            {
                *number = ReadyNumber(number.0.saturating_sub(1));
            }
        }
        piece.error.is_none() && !piece.ends_in_gap && piece.batches.iter().all(|batch| !batch.is_behind_gap)
    }
}
