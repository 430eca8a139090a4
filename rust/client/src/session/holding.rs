//! How long a consumer holds messages, if there is a limit: a message that it has had for too long goes back to its group.
//! So does a message that has waited here for as long: its consumer may be stuck. The time of a message begins again when
//! the consumer takes it.
//!
//! Whether a message was settled in time is decided here, under the lock of the session: either its settlement is queued,
//! or the message is given back, and then its settlement is refused.

use delaymq_core::planted::{self, Planted};
use delaymq_core::wire::extension::settle::SETTLED_MAX as REQUEST_MESSAGES_MAX;

use crate::failure::Failure;
use crate::session::Session;
use crate::session::request::SubscriptionId;
use crate::session::requests::{Outcome, Purpose, Requests};
use crate::session::settling::give_back;
use crate::session::subscription::SubscriptionState;
use crate::session::timers::Timer;

impl<W> SubscriptionState<W> {
    /// Ends the hold of a message that the consumer settles. True if the message has been passed on before.
    pub(super) fn is_too_late(&mut self, key: u128) -> bool {
        self.holds.as_mut().is_some_and(|holds| !holds.end(key) && !planted::is_on(Planted::LateAcknowledged))
    }

    /// When the first hold ends.
    pub(super) fn next_hold_ms(&self) -> Option<u64> {
        self.holds.as_ref()?.next_ms()
    }

    /// The consumer may keep a message for longer. False if the message is not held any more; without a limit, every
    /// message is.
    pub(super) fn extend(&mut self, key: u128, duration_ms: Option<u64>, now_ms: u64) -> bool {
        self.holds.as_mut().is_none_or(|holds| holds.extend(key, duration_ms, now_ms))
    }

    /// Gives back the messages that the consumer has had, or that have waited for it, for too long.
    fn pass_on(&mut self, now_ms: u64, requests: &mut Requests<W>) {
        let Some(holds) = &mut self.holds else { return };
        let due = holds.take_due(now_ms);
        if !due.is_empty() {
            self.ready.retain(|arrival| !due.contains(&arrival.key));
        }
        let mut keys = std::mem::take(&mut self.refused_back);
        keys.extend(due);
        for keys in keys.chunks(REQUEST_MESSAGES_MAX) {
            let messages: Vec<(u128, u64)> = keys.iter().map(|key| (*key, 0)).collect();
            let purpose = Purpose::PassOn { id: self.id, keys: keys.to_vec() };
            requests.add_of_connection(give_back(self.number, &messages), purpose);
        }
    }

    /// All messages go back to their group with the connection, or with the subscription.
    pub(super) fn end_holds(&mut self) {
        if let Some(holds) = &mut self.holds {
            holds.clear();
            self.refused_back.clear();
        }
    }
}

impl<W> Session<W> {
    /// Gives back what consumers have had for too long.
    pub(super) fn pass_on(&mut self, now_ms: u64) {
        let ids: Vec<SubscriptionId> = self.subscriptions.keys().copied().collect();
        for id in ids {
            self.with_subscription(id, now_ms, |state, requests| state.pass_on(now_ms, requests));
        }
    }

    /// Handles the answer of the server. Messages that it refused are given back once more, a little later.
    pub(super) fn passed_on(&mut self, id: SubscriptionId, keys: Vec<u128>, outcome: &Outcome, now_ms: u64) {
        let Err(failure) = outcome else { return };
        let state = self.subscriptions.get_mut(&id);
        // Without its connection or its subscription, the group has it already.
        let Some(state) = state.filter(|state| state.closed.is_none() && !failure.is_ambiguous()) else { return };
        state.refused_back.extend(keys);
        self.timers.set_earlier(Timer::PassOn, now_ms.saturating_add(self.options.again_ms));
    }

    /// The consumer may keep a message for `duration_ms` from now, or for the subscription's time once more; never for
    /// a shorter time than before. False if the message has been passed on.
    ///
    /// # Errors
    /// The client or the subscription is closed.
    pub fn extend(
        &mut self,
        id: SubscriptionId,
        key: u128,
        duration_ms: Option<u64>,
        now_ms: u64,
    ) -> Result<bool, Failure> {
        self.check_settles(id)?;
        let extended = self.with_subscription(id, now_ms, |state, _| state.extend(key, duration_ms, now_ms));
        Ok(extended.unwrap_or_default())
    }
}
