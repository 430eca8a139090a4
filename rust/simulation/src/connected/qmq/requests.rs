//! The requests of a client of QMQ.

use delaymq_core::error::Error;
use delaymq_core::store::StartAt;
use delaymq_core::store::retry_subject;
use delaymq_core::units::{Millis, PullOffset};
use delaymq_core::wire::qmq::ack::{ACK, AckRequest, put_ack};
use delaymq_core::wire::qmq::consume_manage::{CONSUME_MANAGE, ConsumeManage, put_consume_manage};
use delaymq_core::wire::qmq::message::{MessageParts, put_attribute, put_message};
use delaymq_core::wire::qmq::pull::{PULL, PullRequest, put_pull};
use delaymq_core::wire::qmq::register::{CLIENT_REGISTER, ClientType, RegisterRequest, put_register};
use delaymq_core::wire::qmq::send::{SEND, put_sent};

use super::{Call, QmqClient, consumer_name, id_of};
use crate::connected::ledger::Sent;
use crate::connected::users::Shared;

/// The version of requests that have the same layout in all versions.
const VERSION: i16 = 8;
/// How long a pull at the end of the history waits.
const LAST_HOLD_MS: i64 = 60_000;
const TAGS: [&str; 2] = ["left", "right"];

impl QmqClient {
    /// Repeats acknowledgements that were not answered, or does something else.
    pub(super) fn act_or_make_sure(&mut self, around: &mut Shared) -> &'static str {
        if self.make_sure(around) {
            return "makes sure of what it acknowledged";
        }
        let may_die = !self.wants.is_immortal;
        match around.chance.below(32) {
            0..6 => self.send(around),
            6 if may_die && around.chance.percent(12) => {
                self.is_dead = true;
                around.ledger.counts.dead += 1;
                "is dead"
            }
            6 | 7 => self.repeat(around),
            8 => self.heartbeat(around),
            9 => self.register(around),
            10 if self.wants.resets && around.chance.percent(20) => self.manage(around),
            10 => self.nack(around),
            11 if around.chance.percent(25) => {
                self.begin_anew();
                "begins anew"
            }
            12..20 if !self.held.is_empty() => self.acknowledge(around),
            20 if self.is_level => self.acknowledge_ahead(around),
            _ => self.pull(around, None),
        }
    }

    /// Takes one step towards having received and finished all its messages.
    pub(super) fn finish_one_step(&mut self, around: &mut Shared) {
        if self.make_sure(around) {
            return;
        }
        if let (Some(first), Some(last)) = (self.held.keys().next().copied(), self.held.keys().next_back().copied()) {
            self.held.clear();
            self.acknowledge_range(around, first, last);
        } else if self.pulls() == 0 {
            self.pull(around, Some(LAST_HOLD_MS));
        }
    }

    /// Repeats the acknowledgements that were not answered, the oldest first.
    fn make_sure(&mut self, around: &mut Shared) -> bool {
        let again = std::mem::take(&mut self.again);
        let is_any = !again.is_empty();
        for (first, last) in again {
            self.acknowledge_range(around, first, last);
        }
        is_any
    }

    fn send(&mut self, around: &mut Shared) -> &'static str {
        let mut numbers = std::mem::take(&mut self.unsent);
        for _ in 0..around.chance.below(4).max(u64::from(numbers.is_empty())) {
            numbers.push(around.new_number());
        }
        if around.chance.percent(4) {
            // An impatient client sends one of the messages twice.
            self.unsent.extend(numbers.first());
        }
        let (mut body, mut damaged) = (Vec::new(), Vec::new());
        for number in &numbers {
            let subject = around.chance.pick(&around.qmq_subjects).cloned().unwrap_or_default();
            let delay_ms = around.chance.one_of(&[0, 0, 0, 1, 40, 500, 3_000]);
            let tag = around.chance.pick(&[None, Some(TAGS[0]), Some(TAGS[1])]).copied().flatten();
            let is_damaged = around.ledger.sent(*number).is_none() && around.chance.percent(around.damaged_percent);
            let filler = "x".repeat(usize::try_from(around.chance.one_of(&[0, 3, 90])).unwrap_or(0));
            let (mut attributes, due) = (Vec::new(), around.now.0.saturating_add(delay_ms));
            let put = put_attribute(&mut attributes, "filler", &filler);
            if !is_damaged {
                around.ledger.send_asked(*number, || Sent::new(subject.clone(), attributes.clone(), due, tag));
            }
            let known = around.ledger.sent(*number).cloned();
            let known = known.unwrap_or_else(|| Sent::new(subject, attributes, due, tag));
            let put = put.and_then(|()| put_one(&mut body, around.now.0, &known, &known.subject, *number));
            if let Err(error) = put {
                around.ledger.blame(format!("message {number} has no bytes: {error}"));
            }
            if is_damaged && let Some(last) = body.last_mut() {
                *last ^= 1;
                damaged.push(*number);
            }
        }
        let call = Call::Send { numbers, damaged, is_nack: false };
        self.ask(&mut around.ledger, (SEND, VERSION), call, |out| {
            out.extend_from_slice(&body);
            Ok(())
        });
        "sends"
    }

    /// Sends a message that it holds to its group's retry subject, as the Java client does.
    fn nack(&mut self, around: &mut Shared) -> &'static str {
        let held: Vec<u64> = self.held.values().copied().collect();
        let Some(number) = around.chance.pick(&held).copied() else { return "has nothing to send back" };
        let of = self.wants.place.of.clone();
        let Some(known) = around.ledger.sent(number).cloned() else { return "has nothing to send back" };
        around.ledger.nack_asked(&of, number);
        let subject = retry_subject(&of.0, &of.1);
        let (call, now) = (Call::Send { numbers: vec![number], damaged: Vec::new(), is_nack: true }, around.now.0);
        self.ask(&mut around.ledger, (SEND, VERSION), call, |out| put_one(out, now, &known, &subject, number));
        "sends back"
    }

    fn pull(&mut self, around: &mut Shared, hold_ms: Option<i64>) -> &'static str {
        if self.pulls() >= self.wants.pulls_max {
            return "waits";
        }
        let hold_ms = hold_ms.unwrap_or_else(|| around.chance.one_of(&[0, 0, 100, 2_000, 60_000]).cast_signed());
        let count = i32::try_from(around.chance.one_of(&[1, 2, 7, 100])).unwrap_or(1);
        let (received, was_level) = (self.received, self.pulls() == 0);
        self.is_level = false;
        let last = received.and_then(|received| i64::try_from(received).ok()).unwrap_or(-1);
        let first = self.held.keys().next().and_then(|first| i64::try_from(*first).ok()).unwrap_or(-1);
        let version = self.wants.version;
        let (place, filters) = (self.wants.place.clone(), self.wants.filters.clone());
        let request = PullRequest {
            name: consumer_name(&place),
            count,
            offset: -1,
            first,
            last,
            timeout_ms: hold_ms,
            is_broadcast: self.wants.is_broadcast,
            filters,
        };
        let call = Call::Pull { received, was_level };
        self.ask(&mut around.ledger, (PULL, version), call, |out| put_pull(out, &request, version));
        "pulls"
    }

    /// Acknowledges its messages from the oldest on; sometimes it begins behind the oldest.
    fn acknowledge(&mut self, around: &mut Shared) -> &'static str {
        let offsets: Vec<u64> = self.held.keys().copied().collect();
        let count = around.chance.between(1, offsets.len() as u64);
        let skipped = if around.chance.percent(15) { around.chance.below(count) } else { 0 };
        let at = |index: u64| offsets.get(usize::try_from(index).unwrap_or(0)).copied();
        let (Some(first), Some(last)) = (at(skipped), at(count.saturating_sub(1))) else { return "holds nothing" };
        self.held.retain(|offset, _| *offset > last);
        self.acknowledge_range(around, first, last);
        if skipped > 0 { "acknowledges, passing over some" } else { "acknowledges" }
    }

    fn acknowledge_range(&mut self, around: &mut Shared, first: u64, last: u64) {
        let place = self.wants.place.clone();
        around.ledger.acknowledge_asked(&place, first, last);
        self.acknowledged.push((first, last));
        self.ask_for_range(around, Call::Acknowledge { first, last }, Some((first, last)));
    }

    fn ask_for_range(&mut self, around: &mut Shared, call: Call, range: Option<(u64, u64)>) {
        let (version, place) = (self.wants.version, self.wants.place.clone());
        let offsets = range.map(|(first, last)| (PullOffset(first), PullOffset(last)));
        let request = AckRequest { name: consumer_name(&place), offsets, is_broadcast: self.wants.is_broadcast };
        self.ask(&mut around.ledger, (ACK, version), call, |out| put_ack(out, &request, version));
    }

    /// Repeats an earlier acknowledgement, perhaps of an earlier life.
    fn repeat(&mut self, around: &mut Shared) -> &'static str {
        let Some(range) = around.chance.pick(&self.acknowledged).copied() else { return "has nothing to repeat" };
        self.ask_for_range(around, Call::Repeat, Some(range));
        "acknowledges once more"
    }

    /// Acknowledges offsets above all that were given to it.
    fn acknowledge_ahead(&mut self, around: &mut Shared) -> &'static str {
        let first = self.received.map_or(0, |received| received.saturating_add(1));
        let last = first.saturating_add(50);
        around.ledger.acknowledge_ahead_asked(&self.wants.place, first, last);
        self.ask_for_range(around, Call::Repeat, Some((first, last)));
        "acknowledges ahead"
    }

    fn heartbeat(&mut self, around: &mut Shared) -> &'static str {
        self.ask_for_range(around, Call::Heartbeat, None);
        "lives"
    }

    fn register(&mut self, around: &mut Shared) -> &'static str {
        let place = self.wants.place.clone();
        let request = RegisterRequest {
            subject: &place.subject,
            client_type: ClientType::Consumer,
            app_code: "simulation",
            client_id: &place.consumer,
            group: &place.of.1,
            is_new: true,
            room: "",
        };
        self.ask(&mut around.ledger, (CLIENT_REGISTER, VERSION), Call::Register, |out| put_register(out, &request));
        "registers"
    }

    fn manage(&mut self, around: &mut Shared) -> &'static str {
        let start = if around.chance.percent(50) { StartAt::Latest } else { StartAt::Earliest };
        let of = self.wants.place.of.clone();
        let reset = around.ledger.reset_asked(&of, start == StartAt::Latest);
        let request = ConsumeManage { subject: &of.0, group: &of.1, start: Some(start) };
        let call = Call::Manage { reset };
        self.ask(&mut around.ledger, (CONSUME_MANAGE, VERSION), call, |out| put_consume_manage(out, &request));
        "lets its group begin again"
    }
}

fn put_one(out: &mut Vec<u8>, now: u64, sent: &Sent, subject: &str, number: u64) -> Result<(), Error> {
    let tags: Vec<&str> = sent.tag.into_iter().collect();
    let due = (sent.due > now).then_some(Millis(sent.due));
    let id = id_of(number);
    let parts = MessageParts {
        created: Millis(now),
        due,
        subject,
        message_id: &id,
        tags: &tags,
        is_opaque: false,
        body: &sent.body,
    };
    let mut message = Vec::new();
    put_message(&mut message, &parts)?;
    put_sent(out, &message);
    Ok(())
}
