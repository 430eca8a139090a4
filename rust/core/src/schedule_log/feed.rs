//! The feed: hands over what is pending in the order of due time and sequence, and keeps only
//! what is near in memory.
//!
//! `position` divides the schedule. What is pending at or below it was handed over, or is in hand:
//! in a slice that was loaded or, where it arrived later, in the wheel. What is above it is left
//! to the next slice. An entry can never fall between, because a slice moves the position to its
//! last entry, an arrival is judged by the position, and whoever gives entries back moves the
//! position back with them.

use std::collections::VecDeque;

use super::cursors::{Cursors, after, before};
use super::entry::{DUE_MAX, Entry};
use super::gather::Gather;
use super::schedule::Schedule;
use crate::planted::{Planted, is_on};
use crate::run::DamagedBlock;
use crate::units::{DueKey, Millis};
use crate::wheel::Wheel;

/// How far ahead the next pending entry is looked for first.
const NEAR_MS: u64 = 4_000;

/// A sorted piece of the schedule.
#[derive(Debug)]
struct Slice {
    entries: Vec<Entry>,
    /// How many were handed over.
    taken: usize,
}

impl Slice {
    fn left(&self) -> &[Entry] {
        self.entries.get(self.taken..).unwrap_or_default()
    }
}

/// What [`Feed::load`] came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loaded {
    /// All that is due within the window is in hand.
    UpToDate,
    /// There is more within the window, and room for it: load again.
    More,
    /// There is more within the window, and no room until something is taken.
    Full,
}

/// The feed of one schedule.
#[derive(Debug)]
pub struct Feed {
    position: DueKey,
    /// Slices in order; all of a later one lies above all of an earlier one.
    slices: VecDeque<Slice>,
    in_slices: usize,
    wheel: Wheel,
    cursors: Cursors,
}

impl Feed {
    /// A feed that begins above `position`; see [`Self::resume_from`].
    pub fn new(position: DueKey, now: Millis) -> Self {
        Self { position, slices: VecDeque::new(), in_slices: 0, wheel: Wheel::new(now), cursors: Cursors::default() }
    }

    /// What is pending at or below this is in hand or was handed over.
    pub fn position(&self) -> DueKey {
        self.position
    }

    /// How many entries are in hand.
    pub fn len(&self) -> usize {
        self.in_slices.saturating_add(self.wheel.len())
    }

    /// True where nothing is in hand.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An entry was inserted into the schedule: if the feed has passed its key it is taken in
    /// hand, otherwise it comes with its slice.
    #[inline]
    pub fn arrive(&mut self, entry: Entry) {
        if entry.key() <= self.position && !is_on(Planted::FeedSkipsArrival) && !self.races(&entry) {
            self.wheel.insert(entry);
        }
    }

    /// The planted fault: it falls into the slice that was loaded last.
    fn races(&self, entry: &Entry) -> bool {
        let first = || self.slices.back().and_then(|slice| slice.left().first()).map(Entry::key);
        is_on(Planted::CursorRace) && first().is_some_and(|first| first <= entry.key())
    }

    /// Loads the next slice: what is due until `window_ms` after `now`, as far as `entries_max`
    /// in hand allow, down to a part of one millisecond. Does nothing while more than half of the
    /// window is in hand.
    ///
    /// # Errors
    /// The block of a run that cannot be read. Then nothing has changed: the owner finds its
    /// entries in the log or gives them up, tells [`Schedule::patch`], and loads again.
    pub fn load(
        &mut self,
        schedule: &mut Schedule,
        now: Millis,
        window_ms: u64,
        entries_max: usize,
    ) -> Result<Loaded, Box<DamagedBlock>> {
        if self.position >= DueKey::end_of(now.plus(window_ms / 2)) {
            return Ok(Loaded::UpToDate);
        }
        let Some(room) = self.room(entries_max) else { return Ok(Loaded::Full) };
        let end = DueKey::end_of(now.plus(window_ms));
        let mut gather = Gather::new(self.position, end, room);
        let moves = schedule.gather(&mut gather, &mut self.cursors)?;
        let gathered = gather.finish();
        self.cursors.accept(moves, gathered.cut);
        if !gathered.cut {
            // Behind one that was cut the next one comes at once, and reads on where this one ended.
            schedule.ask_ahead(self.position, gathered.to, &mut self.cursors);
        }
        self.in_slices = self.in_slices.saturating_add(gathered.entries.len());
        if !gathered.entries.is_empty() {
            self.slices.push_back(Slice { entries: gathered.entries, taken: 0 });
        }
        self.position = if is_on(Planted::FeedPassesUnhanded) { end } else { gathered.to };
        Ok(if gathered.cut { Loaded::More } else { Loaded::UpToDate })
    }

