//! Every order of the steps around one entry: it is fed to the wheel, proposed as ready, moved, cancelled or replaced
//! by its receipt or its key; facts become durable; a checkpoint is frozen, written and installed, merges its run, and
//! punches finished neighbours. An independent account of the log says which messages must come.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeMap;

use crate::rig::keyed::publish_keyed;
use crate::rig::{Place, Rig, START, lean, sees};
use delaymq_core::planted::Planted;
use delaymq_core::record::terms::{IfExists, TermsLimits};
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::{Outcome, OwnerOptions, Receipt};
use delaymq_core::units::{DueKey, Millis, Sequence};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NewMessage, NewTerms, NodeOptions};

const FIRST_MS: u64 = 5_000;
/// The feed looks four seconds ahead.
const FED_MS: u64 = 4_000;
const LONG_MS: u64 = 500_000;
const LIMITS: TermsLimits = TermsLimits { keys_max: 10, ids_max: 10, id_window_ms: 600_000 };
/// So many pieces of a checkpoint are written before `Half`.
const HALF_PIECES: usize = 6;

/// What somebody asks of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Command {
    /// By its newest receipt: to be due much later.
    Away,
    /// To where the feed has been, or will have been.
    Back,
    /// To be due at once.
    Now,
    Cancel,
    CancelByKey,
    MoveByKey,
    /// Another message is published under its key.
    Replace,
}

const COMMANDS: [Command; 7] = [
    Command::Away,
    Command::Back,
    Command::Now,
    Command::Cancel,
    Command::CancelByKey,
    Command::MoveByKey,
    Command::Replace,
];

impl Command {
    fn due(self) -> Due {
        match self {
            Self::Away => Due::At(START.plus(40_000)),
            Self::Back => Due::After(3_000),
            Self::Now => Due::After(0),
            _ => Due::After(2_500),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Time comes near, and the feed loads.
    Feed,
    /// Its time is there, and what is due is on its way to the log.
    Propose,
    /// A command is on its way to the log.
    Ask(Command),
    /// What is on its way is durable, and applied.
    Settle,
    /// A checkpoint begins.
    Freeze,
    /// Some of it is written.
    Half,
    /// It comes to its end.
    Install,
    /// Another one, after which holes are punched that both name.
    Punch,
}

const FED: [Step; 2] = [Step::Feed, Step::Propose];
const SETTLED: [Step; 1] = [Step::Settle];
const CHECKPOINT: [Step; 2] = [Step::Freeze, Step::Install];
const CHECKPOINTS: [Step; 4] = [Step::Freeze, Step::Half, Step::Install, Step::Punch];

/// Where the entry lies as the steps begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lies {
    InMemory,
    InRun,
    /// In a run that the next checkpoint merges with its neighbour's, with copies of the payloads.
    BesideAnother,
    /// In a run of which much is finished and punched.
    InHollowRun,
    /// The same, and its rows are merged into another run while payloads stay.
    InHollowMergedRun,
}

const EVERYWHERE: [Lies; 5] =
    [Lies::InMemory, Lies::InRun, Lies::BesideAnother, Lies::InHollowRun, Lies::InHollowMergedRun];

impl Lies {
    fn is_hollow(self) -> bool {
        matches!(self, Self::InHollowRun | Self::InHollowMergedRun)
    }

    fn options(self) -> NodeOptions {
        let mut owner = lean().owner;
        if self == Self::BesideAnother {
            owner.merge_windows_min = 2;
        }
        if self.is_hollow() {
            let holes = OwnerOptions { reclaim_bytes: 1, hole_bytes_min: 1, hole_block_bytes: 8, ..owner };
            owner = OwnerOptions { merge_payload_bytes: 0, ..holes };
        }
        if self == Self::InHollowMergedRun {
            owner.merge_windows_min = 1;
        }
        // Nothing waits for room.
        NodeOptions { owner, segment_bytes: 64 << 10, ..lean() }
    }
}

/// What became of one entry, by the account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Pending,
    Dispatched,
    Cancelled,
    Moved(Command, DueKey),
}

#[derive(Clone, Debug)]
struct Known {
    key: DueKey,
    body: String,
    fate: Fate,
}

/// A fact on its way to the log.
#[derive(Clone, Debug)]
enum Fact {
    Ready(Sequence),
    Cancel { command: Sequence, target: Sequence },
    CancelByKey { command: Sequence },
    Move { how: Command, target: Sequence, key: DueKey },
    MoveByKey { asked: Option<Sequence>, key: DueKey },
    Replace { key: DueKey, body: String },
}

