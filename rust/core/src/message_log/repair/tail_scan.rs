//! The first reading of a log after a stop: finds its end, and checks that everything before the end is
//! whole.
//!
//! There are three kinds of end. *End*: only zeros follow. *Torn*: no batch vouches for the bytes that
//! follow, so they were never promised to be durable. *Corrupt*: a later batch, or the caller's `ScanStart`,
//! says that the broken place was durable. In this case nothing is read from the log and nothing is changed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::search::search_behind;
use crate::error::{Error, Result};
use crate::message_log::holes::Holes;
use crate::message_log::read::batch_check::{Cursor, Fault, Judged, Payloads, Scratch, judge};
use crate::message_log::read::window::{Opening, Window};
use crate::message_log::repair::scan_end::{LaterSegment, ScanEnd, ScanStart, TornTail};
use crate::message_log::segment::{SEGMENT_HEADER_BYTES, Stream, list_segments, segment_path};
use crate::record::batch::BatchHeader;
use crate::storage::Storage;
use crate::units::{Location, SegmentNumber};

/// A batch with damaged payloads that no later batch has vouched for yet.
struct Suspect {
    before: Cursor,
    payloads: Payloads,
}

/// Why the batches end.
struct Break {
    fault: Fault,
    /// Where the broken batch would end, if its header is whole.
    batch_end: u32,
    /// The next segment does not exist.
    segment_missing: bool,
    /// The header of the next segment is damaged, so that the file cannot stay in its place.
    segment_unreadable: bool,
}

pub(in crate::message_log) struct Survey {
    window: Window,
    scratch: Scratch,
    cursor: Cursor,
    /// The cursor at the seal of the previous segment, until the next batch.
    sealed: Option<Cursor>,
    vouched: Location,
    committed: Location,
    suspects: VecDeque<Suspect>,
    damaged_payloads: u64,
    bytes: u64,
}

impl Survey {
    pub(in crate::message_log) fn run(
        storage: &Arc<dyn Storage>,
        stream: Stream,
        start: &ScanStart,
        holes: &Holes,
    ) -> Result<ScanEnd> {
        let segments = list_segments(&**storage)?;
        let mut survey = Self::begin(Arc::clone(storage), stream, start)?;
        let end = survey.read_batches(holes)?;
        survey.conclude(&end, &segments)
    }

    fn begin(storage: Arc<dyn Storage>, stream: Stream, start: &ScanStart) -> Result<Self> {
        let mut window = Window::new(storage, stream);
        let Some(first) = start.location.segment() else {
            let found = start.location.to_string();
            return Err(Error::InvalidArgument { argument: "location", expected: "a segment".to_owned(), found });
        };
        match window.open(first)? {
            Opening::Ready => {}
            Opening::Unreadable(error) => return Err(error),
            Opening::Missing => {
                let reason = "recovery starts in it".to_owned();
                return Err(Error::MissingFile { path: segment_path(first), reason });
            }
        }
        // Everything before the start was durable once.
        if start.location.offset() > window.end() {
            let (expected, found) = (format!("{} bytes", start.location.offset()), "the end of the file");
            return Err(Error::corrupt(&segment_path(first), u64::from(window.end()), expected, found));
        }
        let (cursor, vouched) = (start.cursor(), start.vouched);
        let (scratch, suspects, committed) = (Scratch::new(), VecDeque::new(), start.location);
        Ok(Self { window, scratch, cursor, sealed: None, vouched, committed, suspects, damaged_payloads: 0, bytes: 0 })
    }

    /// Reads batches up to the first break.
    fn read_batches(&mut self, holes: &Holes) -> Result<Break> {
        loop {
            if let Some(fault) = self.pass_hole(holes) {
                let batch_end = self.cursor.location.offset();
                return Ok(Break { fault, batch_end, segment_missing: false, segment_unreadable: false });
            }
            match judge(&mut self.window, &self.cursor, &mut self.scratch)? {
                Judged::Broken(fault, batch_end) => {
                    return Ok(Break { fault, batch_end, segment_missing: false, segment_unreadable: false });
                }
                Judged::Batch(header, payloads) => self.pass(&header, payloads)?,
            }
            if self.sealed.is_some()
                && let Some(end) = self.enter_next_segment()?
            {
                return Ok(end);
            }
        }
    }

    /// Continues after the hole that begins here, if there is one. Returns a fault if the hole does not fit.
    fn pass_hole(&mut self, holes: &Holes) -> Option<Fault> {
        let hole = holes.beginning_at(self.cursor.location)?;
        if let Some(fault) = self.cursor.check_hole(hole) {
            return Some(fault);
        }
        (self.cursor, self.sealed) = (self.cursor.behind_hole(hole), None);
        None
    }

