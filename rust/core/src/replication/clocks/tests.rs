//! Clocks that are measured and compared, and nodes whose clocks differ.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::message_log::{EpochEntry, HistoryEnd};
use crate::replication::{
    Action, Event, GroupState, History, LogView, Message, Node, NodeId, NodeOptions, Promise, Reading, Register,
    RoleName, SwapAnswer, Timing, Unfit, Version,
};
use crate::units::{Epoch, Sequence};

/// A clock that is so far ahead, measured over a round trip of 10 ms.
fn clock(ahead_ms: i64) -> Measured {
    measured(ahead_ms, 10)
}

fn measured(ahead_ms: i64, round_ms: u64) -> Measured {
    let wall = 1_000_000_i64 + i64::try_from(round_ms / 2).unwrap() + ahead_ms;
    Measured::between(1_000, 1_000 + round_ms, Millis(u64::try_from(wall).unwrap())).unwrap()
}

fn own() -> Measured {
    let mut own = OwnClock::default();
    own.show(Millis(1_000_000), 1_000);
    own.measured(1_000).unwrap()
}

/// How far each of these clocks is ahead of the group's.
fn apart(ahead_ms: &[i64]) -> Vec<i64> {
    let clocks: Vec<Measured> =
        ahead_ms.iter().map(|ahead_ms| if *ahead_ms == 0 { own() } else { clock(*ahead_ms) }).collect();
    let group = of_group(&clocks).unwrap();
    clocks.iter().map(|clock| certain_ms(*clock, group)).collect()
}

#[test]
fn of_three_clocks_the_one_that_is_apart_is_known_and_of_two_the_later_one_counts() {
    assert_eq!(apart(&[0, 1, 500]), [0, 0, 493]);
    assert_eq!(apart(&[0, 600, 601]), [-593, 0, 0], "that of the primary");
    assert_eq!(apart(&[0, -600, 700]), [593, 0, 1_286], "no two agree");
    assert_eq!(apart(&[0, 500]), [0, 493]);
    assert_eq!(apart(&[0, -500]), [493, 0]);
    assert_eq!(apart(&[0, 90, 180]), [-83, 0, 76], "each agrees with the one in the middle");
    assert!(of_group(&[]).is_none());
}

#[test]
fn a_clock_is_apart_by_no_more_than_is_certain() {
    assert_eq!(certain_ms(clock(107), own()), 100);
    assert_eq!(certain_ms(clock(-8), own()), -1);
    assert_eq!(certain_ms(clock(7), own()), 0);
    assert_eq!(certain_ms(measured(300, 600), own()), 0, "the answer took longer than it is ahead");
    assert_eq!(measured(300, 600).ahead_of(own()), 300);
    assert!(Measured::between(1_001, 1_000, Millis(1)).is_none(), "an answer from before the question");
    assert!(Measured::between(0, 0, Millis(u64::MAX)).is_none());
}

#[test]
fn an_exact_measurement_is_kept_for_a_while_and_a_stepped_clock_is_measured_again() {
    let exact = clock(200);
    let later = |ahead_ms: u64, round_ms: u64, after_ms: u64| {
        let now_ms = 1_000 + after_ms;
        let wall = 1_000_000 + after_ms + ahead_ms - round_ms / 2;
        exact.or_later(Measured::between(now_ms - round_ms, now_ms, Millis(wall)).unwrap())
    };
    assert_eq!(later(200, 400, 4_000), exact);
    assert_ne!(later(200, 400, 6_000), exact);
    assert_ne!(later(200, 4, 1_000), exact, "it is more exact");
    assert_ne!(later(700, 400, 1_000), exact, "it was stepped");
    assert_eq!(exact.still(11_009), Some(exact));
    assert_eq!(exact.still(11_010), None);
}

#[test]
fn a_clock_that_is_stepped_after_it_was_compared_is_as_far_apart_as_it_was_stepped() {
    let mut clock = OwnClock::default();
    clock.compare(500);
    assert_eq!((clock.ahead_ms(), clock.is_apart(), clock.wall(5)), (None, false, Millis(0)), "nobody has shown it");
    clock.show(Millis(10_000), 0);
    clock.compare(101);
    assert_eq!((clock.ahead_ms(), clock.is_apart()), (Some(101), true));
    clock.show(Millis(10_951), 1_000);
    assert_eq!((clock.ahead_ms(), clock.is_apart()), (Some(52), true), "not near enough to agree again");
    clock.show(Millis(11_950), 2_000);
    assert_eq!((clock.ahead_ms(), clock.is_apart()), (Some(51), true));
    clock.show(Millis(11_949), 2_000);
    assert_eq!((clock.ahead_ms(), clock.is_apart()), (Some(50), false));
    clock.compare(100);
    assert!(!clock.is_apart());
    clock.show(Millis(1), 2_000);
    assert_eq!((clock.ahead_ms(), clock.is_apart(), clock.wall(2_010)), (Some(-11_848), true, Millis(11)));
}

/// A log whose facts are the starts of its epochs.
#[derive(Clone, Default)]
struct Log(Vec<Epoch>);

