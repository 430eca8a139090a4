//! A user of delaymq's own protocol: a program that runs on a session of delaymq's client, of which it is the socket and
//! the clock. It publishes, cancels, consumes, settles, and connects again when the connection is lost. It reports the
//! outcomes that the session gives it to the account, and judges them by what went over the connection.

mod changes;
mod clock;
mod consuming;
mod holding;
mod limit;
mod outcomes;
mod recurring;
mod requests;
mod settling;

use std::collections::BTreeMap;

use delaymq_client::failure::{Failure, Kind};
use delaymq_client::options::ClientOptions;
use delaymq_client::session::{Session, SubscriptionId, Ticket};
use delaymq_core::queues::tags::Filter;
use delaymq_core::store::Receipt;
use delaymq_core::units::{Millis, Sequence};
use delaymq_core::wire::client::caller::CallerLimits;
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::publish::DueTime;
use delaymq_core::wire::extension::{
    ACCEPT_CLOCK, CANCEL, CLOCK, END_RECURRING, MOVE, PUBLISH, PUBLISH_ON_TERMS, RECUR,
};

use self::limit::Limit;
use super::link::{Link, LinkId};
use super::server::TOKEN;
use super::users::{Shared, User};

/// A request that waits for its outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Call {
    /// The first connection. True if the token is right.
    Open(bool),
    Publish(Vec<(u64, DueTime)>),
    /// With ids that identify repetitions.
    PublishOnce(Vec<(u64, DueTime)>),
    Cancel(Sequence),
    Move(Receipt, DueTime),
    Subscribe,
    /// All ready messages, and then an answer.
    Ready,
    /// The answer says that these settlements are durable.
    Flush(SubscriptionId, Vec<Settled>),
    /// The end of this subscription, which says the same.
    Close(SubscriptionId, Vec<Settled>),
    Ping,
    /// A series with this number replaces the client's series.
    Recur(u64),
    EndSeries,
    Clock,
    /// Accepts a step of so many milliseconds.
    Accept(u64),
}

/// A settled message whose settling is not known to be durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Settled {
    /// The connection that delivered it.
    link: LinkId,
    sequence: Sequence,
    /// It was given back or dead-lettered, and not acknowledged.
    is_back: bool,
}

/// How a request may be repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Repeats {
    /// It changes nothing.
    Reads,
    /// It may be executed once only.
    Never,
    /// The server deduplicates it. It may be repeated for so many milliseconds.
    For(u64),
}

/// A request under way.
#[derive(Clone, Debug)]
struct Asked {
    call: Call,
    ticket: Option<Ticket>,
    repeats: Repeats,
    at_ms: u64,
    /// A connection was lost since.
    was_lost: bool,
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
    /// How long it may have a message before it settles it.
    pub(super) within_ms: Option<u64>,
}

