//! Numbers with a unit. No signature of this crate takes a bare `u64` where one of these types fits.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number that follows; saturates at the type's end, which no store reaches.
            #[inline]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }

            /// This number moved up by `by`; saturates.
            #[inline]
            pub const fn plus(self, by: $inner) -> Self {
                Self(self.0.saturating_add(by))
            }

            /// The distance from `earlier` up to `self`; zero if `self` is lower.
            #[inline]
            pub const fn since(self, earlier: Self) -> $inner {
                self.0.saturating_sub(earlier.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

number! {
    /// The place of a fact in the message log: dense, from 1, never reused.
    Sequence, u64
}
number! {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    Millis, u64
}
number! {
    /// One opening of a store for writing; from 1.
    Epoch, u32
}
number! {
    /// The number that a coordinator gives to each value of a register. It only grows. 0 before the first.
    Version, u64
}
number! {
    /// A message-log segment; from 1.
    SegmentNumber, u32
}
number! {
    /// A run file; from 1, one counter for schedule and dispatch runs.
    RunNumber, u32
}
number! {
    /// A subject's number; from 1, never reused.
    SubjectNumber, u32
}
number! {
    /// One life of a group of a subject; from 1, never reused.
    GroupNumber, u32
}
number! {
    /// A consumer of one group; from 1, never reused.
    ConsumerNumber, u32
}
number! {
    /// The place of a ready message within its subject: dense, from 0.
    ReadyNumber, u64
}
number! {
    /// The place of a message among those that one consumer was given: dense, from 0.
    PullOffset, u64
}

number! {
    /// A minute since 1970-01-01T00:00:00Z; the last one also stands for all later minutes.
    Minute, u32
}

/// Milliseconds per minute.
const MINUTE_MS: u64 = 60_000;

impl Millis {
    /// The minute that contains this time.
    #[inline]
    pub const fn minute(self) -> Minute {
        let minute = self.0 / MINUTE_MS;
        Minute(if minute > u32::MAX as u64 { u32::MAX } else { minute as u32 })
    }
}

impl Minute {
    /// Its first millisecond.
    pub const fn start(self) -> Millis {
        Millis(self.0 as u64 * MINUTE_MS)
    }
}

/// A number of messages and the bytes of their bodies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Messages.
    pub messages: u64,
    /// Bytes of their bodies, together.
    pub bytes: u64,
}

impl Tally {
    /// One message.
    #[inline]
    pub const fn one(bytes: u32) -> Self {
        Self { messages: 1, bytes: bytes as u64 }
    }

    /// Adds `more`.
    #[inline]
    pub const fn add(&mut self, more: Self) {
        self.messages = self.messages.saturating_add(more.messages);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }

    /// Subtracts `gone`.
    #[inline]
    pub const fn take(&mut self, gone: Self) {
        self.messages = self.messages.saturating_sub(gone.messages);
        self.bytes = self.bytes.saturating_sub(gone.bytes);
    }

    /// True if there are no messages.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.messages == 0 && self.bytes == 0
    }
}

/// Where a record is: a file and a byte offset. Also a position in the log, since locations within segments compare
/// in log order.
///
/// Packed as `run flag (1 bit) | file number (31 bits) | offset (32 bits)`. Run numbers are below
/// [`RunNumber::END`], so the bit above a run's number is clear. If that bit is set, the value is no place: see
/// [`Self::of_row`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Location(pub u64);

impl RunNumber {
    /// All run numbers are below this one.
    pub const END: Self = Self(1 << 30);
}

/// What a [`Location`] points into.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LocationFile {
    /// A message-log segment.
    Segment(SegmentNumber),
    /// The payload area of a schedule run.
    Run(RunNumber),
}

impl Location {
    /// No place: a read at it fails, and the message is voided.
    pub const NOWHERE: Self = Self(0);

    const RUN: u64 = 1 << 63;
    /// The mark of [`Self::of_row`], set together with `RUN`; the low bits hold the row's due time.
    const OF_ROW: u64 = Self::RUN | (1 << 62);
    const NUMBER_MASK: u64 = 0x7FFF_FFFF;

    /// A place in a segment of the message log.
    #[inline]
    pub const fn in_segment(segment: SegmentNumber, offset: u32) -> Self {
        Self(((segment.0 as u64 & Self::NUMBER_MASK) << 32) | offset as u64)
    }

    /// A place in the payload area of a run.
    #[inline]
    pub const fn in_run(run: RunNumber, offset: u32) -> Self {
        Self(Self::RUN | ((run.0 as u64 & Self::NUMBER_MASK) << 32) | offset as u64)
    }

    /// A place that is not looked up yet: the row of another entry, due at `due`, says where the payload is. Exists
    /// only in memory, in entries that were moved away from a run.
    #[inline]
    pub const fn of_row(due: Millis) -> Self {
        Self(Self::OF_ROW | (due.0 & !Self::OF_ROW))
    }

