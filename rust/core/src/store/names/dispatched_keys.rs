//! The keys of messages that became ready lately. A command by key that comes too late is answered *already
//! dispatched*, and not *not found*, for as long as ids are remembered. Part of the state, by the log's own time, so
//! every copy of the stream decides alike. Messages without a key take no memory here.

use super::keys::Named;
use super::recent_ids::RecentIds;
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::record::terms::{NameHash, TermsLimits};
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::units::{Millis, Sequence};

/// The keys of recently dispatched messages: see the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DispatchedKeys {
    /// Each under the sequence of its own message. A message becomes ready once, so no sequence occurs twice.
    recent: RecentIds,
    /// How long a key is remembered, as the last terms say.
    window_ms: u64,
    /// The most keys that are remembered, as the last terms say.
    keys_max: u32,
}

impl DispatchedKeys {
    /// The number of remembered keys.
    pub fn len(&self) -> usize {
        self.recent.len()
    }

    /// True if no key is remembered.
    pub fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }

    /// The last message that became ready under this key, unless the key has expired or has a message since.
    pub fn get(&self, key: NameHash, now: Millis) -> Option<Named> {
        self.recent.get(key, now)
    }

    /// Takes the limits of new terms, and forgets expired keys: at most `coming` plus a fixed number.
    pub(in crate::store) fn begin_terms(&mut self, limits: &TermsLimits, now: Millis, coming: usize) {
        (self.window_ms, self.keys_max) = (limits.id_window_ms, limits.keys_max);
        self.recent.forget_over(now, coming);
    }

    /// Remembers a message that became ready under this key. When there is no room, the key that would expire first is
    /// forgotten early: a message is never held back for its key. More than one goes only after the limit was lowered.
    pub(in crate::store) fn note(&mut self, key: NameHash, message: Named, now: Millis) {
        if is_on(Planted::DispatchedKeyForgotten) {
            return;
        }
        self.recent.forget_over(now, 1);
        self.recent.remove(key);
        let max = self.keys_max as usize;
        while self.recent.len() >= max {
            if !self.recent.forget_first() {
                return;
            }
        }
        self.recent.note(key, message, message.key.sequence, now.plus(self.window_ms));
    }

    /// Forgets a key: a new pending message has it.
    pub(in crate::store) fn forget(&mut self, key: NameHash) {
        self.recent.remove(key);
    }

    /// The copy for a checkpoint.
    pub(in crate::store) fn frozen(&self) -> Self {
        Self { recent: self.recent.frozen(), ..*self }
    }

    /// Writes `window_ms u64 | keys_max u32`, then the keys as [`RecentIds::write`] does.
    pub(in crate::store) fn write(&self, out: &mut FieldWriter) {
        out.u64(self.window_ms);
        out.u32(self.keys_max);
        self.recent.write(out);
    }

    /// Reads what [`Self::write`] wrote, in a checkpoint whose next sequence is `next`.
    ///
    /// # Errors
    /// As [`RecentIds::read`].
    pub(in crate::store) fn read(from: &mut FieldReader<'_>, next: Sequence) -> Result<Self> {
        let (window_ms, keys_max) = (from.u64()?, from.u32()?);
        Ok(Self { recent: RecentIds::read(from, next)?, window_ms, keys_max })
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

    fn key(number: u64) -> NameHash {
        name_hash("orders", &number.to_string())
    }

    fn of(keys_max: u32) -> DispatchedKeys {
        let mut keys = DispatchedKeys::default();
        keys.begin_terms(&TermsLimits { keys_max, ids_max: 0, id_window_ms: 100 }, Millis(0), 0);
        keys
    }

    #[test]
    fn a_key_is_remembered_from_its_dispatch_until_its_time_is_over() {
        let mut keys = of(10);
        keys.note(key(1), named(5), Millis(50));
        assert_eq!(keys.get(key(1), Millis(149)), Some(named(5)));
        assert_eq!(keys.get(key(1), Millis(150)), None);
        keys.note(key(2), named(6), Millis(150));
        assert_eq!((keys.len(), keys.get(key(2), Millis(150))), (1, Some(named(6))), "the first is forgotten");
        keys.begin_terms(&TermsLimits { id_window_ms: 100, ..TermsLimits::default() }, Millis(250), 1);
        assert!(keys.is_empty());
    }

    #[test]
    fn a_key_is_the_last_message_of_it_and_none_where_one_is_pending() {
        let mut keys = of(10);
        keys.note(key(1), named(5), Millis(0));
        keys.note(key(1), named(8), Millis(20));
        assert_eq!((keys.len(), keys.get(key(1), Millis(110))), (1, Some(named(8))));
        keys.forget(key(1));
        assert_eq!(keys.get(key(1), Millis(20)), None);
    }

    #[test]
    fn one_too_many_forgets_the_one_that_would_go_first() {
        let mut keys = of(2);
        for one in 1..=3 {
            keys.note(key(one), named(10 - one), Millis(one));
        }
        assert_eq!([1, 2, 3].map(|one| keys.get(key(one), Millis(3)).is_some()), [false, true, true]);
        keys.note(key(2), named(12), Millis(4));
        assert_eq!([2, 3].map(|one| keys.get(key(one), Millis(4)).is_some()), [true, true], "it has room already");
        for (keys_max, left) in [(1, 1), (0, 0)] {
            keys.begin_terms(&TermsLimits { keys_max, ids_max: 0, id_window_ms: 100 }, Millis(5), 0);
            keys.note(key(9), named(20), Millis(5));
            assert_eq!(keys.len(), left);
        }
    }

    #[test]
    fn what_is_saved_is_forgotten_in_the_same_order() {
        let mut keys = of(3);
        for one in 1..=3 {
            keys.note(key(one), named(10 - one), Millis(one));
        }
        let mut out = FieldWriter::default();
        keys.frozen().write(&mut out);
        let read = |next| DispatchedKeys::read(&mut FieldReader::new("checkpoint", &out.bytes), Sequence(next));
        assert!(read(9).is_err(), "a message of a later time");
        let mut read = read(10).unwrap();
        for copy in [&mut keys, &mut read] {
            copy.note(key(4), named(11), Millis(4));
            assert_eq!((copy.len(), copy.get(key(1), Millis(4))), (3, None));
        }
        assert_eq!(read, keys);
    }
}
