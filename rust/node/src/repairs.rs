//! Messages whose payload the disk of this node has damaged, and the other nodes that are asked for them, one after the other.
//!
//! A caller of the store that leads waits for a message that it is to hand over. A message that came damaged from the primary is
//! waited for by nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use delaymq_core::replication::{NodeId, WantedRecord};
use delaymq_core::store::DamagedMessage;
use delaymq_core::units::{DueKey, Location, Sequence};

/// A node that has not answered after so long is not waited for any more.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// The other nodes are asked for so many messages at once: each answer may have to read much.
const ASKED_MAX: usize = 4;
/// A message that nobody waits for is asked for again after so long: a node that has it whole may be connected then.
const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// So many messages wait for their turn. More stay damaged until they are handed over.
const WAITING_MAX: usize = 10_000;

/// A message that was found to be damaged.
pub(crate) struct Damage {
    pub(crate) sequence: Sequence,
    pub(crate) location: Location,
    /// The key of its entry. `None` for a message that was just appended.
    pub(crate) key: Option<DueKey>,
    /// Who waits until it is whole or stays damaged, which is what `false` says.
    pub(crate) told: Option<Sender<bool>>,
}

struct Repair {
    message: DamagedMessage,
    asked: BTreeSet<NodeId>,
    /// The node that was asked last and has not answered, and when it was asked.
    awaited: Option<(NodeId, Instant)>,
    /// When the nodes are asked again. `None` before all of them were asked once.
    again: Option<Instant>,
    told: Vec<Sender<bool>>,
}