/// The plain account.
#[derive(Default)]
struct Account {
    entries: BTreeMap<Sequence, Known>,
    /// Who has the key.
    holder: Option<Sequence>,
    /// The last message with the key became ready.
    is_dispatched: bool,
    under_way: Vec<Fact>,
    /// In the order in which they became ready.
    ready: Vec<String>,
}

impl Account {
    fn begin(&mut self, key: DueKey, body: &str, now: Millis) {
        self.entries.insert(key.sequence, Known { key, body: body.to_owned(), fate: Fate::Pending });
        if key.due <= now {
            self.becomes_ready(key.sequence);
        }
    }

    fn becomes_ready(&mut self, sequence: Sequence) {
        let entry = self.entries.get_mut(&sequence).unwrap();
        if entry.fate == Fate::Pending {
            entry.fate = Fate::Dispatched;
            self.ready.push(entry.body.clone());
            self.is_dispatched |= self.holder == Some(sequence);
            self.holder = self.holder.filter(|holder| *holder != sequence);
        }
    }

    fn takes_key(&mut self, sequence: Sequence) {
        let is_pending = self.entries[&sequence].fate == Fate::Pending;
        (self.holder, self.is_dispatched) = (is_pending.then_some(sequence), !is_pending);
    }

    /// The answer to a command by the key that no message has.
    fn without_holder(&self) -> Outcome {
        if self.is_dispatched { Outcome::AlreadyDispatched } else { Outcome::NotFound }
    }

    fn cancel(&mut self, target: Sequence) -> Outcome {
        let entry = self.entries.get_mut(&target).unwrap();
        match entry.fate {
            Fate::Pending | Fate::Cancelled => {
                entry.fate = Fate::Cancelled;
                self.holder = self.holder.filter(|holder| *holder != target);
                Outcome::Done
            }
            Fate::Dispatched => Outcome::AlreadyDispatched,
            Fate::Moved(..) => Outcome::NotFound,
        }
    }

    fn move_to(&mut self, how: Command, target: Sequence, key: DueKey, now: Millis) -> Outcome {
        let entry = self.entries.get_mut(&target).unwrap();
        match entry.fate {
            Fate::Pending => {
                entry.fate = Fate::Moved(how, key);
                let body = entry.body.clone();
                let has_key = self.holder == Some(target);
                self.holder = self.holder.filter(|holder| *holder != target);
                self.begin(key, &body, now);
                if has_key {
                    self.takes_key(key.sequence);
                }
                Outcome::Moved(key)
            }
            Fate::Dispatched => Outcome::AlreadyDispatched,
            Fate::Cancelled => Outcome::NotFound,
            // A command that comes again is answered as the first time.
            Fate::Moved(before, to) => {
                if before == how {
                    Outcome::Moved(to)
                } else {
                    Outcome::NotFound
                }
            }
        }
    }

    /// What the fact is answered, under the sequence of who asked.
    fn apply(&mut self, fact: Fact, now: Millis) -> Option<(Sequence, Outcome)> {
        Some(match fact {
            Fact::Ready(sequence) => {
                self.becomes_ready(sequence);
                return None;
            }
            Fact::Cancel { command, target } => (command, self.cancel(target)),
            Fact::CancelByKey { command } => {
                (command, self.holder.map_or(self.without_holder(), |holder| self.cancel(holder)))
            }
            Fact::Move { how, target, key } => (key.sequence, self.move_to(how, target, key, now)),
            Fact::MoveByKey { asked, key } => {
                let target = asked.filter(|asked| self.holder == Some(*asked));
                let other = if self.holder.is_some() { Outcome::NotFound } else { self.without_holder() };
                let moved = target.map(|target| self.move_to(Command::MoveByKey, target, key, now));
                (key.sequence, moved.unwrap_or(other))
            }
            Fact::Replace { key, body } => {
                let before = self.holder.map(|holder| self.entries[&holder].key);
                if let Some(holder) = self.holder {
                    self.cancel(holder);
                }
                self.begin(key, &body, now);
                self.takes_key(key.sequence);
                (key.sequence, before.map_or(Outcome::Done, Outcome::Replaced))
            }
        })
    }

    fn pending(&self) -> Vec<DueKey> {
        let pending = self.entries.values().filter(|entry| entry.fate == Fate::Pending);
        let mut keys: Vec<DueKey> = pending.map(|entry| entry.key).collect();
        keys.sort_unstable();
        keys
    }
}