    /// The due time of that row, if this is [`Self::of_row`].
    #[inline]
    pub const fn row_due(self) -> Option<Millis> {
        if self.0 & Self::OF_ROW == Self::OF_ROW { Some(Millis(self.0 & !Self::OF_ROW)) } else { None }
    }

    /// The file that this location points into.
    #[inline]
    pub const fn file(self) -> LocationFile {
        let number = ((self.0 >> 32) & Self::NUMBER_MASK) as u32;
        if self.0 & Self::RUN == 0 {
            LocationFile::Segment(SegmentNumber(number))
        } else {
            LocationFile::Run(RunNumber(number))
        }
    }

    /// The segment number, for a location in the log.
    #[inline]
    pub const fn segment(self) -> Option<SegmentNumber> {
        match self.file() {
            LocationFile::Segment(segment) => Some(segment),
            LocationFile::Run(_) => None,
        }
    }

    /// The byte offset within the file.
    #[inline]
    pub const fn offset(self) -> u32 {
        (self.0 & 0xFFFF_FFFF) as u32
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(due) = self.row_due() {
            return write!(formatter, "where a row due at {due} says");
        }
        match self.file() {
            LocationFile::Segment(segment) => write!(formatter, "segment {segment} offset {}", self.offset()),
            LocationFile::Run(run) => write!(formatter, "run {run} offset {}", self.offset()),
        }
    }
}

/// A point in the schedule's order: due time first, then sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DueKey {
    /// When it is due.
    pub due: Millis,
    /// The entry's own sequence.
    pub sequence: Sequence,
}

impl DueKey {
    /// Before every entry.
    pub const START: Self = Self { due: Millis(0), sequence: Sequence(0) };

    /// The last key of a millisecond.
    pub const fn end_of(due: Millis) -> Self {
        Self { due, sequence: Sequence(u64::MAX) }
    }
}

/// A time as text: ISO 8601, in UTC, with milliseconds unless they are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Utc(pub Millis);

impl fmt::Display for Utc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY_MS: u64 = 86_400_000;
        // Days from 0000-03-01 on, so that a leap day is the last one of its year: 400 years have 146,097 of them.
        let days = self.0.0 / DAY_MS + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, since) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = era * 400 + year + since;
        let (seconds, millis) = (self.0.0 % DAY_MS / 1_000, self.0.0 % 1_000);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        if millis > 0 {
            write!(formatter, ".{millis:03}")?;
        }
        formatter.write_str("Z")
    }
}

/// A duration as text: the largest unit first, without units that are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span(pub u64);

impl fmt::Display for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
        let mut left = self.0;
        for (unit_ms, word) in UNITS {
            if left >= unit_ms {
                write!(formatter, "{}{word}", left / unit_ms)?;
                left %= unit_ms;
            }
        }
        if left > 0 || self.0 == 0 { write!(formatter, "{left}ms") } else { Ok(()) }
    }
}

/// The bytes that `length` takes when padded to the log's alignment of 8.
#[inline]
pub const fn padded(length: usize) -> usize {
    length.saturating_add(7) & !7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_utc() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00Z"),
            (1_798_761_599_050, "2026-12-31T23:59:59.050Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (253_402_300_800_000, "10000-01-01T00:00:00Z"),
        ] {
            assert_eq!(Utc(Millis(millis)).to_string(), text);
        }
        assert!(Utc(Millis(u64::MAX)).to_string().ends_with('Z'));
    }

    #[test]
    fn a_location_keeps_its_file_and_offset() {
        let segment = Location::in_segment(SegmentNumber(7), 4096);
        let run = Location::in_run(RunNumber(9), u32::MAX);
        assert_eq!(segment.file(), LocationFile::Segment(SegmentNumber(7)));
        assert_eq!(segment.offset(), 4096);
        assert_eq!(run.file(), LocationFile::Run(RunNumber(9)));
        assert_eq!(run.offset(), u32::MAX);
    }

    #[test]
    fn a_place_that_a_row_says_is_told_from_every_place_in_a_file() {
        for due in [Millis(0), Millis(1_800_000_000_123), Millis((1 << 48) - 1)] {
            assert_eq!(Location::of_row(due).row_due(), Some(due));
        }
        let last_run = Location::in_run(RunNumber(RunNumber::END.0 - 1), u32::MAX);
        let last_segment = Location::in_segment(SegmentNumber(u32::MAX), u32::MAX);
        for place in [Location::NOWHERE, last_run, last_segment] {
            assert_eq!(place.row_due(), None, "{place}");
        }
    }

    #[test]
    fn a_span_is_written_as_people_write_it() {
        let written = [0, 250, 10_000, 5_400_000, 86_400_000 * 4_000, 90_061_001].map(|ms| Span(ms).to_string());
        assert_eq!(written, ["0ms", "250ms", "10s", "1h30m", "4000d", "1d1h1m1s1ms"]);
    }

    #[test]
    fn log_locations_sort_by_segment_then_offset() {
        let early = Location::in_segment(SegmentNumber(1), u32::MAX);
        let late = Location::in_segment(SegmentNumber(2), 0);
        assert!(early < late);
    }
}
