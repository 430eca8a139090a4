//! Batches on their way to other nodes: what each node is to get next, and which thread reads it. The node's thread reads the few batches
//! that a node lacks which has all others, and [`crate::reader`] reads for a node that lags.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use delaymq_core::record::batch::BatchHeader;
use delaymq_core::replication::NodeId;
use delaymq_core::units::{Epoch, Sequence};

use crate::snapshot::outgoing::Exchange;

/// The most bytes of batches in one message, except for a single batch that is larger.
pub(crate) const SHIPMENT_BYTES_MAX: usize = 1 << 20;
/// A node that lacks a batch asks for it each time that a later one comes. Within this time, only the first question counts.
const AGAIN_WITHIN: Duration = Duration::from_millis(100);
/// A node whose connection has no room gets more after so long.
const FULL_FOR: Duration = Duration::from_millis(5);

/// The part of the log that one node is to get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shipping {
    pub(crate) epoch: Epoch,
    pub(crate) attempt: u64,
    /// The first sequence that was not sent.
    pub(crate) next: Sequence,
    /// Where it was set back to, and when.
    set_back: Option<(Sequence, Instant)>,
    /// The reader reads for it.
    pub(crate) lags: bool,
    /// The reader was asked, and has not answered.
    is_asked_for: bool,
    /// There is no room for more until then.
    full_until: Option<Instant>,
}

/// What the reader has done for a node.
pub(crate) struct Shipped {
    pub(crate) node: NodeId,
    pub(crate) exchange: Exchange,
    pub(crate) first: Sequence,
    pub(crate) end: ShipmentEnd,
}

/// How a shipment has ended.
pub(crate) enum ShipmentEnd {
    /// The batches before this sequence were sent. They were fewer than one message can have if the node lags no more.
    Sent { next: Sequence, lags: bool },
    /// There is no room for them now.
    Full,
    /// The node gets no batches for now: it is not connected, gets a snapshot, or they cannot be read or sent.
    Ended,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Shipments {
    of: BTreeMap<NodeId, Shipping>,
}

impl Shipments {
    /// The node is to get the log from `first` on.
    pub(crate) fn begin(&mut self, node: NodeId, (epoch, attempt): (Epoch, u64), first: Sequence, now: Instant) {
        let new =
            Shipping { epoch, attempt, next: first, set_back: None, lags: true, is_asked_for: false, full_until: None };
        let shipping = self.of.entry(node).or_insert(new);
        if (shipping.epoch, shipping.attempt) != (epoch, attempt) {
            *shipping = new;
        } else if first < shipping.next {
            let is_known = |(at, when): (Sequence, Instant)| at == first && now.duration_since(when) < AGAIN_WITHIN;
            if !shipping.set_back.is_some_and(is_known) {
                (shipping.next, shipping.set_back) = (first, Some((first, now)));
            }
        }
    }

    /// The nodes that lack something of a log that ends before `end`, without those for which it is being read, and those that can take
    /// nothing now.
    pub(crate) fn waiting(&self, end: Sequence, now: Instant) -> Vec<(NodeId, Shipping)> {
        let has_room = |shipping: &Shipping| shipping.full_until.is_none_or(|until| now >= until);
        let waits =
            |(_, shipping): &(&NodeId, &Shipping)| shipping.next < end && !shipping.is_asked_for && has_room(shipping);
        self.of.iter().filter(waits).map(|(node, shipping)| (*node, *shipping)).collect()
    }

    /// The node lags: the reader reads for it until it answers that it does no more.
    pub(crate) fn lags(&mut self, node: NodeId) {
        if let Some(shipping) = self.of.get_mut(&node) {
            shipping.lags = true;
        }
    }

    /// The reader was asked to read for this node.
    pub(crate) fn asked_for(&mut self, node: NodeId) {
        if let Some(shipping) = self.of.get_mut(&node) {
            shipping.is_asked_for = true;
        }
    }

    /// The reader has answered. An answer of an earlier exchange changes nothing.
    pub(crate) fn answered(&mut self, shipped: &Shipped, now: Instant) {
        let known = self.of.get_mut(&shipped.node);
        let Some(known) = known.filter(|known| (known.epoch, known.attempt) == shipped.exchange) else { return };
        known.is_asked_for = false;
        match shipped.end {
            // The node may have been set back meanwhile.
            ShipmentEnd::Sent { next, lags } if known.next == shipped.first => {
                (known.next, known.lags, known.full_until) = (next, lags, None);
            }
            ShipmentEnd::Sent { .. } => {}
            ShipmentEnd::Full => known.full_until = Some(now + FULL_FOR),
            ShipmentEnd::Ended => self.end(shipped.node),
        }
    }

    /// Everything before `next` was handed over for this node.
    pub(crate) fn sent(&mut self, node: NodeId, next: Sequence) {
        if let Some(shipping) = self.of.get_mut(&node) {
            shipping.next = next;
        }
    }

    /// The first sequence that was not sent to this node, if it gets any.
    pub(crate) fn next_of(&self, node: NodeId) -> Option<Sequence> {
        self.of.get(&node).map(|shipping| shipping.next)
    }

    /// The node gets nothing more for now.
    pub(crate) fn end(&mut self, node: NodeId) {
        self.of.remove(&node);
    }

