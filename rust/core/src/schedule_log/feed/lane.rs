//! A lane of the feed: hands over the pending entries of some subjects in the order of due time and sequence,
//! and keeps in memory only those that are due soon.
//!
//! `position` divides the schedule. Every pending entry at or below it was handed over or is in hand: in a
//! loaded slice or, if it arrived later, in the wheel. Entries above it are left to the next slice. No entry
//! is missed, because a slice moves the position to its last entry, an arrival is compared with the position,
//! and giving entries back moves the position back with them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::cursors::{Cursors, after, before};
use super::gather::{Gather, Of};
use super::shares::{Shares, sampled};
use crate::planted::{Planted, is_on};
use crate::run::DamagedBlock;
use crate::schedule_log::entry::{Entry, sort_by_key};
use crate::schedule_log::schedule::Schedule;
use crate::units::{DueKey, Millis, SubjectNumber};
use crate::wheel::Wheel;

/// The most entries of a slice. Loading a slice holds the owner while others wait. This many take two to
/// three milliseconds, and are enough that reading some rows of each run twice costs little.
const SLICE_MAX: usize = 1 << 15;

/// The number of samples for estimating the shares of subjects.
const SAMPLES: usize = 4_096;

/// A sorted piece of the schedule.
#[derive(Debug)]
struct Slice {
    entries: Vec<Entry>,
    /// The number of entries handed over.
    taken: usize,
}

impl Slice {
    fn left(&self) -> &[Entry] {
        self.entries.get(self.taken..).unwrap_or_default()
    }
}

/// The result of loading.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Loaded {
    /// Every entry that is due within the window is in hand.
    UpToDate,
    /// More entries are due within the window, but there is no room before some are taken.
    Full,
    /// More entries are due within the window, and there is room: load again.
    More,
}

/// One lane; see the module.
#[derive(Debug)]
pub(in crate::schedule_log) struct Lane {
    of: Of,
    position: DueKey,
    /// Slices in order. Every entry of a later slice is above those of an earlier one.
    slices: VecDeque<Slice>,
    in_slices: usize,
    wheel: Wheel,
    cursors: Cursors,
    /// The number of entries that came since the lane was last checked for floods.
    came: usize,
}

impl Lane {
    /// A lane that begins above `position`; see [`Self::resume_from`].
    pub(in crate::schedule_log) fn new(of: Of, position: DueKey, now: Millis) -> Self {
        Self {
            of,
            position,
            slices: VecDeque::new(),
            in_slices: 0,
            wheel: Wheel::new(now),
            cursors: Cursors::default(),
            came: 0,
        }
    }

    /// The subjects whose entries it has.
    pub(in crate::schedule_log) fn of(&self) -> &Of {
        &self.of
    }

    /// Every pending entry at or below this key is in hand or was handed over.
    pub(in crate::schedule_log) fn position(&self) -> DueKey {
        self.position
    }

    /// The number of entries in hand.
    pub(in crate::schedule_log) fn len(&self) -> usize {
        self.in_slices.saturating_add(self.wheel.len())
    }

    /// True if no entry is in hand.
    pub(in crate::schedule_log) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes that an entry of one of its subjects was inserted into the schedule. If the lane has passed its
    /// key, the entry is in hand from now on. Otherwise it comes with its slice.
    #[inline]
    pub(in crate::schedule_log) fn arrive(&mut self, entry: Entry) {
        if entry.key() <= self.position && !is_on(Planted::FeedSkipsArrival) && !self.races(&entry) {
            self.came = self.came.saturating_add(1);
            self.wheel.insert(entry);
        }
    }

    /// A planted fault: an arrival that falls into the last loaded slice is skipped.
    fn races(&self, entry: &Entry) -> bool {
        let first = || self.slices.back().and_then(|slice| slice.left().first()).map(Entry::key);
        is_on(Planted::CursorRace) && first().is_some_and(|first| first <= entry.key())
    }