/// See the module.
#[expect(clippy::struct_excessive_bools, reason = "each is something else that it knows")]
pub(super) struct Client {
    name: String,
    consumes: Consumes,
    in_flight_max: u32,
    session: Session<u64>,
    /// Its clock.
    now_ms: u64,
    /// The session has had a connection.
    is_open: bool,
    link: Option<LinkId>,
    /// Why it closes its connection.
    closes: Option<Failure>,
    calls: BTreeMap<u64, Asked>,
    next_token: u64,
    /// Answers to requests of [`ANSWERED`] that the session passed on from this connection, and how many more it may
    /// have dropped because their requests were given up.
    heard: usize,
    given_up: usize,
    subscription: Option<SubscriptionId>,
    /// The session says that its consumer may take messages.
    has_news: bool,
    holds: BTreeMap<u128, Sequence>,
    limit: Limit,
    /// Messages that lost connections delivered, and that it has not settled.
    lost: Vec<(u128, LinkId, Sequence)>,
    /// Settled since the last flush that was asked for.
    unflushed: Vec<Settled>,
    /// Something was settled since the last flush that was asked for, or that flush was given up or refused.
    is_unsure: bool,
    /// Something that was settled on a lost connection may not be.
    is_doubtful: bool,
    /// It settled what a lost connection delivered, which the session must tell to be ambiguous.
    must_be_told: bool,
    /// The server's time when each message that came on this connection was sent, and how many such have been read.
    given: BTreeMap<u128, Millis>,
    given_read: usize,
    /// How many messages of each number of a subscription it has taken.
    taken: BTreeMap<u32, u64>,
    /// The number of the last subscription of this connection that gave credit.
    number: Option<u32>,
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

/// The commands that only programs ask for; a session asks for none of them by itself.
const ANSWERED: [i16; 8] = [PUBLISH, PUBLISH_ON_TERMS, CANCEL, MOVE, RECUR, END_RECURRING, CLOCK, ACCEPT_CLOCK];
/// The token of the call that waits for the first connection.
const OPEN: u64 = 0;

impl Client {
    pub(super) fn new(number: usize, consumes: Consumes, in_flight_max: u32, needs_token: bool) -> Self {
        let is_right = !needs_token || number.is_multiple_of(2);
        let mut client = Self {
            name: format!("client {number}"),
            limit: Limit::new(consumes.within_ms),
            consumes,
            in_flight_max,
            session: new_session(is_right),
            now_ms: 0,
            is_open: false,
            link: None,
            closes: None,
            calls: BTreeMap::new(),
            next_token: OPEN,
            heard: 0,
            given_up: 0,
            subscription: None,
            has_news: false,
            holds: BTreeMap::new(),
            lost: Vec::new(),
            unflushed: Vec::new(),
            is_unsure: false,
            is_doubtful: false,
            must_be_told: false,
            given: BTreeMap::new(),
            given_read: 0,
            taken: BTreeMap::new(),
            number: None,
            again: Vec::new(),
            once_again: Vec::new(),
            receipts: Vec::new(),
            last_move: None,
            moves_again: Vec::new(),
            series: series_of(number),
            clock_ahead_ms: None,
            is_clock_right: false,
            is_ending: false,
        };
        client.wait_for(Call::Open(is_right), None, Repeats::Reads);
        client
    }

    /// A session whose first connection failed has ended; the program begins with another one.
    fn begin_anew(&mut self) {
        self.session = new_session(true);
        self.next_token = OPEN;
        self.wait_for(Call::Open(true), None, Repeats::Reads);
    }

    /// The token under which the outcome of the next request comes.
    fn wait_for(&mut self, call: Call, ticket: Option<Ticket>, repeats: Repeats) {
        let asked = Asked { call, ticket, repeats, at_ms: self.now_ms, was_lost: false };
        self.calls.insert(self.next_token, asked);
        self.next_token += 1;
    }