    /// No node gets anything more.
    pub(crate) fn clear(&mut self) {
        self.of.clear();
    }
}

/// The sequence after the last fact of these batches, which stand one after the other.
pub(crate) fn end_of(batches: &[u8]) -> Option<Sequence> {
    let (mut rest, mut end) = (batches, None);
    while let Some(header) = BatchHeader::read(rest) {
        end = Some(header.next_sequence());
        rest = rest.get(header.length.get() as usize..).unwrap_or_default();
    }
    end
}

/// True if more batches may follow these, which were read together.
pub(crate) fn is_full(batches: &[u8]) -> bool {
    batches.len() >= SHIPMENT_BYTES_MAX / 4 * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId([1; 16]);
    const EXCHANGE: Exchange = (Epoch(3), 7);

    #[test]
    fn a_node_goes_on_where_it_was_and_is_set_back_once_for_many_questions() {
        let (mut shipments, now) = (Shipments::default(), Instant::now());
        shipments.begin(NODE, EXCHANGE, Sequence(1), now);
        shipments.sent(NODE, Sequence(50));
        shipments.begin(NODE, EXCHANGE, Sequence(60), now);
        assert_eq!(shipments.next_of(NODE), Some(Sequence(50)), "what was not sent must not be passed over");
        shipments.begin(NODE, EXCHANGE, Sequence(10), now);
        assert_eq!(shipments.next_of(NODE), Some(Sequence(10)));
        shipments.sent(NODE, Sequence(50));
        shipments.begin(NODE, EXCHANGE, Sequence(10), now);
        assert_eq!(shipments.next_of(NODE), Some(Sequence(50)), "the same question again");
        shipments.begin(NODE, EXCHANGE, Sequence(10), now + AGAIN_WITHIN);
        assert_eq!(shipments.next_of(NODE), Some(Sequence(10)), "it is still asked for");
    }

    #[test]
    fn another_exchange_begins_anew() {
        let (mut shipments, now) = (Shipments::default(), Instant::now());
        shipments.begin(NODE, EXCHANGE, Sequence(1), now);
        shipments.sent(NODE, Sequence(50));
        shipments.begin(NODE, (Epoch(3), 8), Sequence(70), now);
        assert_eq!(shipments.next_of(NODE), Some(Sequence(70)));
        assert!(shipments.waiting(Sequence(70), now).is_empty());
        assert_eq!(shipments.waiting(Sequence(71), now).len(), 1);
    }

    fn shipped(first: u64, end: ShipmentEnd) -> Shipped {
        Shipped { node: NODE, exchange: EXCHANGE, first: Sequence(first), end }
    }

    #[test]
    fn the_reader_is_asked_once_at_a_time_until_the_node_lags_no_more() {
        let (mut shipments, now, end) = (Shipments::default(), Instant::now(), Sequence(100));
        shipments.begin(NODE, EXCHANGE, Sequence(1), now);
        assert!(shipments.waiting(end, now)[0].1.lags, "nobody knows yet how much it lacks");
        shipments.asked_for(NODE);
        assert!(shipments.waiting(end, now).is_empty());
        shipments.answered(&shipped(1, ShipmentEnd::Sent { next: Sequence(50), lags: true }), now);
        assert_eq!(shipments.waiting(end, now)[0].1.next, Sequence(50));
        shipments.asked_for(NODE);
        shipments.answered(&shipped(50, ShipmentEnd::Full), now);
        assert!(shipments.waiting(end, now).is_empty(), "it has no room");
        let (_, later) = shipments.waiting(end, now + FULL_FOR)[0];
        assert!(later.lags && later.next == Sequence(50));
        shipments.asked_for(NODE);
        shipments.answered(&shipped(50, ShipmentEnd::Sent { next: Sequence(99), lags: false }), now);
        let (_, later) = shipments.waiting(end, now)[0];
        assert!(!later.lags && later.next == Sequence(99));
    }

    #[test]
    fn an_answer_of_the_reader_does_not_pass_over_what_is_asked_for_meanwhile() {
        let (mut shipments, now, end) = (Shipments::default(), Instant::now(), Sequence(100));
        shipments.begin(NODE, EXCHANGE, Sequence(50), now);
        shipments.asked_for(NODE);
        shipments.begin(NODE, EXCHANGE, Sequence(10), now);
        shipments.answered(&shipped(50, ShipmentEnd::Sent { next: Sequence(90), lags: false }), now);
        assert_eq!(shipments.waiting(end, now)[0].1.next, Sequence(10));
    }

    #[test]
    fn an_answer_of_an_earlier_exchange_changes_nothing() {
        let (mut shipments, now, end) = (Shipments::default(), Instant::now(), Sequence(100));
        shipments.begin(NODE, EXCHANGE, Sequence(50), now);
        shipments.begin(NODE, (Epoch(3), 8), Sequence(50), now);
        shipments.asked_for(NODE);
        shipments.answered(&shipped(50, ShipmentEnd::Sent { next: Sequence(90), lags: false }), now);
        shipments.answered(&shipped(50, ShipmentEnd::Ended), now);
        assert!(shipments.waiting(end, now).is_empty(), "it is still read for the later exchange");
        assert_eq!(shipments.next_of(NODE), Some(Sequence(50)));
    }
}
