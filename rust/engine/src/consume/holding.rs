//! How long the user of a subscription may have a message, if that is limited. The driver gives back what the user has
//! had for too long, whatever the user's thread does.
//!
//! The end of a hold and a settlement take the same lock. The first one counts.

use delaymq_core::error::Result;
use delaymq_core::units::Millis;

use crate::consume::delivery::DeliveryKey;
use crate::consume::ended_deliveries::Moved;
use crate::consume::member::{Member, Noted};
use crate::consume::queues::place_of;
use crate::consume::subscription::Subscription;
use crate::held;
use crate::shared::Shared;

impl Member {
    /// The user gets these now. Returns when the first of all holds ends.
    fn begin_holds(&self, keys: impl Iterator<Item = DeliveryKey>, now_ms: u64) -> Option<u64> {
        let mut hands = held(&self.hands);
        let holds = hands.holds.as_mut()?;
        keys.for_each(|key| holds.begin(key, now_ms));
        holds.next_ms()
    }

    /// As [`Subscription::extend`].
    fn extend(&self, key: DeliveryKey, duration_ms: Option<u64>, now_ms: u64) -> bool {
        self.presence.is_at_work();
        held(&self.hands).holds.as_mut().is_none_or(|holds| holds.extend(key, duration_ms, now_ms))
    }

    /// Notes that messages which the user has had for too long go back to the group, and are ready again at `due`. Also
    /// returns when the next hold ends.
    pub(crate) fn pass_on(&self, now_ms: u64, due: Millis) -> (Noted, Option<u64>) {
        let places = self.places();
        let mut hands = held(&self.hands);
        let Some(holds) = &mut hands.holds else { return (Noted::Nothing, None) };
        let (keys, next_ms) = (holds.take_due(now_ms), holds.next_ms());
        let mut any = false;
        for key in keys {
            let Some(place) = places.get(place_of(key.queue)) else { continue };
            let Some(delivery) = hands.held.remove(&key) else { continue };
            let target = place.retry_subject.clone();
            hands.queues.note_moved(key.queue, Moved { delivery, due, target, death: None });
            any = true;
        }
        (if any { hands.list() } else { Noted::Nothing }, next_ms)
    }
}

impl Subscription {
    /// The user gets these, and may have them for the time of the subscription, if there is one.
    pub(crate) fn begin_holds(&self, keys: impl Iterator<Item = DeliveryKey>) {
        if !self.member.is_limited {
            return;
        }
        let end_ms = self.member.begin_holds(keys, self.shared.time.running_ms());
        if end_ms.is_some_and(|end_ms| self.shared.subscribers.next_hold.note(end_ms)) {
            self.shared.driver.raise();
        }
    }

    /// The user may keep a message for `duration_ms` from now, or for the subscription's time once more; never for a
    /// shorter time than before. False if the message has been passed on. Without a limit, it changes nothing.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn extend(&self, key: DeliveryKey, duration_ms: Option<u64>) -> Result<bool> {
        self.shared.check()?;
        Ok(!self.member.is_limited || self.member.extend(key, duration_ms, self.shared.time.running_ms()))
    }
}

impl Shared {
    /// Notes that messages which users have had for too long go back to their groups. Returns when to look again.
    pub(crate) fn pass_on_late(&self, now: Millis) -> Option<Millis> {
        let end_ms = self.subscribers.next_hold.get()?;
        let running_ms = self.time.running_ms();
        let next_ms = if end_ms <= running_ms { self.subscribers.pass_on(running_ms, now)? } else { end_ms };
        Some(now.plus(next_ms.saturating_sub(running_ms)))
    }

    /// When the next hold ends, by the trusted clock.
    pub(crate) fn next_hold(&self) -> Option<Millis> {
        let end_ms = self.subscribers.next_hold.get()?;
        Some(self.time.read().now.plus(end_ms.saturating_sub(self.time.running_ms())))
    }
}
