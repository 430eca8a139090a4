//! One client of QMQ with one connection at a time. It sends, pulls and acknowledges under a name that survives its own
//! restarts and the server's. Its frames are made and read here, and what it is told goes to the ledger.

mod answers;
mod requests;

use std::collections::{BTreeMap, VecDeque};

use delaymq_core::error::Result;
use delaymq_core::queues::tags::Filter;
use delaymq_core::wire::frame::{Header, put_frame};
use delaymq_core::wire::qmq::pull::ConsumerName;

use super::account::LinkId;
use super::ledger::{Ledger, Mark, Place};
use crate::chance::Chance;

/// What is under way, and what was true when it was asked.
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
    /// An acknowledgement once more that was made before.
    Repeat,
    Heartbeat,
    Register,
    /// A reset, by its number in the ledger.
    Manage {
        reset: usize,
    },
}

/// What is consumed, and how.
#[derive(Clone, Debug)]
pub(super) struct Wants {
    pub(super) place: Place,
    pub(super) filters: Vec<Filter>,
    /// Of its pulls and acknowledgements.
    pub(super) version: i16,
    pub(super) pulls_max: usize,
    /// It lives to the end, so that somebody finishes all.
    pub(super) is_immortal: bool,
    /// It asks for its group to begin again now and then.
    pub(super) resets: bool,
}

/// See the module.
pub(super) struct QmqClient {
    pub(super) wants: Wants,
    link: Option<LinkId>,
    pub(super) is_dead: bool,
    output: VecDeque<u8>,
    input: Vec<u8>,
    next_opaque: i32,
    calls: BTreeMap<i32, (Call, Mark)>,
    received: Option<u64>,
    /// Whatever was given to it has come.
    is_level: bool,
    /// Not acknowledged, by offset.
    held: BTreeMap<u64, u64>,
    /// Acknowledgements without an answer, to be made again in their order.
    again: VecDeque<(u64, u64)>,
    /// Sent without an answer, to be sent again.
    unsent: Vec<u64>,
    /// Ranges that it acknowledged at some time.
    acknowledged: Vec<(u64, u64)>,
    /// The latest time that a registration was answered with.
    registered_at: i64,
}

/// What an action may use beside the client itself.
pub(super) struct QmqSurroundings<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) chance: &'a mut Chance,
    pub(super) now: u64,
    pub(super) subjects: &'a [String],
    pub(super) next_number: &'a mut u64,
    /// Percent of the messages whose check is wrong.
    pub(super) damaged_percent: u64,
}

impl QmqClient {
    pub(super) fn new(wants: Wants) -> Self {
        Self {
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

    pub(super) fn link(&self) -> Option<LinkId> {
        self.link
    }

    pub(super) fn connect(&mut self, link: LinkId) {
        self.link = Some(link);
        self.output.clear();
        self.input.clear();
    }

    /// True where it holds nothing and waits for nothing but messages.
    pub(super) fn is_quiet(&self) -> bool {
        let waits = self.calls.values().all(|(call, _)| matches!(call, Call::Pull { .. }));
        self.is_dead || (waits && !self.calls.is_empty() && self.held.is_empty() && self.again.is_empty())
    }

    /// Up to so many bytes that are to be written.
    pub(super) fn write(&mut self, count_max: usize) -> Vec<u8> {
        let count = count_max.min(self.output.len());
        self.output.drain(..count).collect()
    }

    /// The connection is lost: of what was under way nobody knows what became of it. Sometimes the client
    /// itself has ended, and begins again under its name, knowing nothing.
    pub(super) fn lost(&mut self, ledger: &mut Ledger, chance: &mut Chance) {
        self.link = None;
        (self.is_level, self.registered_at) = (false, 0);
        let mut lost: Vec<(u64, u64)> = Vec::new();
        for (call, mark) in std::mem::take(&mut self.calls).into_values() {
            match call {
                Call::Send { numbers, is_nack: false, .. } if chance.percent(70) => self.unsent.extend(numbers),
                Call::Acknowledge { first, last } => lost.push((first, last)),
                Call::Pull { .. } => ledger.pull_lost(&self.wants.place, mark),
                _ => {}
            }
        }
        lost.extend(std::mem::take(&mut self.again));
        self.again = lost.into();
        if chance.percent(25) {
            self.begin_anew();
        }
    }

    /// It knows nothing any more of what it received; what it had acknowledged it makes sure of.
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

    fn name(&self) -> ConsumerName<'_> {
        let Place { subject, of, consumer } = &self.wants.place;
        ConsumerName { subject, group: &of.1, consumer }
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

/// The number that a message's id has.
fn number_of(message_id: &str) -> u64 {
    message_id.strip_prefix("message-").and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn id_of(number: u64) -> String {
    format!("message-{number}")
}
