//! The ids of recently published messages whose producers asked for deduplication: a publish that repeats an id is
//! recognised and not stored again. Part of the state, by the log's own time. The keys of recently dispatched messages
//! are kept in the same form.

use std::collections::BTreeMap;

use super::keys::{Named, Shards, read_named, write_named};
use crate::error::Result;
use crate::record::terms::NameHash;
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::units::{Millis, Sequence};

/// The maximum number of ids to forget at once, in addition to one for each new id.
const FORGOTTEN_AT_ONCE: usize = 64;
/// Bytes of one id in a checkpoint.
const SAVED_BYTES: usize = 56;

/// A remembered id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    message: Named,
    until: Millis,
    /// The sequence of the message that arrived with the id; checkpoints list ids in this order.
    noted: Sequence,
}

/// The remembered ids: see the module.
#[derive(Clone, Debug, Default)]
pub struct RecentIds {
    ids: Shards<NameHash, Known>,
    /// Ids by expiry, then by arrival. If the store is opened with a shorter time, a later id can expire before an
    /// earlier one.
    order: BTreeMap<(Millis, Sequence), NameHash>,
}

impl PartialEq for RecentIds {
    fn eq(&self, other: &Self) -> bool {
        self.in_order() == other.in_order()
    }
}

impl RecentIds {
    /// The number of remembered ids.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if no id is remembered.
    pub fn is_empty(&self) -> bool {
        self.ids.len() == 0
    }

    /// The message that was published under this id, unless the id has expired.
    pub fn get(&self, id: NameHash, now: Millis) -> Option<Named> {
        self.ids.get(id).filter(|known| now < known.until).map(|known| known.message)
    }

    /// Remembers the message that was published under this id, or the message that was kept instead.
    pub(in crate::store) fn note(&mut self, id: NameHash, message: Named, noted: Sequence, until: Millis) {
        if let Some(before) = self.ids.get(id) {
            self.order.remove(&(before.until, before.noted));
        }
        self.ids.insert(id, Known { message, until, noted });
        self.order.insert((until, noted), id);
    }

    /// Forgets expired ids, the earliest expiry first: at most `coming` plus a fixed number.
    pub(in crate::store) fn forget_over(&mut self, now: Millis, coming: usize) {
        for _ in 0..coming.saturating_add(FORGOTTEN_AT_ONCE) {
            let Some(oldest) = self.order.first_entry().filter(|oldest| oldest.key().0 <= now) else { return };
            self.ids.remove(oldest.remove());
        }
    }

    /// Forgets one name.
    pub(in crate::store) fn remove(&mut self, name: NameHash) {
        if let Some(known) = self.ids.remove(name) {
            self.order.remove(&(known.until, known.noted));
        }
    }

    /// Forgets the name that would expire first. False if there is none.
    pub(in crate::store) fn forget_first(&mut self) -> bool {
        let Some((_, first)) = self.order.pop_first() else { return false };
        self.ids.remove(first).is_some()
    }

    fn in_order(&self) -> Vec<(NameHash, Known)> {
        let mut all: Vec<(NameHash, Known)> = self.ids.iter().collect();
        all.sort_unstable_by_key(|(_, known)| known.noted);
        all
    }

    /// The copy for a checkpoint. It leaves out `order`, which each saved id contains.
    pub(in crate::store) fn frozen(&self) -> Self {
        Self { ids: self.ids.clone(), order: BTreeMap::new() }
    }

    /// Writes a count, then for each id `id 16 | due_ms u64 | sequence u64 | subject u32 | size u32 | until_ms u64 |
    /// noted u64`, in order of arrival.
    pub(in crate::store) fn write(&self, out: &mut FieldWriter) {
        let all = self.in_order();
        out.count(all.len());
        for (id, known) in all {
            write_named(out, id, known.message);
            out.u64(known.until.0);
            out.u64(known.noted.0);
        }
    }

