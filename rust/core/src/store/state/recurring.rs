//! Recurring series: the rule of each as a text, its message, and its pending occurrence. The proposer of an occurrence
//! computes the due time. This module knows which series need their next occurrence: those without a pending one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::record::expire::{ExpiresAfter, OnExpiry};
use crate::record::recurring::{CatchUp, NewSeries};
use crate::schedule_log::DUE_MAX;
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::units::{DueKey, Millis, Sequence, SubjectNumber};

/// The maximum number of series in a store.
pub const SERIES_MAX: usize = 1 << 16;
/// The maximum size of one series: its name, its rule and its message.
pub const SERIES_BYTES_MAX: usize = 64 << 10;
/// The maximum size of all series together: each checkpoint writes them.
pub const ALL_SERIES_BYTES_MAX: usize = 16 << 20;
/// The minimum size of one series in a checkpoint.
const SAVED_BYTES: usize = 72;

/// The part of a series that never changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recurs {
    /// The subject of its messages.
    pub subject: SubjectNumber,
    /// Its name in the subject.
    pub name: String,
    /// The rule of its times, as a text.
    pub rule: String,
    /// The zone that the rule is in.
    pub zone: String,
    /// What happens to missed occurrences.
    pub catch_up: CatchUp,
    /// When each message expires, if it does.
    pub expires_after: Option<ExpiresAfter>,
    /// Message id, tags and attributes of each message.
    pub meta: Vec<u8>,
    /// The body of each message.
    pub body: Vec<u8>,
}

impl Recurs {
    /// Takes the definition from the request for a new series.
    pub(in crate::store) fn of(new: &NewSeries<'_>) -> Self {
        Self {
            subject: new.subject,
            name: new.name.to_owned(),
            rule: new.rule.to_owned(),
            zone: new.zone.to_owned(),
            catch_up: new.catch_up,
            expires_after: new.expires_after,
            meta: new.meta.to_vec(),
            body: new.body.to_vec(),
        }
    }

    /// Returns the bytes that count against the limits.
    pub fn bytes(&self) -> usize {
        let parts = [self.name.len(), self.rule.len(), self.zone.len(), self.meta.len(), self.body.len()];
        parts.into_iter().fold(0, usize::saturating_add)
    }
}

/// A series.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    /// Its definition; shared with frozen checkpoints.
    pub recurs: Arc<Recurs>,
    /// When its last occurrence was due by the rule. Before the first occurrence, the time after which it begins.
    pub last_due: Millis,
    /// Its pending occurrence; `None` if it needs the next one.
    pub pending: Option<DueKey>,
}

/// All recurring series: see the module.
#[derive(Clone, Debug, Default)]
pub struct Recurring {
    /// The series by number, which is the sequence of the fact that began it.
    all: BTreeMap<Sequence, Series>,
    by_name: BTreeMap<(SubjectNumber, String), Sequence>,
    by_pending: BTreeMap<Sequence, Sequence>,
    /// The series to look at: those that need an occurrence and are neither proposed nor idle.
    unproposed: BTreeSet<Sequence>,
    /// True if a series was added to `unproposed` since the last call of `take_news`.
    has_news: bool,
    bytes: usize,
}

impl PartialEq for Recurring {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Recurring {
    /// Returns the number of series.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if there is no series.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the bytes of all series.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the series with a number.
    pub fn get(&self, number: Sequence) -> Option<&Series> {
        self.all.get(&number)
    }

    /// Returns the number of the series with this name.
    pub fn named(&self, subject: SubjectNumber, name: &str) -> Option<Sequence> {
        self.by_name.get(&(subject, name.to_owned())).copied()
    }

    /// Returns the series with numbers above this one, in order.
    pub fn after(&self, number: Sequence) -> impl Iterator<Item = (Sequence, &Series)> {
        self.all.range(number.next()..).map(|(number, series)| (*number, series))
    }

    /// Returns the series that need an occurrence, proposed or not, in order.
    pub fn owing(&self) -> impl Iterator<Item = (Sequence, &Series)> {
        self.after(Sequence(0)).filter(|(_, series)| series.pending.is_none())
    }

    /// True if a series needs an occurrence that is not proposed.
    pub(in crate::store) fn has_unproposed(&self) -> bool {
        !self.unproposed.is_empty()
    }