    /// When [`Self::load`] has something to do again; `None` until something was taken, where
    /// there is no room.
    pub fn next_load(&self, window_ms: u64, entries_max: usize) -> Option<Millis> {
        self.room(entries_max)?;
        let due = self.position.due.0.saturating_sub(window_ms / 2);
        let passed = self.position.sequence.0 == u64::MAX;
        Some(Millis(if passed { due.saturating_add(1) } else { due }))
    }

    /// Moves up to `limit` entries that are due at `now` or before to `into`, in the order of due
    /// time and sequence. They are judged by nobody: some may have been cancelled meanwhile.
    /// Nothing above [`Self::position`] comes, so load first.
    pub fn take_due(&mut self, now: Millis, limit: usize, into: &mut Vec<Entry>) {
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

    /// When to look again: never later than the first entry in hand is due.
    pub fn next_due(&self) -> Option<Millis> {
        let slice = self.first_in_slices().map(Entry::due);
        slice.into_iter().chain(self.wheel.next_due()).min()
    }

    /// When the first entry is due that this feed has not handed over, or a little before; `None`
    /// where none is pending. Looks through the whole schedule where nothing is in hand.
    ///
    /// # Errors
    /// The block of a run that cannot be read.
    pub fn next_pending(&self, schedule: &mut Schedule) -> Result<Option<Millis>, Box<DamagedBlock>> {
        if let Some(due) = self.next_due() {
            return Ok(Some(due));
        }
        // From near to far, since the schedule is taken apart where it is looked into.
        let mut ahead_ms = NEAR_MS;
        loop {
            let until = self.position.due.plus(ahead_ms).min(DUE_MAX);
            let mut gather = Gather::new(self.position, DueKey::end_of(until), 1);
            schedule.gather(&mut gather, &mut Cursors::default())?;
            let found = gather.finish().entries.first().map(Entry::due);
            if found.is_some() || until == DUE_MAX {
                return Ok(found);
            }
            ahead_ms = ahead_ms.saturating_mul(16);
        }
    }

    /// Gives the latest entries in hand back to the schedule, so that at most `keep` (and not
    /// less than two) remain, and moves the position back to what is kept. Entries that were
    /// handed over and are still pending may come again after this; the fact that makes them ready
    /// for the second time finds them dispatched, and changes nothing. Returns whether anything
    /// was given back.
    pub fn shed(&mut self, keep: usize) -> bool {
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
        self.wheel.remove_above(self.position);
        self.cut_slices_above(self.position);
        self.cursors.clear();
        true
    }

    /// From where a new feed finds all that this one has not handed over, and what it has handed
    /// over from `taken` on: the least key that was taken and is not applied yet.
    pub fn resume_from(&self, taken: Option<DueKey>) -> DueKey {
        let first = self.first_in_slices().map(Entry::key);
        let least = first.into_iter().chain(self.wheel.lowest()).chain(taken).min();
        least.map_or(self.position, |least| self.position.min(before(least)))
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let slices: usize = self.slices.iter().map(|slice| slice.entries.capacity()).sum();
        let slices = slices.saturating_mul(size_of::<Entry>());
        slices.saturating_add(self.wheel.memory_bytes()).saturating_add(self.cursors.memory_bytes())
    }

    /// How many entries a slice may have; none where it is not worth loading one.
    fn room(&self, entries_max: usize) -> Option<usize> {
        let room = entries_max.max(1).saturating_sub(self.len());
        // A slice of a few entries costs nearly as much as a full one.
        (room > 0 && (room >= entries_max / 4 || self.is_empty())).then_some(room)
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

    /// The key of the entry at a place among all slices.
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
