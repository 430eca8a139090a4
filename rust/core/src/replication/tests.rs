//! When a primary that hears nobody lets the others go.

use std::collections::BTreeSet;

use super::*;
use crate::units::{Epoch, Sequence};

const STREAM: [u8; 16] = [7; 16];
const ME: NodeId = NodeId([1; 16]);

/// A log that never grows.
struct Still;

impl LogView for Still {
    fn history(&self) -> History {
        History::default()
    }

    fn end(&self) -> Sequence {
        Sequence(2)
    }

    fn durable(&self) -> Sequence {
        Sequence(2)
    }
}

fn nodes(count: u8) -> BTreeSet<NodeId> {
    (1..=count).map(|number| NodeId([number; 16])).collect()
}

fn stepped(node: &mut Node, now_ms: u64, event: Event) -> Vec<Action> {
    let mut out = Vec::new();
    node.step(now_ms, &Still, event, &mut out);
    out
}

/// When the first of so many nodes, which leads and hears no other one, tries to change the set, and to which one.
fn lets_go(count: u8, min_copies: usize) -> (u64, BTreeSet<NodeId>) {
    let others: BTreeSet<NodeId> = nodes(count).into_iter().filter(|node| *node != ME).collect();
    let (group, promise) = ((STREAM, 0), Promise::default());
    let options = NodeOptions {
        id: ME,
        group,
        random: 1,
        promise,
        committed: Sequence(1),
        peers: others,
        timing: Timing::default(),
    };
    let mut node = Node::new(options, 0);
    let value = Register::first(STREAM, ME, Epoch(1), min_copies).with_set(nodes(count));
    let reading = Reading { coordinator: 1, version: Version(1), value };
    let claim = stepped(&mut node, 0, Event::Read(Some(reading)));
    assert!(matches!(&claim[..], [Action::Swap(Version(1), _)]), "{claim:?}");
    stepped(&mut node, 0, Event::Swapped(Version(1), SwapAnswer::Won(1, Version(2))));
    stepped(&mut node, 0, Event::PromiseKept(Epoch(2)));
    let swapped = |action| if let Action::Swap(_, value) = action { Some(value.sync) } else { None };
    let at_each = |now_ms| {
        let set = stepped(&mut node, now_ms, Event::Tick).into_iter().find_map(swapped);
        set.map(|set| (now_ms, set))
    };
    (0..20_000).find_map(at_each).expect("it goes on alone at last")
}

#[test]
fn a_primary_leaves_time_to_others_that_are_enough_without_it() {
    assert_eq!(lets_go(3, 2), (9_000, nodes(1)));
}

#[test]
fn a_primary_that_is_enough_or_the_only_one_that_can_be_lets_the_others_go_soon() {
    assert_eq!(lets_go(3, 1), (1_000, nodes(1)));
    assert_eq!(lets_go(2, 2), (1_000, nodes(1)));
    assert_eq!(lets_go(3, 3), (1_000, nodes(1)));
}