    /// True if a series was added to the unproposed ones since the last call.
    pub(in crate::store) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Returns the series that need an occurrence which is not proposed: those after this number, then from the first
    /// one on.
    pub(in crate::store) fn unproposed_from(&self, number: Sequence) -> impl Iterator<Item = (Sequence, &Series)> {
        let turn = self.unproposed.range(number.next()..).chain(self.unproposed.range(..=number));
        turn.filter_map(|number| Some((*number, self.all.get(number)?)))
    }

    /// Notes that the next occurrence of a series is proposed, or that the series is idle until the next look.
    pub(in crate::store) fn is_proposed(&mut self, number: Sequence) {
        self.unproposed.remove(&number);
    }

    /// Notes that the proposal of a series was judged. A series that still needs an occurrence is looked at again.
    pub(in crate::store) fn is_judged(&mut self, number: Sequence) {
        if self.all.get(&number).is_some_and(|series| series.pending.is_none()) {
            self.owes(number);
        }
    }

    fn owes(&mut self, number: Sequence) {
        self.has_news |= self.unproposed.insert(number);
    }

    pub(in crate::store) fn begin(&mut self, number: Sequence, series: Series) {
        let recurs = &series.recurs;
        self.bytes = self.bytes.saturating_add(recurs.bytes());
        self.by_name.insert((recurs.subject, recurs.name.clone()), number);
        match series.pending {
            Some(key) => drop(self.by_pending.insert(key.sequence, number)),
            None => self.owes(number),
        }
        self.all.insert(number, series);
    }

    pub(in crate::store) fn end(&mut self, number: Sequence) -> Option<Series> {
        let series = self.all.remove(&number)?;
        let recurs = &series.recurs;
        self.bytes = self.bytes.saturating_sub(recurs.bytes());
        self.by_name.remove(&(recurs.subject, recurs.name.clone()));
        self.unproposed.remove(&number);
        if let Some(key) = series.pending {
            self.by_pending.remove(&key.sequence);
        }
        Some(series)
    }

    /// Notes that an occurrence was stored; `pending` is its key while it is pending.
    pub(in crate::store) fn occurred(&mut self, number: Sequence, due: Millis, pending: Option<DueKey>) {
        let Some(series) = self.all.get_mut(&number) else { return };
        series.last_due = due;
        self.wait_for(number, pending);
    }

    /// Notes that this message is no longer pending: its series needs the next occurrence.
    pub(in crate::store) fn release(&mut self, sequence: Sequence) -> Option<Sequence> {
        if self.by_pending.is_empty() {
            return None;
        }
        let number = self.by_pending.remove(&sequence)?;
        self.wait_for(number, None);
        Some(number)
    }

    /// Sets the pending occurrence of a series.
    pub(in crate::store) fn wait_for(&mut self, number: Sequence, pending: Option<DueKey>) {
        let Some(series) = self.all.get_mut(&number) else { return };
        if let Some(before) = std::mem::replace(&mut series.pending, pending) {
            self.by_pending.remove(&before.sequence);
        }
        match pending {
            Some(key) => {
                self.by_pending.insert(key.sequence, number);
                self.unproposed.remove(&number);
            }
            None => self.owes(number),
        }
    }

    /// Copies the part that a checkpoint writes, without the indexes.
    pub(in crate::store) fn frozen(&self) -> Self {
        Self { all: self.all.clone(), ..Self::default() }
    }

    /// Writes a count, then for each series, by number, `number u64 | subject u32 | name | rule | zone | catch_up u32 |
    /// last_due_ms u64 | pending_due_ms u64 | pending_sequence u64 | meta | body`. Without a pending occurrence, both
    /// pending fields are 0. If its messages expire, `catch_up` has the number of [`OnExpiry`] in its second byte, and
    /// `expires_after_ms u64` follows it.
    pub(in crate::store) fn write(&self, out: &mut FieldWriter) {
        let saved = if is_on(Planted::RecurringNotSaved) { &BTreeMap::new() } else { &self.all };
        out.count(saved.len());
        for (number, series) in saved {
            let (recurs, pending) = (&series.recurs, series.pending.unwrap_or_default());
            out.u64(number.0);
            out.u32(recurs.subject.0);
            out.text(&recurs.name);
            out.text(&recurs.rule);
            out.text(&recurs.zone);
            let on_expiry = recurs.expires_after.map_or(0, |expires| u32::from(expires.then.number()));
            out.u32(recurs.catch_up.number() | on_expiry << 8);
            if let Some(expires) = recurs.expires_after {
                out.u64(expires.after_ms);
            }
            out.u64(series.last_due.0);
            out.u64(pending.due.0);
            out.u64(pending.sequence.0);
            out.blob(&recurs.meta);
            out.blob(&recurs.body);
        }
    }

