//! Leases of consumers, and groups that end with them: a broadcast consumer has a group of its own, and what it did not
//! acknowledge ends with it.

use super::{Group, GroupName, Ledger, Mark, Place};

impl Ledger {
    /// Adds the groups of broadcast consumers, which have a lease of this length. The store may know of a consumer a
    /// little less than its server, so a consumer certainly lives for half a lease only.
    pub(crate) fn with_broadcasts(mut self, groups: Vec<GroupName>, lease_ms: u64) -> Self {
        self.broadcast_lives_ms = lease_ms / 2;
        self.groups.extend(groups.into_iter().map(|name| (name, Group { is_broadcast: true, ..Group::default() })));
        self
    }

    /// The server answered a consumer's request, and so has heard of it since.
    pub(crate) fn heard(&mut self, place: &Place, mark: Mark) {
        self.judge_silence(place);
        let (time, lease_ms, life) = (self.time, self.lease_of(&place.of), self.life);
        let taken = self.taken.entry(place.clone()).or_default();
        let was_silent = taken.sign.is_none_or(|sign| time.saturating_sub(sign) >= lease_ms);
        // A lease begins with the server.
        if was_silent || mark.life != life {
            taken.doubt += u64::from(was_silent);
        }
        taken.sign = Some(taken.sign.map_or(mark.at, |sign| sign.max(mark.at)));
    }

    /// The server's clock may jump ahead: any lease may end.
    pub(crate) fn clock_released(&mut self) {
        for taken in self.taken.values_mut() {
            (taken.sign, taken.is_out_of_sight) = (None, true);
        }
    }

    /// How long a consumer of this group may be silent, and certainly lives.
    pub(super) fn lease_of(&self, name: &GroupName) -> u64 {
        let is_broadcast = self.groups.get(name).is_some_and(|group| group.is_broadcast);
        if is_broadcast { self.broadcast_lives_ms } else { self.lease_ms }
    }

    /// A consumer is heard. If its broadcast consumer may have been silent for a lease, the group may have ended: no
    /// message that was sent before is owed to it, nor are its retries.
    pub(super) fn judge_silence(&mut self, heard: &Place) {
        let (lives_ms, time) = (self.broadcast_lives_ms, self.time);
        let Some(group) = self.groups.get_mut(&heard.of).filter(|group| group.is_broadcast) else { return };
        let may_have_ended = self.taken.iter().any(|(place, taken)| {
            // A pull that was lost may have begun the consumer, at a time that is not known.
            let may_have_begun = taken.lost_in.is_some();
            let is_silent = taken.sign.map_or(may_have_begun, |sign| time.saturating_sub(sign) >= lives_ms);
            place.of == heard.of && place.subject == heard.of.0 && (taken.is_out_of_sight || is_silent)
        });
        if may_have_ended {
            for number in self.sent.keys() {
                let owed = group.owed.entry(*number).or_default();
                (owed.forgiven, owed.nacks_told) = (true, 0);
            }
            for (_, taken) in self.taken.iter_mut().filter(|(place, _)| place.of == heard.of) {
                taken.doubt += 1;
            }
        }
        if let Some(taken) = self.taken.get_mut(heard) {
            taken.is_out_of_sight = false;
        }
    }
}