    /// Loads the next slice: entries that are due until `window_ms` after `now` and not after `last`, with at
    /// most `entries_max` in hand, down to a part of one millisecond. Does nothing while more than half of
    /// the window is in hand.
    ///
    /// # Errors
    /// The block of a run that cannot be read. The lane is unchanged then. The owner finds the block's
    /// entries in the log or abandons them, calls [`Schedule::patch`], and loads again.
    pub(in crate::schedule_log) fn load(
        &mut self,
        schedule: &mut Schedule,
        now: Millis,
        window_ms: u64,
        entries_max: usize,
        last: DueKey,
    ) -> Result<Loaded, Box<DamagedBlock>> {
        if self.position >= DueKey::end_of(now.plus(window_ms / 2)).min(last) {
            return Ok(Loaded::UpToDate);
        }
        let Some(room) = self.room(entries_max) else { return Ok(Loaded::Full) };
        let end = DueKey::end_of(now.plus(window_ms)).min(last);
        let mut gather = Gather::new(self.position, end, room).of(&self.of);
        let moves = schedule.gather(&mut gather, &mut self.cursors)?;
        let mut gathered = gather.finish();
        schedule.resolve_all(&mut gathered.entries)?;
        // Only now the subjects of moved entries are certain.
        gathered.entries.retain(|entry| self.of.has(entry.subject()));
        self.cursors.accept(moves, gathered.to);
        if !gathered.cut {
            // After a slice that was cut, the next one follows at once and continues where this one ended.
            schedule.ask_ahead(self.position, gathered.to, &mut self.cursors);
        }
        self.in_slices = self.in_slices.saturating_add(gathered.entries.len());
        self.came = self.came.saturating_add(gathered.entries.len());
        if !gathered.entries.is_empty() {
            self.slices.push_back(Slice { entries: gathered.entries, taken: 0 });
        }
        self.position = if is_on(Planted::FeedPassesUnhanded) { end } else { gathered.to };
        Ok(if gathered.cut { Loaded::More } else { Loaded::UpToDate })
    }

    /// The time at which [`Self::load`] can load more. `None` if there is no room before entries are taken.
    pub(in crate::schedule_log) fn next_load(&self, window_ms: u64, entries_max: usize) -> Option<Millis> {
        self.room(entries_max)?;
        let due = self.position.due.0.saturating_sub(window_ms / 2);
        let passed = self.position.sequence.0 == u64::MAX;
        Some(Millis(if passed { due.saturating_add(1) } else { due }))
    }

    /// Moves up to `limit` entries that are due at `now` or before to `into`, in the order of due time and
    /// sequence. Their states are not checked: some may have been cancelled in the meantime. No entry above
    /// [`Self::position`] comes, so load first.
    pub(in crate::schedule_log) fn take_due(&mut self, now: Millis, limit: usize, into: &mut Vec<Entry>) {
        let now = if is_on(Planted::OneTickEarly) { now.next() } else { now };
        let mut room = limit;
        while room > 0 {
            let slice = self.first_in_slices().map(Entry::key).filter(|key| key.due <= now);
            let wheel = self.wheel.first_until(now);
            let before = into.len();
            match (slice, wheel) {
                (None, None) => break,
                (Some(_), None) => self.take_from_slice(DueKey::end_of(now), room, into),
                (None, Some(_)) => self.wheel.take_until(now, room, into),
                (Some(slice), Some(wheel)) if slice < wheel => self.take_from_slice(wheel, room, into),
                (Some(_), Some(_)) => into.extend(self.wheel.take_first_until(now)),
            }
            room = room.saturating_sub(into.len().saturating_sub(before));
        }
    }

    /// The time of the next look: never later than the due time of the first entry in hand.
    pub(in crate::schedule_log) fn next_due(&self) -> Option<Millis> {
        let slice = self.first_in_slices().map(Entry::due);
        slice.into_iter().chain(self.wheel.next_due()).min()
    }

