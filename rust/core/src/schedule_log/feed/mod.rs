//! The feed: hands over what is pending, of each subject in the order of due time and sequence, and keeps only
//! what is near in memory.
//!
//! Most of the time it is one [`Lane`]. A subject with much that is due at about the same time would make all
//! others wait: its entries would fill the window, and what is due behind them would be loaded only when they
//! are gone. Such a flood gets a lane of its own, or several subjects that make one together, and the others theirs,
//! `rest`, which reads past the flood. Both begin at the same position, with what was in hand shared out. From then
//! on they take turns. Both may part again: `rest` where there is another flood, and a lane with several subjects
//! where one of them has much more than the others, which would wait for it.
//!
//! A lane of a flood is never ahead of `rest`. So when it has come as far and little of it is in hand, it is at
//! the position of `rest`, and what it has joins that. Where all lanes are in use one flood joins another one.
//!
//! Which lane has an entry follows from its subject alone. That of a moved entry is certain only when its origin
//! was looked up; until then it is in nobody's lane.

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

/// How far ahead the next pending entry is looked for first.
const NEAR_MS: u64 = 4_000;
/// Lanes at the same time, `rest` among them.
const LANES_MAX: usize = 4;
/// It is looked for floods where a 32nd of what may be in hand is: with four million of these, what takes longer than
/// some 30 ms to hand over.
const FLOODED_SHARE: usize = 32;
/// And where so many are in hand at least.
const FLOODED_MIN: usize = 4;
/// A lane with a flood ends when less than this share of what may be in hand is left of it.
const EBB_SHARE: usize = 256;
/// What is due so long and not taken makes others wait.
const LATE_MS: u64 = 20;
/// Who has down to half the share by which others flood goes with them; a lane of several parts where some have less
/// than a quarter.
const NEAR_SHARES: usize = 2;
const KEPT_SHARES: usize = 4;

/// How many entries may be taken.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Of all subjects.
    pub all: usize,
    /// Of those that make a flood.
    pub floods: usize,
}

/// The feed of one schedule.
#[derive(Debug)]
pub struct Feed {
    rest: Lane,
    /// None is ahead of `rest`.
    floods: Vec<Lane>,
    /// What arrived below the position and has to be resolved before a lane has it.
    unresolved: Vec<Entry>,
}

impl Feed {
    /// A feed that begins above `position`; see [`Self::resume_from`].
    pub fn new(position: DueKey, now: Millis) -> Self {
        Self { rest: Lane::new(Of::All, position, now), floods: Vec::new(), unresolved: Vec::new() }
    }

    /// Nothing above this is in hand or was handed over.
    pub fn position(&self) -> DueKey {
        self.rest.position()
    }

    /// How many entries are in hand.
    pub fn len(&self) -> usize {
        self.lanes().map(Lane::len).fold(self.unresolved.len(), usize::saturating_add)
    }

    /// True where nothing is in hand.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many subjects or groups of subjects take turns.
    pub fn lane_count(&self) -> usize {
        self.floods.len().saturating_add(1)
    }

    /// An entry was inserted into the schedule: if the feed has passed its key it is taken in
    /// hand, otherwise it comes with its slice.
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

