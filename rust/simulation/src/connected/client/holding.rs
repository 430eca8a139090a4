//! A client that must settle its messages within some time, and is sometimes too slow for that.

use super::Client;
use super::settling::number_of;
use crate::connected::users::Shared;

impl Client {
    /// The time of some messages is over. Their group gets them again, and they are marked.
    pub(super) fn passes_on(&mut self, around: &mut Shared) {
        let now_ms = self.now_ms;
        let is_over = |(_, end_ms): &(&u128, &u64)| **end_ms <= now_ms;
        let over: Vec<u128> = self.limit.ends.iter().filter(is_over).map(|(key, _)| *key).collect();
        self.limit.ends.retain(|_, end_ms| *end_ms > now_ms);
        let Some(link) = self.link else { return };
        for key in over {
            let (account, group) = (&mut around.account, &self.consumes.group);
            if let Some(sequence) = self.holds.remove(&key) {
                account.counts.passed_on += 1;
                account.give_back_asked(link, group, sequence, around.now);
                self.limit.late.push(key);
            } else if self.given.remove(&key).is_some() {
                // It was never taken, makes room for another, and comes again all the same.
                *self.taken.entry(number_of(key)).or_default() += 1;
                account.let_go(link, group, std::iter::empty(), 1);
            }
        }
    }

    /// Needs longer for a message, and says so; or settles one that it had for too long, which the session refuses.
    pub(super) fn is_slow(&mut self, around: &mut Shared) -> &'static str {
        let Some(id) = self.subscription else { return "waits" };
        if let Some(key) = self.limit.late.pop() {
            let (late, words) = if around.chance.percent(60) {
                let places = self.session.acknowledge(id, &[key], self.now_ms);
                (places.map(|places| places == [0]), "acknowledges too late")
            } else {
                (self.session.give_back(id, key, 0, self.now_ms).map(|is_held| !is_held), "gives back too late")
            };
            if late != Ok(true) {
                around.account.blame(format!("what was passed on is settled: {late:?} to one that {words}"));
            }
            return words;
        }
        let keys: Vec<u128> = self.holds.keys().copied().collect();
        let Some(key) = around.chance.pick(&keys) else { return "has nothing to handle" };
        let longer_ms = Some(around.chance.one_of(&[0, 1, 700, 4_000])).filter(|longer_ms| *longer_ms > 0);
        if self.session.extend(id, *key, longer_ms, self.now_ms) != Ok(true) {
            around.account.blame(format!("{key:x} is held, and not held for longer"));
        }
        let end_ms = self.now_ms.saturating_add(longer_ms.or(self.limit.within_ms).unwrap_or_default());
        self.limit.ends.entry(*key).and_modify(|before| *before = end_ms.max(*before));
        "needs longer"
    }
}
