//! A user of delaymq's own protocol: it publishes, cancels, consumes, settles, and connects again when the connection
//! is lost. It reports what the core's caller returns to the account.

mod changes;
mod clock;
mod recurring;
mod requests;

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::queues::tags::Filter;
use delaymq_core::store::Receipt;
use delaymq_core::units::{Millis, Sequence};
use delaymq_core::wire::client::caller::{CallId, Caller, CallerLimits, Heard, told};
use delaymq_core::wire::extension::consume::Deliver;
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::moves::read_moved;
use delaymq_core::wire::extension::publish::{Cancelled, DueTime, read_outcomes, read_receipts};
use delaymq_core::wire::reader::Reader;

use super::account::{Account, Came};
use super::link::{Link, LinkId};
use super::users::{Shared, User};

/// A delivery's key: queue and offset.
type Key = (u32, u64);

/// A request under way.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Call {
    /// With the right token, or with a wrong one.
    Hello(bool),
    /// Sent before the hello that is needed was answered.
    TooEarly,
    Publish(Vec<(u64, DueTime)>),
    /// With ids that identify repetitions.
    PublishOnce(Vec<(u64, DueTime)>),
    Cancel(Sequence),
    Move(Receipt, DueTime),
    Subscribe,
    /// The answer says that these acknowledgements are durable.
    Settle(Vec<Sequence>),
    Ping,
    Unsubscribe,
    /// A series with this number replaces the client's series.
    Recur(u64),
    EndSeries,
    Clock,
    /// Accepts a step of so many milliseconds.
    Accept(u64),
}

/// The subjects, group and filters of a consuming client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Consumes {
    /// The subject of its series.
    pub(super) subject: String,
    /// The texts of its selection.
    pub(super) subjects: Vec<String>,
    pub(super) group: String,
    pub(super) filters: Vec<Filter>,
}

/// See the module.
#[expect(clippy::struct_excessive_bools, reason = "each is something else that it knows")]
pub(super) struct Client {
    name: String,
    consumes: Consumes,
    in_flight_max: u32,
    caller: Caller,
    /// The server wants a hello first.
    needs_token: bool,
    is_admitted: bool,
    link: Option<LinkId>,
    calls: BTreeMap<CallId, Call>,
    /// The number of its last subscription.
    subscription: u32,
    is_subscribing: bool,
    is_subscribed: bool,
    /// Subscriptions up to this number have ended.
    ended: u32,
    credit: u32,
    holds: BTreeMap<Key, Sequence>,
    /// Acknowledged without an answer. A flush makes these durable.
    unflushed: Vec<Sequence>,
    /// Keys of an earlier epoch, which it held when the server ended.
    stale: Vec<Key>,
    /// Messages to publish again, since no answer came.
    again: Vec<(u64, DueTime)>,
    /// Batches with ids to publish again unchanged.
    once_again: Vec<Vec<(u64, DueTime)>>,
    receipts: Vec<Receipt>,
    /// Its last move.
    last_move: Option<(Receipt, DueTime)>,
    /// Moves to send again, since no answer came.
    moves_again: Vec<(Receipt, DueTime)>,
    /// The name of its series.
    series: String,
    /// The step that holds dispatch, when it last looked.
    clock_ahead_ms: Option<u64>,
    /// Dispatch was not held when it last looked.
    is_clock_right: bool,
    /// The history comes to its end.
    is_ending: bool,
}

impl Client {
    pub(super) fn new(number: usize, consumes: Consumes, in_flight_max: u32, needs_token: bool) -> Self {
        Self {
            name: format!("client {number}"),
            consumes,
            in_flight_max,
            caller: Caller::new(CallerLimits::default()),
            needs_token,
            is_admitted: false,
            link: None,
            calls: BTreeMap::new(),
            subscription: 0,
            is_subscribing: false,
            is_subscribed: false,
            ended: 0,
            credit: 0,
            holds: BTreeMap::new(),
            unflushed: Vec::new(),
            stale: Vec::new(),
            again: Vec::new(),
            once_again: Vec::new(),
            receipts: Vec::new(),
            last_move: None,
            moves_again: Vec::new(),
            series: series_of(number),
            clock_ahead_ms: None,
            is_clock_right: false,
            is_ending: false,
        }
    }

