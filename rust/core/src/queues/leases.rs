//! Finds consumers that were silent for a lease. Every heartbeat costs the same, however many consumers there are:
//! each is queued once, and is queued again at its turn if there was a heartbeat since. A consumer that waits for
//! an answer of the server is not silent, however long the answer takes. A consumer may have a lease of its own length.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;

use crate::units::Millis;

/// The state of one consumer in the queue.
#[derive(Clone, Copy, Debug)]
struct Signs {
    /// Its last heartbeat; `None` if it ended.
    last: Option<Millis>,
    /// The number of answers that it waits for.
    waits: u32,
    lease_ms: u64,
    /// When its turn in the queue is. Its other entries there are stale.
    turn: Millis,
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
    /// An empty set; a consumer lives `lease_ms` after a heartbeat.
    pub fn new(lease_ms: u64) -> Self {
        Self { lease_ms, heard: HashMap::new(), queue: BinaryHeap::new(), count: 0 }
    }

    /// The number of live consumers.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if no consumer lives.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Records a heartbeat. Returns true if it is the first one, or the first since the lease ended.
    pub fn renew(&mut self, who: K, now: Millis) -> bool {
        let queue = &mut self.queue;
        let lease_ms = self.lease_ms;
        let signs = self.heard.entry(who).or_insert_with(|| {
            let turn = now.plus(lease_ms);
            queue.push(Reverse((turn, who)));
            Signs { last: None, waits: 0, lease_ms, turn }
        });
        // Time never goes back, even if a caller reports an earlier time.
        let lived = signs.last.replace(signs.last.map_or(now, |before| before.max(now))).is_some();
        self.count = self.count.saturating_add(usize::from(!lived));
        !lived
    }

    /// A consumer that lives has a lease of this length from its last heartbeat on.
    pub fn set_lease(&mut self, who: K, lease_ms: u64) {
        let Some(signs) = self.heard.get_mut(&who) else { return };
        signs.lease_ms = lease_ms;
        let turn = signs.last.unwrap_or_default().plus(lease_ms);
        if turn < signs.turn {
            signs.turn = turn;
            self.queue.push(Reverse((turn, who)));
        }
    }

    /// Records a heartbeat of a consumer that waits for an answer from now until [`Self::end_wait`].
    pub fn begin_wait(&mut self, who: K, now: Millis) {
        self.renew(who, now);
        if let Some(signs) = self.heard.get_mut(&who) {
            signs.waits = signs.waits.saturating_add(1);
        }
    }

    /// The answer is sent: the lease counts from now on, unless the consumer waits for another answer.
    pub fn end_wait(&mut self, who: K, now: Millis) {
        if let Some(signs) = self.heard.get_mut(&who) {
            signs.waits = signs.waits.saturating_sub(1);
            signs.last = signs.last.map(|before| before.max(now));
        }
    }

    /// Ends a consumer at its own request. Returns true if it lived.
    pub fn end(&mut self, who: K) -> bool {
        let lived = self.heard.get_mut(&who).is_some_and(|signs| signs.last.take().is_some());
        self.count = self.count.saturating_sub(usize::from(lived));
        lived
    }

    /// True if it lives.
    pub fn lives(&self, who: K) -> bool {
        self.heard.get(&who).is_some_and(|signs| signs.last.is_some())
    }

    /// When to call [`Self::expire`] next; that call may find no ended lease.
    pub fn next_look(&self) -> Option<Millis> {
        self.queue.peek().map(|Reverse((look, _))| *look)
    }

    /// Takes out the consumers that were silent for a lease; those of one moment in the order of their names.
    pub fn expire(&mut self, now: Millis, ended: &mut Vec<K>) {
        while let Some(Reverse((look, who))) = self.queue.peek().copied() {
            if look > now {
                return;
            }
            self.queue.pop();
            let Some(signs) = self.heard.get_mut(&who).filter(|signs| signs.turn == look) else { continue };
            let Signs { last, waits, lease_ms, .. } = *signs;
            match last.map(|last| if waits > 0 { last.max(now) } else { last }) {
                Some(last) if now.since(last) < lease_ms => {
                    signs.turn = last.plus(lease_ms);
                    self.queue.push(Reverse((signs.turn, who)));
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
    fn a_consumer_may_have_a_lease_of_its_own() {
        let mut leases = Leases::new(100);
        for who in [1, 2] {
            leases.renew(who, Millis(0));
        }
        leases.set_lease(1, 1_000);
        assert_eq!(expired(&mut leases, 100), [2]);
        assert_eq!(leases.next_look(), Some(Millis(1_000)));
        leases.renew(1, Millis(400));
        assert!(expired(&mut leases, 1_399).is_empty());
        assert_eq!(expired(&mut leases, 1_400), [1]);
        leases.set_lease(1, 1_000);
        assert!(leases.renew(1, Millis(2_000)));
        assert_eq!(expired(&mut leases, 2_100), [1], "it is another one now");
        // A shorter one ends earlier, and once.
        leases.renew(3, Millis(3_000));
        leases.set_lease(3, 10);
        assert_eq!(leases.next_look(), Some(Millis(3_010)));
        assert_eq!(expired(&mut leases, 3_010), [3]);
        leases.renew(3, Millis(3_020));
        assert!(expired(&mut leases, 3_119).is_empty(), "an entry of its earlier life is stale");
        assert_eq!(expired(&mut leases, 3_120), [3]);
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
        // A consumer that ended while it waited stays ended, and a late answer does not revive it.
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