    /// Gives the latest entries in hand back to the schedule, so that at most `keep` (but at least two)
    /// remain, and moves the position back to the kept ones. Entries that were handed over and are still
    /// pending may come again after this. The second fact that makes such an entry ready finds it dispatched,
    /// and changes nothing. Returns true if entries were given back.
    pub(in crate::schedule_log) fn shed(&mut self, keep: usize) -> bool {
        let keep = keep.max(2);
        if self.len() <= keep {
            return false;
        }
        let half = keep / 2;
        let in_wheel = self.wheel.len().min(half.max(keep.saturating_sub(self.in_slices)));
        let in_slices = keep.saturating_sub(in_wheel);
        if let Some(kept) = self.wheel.shed(in_wheel) {
            self.position = self.position.min(kept);
        }
        if self.in_slices > in_slices
            && let Some(first_removed) = self.key_in_slices(in_slices)
        {
            self.position = self.position.min(before(first_removed));
        }
        self.remove_above_position();
        true
    }

    /// Gives back the entries above `key`, and moves a position above `key` back to it.
    pub(super) fn give_back_above(&mut self, key: DueKey) {
        if self.position <= key {
            return;
        }
        self.position = key;
        self.remove_above_position();
    }

    fn remove_above_position(&mut self) {
        self.wheel.remove_above(self.position);
        self.cut_slices_above(self.position);
        self.cursors.clear();
    }

    /// Takes all entries in hand, in order. The position stays.
    pub(super) fn take_in_hand(&mut self) -> Vec<Entry> {
        let mut all = self.wheel.take_all();
        let has_both = !all.is_empty() && self.in_slices > 0;
        all.reserve_exact(self.in_slices);
        for slice in self.slices.drain(..) {
            all.extend_from_slice(slice.left());
        }
        self.in_slices = 0;
        if has_both {
            sort_by_key(&mut all);
        }
        all
    }

    /// Takes the entries in hand of each slice.
    fn take_slices(&mut self) -> Vec<Vec<Entry>> {
        self.in_slices = 0;
        let left = |mut slice: Slice| slice.entries.split_off(slice.taken.min(slice.entries.len()));
        self.slices.drain(..).map(left).collect()
    }

    /// Adds entries after those in hand. They are in order, and none is above the position.
    fn put_in_hand(&mut self, entries: Vec<Entry>) {
        self.in_slices = self.in_slices.saturating_add(entries.len());
        self.slices.extend((!entries.is_empty()).then_some(Slice { entries, taken: 0 }));
    }

    /// True if at least `flooded` entries are in hand, and a quarter of them came since this last returned
    /// true.
    pub(super) fn is_to_judge(&mut self, flooded: usize) -> bool {
        let in_hand = self.len();
        let is_to_judge = in_hand >= flooded && self.came.saturating_mul(4) >= in_hand;
        if is_to_judge {
            self.came = 0;
        }
        is_to_judge
    }

    /// The shares of subjects in the entries in hand that are due at `until` or before, and about how many
    /// these entries are.
    pub(in crate::schedule_log) fn shares(&self, until: Millis) -> (Shares, usize) {
        let stride = self.len().div_ceil(SAMPLES).max(1);
        let in_slices = self.slices.iter().flat_map(Slice::left);
        let sample = sampled(in_slices.chain(self.wheel.iter()), stride);
        let shares = Shares::of(sample.filter(|entry| entry.due() <= until));
        let count = shares.samples().saturating_mul(stride);
        (shares, count)
    }

