//! Messages that a consumer does not finish: given back for a retry, or moved to the dead letters.

use delaymq_core::error::Result;
use delaymq_core::record::limits::at_most;
use delaymq_core::record::retry::{Death, REASON_BYTES_MAX};
use delaymq_core::store::dead_letter_subject;
use delaymq_core::units::Millis;

use crate::commit::inbox::CommitUrgency;
use crate::consume::delivery::DeliveryKey;
use crate::consume::ended_deliveries::Moved;
use crate::consume::member::Noted;
use crate::consume::subscription::Subscription;
use crate::names::Subject;

impl Subscription {
    /// Gives a message back: the group gets it again after the delay. Does not wait; durable after [`Self::flush`]. A
    /// message that is not held any more changes nothing. With `handle_within_ms`, the result is false then.
    ///
    /// # Errors
    /// `InvalidArgument` naming `delay`; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn give_back(&self, key: DeliveryKey, delay_ms: u64) -> Result<bool> {
        self.shared.check()?;
        self.shared.options.check_delay(delay_ms)?;
        let (now, from) = self.shared.now();
        let due = if delay_ms == 0 { now } else { from.plus(delay_ms) };
        let Some(place) = self.member.place(key.queue) else { return Ok(!self.member.is_limited) };
        self.move_on(key, due, place.retry_subject.clone(), None)
    }

    /// Moves a message to the dead letters of the group, with the reason. The group does not get it again unless an
    /// operator redrives it. Does not wait; durable after [`Self::flush`]. A message that is not held any more changes
    /// nothing. With `handle_within_ms`, the result is false then.
    ///
    /// # Errors
    /// `TooLarge` naming `reason`; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn dead_letter(&self, key: DeliveryKey, reason: &str) -> Result<bool> {
        self.shared.check()?;
        at_most("reason", REASON_BYTES_MAX, reason.len())?;
        let (now, _) = self.shared.now();
        self.dead_letter_since(key, Death::Reason(Box::from(reason)), now)
    }

    /// As [`Self::dead_letter`], for a message that died at this time.
    pub(crate) fn dead_letter_since(&self, key: DeliveryKey, death: Death, died: Millis) -> Result<bool> {
        let Some(place) = self.member.place(key.queue) else { return Ok(!self.member.is_limited) };
        let name = dead_letter_subject(&place.subject.name, &self.member.group);
        let subject = self.shared.names.subject(&name)?;
        self.move_on(key, died, subject, Some(death))
    }

    /// Sends it at once if the owner is free. Otherwise the next thread that has the owner lock, or the driver, does.
    fn move_on(&self, key: DeliveryKey, due: Millis, target: Subject, death: Option<Death>) -> Result<bool> {
        let noted = self.member.move_on(key, |delivery| Moved { delivery, due, target, death });
        if noted == Noted::Nothing {
            return Ok(!self.member.is_limited);
        }
        let Some(mut guard) = self.shared.try_lock_owner()? else {
            if noted == Noted::First {
                self.leave_to_driver();
            }
            return Ok(true);
        };
        let locked = guard.get()?;
        self.propose_settled(locked);
        let sent = self.shared.send(locked, CommitUrgency { urgent: false, earliest_due: due });
        drop(guard);
        self.shared.write_soon(sent?.is_some());
        Ok(true)
    }
}
