//! Messages that expire, and the dead letters that some of them become.

use std::collections::BTreeSet;

use delaymq_core::record::expire::{EXPIRED_REASON, Expires, OnExpiry};
use delaymq_core::units::{Millis, Sequence};

use super::{Account, Came, DEAD_REASON, NOBODY, Place, Sent};
use crate::node::SeenDeadLetter;

impl Sent {
    /// As it is, and it expires.
    pub(crate) fn expiring(mut self, expires: Option<(Expires, OnExpiry)>) -> Self {
        self.expires = expires;
        self
    }
}

impl Account {
    /// When this copy of a message expires, as far as its due time is known, and the effect. A move changes neither.
    fn expiry_of(&self, number: u64, sequence: Sequence) -> Option<(Millis, OnExpiry)> {
        let (expires, then) = self.sent.get(&number)?.expires?;
        // Only a message that was answered, and so has a receipt, can have been moved before it came.
        let due = self.dues.get(&sequence).or_else(|| self.came_dues.get(&sequence))?;
        Some((expires.at(*due), then))
    }

    pub(super) fn judge_the_expiry(&mut self, number: u64, came: &Came<'_>) {
        if let Some((at, then)) = self.expiry_of(number, came.sequence).filter(|(at, _)| came.now >= *at) {
            self.blame(format!("it has expired at {at}, to become {then:?}: {came:?}"));
        }
    }

    /// True if the message may have ended in this group because it had expired by this time.
    pub(super) fn may_have_expired(&self, number: u64, sequence: Sequence, place: Option<Place>, now: Millis) -> bool {
        let is_lost = |link| self.lost.contains(&link);
        let was_to_come = match place {
            None | Some(Place::Free | Place::GivenBack(..)) => true,
            Some(Place::Held(link) | Place::Acknowledging(link) | Place::Dead(link)) => is_lost(link),
            Some(Place::Done) => false,
        };
        was_to_come && self.expiry_of(number, sequence).is_some_and(|(at, _)| now >= at)
    }

    /// True if a copy of the message whose publish was not answered, and which never came, may have become a dead letter
    /// by this time.
    fn may_have_expired_unknown(&self, number: u64, now: Millis) -> bool {
        let Some(sent) = self.sent.get(&number) else { return false };
        matches!(sent.expires, Some((expires, OnExpiry::DeadLetter)) if now >= expires.at(sent.not_before))
    }

    /// True if this message may have become a dead letter of the group because it had expired. The publish of a message
    /// that never came may be unanswered: its body says which it is.
    fn is_right_expired(&mut self, group: &str, subject: &str, letter: &SeenDeadLetter, now: Millis) -> bool {
        let sequence = letter.entry.payload_sequence();
        let number = letter.body.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let is_of_sent = self.sent.get(&number).is_some_and(|sent| sent.subject == subject && sent.body == letter.body);
        let was_to_die = match self.expiry_of(number, sequence) {
            Some((_, OnExpiry::DeadLetter)) => {
                self.may_have_expired(number, sequence, self.place(group, sequence), now)
            }
            Some((_, OnExpiry::Drop)) => false,
            None => self.may_have_expired_unknown(number, now),
        };
        self.found_copy(number, sequence);
        is_of_sent && was_to_die && self.is_wanted(group, number)
    }

    /// True if a client may have made a dead letter of this message. Occurrences of a series have no number.
    fn is_right_put_away(&mut self, group: &str, sequence: Sequence) -> bool {
        self.counts.dead += 1;
        let was_put_away = matches!(self.place(group, sequence), Some(Place::Dead(_)));
        self.of.get(&sequence).is_none_or(|number| was_put_away && self.is_wanted(group, *number))
    }

    /// At the end: these are the dead letters of a group of this subject, of all its messages.
    pub(crate) fn dead_letters_seen(
        &mut self,
        (subject, group): (&str, &str),
        letters: &[SeenDeadLetter],
        now: Millis,
    ) {
        let mut dead = BTreeSet::new();
        for letter in letters {
            let sequence = letter.entry.payload_sequence();
            let is_right = match letter.reason.as_deref() {
                Some(EXPIRED_REASON) => self.is_right_expired(group, subject, letter, now),
                Some(DEAD_REASON) => self.is_right_put_away(group, sequence),
                _ => false,
            };
            if !dead.insert(sequence) || !is_right {
                self.blame(format!("{group} has the dead letter {letter:?}"));
            }
        }
        let mut missing = Vec::new();
        for (sequence, number) in &self.of {
            let is_told = self.place(group, *sequence) == Some(Place::Dead(NOBODY));
            let is_of_subject = self.sent.get(number).is_some_and(|sent| sent.subject == subject);
            if is_told && is_of_subject && !dead.contains(sequence) {
                missing.push(format!("lost: message {number} as {sequence} is no dead letter of {group}, as was told"));
            }
            let Some((_, then)) = self.expiry_of(*number, *sequence) else { continue };
            let place = self.place(group, *sequence);
            let is_over = is_of_subject && self.may_have_expired(*number, *sequence, place, now);
            if !is_over || !self.is_wanted(group, *number) || self.may_be_cancelled(*sequence) {
                continue;
            }
            self.counts.expired += 1;
            self.counts.expired_dead += u64::from(dead.contains(sequence));
            let may_be_done = matches!(place, Some(Place::Acknowledging(_)));
            if then == OnExpiry::DeadLetter && !dead.contains(sequence) && !may_be_done {
                missing.push(format!("lost: message {number} as {sequence} is no dead letter of {group}, {place:?}"));
            }
        }
        self.violations.extend(missing);
    }
}