struct World {
    rig: Rig,
    account: Account,
    place: Place,
    others: Place,
    /// Receipts of the message, or of who took its place, the newest last.
    receipts: Vec<Receipt>,
    /// What waits beside it.
    beside: Vec<DueKey>,
    replaced: usize,
}

fn beside(number: u64) -> String {
    format!("beside {number} {}", "z".repeat(300))
}

impl World {
    fn new(lies: Lies) -> Self {
        let mut rig = Rig::new(lies.options());
        let (place, others) = (rig.earliest("s", "g"), rig.earliest("other", "g"));
        let mut around = Vec::new();
        if lies.is_hollow() {
            around.push(rig.publish("other", FIRST_MS - 1, &"finished".repeat(90)));
        }
        let body = format!("the one {}", "x".repeat(500));
        let receipt = publish_keyed(&mut rig, "s", "k", FIRST_MS, &body);
        let mut waits = Vec::new();
        if lies.is_hollow() {
            around.push(rig.publish("other", FIRST_MS + 1, &"finished".repeat(90)));
            waits.extend((0..3).map(|number| rig.publish("other", LONG_MS + number, &beside(number)).key));
        }
        if lies != Lies::InMemory {
            rig.checkpoint();
        }
        if lies == Lies::BesideAnother {
            waits.push(rig.publish("other", LONG_MS, &beside(0)).key);
            rig.checkpoint();
        }
        for finished in &around {
            assert_eq!(rig.cancel(finished), Outcome::Done);
        }
        let mut account = Account { holder: Some(receipt.key.sequence), ..Account::default() };
        account.begin(receipt.key, &body, START);
        Self { rig, account, place, others, receipts: vec![receipt], beside: waits, replaced: 0 }
    }

    fn now(&self) -> Millis {
        self.rig.clock.read().wall
    }

    /// Time comes to so much behind the start, and the owner looks at what is due.
    fn step_at(&mut self, at_ms: u64, entries: usize) {
        self.rig.clock.advance(at_ms.saturating_sub(self.now().since(START)));
        let now = self.rig.clock.read();
        self.rig.node().look(now);
        self.rig.node().step(entries).unwrap();
    }

    fn propose(&mut self) {
        let entries = self.account.entries.values();
        let due = entries.filter(|entry| entry.fate == Fate::Pending && entry.key.due.since(START) <= FIRST_MS);
        let mut due: Vec<DueKey> = due.map(|entry| entry.key).collect();
        due.sort_unstable();
        self.step_at(FIRST_MS, 1_000);
        self.account.under_way.extend(due.iter().map(|key| Fact::Ready(key.sequence)));
    }

    fn ask(&mut self, command: Command) {
        let (now, receipt) = (self.rig.clock.read(), *self.receipts.last().unwrap());
        let target = receipt.key.sequence;
        let node = self.rig.node();
        node.look(now);
        let fact = match command {
            Command::Away | Command::Back | Command::Now => {
                Fact::Move { how: command, target, key: node.move_to(&receipt, command.due()).unwrap().unwrap() }
            }
            Command::Cancel => Fact::Cancel { command: node.cancel(&receipt).unwrap().unwrap(), target },
            Command::CancelByKey => Fact::CancelByKey { command: node.cancel_key("s", "k", None).unwrap().unwrap() },
            Command::MoveByKey => {
                let asked = node.move_key("s", "k", command.due(), None).unwrap().unwrap();
                assert_eq!(asked.target.map(|target| target.sequence), self.account.holder);
                Fact::MoveByKey { asked: self.account.holder, key: asked.key }
            }
            Command::Replace => {
                self.replaced += 1;
                let body = format!("in its place {} {}", self.replaced, "y".repeat(400));
                let message =
                    NewMessage { subject: "s", due: command.due(), body: body.as_bytes(), expires: None, meta: b"" };
                let terms = NewTerms { key: Some("k".to_owned()), if_exists: IfExists::Replace, id: None };
                let published = node.publish_on_terms(&[(message, terms)], LIMITS).unwrap().unwrap();
                Fact::Replace { key: published.receipts[0].key, body }
            }
        };
        self.account.under_way.push(fact);
    }

    fn settle(&mut self) {
        self.rig.settle();
        let now = self.now();
        for fact in std::mem::take(&mut self.account.under_way) {
            let is_new = matches!(fact, Fact::Move { .. } | Fact::MoveByKey { .. } | Fact::Replace { .. });
            let Some((command, expected)) = self.account.apply(fact.clone(), now) else { continue };
            assert_eq!(self.rig.node().take_outcome(command), Some(expected), "{fact:?}");
            if let Some(known) = self.account.entries.get(&command).filter(|_| is_new) {
                let (key, size) = (known.key, u32::try_from(known.body.len()).unwrap());
                let subject = self.receipts[0].subject;
                self.receipts.push(self.rig.node().receipt_of(key, subject, size).unwrap());
            }
        }
        self.compare();
    }

