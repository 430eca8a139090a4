//! The subscription of a client, and the messages that it takes.

use delaymq_client::session::{Arrival, SubscriptionId, SubscriptionRequest};
use delaymq_core::store::StartAt;
use delaymq_core::wire::client::delivery_keys;

use super::settling::number_of;
use super::{Call, Client, Repeats, Settled, is_passing_failure};
use crate::connected::account::{Account, Came};
use crate::connected::link::LinkId;
use crate::connected::users::Shared;

impl Client {
    pub(super) fn subscribe(&mut self, around: &mut Shared) -> &'static str {
        let wanted = SubscriptionRequest {
            subjects: self.consumes.subjects.clone(),
            group: self.consumes.group.clone(),
            start: StartAt::Unfinished,
            in_flight_max: self.in_flight_max,
            filters: self.consumes.filters.clone(),
            handle_within_ms: self.limit.within_ms,
        };
        match self.session.subscribe(wanted, self.next_token, self.now_ms) {
            Ok(id) => {
                (self.subscription, self.has_news) = (Some(id), false);
                self.wait_for(Call::Subscribe, None, Repeats::Reads);
            }
            Err(failure) => around.account.blame(format!("a subscription is refused: {failure:?}")),
        }
        "subscribes"
    }

    /// The server refused it, or the program waits no longer.
    pub(super) fn give_up_subscription(&mut self) {
        if let Some(id) = self.subscription.take() {
            self.session.abandon(id, self.now_ms);
        }
    }

    /// Takes messages, if the session has told that there may be some.
    pub(super) fn take(&mut self, around: &mut Shared, count_max: usize) -> &'static str {
        let Some(id) = self.subscription.filter(|_| self.has_news) else { return "waits for messages" };
        match (self.session.take(id, count_max, true, self.now_ms), self.link) {
            (Ok(taken), Some(link)) if !taken.is_empty() => {
                for arrival in &taken {
                    self.takes(around, link, arrival);
                }
            }
            (Ok(taken), _) if taken.is_empty() => self.has_news = false,
            (Err(failure), _) if is_passing_failure(&failure) => self.has_news = false,
            (taken, link) => around.account.blame(format!("{taken:?} is there to take on {link:?}")),
        }
        "takes messages"
    }

    fn takes(&mut self, around: &mut Shared, link: LinkId, arrival: &Arrival) {
        let account = &mut around.account;
        let Some(now) = self.given.remove(&arrival.key) else {
            return account.blame(format!("no message of connection {link} is handed over: {arrival:?}"));
        };
        *self.taken.entry(number_of(arrival.key)).or_default() += 1;
        let (queue, _) = delivery_keys::parts(arrival.key);
        account.counts.of_others += u64::from(queue > 1);
        let before = self.holds.insert(arrival.key, arrival.sequence);
        self.limit.begin(arrival.key, self.now_ms);
        if before.is_some() || self.holds.len() > self.in_flight_max as usize {
            account.blame(format!("{} held, one of them before: {before:?}, {arrival:?}", self.holds.len()));
        }
        account.came(&Came {
            link,
            group: &self.consumes.group,
            subject: &arrival.subject,
            sequence: arrival.sequence,
            is_retry: queue % 2 == 1,
            redelivered: arrival.redelivered,
            due: arrival.due,
            now,
            body: &arrival.body,
        });
    }

    /// Asks for all that is ready.
    pub(super) fn ask_for_ready(&mut self, around: &mut Shared) -> &'static str {
        let Some(id) = self.subscription else { return "waits" };
        match self.session.request_ready(id, self.next_token, self.now_ms) {
            Ok(None) => {}
            Ok(ticket) => self.wait_for(Call::Ready, ticket, Repeats::Reads),
            Err(failure) => around.account.blame(format!("what is ready is refused: {failure:?}")),
        }
        "asks for what is ready"
    }

    /// Closes the subscription, or first takes no more messages.
    pub(super) fn close(&mut self, around: &mut Shared) -> &'static str {
        let Some(id) = self.subscription else { return "waits" };
        if around.chance.percent(30) {
            self.session.stop(id);
            return "stops";
        }
        self.subscription = None;
        let held = std::mem::take(&mut self.holds);
        self.limit.end();
        if let Some(link) = self.link {
            around.account.let_go(link, &self.consumes.group, held.into_values(), self.in_flight_max);
        }
        let settled = std::mem::take(&mut self.unflushed);
        let with_client = around.chance.percent(30);
        match self.session.begin_close(id, self.next_token, with_client, self.now_ms) {
            Ok(Some(closing)) if closing.ticket.is_some() => {
                self.wait_for(Call::Close(id, settled), closing.ticket, Repeats::Reads);
            }
            Ok(Some(_)) => self.closed(&mut around.account, id, &settled, false),
            other => around.account.blame(format!("a subscription that is open is closed: {other:?}")),
        }
        "unsubscribes"
    }

    /// The end of a subscription says whether all that it settled is durable.
    pub(super) fn closed(&mut self, account: &mut Account, id: SubscriptionId, settled: &[Settled], was_told: bool) {
        match self.session.finish_close(id, was_told) {
            Ok(()) => {
                self.judge_silence(account);
                self.flushed(account, settled);
            }
            Err(failure) if failure.is_ambiguous() && (self.is_doubtful || !was_told) => self.told_doubtful(),
            Err(failure) if is_passing_failure(&failure) => self.must_be_told = false,
            Err(failure) => account.blame(format!("{settled:?} are closed: {failure:?}")),
        }
    }
}
