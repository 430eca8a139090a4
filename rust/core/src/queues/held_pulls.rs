//! Parked pulls: which pulls wait for a message, and which are woken when there is one.
//!
//! A group wakes the pull that has waited longest. A woken pull is no longer held: if it finds no message, it is held again, until the same
//! deadline. If it received as many messages as it may, [`HeldPulls::wake_group`] wakes the next one.
//!
//! A wake takes the same time however many pulls wait: the pulls of a group are a list within one table. Deadlines
//! are a heap, whose stale entries stay until they are the majority.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use crate::units::{GroupNumber, Millis, SubjectNumber};

/// Fewer stale deadlines than this are never removed.
const STALE_MIN: usize = 64;

/// A pull to be held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldPull<T> {
    /// The caller's name for the pull.
    pub owner: T,
    /// The subject that it waits on.
    pub subject: SubjectNumber,
    /// The group that it pulls for.
    pub group: GroupNumber,
    /// The end of its wait.
    pub deadline: Millis,
}

/// Names a held pull; invalid once the pull is no longer held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HeldId {
    place: u32,
    life: u32,
}

#[derive(Debug)]
struct Place<T> {
    life: u32,
    pull: Option<HeldPull<T>>,
    before: Option<u32>,
    after: Option<u32>,
}

#[derive(Debug)]
struct Waiting {
    subject: SubjectNumber,
    first: u32,
    last: u32,
}

/// See the module.
#[derive(Debug)]
pub struct HeldPulls<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    groups: HashMap<GroupNumber, Waiting>,
    subjects: HashMap<SubjectNumber, BTreeSet<GroupNumber>>,
    deadlines: BinaryHeap<Reverse<(Millis, HeldId)>>,
    count: usize,
    count_max: usize,
}

impl<T: Copy> HeldPulls<T> {
    /// An empty set that holds at most `count_max` pulls.
    pub fn new(count_max: u32) -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            groups: HashMap::new(),
            subjects: HashMap::new(),
            deadlines: BinaryHeap::new(),
            count: 0,
            count_max: count_max as usize,
        }
    }

    /// The number of held pulls.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if no pull is held.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Holds a pull; `None` if the maximum is held already.
    pub fn hold(&mut self, pull: HeldPull<T>) -> Option<HeldId> {
        if self.count >= self.count_max {
            return None;
        }
        let place = if let Some(place) = self.free.pop() {
            place
        } else {
            self.places.push(Place { life: 0, pull: None, before: None, after: None });
            // There are no more places than pulls at once, whose number is a u32.
            self.places.len().saturating_sub(1) as u32
        };
        let last = self.groups.get(&pull.group).map(|waiting| waiting.last);
        let slot = self.places.get_mut(place as usize)?;
        (slot.pull, slot.before, slot.after) = (Some(pull), last, None);
        let id = HeldId { place, life: slot.life };
        if let Some(last) = last.and_then(|last| self.places.get_mut(last as usize)) {
            last.after = Some(place);
        }
        let alone = Waiting { subject: pull.subject, first: place, last: place };
        let waiting = self.groups.entry(pull.group).or_insert(alone);
        waiting.last = place;
        if waiting.first == place {
            self.subjects.entry(pull.subject).or_default().insert(pull.group);
        }
        self.deadlines.push(Reverse((pull.deadline, id)));
        self.count = self.count.saturating_add(1);
        Some(id)
    }

    /// Removes a pull, because it was answered or its connection is closed.
    pub fn cancel(&mut self, id: HeldId) -> Option<HeldPull<T>> {
        let pull = self.places.get_mut(id.place as usize).filter(|place| place.life == id.life)?.pull.take();
        let pull = pull?;
        self.unlink(id.place, pull);
        self.forget_stale();
        Some(pull)
    }

    /// Removes a place from its list; its pull was already taken.
    fn unlink(&mut self, place: u32, pull: HeldPull<T>) {
        let Some(slot) = self.places.get_mut(place as usize) else { return };
        let (before, after) = (slot.before.take(), slot.after.take());
        slot.life = slot.life.wrapping_add(1);
        self.free.push(place);
        self.count = self.count.saturating_sub(1);
        if let Some(slot) = before.and_then(|before| self.places.get_mut(before as usize)) {
            slot.after = after;
        }
        if let Some(slot) = after.and_then(|after| self.places.get_mut(after as usize)) {
            slot.before = before;
        }
        match (before, after, self.groups.get_mut(&pull.group)) {
            (None, None, _) => self.end_group(pull.group),
            (None, Some(after), Some(waiting)) => waiting.first = after,
            (Some(before), None, Some(waiting)) => waiting.last = before,
            _ => {}
        }
    }

    /// Removes a group that no pull waits for any more.
    fn end_group(&mut self, group: GroupNumber) {
        let Some(waiting) = self.groups.remove(&group) else { return };
        if let Some(groups) = self.subjects.get_mut(&waiting.subject) {
            groups.remove(&group);
            if groups.is_empty() {
                self.subjects.remove(&waiting.subject);
            }
        }
    }

    /// Takes the first pull of a group.
    fn take_first(&mut self, group: GroupNumber) -> Option<HeldPull<T>> {
        let place = self.groups.get(&group)?.first;
        let pull = self.places.get_mut(place as usize)?.pull.take()?;
        self.unlink(place, pull);
        Some(pull)
    }

    /// Wakes one pull of a group that may have a message. It is appended to `woken`.
    pub fn wake_group(&mut self, group: GroupNumber, woken: &mut Vec<HeldPull<T>>) {
        woken.extend(self.take_first(group));
        self.forget_stale();
    }

    /// Wakes each group of a subject that has a new message.
    pub fn wake_subject(&mut self, subject: SubjectNumber, woken: &mut Vec<HeldPull<T>>) {
        let groups: Vec<GroupNumber> = self.subjects.get(&subject).into_iter().flatten().copied().collect();
        for group in groups {
            self.wake_group(group, woken);
        }
    }

    /// The earliest deadline.
    pub fn next_deadline(&mut self) -> Option<Millis> {
        while let Some(Reverse((deadline, id))) = self.deadlines.peek().copied() {
            if self.is_held(id) {
                return Some(deadline);
            }
            self.deadlines.pop();
        }
        None
    }

    /// Takes out the pulls whose deadline is over, earliest deadline first.
    pub fn expire(&mut self, now: Millis, expired: &mut Vec<HeldPull<T>>) {
        while let Some(deadline) = self.next_deadline() {
            if deadline > now {
                return;
            }
            if let Some(Reverse((_, id))) = self.deadlines.pop() {
                expired.extend(self.cancel(id));
            }
        }
    }

    fn is_held(&self, id: HeldId) -> bool {
        self.places.get(id.place as usize).is_some_and(|place| place.life == id.life && place.pull.is_some())
    }

    /// Rebuilds the heap of deadlines when most of it is stale. This takes constant time per wake on average.
    fn forget_stale(&mut self) {
        if self.deadlines.len() > self.count.saturating_mul(2).saturating_add(STALE_MIN) {
            let mut deadlines = std::mem::take(&mut self.deadlines);
            deadlines.retain(|Reverse((_, id))| self.is_held(*id));
            self.deadlines = deadlines;
        }
    }
}

#[cfg(test)]
#[path = "held_pulls_tests.rs"]
mod tests;
