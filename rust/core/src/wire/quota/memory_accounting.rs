//! What all connections together make a server keep, weighed in one place: bytes that were read, requests
//! that are under way, bytes that wait to be read, and what subscriptions keep for as long as they last.
//!
//! An address may make it keep its share, and all addresses together so much. Who has reached that is
//! full until an eighth less is kept: none of its connections is given messages, and one that makes the
//! server keep more than a little is not heard. So what is kept is bounded however many connections there
//! are.
//!
//! `K` is what connections are counted by: the address of a peer.

use std::collections::HashMap;
use std::hash::Hash;

/// What connections may make a server keep, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScalesLimits {
    /// All of them together.
    pub all_bytes_max: usize,
    /// Those of one address.
    pub each_bytes_max: usize,
    /// What each of them may make it keep, however much the others do.
    pub free_bytes: usize,
}

impl Default for ScalesLimits {
    fn default() -> Self {
        Self { all_bytes_max: 512 << 20, each_bytes_max: 256 << 20, free_bytes: 64 << 10 }
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Pan {
    bytes: usize,
    is_full: bool,
}

impl Pan {
    /// True where it was full and is not any more.
    fn change(&mut self, before: usize, after: usize, bytes_max: usize) -> bool {
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        let was_full = self.is_full;
        // Who is told at once that there is room again is told so for each byte.
        let limit = if was_full { bytes_max.saturating_sub(bytes_max / 8) } else { bytes_max };
        self.is_full = self.bytes > 0 && self.bytes >= limit;
        was_full && !self.is_full
    }
}

/// See the module.
#[derive(Debug)]
pub struct Scales<K> {
    limits: ScalesLimits,
    all: Pan,
    each: HashMap<K, Pan>,
    /// How many are full.
    full_count: usize,
}

impl<K: Copy + Eq + Hash> Scales<K> {
    /// Nothing is kept.
    pub fn new(limits: ScalesLimits) -> Self {
        Self { limits, all: Pan::default(), each: HashMap::new(), full_count: 0 }
    }

    /// A connection from there makes the server keep so many bytes now, and made it keep so many before.
    /// True where somebody who was full is not any more.
    pub fn weigh(&mut self, address: K, before: usize, after: usize) -> bool {
        let each = self.each.entry(address).or_default();
        let were_full = [self.all.is_full, each.is_full];
        let has_eased = self.all.change(before, after, self.limits.all_bytes_max)
            | each.change(before, after, self.limits.each_bytes_max);
        let are_full = [self.all.is_full, each.is_full];
        if each.bytes == 0 {
            self.each.remove(&address);
        }
        let count = |full: [bool; 2]| full.into_iter().map(usize::from).sum::<usize>();
        self.full_count = self.full_count.saturating_sub(count(were_full)).saturating_add(count(are_full));
        has_eased
    }

    /// True where connections from there may not make the server keep messages for them.
    pub fn is_full(&self, address: K) -> bool {
        self.full_count > 0 && (self.all.is_full || self.each.get(&address).is_some_and(|each| each.is_full))
    }

    /// True where a connection from there is heard that makes the server keep so many bytes.
    pub fn hears(&self, address: K, bytes: usize) -> bool {
        bytes <= self.limits.free_bytes || !self.is_full(address)
    }

    /// True where something may be kept that nothing drives out: what passes needs the rest.
    pub fn has_room_to_stay(&self, address: K) -> bool {
        let each = self.each.get(&address).map_or(0, |each| each.bytes);
        self.all.bytes < self.limits.all_bytes_max / 4 && each < self.limits.each_bytes_max / 4
    }

    /// How many bytes are kept.
    pub fn bytes(&self) -> usize {
        self.all.bytes
    }

    /// How many addresses make the server keep something.
    pub fn len(&self) -> usize {
        self.each.len()
    }

    /// True where none does.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: ScalesLimits = ScalesLimits { all_bytes_max: 160, each_bytes_max: 80, free_bytes: 10 };

    #[test]
    fn an_address_has_its_share_and_all_have_theirs() {
        let mut scales = Scales::new(LIMITS);
        assert!(!scales.weigh(1, 0, 79) && !scales.is_full(1));
        assert!(!scales.weigh(1, 79, 80) && scales.is_full(1));
        assert!(!scales.is_full(2) && scales.hears(2, 1_000) && scales.hears(1, 10) && !scales.hears(1, 11));
        assert!(!scales.weigh(2, 0, 79) && !scales.is_full(2));
        assert!(!scales.weigh(3, 0, 1) && scales.is_full(2) && scales.is_full(3) && !scales.hears(4, 11));
        // Until there is an eighth less, so that nobody is told of each byte.
        assert!(!scales.weigh(3, 1, 0) && scales.is_full(3));
        assert!(scales.weigh(2, 79, 59) && !scales.is_full(2) && scales.is_full(1));
        assert!(!scales.weigh(1, 80, 71) && scales.is_full(1));
        assert!(scales.weigh(1, 71, 69) && !scales.is_full(1));
        assert_eq!((scales.bytes(), scales.len()), (128, 2));
    }

    #[test]
    fn what_stays_leaves_room_for_what_passes() {
        let mut scales = Scales::new(LIMITS);
        scales.weigh(1, 0, 19);
        assert!(scales.has_room_to_stay(1));
        scales.weigh(1, 19, 20);
        assert!(!scales.has_room_to_stay(1) && scales.has_room_to_stay(2));
        scales.weigh(2, 0, 20);
        assert!(!scales.has_room_to_stay(3));
    }

    proptest! {
        #[test]
        fn weights_are_those_of_a_plain_list(steps in prop::collection::vec((0_u8..4, 0_usize..60), 0..60)) {
            let mut scales = Scales::new(LIMITS);
            let mut kept = [0_usize; 4];
            for (address, bytes) in steps {
                let before = std::mem::replace(&mut kept[usize::from(address)], bytes);
                scales.weigh(address, before, bytes);
                let all: usize = kept.iter().sum();
                prop_assert_eq!((scales.bytes(), scales.len()), (all, kept.iter().filter(|bytes| **bytes > 0).count()));
                for (one, bytes) in (0..).zip(kept) {
                    // Between the two limits it depends on what was before.
                    if all >= 160 || bytes >= 80 {
                        prop_assert!(scales.is_full(one));
                    } else if all < 140 && bytes < 70 {
                        prop_assert!(!scales.is_full(one));
                    }
                }
            }
        }
    }
}
