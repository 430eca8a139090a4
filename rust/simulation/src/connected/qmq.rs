//! A client of QMQ. It sends, pulls and acknowledges under a name that survives its own restarts and the server's. It
//! writes and reads its frames here, and reports the answers to the ledger.

mod answers;
mod requests;

use std::collections::{BTreeMap, VecDeque};

use delaymq_core::error::Result;
use delaymq_core::queues::tags::Filter;
use delaymq_core::wire::client::caller::CallerLimits;
use delaymq_core::wire::frame::{Header, put_frame};
use delaymq_core::wire::qmq::pull::ConsumerName;

use super::ledger::{Ledger, Mark, Place};
use super::link::{Link, LinkId};
use super::users::{Shared, User};

/// A request under way.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Call {
    /// Messages, and those among them whose check is wrong.
    Send {
        numbers: Vec<u64>,
        damaged: Vec<u64>,
        is_nack: bool,
    },
    Pull {
        received: Option<u64>,
        was_level: bool,
    },
    Acknowledge {
        first: u64,
        last: u64,
    },
    /// A repeated acknowledgement.
    Repeat,
    Heartbeat,
    Register,
    /// A reset, by its number in the ledger.
    Manage {
        reset: usize,
    },
}

/// The subject that a client consumes, and how it does so.
#[derive(Clone, Debug)]
pub(super) struct Wants {
    pub(super) place: Place,
    pub(super) filters: Vec<Filter>,
    /// The version of its pulls and acknowledgements.
    pub(super) version: i16,
    pub(super) pulls_max: usize,
    /// It never dies, so that all messages are finished at the end.
    pub(super) is_immortal: bool,
    /// It has a group of its own.
    pub(super) is_broadcast: bool,
    /// It resets its group now and then.
    pub(super) resets: bool,
}

/// See the module.
pub(super) struct QmqClient {
    name: String,
    wants: Wants,
    link: Option<LinkId>,
    is_dead: bool,
    output: VecDeque<u8>,
    input: Vec<u8>,
    next_opaque: i32,
    calls: BTreeMap<i32, (Call, Mark)>,
    received: Option<u64>,
    /// All messages that were given to it have arrived.
    is_level: bool,
    /// Messages that are not acknowledged, by offset.
    held: BTreeMap<u64, u64>,
    /// Acknowledgements to repeat in order, since no answer came.
    again: VecDeque<(u64, u64)>,
    /// Messages to send again, since no answer came.
    unsent: Vec<u64>,
    /// All ranges that it ever acknowledged.
    acknowledged: Vec<(u64, u64)>,
    /// The latest time in an answer to a registration.
    registered_at: i64,
}

impl QmqClient {
    pub(super) fn new(number: usize, wants: Wants) -> Self {
        Self {
            name: format!("consumer {number}"),
            wants,
            link: None,
            is_dead: false,
            output: VecDeque::new(),
            input: Vec::new(),
            next_opaque: 1,
            calls: BTreeMap::new(),
            received: None,
            is_level: false,
            held: BTreeMap::new(),
            again: VecDeque::new(),
            unsent: Vec::new(),
            acknowledged: Vec::new(),
            registered_at: 0,
        }
    }

    /// Forgets the messages that it received. It still repeats acknowledgements that were not answered.
    fn begin_anew(&mut self) {
        self.received = None;
        self.is_level = false;
        for (call, _) in self.calls.values_mut() {
            if let Call::Pull { was_level, .. } = call {
                *was_level = false;
            }
        }
        self.held.clear();
    }

    fn ask(
        &mut self,
        ledger: &mut Ledger,
        (command, version): (i16, i16),
        call: Call,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) {
        let opaque = self.next_opaque;
        self.next_opaque = opaque.wrapping_add(1);
        let mut frame = Vec::new();
        match put_frame(&mut frame, Header::request(command, version, opaque), fill) {
            Ok(()) => {
                self.output.extend(frame);
                self.calls.insert(opaque, (call, ledger.mark()));
            }
            Err(error) => ledger.blame(format!("{call:?} has no frame: {error}")),
        }
    }

    fn pulls(&self) -> usize {
        self.calls.values().filter(|(call, _)| matches!(call, Call::Pull { .. })).count()
    }
}

impl User for QmqClient {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_of_qmq(&self) -> bool {
        true
    }

    fn is_dead(&self) -> bool {
        self.is_dead
    }

    fn link(&self) -> Option<LinkId> {
        self.link
    }

    fn connect(&mut self, _: &mut Shared, link: LinkId, _: CallerLimits) {
        self.link = Some(link);
        self.output.clear();
        self.input.clear();
    }

    /// The outcome of the requests under way is not known. Sometimes the client has ended as well, and begins again
    /// under its name without its memory.
    fn lost(&mut self, around: &mut Shared) {
        self.link = None;
        (self.is_level, self.registered_at) = (false, 0);
        let mut lost: Vec<(u64, u64)> = Vec::new();
        for (call, mark) in std::mem::take(&mut self.calls).into_values() {
            match call {
                Call::Send { numbers, is_nack: false, .. } if around.chance.percent(70) => self.unsent.extend(numbers),
                Call::Acknowledge { first, last } => lost.push((first, last)),
                Call::Pull { .. } => around.ledger.pull_lost(&self.wants.place, mark),
                _ => {}
            }
        }
        lost.extend(std::mem::take(&mut self.again));
        self.again = lost.into();
        if around.chance.percent(25) {
            self.begin_anew();
        }
    }

    fn write(&mut self, count_max: usize) -> Vec<u8> {
        let count = count_max.min(self.output.len());
        self.output.drain(..count).collect()
    }

    fn receive(&mut self, bytes: &[u8]) -> usize {
        self.input.extend_from_slice(bytes);
        bytes.len()
    }

    fn hear(&mut self, around: &mut Shared, _: &Link) {
        self.hear_frames(&mut around.ledger);
    }

    fn act(&mut self, around: &mut Shared) -> &'static str {
        self.act_or_make_sure(around)
    }

    fn finish(&mut self, around: &mut Shared) {
        self.finish_one_step(around);
    }

    fn is_quiet(&self) -> bool {
        let waits = self.calls.values().all(|(call, _)| matches!(call, Call::Pull { .. }));
        self.is_dead || (waits && !self.calls.is_empty() && self.held.is_empty() && self.again.is_empty())
    }
}

fn consumer_name(place: &Place) -> ConsumerName<'_> {
    ConsumerName { subject: &place.subject, group: &place.of.1, consumer: &place.consumer }
}

/// The number that a message's id has.
fn number_of(message_id: &str) -> u64 {
    message_id.strip_prefix("message-").and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn id_of(number: u64) -> String {
    format!("message-{number}")
}