impl LogView for Log {
    fn history(&self) -> History {
        let entry = |(epoch, number): (&Epoch, u64)| EpochEntry {
            epoch: *epoch,
            first_sequence: Sequence(number),
            chain_before: 0,
        };
        let end = HistoryEnd { sequence: Sequence(self.end().0 - 1), chain: 0 };
        History { epochs: self.0.iter().zip(1..).map(entry).collect(), end }
    }

    fn end(&self) -> Sequence {
        Sequence(self.0.len() as u64 + 1)
    }

    fn durable(&self) -> Sequence {
        self.end()
    }
}

struct Host {
    node: Node,
    log: Log,
    ahead_ms: i64,
    is_up: bool,
}

/// Nodes whose messages take some milliseconds, with a register that always answers.
struct Nodes {
    hosts: BTreeMap<NodeId, Host>,
    register: (Version, Register),
    sent: Vec<(u64, NodeId, NodeId, Message)>,
    now_ms: u64,
    way_ms: u64,
}

const STEP_MS: u64 = 10;
const BEGIN_MS: u64 = 1_000_000_000;

fn id(number: u8) -> NodeId {
    NodeId([number; 16])
}

impl Nodes {
    /// The first one leads, and all of them are in the set. Their clocks are so far ahead of the true time.
    fn new(ahead_ms: &[i64], way_ms: u64) -> Self {
        let ids: BTreeSet<NodeId> = (1..=u8::try_from(ahead_ms.len()).unwrap()).map(id).collect();
        let first = Register::first([7; 16], id(1), Epoch(1), 1).with_set(ids.clone());
        let register = Register { made_for: 1, ..first };
        let host = |(me, ahead_ms): (&NodeId, &i64)| {
            let options = NodeOptions {
                id: *me,
                group: ([7; 16], 0),
                random: 1,
                promise: Promise::default(),
                committed: Sequence(1),
                peers: ids.iter().copied().filter(|other| other != me).collect(),
                timing: Timing::default(),
            };
            (*me, Host { node: Node::new(options, 0), log: Log::default(), ahead_ms: *ahead_ms, is_up: true })
        };
        let hosts = ids.iter().zip(ahead_ms).map(host).collect();
        let mut nodes = Self { hosts, register: (Version(1), register), sent: Vec::new(), now_ms: 0, way_ms };
        nodes.live(2_000);
        assert_eq!(nodes.leading(), [id(1)]);
        nodes
    }

    fn live(&mut self, for_ms: u64) {
        for _ in 0..for_ms / STEP_MS {
            self.now_ms += STEP_MS;
            let ids: Vec<NodeId> = self.hosts.keys().copied().collect();
            for me in ids {
                let wall = BEGIN_MS + self.now_ms;
                let wall = Millis(wall.saturating_add_signed(self.hosts[&me].ahead_ms));
                self.give(me, Event::WallClock(wall));
                self.give(me, Event::Tick);
            }
            let now_ms = self.now_ms;
            let (arrived, sent) = std::mem::take(&mut self.sent).into_iter().partition(|(at, ..)| *at <= now_ms);
            self.sent = sent;
            let arrived: Vec<(u64, NodeId, NodeId, Message)> = arrived;
            for (_, from, to, message) in arrived {
                self.give(to, Event::Received(from, message));
            }
        }
    }

    fn give(&mut self, me: NodeId, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let host = self.hosts.get_mut(&me).unwrap();
            if !host.is_up {
                return;
            }
            let mut actions = Vec::new();
            host.node.step(self.now_ms, &host.log, event, &mut actions);
            for action in actions {
                events.extend(self.act(me, action));
            }
        }
    }

    fn act(&mut self, me: NodeId, action: Action) -> Option<Event> {
        let (at_ms, host) = (self.now_ms + self.way_ms, self.hosts.get_mut(&me).unwrap());
        match action {
            Action::Send(to, message) => self.sent.push((at_ms, me, to, message)),
            Action::Ship(to, epoch, attempt, from) => {
                let (committed, bytes) = (host.node.committed(), me.0.to_vec());
                self.sent.push((at_ms, me, to, Message::Batches { epoch, attempt, from, committed, bytes }));
            }
            Action::Append(bytes) => {
                let log = self.hosts[&NodeId(bytes.try_into().unwrap())].log.clone();
                self.hosts.get_mut(&me).unwrap().log = log;
                return Some(Event::LogChanged);
            }
            Action::CutAfter(_, end) => {
                host.log.0.truncate(usize::try_from(end.0).unwrap() - 1);
                return Some(Event::Cut(end));
            }
            Action::BeginEpoch(epoch) => {
                host.log.0.push(epoch);
                return Some(Event::LogChanged);
            }
            Action::KeepPromise(promise) => return Some(Event::PromiseKept(promise.epoch)),
            Action::ReadRegister => return Some(Event::Read(Some(self.reading()))),
            Action::Swap(expected, _) if expected != self.register.0 => {
                return Some(Event::Swapped(expected, SwapAnswer::Lost(self.reading())));
            }
            Action::Swap(expected, value) => {
                self.register = (Version(expected.0 + 1), value);
                return Some(Event::Swapped(expected, SwapAnswer::Won(1, self.register.0)));
            }
            Action::Commit { .. } | Action::Became(_) => {}
            Action::Alarm(node) => panic!("{me:?} finds {node:?} diverged"),
            Action::ReceiveSnapshot(..) | Action::SendPart(..) | Action::ReceivePart(_) | Action::Load(..) => {
                panic!("no log is cut here")
            }
        }
        None
    }

    fn reading(&self) -> Reading {
        Reading { coordinator: 1, version: self.register.0, value: self.register.1.clone() }
    }

    fn leading(&self) -> Vec<NodeId> {
        let leads = |host: &Host| host.is_up && host.node.role() == RoleName::Primary;
        self.hosts.iter().filter(|(_, host)| leads(host)).map(|(id, _)| *id).collect()
    }

    fn unfit(&self) -> Vec<NodeId> {
        let is_unfit = |host: &Host| host.node.unfit() == [Unfit::Clock];
        self.hosts.iter().filter(|(_, host)| is_unfit(host)).map(|(id, _)| *id).collect()
    }

    fn end(&mut self, number: u8) {
        self.hosts.get_mut(&id(number)).unwrap().is_up = false;
    }

    /// Which node leads next, and after how many milliseconds.
    fn next_leader(&mut self) -> (NodeId, u64) {
        let since_ms = self.now_ms;
        while self.leading().is_empty() {
            self.live(STEP_MS);
            assert!(self.now_ms - since_ms < 60_000, "no node takes over");
        }
        assert_eq!(self.register.1.state, GroupState::Serving);
        (self.leading()[0], self.now_ms - since_ms)
    }
}

