//! Accounts for the memory that all connections hold: bytes that were read, requests under way, bytes that wait to
//! be sent, and the state of subscriptions while they last.
//!
//! There is one limit for each address and one for all addresses together. An address that reaches its limit is
//! full until it holds an eighth less; if the total reaches its limit, all addresses are full. No connection of a
//! full address receives messages, and those that hold more than a little are not read. So memory is bounded for
//! any number of connections.
//!
//! `K` is the address of a peer; connections are counted by it.

use std::collections::HashMap;
use std::hash::Hash;

/// The limits of the memory that connections hold, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScalesLimits {
    /// The limit of all addresses together.
    pub all_bytes_max: usize,
    /// The limit of one address.
    pub each_bytes_max: usize,
    /// The bytes that each connection may hold even if its address is full.
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
    /// Returns true if it was full and no longer is.
    fn change(&mut self, before: usize, after: usize, bytes_max: usize) -> bool {
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
        let was_full = self.is_full;
        // An eighth must be free first: otherwise connections would be woken for each freed byte.
        let limit = if was_full { bytes_max.saturating_sub(bytes_max / 8) } else { bytes_max };
        self.is_full = self.bytes > 0 && self.bytes >= limit;
        was_full && !self.is_full
    }
}

/// The accounts; see the module.
#[derive(Debug)]
pub struct Scales<K> {
    limits: ScalesLimits,
    all: Pan,
    each: HashMap<K, Pan>,
    /// The number of full accounts.
    full_count: usize,
}

impl<K: Copy + Eq + Hash> Scales<K> {
    /// Empty accounts.
    pub fn new(limits: ScalesLimits) -> Self {
        Self { limits, all: Pan::default(), each: HashMap::new(), full_count: 0 }
    }

    /// A connection from there now holds `after` bytes, and held `before`. Returns true if an account that was full
    /// no longer is.
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

    /// True if connections from there may not be given messages.
    pub fn is_full(&self, address: K) -> bool {
        self.full_count > 0 && (self.all.is_full || self.each.get(&address).is_some_and(|each| each.is_full))
    }

    /// True if a connection from there that holds `bytes` is read.
    pub fn hears(&self, address: K, bytes: usize) -> bool {
        bytes <= self.limits.free_bytes || !self.is_full(address)
    }

    /// True if permanent state may be added: the rest of the memory is for passing requests.
    pub fn has_room_to_stay(&self, address: K) -> bool {
        let each = self.each.get(&address).map_or(0, |each| each.bytes);
        self.all.bytes < self.limits.all_bytes_max / 4 && each < self.limits.each_bytes_max / 4
    }

    /// The bytes held by all connections.
    pub fn bytes(&self) -> usize {
        self.all.bytes
    }

    /// The number of addresses whose connections hold memory.
    pub fn len(&self) -> usize {
        self.each.len()
    }

    /// True if no connection holds memory.
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
        // Not until an eighth is free, so that connections are not woken for each byte.
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
                    // Between the two limits the state depends on the previous one.
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