/// What is to be done next.
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Next {
    /// Nodes to ask.
    pub(crate) asks: Vec<(NodeId, WantedRecord)>,
    /// Messages that no other node has whole, each named once.
    pub(crate) given_up: Vec<Sequence>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Repairs {
    of: BTreeMap<Sequence, Repair>,
}

impl Repairs {
    /// The message is to be asked for.
    pub(crate) fn begin(&mut self, message: DamagedMessage, told: Option<Sender<bool>>) {
        if self.of.len() >= WAITING_MAX {
            return;
        }
        let new = || Repair { message, asked: BTreeSet::new(), awaited: None, again: None, told: Vec::new() };
        let repair = self.of.entry(message.record.sequence).or_insert_with(new);
        if told.is_some() {
            repair.again = None;
        }
        repair.told.extend(told);
    }

    /// Asks the first of these nodes that was not asked for a message, for each message that waits for no answer.
    pub(crate) fn next(&mut self, nodes: &[NodeId], now: Instant) -> Next {
        let mut next = Next::default();
        for repair in self.of.values_mut() {
            if repair.awaited.is_some_and(|(_, asked)| now.duration_since(asked) >= ANSWER_WITHIN) {
                repair.awaited = None;
            }
        }
        let mut awaited = self.of.values().filter(|repair| repair.awaited.is_some()).count();
        let is_due = |repair: &Repair| repair.awaited.is_none() && repair.again.is_none_or(|again| now >= again);
        let mut ended = Vec::new();
        for (sequence, repair) in self.of.iter_mut().filter(|(_, repair)| is_due(repair)) {
            let Some(node) = nodes.iter().find(|node| !repair.asked.contains(node)) else {
                if repair.again.is_none() {
                    next.given_up.push(*sequence);
                }
                if repair.told.is_empty() {
                    repair.asked.clear();
                    repair.again = now.checked_add(AGAIN_AFTER);
                } else {
                    ended.push(*sequence);
                }
                continue;
            };
            if awaited < ASKED_MAX {
                awaited = awaited.saturating_add(1);
                repair.asked.insert(*node);
                repair.awaited = Some((*node, now));
                next.asks.push((*node, repair.message.wanted));
            }
        }
        for sequence in ended {
            self.end(sequence, false);
        }
        next
    }

    /// A node has answered. Returns the message if this node was asked for it, and is waited for.
    pub(crate) fn answered(&mut self, node: NodeId, sequence: Sequence) -> Option<DamagedMessage> {
        let repair = self.of.get_mut(&sequence)?;
        repair.awaited.take_if(|(awaited, _)| *awaited == node).map(|_| repair.message)
    }

    /// The message is whole, or stays damaged.
    pub(crate) fn end(&mut self, sequence: Sequence, is_whole: bool) {
        for told in self.of.remove(&sequence).into_iter().flat_map(|repair| repair.told) {
            // The caller may have gone on without it.
            let _gone = told.send(is_whole);
        }
    }

    /// The places of messages may be others from now on.
    pub(crate) fn clear(&mut self) {
        self.of.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use delaymq_core::message_log::DamagedPayload;
    use delaymq_core::units::{Millis, SegmentNumber};

    use super::*;

    const NODES: [NodeId; 2] = [NodeId([1; 16]), NodeId([2; 16])];

    fn damaged(number: u64) -> DamagedMessage {
        let (sequence, record_check) = (Sequence(number), 7);
        let location = Location::in_segment(SegmentNumber(1), 4_096);
        let key = DueKey { due: Millis(5), sequence };
        DamagedMessage {
            record: DamagedPayload { sequence, record_check, location },
            wanted: WantedRecord { sequence, record_check, first_due: Millis(5), key },
        }
    }

    fn begun(numbers: std::ops::Range<u64>) -> (Repairs, Receiver<bool>) {
        let (mut repairs, (told, is_over)) = (Repairs::default(), channel());
        for number in numbers {
            repairs.begin(damaged(number), Some(told.clone()));
        }
        (repairs, is_over)
    }

    fn asked(next: &Next) -> Vec<(NodeId, u64)> {
        next.asks.iter().map(|(node, wanted)| (*node, wanted.sequence.0)).collect()
    }

    #[test]
    fn one_node_after_the_other_is_asked_until_one_has_it() {
        let (mut repairs, is_over) = begun(9..10);
        let now = Instant::now();
        assert_eq!(asked(&repairs.next(&NODES, now)), [(NODES[0], 9)]);
        assert_eq!(repairs.next(&NODES, now), Next::default(), "the answer is awaited");
        assert_eq!(repairs.answered(NODES[1], Sequence(9)), None, "it was not asked");
        assert_eq!(repairs.answered(NODES[0], Sequence(9)), Some(damaged(9)));
        assert_eq!(asked(&repairs.next(&NODES, now)), [(NODES[1], 9)]);
        assert_eq!(repairs.answered(NODES[1], Sequence(9)), Some(damaged(9)));
        assert!(is_over.try_recv().is_err(), "the caller waits");
        repairs.end(Sequence(9), true);
        assert_eq!(is_over.try_recv(), Ok(true));
        assert_eq!(repairs.answered(NODES[1], Sequence(9)), None);
    }

    #[test]
    fn a_message_that_no_node_has_is_given_up() {
        let (mut repairs, is_over) = begun(9..10);
        let now = Instant::now();
        repairs.next(&NODES[..1], now);
        repairs.answered(NODES[0], Sequence(9));
        assert_eq!(repairs.next(&NODES[..1], now).given_up, [Sequence(9)]);
        assert_eq!(is_over.try_recv(), Ok(false));
    }

    #[test]
    fn a_node_that_does_not_answer_is_passed_over() {
        let (mut repairs, is_over) = begun(9..10);
        let now = Instant::now();
        repairs.next(&NODES, now);
        assert_eq!(asked(&repairs.next(&NODES, now + ANSWER_WITHIN)), [(NODES[1], 9)]);
        assert_eq!(repairs.answered(NODES[0], Sequence(9)), None, "too late");
        let given_up = repairs.next(&NODES, now + ANSWER_WITHIN * 2).given_up;
        assert_eq!((given_up, is_over.try_recv()), (vec![Sequence(9)], Ok(false)));
    }

    #[test]
    fn a_message_that_nobody_waits_for_is_asked_for_again_and_reported_once() {
        let (mut repairs, now) = (Repairs::default(), Instant::now());
        repairs.begin(damaged(9), None);
        assert_eq!(repairs.next(&[], now).given_up, [Sequence(9)], "no node is connected");
        assert_eq!(repairs.next(&NODES, now), Next::default());
        let later = now + AGAIN_AFTER;
        assert_eq!(asked(&repairs.next(&NODES[..1], later)), [(NODES[0], 9)]);
        assert_eq!(repairs.answered(NODES[0], Sequence(9)), Some(damaged(9)));
        assert_eq!(repairs.next(&NODES[..1], later), Next::default(), "it was reported");
        // A caller does not wait for half a minute.
        let (told, is_over) = channel();
        repairs.begin(damaged(9), Some(told));
        assert_eq!(asked(&repairs.next(&NODES, later)), [(NODES[0], 9)]);
        repairs.answered(NODES[0], Sequence(9));
        repairs.end(Sequence(9), true);
        assert_eq!(is_over.try_recv(), Ok(true));
    }

    #[test]
    fn few_messages_are_asked_for_at_once_and_the_others_follow() {
        let (mut repairs, _is_over) = begun(1..7);
        let now = Instant::now();
        assert_eq!(repairs.next(&NODES, now).asks.len(), ASKED_MAX);
        repairs.answered(NODES[0], Sequence(2));
        repairs.end(Sequence(2), true);
        assert_eq!(asked(&repairs.next(&NODES, now)), [(NODES[0], 5)]);
    }

    #[test]
    fn a_caller_does_not_wait_for_a_node_that_has_ended() {
        let (mut repairs, is_over) = begun(1..2);
        repairs.clear();
        assert!(is_over.recv().is_err());
    }
}
