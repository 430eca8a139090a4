//! The requests of a client.

use delaymq_core::store::StartAt;
use delaymq_core::units::Sequence;
use delaymq_core::wire::extension::consume::{Credit, Subscribe};
use delaymq_core::wire::extension::hello::{Hello, put_ping};
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter, put_receipts};
use delaymq_core::wire::extension::settle::{Acknowledge, GiveBack, GivenBack, KeyRange};
use delaymq_core::wire::extension::terms::TermsWriter;
use delaymq_core::wire::extension::{
    ACKNOWLEDGE, CANCEL, CREDIT, EXTENSION_VERSION, FLUSH, GIVE_BACK, HELLO, PING, PUBLISH, PUBLISH_ON_TERMS,
    SUBSCRIBE, UNSUBSCRIBE,
};

use super::changes::{DELAY_MS_MAX, not_before, some_due, some_expiry, terms_of};
use super::{Call, Client, Key, PING_BYTES};
use crate::connected::account::Sent;
use crate::connected::labels::meta_of;
use crate::connected::server::TOKEN;
use crate::connected::users::Shared;

/// The longest delay of a message that is given back, in milliseconds.
const BACK_MS_MAX: u64 = 1_500;

impl Client {
    /// Does something if the caller has room for it.
    pub(super) fn act_or_wait(&mut self, around: &mut Shared) -> &'static str {
        if self.link.is_none() || !self.caller.has_room() {
            return "waits";
        }
        if !self.is_admitted {
            return self.say_hello(around);
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
        match around.chance.below(16) {
            0..4 => self.publish(around),
            4 => self.cancel(around),
            5 => self.ask(around, PING, Call::Ping, |out| put_ping(out, PING_BYTES)),
            6 if self.is_subscribed && around.chance.percent(30) => self.unsubscribe(around),
            _ if !self.is_subscribed => self.subscribe(around),
            6 | 7 => self.add_credit(around, 4),
            8 => self.flush(around),
            9 => self.acknowledge_stale(around),
            10 => self.settle_twice(around),
            11 | 12 => self.give_back(around),
            _ => self.acknowledge(around),
        }
    }

    /// Takes one step towards having received and finished all its messages.
    pub(super) fn finish_one_step(&mut self, around: &mut Shared) {
        if !std::mem::replace(&mut self.is_ending, true) {
            self.is_clock_right = !around.accepts;
        }
        if self.link.is_none() || !self.caller.has_room() {
        } else if !self.is_admitted {
            self.say_hello(around);
        } else if !self.is_subscribed {
            self.subscribe(around);
        } else if !self.is_clock_right {
            self.look_at_the_clock(around);
        } else if self.credit < self.in_flight_max {
            self.add_credit(around, self.in_flight_max.saturating_mul(4));
        } else if !self.holds.is_empty() {
            let keys: Vec<Key> = self.holds.keys().copied().collect();
            self.acknowledge_keys(around, &keys, true);
        } else if !self.unflushed.is_empty() {
            self.flush(around);
        }
    }

