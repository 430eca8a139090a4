//! The keys of pending messages. They are part of the state, so every copy of the stream decides alike, and a look-up
//! does not read the disk. Messages without a key take no memory here.
//!
//! Keys are stored in shards that a frozen checkpoint shares: freezing copies no shard, and a later change copies one
//! small shard.

use std::collections::HashMap;
use std::sync::Arc;

use super::siphash::siphash_2_4;
use crate::error::Result;
use crate::record::terms::{KeyCommand, NameHash};
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::units::{DueKey, Millis, Sequence, SubjectNumber};

/// The number of shards: four million keys make about 4,096 in each.
const SHARDS: u64 = 1_024;
/// A shard never shrinks while its capacity is at most this.
const SHARD_ROOM_KEPT: usize = 16;
/// Bytes of one key in a checkpoint.
const SAVED_BYTES: usize = 40;

/// Returns the hash that facts use for a key or an id in a subject. It covers the subject's name and not its number,
/// since another store may number subjects differently.
pub fn name_hash(subject: &str, name: &str) -> NameHash {
    let mut bytes = Vec::with_capacity(subject.len().saturating_add(name.len()).saturating_add(8));
    bytes.extend_from_slice(&(subject.len() as u64).to_le_bytes());
    bytes.extend_from_slice(subject.as_bytes());
    bytes.extend_from_slice(name.as_bytes());
    let low = siphash_2_4(b"delaymq name low", &bytes);
    // Never all zeros, which mean no name.
    NameHash { low, high: siphash_2_4(b"delaymq name top", &bytes) | 1 }
}

/// Returns the hash that facts use for a command by key. It covers the whole command and the id that the caller sends
/// again with a repetition. No message id has this hash.
pub fn command_hash(subject: &str, key: &str, asked: KeyCommand, id: &str) -> NameHash {
    let (what, when) = match asked {
        KeyCommand::Cancel => (0_u64, 0),
        KeyCommand::Move { due, delay_ms: None } => (1, due.0),
        // A delay gives another due time with each repetition, so the hash covers the delay.
        KeyCommand::Move { delay_ms: Some(delay_ms), .. } => (2, delay_ms),
    };
    let mut bytes = Vec::new();
    for number in [what, when, subject.len() as u64, key.len() as u64] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for text in [subject, key, id] {
        bytes.extend_from_slice(text.as_bytes());
    }
    let low = siphash_2_4(b"delaymq asks low", &bytes);
    NameHash { low, high: siphash_2_4(b"delaymq asks top", &bytes) | 1 }
}

/// The receipt data of a message that has a key or an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    /// Its entry.
    pub key: DueKey,
    /// Its subject.
    pub subject: SubjectNumber,
    /// Bytes of its body.
    pub size: u32,
}

impl Named {
    /// Remembered for a command by key that found no message.
    pub(in crate::store) const NOTHING: Self =
        Self { key: DueKey { due: Millis(0), sequence: Sequence(0) }, subject: SubjectNumber(0), size: 0 };

    /// Remembered for a command by key that came after its message became ready.
    pub(in crate::store) const DISPATCHED: Self =
        Self { key: DueKey { due: Millis(1), sequence: Sequence(0) }, subject: SubjectNumber(0), size: 0 };

    /// True if a command found no message.
    pub fn is_nothing(&self) -> bool {
        *self == Self::NOTHING
    }

    /// True if a command came after its message became ready.
    pub fn is_dispatched(&self) -> bool {
        *self == Self::DISPATCHED
    }
}

/// A map in shards that copies share until a shard changes. A shard is allocated with its first entry, since a store
/// with a few names would otherwise allocate all shards with the first name and free them with the last.
#[derive(Clone, Debug)]
pub(in crate::store) struct Shards<K, V> {
    shards: Vec<Option<Arc<HashMap<K, V>>>>,
    count: usize,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        Self { shards: Vec::new(), count: 0 }
    }
}

/// A key whose bits select its shard.
pub(in crate::store) trait Sharded: Copy + Eq + std::hash::Hash {
    fn bits(self) -> u64;
}

impl Sharded for NameHash {
    fn bits(self) -> u64 {
        self.low
    }
}

impl Sharded for Sequence {
    fn bits(self) -> u64 {
        self.0
    }
}

