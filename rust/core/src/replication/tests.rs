//! When a primary that hears nobody lets the others go, and what a node does that an operator asks.

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

/// The first of so many nodes, which was opened now.
fn opened(count: u8) -> Node {
    let others: BTreeSet<NodeId> = nodes(count).into_iter().filter(|node| *node != ME).collect();
    let options = NodeOptions {
        id: ME,
        group: (STREAM, 0),
        random: 1,
        promise: Promise::default(),
        committed: Sequence(1),
        peers: others,
        timing: Timing::default(),
    };
    Node::new(options, 0)
}

fn read(value: &Register) -> Event {
    Event::Read(Some(Reading { coordinator: 1, version: Version(1), value: value.clone() }))
}

/// The value of the swap that is asked for, if one is.
fn swapped(actions: Vec<Action>) -> Option<Register> {
    actions.into_iter().find_map(|action| if let Action::Swap(_, value) = action { Some(value) } else { None })
}

/// The first of so many nodes, which leads and hears no other one, with this register.
fn leading(count: u8, value: &Register) -> Node {
    let mut node = opened(count);
    assert!(swapped(stepped(&mut node, 0, read(value))).is_some());
    stepped(&mut node, 0, Event::Swapped(Version(1), SwapAnswer::Won(1, Version(2))));
    stepped(&mut node, 0, Event::PromiseKept(Epoch(2)));
    node
}

fn of_group(set: BTreeSet<NodeId>, min_copies: usize) -> Register {
    Register { made_for: 1, ..Register::first(STREAM, ME, Epoch(1), min_copies).with_set(set) }
}

/// When a node that leads and hears no other one tries to change the set from this time on, and to which one.
fn lets_go_of(node: &mut Node, from_ms: u64) -> (u64, BTreeSet<NodeId>) {
    let at_each = |now_ms| swapped(stepped(node, now_ms, Event::Tick)).map(|value| (now_ms, value.sync));
    (from_ms..from_ms + 20_000).find_map(at_each).expect("it goes on alone at last")
}