    /// Judges what the session passed on by what came over the connection.
    fn compare(&mut self, around: &mut Shared, link: &Link) {
        let (account, now) = (&mut around.account, Millis(around.ledger.time));
        for (key, at) in link.given().get(self.given_read..).unwrap_or_default() {
            self.given.insert(*key, *at);
            self.limit.begin(*key, self.now_ms);
            if *at > now {
                account.blame(format!("the server's clock is ahead of {now}: it gave {key:x} at {at}"));
            }
        }
        self.given_read = link.given().len();
        let came = link.answers_to(&ANSWERED);
        let passed_on = self.heard..=self.heard.saturating_add(self.given_up);
        if self.closes.is_none() && !passed_on.contains(&came) {
            let (heard, given_up) = (self.heard, self.given_up);
            account.blame(format!("{came} answers came, and {heard} were passed on, {given_up} given up"));
        }
        for (number, credit, came) in link.credits() {
            self.number = Some(number);
            let taken = self.taken.get(&number).copied().unwrap_or_default();
            if came > credit || credit > taken.saturating_add(u64::from(self.in_flight_max)) {
                account.blame(format!("{came} messages with credit {credit} for {number}, and {taken} were taken"));
            }
        }
        let is_foreseen = |failure: &Failure| match failure {
            Failure::Remote(error) => is_passing(error) || error.code == ErrorCode::Unauthorized && !self.is_open,
            Failure::Local { kind, .. } => *kind == Kind::TimedOut,
        };
        if let Some(failure) = self.closes.as_ref().filter(|failure| !is_foreseen(failure)) {
            account.blame(format!("the server sent what the session does not understand: {failure:?}"));
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

    fn may_act_apart(&self) -> bool {
        self.is_open
    }

    fn time_passed(&mut self, by_ms: u64) {
        self.now_ms = self.now_ms.saturating_add(by_ms);
    }

    fn run_due(&mut self, around: &mut Shared) -> bool {
        if self.session.next_due_ms().is_some_and(|due_ms| due_ms <= self.now_ms)
            && let Err(failure) = self.session.run_due(self.now_ms)
        {
            self.closes.get_or_insert(failure);
        }
        self.passes_on(around);
        self.collect(around);
        self.closes.is_some()
    }

    fn connect(&mut self, around: &mut Shared, link: LinkId, limits: CallerLimits) {
        self.told_once_more(around);
        self.session.begin(limits, self.now_ms);
        self.link = Some(link);
        (self.heard, self.given_up, self.given_read) = (0, 0, 0);
        self.given.clear();
        self.taken.clear();
        self.number = None;
    }

    /// The session judges the requests under way. The client loses the messages that it holds, and may settle them
    /// all the same.
    fn lost(&mut self, around: &mut Shared) {
        let link = self.link.take().unwrap_or_default();
        self.limit.end();
        let lost = std::mem::take(&mut self.holds).into_iter();
        self.lost.extend(lost.map(|(key, sequence)| (key, link, sequence)));
        let is_flush = |asked: &Asked| matches!(asked.call, Call::Flush(..) | Call::Close(..));
        self.is_doubtful |= self.is_unsure || self.calls.values().any(is_flush);
        let failure = self.closes.take();
        let failure = failure.unwrap_or_else(|| Failure::new(Kind::Unreachable, "the connection was lost"));
        self.session.lost(&failure, self.now_ms);
        self.collect(around);
        for asked in self.calls.values_mut() {
            asked.was_lost = true;
        }
    }

    fn write(&mut self, count_max: usize) -> Vec<u8> {
        let bytes: Vec<u8> = self.session.output().flatten().take(count_max).copied().collect();
        self.session.sent(bytes.len());
        bytes
    }

    fn receive(&mut self, bytes: &[u8]) -> usize {
        if self.closes.is_none()
            && let Err(failure) = self.session.receive(bytes, self.now_ms)
        {
            self.closes = Some(failure);
        }
        bytes.len()
    }

    fn hear(&mut self, around: &mut Shared, link: &Link) {
        around.account.now = Millis(around.ledger.time);
        self.collect(around);
        self.compare(around, link);
    }

    fn act(&mut self, around: &mut Shared) -> &'static str {
        let words = self.act_or_wait(around);
        self.collect(around);
        words
    }

    fn finish(&mut self, around: &mut Shared) {
        self.finish_one_step(around);
        self.collect(around);
    }

    fn is_quiet(&self) -> bool {
        let is_subscribed = self.subscription.is_some_and(|id| self.session.is_subscribed(id));
        is_subscribed
            && !self.has_news
            && self.calls.is_empty()
            && self.holds.is_empty()
            && self.unflushed.is_empty()
            && self.session.output_bytes() == 0
    }
}

fn new_session(is_right: bool) -> Session<u64> {
    let token = if is_right { TOKEN } else { b"guessed" };
    let options = ClientOptions {
        address: "the server".to_owned(),
        timeout: "its timeout".to_owned(),
        client: "simulation".to_owned(),
        token: token.to_vec(),
        hello_ms: 10_000,
        ping_ms: 10_000,
        silence_ms: 30_000,
        again_ms: 250,
    };
    // Only a token that is too long is refused, and these are short.
    Session::new(options, OPEN).unwrap_or_else(|_| new_session(is_right))
}

/// The name of the series of a client.
pub(super) fn series_of(number: usize) -> String {
    format!("series-{number}")
}

/// True for an error that says nothing of the request.
fn is_passing(error: &RemoteError) -> bool {
    matches!(error.code, ErrorCode::Poisoned | ErrorCode::DiskFull | ErrorCode::Storage)
}

/// See [`is_passing`].
fn is_passing_failure(failure: &Failure) -> bool {
    matches!(failure, Failure::Remote(error) if is_passing(error))
}

/// The body of a ping.
const PING_BYTES: &[u8] = b"are you there";
