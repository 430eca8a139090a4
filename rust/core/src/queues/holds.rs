//! Holds: until when a consumer may keep the messages that it was handed. A subscription of a store and a client's
//! session have one each, if their program limits how long a message may be handled.
//!
//! Times are milliseconds of one clock that the caller chooses.

use std::collections::{BTreeMap, BTreeSet};

use crate::planted::{Planted, is_on};

/// See the module. `K` names a message.
#[derive(Clone, Debug)]
pub struct Holds<K> {
    within_ms: u64,
    by_key: BTreeMap<K, u64>,
    /// By when they end.
    by_end: BTreeSet<(u64, K)>,
}

impl<K: Copy + Ord> Holds<K> {
    /// No holds. Each lasts for so long.
    pub const fn new(within_ms: u64) -> Self {
        Self { within_ms, by_key: BTreeMap::new(), by_end: BTreeSet::new() }
    }

    /// The consumer is handed a message now. A message that it has already is held as long as it was.
    pub fn begin(&mut self, key: K, now_ms: u64) {
        let end = now_ms.saturating_add(self.within_ms);
        if !self.by_key.contains_key(&key) {
            self.put(key, end);
        }
    }

    /// The consumer may keep a message for `duration_ms` from now, or as long as if it was handed it now. It is never
    /// for a shorter time than before. False if the message is not held.
    pub fn extend(&mut self, key: K, duration_ms: Option<u64>, now_ms: u64) -> bool {
        let Some(before) = self.by_key.get(&key).copied() else { return false };
        let end = now_ms.saturating_add(duration_ms.unwrap_or(self.within_ms));
        if end > before {
            self.by_end.remove(&(before, key));
            self.put(key, end);
        }
        true
    }

    fn put(&mut self, key: K, end: u64) {
        self.by_key.insert(key, end);
        self.by_end.insert((end, key));
    }

    /// The consumer has settled a message. False if the message is not held.
    pub fn end(&mut self, key: K) -> bool {
        let Some(end) = self.by_key.remove(&key) else { return false };
        self.by_end.remove(&(end, key));
        true
    }

    /// When the first hold ends.
    pub fn next_ms(&self) -> Option<u64> {
        self.by_end.first().map(|(end, _)| *end).filter(|_| !is_on(Planted::HoldNeverEnds))
    }

    /// Ends the holds whose time is over, and returns their messages, those whose time was over first at the front.
    pub fn take_due(&mut self, now_ms: u64) -> Vec<K> {
        let mut due = Vec::new();
        while self.next_ms().is_some_and(|end| end <= now_ms)
            && let Some((_, key)) = self.by_end.pop_first()
        {
            self.by_key.remove(&key);
            due.push(key);
        }
        due
    }

    /// Ends all holds.
    pub fn clear(&mut self) {
        self.by_key.clear();
        self.by_end.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_held_for_its_time_and_no_millisecond_longer() {
        let mut holds = Holds::new(10);
        assert_eq!(holds.next_ms(), None);
        holds.begin('a', 5);
        holds.begin('b', 6);
        assert_eq!(holds.next_ms(), Some(15));
        assert!(holds.take_due(14).is_empty());
        assert_eq!(holds.take_due(15), ['a']);
        assert!(!holds.end('a'), "it is held no more");
        assert!(holds.end('b'));
        assert_eq!(holds.next_ms(), None);
        assert!(holds.take_due(u64::MAX).is_empty(), "a settled message is not passed on");
    }

    #[test]
    fn an_extension_counts_from_its_call_and_never_shortens() {
        let mut holds = Holds::new(10);
        holds.begin('a', 0);
        assert!(holds.extend('a', None, 4));
        assert_eq!(holds.next_ms(), Some(14));
        assert!(holds.extend('a', Some(3), 5));
        assert_eq!(holds.next_ms(), Some(14), "it would have been shorter");
        assert!(holds.extend('a', Some(100), 5));
        assert_eq!(holds.next_ms(), Some(105));
        holds.begin('a', 200);
        assert_eq!(holds.next_ms(), Some(105), "it was handed over before");
        assert_eq!(holds.take_due(105), ['a']);
        assert!(!holds.extend('a', None, 105), "what has ended is not extended");
        assert_eq!(holds.next_ms(), None);
    }

    #[test]
    fn those_that_end_first_come_first_and_the_longest_time_does_not_overflow() {
        let mut holds = Holds::new(u64::MAX);
        for (key, now_ms) in [(1_u32, 7), (2, 8), (3, 9)] {
            holds.begin(key, now_ms);
        }
        assert_eq!(holds.next_ms(), Some(u64::MAX));
        let mut holds = Holds::new(5);
        for (key, now_ms) in [(1_u32, 9), (2, 8), (3, 7)] {
            holds.begin(key, now_ms);
        }
        assert_eq!(holds.take_due(13), [3, 2]);
        holds.clear();
        assert!(!holds.end(1));
        assert_eq!(holds.next_ms(), None);
    }
}