    /// Reads what [`Self::write`] wrote, in a checkpoint whose next sequence is `next`.
    ///
    /// # Errors
    /// `Corrupt` if the ids are out of order or one occurs twice.
    pub(in crate::store) fn read(from: &mut FieldReader<'_>, next: Sequence) -> Result<Self> {
        let mut read = Self::default();
        let mut last = Sequence(0);
        for _ in 0..from.count(SAVED_BYTES)? {
            let (id, message) = read_named(from)?;
            let (until, noted) = (Millis(from.u64()?), Sequence(from.u64()?));
            if noted <= last || noted >= next || message.key.sequence > noted || read.ids.get(id).is_some() {
                return Err(from.malformed("ids or keys in the order in which they came, each once"));
            }
            last = noted;
            read.note(id, message, noted, until);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::name_hash;
    use crate::units::{DueKey, SubjectNumber};

    fn named(sequence: u64) -> Named {
        let key = DueKey { due: Millis(9), sequence: Sequence(sequence) };
        Named { key, subject: SubjectNumber(1), size: 3 }
    }

    fn id(number: u64) -> NameHash {
        name_hash("orders", &number.to_string())
    }

    #[test]
    fn an_id_is_known_until_its_time_is_over() {
        let mut ids = RecentIds::default();
        ids.note(id(1), named(5), Sequence(5), Millis(100));
        assert_eq!(ids.get(id(1), Millis(99)), Some(named(5)));
        assert_eq!(ids.get(id(1), Millis(100)), None);
        assert_eq!(ids.get(id(2), Millis(0)), None);
        ids.forget_over(Millis(99), 1);
        assert_eq!(ids.len(), 1);
        ids.forget_over(Millis(100), 1);
        assert!(ids.is_empty() && ids.order.is_empty());
    }

    #[test]
    fn one_that_is_remembered_for_long_keeps_none_that_came_later_for_a_shorter_time() {
        let mut ids = RecentIds::default();
        ids.note(id(1), named(1), Sequence(1), Millis(1_000));
        ids.note(id(2), named(2), Sequence(2), Millis(50));
        ids.note(id(3), named(3), Sequence(3), Millis(50));
        ids.note(id(3), named(4), Sequence(4), Millis(2_000));
        ids.forget_over(Millis(50), 1);
        assert_eq!((ids.len(), ids.order.len()), (2, 2));
        assert_eq!(ids.get(id(1), Millis(50)), Some(named(1)));
        assert_eq!(ids.get(id(3), Millis(50)), Some(named(4)), "it was noted again, for longer");
    }

    #[test]
    fn one_that_is_removed_leaves_nothing_and_the_first_to_expire_goes_first() {
        let mut ids = RecentIds::default();
        for (one, until) in [(1, 90), (2, 50), (3, 70)] {
            ids.note(id(one), named(one), Sequence(one), Millis(until));
        }
        ids.remove(id(2));
        ids.remove(id(9));
        assert!(ids.forget_first());
        assert_eq!((ids.get(id(1), Millis(0)), ids.get(id(3), Millis(0))), (Some(named(1)), None));
        assert!(ids.forget_first() && !ids.forget_first());
        assert!(ids.is_empty() && ids.order.is_empty());
    }

    #[test]
    fn what_is_forgotten_at_once_is_bounded_and_the_same_after_a_restart() {
        let mut ids = RecentIds::default();
        for one in 1..=200 {
            ids.note(id(one), named(one), Sequence(one), Millis(50));
        }
        ids.note(id(3), named(201), Sequence(201), Millis(90));
        let mut out = FieldWriter::default();
        ids.frozen().write(&mut out);
        let mut read = RecentIds::read(&mut FieldReader::new("checkpoint", &out.bytes), Sequence(202)).unwrap();
        assert_eq!(read, ids);
        for copy in [&mut ids, &mut read] {
            copy.forget_over(Millis(60), 1);
            assert_eq!(copy.len(), 200 - 65);
            assert_eq!(copy.get(id(3), Millis(60)), Some(named(201)), "it was noted again");
        }
        assert_eq!(read, ids);
        assert!(RecentIds::read(&mut FieldReader::new("checkpoint", &out.bytes), Sequence(201)).is_err());
    }
}