impl<K: Sharded, V: Copy> Shards<K, V> {
    pub(in crate::store) fn len(&self) -> usize {
        self.count
    }

    fn shard(&self, key: K) -> Option<&Arc<HashMap<K, V>>> {
        self.shards.get((key.bits() % SHARDS) as usize)?.as_ref()
    }

    pub(in crate::store) fn get(&self, key: K) -> Option<V> {
        self.shard(key)?.get(&key).copied()
    }

    pub(in crate::store) fn insert(&mut self, key: K, value: V) {
        if self.shards.is_empty() {
            self.shards = (0..SHARDS).map(|_| None).collect();
        }
        let Some(shard) = self.shards.get_mut((key.bits() % SHARDS) as usize) else { return };
        if Arc::make_mut(shard.get_or_insert_default()).insert(key, value).is_none() {
            self.count = self.count.saturating_add(1);
        }
    }

    pub(in crate::store) fn remove(&mut self, key: K) -> Option<V> {
        self.get(key)?;
        let shard = self.shards.get_mut((key.bits() % SHARDS) as usize)?.as_mut()?;
        let map = Arc::make_mut(shard);
        let removed = map.remove(&key)?;
        // Frees the capacity that a burst needed. Half of the new capacity stays free, so the map does not resize
        // repeatedly.
        if map.capacity() > SHARD_ROOM_KEPT && map.len() < map.capacity() / 4 {
            map.shrink_to(map.len().saturating_mul(2));
        }
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.shards = Vec::new();
        }
        Some(removed)
    }

    /// The number of entries that fit without another allocation.
    #[cfg(test)]
    pub(in crate::store) fn room(&self) -> usize {
        self.shards.iter().flatten().map(|shard| shard.capacity()).sum()
    }

    pub(in crate::store) fn iter(&self) -> impl Iterator<Item = (K, V)> + '_ {
        self.shards.iter().flatten().flat_map(|shard| shard.iter().map(|(key, value)| (*key, *value)))
    }
}

/// The keys of all pending messages: see the module.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    by_key: Shards<NameHash, Named>,
    by_sequence: Shards<Sequence, NameHash>,
}

impl PartialEq for Keys {
    fn eq(&self, other: &Self) -> bool {
        self.in_order() == other.in_order()
    }
}

impl Keys {
    /// The number of keys.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// True if no pending message has a key.
    pub fn is_empty(&self) -> bool {
        self.by_key.len() == 0
    }

    /// The pending message with this key.
    pub fn get(&self, key: NameHash) -> Option<Named> {
        self.by_key.get(key)
    }

    /// The key of the message that is pending with this sequence.
    pub fn of(&self, sequence: Sequence) -> Option<NameHash> {
        self.by_sequence.get(sequence)
    }

    /// Gives a key to a pending message; any message that had the key before loses it.
    pub(in crate::store) fn hold(&mut self, key: NameHash, message: Named) {
        if let Some(before) = self.by_key.get(key) {
            self.by_sequence.remove(before.key.sequence);
        }
        self.by_key.insert(key, message);
        self.by_sequence.insert(message.key.sequence, key);
    }

    /// Frees the key of the message that is no longer pending with this sequence, and returns both.
    pub(in crate::store) fn release(&mut self, sequence: Sequence) -> Option<(NameHash, Named)> {
        if self.is_empty() {
            return None;
        }
        let key = self.by_sequence.remove(sequence)?;
        Some((key, self.by_key.remove(key)?))
    }

    fn in_order(&self) -> Vec<(NameHash, Named)> {
        let mut all: Vec<(NameHash, Named)> = self.by_key.iter().collect();
        all.sort_unstable_by_key(|(_, message)| message.key.sequence);
        all
    }

    /// Writes a count, then for each key `key 16 | due_ms u64 | sequence u64 | subject u32 | size u32`, by sequence.
    pub(in crate::store) fn write(&self, out: &mut FieldWriter) {
        let all = self.in_order();
        out.count(all.len());
        for (key, message) in all {
            write_named(out, key, message);
        }
    }

