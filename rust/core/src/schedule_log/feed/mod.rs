//! The feed: hands over the pending entries, those of each subject in the order of due time and sequence, and
//! keeps in memory only those that are due soon. Entries that are loaded and not handed over yet are *in
//! hand*.
//!
//! The feed usually has one [`Lane`]. A subject with very many entries due at about the same time would delay
//! all others: its entries would fill the window, and later entries of other subjects would load only after
//! them. Such a flood gets its own lane, alone or with other flooding subjects, and the other subjects keep
//! the lane `rest`, which reads past the flood. Both lanes begin at the same position and split the entries
//! in hand. From then on they take turns. Both can split again: `rest` if there is another flood, and a lane
//! of several subjects if one of them has far more than the others and would delay them.
//!
//! A flood's lane is never ahead of `rest`. When it has reached the position of `rest` and has few entries in
//! hand, it joins `rest`. If all lanes are in use, a new flood joins an existing one.
//!
//! The subject alone decides the lane of an entry. The subject of a moved entry is certain only after its
//! origin was looked up. Until then the entry is in no lane.

pub(super) mod cursors;
pub(super) mod due_index;
pub(super) mod gather;
pub(super) mod lane;
#[cfg(test)]
pub(super) mod lane_tests;
pub(super) mod recent;
pub(super) mod reserve;
pub(super) mod shares;

use super::entry::{DUE_MAX, Entry};
use super::schedule::Schedule;
use crate::planted::{Planted, is_on};
use crate::run::DamagedBlock;
use crate::units::{DueKey, Millis, SubjectNumber};
use cursors::{Cursors, before};
use gather::{Gather, Of};
use lane::Lane;

pub use lane::Loaded;

/// The distance at which the search for the next pending entry begins.
const NEAR_MS: u64 = 4_000;
/// Lanes at the same time, `rest` included.
const LANES_MAX: usize = 4;
/// A lane is checked for floods when it has this part of the allowed entries in hand: 1/32. If four million
/// are allowed, this many take more than about 30 ms to hand over.
const FLOODED_SHARE: usize = 32;
/// The lane must also have this many entries in hand.
const FLOODED_MIN: usize = 4;
/// A flood's lane ends when it has less than this part of the allowed entries in hand.
const EBB_SHARE: usize = 256;
/// Entries that are due for this long and not taken delay others.
const LATE_MS: u64 = 20;
/// A subject with at least half the share by which others flood belongs to that flood. A lane of several
/// subjects splits if some have less than a quarter.
const NEAR_SHARES: usize = 2;
const KEPT_SHARES: usize = 4;

/// The number of entries that may be taken.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// From all subjects.
    pub all: usize,
    /// From the subjects that flood.
    pub floods: usize,
}

/// The feed of one schedule.
#[derive(Debug)]
pub struct Feed {
    rest: Lane,
    /// The lanes of floods. None is ahead of `rest`.
    floods: Vec<Lane>,
    /// Entries that arrived below the position and must be resolved before a lane takes them.
    unresolved: Vec<Entry>,
}

impl Feed {
    /// A feed that begins above `position`; see [`Self::resume_from`].
    pub fn new(position: DueKey, now: Millis) -> Self {
        Self { rest: Lane::new(Of::All, position, now), floods: Vec::new(), unresolved: Vec::new() }
    }

    /// No entry above this position is in hand or was handed over.
    pub fn position(&self) -> DueKey {
        self.rest.position()
    }

    /// The number of entries in hand.
    pub fn len(&self) -> usize {
        self.lanes().map(Lane::len).fold(self.unresolved.len(), usize::saturating_add)
    }

    /// True if no entry is in hand.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of lanes that take turns.
    pub fn lane_count(&self) -> usize {
        self.floods.len().saturating_add(1)
    }

    /// Notes that an entry was inserted into the schedule. If the feed has passed its key, the entry is in
    /// hand from now on. Otherwise it comes with its slice.
    #[inline]
    pub fn arrive(&mut self, entry: Entry) {
        if entry.key() > self.rest.position() {
            return;
        }
        if entry.origin().is_some() {
            self.unresolved.push(entry);
        } else {
            self.lane_of(entry.subject()).arrive(entry);
        }
    }

    /// Resolves the moved entries that arrived below the position, and gives them to their lanes.
    /// [`Self::load`] does this first.
    ///
    /// # Errors
    /// Like [`Self::load`].
    pub fn admit(&mut self, schedule: &mut Schedule) -> Result<(), Box<DamagedBlock>> {
        schedule.resolve_all(&mut self.unresolved)?;
        for entry in std::mem::take(&mut self.unresolved) {
            self.lane_of(entry.subject()).arrive(entry);
        }
        Ok(())
    }