    /// Reads what [`Self::write`] wrote, in a checkpoint whose next sequence is `next`.
    ///
    /// # Errors
    /// `Corrupt` if series are out of order, two have one name or one pending occurrence, or they exceed the limits.
    pub(in crate::store) fn read(from: &mut FieldReader<'_>, next: Sequence) -> Result<Self> {
        let mut read = Self::default();
        let mut last = Sequence(0);
        for _ in 0..from.count(SAVED_BYTES)? {
            let (number, subject) = (Sequence(from.u64()?), SubjectNumber(from.u32()?));
            let (name, rule, zone) = (from.text()?, from.text()?, from.text()?);
            let policy = from.u32()?;
            let catch_up = CatchUp::numbered(policy & 0xFF);
            let expires_after = read_expires_after(from, policy >> 8)?;
            let (last_due, due, sequence) = (Millis(from.u64()?), Millis(from.u64()?), Sequence(from.u64()?));
            let (meta, body) = (from.blob()?.to_vec(), from.blob()?.to_vec());
            let pending = (sequence > Sequence(0)).then_some(DueKey { due, sequence });
            let is_new = number > last && number < next && sequence < next && read.named(subject, &name).is_none();
            let (Some(catch_up), true, false) = (catch_up, is_new, read.by_pending.contains_key(&sequence)) else {
                return Err(from.malformed("series in the order in which they began, each once"));
            };
            last = number;
            let recurs = Arc::new(Recurs { subject, name, rule, zone, catch_up, expires_after, meta, body });
            let is_small = recurs.bytes() <= SERIES_BYTES_MAX && due <= DUE_MAX;
            read.begin(number, Series { recurs, last_due, pending });
            if !is_small || read.len() > SERIES_MAX || read.bytes > ALL_SERIES_BYTES_MAX {
                return Err(from.malformed("series that take no more than they may"));
            }
        }
        Ok(read)
    }

