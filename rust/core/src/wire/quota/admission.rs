//! Who may connect, how often, and what it may ask before it has proven itself.
//!
//! `K` is what connections are counted by: the address of a peer.

use std::collections::HashMap;
use std::hash::Hash;

use crate::units::Millis;
use crate::wire::extension::{HELLO, OWN_COMMANDS};

/// What is known of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It may ask anything: it gave the token, or none is needed.
    Trusted,
    /// It comes from where QMQ's clients are, which know no token.
    QmqClient,
    /// Nothing is known of it.
    Stranger,
}

/// What becomes of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It is served.
    Serve,
    /// It is answered with `Unauthorized`.
    Refuse,
    /// The connection is closed: nobody there would understand an answer.
    Close,
}

/// What becomes of a command from a peer of this standing.
pub fn admission(command: i16, standing: Standing) -> Admission {
    let is_own = OWN_COMMANDS.contains(&command);
    match standing {
        Standing::Trusted => Admission::Serve,
        _ if command == HELLO => Admission::Serve,
        _ if is_own => Admission::Refuse,
        // One that nobody knows is answered as such, as its sender expects.
        Standing::QmqClient => Admission::Serve,
        Standing::Stranger => Admission::Close,
    }
}

/// How many connections there are, in all and from each address.
#[derive(Debug)]
pub struct ConnectionCounts<K> {
    all_max: u32,
    each_max: u32,
    all: u32,
    each: HashMap<K, u32>,
}

impl<K: Copy + Eq + Hash> ConnectionCounts<K> {
    /// No connections yet.
    pub fn new(all_max: u32, each_max: u32) -> Self {
        Self { all_max, each_max, all: 0, each: HashMap::new() }
    }

    /// How many there are.
    pub fn all(&self) -> u32 {
        self.all
    }

    /// One more, where there may be one more.
    pub fn open(&mut self, address: K) -> bool {
        let from_there = self.each.get(&address).copied().unwrap_or(0);
        if self.all >= self.all_max || from_there >= self.each_max {
            return false;
        }
        self.all = self.all.saturating_add(1);
        self.each.insert(address, from_there.saturating_add(1));
        true
    }

    /// One that was opened is gone.
    pub fn close(&mut self, address: K) {
        let Some(count) = self.each.get_mut(&address) else { return };
        *count = count.saturating_sub(1);
        self.all = self.all.saturating_sub(1);
        if *count == 0 {
            self.each.remove(&address);
        }
    }
}

/// Addresses from which wrong tokens came. Each wrong one costs its address a part of a small stock,
/// which fills up again with time; while it is empty, no token from there is looked at.
#[derive(Debug)]
pub struct WrongTokens<K> {
    stock: u32,
    refill_ms: u64,
    addresses_max: usize,
    /// When the stock of an address will be full again.
    full_at: HashMap<K, Millis>,
}

impl<K: Copy + Eq + Hash> WrongTokens<K> {
    /// None yet. An address has `stock` tries, and gets one back every `refill_ms`.
    pub fn new(stock: u32, refill_ms: u64, addresses_max: usize) -> Self {
        Self { stock, refill_ms, addresses_max, full_at: HashMap::new() }
    }

    /// True where a token from there may be looked at. Where too many addresses sent wrong ones to be
    /// told apart, no further address is trusted until some of them are forgotten.
    pub fn may_try(&mut self, address: K, now: Millis) -> bool {
        match self.full_at.get(&address) {
            Some(full_at) => {
                full_at.since(now) <= self.refill_ms.saturating_mul(u64::from(self.stock.saturating_sub(1)))
            }
            None if self.full_at.len() < self.addresses_max => true,
            None => {
                self.full_at.retain(|_, full_at| *full_at > now);
                self.full_at.len() < self.addresses_max
            }
        }
    }

    /// A wrong token came from there.
    pub fn note(&mut self, address: K, now: Millis) {
        if self.full_at.len() >= self.addresses_max && !self.full_at.contains_key(&address) {
            return;
        }
        let longest = now.plus(self.refill_ms.saturating_mul(u64::from(self.stock)));
        let full_at = self.full_at.entry(address).or_insert(now);
        *full_at = (*full_at).max(now).plus(self.refill_ms).min(longest);
    }

    /// How many addresses are remembered.
    pub fn len(&self) -> usize {
        self.full_at.len()
    }

    /// True where none is.
    pub fn is_empty(&self) -> bool {
        self.full_at.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::extension::{PING, PUBLISH};
    use crate::wire::qmq::send::SEND;
    use proptest::prelude::*;

    #[test]
    fn a_stranger_may_say_hello_and_nothing_else() {
        let told = |standing| [HELLO, PING, PUBLISH, SEND, 7, 301].map(|command| admission(command, standing));
        let (serve, refuse, close) = (Admission::Serve, Admission::Refuse, Admission::Close);
        assert_eq!(told(Standing::Trusted), [serve; 6]);
        assert_eq!(told(Standing::Stranger), [serve, refuse, refuse, close, close, close]);
        assert_eq!(told(Standing::QmqClient), [serve, refuse, refuse, serve, serve, serve]);
    }

    #[test]
    fn an_address_has_some_tries_and_gets_them_back_with_time() {
        let mut wrong = WrongTokens::new(3, 1_000, 10);
        for now in [0, 10, 20] {
            assert!(wrong.may_try(7, Millis(now)));
            wrong.note(7, Millis(now));
        }
        assert!(!wrong.may_try(7, Millis(30)));
        assert!(wrong.may_try(8, Millis(30)), "others are not held to account");
        assert!(!wrong.may_try(7, Millis(999)));
        assert!(wrong.may_try(7, Millis(1_000)));
        wrong.note(7, Millis(1_000));
        assert!(!wrong.may_try(7, Millis(1_999)));
        assert!(wrong.may_try(7, Millis(2_000)));
        // However many wrong ones came, they are paid for in the time of a full stock.
        for _ in 0..1_000 {
            wrong.note(7, Millis(2_000));
        }
        assert!(wrong.may_try(7, Millis(3_000)));
    }

    #[test]
    fn no_more_addresses_are_remembered_than_may_be() {
        let mut wrong = WrongTokens::new(2, 1_000, 3);
        for address in 0..10 {
            wrong.note(address, Millis(0));
        }
        assert_eq!(wrong.len(), 3);
        assert!(!wrong.may_try(9, Millis(0)), "it cannot be told apart");
        assert!(wrong.may_try(0, Millis(0)));
        assert!(wrong.may_try(9, Millis(1_000)), "the others have paid");
        assert!(wrong.is_empty());
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_plain_list(steps in prop::collection::vec((any::<bool>(), 0_u16..4), 0..80)) {
            let mut counts = ConnectionCounts::new(6, 2);
            let mut open: Vec<u16> = Vec::new();
            for (opens, address) in steps {
                let from_there = open.iter().filter(|other| **other == address).count();
                if opens {
                    let may = open.len() < 6 && from_there < 2;
                    prop_assert_eq!(counts.open(address), may);
                    if may {
                        open.push(address);
                    }
                } else if let Some(at) = open.iter().position(|other| *other == address) {
                    open.remove(at);
                    counts.close(address);
                }
                prop_assert_eq!(counts.all() as usize, open.len());
                prop_assert!(counts.each.values().all(|count| *count > 0));
            }
        }
    }
}
