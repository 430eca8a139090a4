//! Schedule and feed beside a sorted map: freezing, installing, reopening and crashes are operations
//! like any other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::error::Result;
use crate::run::{RUN_FOLDER, Run, RunKind, list_runs, run_path};
use crate::storage::{Crash, MemoryStorage, Storage};
use crate::units::{DueKey, Location, Millis, RunNumber, SegmentNumber, Sequence, SubjectNumber};

const STREAM: [u8; 16] = [5; 16];
const FAR: Millis = Millis(u64::MAX);

fn entry(due: u64, sequence: u64) -> Entry {
    let key = DueKey { due: Millis(due), sequence: Sequence(sequence) };
    Entry::new(key, 1, Sequence(sequence), Location::in_segment(SegmentNumber(1), 8), SubjectNumber(1))
}

fn write(storage: &dyn Storage, part: FrozenPart, number: RunNumber) -> Result<Arc<Run>> {
    let mut writer = part.into_writer(number, STREAM, FAR);
    loop {
        if let Some(run) = writer.write_piece(storage, 100)? {
            return Ok(run);
        }
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert {
        ahead: i64,
    },
    Skip,
    AtOnce,
    Cancel {
        which: usize,
    },
    Load,
    Take {
        limit: usize,
    },
    Apply {
        count: usize,
    },
    Pass {
        by: u64,
    },
    Shed {
        keep: usize,
    },
    Freeze,
    Install,
    /// The feed begins again, as after payloads have moved.
    Restart,
    /// The store is opened again after this end.
    Reopen {
        end: Crash,
        seed: u64,
    },
    /// The same, in the middle of writing a checkpoint's runs.
    CrashInWriting {
        calls: u64,
        end: Crash,
        seed: u64,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let ahead = prop_oneof![6 => -3_i64..4, 4 => 0_i64..40, 2 => 0_i64..6_000, 1 => 0_i64..(1 << 22)];
    let end = prop::sample::select(vec![Crash::Kill, Crash::PowerCut, Crash::PowerCutLosesAll]);
    prop_oneof![
        30 => ahead.prop_map(|ahead| Operation::Insert { ahead }),
        2 => Just(Operation::Skip),
        1 => Just(Operation::AtOnce),
        4 => any::<usize>().prop_map(|which| Operation::Cancel { which }),
        8 => Just(Operation::Load),
        8 => (0_usize..8).prop_map(|limit| Operation::Take { limit }),
        6 => (0_usize..12).prop_map(|count| Operation::Apply { count }),
        6 => prop_oneof![8 => 0_u64..3, 3 => 0_u64..60, 1 => 0_u64..(1 << 21)].prop_map(|by| Operation::Pass { by }),
        2 => (0_usize..12).prop_map(|keep| Operation::Shed { keep }),
        2 => Just(Operation::Freeze),
        2 => Just(Operation::Install),
        1 => Just(Operation::Restart),
        1 => (end.clone(), any::<u64>()).prop_map(|(end, seed)| Operation::Reopen { end, seed }),
        1 => (0_u64..30, end, any::<u64>())
            .prop_map(|(calls, end, seed)| Operation::CrashInWriting { calls, end, seed }),
    ]
}

/// What the message log would hold.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Insert(Entry),
    Skip,
    AtOnce,
    Became(Sequence, EntryState),
}

/// A window as a checkpoint has it.
#[derive(Clone, Debug)]
struct SavedWindow {
    first: Sequence,
    length: u64,
    words: Vec<u64>,
    run: Option<RunNumber>,
}

/// The part of a checkpoint that speaks of the schedule.
#[derive(Clone, Debug)]
struct Checkpoint {
    /// How many facts are in it.
    facts: usize,
    windows: Vec<SavedWindow>,
    next: Sequence,
    feed_from: DueKey,
}

/// Schedule and feed beside a sorted map.
struct Pair {
    storage: MemoryStorage,
    schedule: Schedule,
    feed: Feed,
    now: u64,
    window_ms: u64,
    entries_max: usize,
    pending: BTreeMap<DueKey, Entry>,
    states: BTreeMap<u64, EntryState>,
    /// Taken, and not applied yet.
    taken: Vec<Entry>,
    facts: Vec<Fact>,
    saved: Checkpoint,
    under_way: Option<(Vec<(RunNumber, FrozenPart)>, Checkpoint)>,
    runs: u32,
}

impl Pair {
    fn new(window_ms: u64, entries_max: usize) -> Self {
        let storage = MemoryStorage::new(1);
        storage.create_folder(RUN_FOLDER).unwrap();
        storage.sync_folder("").unwrap();
        let saved = Checkpoint { facts: 0, windows: Vec::new(), next: Sequence(1), feed_from: DueKey::START };
        Self {
            storage,
            schedule: Schedule::new(Sequence(1), Millis(100)),
            feed: Feed::new(DueKey::START, Millis(100)),
            now: 100,
            window_ms,
            entries_max,
            pending: BTreeMap::new(),
            states: BTreeMap::new(),
            taken: Vec::new(),
            facts: Vec::new(),
            saved,
            under_way: None,
            runs: 0,
        }
    }

    fn load(&mut self) -> Loaded {
        self.feed.load(&mut self.schedule, Millis(self.now), self.window_ms, self.entries_max).unwrap()
    }

    fn take(&mut self, limit: usize) -> Vec<Entry> {
        let mut taken = Vec::new();
        self.feed.take_due(Millis(self.now), limit, &mut taken);
        assert!(taken.len() <= limit);
        assert!(taken.iter().all(|entry| entry.due().0 <= self.now), "early");
        assert!(taken.windows(2).all(|pair| pair[0].key() < pair[1].key()), "out of order");
        taken
    }

    fn apply(&mut self, count: usize) {
        let count = count.min(self.taken.len());
        let mut ready: Vec<Entry> = self.taken.drain(..count).collect();
        ready.sort_by_key(Entry::key);
        for entry in ready {
            let found = self.schedule.find(entry.key()).unwrap();
            assert_eq!(found.is_some(), self.pending.contains_key(&entry.key()));
            if self.pending.remove(&entry.key()).is_some() {
                self.note(Fact::Became(entry.sequence(), EntryState::Dispatched));
            }
        }
    }

    /// A fact becomes part of the log, of the schedule and of the map.
    fn note(&mut self, fact: Fact) {
        let sequence = self.schedule.next_sequence();
        match fact {
            Fact::Insert(new) => {
                self.pending.insert(new.key(), new);
                self.states.insert(sequence.0, EntryState::Pending);
            }
            Fact::Skip => {}
            Fact::AtOnce => {
                self.states.insert(sequence.0, EntryState::Dispatched);
            }
            Fact::Became(sequence, state) => {
                self.states.insert(sequence.0, state);
            }
        }
        self.facts.push(fact);
        self.replay(fact);
    }

    fn replay(&mut self, fact: Fact) {
        let next = self.schedule.next_sequence();
        match fact {
            Fact::Insert(new) => {
                assert_eq!(new.sequence(), next);
                self.schedule.insert(new);
                self.feed.arrive(new);
            }
            Fact::Skip => self.schedule.skip(next),
            Fact::AtOnce => self.schedule.note_dispatched_at_once(next),
            Fact::Became(sequence, state) => assert_eq!(self.schedule.set(sequence, state), EntryState::Pending),
        }
    }

    fn freeze(&mut self) {
        let parts: Vec<(RunNumber, FrozenPart)> =
            self.schedule.freeze(Millis(self.now)).into_iter().map(|part| (self.next_run(), part)).collect();
        let planned: BTreeMap<Sequence, RunNumber> = parts.iter().map(|(run, part)| (part.first(), *run)).collect();
        let saved = |window: &Window| SavedWindow {
            first: window.first(),
            length: window.bits().len(),
            words: window.bits().words().collect(),
            run: window.run().map(|run| run.number()).or_else(|| planned.get(&window.first()).copied()),
        };
        let checkpoint = Checkpoint {
            facts: self.facts.len(),
            windows: self.schedule.windows().iter().map(saved).collect(),
            next: self.schedule.next_sequence(),
            feed_from: self.feed.resume_from(self.taken.iter().map(Entry::key).min()),
        };
        self.under_way = Some((parts, checkpoint));
    }

    fn next_run(&mut self) -> RunNumber {
        self.runs += 1;
        RunNumber(self.runs)
    }

    fn install(&mut self) {
        let Some((parts, checkpoint)) = self.under_way.take() else { return };
        for (number, part) in parts {
            let first = part.first();
            let run = write(&self.storage, part, number).unwrap();
            self.schedule.install(first, run).unwrap();
        }
        self.saved = checkpoint;
    }

    /// What a new process finds: the last checkpoint that was saved, and the facts behind it.
    fn reopen(&mut self, end: Crash, seed: u64) {
        self.storage = self.storage.crash(end, seed);
        (self.under_way, self.taken) = (None, Vec::new());
        let named: BTreeSet<RunNumber> = self.saved.windows.iter().filter_map(|window| window.run).collect();
        for number in list_runs(&self.storage).unwrap() {
            if !named.contains(&number) {
                self.storage.remove(&run_path(number)).unwrap();
            }
        }
        let restored = |window: &SavedWindow| {
            let bits = TwoBits::from_words(window.first, window.length, &window.words).unwrap();
            let open = |number| Run::open(&self.storage, number, RunKind::Schedule, &STREAM).unwrap();
            Window::restored(bits, window.run.map(open).map(Arc::new))
        };
        let windows = self.saved.windows.iter().map(restored).collect();
        self.schedule = Schedule::restored(windows, self.saved.next, Millis(self.now));
        self.feed = Feed::new(self.saved.feed_from, Millis(self.now));
        for fact in self.facts.clone().into_iter().skip(self.saved.facts) {
            self.replay(fact);
        }
    }

    fn run(&mut self, operation: &Operation) {
        let next = self.schedule.next_sequence();
        match operation {
            Operation::Insert { ahead } => {
                self.note(Fact::Insert(entry(self.now.saturating_add_signed(*ahead), next.0)));
            }
            Operation::Skip => self.note(Fact::Skip),
            Operation::AtOnce => self.note(Fact::AtOnce),
            Operation::Cancel { which } => {
                let keys: Vec<DueKey> = self.pending.keys().copied().collect();
                if let Some(key) = keys.get(which % keys.len().max(1)) {
                    self.pending.remove(key);
                    self.note(Fact::Became(key.sequence, EntryState::Cancelled));
                }
            }
            Operation::Load => {
                self.load();
            }
            Operation::Take { limit } => {
                let taken = self.take(*limit);
                self.taken.extend(taken);
            }
            Operation::Apply { count } => self.apply(*count),
            Operation::Pass { by } => self.now += by,
            Operation::Shed { keep } => {
                self.feed.shed(*keep);
                assert!(self.feed.len() <= (*keep).max(2));
            }
            Operation::Freeze => self.freeze(),
            Operation::Install => self.install(),
            Operation::Restart => {
                let taken = std::mem::take(&mut self.taken);
                let least = taken.iter().map(Entry::key).min();
                self.feed = Feed::new(self.feed.resume_from(least), Millis(self.now));
            }
            Operation::Reopen { end, seed } => self.reopen(*end, *seed),
            Operation::CrashInWriting { calls, end, seed } => {
                let Some((parts, _)) = self.under_way.take() else { return };
                self.storage.stop_after_calls(*calls);
                for (number, part) in parts {
                    // Whole or not, no checkpoint names it.
                    drop(write(&self.storage, part, number));
                }
                self.reopen(*end, *seed);
            }
        }
    }

    fn check(&mut self) {
        assert_eq!(self.schedule.pending(), self.pending.len() as u64);
        for sequence in 0..self.schedule.next_sequence().0 + 2 {
            let expected = self.states.get(&sequence).copied().unwrap_or(EntryState::Nothing);
            assert_eq!(self.schedule.state(Sequence(sequence)), expected);
        }
        for (key, entry) in &self.pending {
            assert_eq!(self.schedule.find(*key).unwrap(), Some(*entry));
        }
    }

    /// All that is left comes by itself, without a restart, which would heal what was skipped.
    fn drain(&mut self) {
        let mut rounds = 0;
        let all: BTreeSet<DueKey> = self.pending.keys().copied().collect();
        let in_flight: BTreeSet<DueKey> = self.taken.iter().map(Entry::key).collect();
        let mut came = in_flight;
        self.apply(usize::MAX);
        while !self.pending.is_empty() {
            let next = [self.feed.next_due(), self.feed.next_load(self.window_ms, self.entries_max)];
            self.now = next.into_iter().flatten().min().unwrap().0.max(self.now);
            while self.load() == Loaded::More {}
            let due = self.pending.range(..=DueKey::end_of(Millis(self.now))).count();
            let taken = self.take(usize::MAX);
            let fresh = taken.iter().filter(|entry| self.pending.contains_key(&entry.key())).count();
            assert!(!taken.is_empty() || due == 0, "{due} due at {} and none came", self.now);
            came.extend(taken.iter().map(Entry::key));
            self.taken.extend(taken);
            self.apply(usize::MAX);
            if fresh == 0 && self.feed.is_empty() {
                // Nothing is near: go to what is next rather than window by window.
                let first = self.pending.first_key_value().map_or(0, |(key, _)| key.due.0);
                self.now = self.now.max(first);
            }
            rounds += 1;
            assert!(rounds < 100_000);
        }
        assert!(all.is_subset(&came));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn feed_and_schedule_agree_with_a_sorted_map(
        window_ms in prop::sample::select(vec![0_u64, 1, 7, 60, 5_000]),
        entries_max in prop::sample::select(vec![1_usize, 2, 5, 16, 1_000]),
        operations in prop::collection::vec(operation(), 1..300),
    ) {
        let mut pair = Pair::new(window_ms, entries_max);
        for operation in &operations {
            pair.run(operation);
        }
        pair.check();
        // Half of the histories come to their end without a restart, which would heal what was skipped.
        if operations.len() % 2 == 0 {
            pair.reopen(Crash::PowerCutLosesAll, 1);
            pair.check();
        }
        pair.drain();
        pair.check();
    }
}