    /// Loads the next slice of each lane: entries that are due until `window_ms` after `now`, with at most
    /// `entries_max` in hand, down to a part of one millisecond. Does nothing while more than half of the
    /// window is in hand.
    ///
    /// # Errors
    /// The block of a run that cannot be read. The lane is unchanged then. The owner finds the block's
    /// entries in the log or abandons them, calls [`Schedule::patch`], and loads again.
    pub fn load(
        &mut self,
        schedule: &mut Schedule,
        now: Millis,
        window_ms: u64,
        entries_max: usize,
    ) -> Result<Loaded, Box<DamagedBlock>> {
        self.admit(schedule)?;
        let share = self.share(entries_max);
        let mut loaded = self.rest.load(schedule, now, window_ms, share, DueKey::end_of(DUE_MAX))?;
        let last = self.rest.position();
        for flood in &mut self.floods {
            loaded = loaded.max(flood.load(schedule, now, window_ms, share, last)?);
        }
        self.end_floods(entries_max);
        if self.part(now, entries_max) {
            loaded = loaded.max(Loaded::More);
        }
        Ok(loaded)
    }

    /// The time at which [`Self::load`] can load more. `None` if there is no room before entries are taken.
    pub fn next_load(&self, window_ms: u64, entries_max: usize) -> Option<Millis> {
        let share = self.share(entries_max);
        let behind = self.floods.iter().filter(|flood| flood.position() < self.rest.position());
        behind.chain([&self.rest]).filter_map(|lane| lane.next_load(window_ms, share)).min()
    }

    /// Moves entries that are due at `now` or before to `into`, as many as `room` allows, those of each
    /// subject in the order of due time and sequence. Their states are not checked: some may have been
    /// cancelled in the meantime. No entry above [`Self::position`] comes, so load first.
    ///
    /// The first half of the room is for `rest`. The floods share the remaining room, and what they leave is
    /// for `rest` again.
    pub fn take_due(&mut self, now: Millis, room: Room, into: &mut Vec<Entry>) {
        let begin = into.len();
        let left = |into: &Vec<Entry>| room.all.saturating_sub(into.len().saturating_sub(begin));
        if self.floods.is_empty() || is_on(Planted::FloodGoesFirst) {
            self.floods.iter_mut().for_each(|flood| flood.take_due(now, left(into), into));
            return self.rest.take_due(now, left(into), into);
        }
        self.rest.take_due(now, room.all.div_ceil(2), into);
        let mut of_floods = room.floods.min(left(into));
        for (place, flood) in self.floods.iter_mut().enumerate() {
            let before = into.len();
            flood.take_due(now, of_floods / (LANES_MAX.saturating_sub(place)).max(1), into);
            of_floods = of_floods.saturating_sub(into.len().saturating_sub(before));
        }
        for flood in &mut self.floods {
            let before = into.len();
            flood.take_due(now, of_floods, into);
            of_floods = of_floods.saturating_sub(into.len().saturating_sub(before));
        }
        self.rest.take_due(now, left(into), into);
        // Another flood is the first next time.
        self.floods.rotate_left(1);
    }

    /// The time of the next look: never later than the due time of the first entry in hand. `room` is the
    /// number of entries that may be taken.
    pub fn next_due(&self, room: Room) -> Option<Millis> {
        let floods = self.floods.iter().filter(|_| room.floods > 0);
        let unresolved = self.unresolved.iter().map(Entry::due);
        floods.chain([&self.rest]).filter_map(Lane::next_due).chain(unresolved).min()
    }

    /// The due time of the first entry that this feed has not handed over, or a little earlier. `None` if no
    /// entry is pending. Searches the whole schedule if no entry is in hand.
    ///
    /// # Errors
    /// The block of a run that cannot be read.
    pub fn next_pending(&self, schedule: &mut Schedule) -> Result<Option<Millis>, Box<DamagedBlock>> {
        if let Some(due) = self.next_due(Room { all: 1, floods: 1 }) {
            return Ok(Some(due));
        }
        let from = self.resume_from(None);
        // The search goes from near to far, since it splits the buckets that it reads.
        let mut ahead_ms = NEAR_MS;
        loop {
            let until = from.due.plus(ahead_ms).min(DUE_MAX);
            let mut gather = Gather::new(from, DueKey::end_of(until), 1);
            schedule.gather(&mut gather, &mut Cursors::default())?;
            let found = gather.finish().entries.first().map(Entry::due);
            if found.is_some() || until == DUE_MAX {
                return Ok(found);
            }
            ahead_ms = ahead_ms.saturating_mul(16);
        }
    }

