//! The files of loads that this node sends while it is the primary, and which copies have them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use delaymq_core::replication::{LoadCopy, LoadMessage, Message, NodeId};
use delaymq_engine::{CopyCount, LoadOffer};

use crate::snapshot::outgoing::Exchange;

/// A copy that has not said that it has the files is asked again after so long: its answer may be lost, or it was busy.
const OFFER_AGAIN_AFTER: Duration = Duration::from_millis(500);
/// A load is refused if no copy that must have its files asks for a part, or says that it has them, for so long.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// The outcome of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// All copies that must have its files have them.
    Held,
    /// So many copies have them, and so many must.
    Refused(CopyCount),
}

struct Offer {
    held: BTreeSet<NodeId>,
    asked: BTreeMap<NodeId, (Exchange, Instant)>,
    /// When a copy that must have the files was last heard of.
    heard: Instant,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Outgoing {
    offers: BTreeMap<u64, Offer>,
}

impl Outgoing {
    /// The copies that are to be asked now to hold files.
    pub(crate) fn asks(&mut self, waiting: &[LoadOffer], copies: &[LoadCopy], now: Instant) -> Vec<(NodeId, Message)> {
        let numbers: BTreeSet<u64> = waiting.iter().map(|load| load.number).collect();
        self.offers.retain(|number, _| numbers.contains(number));
        let mut asks = Vec::new();
        for load in waiting {
            let new = || Offer { held: BTreeSet::new(), asked: BTreeMap::new(), heard: now };
            let offer = self.offers.entry(load.number).or_insert_with(new);
            for copy in copies.iter().filter(|copy| !offer.held.contains(&copy.node)) {
                let Some(exchange) = copy.exchange else { continue };
                let is_early = |(known, when): &(Exchange, Instant)| {
                    *known == exchange && now.duration_since(*when) < OFFER_AGAIN_AFTER
                };
                if offer.asked.get(&copy.node).is_some_and(is_early) {
                    continue;
                }
                offer.asked.insert(copy.node, (exchange, now));
                let message = LoadMessage::Hold { number: load.number, runs: load.runs.to_vec() };
                asks.push((copy.node, Message::Load { epoch: exchange.0, attempt: exchange.1, message }));
            }
        }
        asks
    }

    /// The loads that need not wait any more.
    pub(crate) fn answers(&self, copies: &[LoadCopy], now: Instant) -> Vec<(u64, Answer)> {
        let counted: BTreeSet<NodeId> = copies.iter().filter(|copy| copy.is_counted).map(|copy| copy.node).collect();
        let answer = |(number, offer): (&u64, &Offer)| {
            if counted.is_subset(&offer.held) {
                return Some((*number, Answer::Held));
            }
            let is_stalled = now.duration_since(offer.heard) >= STALLED_AFTER;
            // This node has them.
            let copies = counted.intersection(&offer.held).count().saturating_add(1);
            let count = CopyCount { copies, min_copies: counted.len().saturating_add(1) };
            is_stalled.then_some((*number, Answer::Refused(count)))
        };
        self.offers.iter().filter_map(answer).collect()
    }

    /// A copy has the files of a load.
    pub(crate) fn is_held(&mut self, node: NodeId, number: u64, now: Instant) {
        if let Some(offer) = self.offers.get_mut(&number) {
            offer.held.insert(node);
            offer.heard = now;
        }
    }

    /// A copy asks for a part of a file.
    pub(crate) fn is_asked_by(&mut self, copy: &LoadCopy, now: Instant) {
        if copy.is_counted {
            self.offers.values_mut().for_each(|offer| offer.heard = now);
        }
    }

    /// This node is no longer the primary.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use delaymq_core::run::{LoadName, StagedRun};
    use delaymq_core::units::{Epoch, Millis};

    use super::*;

    const ONE: NodeId = NodeId([1; 16]);
    const TWO: NodeId = NodeId([2; 16]);
    const EXCHANGE: Exchange = (Epoch(3), 7);

    fn copy(node: NodeId, is_counted: bool) -> LoadCopy {
        LoadCopy { node, exchange: Some(EXCHANGE), is_counted }
    }

    fn waiting() -> [LoadOffer; 1] {
        let name = LoadName { staged: Millis(1), nonce: [1; 16] };
        [LoadOffer { number: 5, runs: [StagedRun { name, length: 1, digest: 2, rows: 3 }].into() }]
    }

    #[test]
    fn a_load_is_held_when_all_that_count_have_it_and_others_are_asked_as_well() {
        let (mut outgoing, now) = (Outgoing::default(), Instant::now());
        let copies = [copy(ONE, true), copy(TWO, false)];
        assert_eq!(outgoing.asks(&waiting(), &copies, now).len(), 2);
        assert_eq!(outgoing.asks(&waiting(), &copies, now).len(), 0, "they were asked");
        assert_eq!(outgoing.answers(&copies, now), []);
        outgoing.is_held(ONE, 5, now);
        assert_eq!(outgoing.answers(&copies, now), [(5, Answer::Held)]);
        assert_eq!(outgoing.asks(&waiting(), &copies, now + OFFER_AGAIN_AFTER).len(), 1, "one has said that it has it");
        assert_eq!(outgoing.asks(&[], &copies, now).len(), 0);
        assert_eq!(outgoing.answers(&copies, now), [], "nobody waits");
    }

    #[test]
    fn a_copy_is_asked_again_in_another_exchange_and_one_that_is_not_matched_is_waited_for() {
        let (mut outgoing, now) = (Outgoing::default(), Instant::now());
        let unmatched = LoadCopy { exchange: None, ..copy(ONE, true) };
        assert_eq!(outgoing.asks(&waiting(), &[unmatched], now).len(), 0);
        assert_eq!(outgoing.answers(&[unmatched], now), []);
        assert_eq!(outgoing.asks(&waiting(), &[copy(ONE, true)], now).len(), 1);
        let later = LoadCopy { exchange: Some((Epoch(3), 8)), ..copy(ONE, true) };
        assert_eq!(outgoing.asks(&waiting(), &[later], now).len(), 1);
        // It leaves the set.
        assert_eq!(outgoing.answers(&[copy(ONE, false)], now), [(5, Answer::Held)]);
    }

    #[test]
    fn a_load_is_refused_when_no_copy_that_counts_asks_for_its_files_for_long() {
        let (mut outgoing, now) = (Outgoing::default(), Instant::now());
        let copies = [copy(ONE, true), copy(TWO, true)];
        outgoing.asks(&waiting(), &copies, now);
        outgoing.is_held(ONE, 5, now + STALLED_AFTER / 2);
        assert_eq!(outgoing.answers(&copies, now + STALLED_AFTER), []);
        let late = now + STALLED_AFTER + STALLED_AFTER / 2;
        assert_eq!(outgoing.answers(&copies, late), [(5, Answer::Refused(CopyCount { copies: 2, min_copies: 3 }))]);
    }
}
