//! A timing wheel for entries that are due soon: four levels with 256 slots each.
//!
//! | level | a slot spans | the level spans |
//! |---|---|---|
//! | 0 | 1 ms | 256 ms |
//! | 1 | 256 ms | 65 s |
//! | 2 | 65 s | 4.6 h |
//! | 3 | 4.6 h | 49 days |
//!
//! `base` is the first millisecond whose entries are still in the levels. The level of an entry is that of the
//! highest byte in which its due time differs from `base`, and this byte is the number of its slot. So the slots in
//! use of a level are all above the slot of `base`, and no level wraps around. Entries that differ above the fourth
//! byte wait beyond the levels. When `base` enters a slot of a higher level, the slot's entries move down. If they
//! are few for its span, they are sorted at once instead, and wait as `sparse`. Entries due before `base` are out
//! of the levels: `staged` has one millisecond's entries in order, and `late` has entries that were inserted after
//! their time.

mod levels;
mod slots;
mod sparse;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use levels::Levels;
use slots::ChunkPool;

use crate::schedule_log::{Entry, sort_by_key};
use crate::units::{DueKey, Millis};

/// A timing wheel; see the module.
#[derive(Debug)]
pub struct Wheel {
    levels: Levels,
    pool: ChunkPool,
    /// Every entry due before this is in `staged` or `late`.
    base: u64,
    /// No entry in the levels is due before this, so one comparison settles most milliseconds.
    quiet_until: u64,
    /// The same for entries that are not sparse: before this, sparse entries are handed out without a search.
    slots_quiet_until: u64,
    staged: Vec<Entry>,
    /// The number of `staged` entries that were handed out.
    staged_taken: usize,
    late: BinaryHeap<Reverse<ByKey>>,
    length: usize,
}

impl Wheel {
    /// An empty wheel whose first millisecond is `now`.
    pub fn new(now: Millis) -> Self {
        Self {
            levels: Levels::new(),
            pool: ChunkPool::default(),
            base: now.0,
            quiet_until: u64::MAX,
            slots_quiet_until: u64::MAX,
            staged: Vec::new(),
            staged_taken: 0,
            late: BinaryHeap::new(),
            length: 0,
        }
    }

