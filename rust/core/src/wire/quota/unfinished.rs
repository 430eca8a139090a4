//! Limits requests that are begun and never finished, and large frames that are no valid requests: reading and
//! dropping their bytes costs time that other clients wait for.
//!
//! Unfinished bytes are a debt of the peer's address, and time repays it. An address with too much debt is held
//! back for some time: its connections borrow the right to read a large request piece by piece, each in its turn,
//! and return it when the request is complete. So unfinished requests are read no faster than the debt is repaid. A
//! connection may read as many bytes without borrowing as it has sent in finished requests, and small requests are
//! read at once.
//!
//! `K` is the address of a peer; connections are counted by it.

use std::collections::HashMap;
use std::hash::Hash;

use crate::units::Millis;

/// The limits of unfinished requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnfinishedLimits {
    /// Bytes of a request that are read from every connection without borrowing.
    pub small_bytes: u64,
    /// Bytes that a connection borrows at a time.
    pub piece_bytes: u64,
    /// The debt that an address may have without being held back.
    pub free_bytes: u64,
    /// The largest debt of an address.
    pub owed_bytes_max: u64,
    /// Bytes of debt repaid per millisecond.
    pub paid_bytes_per_ms: u64,
    /// How long an address is held back after it last left bytes unfinished while its debt was too large, in
    /// milliseconds.
    pub held_back_ms: u64,
    /// The longest wait of a connection for a piece, in milliseconds; it ends if it would have to wait longer.
    pub wait_ms_max: u64,
    /// The most addresses that are remembered.
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

/// The debt of one address.
#[derive(Clone, Copy, Debug)]
struct Owed {
    bytes: u64,
    at: Millis,
    held_back_until: Millis,
}

/// When more may be read from a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadsOn {
    /// Now.
    Now,
    /// Not before this time.
    From(Millis),
    /// Never: the wait would be too long.
    Never,
}

/// The debts; see the module.
#[derive(Debug)]
pub struct Unfinished<K> {
    limits: UnfinishedLimits,
    owed: HashMap<K, Owed>,
}

impl<K: Copy + Eq + Hash> Unfinished<K> {
    /// No debts.
    pub fn new(limits: UnfinishedLimits) -> Self {
        Self { limits, owed: HashMap::new() }
    }

    /// The number of addresses with a debt.
    pub fn len(&self) -> usize {
        self.owed.len()
    }

    /// True if no address has a debt.
    pub fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    /// A connection from there ended with `bytes` of an incomplete request. The bytes are not recorded if the
    /// maximum number of addresses is remembered.
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

    /// Lends a piece to a connection from there; `None` if the address is not held back, and nothing needs to be
    /// lent.
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

    /// Takes a lent piece back: it is no longer part of the debt.
    fn give_back(&mut self, address: K, bytes: u64, now: Millis) {
        if let Some(owed) = self.owed.get_mut(&address) {
            owed.bytes = owed.pay(self.limits, now).saturating_sub(bytes);
        }
    }
}

impl Owed {
    /// Subtracts the repaid bytes; returns the remaining debt.
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

/// The bytes that one connection may read of the request under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Borrower {
    finished_bytes: u64,
    borrowed_bytes: u64,
    from: Millis,
}

impl Borrower {
    /// When more may be read from a connection that has sent `input_bytes` of an incomplete request.
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

    /// The time before which the borrowed bytes may not be read.
    pub fn rests_until(&self, now: Millis) -> Option<Millis> {
        (self.borrowed_bytes > 0 && self.from > now).then_some(self.from)
    }

    /// A request of `bytes` is complete.
    pub fn finished<K: Copy + Eq + Hash>(&mut self, book: &mut Unfinished<K>, address: K, bytes: usize, now: Millis) {
        self.finished_bytes = self.finished_bytes.saturating_add(bytes as u64);
        self.give_back(book, address, now);
    }

    /// The last finished request, of `bytes`, was not a valid request. A large one counts as unfinished, and the
    /// connection loses the credit for its earlier requests.
    pub fn worthless<K: Copy + Eq + Hash>(&mut self, book: &mut Unfinished<K>, address: K, bytes: usize, now: Millis) {
        if bytes as u64 > book.limits.small_bytes {
            self.finished_bytes = 0;
            book.note(address, bytes as u64, now);
        }
    }

    /// The connection ended with `bytes` of an incomplete request.
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