    /// Reads what [`Self::write`] wrote, in a checkpoint whose next sequence is `next`.
    ///
    /// # Errors
    /// `Corrupt` if the keys are out of order or one occurs twice.
    pub(in crate::store) fn read(from: &mut FieldReader<'_>, next: Sequence) -> Result<Self> {
        let mut read = Self::default();
        let mut last = Sequence(0);
        for _ in 0..from.count(SAVED_BYTES)? {
            let (key, message) = read_named(from)?;
            let sequence = message.key.sequence;
            if sequence <= last || sequence >= next || read.get(key).is_some() {
                return Err(from.malformed("keys of pending messages in the order of the log, each once"));
            }
            last = sequence;
            read.hold(key, message);
        }
        Ok(read)
    }
}

pub(super) fn write_named(out: &mut FieldWriter, name: NameHash, message: Named) {
    out.u64(name.low);
    out.u64(name.high);
    out.u64(message.key.due.0);
    out.u64(message.key.sequence.0);
    out.u32(message.subject.0);
    out.u32(message.size);
}

pub(super) fn read_named(from: &mut FieldReader<'_>) -> Result<(NameHash, Named)> {
    let name = NameHash { low: from.u64()?, high: from.u64()? };
    let key = DueKey { due: Millis(from.u64()?), sequence: Sequence(from.u64()?) };
    Ok((name, Named { key, subject: SubjectNumber(from.u32()?), size: from.u32()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(sequence: u64) -> Named {
        let key = DueKey { due: Millis(sequence * 10), sequence: Sequence(sequence) };
        Named { key, subject: SubjectNumber(1), size: 3 }
    }

    #[test]
    fn names_of_two_subjects_are_two() {
        assert_eq!(name_hash("a", "k"), name_hash("a", "k"));
        for (subject, name) in [("b", "k"), ("ak", ""), ("", "ak"), ("a", "l")] {
            assert_ne!(name_hash("a", "k"), name_hash(subject, name), "{subject} {name}");
        }
    }

    #[test]
    fn a_command_is_told_by_all_that_it_asks() {
        let after = |due, delay_ms| KeyCommand::Move { due: Millis(due), delay_ms };
        let first = command_hash("a", "k", after(5, Some(3)), "id");
        assert_eq!(command_hash("a", "k", after(9, Some(3)), "id"), first, "the same delay, later");
        for other in [
            command_hash("a", "k", after(5, Some(4)), "id"),
            command_hash("a", "k", after(3, None), "id"),
            command_hash("a", "k", KeyCommand::Cancel, "id"),
            command_hash("a", "k", after(5, Some(3)), "other"),
            command_hash("a", "ki", after(5, Some(3)), "d"),
            command_hash("ak", "", after(5, Some(3)), "id"),
            name_hash("a", "id"),
        ] {
            assert_ne!(other, first);
        }
    }

    #[test]
    fn a_key_is_of_one_message_and_free_when_that_goes() {
        let mut keys = Keys::default();
        let key = name_hash("orders", "17");
        keys.hold(key, named(5));
        keys.hold(key, named(6));
        assert_eq!((keys.len(), keys.get(key)), (1, Some(named(6))));
        assert_eq!(keys.by_key.shards.iter().flatten().count(), 1, "no other shard is allocated");
        assert_eq!(keys.release(Sequence(5)), None, "it has the key no more");
        assert_eq!(keys.release(Sequence(6)), Some((key, named(6))));
        assert!(keys.is_empty() && keys.by_key.shards.is_empty() && keys.by_sequence.shards.is_empty());
    }

    #[test]
    fn a_copy_keeps_what_it_was_taken_of_and_is_read_again() {
        let mut keys = Keys::default();
        for one in 1..=5_000 {
            keys.hold(name_hash("orders", &one.to_string()), named(one));
        }
        let frozen = keys.clone();
        for one in 1..=5_000 {
            keys.release(Sequence(one));
        }
        assert_eq!((keys.len(), frozen.len()), (0, 5_000));
        let mut out = FieldWriter::default();
        frozen.write(&mut out);
        assert_eq!(Keys::read(&mut FieldReader::new("checkpoint", &out.bytes), Sequence(5_001)).unwrap(), frozen);
        assert!(Keys::read(&mut FieldReader::new("checkpoint", &out.bytes), Sequence(5_000)).is_err());
    }
}