fn lets_go(count: u8, min_copies: usize) -> (u64, BTreeSet<NodeId>) {
    lets_go_of(&mut leading(count, &of_group(nodes(count), min_copies)), 0)
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

/// Answers the swap under way, whose value is then in the register with this version.
fn won(node: &mut Node, version: u64) {
    let answer = SwapAnswer::Won(1, Version(version));
    stepped(node, 0, Event::Swapped(Version(version - 1), answer));
}

fn other(number: u8) -> NodeId {
    NodeId([number; 16])
}

#[test]
fn a_removed_node_leaves_the_set_and_is_counted_no_more() {
    let mut node = leading(3, &of_group(nodes(3), 2));
    let value = swapped(stepped(&mut node, 0, Event::Remove(other(3), false))).expect("a swap");
    assert_eq!((value.sync, value.complete), (nodes(2), nodes(2)));
    assert!(
        node.is_removing(other(3)) && node.copies_known().iter().any(|copy| copy.node == other(3)),
        "until it is won"
    );
    won(&mut node, 3);
    assert!(!node.is_removing(other(3)));
    let known: Vec<NodeId> = node.copies_known().iter().map(|copy| copy.node).collect();
    assert_eq!(known, [other(2)]);
    assert_eq!(lets_go_of(&mut node, 0), (1_000, nodes(1)), "one other node is not enough without the primary");
}

#[test]
fn the_last_other_holder_of_what_was_answered_is_removed_only_if_a_loss_is_accepted() {
    // The second node left while publishes were refused.
    let mut node = leading(2, &of_group(nodes(2), 2).with_set(nodes(1)));
    assert_eq!(swapped(stepped(&mut node, 0, Event::Remove(other(2), false))), None);
    let value = swapped(stepped(&mut node, 0, Event::Remove(other(2), true))).expect("a swap");
    assert_eq!((value.sync, value.complete), (nodes(1), nodes(1)));
    let mut of_three = leading(3, &of_group(nodes(3), 3).with_set(nodes(1)));
    let value = swapped(stepped(&mut of_three, 0, Event::Remove(other(3), false))).expect("a swap");
    assert_eq!(value.complete, nodes(2));
}

#[test]
fn copies_are_demanded_from_the_swap_on_that_an_operator_asked_for() {
    // The second node left while publishes were refused, so it has every message that was answered as stored.
    let mut node = leading(2, &of_group(nodes(2), 2).with_set(nodes(1)));
    assert_eq!(node.register().expect("a register").complete, nodes(2));
    let value = swapped(stepped(&mut node, 0, Event::MinCopies(1))).expect("a swap");
    assert_eq!((value.min_copies, value.complete), (1, nodes(1)), "the second node lacks what is answered from now on");
    assert!(!node.accepts_publishes(), "the swap may be lost");
    won(&mut node, 3);
    assert!(node.register().is_some_and(|known| known.min_copies == 1));
    let value = swapped(stepped(&mut node, 0, Event::MinCopies(2))).expect("a swap");
    assert_eq!((value.min_copies, value.complete), (2, nodes(1)));
}

#[test]
fn a_replica_demands_no_copies_and_nobody_demands_none() {
    let mut node = leading(2, &of_group(nodes(2), 2));
    assert_eq!(swapped(stepped(&mut node, 0, Event::MinCopies(0))), None);
    assert_eq!(swapped(stepped(&mut node, 0, Event::MinCopies(2))), None, "it is so already");
    let mut replica = opened(2);
    stepped(&mut replica, 0, read(&Register { primary: other(2), ..of_group(nodes(2), 2) }));
    assert_eq!(swapped(stepped(&mut replica, 0, Event::MinCopies(1))), None);
}

#[test]
fn a_primary_does_not_remove_itself_and_a_replica_removes_nobody() {
    let mut node = leading(3, &of_group(nodes(3), 2));
    assert_eq!(swapped(stepped(&mut node, 0, Event::Remove(ME, true))), None);
    assert!(!node.is_removing(ME));
    let mut replica = opened(3);
    stepped(&mut replica, 0, read(&Register { primary: other(2), ..of_group(nodes(3), 2) }));
    assert_eq!(swapped(stepped(&mut replica, 0, Event::Remove(other(3), true))), None);
}

#[test]
fn a_removed_node_that_is_there_again_stays() {
    let mut node = leading(3, &of_group(nodes(2), 3));
    assert!(node.register().expect("a register").complete.len() == 2);
    stepped(&mut node, 0, Event::Remove(other(2), true));
    assert!(node.is_removing(other(2)));
    let peers = [other(2), other(3)].into();
    stepped(&mut node, 0, Event::Peers(peers));
    assert!(!node.is_removing(other(2)));
}

/// The claim of a node of three, and its time, if an operator asks for it at first, and the register names the second as the primary.
fn claims(value: &Register, is_promoted: bool) -> Option<(u64, Register)> {
    let mut node = opened(3);
    let value = Register { primary: other(2), ..value.clone() };
    if is_promoted {
        stepped(&mut node, 0, Event::Promote);
    }
    (0..20_000).find_map(|now_ms| {
        stepped(&mut node, now_ms, Event::Tick);
        swapped(stepped(&mut node, now_ms, read(&value))).map(|value| (now_ms, value))
    })
}

#[test]
fn a_node_of_the_set_that_is_promoted_does_not_wait_for_a_long_silence() {
    let value = of_group(nodes(3), 2);
    let (waited_ms, claimed) = claims(&value, false).expect("a claim");
    assert_eq!((waited_ms, &claimed.sync), (3_000, &[ME, other(3)].into()));
    assert_eq!(claims(&value, true), Some((1_000, claimed)));
}

#[test]
fn a_complete_node_that_is_promoted_goes_on_alone() {
    // The first node left the set while publishes were refused.
    let value = Register { sync: [other(2)].into(), complete: nodes(2), ..of_group(nodes(2), 2) };
    assert_eq!(claims(&value, false), None);
    let (waited_ms, claimed) = claims(&value, true).expect("a claim");
    assert_eq!((waited_ms, claimed.primary, claimed.epoch), (1_000, ME, Epoch(2)));
    assert_eq!((claimed.sync, claimed.complete), (nodes(1), nodes(2)));
}

#[test]
fn a_node_that_lacks_what_was_answered_is_not_promoted() {
    let others: BTreeSet<NodeId> = [other(2), other(3)].into();
    let value = Register { sync: others.clone(), complete: others, ..of_group(nodes(3), 2) };
    assert_eq!(claims(&value, true), None);
}

#[test]
fn a_node_that_hears_its_primary_is_not_promoted() {
    let mut node = opened(3);
    let value = Register { primary: other(2), ..of_group(nodes(3), 2) };
    stepped(&mut node, 0, read(&value));
    for now_ms in (0..20_000).step_by(100) {
        let lead = Message::Lead { epoch: Epoch(1), attempt: 1, seen: (1, Version(1)) };
        stepped(&mut node, now_ms, Event::Received(other(2), lead));
        stepped(&mut node, now_ms, Event::Promote);
        assert_eq!(swapped(stepped(&mut node, now_ms, read(&value))), None, "{now_ms}");
    }
}

#[test]
fn a_primary_whose_group_goes_on_as_a_later_timeline_leads_no_more() {
    let mut node = leading(2, &of_group(nodes(2), 2));
    let later = Register { timeline: 1, primary: other(3), ..of_group([other(3)].into(), 2) };
    let elsewhere = Reading { coordinator: 2, version: Version(9), value: later.clone() };
    stepped(&mut node, 0, Event::Read(Some(elsewhere)));
    assert!(!node.is_superseded() && node.role() == RoleName::Promoting, "it is the register of another coordinator");
    let reading = Reading { coordinator: 1, version: Version(9), value: later };
    let actions = stepped(&mut node, 0, Event::Read(Some(reading)));
    assert!(node.is_superseded() && actions.contains(&Action::Became(RoleName::Replica)), "{actions:?}");
}

/// A register that was restored from a backup: it was made for the coordinator 1, and the coordinator 2 has it.
fn backup(value: &Register, made_for: u64) -> Event {
    let value = Register { made_for, ..value.clone() };
    Event::Read(Some(Reading { coordinator: 2, version: Version(1), value }))
}

/// A node that has seen the coordinator 1 and promised the epoch 5, and hears no primary.
fn waiting() -> Node {
    let mut node = opened(3);
    let lead = Message::Lead { epoch: Epoch(5), attempt: 1, seen: (1, Version(7)) };
    stepped(&mut node, 0, Event::Received(other(2), lead));
    stepped(&mut node, 20_000, Event::Tick);
    node
}

#[test]
fn a_node_that_is_confirmed_after_a_restore_goes_on_alone() {
    let mut node = waiting();
    let value = of_group(nodes(3), 2);
    assert_eq!(swapped(stepped(&mut node, 20_000, backup(&value, 1))), None);
    assert!(node.awaits_confirmation() && node.foreign_reading().is_some_and(|reading| node.is_restored(reading)));
    stepped(&mut node, 20_000, Event::Confirm(3));
    assert_eq!(swapped(stepped(&mut node, 20_000, backup(&value, 1))), None, "another coordinator was confirmed");
    stepped(&mut node, 20_000, Event::Confirm(2));
    let claimed = swapped(stepped(&mut node, 20_000, backup(&value, 1))).expect("a claim");
    assert_eq!((claimed.primary, claimed.epoch, claimed.made_for), (ME, Epoch(1_005), 2));
    assert_eq!((&claimed.sync, &claimed.complete), (&nodes(1), &nodes(1)));
    let actions = stepped(&mut node, 20_000, Event::Swapped(Version(1), SwapAnswer::Won(2, Version(2))));
    let promise = Promise { epoch: Epoch(1_005), seen: (2, Version(2)) };
    assert!(actions.contains(&Action::KeepPromise(promise)) && !node.awaits_confirmation(), "{actions:?}");
}

#[test]
fn a_confirmation_that_was_long_ago_counts_no_more() {
    let mut node = waiting();
    stepped(&mut node, 20_000, Event::Confirm(2));
    assert_eq!(swapped(stepped(&mut node, 29_000, backup(&of_group(nodes(3), 2), 1))), None);
}

#[test]
fn a_second_node_that_is_confirmed_follows_the_first() {
    let mut node = waiting();
    let first = Register { epoch: Epoch(1_005), primary: other(2), ..of_group([other(2)].into(), 2) };
    stepped(&mut node, 20_000, Event::Confirm(2));
    assert_eq!(swapped(stepped(&mut node, 20_000, backup(&first, 2))), None);
    assert!(!node.awaits_confirmation());
    assert_eq!(node.register().map(|value| value.primary), Some(other(2)));
}

#[test]
fn a_confirmed_register_that_is_older_than_the_promise_is_not_believed() {
    let mut node = waiting();
    let first = Register { epoch: Epoch(4), primary: other(2), ..of_group([other(2)].into(), 2) };
    stepped(&mut node, 20_000, backup(&first, 2));
    assert!(node.awaits_confirmation());
    let lead = Message::Lead { epoch: Epoch(6), attempt: 1, seen: (2, Version(3)) };
    stepped(&mut node, 20_000, Event::Received(other(2), lead));
    assert!(!node.awaits_confirmation() && node.coordinator() == 2, "its primary leads in a new epoch");
}

#[test]
fn a_new_node_does_not_believe_a_backup() {
    let mut node = opened(3);
    assert_eq!(swapped(stepped(&mut node, 0, backup(&of_group(nodes(3), 2), 1))), None);
    assert!(node.awaits_confirmation() && node.register().is_none());
}

#[test]
fn a_primary_that_is_confirmed_goes_on_in_its_epoch_with_its_set() {
    let mut node = leading(3, &of_group(nodes(3), 2));
    let old = of_group(nodes(2), 2);
    stepped(&mut node, 0, backup(&old, 1));
    stepped(&mut node, 0, Event::Confirm(2));
    let actions = stepped(&mut node, 0, backup(&old, 1));
    assert!(!actions.contains(&Action::Became(RoleName::Replica)), "{actions:?}");
    let value = swapped(actions).expect("a swap");
    assert_eq!((value.primary, value.epoch, value.made_for), (ME, Epoch(2), 2));
    assert_eq!(value.sync, nodes(3));
    stepped(&mut node, 0, Event::Swapped(Version(1), SwapAnswer::Won(2, Version(2))));
    assert!(!node.awaits_confirmation() && node.role() == RoleName::Promoting && node.coordinator() == 2);
}

/// Two nodes may be further apart than the time between two questions of the primary.
#[test]
fn a_repeated_answer_has_the_number_of_the_first_and_its_end_counts() {
    let mut node = opened(2);
    let lead = || Event::Received(other(2), Message::Lead { epoch: Epoch(3), attempt: 1, seen: (1, Version(1)) });
    let answered = |actions: Vec<Action>| {
        actions.into_iter().find_map(|action| match action {
            Action::Send(_, Message::Promised { answer, .. }) => Some(answer),
            _ => None,
        })
    };
    stepped(&mut node, 0, lead());
    let first = answered(stepped(&mut node, 0, Event::PromiseKept(Epoch(3)))).expect("an answer");
    assert_eq!(answered(stepped(&mut node, 100, lead())), Some(first));
    let end = Message::Match { epoch: Epoch(3), attempt: 1, answer: first, last_epoch: Epoch(1), end: Sequence(2) };
    let actions = stepped(&mut node, 150, Event::Received(other(2), end));
    assert!(actions.iter().any(|action| matches!(action, Action::Send(_, Message::Synced { .. }))), "{actions:?}");
    stepped(&mut node, 200, Event::AppendRefused);
    let again = Message::Lead { epoch: Epoch(3), attempt: 2, seen: (1, Version(1)) };
    assert_ne!(
        answered(stepped(&mut node, 200, Event::Received(other(2), again))),
        Some(first),
        "the log may have grown"
    );
}

#[test]
fn the_standstill_of_a_replica_is_no_silence_of_its_primary() {
    let value = of_group(nodes(3), 2);
    let claims_after = |standstill_ms: u64| {
        let mut node = opened(3);
        let value = Register { primary: other(2), ..value.clone() };
        stepped(&mut node, 0, read(&value));
        stepped(&mut node, 2_900, Event::StoodStill(standstill_ms));
        swapped(stepped(&mut node, 3_000, read(&value))).is_some()
    };
    assert!(claims_after(0), "the primary was silent for three seconds");
    assert!(!claims_after(2_000));
}

#[test]
fn the_standstill_of_a_primary_is_no_silence_of_the_others() {
    let value = of_group(nodes(3), 1);
    let lets_go_at = |standstill_ms: u64| {
        let mut node = leading(3, &value);
        stepped(&mut node, standstill_ms, Event::StoodStill(standstill_ms));
        lets_go_of(&mut node, standstill_ms).0
    };
    assert_eq!(lets_go_at(20_000), lets_go_at(0) + 20_000);
}