    /// Says hello if no request is under way, or sends another request too early.
    fn say_hello(&mut self, around: &mut Shared) -> &'static str {
        if !self.calls.is_empty() {
            return "waits";
        }
        if around.chance.percent(15) {
            return self.ask(around, PING, Call::TooEarly, |out| put_ping(out, PING_BYTES));
        }
        let is_right = around.chance.percent(80);
        let token = if is_right { TOKEN } else { b"guessed" };
        let hello =
            Hello { version_min: EXTENSION_VERSION, version_max: EXTENSION_VERSION, client: "simulation", token };
        self.ask(around, HELLO, Call::Hello(is_right), |out| hello.put(out))
    }

    pub(super) fn ask(
        &mut self,
        around: &mut Shared,
        command: i16,
        call: Call,
        fill: impl FnOnce(&mut Vec<u8>) -> delaymq_core::error::Result<()>,
    ) -> &'static str {
        let words = match &call {
            Call::Hello(_) => "says hello",
            Call::TooEarly => "asks too early",
            Call::Publish(_) => "publishes",
            Call::PublishOnce(_) => "publishes once",
            Call::Cancel(_) => "cancels",
            Call::Move(..) => "moves",
            Call::Subscribe => "subscribes",
            Call::Settle(_) => "settles",
            Call::Ping => "pings",
            Call::Unsubscribe => "unsubscribes",
            Call::Recur(_) => "begins a series",
            Call::EndSeries => "ends its series",
            Call::Clock => "looks at the clock",
            Call::Accept(_) => "accepts a step of the clock",
        };
        match self.caller.ask(command, around.now, fill) {
            Ok(Some(id)) => {
                self.calls.insert(id, call);
            }
            other => around.account.blame(format!("{words}: {other:?}, though there was room")),
        }
        words
    }

    fn tell(
        &mut self,
        around: &mut Shared,
        command: i16,
        fill: impl FnOnce(&mut Vec<u8>) -> delaymq_core::error::Result<()>,
    ) {
        let told = self.caller.tell(command, around.now, fill);
        if told != Ok(true) {
            around.account.blame(format!("command {command} was not taken, though there was room: {told:?}"));
        }
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
            return self.ask(around, PUBLISH, Call::Publish(messages), |out| writer.put(out, true));
        }
        self.ask(around, PUBLISH_ON_TERMS, Call::Publish(messages), |out| terms.put(out, &writer, true))
    }

    fn cancel(&mut self, around: &mut Shared) -> &'static str {
        let Some(receipt) = around.chance.pick(&self.receipts).copied() else { return "has nothing to cancel" };
        let sequence = receipt.key.sequence;
        around.account.cancel_asked(sequence);
        self.ask(around, CANCEL, Call::Cancel(sequence), |out| put_receipts(out, std::iter::once(receipt)))
    }

    fn subscribe(&mut self, around: &mut Shared) -> &'static str {
        if self.is_subscribing {
            return "waits";
        }
        self.subscription = self.subscription.saturating_add(1);
        self.is_subscribing = true;
        self.credit = u32::try_from(around.chance.one_of(&[0, 1, 3, 50])).unwrap_or(0);
        let consumes = self.consumes.clone();
        let wanted = Subscribe {
            subscription: self.subscription,
            subjects: consumes.subjects.iter().map(String::as_str).collect(),
            group: &consumes.group,
            consumer: "",
            start: StartAt::Unfinished,
            is_broadcast: false,
            in_flight_max: self.in_flight_max,
            credit: self.credit,
            filters: consumes.filters.clone(),
        };
        self.ask(around, SUBSCRIBE, Call::Subscribe, |out| wanted.put(out))
    }

    fn unsubscribe(&mut self, around: &mut Shared) -> &'static str {
        let Some(link) = self.link else { return "waits" };
        (self.is_subscribed, self.ended) = (false, self.subscription);
        let held = std::mem::take(&mut self.holds);
        around.account.let_go(link, &self.consumes.group, held.into_values(), self.in_flight_max);
        self.unflushed.clear();
        let number = self.subscription.to_be_bytes();
        self.ask(around, UNSUBSCRIBE, Call::Unsubscribe, |out| {
            out.extend_from_slice(&number);
            Ok(())
        })
    }

    fn add_credit(&mut self, around: &mut Shared, credit: u32) -> &'static str {
        self.credit = self.credit.saturating_add(credit);
        let credit = Credit { subscription: self.subscription, credit };
        self.tell(around, CREDIT, |out| {
            credit.put(out);
            Ok(())
        });
        "adds credit"
    }

    fn flush(&mut self, around: &mut Shared) -> &'static str {
        let number = self.subscription.to_be_bytes();
        let settled = std::mem::take(&mut self.unflushed);
        self.ask(around, FLUSH, Call::Settle(settled), |out| {
            out.extend_from_slice(&number);
            Ok(())
        })
    }

    fn some_held(&self, around: &mut Shared) -> Vec<Key> {
        self.holds.keys().copied().filter(|_| around.chance.percent(60)).collect()
    }

    fn acknowledge(&mut self, around: &mut Shared) -> &'static str {
        let keys = self.some_held(around);
        if keys.is_empty() {
            return "has nothing to acknowledge";
        }
        let is_asked = around.chance.percent(50);
        self.acknowledge_keys(around, &keys, is_asked);
        "acknowledges"
    }

    fn acknowledge_keys(&mut self, around: &mut Shared, keys: &[Key], is_asked: bool) {
        let Some(link) = self.link else { return };
        let sequences: Vec<Sequence> = keys.iter().filter_map(|key| self.holds.remove(key)).collect();
        for sequence in &sequences {
            around.account.acknowledge_asked(link, &self.consumes.group, *sequence);
        }
        let done = self.ranges_of(keys);
        if is_asked {
            self.ask(around, ACKNOWLEDGE, Call::Settle(sequences), |out| done.put(out));
        } else {
            self.unflushed.extend(sequences);
            self.tell(around, ACKNOWLEDGE, |out| done.put(out));
        }
    }

    fn ranges_of(&self, keys: &[Key]) -> Acknowledge {
        let ranges = keys.iter().map(|(queue, first)| KeyRange { queue: *queue, first: *first, count: 1 });
        Acknowledge { subscription: self.subscription, ranges: ranges.collect() }
    }

    fn back_of(&self, key: Key, delay_ms: u64) -> GiveBack {
        let message = GivenBack { queue: key.0, offset: key.1, delay_ms };
        GiveBack { subscription: self.subscription, messages: vec![message] }
    }

    fn give_back(&mut self, around: &mut Shared) -> &'static str {
        let (Some(key), Some(link)) = (self.some_held(around).first().copied(), self.link) else {
            return "has nothing to give back";
        };
        let Some(sequence) = self.holds.remove(&key) else { return "has nothing to give back" };
        let delay_ms = around.chance.one_of(&[0, 20, BACK_MS_MAX]);
        around.account.give_back_asked(link, &self.consumes.group, sequence, around.now.plus(delay_ms));
        let back = self.back_of(key, delay_ms);
        if around.chance.percent(50) {
            return self.ask(around, GIVE_BACK, Call::Settle(Vec::new()), |out| back.put(out));
        }
        self.tell(around, GIVE_BACK, |out| back.put(out));
        "gives back"
    }

    /// Settles one delivery twice, in two ways. The first one counts.
    fn settle_twice(&mut self, around: &mut Shared) -> &'static str {
        let (Some(key), Some(link)) = (self.some_held(around).first().copied(), self.link) else {
            return "has nothing to settle";
        };
        let back = self.back_of(key, 0);
        let done = self.ranges_of(&[key]);
        if around.chance.percent(50) {
            self.acknowledge_keys(around, &[key], false);
            self.tell_if_room(around, GIVE_BACK, |out| back.put(out));
            return "acknowledges, then gives back";
        }
        let Some(sequence) = self.holds.remove(&key) else { return "has nothing to settle" };
        around.account.give_back_asked(link, &self.consumes.group, sequence, around.now);
        self.tell(around, GIVE_BACK, |out| back.put(out));
        self.tell_if_room(around, ACKNOWLEDGE, |out| done.put(out));
        "gives back, then acknowledges"
    }

    fn tell_if_room(
        &mut self,
        around: &mut Shared,
        command: i16,
        fill: impl FnOnce(&mut Vec<u8>) -> delaymq_core::error::Result<()>,
    ) {
        if self.caller.has_room() {
            self.tell(around, command, fill);
        }
    }

    /// Acknowledges deliveries of an earlier epoch of the server, which are void.
    fn acknowledge_stale(&mut self, around: &mut Shared) -> &'static str {
        if self.stale.is_empty() {
            return "has nothing of an earlier epoch";
        }
        around.account.counts.stale += self.stale.len() as u64;
        let keys = std::mem::take(&mut self.stale);
        let done = self.ranges_of(&keys);
        self.ask(around, ACKNOWLEDGE, Call::Settle(Vec::new()), |out| done.put(out));
        "acknowledges what an earlier epoch handed out"
    }
}