    /// What the store says is pending, and who has the key.
    fn compare(&mut self) {
        let state = self.rig.node().owner().state();
        let mut found = Vec::new();
        state.schedule.each_pending(&mut |entry: &Entry| found.push(entry.key()), &mut |_| {});
        found.sort_unstable();
        let mut expected = [self.account.pending(), self.beside.clone()].concat();
        expected.sort_unstable();
        assert_eq!((found, state.schedule.pending()), (expected.clone(), expected.len() as u64));
        let holder = self.account.holder.map(|holder| self.account.entries[&holder].key);
        assert_eq!(self.rig.node().key_holder("s", "k"), holder);
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Feed => self.step_at(FED_MS, 0),
            Step::Propose => self.propose(),
            Step::Ask(command) => self.ask(command),
            Step::Settle => self.settle(),
            Step::Freeze => assert!(self.rig.node().begin_checkpoint()),
            Step::Half => {
                let mut left = HALF_PIECES;
                while left > 0 && !self.rig.node().checkpoint_piece(40).unwrap() {
                    left -= 1;
                }
            }
            Step::Install => while !self.rig.node().checkpoint_piece(40).unwrap() {},
            Step::Punch => self.rig.checkpoint(),
        }
    }

    /// The machine ends: what was on its way is not in the log.
    fn end(&mut self, end: End) {
        self.account.under_way.clear();
        self.rig.reopen(end);
        self.compare();
    }

    /// All comes, once, and in order.
    fn drain(&mut self) {
        self.settle();
        if self.rig.files().contains("log/0000000001.segment") && self.rig.files().contains("log/0000000002.segment") {
            self.rig.compare_with_log();
        }
        self.rig.checkpoint();
        self.rig.checkpoint();
        self.compare();
        let consumer = self.rig.consumer(self.place.0, "again");
        let before = self.rig.take_all((self.place.0, consumer));
        self.rig.pass(LONG_MS - 1_000);
        let after = self.rig.take_all((self.place.0, consumer));
        let mut expected = self.account.ready.clone();
        // Taking makes what is due by then ready, too.
        assert!(before.len() >= expected.len());
        expected.extend(self.account.pending().iter().map(|key| self.account.entries[&key.sequence].body.clone()));
        assert_eq!([before, after].concat(), expected);
        self.rig.pass(LONG_MS);
        let consumer = self.rig.consumer(self.others.0, "again");
        let others = self.rig.take_all((self.others.0, consumer));
        assert_eq!(others, (0..self.beside.len() as u64).map(beside).collect::<Vec<_>>());
        assert_eq!(self.rig.node().owner().state().voided, 0);
    }
}

/// Lives these steps; the machine ends behind so many of them.
fn live(steps: &[Step], lies: Lies, ends_behind: Option<(usize, End)>) {
    let mut world = World::new(lies);
    for (number, step) in steps.iter().enumerate() {
        world.take(*step);
        if let Some((_, end)) = ends_behind.filter(|(behind, _)| *behind == number) {
            world.end(end);
        }
    }
    world.drain();
}

/// Every order of the steps of all chains in which each chain keeps its own.
fn each_order(chains: &mut [&[Step]], begun: &mut Vec<Step>, show: &mut dyn FnMut(&[Step])) {
    if chains.iter().all(|chain| chain.is_empty()) {
        return show(begun);
    }
    for place in 0..chains.len() {
        let Some((first, rest)) = chains[place].split_first() else { continue };
        let before = std::mem::replace(&mut chains[place], rest);
        begun.push(*first);
        each_order(chains, begun, show);
        begun.pop();
        chains[place] = before;
    }
}

/// How many orders there were; a history that fails says which it was.
fn all_orders(chains: &[&[Step]], mut live: impl FnMut(&[Step], usize)) -> usize {
    let mut count = 0;
    each_order(&mut chains.to_vec(), &mut Vec::new(), &mut |steps| {
        let _told = Told(steps);
        live(steps, count);
        count += 1;
    });
    count
}

/// Says which order it was that a panic ends.
struct Told<'a>(&'a [Step]);

impl Drop for Told<'_> {
    #[expect(clippy::print_stdout, reason = "a test may")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("in this order: {:?}", self.0);
        }
    }
}

