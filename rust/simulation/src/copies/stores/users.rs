//! The users of a machine while it leads: they publish, cancel, consume and acknowledge. They remember what they were answered, and
//! what was handed over to them, also when the machine ends.

use std::collections::BTreeMap;

use delaymq_core::error::Result;
use delaymq_core::store::{Outcome, PullRequest, Receipt, StartAt};
use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis, Sequence};

use super::super::machine::Answered;
use super::loads::{Loads, SUBJECTS};
use crate::chance::Chance;
use crate::ledger::Ledger;
use crate::node::{Due, Handed, NewMessage, Node, Pulled, unless_full};

const GROUP: &str = "workers";
/// The most messages that a consumer has in flight.
const IN_FLIGHT_MAX: u32 = 8;
/// In so many of a hundred publishes there is a load instead.
const LOADED_PERCENT: u64 = 8;
/// The most receipts that are remembered for cancels.
const RECEIPTS_MAX: usize = 40;

/// See the module.
#[derive(Default)]
pub(super) struct Users {
    /// The consumer of each subject, while its machine leads.
    consumers: BTreeMap<usize, (GroupNumber, ConsumerNumber)>,
    /// What was asked for and is not answered: a group or a consumer of a subject, or a cancel.
    asked: BTreeMap<Sequence, Asked>,
    /// Publishes that are not answered: the sequence after each, and its receipts with the check of the body.
    publishes: BTreeMap<Sequence, Vec<(Receipt, u32)>>,
    held: BTreeMap<usize, Vec<u64>>,
    receipts: Vec<Receipt>,
    /// The messages whose publish was answered, each with the check of its body.
    stored: BTreeMap<Sequence, u32>,
    /// The cancels that were answered.
    cancels: BTreeMap<Sequence, Outcome>,
    /// The messages that were handed over, each with the check of its body.
    delivered: BTreeMap<Sequence, u32>,
    acknowledged: u64,
    published: u64,
    loads: Loads,
    /// True if all that is handed over is acknowledged, so that it is finished.
    finish: bool,
    loaded: u64,
    refused: u64,
    unknown: u64,
}

#[derive(Clone, Copy)]
enum Asked {
    Group(usize),
    Consumer(usize, GroupNumber),
    Cancel,
}

impl Users {
    /// With `finish` they acknowledge all that is handed over to them.
    pub(super) fn new(finish: bool) -> Self {
        Self { finish, ..Self::default() }
    }

    /// The machine has ended, or does not lead any more: what is not answered never will be.
    pub(super) fn forget(&mut self) {
        self.consumers.clear();
        self.asked.clear();
        self.publishes.clear();
        self.held.clear();
        self.loads.forget();
    }

    /// One user does something, and the store what is due. Without enough copies, nothing is stored and nothing cancelled.
    pub(super) fn work(
        &mut self,
        (node, true_now, accepts): (&mut Node, Millis, bool),
        chance: &mut Chance,
        violations: &mut Vec<String>,
    ) -> Result<()> {
        if !node.has_begun() {
            return Ok(());
        }
        if node.needs_segment(1) {
            node.prepare()?;
        }
        let subject = usize::from(chance.percent(40));
        match chance.below(10) {
            0..5 if !accepts => self.refused += 1,
            0..4 if chance.percent(LOADED_PERCENT) => self.loads.load(node, chance)?,
            0..4 => self.publish(node, subject, chance)?,
            4 => self.cancel(node, chance)?,
            5..9 => {
                self.consume((node, true_now), subject, violations)?;
                self.acknowledge(node, subject, if self.finish { usize::MAX } else { 0 })?;
            }
            _ => {
                let held = self.held.get(&subject).map_or(0, Vec::len);
                let count = chance.below(held as u64 + 1);
                self.acknowledge(node, subject, usize::try_from(count).unwrap_or(0))?;
            }
        }
        node.step(16).map(drop)
    }

    fn publish(&mut self, node: &mut Node, subject: usize, chance: &mut Chance) -> Result<()> {
        let count = chance.between(1, 4);
        let bodies: Vec<Vec<u8>> = (0..count).map(|place| self.body(place, chance)).collect();
        self.published += count;
        let message = |body| NewMessage {
            subject: SUBJECTS.get(subject).copied().unwrap_or("orders"),
            due: Due::After(0),
            body,
            expires: None,
            meta: b"",
        };
        let due = |chance: &mut Chance| Due::After(chance.one_of(&[0, 1, 300, 5_000, 90_000]));
        let messages: Vec<_> = bodies.iter().map(|body| NewMessage { due: due(chance), ..message(body) }).collect();
        if let Some(published) = unless_full(node.publish(&messages))? {
            let checks = bodies.iter().map(|body| crc32fast::hash(body));
            self.publishes.insert(published.end, published.receipts.into_iter().zip(checks).collect());
        }
        Ok(())
    }

    fn body(&self, place: u64, chance: &mut Chance) -> Vec<u8> {
        let mut body = (self.published + place).to_le_bytes().to_vec();
        body.resize(usize::try_from(chance.between(8, 300)).unwrap_or(8), 7);
        body
    }

    fn cancel(&mut self, node: &mut Node, chance: &mut Chance) -> Result<()> {
        let Some(receipt) = chance.pick(&self.receipts) else { return Ok(()) };
        if !node.may_be_here(receipt)? {
            return Ok(());
        }
        if let Some(sequence) = node.cancel(receipt)? {
            self.asked.insert(sequence, Asked::Cancel);
        }
        Ok(())
    }