    /// Looks up where the payloads of moved entries are that arrived below the position, so that a lane
    /// has them. [`Self::load`] does so first.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn admit(&mut self, schedule: &mut Schedule) -> Result<(), Box<DamagedBlock>> {
        schedule.resolve_all(&mut self.unresolved)?;
        for entry in std::mem::take(&mut self.unresolved) {
            self.lane_of(entry.subject()).arrive(entry);
        }
        Ok(())
    }

    /// Loads the next slice of each lane: what is due until `window_ms` after `now`, as far as `entries_max`
    /// in hand allow, down to a part of one millisecond. Does nothing while more than half of the
    /// window is in hand.
    ///
    /// # Errors
    /// The block of a run that cannot be read. Then nothing of that lane has changed: the owner finds its
    /// entries in the log or gives them up, tells [`Schedule::patch`], and loads again.
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

    /// When [`Self::load`] has something to do again; `None` until something was taken, where
    /// there is no room.
    pub fn next_load(&self, window_ms: u64, entries_max: usize) -> Option<Millis> {
        let share = self.share(entries_max);
        let behind = self.floods.iter().filter(|flood| flood.position() < self.rest.position());
        behind.chain([&self.rest]).filter_map(|lane| lane.next_load(window_ms, share)).min()
    }

    /// Moves entries that are due at `now` or before to `into`, as many as there is room for: of each subject in
    /// the order of due time and sequence. They are judged by nobody: some may have been cancelled meanwhile.
    /// Nothing above [`Self::position`] comes, so load first.
    ///
    /// Half of the room is for `rest` first; the floods share what is left of it, and what is left then is for
    /// `rest` again.
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
        // The next one is the first of them.
        self.floods.rotate_left(1);
    }

    /// When to look again: never later than the first entry in hand is due. `room` is what may be taken.
    pub fn next_due(&self, room: Room) -> Option<Millis> {
        let floods = self.floods.iter().filter(|_| room.floods > 0);
        let unresolved = self.unresolved.iter().map(Entry::due);
        floods.chain([&self.rest]).filter_map(Lane::next_due).chain(unresolved).min()
    }

    /// When the first entry is due that this feed has not handed over, or a little before; `None`
    /// where none is pending. Looks through the whole schedule where nothing is in hand.
    ///
    /// # Errors
    /// The block of a run that cannot be read.
    pub fn next_pending(&self, schedule: &mut Schedule) -> Result<Option<Millis>, Box<DamagedBlock>> {
        if let Some(due) = self.next_due(Room { all: 1, floods: 1 }) {
            return Ok(Some(due));
        }
        let from = self.resume_from(None);
        // From near to far, since the schedule is taken apart where it is looked into.
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

    /// Gives the latest entries in hand back to the schedule, so that at most `keep` (and not
    /// less than two of each lane) remain, and moves the positions back to what is kept. Entries that were
    /// handed over and are still pending may come again after this; the fact that makes them ready
    /// for the second time finds them dispatched, and changes nothing. Returns whether anything
    /// was given back.
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

    /// Gives back what arrived and was not looked up yet; it comes with its slice. None may be left at a freeze:
    /// its origin stays where it is only as long as the schedule has the entry in memory.
    pub fn give_back_unresolved(&mut self) {
        if let Some(first) = self.unresolved.drain(..).map(|entry| entry.key()).min() {
            self.rest.give_back_above(before(first));
            self.floods.iter_mut().for_each(|flood| flood.give_back_above(before(first)));
        }
    }

    /// Something came to be pending from this key on that the feed was not shown one by one: it gives back what it has
    /// there, and all of it comes with the next slices. As where it sheds, what was handed over and is still pending
    /// may come again.
    pub fn go_back_before(&mut self, first: DueKey) {
        self.rest.give_back_above(before(first));
        self.floods.iter_mut().for_each(|flood| flood.give_back_above(before(first)));
    }

    /// From where a new feed finds all that this one has not handed over, and what it has handed
    /// over from `taken` on: the least key that was taken and is not applied yet.
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

    /// How much each lane may have in hand.
    fn share(&self, entries_max: usize) -> usize {
        entries_max / self.lane_count()
    }

    /// Gives subjects that flood a lane of their own; true where there are such. A lane with several subjects parts
    /// again where some have much less than the others.
    fn part(&mut self, now: Millis, entries_max: usize) -> bool {
        let flooded = (entries_max / FLOODED_SHARE).max(FLOODED_MIN);
        let has_place = self.lane_count() < LANES_MAX;
        // With all lanes in use a flood goes with another one: only who makes others wait, and did so already.
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

    /// A flood has a lane of its own, or goes with the fullest.
    fn give_place(&mut self, flood: Lane) {
        let is_full = self.lane_count() >= LANES_MAX;
        match self.floods.iter_mut().max_by_key(|lane| lane.len()).filter(|_| is_full) {
            Some(fullest) => fullest.join(flood),
            None => self.floods.push(flood),
        }
    }

    /// What is left of floods that `rest` has not passed joins it.
    fn end_floods(&mut self, entries_max: usize) {
        let position = self.rest.position();
        let ebb = (entries_max / EBB_SHARE).max(1);
        let has_ended = |flood: &mut Lane| flood.position() >= position && flood.len() <= ebb;
        for ended in self.floods.extract_if(.., has_ended) {
            self.rest.join(ended);
        }
    }
}
