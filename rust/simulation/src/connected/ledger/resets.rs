//! Resets of groups. A client only knows that a reset happens between its request and its answer.

use std::collections::BTreeMap;

use super::{Group, GroupName, Key, Ledger, Reset};

impl Group {
    /// True if the group may have begun again after this step.
    pub(super) fn may_have_begun_since(&self, step: u64) -> bool {
        self.resets.iter().any(|reset| reset.ended.is_none_or(|ended| ended > step))
    }

    /// True if this delivery may have been given back for a reset that failed: the consumers ended for it, another one
    /// began meanwhile, and the reset is tried again. A delivery from before the first try is given back once, with the
    /// reset or instead of it, which is counted with the reset. A later answer to an acknowledgement does not rule this
    /// out: it is also answered if it finds nothing to finish.
    pub(super) fn may_have_given_back(&self, key: &Key) -> bool {
        let was_open = |reset: &Reset| reset.asked <= key.came && reset.ended.is_none_or(|ended| ended > key.asked);
        let was_held = |reset: &Reset| key.told_at.is_none_or(|told| told >= reset.asked);
        self.resets.iter().any(|reset| was_open(reset) && was_held(reset))
    }

    /// All stored messages may come again: because the group begins at the earliest, or because its consumers end first
    /// and others pull before it begins.
    fn count(&mut self, index: usize, asked: &BTreeMap<u64, u64>) {
        let Some(reset) = self.resets.get_mut(index) else { return };
        for (number, asked) in asked {
            let counted = reset.counted.entry(*number).or_default();
            self.owed.entry(*number).or_default().extra += asked.saturating_sub(*counted);
            *counted = *asked;
        }
    }
}

impl Ledger {
    /// A reset is sent. Returns its number.
    pub(crate) fn reset_asked(&mut self, name: &GroupName, from_latest: bool) -> usize {
        let asked = self.asked();
        self.step += 1;
        let group = self.groups.entry(name.clone()).or_default();
        let index = group.resets.len();
        group.resets.push(Reset { asked: self.step, ended: None, from_latest, counted: BTreeMap::new() });
        group.count(index, &asked);
        index
    }

    /// The group has begun again, or the server of the reset has ended.
    fn reset_ended(&mut self, name: &GroupName, index: usize) {
        self.step += 1;
        let asked = self.asked();
        let is_ready = |number: &u64| self.sent.get(number).is_some_and(|sent| sent.due <= self.time);
        let Some(group) = self.groups.get_mut(name) else { return };
        group.count(index, &asked);
        let Some(reset) = group.resets.get_mut(index) else { return };
        reset.ended = Some(self.step);
        if reset.from_latest {
            for number in asked.keys().filter(|number| is_ready(number)) {
                group.owed.entry(*number).or_default().forgiven = true;
            }
        }
    }

    /// The answer says that the group has begun again.
    pub(crate) fn reset_told(&mut self, name: &GroupName, index: usize) {
        self.counts.resets += 1;
        self.reset_ended(name, index);
    }

    /// The answer says that nothing changed.
    pub(crate) fn reset_refused(&mut self, name: &GroupName, index: usize) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let Some(reset) = group.resets.get_mut(index) else { return };
        reset.ended = Some(0);
        for (number, counted) in std::mem::take(&mut reset.counted) {
            let owed = group.owed.entry(number).or_default();
            owed.extra = owed.extra.saturating_sub(counted);
        }
    }

    /// Messages that were sent after a reset may also come again with it.
    pub(super) fn count_open_resets(&mut self, name: &GroupName) {
        let asked = self.asked();
        let Some(group) = self.groups.get_mut(name) else { return };
        for index in 0..group.resets.len() {
            if group.resets.get(index).is_some_and(|reset| reset.ended.is_none()) {
                group.count(index, &asked);
            }
        }
    }

    /// The server has ended: its open resets happen no more.
    pub(super) fn end_resets(&mut self) {
        let open = |group: &Group| -> Vec<usize> {
            (0..).zip(&group.resets).filter(|(_, reset)| reset.ended.is_none()).map(|(index, _)| index).collect()
        };
        let all: Vec<_> = self.groups.iter().map(|(name, group)| (name.clone(), open(group))).collect();
        for (name, indexes) in all {
            for index in indexes {
                self.reset_ended(&name, index);
            }
        }
    }

    /// How often each message was sent.
    fn asked(&self) -> BTreeMap<u64, u64> {
        self.sent.iter().map(|(number, sent)| (*number, sent.asked)).collect()
    }
}