    fn pass(&mut self, header: &BatchHeader, payloads: Payloads) -> Result<()> {
        if payloads.first.is_some() {
            self.suspects.push_back(Suspect { before: self.cursor, payloads });
        }
        let start = self.cursor.location;
        self.cursor = self.cursor.after(header);
        self.sealed = header.is_seal().then_some(Cursor { location: start, ..self.cursor });
        self.bytes = self.bytes.saturating_add(u64::from(header.length.get()));
        self.committed = self.committed.max(Location(header.committed.get()));
        self.vouch(Location(header.synced.get()))
    }

    /// Notes that everything before `position` is durable. Damage before it is therefore not a torn tail.
    fn vouch(&mut self, position: Location) -> Result<()> {
        self.vouched = self.vouched.max(position);
        while let Some(suspect) = self.suspects.front()
            && suspect.before.location < self.vouched
        {
            if let (Some(fault), Some(segment)) = (&suspect.payloads.first_fact, suspect.before.location.segment()) {
                return Err(fault.corrupt(&segment_path(segment)));
            }
            self.damaged_payloads = self.damaged_payloads.saturating_add(suspect.payloads.messages);
            self.suspects.pop_front();
        }
        Ok(())
    }

    /// Continues at the start of the next segment. Returns `Some` if that segment cannot be read.
    fn enter_next_segment(&mut self) -> Result<Option<Break>> {
        let next = self.window.number().next();
        self.cursor.location = Location::in_segment(next, SEGMENT_HEADER_BYTES);
        let at = SEGMENT_HEADER_BYTES;
        let broken = |expected: &str, found: String, segment_missing| {
            let fault = Fault { offset: 0, expected: expected.to_owned(), found };
            Ok(Some(Break { fault, batch_end: at, segment_missing, segment_unreadable: !segment_missing }))
        };
        match self.window.open(next)? {
            Opening::Ready => Ok(None),
            Opening::Missing => broken("a segment", "no file".to_owned(), true),
            Opening::Unreadable(error) => broken("a segment header", error.to_string(), false),
        }
    }

    /// Decides what the break is, from everything after it.
    fn conclude(mut self, end: &Break, segments: &[SegmentNumber]) -> Result<ScanEnd> {
        let broken = self.cursor;
        let broken_in = self.window.number();
        let at = broken.location.offset();
        let here = search_behind(&mut self.window, at, end.batch_end, &broken, &mut self.scratch)?;
        let mut vouched = here.vouched;
        let mut content = BTreeMap::from([(broken_in, here.content_end.max(at.saturating_sub(SEGMENT_HEADER_BYTES)))]);
        for number in segments.iter().filter(|number| **number > broken_in) {
            let readable = matches!(self.window.open(*number)?, Opening::Ready);
            let from = if readable { SEGMENT_HEADER_BYTES } else { 0 };
            let behind = search_behind(&mut self.window, from, from, &broken, &mut self.scratch)?;
            vouched = vouched.max(behind.vouched);
            content.insert(*number, behind.content_end);
        }
        self.vouch(vouched)?;
        if broken.location < self.vouched {
            return Err(self.corruption(end, broken_in));
        }
        let torn_at = |fault: &Fault, start: Location| TornTail {
            start,
            offset: fault.offset,
            end: here.content_end.max(at),
            expected: fault.expected.clone(),
            found: fault.found.clone(),
        };
        let has_torn = here.content_end > 0;
        let (cursor, sealed, torn) = match (self.suspects.front(), self.sealed) {
            (Some(Suspect { before, payloads }), _) => {
                (*before, false, payloads.first.as_ref().map(|fault| torn_at(fault, before.location)))
            }
            (None, Some(sealed)) if !has_torn || end.segment_unreadable => (sealed, true, None),
            (None, _) => (broken, false, has_torn.then(|| torn_at(&end.fault, broken.location))),
        };
        // Segments that were read completely and are now cut off were not searched. They have content.
        let has_content = |number: SegmentNumber| content.get(&number).is_none_or(|content_end| *content_end > 0);
        let last = cursor.location.segment().unwrap_or_default();
        let later = segments.iter().filter(|number| **number > last);
        let later_segments =
            later.map(|number| LaterSegment { number: *number, has_content: has_content(*number) }).collect();
        Ok(ScanEnd {
            end: cursor.location,
            sealed,
            torn,
            chain: cursor.chain,
            next_sequence: cursor.next_sequence,
            epoch: cursor.epoch,
            trusted: cursor.trusted,
            vouched: self.vouched,
            committed: self.committed,
            later_segments,
            damaged_payloads: self.damaged_payloads,
            bytes: self.bytes,
        })
    }

    fn corruption(&self, end: &Break, number: SegmentNumber) -> Error {
        let path = segment_path(number);
        if end.segment_missing {
            let reason = format!("the log goes on behind it, and is durable up to {}", self.vouched);
            return Error::MissingFile { path, reason };
        }
        end.fault.corrupt(&path)
    }
}