    /// True if all series have a known subject and a pending message as their occurrence, if any.
    pub(in crate::store) fn fit(
        &self,
        is_subject: impl Fn(SubjectNumber) -> bool,
        is_pending: impl Fn(Sequence) -> bool,
    ) -> bool {
        self.all.values().all(|series| is_subject(series.recurs.subject))
            && self.by_pending.keys().all(|sequence| is_pending(*sequence))
    }
}

fn read_expires_after(from: &mut FieldReader<'_>, on_expiry: u32) -> Result<Option<ExpiresAfter>> {
    if on_expiry == 0 {
        return Ok(None);
    }
    let then = u8::try_from(on_expiry).ok().and_then(OnExpiry::numbered);
    let then = then.ok_or_else(|| from.malformed("what happens to messages that expire"))?;
    Ok(Some(ExpiresAfter { after_ms: from.u64()?, then }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, pending: Option<u64>) -> Series {
        let recurs = Recurs {
            subject: SubjectNumber(1),
            name: name.to_owned(),
            rule: "every 1000ms".to_owned(),
            zone: "UTC".to_owned(),
            catch_up: CatchUp::Skip,
            expires_after: Some(ExpiresAfter { after_ms: 3, then: OnExpiry::DeadLetter }),
            meta: vec![1],
            body: vec![2, 3],
        };
        let pending = pending.map(|sequence| DueKey { due: Millis(2_000), sequence: Sequence(sequence) });
        Series { recurs: Arc::new(recurs), last_due: Millis(1_000), pending }
    }

    /// The series that need an occurrence; all of them are unproposed.
    fn owing(recurring: &Recurring) -> Vec<u64> {
        let owing: Vec<u64> = recurring.owing().map(|(number, _)| number.0).collect();
        let unproposed = recurring.unproposed_from(Sequence(0)).map(|(number, _)| number.0);
        assert_eq!(owing, unproposed.collect::<Vec<_>>());
        owing
    }

    #[test]
    fn who_looks_sees_what_is_owed_once_and_each_in_its_turn() {
        let mut recurring = Recurring::default();
        assert!(!recurring.take_news() && !recurring.has_unproposed());
        for number in 4..8 {
            recurring.begin(Sequence(number), series(&number.to_string(), None));
        }
        let seen = |recurring: &Recurring, from| {
            recurring.unproposed_from(Sequence(from)).map(|(number, _)| number.0).collect::<Vec<_>>()
        };
        assert_eq!((seen(&recurring, 5), seen(&recurring, 9)), (vec![6, 7, 4, 5], vec![4, 5, 6, 7]));
        assert!(recurring.take_news() && !recurring.take_news());
        recurring.is_proposed(Sequence(6));
        assert_eq!((seen(&recurring, 5), recurring.owing().count()), (vec![7, 4, 5], 4));
        assert!(!recurring.take_news());
        // Series 6 was judged and still needs its occurrence.
        recurring.is_judged(Sequence(6));
        assert_eq!((seen(&recurring, 0), recurring.take_news()), (vec![4, 5, 6, 7], true));
        // Series 6 was judged and its occurrence stored; series 7 was judged and had ended.
        let key = DueKey { due: Millis(3_000), sequence: Sequence(9) };
        recurring.occurred(Sequence(6), Millis(3_000), Some(key));
        recurring.end(Sequence(7));
        recurring.is_judged(Sequence(6));
        recurring.is_judged(Sequence(7));
        assert_eq!((seen(&recurring, 0), recurring.take_news()), (vec![4, 5], false));
    }

    #[test]
    fn one_is_pending_or_owed() {
        let mut recurring = Recurring::default();
        recurring.begin(Sequence(4), series("a", None));
        recurring.begin(Sequence(5), series("b", Some(7)));
        assert_eq!((owing(&recurring), recurring.bytes()), (vec![4], 2 * (1 + 12 + 3 + 1 + 2)));
        let key = DueKey { due: Millis(3_000), sequence: Sequence(9) };
        recurring.occurred(Sequence(4), Millis(3_000), Some(key));
        assert_eq!(owing(&recurring), Vec::<u64>::new());
        assert_eq!(recurring.release(Sequence(8)), None);
        assert_eq!(recurring.release(Sequence(9)), Some(Sequence(4)));
        assert_eq!(recurring.release(Sequence(9)), None);
        assert_eq!((owing(&recurring), recurring.get(Sequence(4)).unwrap().last_due), (vec![4], Millis(3_000)));
        assert_eq!(recurring.end(Sequence(5)).unwrap().pending.unwrap().sequence, Sequence(7));
        assert_eq!((recurring.release(Sequence(7)), recurring.named(SubjectNumber(1), "b")), (None, None));
        assert_eq!(recurring.end(Sequence(4)).map(drop), Some(()));
        assert_eq!((recurring.bytes(), recurring.len(), owing(&recurring)), (0, 0, vec![]));
    }

    #[test]
    fn series_are_saved_and_read_again() {
        let mut recurring = Recurring::default();
        recurring.begin(Sequence(4), series("a", None));
        recurring.begin(Sequence(5), series("b", Some(7)));
        let mut out = FieldWriter::default();
        recurring.write(&mut out);
        let read = |bytes: &[u8], next| Recurring::read(&mut FieldReader::new("checkpoint", bytes), Sequence(next));
        let again = read(&out.bytes, 8).unwrap();
        assert_eq!((&again, owing(&again), again.bytes()), (&recurring, vec![4], recurring.bytes()));
        assert!(read(&out.bytes, 7).is_err(), "an occurrence that is not there yet");
        for (first, second) in [("a", "a"), ("b", "a")] {
            let mut wrong = Recurring::default();
            wrong.begin(Sequence(4), series(first, Some(7)));
            wrong.all.insert(Sequence(5), series(second, Some(7)));
            let mut out = FieldWriter::default();
            wrong.write(&mut out);
            assert!(read(&out.bytes, 8).is_err(), "{first} {second}");
        }
    }
}
