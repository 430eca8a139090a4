//! Batches on their way to other nodes: what each node is to get next. A node that cannot take more now gets the rest later, and
//! nothing is read twice for that.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use delaymq_core::record::batch::BatchHeader;
use delaymq_core::replication::NodeId;
use delaymq_core::units::{Epoch, Sequence};

/// The most bytes of batches in one message, except for a single batch that is larger.
pub(crate) const SHIPMENT_BYTES_MAX: usize = 1 << 20;
/// A node that lacks a batch asks for it each time that a later one comes. Within this time, only the first question counts.
const AGAIN_WITHIN: Duration = Duration::from_millis(100);

/// The part of the log that one node is to get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shipping {
    pub(crate) epoch: Epoch,
    pub(crate) attempt: u64,
    /// The first sequence that was not sent.
    pub(crate) next: Sequence,
    /// Where it was set back to, and when.
    set_back: Option<(Sequence, Instant)>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Shipments {
    of: BTreeMap<NodeId, Shipping>,
}

impl Shipments {
    /// The node is to get the log from `first` on.
    pub(crate) fn begin(&mut self, node: NodeId, (epoch, attempt): (Epoch, u64), first: Sequence, now: Instant) {
        let new = Shipping { epoch, attempt, next: first, set_back: None };
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

    /// The nodes that lack something of a log that ends before `end`.
    pub(crate) fn waiting(&self, end: Sequence) -> Vec<(NodeId, Shipping)> {
        let lacks = |(_, shipping): &(&NodeId, &Shipping)| shipping.next < end;
        self.of.iter().filter(lacks).map(|(node, shipping)| (*node, *shipping)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId([1; 16]);
    const EXCHANGE: (Epoch, u64) = (Epoch(3), 7);

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
        assert!(shipments.waiting(Sequence(70)).is_empty());
        assert_eq!(shipments.waiting(Sequence(71)).len(), 1);
    }
}