    /// The outcome of a request is not known. With `again` it is sent once more.
    fn not_answered(&mut self, account: &mut Account, call: Call, again: bool) {
        match call {
            Call::Publish(messages) => {
                account.publish_lost(messages.iter().map(|(number, _)| *number));
                self.again.extend(messages.into_iter().filter(|_| again));
            }
            Call::PublishOnce(messages) => {
                account.publish_lost(messages.iter().map(|(number, _)| *number));
                self.once_again.extend(again.then_some(messages));
            }
            Call::Cancel(sequence) => account.cancel_lost(sequence),
            Call::Move(receipt, due) => self.moves_again.extend(again.then_some((receipt, due))),
            Call::Recur(_) | Call::EndSeries => account.series_lost(&self.series),
            _ => {}
        }
    }

    /// An error came: the store has ended or is full, or the client has not said hello.
    fn refused(&mut self, account: &mut Account, call: Call, error: &RemoteError) {
        match (call, error.code) {
            (Call::Hello(false) | Call::TooEarly, ErrorCode::Unauthorized) => {}
            (Call::Subscribe, _) if is_passing(error) => self.is_subscribing = false,
            (call, _) if is_passing(error) => self.not_answered(account, call, true),
            // A request of an earlier connection has ended the series, or the end of the history has.
            (Call::Recur(_), ErrorCode::InvalidArgument) => account.series_lost(&self.series),
            // Dispatch is not held, or another step holds it.
            (Call::Accept(_), ErrorCode::InvalidArgument) => {}
            (call, _) => account.blame(format!("{call:?} is refused: {error:?}")),
        }
    }

    fn answered(&mut self, account: &mut Account, call: Call, body: &[u8]) {
        match call {
            Call::Hello(true) => self.is_admitted = true,
            Call::Hello(false) | Call::TooEarly => account.blame(format!("a stranger is served: {body:?}")),
            Call::Publish(messages) | Call::PublishOnce(messages) => match read_receipts(&mut Reader::new(body)) {
                Ok(receipts) if receipts.len() == messages.len() => {
                    for ((number, _), receipt) in messages.iter().zip(&receipts) {
                        account.published(*number, receipt.key.sequence, receipt.key.due);
                    }
                    self.receipts.extend(receipts);
                }
                other => account.blame(format!("{other:?} is the answer to {messages:?}")),
            },
            Call::Cancel(sequence) => match read_outcomes(body).as_deref() {
                Ok([outcome]) => account.cancel_told(sequence, *outcome == Cancelled::Done),
                other => account.blame(format!("{other:?} is the answer to a cancel of {sequence}")),
            },
            Call::Move(receipt, due) => match read_moved(body).as_deref() {
                Ok([moved]) => self.move_told(account, (receipt, due), moved),
                other => account.blame(format!("{other:?} is the answer to a move of {receipt:?}")),
            },
            Call::Subscribe => (self.is_subscribing, self.is_subscribed) = (false, true),
            Call::Settle(sequences) => {
                let Some(link) = self.link else { return };
                for sequence in sequences {
                    account.acknowledged(link, &self.consumes.group, sequence);
                }
            }
            Call::Recur(number) => self.series_told(account, number, body),
            Call::EndSeries => account.series_ended(&self.series),
            Call::Ping if body != PING_BYTES => account.blame(format!("a ping came back as {body:?}")),
            Call::Clock => self.clock_told(account, body),
            Call::Accept(asked_ms) => Self::clock_accepted(account, asked_ms, body),
            Call::Ping | Call::Unsubscribe => {}
        }
    }

    fn delivered(&mut self, account: &mut Account, body: &[u8], now: Millis) {
        let deliver = match Deliver::read(body) {
            Ok(deliver) => deliver,
            Err(malformed) => return account.blame(format!("a delivery is {malformed:?}")),
        };
        let Some(link) = self.link else { return };
        if deliver.subscription <= self.ended {
            // The delivery was under way when the subscription ended: its messages return to the group.
            return;
        }
        let count = u32::try_from(deliver.messages.len()).unwrap_or(u32::MAX);
        let is_fine = self.is_subscribed && deliver.subscription == self.subscription;
        if deliver.now > now {
            account.blame(format!("the server's clock is ahead of {now}: {deliver:?}"));
        }
        if !is_fine || count > self.credit {
            account.blame(format!("{count} messages with credit {}: {deliver:?}", self.credit));
        }
        self.credit = self.credit.saturating_sub(count);
        for message in &deliver.messages {
            account.counts.of_others += u64::from(message.queue > 1);
            let before = self.holds.insert((message.queue, message.offset), message.sequence);
            if before.is_some() || !message.is_whole() || self.holds.len() > self.in_flight_max as usize {
                account.blame(format!("{} held, one of them before: {before:?}, {message:?}", self.holds.len()));
            }
            account.came(&Came {
                link,
                group: &self.consumes.group,
                subject: message.subject,
                sequence: message.sequence,
                is_retry: message.queue % 2 == 1,
                redelivered: message.redelivered,
                due: message.due,
                now: deliver.now,
                body: message.parts().1,
            });
        }
    }
}