    fn consume(
        &mut self,
        (node, true_now): (&mut Node, Millis),
        subject: usize,
        violations: &mut Vec<String>,
    ) -> Result<()> {
        let Some((group, consumer)) = self.consumers.get(&subject).copied() else {
            return self.subscribe(node, subject);
        };
        let request = PullRequest { group, consumer, count_max: 4, in_flight_max: IN_FLIGHT_MAX, beside: 0 };
        let Pulled::Messages(messages, _, _) = node.pull(request, 0)? else { return Ok(()) };
        for Handed { delivery, body, .. } in messages {
            // The clocks of the machines may be wrong, and the nodes have compared them.
            let due = delivery.entry.due();
            if due > true_now {
                violations.push(format!("{} is handed over at {true_now}, early: it is due at {due}", delivery.number));
            }
            self.delivered.insert(delivery.entry.payload_sequence(), crc32fast::hash(&body));
            self.held.entry(subject).or_default().push(delivery.offset.0);
        }
        Ok(())
    }

    fn subscribe(&mut self, node: &mut Node, subject: usize) -> Result<()> {
        let name = SUBJECTS.get(subject).copied().unwrap_or("orders");
        let is_asked = |asked: &Asked| matches!(asked, Asked::Group(of) | Asked::Consumer(of, _) if *of == subject);
        if self.asked.values().any(is_asked) {
            return Ok(());
        }
        let state = node.owner().state();
        let group = state.subjects.number(name).and_then(|number| state.group_named(number, GROUP));
        let (asked, sequence) = match group {
            Some(group) => (Asked::Consumer(subject, group), node.begin_consumer(group, "consumer", 0)?),
            None => (Asked::Group(subject), node.subscribe(name, GROUP, StartAt::Unfinished)?),
        };
        if let Some(sequence) = sequence {
            self.asked.insert(sequence, asked);
        }
        Ok(())
    }

    fn acknowledge(&mut self, node: &mut Node, subject: usize, count_max: usize) -> Result<()> {
        let Some((group, consumer)) = self.consumers.get(&subject).copied() else { return Ok(()) };
        let held = self.held.entry(subject).or_default();
        let mut offsets: Vec<u64> = held.drain(..count_max.min(held.len())).collect();
        offsets.sort_unstable();
        self.acknowledged += offsets.len() as u64;
        if offsets.is_empty() { Ok(()) } else { node.acknowledge(group, consumer, &offsets, 0) }
    }

    /// Users hear the answers to what was applied. With too few copies, a publish may be lost.
    pub(super) fn hear(&mut self, node: &mut Node, is_enough: bool) {
        let applied = node.owner().applied();
        while let Some(published) = self.publishes.first_entry().filter(|first| *first.key() <= applied) {
            let receipts = published.remove();
            if !is_enough {
                self.unknown += 1;
                continue;
            }
            self.stored.extend(receipts.iter().map(|(receipt, check)| (receipt.key.sequence, *check)));
            self.receipts.extend(receipts.into_iter().map(|(receipt, _)| receipt));
        }
        let loaded = self.loads.hear(node, applied);
        if is_enough {
            self.loaded += loaded.len() as u64;
            self.stored.extend(loaded);
        } else {
            self.unknown += u64::from(!loaded.is_empty());
        }
        let surplus = self.receipts.len().saturating_sub(RECEIPTS_MAX);
        self.receipts.drain(..surplus);
        let answered: Vec<Sequence> = self.asked.keys().copied().filter(|sequence| *sequence < applied).collect();
        for sequence in answered {
            let (Some(asked), Some(outcome)) = (self.asked.remove(&sequence), node.take_outcome(sequence)) else {
                continue;
            };
            match (asked, outcome) {
                (Asked::Cancel, _) if !is_enough => self.unknown += 1,
                (Asked::Cancel, outcome) => drop(self.cancels.insert(sequence, outcome)),
                (Asked::Consumer(subject, group), Outcome::Consumer(consumer)) => {
                    self.consumers.insert(subject, (group, consumer));
                }
                // The group is there: its consumer is asked for next.
                _ => {}
            }
        }
    }

    /// How much they were answered.
    pub(super) fn answered(&self) -> Answered {
        let (stored, cancelled) = (self.stored.len() as u64, self.cancels.len() as u64);
        let (delivered, acknowledged) = (self.delivered.len() as u64, self.acknowledged);
        let (refused, unknown, loaded) = (self.refused, self.unknown, self.loaded);
        Answered { stored, loaded, refused, unknown, cancelled, delivered, acknowledged, ..Answered::default() }
    }
}

/// Compares what the users of all machines were answered with the log of the group, in words. With `forgets`, stores may have forgotten
/// what was finished.
pub(super) fn judge<'a>(all: impl Iterator<Item = &'a Users> + Clone, ledger: &Ledger, forgets: bool) -> Vec<String> {
    let mut found = Vec::new();
    let stored: BTreeMap<Sequence, u32> =
        all.clone().flat_map(|users| &users.stored).map(|(at, check)| (*at, *check)).collect();
    let lost = stored.keys().filter(|sequence| !ledger.has_message(**sequence));
    found.extend(lost.map(|lost| format!("{lost} was answered as stored, and is lost")));
    for users in all {
        for (command, outcome) in &users.cancels {
            let is_forgotten = forgets && *outcome == Outcome::NotFound && ledger.may_be_forgotten(*command);
            if ledger.outcome(*command) != Some(*outcome) && !is_forgotten {
                found.push(format!("the cancel {command} was answered with {outcome:?}, and that is not in the log"));
            }
        }
        for (sequence, check) in &users.delivered {
            if !ledger.was_ready(*sequence) {
                found.push(format!("{sequence} was handed over, and was never ready"));
            }
            if stored.get(sequence).is_some_and(|stored| stored != check) {
                found.push(format!("{sequence} was handed over with another body"));
            }
        }
    }
    found
}
