//! Recurring messages (kind 23): a series begins, replaces another one, or ends. Kind 24 stands in front of a
//! message that is an occurrence of a series.
//!
//! The rule and the zone are texts. The proposer computes when an occurrence is due and puts the time into the
//! message, so a replay needs no calendar.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::expire::{ExpiresAfter, OnExpiry};
use super::header::{RawRecord, encode_record};
use super::read_struct;
use super::terms::IfExists;
use crate::units::{Millis, Sequence, SubjectNumber};

/// The kind byte of a series fact: it begins or ends.
pub const KIND_RECUR: u8 = 23;
/// The kind byte of an occurrence fact: the next message is an occurrence.
pub const KIND_OCCURRENCE: u8 = 24;

/// The policy for occurrences whose time passed before they could be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CatchUp {
    /// One of them is stored, at once.
    #[default]
    One,
    /// None of them is stored.
    Skip,
    /// Each of them is stored.
    All,
}

impl CatchUp {
    /// The number of this policy in facts and checkpoints.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The policy with this number.
    pub fn numbered(number: u32) -> Option<Self> {
        [Self::One, Self::Skip, Self::All].into_iter().find(|one| one.number() == number)
    }
}

/// A series to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewSeries<'a> {
    /// The subject of its messages.
    pub subject: SubjectNumber,
    /// Its name in the subject.
    pub name: &'a str,
    /// The behaviour if the subject has a series of this name.
    pub if_exists: IfExists,
    /// The rule of its occurrences, as a text.
    pub rule: &'a str,
    /// The time zone of the rule.
    pub zone: &'a str,
    /// The policy for missed occurrences.
    pub catch_up: CatchUp,
    /// The first occurrence is the first one of the rule after this time.
    pub after: Millis,
    /// When each message expires, if it does.
    pub expires_after: Option<ExpiresAfter>,
    /// Message id, tags and attributes of each message.
    pub meta: &'a [u8],
    /// The body of each message.
    pub body: &'a [u8],
}

/// A change to a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recur<'a> {
    /// A series begins.
    Begin(NewSeries<'a>),
    /// The series of this name ends.
    End {
        /// The subject.
        subject: SubjectNumber,
        /// The name.
        name: &'a str,
    },
    /// A series without further occurrences ends.
    Over {
        /// The sequence of the fact that began it.
        series: Sequence,
    },
}

/// Fixed part of a series fact. The payload is the name, the rule, the zone, the meta and the body.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | `after_ms`: for a new series, its first occurrence comes after this; else 0 |
/// | 8 | 8 | `series`: for a series that is over, its number; else 0 |
/// | 16 | 4 | `subject` |
/// | 20 | 4 | `what`: 0 begin and replace, 1 begin or keep, 2 begin or be refused, 3 end, 4 over |
/// | 24 | 4 | `catch_up`: 0 one, 1 skip, 2 all |
/// | 28 | 4 | `name_length` |
/// | 32 | 4 | `rule_length` |
/// | 36 | 4 | `zone_length` |
/// | 40 | 4 | `meta_length` |
/// | 44 | 4 | `on_expiry`: 1 drop, 2 dead letter; 0 if the messages do not expire |
/// | 48 | 8 | `expires_after_ms`, only if the messages expire |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RecurFixed {
    after_ms: U64,
    series: U64,
    subject: U32,
    what: U32,
    catch_up: U32,
    name_length: U32,
    rule_length: U32,
    zone_length: U32,
    meta_length: U32,
    on_expiry: U32,
}
const _: () = assert!(size_of::<RecurFixed>() == 48);

/// The end of the fixed part, for a series whose messages expire.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ExpiryFixed {
    expires_after_ms: U64,
}

/// The fixed part of a series whose messages expire.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ExpiringFixed {
    recur: RecurFixed,
    expiry: ExpiryFixed,
}
const _: () = assert!(size_of::<ExpiringFixed>() == 56);

const END: u32 = 3;
const OVER: u32 = 4;

