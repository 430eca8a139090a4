//! Requests that were begun and never finished, and large ones that are no requests: their bytes were
//! read and thrown away, which is work that others wait for, and nobody gets anything of it.
//!
//! An address may leave so many bytes unfinished, and pays for them with time. Where it left more it is
//! held back for some time: of a large request its connections borrow piece by piece what they may
//! read, each in its turn, and give it back once the request is whole. So what it begins and never
//! finishes is read no faster than it pays. A connection that has finished requests is trusted with as
//! much again, and what is small is read at once.
//!
//! `K` is what connections are counted by: the address of a peer.

use std::collections::HashMap;
use std::hash::Hash;

use crate::units::Millis;

/// What may be left unfinished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnfinishedLimits {
    /// Bytes of a request that every connection may send at once.
    pub small_bytes: u64,
    /// Bytes that a connection borrows at a time.
    pub piece_bytes: u64,
    /// Bytes that an address may owe without being held back.
    pub free_bytes: u64,
    /// The most that it owes, however much it left unfinished.
    pub owed_bytes_max: u64,
    /// Bytes that it pays in a millisecond.
    pub paid_bytes_per_ms: u64,
    /// How long it is held back after it last left something unfinished that was too much, in
    /// milliseconds.
    pub held_back_ms: u64,
    /// How long a connection may have to wait for a piece: where as many wait before it, it ends.
    pub wait_ms_max: u64,
    /// Addresses that are remembered.
    pub addresses_max: usize,
}

impl Default for UnfinishedLimits {
    fn default() -> Self {
        Self {
            small_bytes: 64 << 10,
            piece_bytes: 64 << 10,
            free_bytes: 16 << 20,
            owed_bytes_max: 32 << 20,
            paid_bytes_per_ms: 4 << 10,
            held_back_ms: 60_000,
            wait_ms_max: 8_000,
            addresses_max: 10_000,
        }
    }
}

/// What one address owes.
#[derive(Clone, Copy, Debug)]
struct Owed {
    bytes: u64,
    at: Millis,
    held_back_until: Millis,
}

/// When more may be read of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadsOn {
    /// Now.
    Now,
    /// Not before this time.
    From(Millis),
    /// Never: too many wait before it.
    Never,
}

/// See the module.
#[derive(Debug)]
pub struct Unfinished<K> {
    limits: UnfinishedLimits,
    owed: HashMap<K, Owed>,
}

impl<K: Copy + Eq + Hash> Unfinished<K> {
    /// Nobody owes anything.
    pub fn new(limits: UnfinishedLimits) -> Self {
        Self { limits, owed: HashMap::new() }
    }

    /// How many addresses owe something.
    pub fn len(&self) -> usize {
        self.owed.len()
    }

    /// True where none does.
    pub fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// A connection from there ended with so many bytes of a request that was not whole. Where too many
    /// addresses owe something to be told apart, it is forgotten.
    fn note(&mut self, address: K, bytes: u64, now: Millis) {
        if bytes == 0 || !self.has_room_for(address, now) {
            return;
        }
        let owed = self.owed.entry(address).or_insert(Owed { bytes: 0, at: now, held_back_until: now });
        let before = owed.pay(self.limits, now);
        owed.bytes = before.saturating_add(bytes).min(self.limits.owed_bytes_max).max(before);
        if owed.bytes > self.limits.free_bytes || owed.is_held_back(now) {
            owed.held_back_until = now.plus(self.limits.held_back_ms);
        }
    }

    fn has_room_for(&mut self, address: K, now: Millis) -> bool {
        if self.owed.contains_key(&address) || self.owed.len() < self.limits.addresses_max {
            return true;
        }
        let limits = self.limits;
        self.owed.retain(|_, owed| owed.pay(limits, now) > 0 || owed.is_held_back(now));
        self.owed.len() < limits.addresses_max
    }