#[test]
fn a_primary_knows_how_far_the_clock_of_each_copy_is_ahead() {
    let nodes = Nodes::new(&[40, 90, -460], 10);
    let primary = &nodes.hosts[&id(1)].node;
    let known: Vec<_> = primary.copies_known().iter().map(|copy| (copy.clock_offset_ms, copy.is_clock_apart)).collect();
    assert_eq!(known, [(Some(50), false), (Some(-500), true)]);
    let ahead: Vec<_> = nodes.hosts.values().map(|host| host.node.clock_ahead_ms()).collect();
    assert_eq!(ahead, [Some(0), Some(38), Some(-488)], "by the error of 12 ms less");
    assert_eq!(nodes.unfit(), [id(3)]);
}

#[test]
fn a_node_whose_clock_is_wrong_takes_over_only_where_no_other_node_does() {
    for ahead_ms in [3_600_000, 500, -500, -3_600_000] {
        let mut nodes = Nodes::new(&[0, ahead_ms, 0], 10);
        assert_eq!(nodes.unfit(), [id(2)]);
        nodes.end(1);
        let (leader, after_ms) = nodes.next_leader();
        assert_eq!(leader, id(3));
        assert!((2_900..4_500).contains(&after_ms), "{after_ms}");
        nodes.live(2_000);
        nodes.end(3);
        let (leader, after_ms) = nodes.next_leader();
        assert_eq!(leader, id(2));
        // Only two clocks are left, and the one that is behind counts.
        let expected = if ahead_ms > 0 { 8_900..10_500 } else { 2_900..4_500 };
        assert!(expected.contains(&after_ms), "{after_ms} with {ahead_ms}");
    }
}

#[test]
fn a_primary_whose_clock_is_the_wrong_one_is_replaced_in_time() {
    let mut nodes = Nodes::new(&[700, 0, 1], 10);
    assert_eq!(nodes.unfit(), [id(1)]);
    assert_eq!(nodes.leading(), [id(1)], "it leads on");
    nodes.end(1);
    assert!(nodes.next_leader().1 < 4_500);
}

#[test]
fn of_two_nodes_that_disagree_the_one_whose_clock_is_behind_may_take_over() {
    let mut behind = Nodes::new(&[0, -400], 10);
    assert_eq!(behind.unfit(), [id(1)]);
    behind.end(1);
    assert!(behind.next_leader().1 < 4_500);
    let mut ahead = Nodes::new(&[0, 400], 10);
    assert_eq!(ahead.unfit(), [id(2)]);
    ahead.end(1);
    assert!(ahead.next_leader().1 > 8_900);
}

#[test]
fn a_clock_that_is_set_right_makes_its_node_fit_also_while_no_primary_is_heard() {
    let mut nodes = Nodes::new(&[0, 5_000, 0], 10);
    nodes.end(1);
    nodes.end(3);
    nodes.live(1_000);
    nodes.hosts.get_mut(&id(2)).unwrap().ahead_ms = 0;
    assert!(nodes.next_leader().1 < 3_500);
    assert_eq!(nodes.unfit(), []);
}

#[test]
fn slow_messages_make_no_clock_wrong() {
    let nodes = Nodes::new(&[0, 130, -130], 40);
    assert_eq!(nodes.unfit(), []);
    let offset = nodes.hosts[&id(1)].node.copies_known()[0].clock_offset_ms.unwrap();
    assert!((120..=140).contains(&offset), "{offset}");
}