impl User for Client {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_of_qmq(&self) -> bool {
        false
    }

    fn link(&self) -> Option<LinkId> {
        self.link
    }

    fn connect(&mut self, link: LinkId, limits: CallerLimits) {
        self.caller = Caller::new(limits);
        self.link = Some(link);
        (self.is_subscribing, self.is_subscribed) = (false, false);
        self.is_admitted = !self.needs_token;
    }

    /// The outcome of the requests under way is not known. The client loses the messages that it holds. If the server
    /// ended, it keeps their keys, to check that they name nothing any more.
    fn lost(&mut self, around: &mut Shared, link: &Link, epoch_ended: bool) {
        let again = around.chance.percent(70);
        let account = &mut around.account;
        let lost = self.caller.lost();
        if let Some((call, command)) = lost.iter().find(|(call, _)| link.was_answered(call.0)) {
            account.blame(format!("request {call:?} of command {command} was answered and is told to be ambiguous"));
        }
        let known: BTreeSet<CallId> = self.calls.keys().copied().collect();
        if known != lost.iter().map(|(call, _)| *call).collect() {
            account.blame(format!("under way are {known:?}, and lost are {lost:?}"));
        }
        for call in std::mem::take(&mut self.calls).into_values() {
            self.not_answered(account, call, again);
        }
        let held = std::mem::take(&mut self.holds);
        if epoch_ended {
            self.stale.extend(held.into_keys());
        }
        self.unflushed.clear();
        self.link = None;
    }

    fn write(&mut self, count_max: usize) -> Vec<u8> {
        let bytes: Vec<u8> = self.caller.output().flatten().take(count_max).copied().collect();
        self.caller.sent(bytes.len());
        bytes
    }

    fn receive(&mut self, bytes: &[u8]) -> usize {
        self.caller.receive(bytes)
    }

    fn hear(&mut self, around: &mut Shared, link: &Link) {
        let (account, now) = (&mut around.account, Millis(around.ledger.time));
        account.now = now;
        loop {
            match self.caller.hear() {
                Ok(None) => return,
                Ok(Some(Heard::Deliver(body))) => self.delivered(account, &body, now),
                Ok(Some(Heard::Answer { call, code, body, command })) => {
                    let known = self.calls.remove(&call);
                    match (known, told(code, &body)) {
                        (Some(known), Ok(body)) if link.was_answered(call.0) => self.answered(account, known, &body),
                        (Some(known), Err(error)) if link.was_answered(call.0) => self.refused(account, known, &error),
                        (None, Err(error)) if is_passing(&error) => {}
                        (known, answer) => account.blame(format!(
                            "answer {answer:?} to {call:?} of command {command}, which is {known:?}, whole: {}",
                            link.was_answered(call.0)
                        )),
                    }
                }
                Err(malformed) => return account.blame(format!("the server sent {malformed:?}")),
            }
        }
    }

    fn act(&mut self, around: &mut Shared) -> &'static str {
        self.act_or_wait(around)
    }

    fn finish(&mut self, around: &mut Shared) {
        self.finish_one_step(around);
    }

    fn is_quiet(&self) -> bool {
        self.is_subscribed && self.calls.is_empty() && self.holds.is_empty() && self.unflushed.is_empty()
    }
}

/// The name of the series of a client.
pub(super) fn series_of(number: usize) -> String {
    format!("series-{number}")
}

/// True for an error that says nothing of the request.
fn is_passing(error: &RemoteError) -> bool {
    matches!(error.code, ErrorCode::Poisoned | ErrorCode::DiskFull | ErrorCode::Storage)
}

/// The body of a ping.
const PING_BYTES: &[u8] = b"are you there";
