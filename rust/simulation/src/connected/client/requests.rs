//! The requests of a client.

use delaymq_client::session::Request;
use delaymq_core::wire::extension::hello::put_ping;
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter, put_receipts};
use delaymq_core::wire::extension::terms::TermsWriter;
use delaymq_core::wire::extension::{CANCEL, PING, PUBLISH, PUBLISH_ON_TERMS};

use super::changes::{DELAY_MS_MAX, not_before, some_due, some_expiry, terms_of};
use super::{Call, Client, PING_BYTES, Repeats};
use crate::connected::account::Sent;
use crate::connected::labels::meta_of;
use crate::connected::users::Shared;

/// Requests that a program waits for at once.
const CALLS_MAX: usize = 8;

impl Client {
    /// Does something, mostly with its subscription.
    pub(super) fn act_or_wait(&mut self, around: &mut Shared) -> &'static str {
        if !self.is_open {
            return "waits";
        }
        if self.calls.len() >= CALLS_MAX || around.chance.percent(2) {
            return self.give_up(around);
        }
        if around.recurs && around.chance.percent(8) {
            return self.recur(around);
        }
        if around.changes && around.chance.percent(20) {
            return if around.chance.percent(50) { self.move_one(around) } else { self.publish_once(around) };
        }
        if around.accepts && around.chance.percent(8) {
            return self.look_at_the_clock(around);
        }
        match around.chance.below(26) {
            0..3 => self.publish(around),
            3 => self.cancel(around),
            4 => self.ask(around, PING, Repeats::Reads, Call::Ping, |out| put_ping(out, PING_BYTES)),
            _ if self.subscription.is_none() => self.subscribe(around),
            _ if !self.is_subscribed() => "waits for its subscription",
            _ if self.is_stopped() => self.close(around),
            5 if around.chance.percent(30) => self.close(around),
            _ if self.limit.within_ms.is_some() && around.chance.percent(10) => self.is_slow(around),
            6 => self.ask_for_ready(around),
            7..10 => self.flush(around),
            10..13 => self.settle_lost(around),
            13 => self.settle_twice(around),
            14 | 15 => self.give_back_or_dead_letter(around),
            16..20 => self.acknowledge(around),
            _ => {
                let count_max = around.chance.one_of(&[1, 2, 8]);
                self.take(around, usize::try_from(count_max).unwrap_or(1))
            }
        }
    }

    /// The server has had its subscription.
    fn is_subscribed(&self) -> bool {
        self.subscription.is_some() && self.calls.values().all(|asked| asked.call != Call::Subscribe)
    }

    fn is_stopped(&self) -> bool {
        self.subscription.is_some_and(|id| self.session.is_stopped(id))
    }

    /// Takes one step towards having received and finished all its messages.
    pub(super) fn finish_one_step(&mut self, around: &mut Shared) {
        if !std::mem::replace(&mut self.is_ending, true) {
            self.is_clock_right = !around.accepts;
        }
        if !self.is_open {
        } else if self.subscription.is_none() {
            self.subscribe(around);
        } else if !self.is_subscribed() {
        } else if self.is_stopped() {
            self.close(around);
        } else if !self.is_clock_right {
            self.look_at_the_clock(around);
        } else if !self.holds.is_empty() {
            let keys: Vec<u128> = self.holds.keys().copied().collect();
            self.acknowledge_keys(around, &keys);
        } else if self.has_news {
            self.take(around, self.in_flight_max as usize);
        } else if !self.unflushed.is_empty() {
            self.flush(around);
        }
    }

    pub(super) fn ask(
        &mut self,
        around: &mut Shared,
        command: i16,
        repeats: Repeats,
        call: Call,
        fill: impl FnOnce(&mut Vec<u8>) -> delaymq_core::error::Result<()>,
    ) -> &'static str {
        let words = match &call {
            Call::Publish(_) => "publishes",
            Call::PublishOnce(_) => "publishes once",
            Call::Cancel(_) => "cancels",
            Call::Move(..) => "moves",
            Call::Ping => "pings",
            Call::Recur(_) => "begins a series",
            Call::EndSeries => "ends its series",
            Call::Clock => "looks at the clock",
            Call::Accept(_) => "accepts a step of the clock",
            Call::Open(_) | Call::Subscribe | Call::Ready | Call::Flush(..) | Call::Close(..) => "asks",
        };
        let mut body = Vec::new();
        if let Err(error) = fill(&mut body) {
            around.account.blame(format!("{words}: {error}"));
        }
        let reads = repeats == Repeats::Reads;
        let retry_for_ms = if let Repeats::For(ms) = repeats { ms } else { u64::MAX };
        let request = Request { reads, retry: repeats != Repeats::Never, retry_for_ms, ..Request::new(command, body) };
        match self.session.ask(request, self.next_token, self.now_ms) {
            Ok(ticket) => self.wait_for(call, Some(ticket), repeats),
            Err(failure) => around.account.blame(format!("{words}: {failure:?}")),
        }
        words
    }

    fn publish(&mut self, around: &mut Shared) -> &'static str {
        let mut messages: Vec<(u64, DueTime)> = std::mem::take(&mut self.again);
        for _ in 0..around.chance.below(3).max(u64::from(messages.is_empty())) {
            let due = some_due(around, &[0, 0, 1, 40, 500, DELAY_MS_MAX]);
            let number = around.new_number();
            messages.push((number, due));
        }
        let (mut writer, mut terms) = (PublishWriter::default(), TermsWriter::default());
        for ((number, due), place) in messages.iter().zip(0..) {
            let subject = around.chance.pick(&around.subjects).cloned().unwrap_or_default();
            let length = around.chance.one_of(&[0, 3, 90]);
            let not_before = not_before(*due, around.now);
            let expires = around.expires.then(|| some_expiry(around, *due)).flatten();
            around.account.publish_asked(*number, || {
                let filler = usize::try_from(length).unwrap_or(0);
                let body = number.to_le_bytes().into_iter().chain(std::iter::repeat_n(0xA5, filler)).collect();
                Sent::new(subject, body, not_before).expiring(expires)
            });
            let Some(sent) = around.account.sent(*number) else { continue };
            let meta = if around.has_labels { meta_of(*number, String::new()) } else { Vec::new() };
            let asked = terms_of(place, sent.expires);
            let pushed = writer.push(&sent.subject, *due, &meta, &sent.body).and_then(|()| terms.push(&asked));
            if let Err(error) = pushed {
                around.account.blame(format!("message {number} is refused: {error}"));
            }
        }
        if terms.is_empty() {
            return self.ask(around, PUBLISH, Repeats::Never, Call::Publish(messages), |out| writer.put(out, true));
        }
        self.ask(around, PUBLISH_ON_TERMS, Repeats::Never, Call::Publish(messages), |out| terms.put(out, &writer, true))
    }

    fn cancel(&mut self, around: &mut Shared) -> &'static str {
        let Some(receipt) = around.chance.pick(&self.receipts).copied() else { return "has nothing to cancel" };
        let sequence = receipt.key.sequence;
        around.account.cancel_asked(sequence);
        self.ask(around, CANCEL, Repeats::For(u64::MAX), Call::Cancel(sequence), |out| {
            put_receipts(out, std::iter::once(receipt))
        })
    }
}