    /// Gives the latest entries in hand back to the schedule, so that at most `keep` (but at least two for
    /// each lane) remain, and moves the positions back to the kept ones. Entries that were handed over and
    /// are still pending may come again after this. The second fact that makes such an entry ready finds it
    /// dispatched, and changes nothing. Returns true if entries were given back.
    pub fn shed(&mut self, keep: usize) -> bool {
        if self.len() <= keep.max(2) {
            return false;
        }
        let share = self.share(keep);
        self.give_back_unresolved();
        self.rest.shed(share);
        for flood in &mut self.floods {
            flood.shed(share);
            flood.give_back_above(self.rest.position());
        }
        true
    }

    /// Gives back arrived entries that are not resolved yet. They come with their slices. Call this before a
    /// freeze: an origin is kept only while the schedule has the entry in memory.
    pub fn give_back_unresolved(&mut self) {
        if let Some(first) = self.unresolved.drain(..).map(|entry| entry.key()).min() {
            self.rest.give_back_above(before(first));
            self.floods.iter_mut().for_each(|flood| flood.give_back_above(before(first)));
        }
    }

    /// Notes that entries from this key on became pending without an `arrive` for each. The feed gives back
    /// its entries from there on, and all of them come with the next slices. As with [`Self::shed`], entries
    /// that were handed over and are still pending may come again.
    pub fn go_back_before(&mut self, first: DueKey) {
        self.rest.give_back_above(before(first));
        self.floods.iter_mut().for_each(|flood| flood.give_back_above(before(first)));
    }

    /// The position from which a new feed finds every entry that this one has not handed over, and those it
    /// has handed over from `taken` on: the least key that was taken and is not applied yet.
    pub fn resume_from(&self, taken: Option<DueKey>) -> DueKey {
        let unresolved = self.unresolved.iter().map(|entry| before(entry.key()));
        let of_lanes = self.lanes().map(|lane| lane.resume_from(taken));
        of_lanes.chain(unresolved).min().unwrap_or_default()
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let unresolved = self.unresolved.capacity().saturating_mul(size_of::<Entry>());
        self.lanes().map(Lane::memory_bytes).fold(unresolved, usize::saturating_add)
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.floods.iter().chain([&self.rest])
    }

    #[inline]
    fn lane_of(&mut self, subject: SubjectNumber) -> &mut Lane {
        self.floods.iter_mut().find(|flood| flood.of().has(subject)).unwrap_or(&mut self.rest)
    }

    /// The number of entries that each lane may have in hand.
    fn share(&self, entries_max: usize) -> usize {
        entries_max / self.lane_count()
    }

    /// Gives flooding subjects a lane of their own, and splits a lane of several subjects if some have far
    /// fewer entries than the others. Returns true if a lane was split.
    fn part(&mut self, now: Millis, entries_max: usize) -> bool {
        let flooded = (entries_max / FLOODED_SHARE).max(FLOODED_MIN);
        let has_place = self.lane_count() < LANES_MAX;
        // If all lanes are in use, a flood must join another. Only a flood that already delays others does
        // so.
        let is_late = |due: Millis| now.since(due) >= LATE_MS;
        let may_part = has_place || self.rest.next_due().is_some_and(is_late);
        if may_part && self.rest.is_to_judge(flooded) {
            let (shares, count) = self.rest.shares(if has_place { DUE_MAX } else { now });
            let subjects = if count < flooded && !has_place { Vec::new() } else { shares.flooding(NEAR_SHARES) };
            if !subjects.is_empty() {
                let flood = self.rest.part(subjects.into(), now);
                self.give_place(flood);
                return true;
            }
        }
        if !has_place || is_on(Planted::LaneNeverParts) {
            return false;
        }
        let parted = self.floods.iter_mut().find_map(|lane| {
            let subjects = lane.of().named().len();
            let is_to_judge = subjects > 1 && lane.is_to_judge(flooded);
            let heavy = if is_to_judge { lane.shares(DUE_MAX).0.flooding(KEPT_SHARES) } else { Vec::new() };
            (!heavy.is_empty() && heavy.len() < subjects).then(|| lane.part(heavy.into(), now))
        });
        let has_parted = parted.is_some();
        self.floods.extend(parted);
        has_parted
    }

    /// Adds the lane of a flood, or joins it with the fullest lane.
    fn give_place(&mut self, flood: Lane) {
        let is_full = self.lane_count() >= LANES_MAX;
        match self.floods.iter_mut().max_by_key(|lane| lane.len()).filter(|_| is_full) {
            Some(fullest) => fullest.join(flood),
            None => self.floods.push(flood),
        }
    }

    /// Joins `rest` with the remaining entries of floods that have reached its position.
    fn end_floods(&mut self, entries_max: usize) {
        let position = self.rest.position();
        let ebb = (entries_max / EBB_SHARE).max(1);
        let has_ended = |flood: &mut Lane| flood.position() >= position && flood.len() <= ebb;
        for ended in self.floods.extract_if(.., has_ended) {
            self.rest.join(ended);
        }
    }
}