fn length_of(part: &[u8]) -> U32 {
    U32::new(u32::try_from(part.len()).unwrap_or(u32::MAX))
}

/// Appends a series fact.
pub fn encode_recur(out: &mut Vec<u8>, recur: &Recur<'_>) {
    let nothing = NewSeries {
        subject: SubjectNumber(0),
        name: "",
        if_exists: IfExists::Replace,
        rule: "",
        zone: "",
        catch_up: CatchUp::One,
        after: Millis(0),
        expires_after: None,
        meta: b"",
        body: b"",
    };
    let (what, series, new) = match *recur {
        Recur::Begin(new) => (new.if_exists as u32, Sequence(0), new),
        Recur::End { subject, name } => (END, Sequence(0), NewSeries { subject, name, ..nothing }),
        Recur::Over { series } => (OVER, series, nothing),
    };
    let fixed = RecurFixed {
        after_ms: U64::new(new.after.0),
        series: U64::new(series.0),
        subject: U32::new(new.subject.0),
        what: U32::new(what),
        catch_up: U32::new(new.catch_up.number()),
        name_length: length_of(new.name.as_bytes()),
        rule_length: length_of(new.rule.as_bytes()),
        zone_length: length_of(new.zone.as_bytes()),
        meta_length: length_of(new.meta),
        on_expiry: U32::new(new.expires_after.map_or(0, |expires| u32::from(expires.then.number()))),
    };
    let parts = [new.name.as_bytes(), new.rule.as_bytes(), new.zone.as_bytes(), new.meta, new.body];
    match new.expires_after {
        None => encode_record(out, KIND_RECUR, 0, fixed.as_bytes(), &parts),
        Some(ExpiresAfter { after_ms, .. }) => {
            let fixed = ExpiringFixed { recur: fixed, expiry: ExpiryFixed { expires_after_ms: U64::new(after_ms) } };
            encode_record(out, KIND_RECUR, 0, fixed.as_bytes(), &parts);
        }
    }
}

/// Reads a series fact.
pub fn decode_recur<'a>(record: &RawRecord<'a>) -> Option<Recur<'a>> {
    let fixed: RecurFixed = read_struct(record.fixed)?;
    let mut rest = record.payload;
    let mut part = |length: U32| {
        let (head, tail) = rest.split_at_checked(length.get() as usize)?;
        rest = tail;
        Some(head)
    };
    let [name, rule, zone] = [part(fixed.name_length)?, part(fixed.rule_length)?, part(fixed.zone_length)?];
    let [name, rule, zone] = [str::from_utf8(name).ok()?, str::from_utf8(rule).ok()?, str::from_utf8(zone).ok()?];
    let meta = part(fixed.meta_length)?;
    let subject = SubjectNumber(fixed.subject.get());
    let if_exists = match fixed.what.get() {
        0 => IfExists::Replace,
        1 => IfExists::Keep,
        2 => IfExists::Refuse,
        END => return Some(Recur::End { subject, name }),
        OVER => return Some(Recur::Over { series: Sequence(fixed.series.get()) }),
        _ => return None,
    };
    let (catch_up, after) = (CatchUp::numbered(fixed.catch_up.get())?, Millis(fixed.after_ms.get()));
    let expires_after = match fixed.on_expiry.get() {
        0 => None,
        number => Some(expires_after_of(record, number)?),
    };
    let (meta, body) = (meta, rest);
    Some(Recur::Begin(NewSeries { subject, name, if_exists, rule, zone, catch_up, after, expires_after, meta, body }))
}

/// When the messages of a series expire; `None` for an unknown number.
fn expires_after_of(record: &RawRecord<'_>, on_expiry: u32) -> Option<ExpiresAfter> {
    let then = OnExpiry::numbered(u8::try_from(on_expiry).ok()?)?;
    let fixed: ExpiringFixed = read_struct(record.fixed)?;
    Some(ExpiresAfter { after_ms: fixed.expiry.expires_after_ms.get(), then })
}

