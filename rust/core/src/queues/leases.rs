//! Who is silent for too long. Every sign of life costs the same, however many there are: the time to
//! look at somebody is put into a queue once, and put off where it comes and there was a sign since.
//! Who waits for an answer here is not silent, however long that takes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;

use crate::units::Millis;

/// What is known of somebody who stands in the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Signs {
    /// When it was heard of last; `None` for one that ended.
    last: Option<Millis>,
    /// For how many answers it waits here.
    waits: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Leases<K> {
    lease_ms: u64,
    heard: HashMap<K, Signs>,
    queue: BinaryHeap<Reverse<(Millis, K)>>,
    count: usize,
}

impl<K: Copy + Eq + Ord + Hash> Leases<K> {
    /// Nobody yet; each lives so long after a sign of life.
    pub fn new(lease_ms: u64) -> Self {
        Self { lease_ms, heard: HashMap::new(), queue: BinaryHeap::new(), count: 0 }
    }

    /// How many live.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True where nobody lives.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A sign of life. True where it is the first one, or the first since its lease ended.
    pub fn renew(&mut self, who: K, now: Millis) -> bool {
        let queue = &mut self.queue;
        let lease_ms = self.lease_ms;
        let signs = self.heard.entry(who).or_insert_with(|| {
            queue.push(Reverse((now.plus(lease_ms), who)));
            Signs::default()
        });
        // Time never goes back, whoever tells it.
        let lived = signs.last.replace(signs.last.map_or(now, |before| before.max(now))).is_some();
        self.count = self.count.saturating_add(usize::from(!lived));
        !lived
    }

    /// A sign of life of somebody who waits for an answer from now on, until [`Self::end_wait`].
    pub fn begin_wait(&mut self, who: K, now: Millis) {
        self.renew(who, now);
        if let Some(signs) = self.heard.get_mut(&who) {
            signs.waits = signs.waits.saturating_add(1);
        }
    }

    /// It was answered: its lease counts from now on, where it waits for nothing else.
    pub fn end_wait(&mut self, who: K, now: Millis) {
        if let Some(signs) = self.heard.get_mut(&who) {
            signs.waits = signs.waits.saturating_sub(1);
            signs.last = signs.last.map(|before| before.max(now));
        }
    }

    /// Somebody ended by its own word. True where it lived.
    pub fn end(&mut self, who: K) -> bool {
        let lived = self.heard.get_mut(&who).is_some_and(|signs| signs.last.take().is_some());
        self.count = self.count.saturating_sub(usize::from(lived));
        lived
    }

    /// True where it lives.
    pub fn lives(&self, who: K) -> bool {
        self.heard.get(&who).is_some_and(|signs| signs.last.is_some())
    }

    /// When [`Self::expire`] is to be called next; it may find nobody then.
    pub fn next_look(&self) -> Option<Millis> {
        self.queue.peek().map(|Reverse((look, _))| *look)
    }

    /// Takes out who was silent for as long as a lease, in the order of their names where several
    /// were so at once.
    pub fn expire(&mut self, now: Millis, ended: &mut Vec<K>) {
        while let Some(Reverse((look, who))) = self.queue.peek().copied() {
            if look > now {
                return;
            }
            self.queue.pop();
            let Signs { last, waits } = self.heard.get(&who).copied().unwrap_or_default();
            match last.map(|last| if waits > 0 { last.max(now) } else { last }) {
                Some(last) if now.since(last) < self.lease_ms => {
                    self.queue.push(Reverse((last.plus(self.lease_ms), who)));
                }
                lived => {
                    self.heard.remove(&who);
                    if lived.is_some() {
                        self.count = self.count.saturating_sub(1);
                        ended.push(who);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn expired(leases: &mut Leases<u32>, now: u64) -> Vec<u32> {
        let mut ended = Vec::new();
        leases.expire(Millis(now), &mut ended);
        ended
    }

    #[test]
    fn a_lease_ends_a_lease_after_the_last_sign() {
        let mut leases = Leases::new(100);
        assert!(leases.renew(1, Millis(0)));
        assert!(leases.renew(2, Millis(0)));
        assert!(!leases.renew(1, Millis(60)));
        assert!(expired(&mut leases, 99).is_empty());
        assert_eq!(expired(&mut leases, 100), [2]);
        assert_eq!((leases.lives(1), leases.lives(2), leases.next_look()), (true, false, Some(Millis(160))));
        assert!(leases.renew(2, Millis(150)), "it is back");
        assert_eq!(expired(&mut leases, 160), [1]);
        assert!(leases.end(2) && !leases.end(2));
        assert!(leases.is_empty());
        assert!(leases.renew(2, Millis(200)));
        assert!(expired(&mut leases, 299).is_empty());
        assert_eq!(expired(&mut leases, 300), [2]);
        assert_eq!((leases.next_look(), leases.heard.len()), (None, 0));
    }

    #[test]
    fn who_waits_is_not_silent_and_its_lease_counts_from_the_answer() {
        let mut leases = Leases::new(100);
        leases.begin_wait(1, Millis(0));
        leases.begin_wait(1, Millis(10));
        assert!(expired(&mut leases, 1_000).is_empty());
        leases.end_wait(1, Millis(1_010));
        assert!(expired(&mut leases, 5_000).is_empty(), "it waits for another answer");
        leases.end_wait(1, Millis(5_000));
        assert!(expired(&mut leases, 5_099).is_empty());
        assert_eq!(expired(&mut leases, 5_100), [1]);
        // Who ended while it waited is over, and a late answer does not bring it back.
        leases.begin_wait(2, Millis(6_000));
        assert!(leases.end(2));
        leases.end_wait(2, Millis(6_050));
        assert!(!leases.lives(2) && expired(&mut leases, 7_000).is_empty());
    }

    #[test]
    fn signs_of_life_take_no_room() {
        let mut leases = Leases::new(100);
        for now in 0..100_000 {
            leases.renew(7_u32, Millis(now));
            if now % 3 == 0 {
                leases.end(7);
            }
            assert!(expired(&mut leases, now).is_empty());
        }
        assert_eq!((leases.queue.len(), leases.heard.len()), (1, 1));
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_table(steps in prop::collection::vec((0_u8..3, 0_u32..4, 0_u64..60), 1..80)) {
            let mut leases = Leases::new(100);
            let mut plain: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = 0;
            for (what, who, later) in steps {
                now += later;
                match what {
                    0 => prop_assert_eq!(leases.renew(who, Millis(now)), plain.insert(who, now).is_none()),
                    1 => prop_assert_eq!(leases.end(who), plain.remove(&who).is_some()),
                    _ => {
                        let mut found = expired(&mut leases, now);
                        found.sort_unstable();
                        let expected: Vec<u32> = plain.iter().filter(|(_, heard)| now - **heard >= 100).map(|(who, _)| *who).collect();
                        plain.retain(|_, heard| now - *heard < 100);
                        prop_assert_eq!(found, expected);
                    }
                }
                prop_assert_eq!(leases.len(), plain.len());
                for who in 0..4 {
                    prop_assert_eq!(leases.lives(who), plain.contains_key(&who));
                }
            }
        }
    }
}
