//! The walk through a piece of the log: each record, with what its batch says about it. All tables walk the log in this
//! way.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Find;
use delaymq_core::record::batch::BATCH_HEADER_BYTES;
use delaymq_core::record::header::{RawRecord, Records};
use delaymq_core::record::{Fact, decode};
use delaymq_core::units::{Epoch, Location, Millis, Sequence};

/// The place of a fact, and what is known of its batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) fact: Sequence,
    pub(crate) location: Location,
    /// `None` if the header of its batch is damaged, as of the next two.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) trusted: Option<Millis>,
    /// A message that is due by then is ready by its own fact; `None` also if dispatch was held.
    pub(crate) ready_by: Option<Millis>,
}

/// What comes next in the log.
pub(crate) enum Walked<'a> {
    Record(RawRecord<'a>, At),
    Damage(Error),
}

/// Shows each record of what was found, and those of a batch only where its time is wanted.
pub(crate) fn each_record<'a>(
    find: Find<'a>,
    path: &str,
    is_wanted: impl FnOnce(Option<Millis>) -> bool,
    mut show: impl FnMut(Walked<'a>),
) {
    match find {
        Find::Damage(error) => show(Walked::Damage(error)),
        Find::Record { record, location, trusted } => {
            if is_wanted(trusted) {
                let at = At { fact: record.sequence, location, epoch: None, trusted, ready_by: None };
                show(Walked::Record(record, at));
            }
        }
        Find::Batch { header, start, records } => {
            let trusted = Some(Millis(header.trusted_ms.get()));
            if !is_wanted(trusted) {
                return;
            }
            let (epoch, ready_by) = (Some(Epoch(header.epoch.get())), trusted.filter(|_| !header.is_held()));
            let first = start.0.saturating_add(BATCH_HEADER_BYTES as u64);
            for found in Records::checked(records, Sequence(header.base_sequence.get())) {
                show(match found {
                    Ok((place, record)) => {
                        let location = Location(first.saturating_add(place as u64));
                        Walked::Record(record, At { fact: record.sequence, location, epoch, trusted, ready_by })
                    }
                    Err(fault) => {
                        let offset = u64::from(start.offset());
                        Walked::Damage(Error::corrupt(path, offset, "a whole batch", format!("{fault:?}")))
                    }
                });
            }
        }
    }
}

/// What a record says. The payload of a message is not checked here.
/// Fails with `Corrupt` if that cannot be read.
pub(crate) fn fact_of<'a>(record: &RawRecord<'a>, at: &At, path: &str) -> Result<Fact<'a>> {
    let fact = decode(record).filter(|fact| matches!(fact, Fact::Message(_)) || record.payload_is_whole());
    fact.ok_or_else(|| {
        let (offset, found) = (u64::from(at.location.offset()), format!("kind {}", record.header.kind));
        Error::corrupt(path, offset, "a whole record of a known kind", found)
    })
}

/// Shows each fact of what was found, and why one cannot be read. Returns true if a batch was found, and each of its
/// facts could be read.
pub(crate) fn each_fact<'a>(
    find: Find<'a>,
    path: &str,
    mut show: impl FnMut(Result<(Fact<'a>, RawRecord<'a>, At)>),
) -> bool {
    let mut is_whole = matches!(find, Find::Batch { .. });
    each_record(
        find,
        path,
        |_| true,
        |walked| {
            let found = match walked {
                Walked::Damage(error) => Err(error),
                Walked::Record(record, at) => fact_of(&record, &at, path).map(|fact| (fact, record, at)),
            };
            is_whole &= found.is_ok();
            show(found);
        },
    );
    is_whole
}