/// Marks the next message as an occurrence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occurrence {
    /// The sequence of the fact that began its series.
    pub series: Sequence,
    /// The due time of the occurrence before it; for the first one, the time that the series begins after. If
    /// another occurrence has been stored since, the message is not stored.
    pub after: Millis,
}

/// Fixed part of an occurrence fact.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | `series` |
/// | 8 | 8 | `after_ms` |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OccurrenceFixed {
    series: U64,
    after_ms: U64,
}
const _: () = assert!(size_of::<OccurrenceFixed>() == 16);

/// Appends an occurrence fact.
pub fn encode_occurrence(out: &mut Vec<u8>, occurrence: Occurrence) {
    let fixed = OccurrenceFixed { series: U64::new(occurrence.series.0), after_ms: U64::new(occurrence.after.0) };
    encode_record(out, KIND_OCCURRENCE, 0, fixed.as_bytes(), &[]);
}

/// Reads an occurrence fact.
pub fn decode_occurrence(record: &RawRecord<'_>) -> Option<Occurrence> {
    let fixed: OccurrenceFixed = read_struct(record.fixed)?;
    Some(Occurrence { series: Sequence(fixed.series.get()), after: Millis(fixed.after_ms.get()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::header::{read_record, seal_record};

    const SERIES: NewSeries<'_> = NewSeries {
        subject: SubjectNumber(3),
        name: "dünning",
        if_exists: IfExists::Keep,
        rule: "0 9 * * *",
        zone: "Europe/Berlin",
        catch_up: CatchUp::All,
        after: Millis(7),
        expires_after: None,
        meta: b"meta",
        body: b"body",
    };

    fn sealed(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        seal_record(&mut bytes, Sequence(5)).unwrap();
        bytes
    }

    #[test]
    fn series_read_back() {
        let expiring = [OnExpiry::Drop, OnExpiry::DeadLetter].map(|then| {
            let expires_after = Some(ExpiresAfter { after_ms: 7, then });
            Recur::Begin(NewSeries { expires_after, ..SERIES })
        });
        let empty = NewSeries { name: "", rule: "", zone: "", meta: b"", body: b"", ..SERIES };
        for recur in [
            Recur::Begin(SERIES),
            Recur::Begin(NewSeries { if_exists: IfExists::Replace, catch_up: CatchUp::One, ..SERIES }),
            Recur::Begin(NewSeries { if_exists: IfExists::Refuse, catch_up: CatchUp::Skip, ..empty }),
            Recur::End { subject: SubjectNumber(3), name: "dünning" },
            Recur::Over { series: Sequence(4) },
            expiring[0],
            expiring[1],
        ] {
            let bytes = sealed(|out| encode_recur(out, &recur));
            assert_eq!(decode_recur(&read_record(&bytes, Sequence(5)).unwrap()), Some(recur));
        }
        let occurrence = Occurrence { series: Sequence(4), after: Millis(9) };
        let bytes = sealed(|out| encode_occurrence(out, occurrence));
        assert_eq!(decode_occurrence(&read_record(&bytes, Sequence(5)).unwrap()), Some(occurrence));
    }

    #[test]
    fn parts_that_do_not_fit_are_none() {
        let whole = sealed(|out| encode_recur(out, &Recur::Begin(SERIES)));
        let whole = read_record(&whole, Sequence(5)).unwrap();
        let changed = |at: usize, value: u8| {
            let mut fixed = whole.fixed.to_vec();
            fixed[at] = value;
            let bytes = sealed(|out| encode_record(out, KIND_RECUR, 0, &fixed, &[whole.payload]));
            decode_recur(&read_record(&bytes, Sequence(5)).unwrap()).is_some()
        };
        assert!(changed(0, 8), "another time is another series");
        // Each length is longer than the payload; the kind and the policy are one above the last.
        for (at, value) in [(28, 100), (32, 100), (36, 100), (40, 100), (20, 5), (24, 3)] {
            assert!(!changed(at, value), "{at}");
        }
        // In the middle of a character.
        assert!(!changed(28, 2));
    }
}
