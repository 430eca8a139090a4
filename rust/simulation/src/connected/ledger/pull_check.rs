//! The checks of a pull's answer.

use delaymq_core::store::retry_subject;

use super::{Acked, Came, Key, Ledger, Mark, Place};

impl Ledger {
    /// A pull that was sent with this `received` brought messages, the first under this offset.
    pub(crate) fn pulled(
        &mut self,
        place: &Place,
        mark: Mark,
        received: Option<u64>,
        first: u64,
        messages: &[Came<'_>],
    ) {
        if messages.is_empty() {
            self.blame(format!("{place:?}: an answer without messages from {first} on"));
        }
        self.heard(place, mark);
        if received.is_some_and(|received| first <= received) {
            self.blame(format!("{place:?}: {first} comes to who has received {received:?}"));
        }
        self.judge_what_was_owed_first(place, mark, received, first);
        for (offset, came) in (first..).zip(messages) {
            self.judge_message(place, came);
            self.judge_offset(place, mark, offset, came.number);
        }
        self.may_be_given(place, mark);
    }

    /// Deliveries that were neither acknowledged nor passed over come first, under their offsets.
    fn judge_what_was_owed_first(&mut self, place: &Place, mark: Mark, received: Option<u64>, first: u64) {
        let Some(group) = self.groups.get(&place.of) else { return };
        let Some(taken) = self.taken.get(place) else { return };
        let is_owed = |key: &Key| {
            let is_held = !key.passed && key.acked == Acked::No && key.doubt == taken.doubt;
            is_held && !key.is_void && key.arrival < mark.arrivals && !group.may_have_begun_since(key.asked)
        };
        let from = received.map_or(0, |received| received.saturating_add(1));
        let owed = taken.keys.range(from..).find(|(_, key)| is_owed(key)).map(|(offset, _)| *offset);
        if let Some(owed) = owed.filter(|owed| *owed < first) {
            self.blame(format!(
                "{place:?}: {owed} was given and not acknowledged, and {first} came to who received {received:?}"
            ));
        }
    }

    fn judge_message(&mut self, place: &Place, came: &Came<'_>) {
        self.counts.pulled += 1;
        let Some(sent) = self.sent.get(&came.number) else {
            return self.blame(format!("{place:?}: phantom: nobody sent {came:?}"));
        };
        let is_retry = place.subject != place.of.0;
        // A message that its consumer sent back has the name of the retry subject, also as a dead letter.
        let sent_back = retry_subject(&place.of.0, &place.of.1);
        let names = came.subject == sent.subject || (is_retry && came.subject == sent_back);
        let tags = !came.has_tags || came.tag == sent.tag;
        if sent.body != came.body || !names || !tags || sent.subject != place.of.0 {
            let words = format!("{place:?}: corrupt: {came:?}, sent {sent:?}");
            return self.blame(words);
        }
        if sent.due > self.time {
            let words = format!("{place:?}: early: {came:?} at {}, sent {sent:?}", self.time);
            return self.blame(words);
        }
        let wants = self.groups.get(&place.of).and_then(|group| group.wants);
        if wants.is_some() && sent.tag != wants && !is_retry {
            self.blame(format!("{place:?}: the filter lets {wants:?} pass, and {came:?} came"));
        }
        self.counts.retried += u64::from(is_retry);
    }

    fn judge_offset(&mut self, place: &Place, mark: Mark, offset: u64, number: u64) {
        // A delivery of an earlier server may arrive after its end, and the next server may not know it.
        let (arrival, is_late) = (self.arrivals, mark.life != self.life);
        self.arrivals += 1;
        let taken = self.taken.entry(place.clone()).or_default();
        if let Some(known) = taken.keys.get(&offset) {
            let Key { number: before, acked, is_over, .. } = *known;
            self.counts.pulled_again += 1;
            if before != number || is_over {
                let what = format!("{place:?}: {offset} was message {before}, {acked:?} and over: {is_over}");
                self.blame(format!("{what}, and is {number} now"));
            }
            return;
        }
        let first_life = self.judge_order(place, mark, offset, number);
        self.count_open_resets(&place.of);
        let Some(taken) = self.taken.get_mut(place) else { return };
        let key = Key {
            number,
            arrival,
            asked: mark.step,
            came: self.step,
            first_life,
            doubt: taken.doubt,
            acked: Acked::No,
            acknowledged_at: 0,
            told_at: None,
            is_over: false,
            passed: false,
            is_void: is_late,
            counted: is_late,
        };
        taken.keys.insert(offset, key);
        let asked = self.sent.get(&number).map_or(0, |sent| sent.asked);
        let Some(group) = self.groups.get_mut(&place.of) else { return };
        let owed = group.owed.entry(number).or_default();
        owed.seen += 1;
        owed.extra += u64::from(is_late);
        self.counts.doubled += u64::from(owed.seen > 1);
        if owed.seen > asked.saturating_add(owed.nacked).saturating_add(owed.extra) {
            self.judge_double(place, mark.step, offset, number);
        }
    }

    /// A new offset follows the one before, also with filters, unless the consumer began again. Every end of
    /// the server may leave out offsets once. An offset may be of an earlier life of the server if its pull was.
    /// Returns the first life that it may be of.
    fn judge_order(&mut self, place: &Place, mark: Mark, offset: u64, number: u64) -> u64 {
        let Some(taken) = self.taken.get(place) else { return mark.life };
        let first_life = taken.given_since.map_or(mark.life, |since| since.min(mark.life));
        let Some((before, key)) = taken.keys.last_key_value() else { return first_life };
        let earliest = first_life.max(key.first_life);
        if offset == before.saturating_add(1) {
            return earliest;
        }
        let group = self.groups.get(&place.of);
        let may_be_other = group.is_none_or(|group| group.may_have_begun_since(key.asked));
        if offset > *before && (key.doubt != taken.doubt || may_be_other) {
            return earliest;
        }
        if offset > *before && key.first_life < mark.life {
            return earliest.max(key.first_life.saturating_add(1));
        }
        let what = format!("{place:?}: offset {offset} of message {number} follows {before} of {key:?}");
        self.blame(what);
        mark.life
    }

    /// A message has come under more offsets than there are counted reasons. Other reasons are a lease that may have
    /// ended, and a reset that may have given deliveries back without success.
    fn judge_double(&mut self, place: &Place, asked: u64, offset: u64, number: u64) {
        let (time, lease_ms) = (self.time, self.lease_of(&place.of));
        let of_group = self.taken.iter().filter(|(other, _)| other.of == place.of);
        let mut keys = of_group.flat_map(|(_, taken)| taken.keys.values());
        let is_overtaken = keys.any(|key| key.number == number && key.came > asked && key.asked != asked);
        let Some(group) = self.groups.get_mut(&place.of) else { return };
        for (other, taken) in self.taken.iter_mut().filter(|(other, _)| other.of == place.of) {
            let is_silent = taken.sign.is_none_or(|sign| time.saturating_sub(sign) >= lease_ms);
            let is_of_subject = other.subject == place.of.0;
            let of_number = taken.keys.iter_mut().filter(|(_, key)| key.number == number && !key.counted);
            for (at, key) in of_number {
                let may_have_ended = (is_silent || key.doubt != taken.doubt) && key.acked != Acked::Told;
                // This arrival is no reason for itself, unless it was given before another one came.
                let was_before = is_overtaken || *at != offset || other != place;
                let may_be_back = is_of_subject && was_before && group.may_have_given_back(key);
                if may_have_ended || may_be_back {
                    key.counted = true;
                    group.owed.entry(number).or_default().extra += 1;
                    return;
                }
            }
        }
        let (owed, offsets) = (
            self.groups.get(&place.of).and_then(|group| group.owed.get(&number)).copied(),
            self.offsets_of(&place.of, number),
        );
        self.blame(format!(
            "{place:?}: message {number} came again under {offset} without a reason: {owed:?}, {offsets:?}"
        ));
    }
}