    /// Lends a piece to a connection from there; `None` where the address is not held back and nothing
    /// is lent.
    fn lend(&mut self, address: K, now: Millis) -> Option<ReadsOn> {
        let limits = self.limits;
        let owed = self.owed.get_mut(&address)?;
        let before = owed.pay(limits, now);
        if !owed.is_held_back(now) {
            if before == 0 {
                self.owed.remove(&address);
            }
            return None;
        }
        let after = before.saturating_add(limits.piece_bytes);
        let wait_ms = after.saturating_sub(limits.free_bytes).div_ceil(limits.paid_bytes_per_ms.max(1));
        if wait_ms > limits.wait_ms_max {
            return Some(ReadsOn::Never);
        }
        owed.bytes = after;
        Some(if wait_ms == 0 { ReadsOn::Now } else { ReadsOn::From(now.plus(wait_ms)) })
    }

    /// What was lent is not owed any more.
    fn give_back(&mut self, address: K, bytes: u64, now: Millis) {
        if let Some(owed) = self.owed.get_mut(&address) {
            owed.bytes = owed.pay(self.limits, now).saturating_sub(bytes);
        }
    }
}

impl Owed {
    /// What is owed still.
    fn pay(&mut self, limits: UnfinishedLimits, now: Millis) -> u64 {
        let paid = now.since(self.at).saturating_mul(limits.paid_bytes_per_ms);
        self.bytes = self.bytes.saturating_sub(paid);
        self.at = self.at.max(now);
        self.bytes
    }

    fn is_held_back(&self, now: Millis) -> bool {
        now < self.held_back_until
    }
}

/// What one connection may read of the request that is under way on it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Borrower {
    finished_bytes: u64,
    borrowed_bytes: u64,
    from: Millis,
}

impl Borrower {
    /// When more may be read from a connection that has sent so many bytes of a request which is not
    /// whole.
    pub fn reads_on<K: Copy + Eq + Hash>(
        &mut self,
        book: &mut Unfinished<K>,
        address: K,
        input_bytes: usize,
        now: Millis,
    ) -> ReadsOn {
        let trusted = book.limits.small_bytes.max(self.finished_bytes);
        if self.rests_until(now).is_none() && input_bytes as u64 >= trusted.saturating_add(self.borrowed_bytes) {
            match book.lend(address, now) {
                None => return ReadsOn::Now,
                Some(ReadsOn::Never) => return ReadsOn::Never,
                Some(ReadsOn::Now) => self.from = now,
                Some(ReadsOn::From(from)) => self.from = from,
            }
            self.borrowed_bytes = self.borrowed_bytes.saturating_add(book.limits.piece_bytes);
        }
        self.rests_until(now).map_or(ReadsOn::Now, ReadsOn::From)
    }

    /// Until when what was borrowed may not be read.
    pub fn rests_until(&self, now: Millis) -> Option<Millis> {
        (self.borrowed_bytes > 0 && self.from > now).then_some(self.from)
    }

    /// A request of so many bytes is whole.
    pub fn finished<K: Copy + Eq + Hash>(&mut self, book: &mut Unfinished<K>, address: K, bytes: usize, now: Millis) {
        self.finished_bytes = self.finished_bytes.saturating_add(bytes as u64);
        self.give_back(book, address, now);
    }

    /// The request of so many bytes that was finished last says nothing. Where that was a large one it
    /// counts as if it had not been finished, and nothing that was before speaks for the connection.
    pub fn worthless<K: Copy + Eq + Hash>(&mut self, book: &mut Unfinished<K>, address: K, bytes: usize, now: Millis) {
        if bytes as u64 > book.limits.small_bytes {
            self.finished_bytes = 0;
            book.note(address, bytes as u64, now);
        }
    }

    /// The connection is over, and so many bytes of a request were read that never was whole.
    pub fn ended<K: Copy + Eq + Hash>(&mut self, book: &mut Unfinished<K>, address: K, bytes: usize, now: Millis) {
        self.give_back(book, address, now);
        book.note(address, bytes as u64, now);
    }

    fn give_back<K: Copy + Eq + Hash>(&mut self, book: &mut Unfinished<K>, address: K, now: Millis) {
        if self.borrowed_bytes > 0 {
            book.give_back(address, std::mem::take(&mut self.borrowed_bytes), now);
        }
    }
}