    /// Splits off a lane for some of its subjects, with their entries in hand. The other subjects stay.
    pub(in crate::schedule_log) fn part(&mut self, subjects: Arc<[SubjectNumber]>, now: Millis) -> Self {
        let mut parted = Self::new(Of::Only(subjects), self.position, now);
        let arrived = !self.wheel.is_empty();
        let all = if arrived { vec![self.take_in_hand()] } else { self.take_slices() };
        for entries in all {
            let theirs = entries.iter().filter(|entry| parted.of.has(entry.subject())).count();
            let (mut taken, mut left) = (Vec::with_capacity(theirs), Vec::with_capacity(entries.len() - theirs));
            for entry in entries {
                (if parted.of.has(entry.subject()) { &mut taken } else { &mut left }).push(entry);
            }
            parted.put_in_hand(taken);
            self.put_in_hand(left);
        }
        self.of = self.of.without(&parted.of);
        parted
    }

    /// Takes over another lane, whose position may be before or after this one's. Entries above the lower
    /// position come with the next slices. Those that were handed over and are still pending come
    /// again.
    pub(in crate::schedule_log) fn join(&mut self, mut other: Self) {
        self.give_back_above(other.position);
        let mut in_hand = self.take_in_hand();
        in_hand.extend(other.take_in_hand().into_iter().filter(|entry| entry.key() <= self.position));
        sort_by_key(&mut in_hand);
        self.put_in_hand(in_hand);
        self.of = self.of.with(&other.of);
    }

    /// The position from which a new feed finds every entry that this one has not handed over, and those it
    /// has handed over from `taken` on: the least key that was taken and is not applied yet.
    pub(in crate::schedule_log) fn resume_from(&self, taken: Option<DueKey>) -> DueKey {
        let first = self.first_in_slices().map(Entry::key);
        let least = first.into_iter().chain(self.wheel.lowest()).chain(taken).min();
        least.map_or(self.position, |least| self.position.min(before(least)))
    }

    /// Bytes of memory.
    pub(in crate::schedule_log) fn memory_bytes(&self) -> usize {
        let slices: usize = self.slices.iter().map(|slice| slice.entries.capacity()).sum();
        let slices = slices.saturating_mul(size_of::<Entry>());
        slices.saturating_add(self.wheel.memory_bytes()).saturating_add(self.cursors.memory_bytes())
    }

    /// The number of entries that a slice may have. `None` if a slice is not worth loading.
    fn room(&self, entries_max: usize) -> Option<usize> {
        let room = entries_max.max(1).saturating_sub(self.len());
        // A slice of a few entries costs nearly as much as a full one.
        (room > 0 && (room >= entries_max / 4 || self.is_empty())).then_some(room.min(SLICE_MAX))
    }

    fn first_in_slices(&self) -> Option<&Entry> {
        self.slices.front()?.left().first()
    }

    /// Hands over up to `room` entries of the first slice, up to `last`.
    fn take_from_slice(&mut self, last: DueKey, room: usize, into: &mut Vec<Entry>) {
        let Some(slice) = self.slices.front_mut() else { return };
        let left = slice.left();
        let left = left.get(..room).unwrap_or(left);
        let part = left.get(..left.partition_point(|entry| entry.key() <= last)).unwrap_or_default();
        into.extend_from_slice(part);
        let count = part.len();
        slice.taken = slice.taken.saturating_add(count);
        self.in_slices = self.in_slices.saturating_sub(count);
        if slice.left().is_empty() {
            self.slices.pop_front();
        }
    }

    /// The key of the entry at a place, counted over all slices.
    fn key_in_slices(&self, place: usize) -> Option<DueKey> {
        let mut place = place;
        for slice in &self.slices {
            match slice.left().get(place) {
                Some(entry) => return Some(entry.key()),
                None => place = place.saturating_sub(slice.left().len()),
            }
        }
        None
    }

    fn cut_slices_above(&mut self, key: DueKey) {
        let above = after(key);
        while let Some(slice) = self.slices.back_mut() {
            let kept = slice.left().partition_point(|entry| entry.key() < above);
            if kept > 0 {
                slice.entries.truncate(slice.taken.saturating_add(kept));
                slice.entries.shrink_to_fit();
                break;
            }
            self.slices.pop_back();
        }
        self.in_slices = self.slices.iter().map(|slice| slice.left().len()).sum();
    }
}