/// Each of these commands alone, wherever the entry lies; how many orders each has.
fn one_command(commands: &[Command], checkpoints: &[Step], everywhere: &[Lies]) -> usize {
    let mut count = 0;
    for command in commands {
        let asked = [Step::Ask(*command)];
        count = all_orders(&[&FED, checkpoints, &SETTLED, &asked], |steps, _| {
            for lies in everywhere {
                live(steps, *lies, None);
            }
        });
    }
    count
}

/// The machine ends behind another step of each order, and the checkpoint that was under way with it.
fn one_command_and_an_end() {
    for (command, end) in
        COMMANDS.into_iter().zip([End::Kill, End::PowerCutLosesAll, End::PowerCut].into_iter().cycle())
    {
        let asked = [Step::Ask(command)];
        all_orders(&[&FED, &CHECKPOINT, &SETTLED, &asked], |steps, count| {
            let behind = count % steps.len();
            for lies in EVERYWHERE {
                live(steps, lies, Some((behind, end)));
            }
        });
    }
}

/// One order in `every` of each pair of commands, another one for each first and each second command; how many were lived.
fn two_commands(checkpoints: &[Step], everywhere: &[Lies], every: usize) -> usize {
    let mut lived = 0;
    let pairs = COMMANDS.iter().flat_map(|first| COMMANDS.iter().map(move |second| [*first, *second]));
    for (pair, asked) in pairs.enumerate() {
        all_orders(&[&FED, checkpoints, &SETTLED, &asked.map(Step::Ask)], |steps, count| {
            if (count + pair + pair / COMMANDS.len()).is_multiple_of(every) {
                for lies in everywhere {
                    live(steps, *lies, None);
                }
                lived += 1;
            }
        });
    }
    lived
}

#[test]
fn every_order_of_one_command_with_feed_dispatch_checkpoint_merge_and_punch_is_as_the_log_says() {
    assert_eq!(one_command(&COMMANDS, &CHECKPOINT, &[Lies::InMemory, Lies::InRun]), 180);
    let merged = [Lies::BesideAnother, Lies::InHollowRun, Lies::InHollowMergedRun];
    assert_eq!(one_command(&COMMANDS, &CHECKPOINTS, &merged), 840);
}

#[test]
fn every_order_is_as_the_log_says_where_the_machine_ends_in_it() {
    one_command_and_an_end();
}

/// Each of the 630 orders is lived by seven of the 49 pairs; the soak lives all of them.
#[test]
fn orders_of_two_commands_with_feed_dispatch_checkpoint_and_merge_are_as_the_log_says() {
    assert_eq!(two_commands(&CHECKPOINT, &[Lies::BesideAnother], 7), 49 * 630 / 7);
}

#[test]
#[ignore = "minutes; `make soak` runs it"]
fn every_order_of_two_commands_with_all_else_is_as_the_log_says() {
    two_commands(&CHECKPOINTS, &EVERYWHERE, 1);
}

fn asked(command: Command, lies: Lies) {
    one_command(&[command], &CHECKPOINTS, &[lies]);
}

#[test]
fn what_a_step_does_wrong_is_seen() {
    // Feed, propose, ask, settle.
    sees(Planted::FeedSkipsArrival, || asked(Command::Back, Lies::InRun));
    sees(Planted::CursorRace, || asked(Command::Back, Lies::InRun));
    sees(Planted::ReadyUnjudged, || asked(Command::Cancel, Lies::InRun));
    sees(Planted::CancelUnjudged, || asked(Command::Cancel, Lies::InRun));
    sees(Planted::MovedStaysToo, || asked(Command::Away, Lies::InRun));
    sees(Planted::MovedLosesKey, || asked(Command::Away, Lies::InRun));
    sees(Planted::ReplacedStays, || asked(Command::Replace, Lies::InRun));
    // Freeze, write, install, merge, punch.
    sees(Planted::DecidedMeanwhileLost, || asked(Command::Cancel, Lies::InMemory));
    sees(Planted::MergedAsFrozen, || asked(Command::Cancel, Lies::BesideAnother));
    sees(Planted::MergeHoldsNothing, || asked(Command::Away, Lies::InHollowMergedRun));
    sees(Planted::HoleIgnoresUnfinished, || asked(Command::Away, Lies::InHollowRun));
    sees(Planted::HoleAsksOwnRowsAlone, || asked(Command::Away, Lies::InHollowMergedRun));
    // An end of the machine.
    sees(Planted::CancelledBitNotSaved, one_command_and_an_end);
}
