//! Limits on connections: which peers may connect, how many connections they may have, and which commands they may
//! send before they have authenticated.
//!
//! `K` is the address of a peer; connections are counted by it.

use std::collections::HashMap;
use std::hash::Hash;

use crate::units::Millis;
use crate::wire::extension::{HELLO, OWN_COMMANDS};

/// What the server knows of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It may send any command: it gave the token, or none is required.
    Trusted,
    /// It comes from the network of QMQ clients, which have no token.
    QmqClient,
    /// It has not authenticated.
    Stranger,
}

/// The decision on a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It is served.
    Serve,
    /// It is answered with `Unauthorized`.
    Refuse,
    /// The connection is closed: the peer would not understand an answer.
    Close,
}

/// The decision on a command from a peer of this standing.
pub fn admission(command: i16, standing: Standing) -> Admission {
    let is_own = OWN_COMMANDS.contains(&command);
    match standing {
        Standing::Trusted => Admission::Serve,
        _ if command == HELLO => Admission::Serve,
        _ if is_own => Admission::Refuse,
        // An unknown command gets the answer for unknown commands, as its sender expects.
        Standing::QmqClient => Admission::Serve,
        Standing::Stranger => Admission::Close,
    }
}

/// The number of connections, in total and for each address.
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

    /// The total number.
    pub fn all(&self) -> u32 {
        self.all
    }

    /// Counts a new connection; false if the maximum is reached.
    pub fn open(&mut self, address: K) -> bool {
        let from_there = self.each.get(&address).copied().unwrap_or(0);
        if self.all >= self.all_max || from_there >= self.each_max {
            return false;
        }
        self.all = self.all.saturating_add(1);
        self.each.insert(address, from_there.saturating_add(1));
        true
    }

    /// A counted connection is closed.
    pub fn close(&mut self, address: K) {
        let Some(count) = self.each.get_mut(&address) else { return };
        *count = count.saturating_sub(1);
        self.all = self.all.saturating_sub(1);
        if *count == 0 {
            self.each.remove(&address);
        }
    }
}

/// Addresses that sent wrong tokens. An address has a small stock of tries; each wrong token takes one, and time
/// refills the stock. While it is empty, tokens from the address are not checked.
#[derive(Debug)]
pub struct WrongTokens<K> {
    stock: u32,
    refill_ms: u64,
    addresses_max: usize,
    /// When the stock of an address will be full again.
    full_at: HashMap<K, Millis>,
}

impl<K: Copy + Eq + Hash> WrongTokens<K> {
    /// An empty record. An address has `stock` tries, and gets one back every `refill_ms`.
    pub fn new(stock: u32, refill_ms: u64, addresses_max: usize) -> Self {
        Self { stock, refill_ms, addresses_max, full_at: HashMap::new() }
    }

    /// True if a token from there may be checked. While the maximum number of addresses is recorded, tokens from
    /// further addresses are not checked until some addresses are forgotten.
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

    /// The number of recorded addresses.
    pub fn len(&self) -> usize {
        self.full_at.len()
    }

    /// True if no address is recorded.
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
        // However many wrong tokens came, the stock is full again after its refill time.
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