    /// Adds an entry with any due time.
    #[inline]
    pub fn insert(&mut self, entry: Entry) {
        self.length = self.length.saturating_add(1);
        if entry.due().0 < self.base {
            self.late.push(Reverse(ByKey(entry)));
        } else {
            self.quiet_until = self.quiet_until.min(entry.due().0);
            self.slots_quiet_until = self.slots_quiet_until.min(entry.due().0);
            self.levels.insert(self.base, &entry, &mut self.pool);
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// When to look again: the due time of the first entry, or an earlier time if that is not known exactly. Each
    /// look brings it nearer.
    pub fn next_due(&self) -> Option<Millis> {
        let in_levels = || (self.length > 0).then_some(Millis(self.quiet_until));
        self.first_in_hand().map(Entry::due).or_else(in_levels)
    }

    /// Moves up to `limit` entries that are due at `now` or before to `into`, in the order of due time and
    /// sequence. Entries above the limit stay, also within one millisecond.
    pub fn take_until(&mut self, now: Millis, limit: usize, into: &mut Vec<Entry>) {
        let mut room = limit;
        while room > 0 {
            let Some(due) = self.first_in_hand().map(Entry::due) else {
                if now.0 < self.quiet_until {
                    break;
                }
                if now.0 < self.slots_quiet_until {
                    room = room.saturating_sub(self.take_sparse(now.0, room, into));
                } else if let Some(tick) = self.next_tick_until(now.0) {
                    room = room.saturating_sub(self.take_or_stage(tick, room, into));
                }
                continue;
            };
            if due > now {
                break;
            }
            if self.late.is_empty() {
                room = room.saturating_sub(self.take_staged(room, into));
            } else if let Some(entry) = self.take_first() {
                into.push(entry);
                self.length = self.length.saturating_sub(1);
                room = room.saturating_sub(1);
            }
        }
    }

    /// The key of the next entry to hand out, if it is due at `now` or before.
    pub fn first_until(&mut self, now: Millis) -> Option<DueKey> {
        if self.first_in_hand().is_none() {
            let tick = self.next_tick_until(now.0)?;
            self.stage(tick);
        }
        self.first_in_hand().map(Entry::key).filter(|key| key.due <= now)
    }

    /// Removes and returns the entry whose key [`Self::first_until`] returned.
    pub fn take_first_until(&mut self, now: Millis) -> Option<Entry> {
        self.first_until(now)?;
        let entry = self.take_first()?;
        self.length = self.length.saturating_sub(1);
        Some(entry)
    }

    /// Removes the latest entries until `keep` remain. Returns the greatest key kept, or [`DueKey::START`] if none
    /// is kept; `None` if no entry had to be removed.
    pub fn shed(&mut self, keep: usize) -> Option<DueKey> {
        if self.length <= keep {
            return None;
        }
        let in_hand = self.in_hand_len();
        // Sparse entries go back into slots.
        self.slots_quiet_until = self.quiet_until;
        if keep > in_hand {
            let kept = self.levels.shed(self.base, keep.saturating_sub(in_hand), &mut self.pool);
            self.length = keep;
            return Some(kept);
        }
        self.levels.clear(&mut self.pool);
        let mut left = self.unstage();
        if keep < left.len() {
            left.truncate(keep);
            left.shrink_to_fit();
        }
        self.length = left.len();
        let kept = left.last().map_or(DueKey::START, Entry::key);
        self.staged = left;
        Some(kept)
    }

    /// Removes every entry above `key`.
    pub fn remove_above(&mut self, key: DueKey) {
        let mut left = self.unstage();
        left.truncate(left.partition_point(|entry| entry.key() <= key));
        self.slots_quiet_until = self.quiet_until;
        self.length = left.len().saturating_add(self.levels.remove_above(self.base, key, &mut self.pool));
        self.staged = left;
    }

    /// Removes all entries and returns them, in order.
    pub fn take_all(&mut self) -> Vec<Entry> {
        let mut all = self.unstage();
        all.reserve_exact(self.length.saturating_sub(all.len()));
        self.levels.move_to(&mut all, &mut self.pool);
        sort_by_key(&mut all);
        self.slots_quiet_until = self.quiet_until;
        self.length = 0;
        all
    }

    /// All entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        let staged = self.staged.get(self.staged_taken..).unwrap_or_default();
        let late = self.late.iter().map(|Reverse(ByKey(entry))| entry);
        staged.iter().chain(late).chain(self.levels.iter())
    }

    /// The least key. Reads all entries of the first slot in use.
    pub fn lowest(&self) -> Option<DueKey> {
        self.first_in_hand().map(Entry::key).or_else(|| self.levels.lowest())
    }

    /// Bytes of memory that the wheel takes.
    pub fn memory_bytes(&self) -> usize {
        let in_hand = self.staged.capacity().saturating_add(self.late.capacity()).saturating_mul(size_of::<Entry>());
        in_hand.saturating_add(self.levels.memory_bytes()).saturating_add(self.pool.memory_bytes())
    }

    /// The number of entries in `staged` and `late`.
    fn in_hand_len(&self) -> usize {
        self.staged.len().saturating_sub(self.staged_taken).saturating_add(self.late.len())
    }

    #[inline]
    fn first_in_hand(&self) -> Option<&Entry> {
        let staged = self.staged.get(self.staged_taken);
        let late = self.late.peek().map(|Reverse(ByKey(entry))| entry);
        match (staged, late) {
            (Some(staged), Some(late)) if late.key() < staged.key() => Some(late),
            (Some(staged), _) => Some(staged),
            (None, late) => late,
        }
    }

    /// Removes the first entry in hand; the caller adjusts `length`.
    #[inline]
    fn take_first(&mut self) -> Option<Entry> {
        let staged = self.staged.get(self.staged_taken).copied();
        let late = self.late.peek().map(|Reverse(ByKey(entry))| *entry);
        match (staged, late) {
            (Some(staged), late) if late.is_none_or(|late| staged.key() < late.key()) => {
                self.staged_taken = self.staged_taken.saturating_add(1);
                self.drop_spent_stage();
                Some(staged)
            }
            _ => self.late.pop().map(|Reverse(ByKey(entry))| entry),
        }
    }

    /// Hands out up to `room` entries of `staged` that come before all late ones; returns how many.
    fn take_staged(&mut self, room: usize, into: &mut Vec<Entry>) -> usize {
        let rest = self.staged.get(self.staged_taken..).unwrap_or_default();
        let part = rest.get(..room).unwrap_or(rest);
        into.extend_from_slice(part);
        let count = part.len();
        self.staged_taken = self.staged_taken.saturating_add(count);
        self.length = self.length.saturating_sub(count);
        self.drop_spent_stage();
        count
    }

    fn drop_spent_stage(&mut self) {
        if self.staged_taken >= self.staged.len() {
            self.staged_taken = 0;
            if self.staged.capacity() > STAGE_KEPT_MAX {
                self.staged = Vec::new();
            } else {
                self.staged.clear();
            }
        }
    }

    /// The next millisecond in use, if it is at `now` or before; `base` has then moved there. Otherwise moves
    /// `base` past `now`. No entry may be in hand.
    fn next_tick_until(&mut self, now: u64) -> Option<u64> {
        while now >= self.quiet_until {
            self.slots_quiet_until = self.levels.next_slot(self.base).unwrap_or(u64::MAX);
            let next = self.slots_quiet_until.min(self.levels.first_sparse());
            if next > now {
                self.quiet_until = next;
                self.move_base(now.saturating_add(1).max(self.base));
                return None;
            }
            self.move_base(next);
            if self.levels.is_in_use(next) {
                return Some(next);
            }
        }
        None
    }

    /// Hands out up to `room` sparse entries that are due at `now`; no other entry may be due. `base` may stay
    /// behind, since it is in the slot that they came from.
    #[inline]
    fn take_sparse(&mut self, now: u64, room: usize, into: &mut Vec<Entry>) -> usize {
        let count = self.levels.take_sparse(now, room, into);
        self.length = self.length.saturating_sub(count);
        self.quiet_until = self.slots_quiet_until.min(self.levels.first_sparse());
        count
    }

    /// Takes the entries of the millisecond `tick`, which `base` has reached: into `into` if there is room for all,
    /// else into `staged`. Returns how many went to `into`.
    fn take_or_stage(&mut self, tick: u64, room: usize, into: &mut Vec<Entry>) -> usize {
        let count = self.levels.tick_len(tick);
        if count > room {
            self.stage(tick);
            return 0;
        }
        let before = into.len();
        self.levels.take_tick(tick, into, &mut self.pool);
        sort_by_key(into.get_mut(before..).unwrap_or_default());
        self.length = self.length.saturating_sub(count);
        self.move_base(tick.saturating_add(1));
        count
    }

    fn stage(&mut self, tick: u64) {
        self.levels.take_tick(tick, &mut self.staged, &mut self.pool);
        sort_by_key(&mut self.staged);
        self.move_base(tick.saturating_add(1));
    }

    fn move_base(&mut self, to: u64) {
        let from = std::mem::replace(&mut self.base, to);
        self.levels.enter(from, to, &mut self.pool);
    }

    /// Takes all entries in hand, in order.
    fn unstage(&mut self) -> Vec<Entry> {
        let mut left = std::mem::take(&mut self.staged);
        left.drain(..self.staged_taken.min(left.len()));
        self.staged_taken = 0;
        let late = std::mem::take(&mut self.late);
        left.extend(late.into_iter().map(|Reverse(ByKey(entry))| entry));
        sort_by_key(&mut left);
        left
    }
}

/// A `staged` buffer with more capacity than this is freed when it is empty.
const STAGE_KEPT_MAX: usize = 8_192;

/// An entry that compares by its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ByKey(Entry);

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.key().cmp(&other.0.key())
    }
}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
