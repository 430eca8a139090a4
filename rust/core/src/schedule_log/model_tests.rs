//! Compares schedule and feed with a sorted map. Freezing, installing, reopening and crashes are ordinary
//! operations.

mod adopting;
mod checking;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::error::Result;
use crate::run::{LOAD_FOLDER, RUN_FOLDER, Run, RunHoles, RunKind, ScanBuffer, StagedRun, list_runs, run_path};
use crate::storage::{Crash, MemoryStorage, Storage};
use crate::units::{DueKey, Location, Millis, Minute, RunNumber, SegmentNumber, Sequence, SubjectNumber, Tally};

const STREAM: [u8; 16] = [5; 16];
const FAR: Millis = Millis(u64::MAX);

fn entry(due: u64, sequence: u64) -> Entry {
    let key = DueKey { due: Millis(due), sequence: Sequence(sequence) };
    let place = Location::in_segment(SegmentNumber(1), 8 * sequence as u32);
    let size = Some((sequence % 7) as u32);
    Entry::new(key, 1, Sequence(sequence), place, subject_of(sequence)).with_size(size)
}

const SUBJECTS: u32 = 7;

/// One subject has many messages, so that it gets its own lane, two have a fifth each, and four have a fifth
/// together. Lanes then have several subjects, split again, and join.
fn subject_of(sequence: u64) -> SubjectNumber {
    let of_four = |turn: u64| 4 + (turn % 4) as u32;
    SubjectNumber(match sequence % 10 {
        0 | 5 => of_four(sequence / 5),
        1 | 2 => 2,
        6 | 8 => 3,
        _ => 1,
    })
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
    /// Adopts a loaded run, with one row for each number, due that far ahead.
    Adopt {
        ahead: Vec<i64>,
    },
    Cancel {
        which: usize,
    },
    Move {
        which: usize,
        ahead: i64,
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
    /// Shows the next page of a list of pending entries. A list begins if none is running.
    List {
        limit: usize,
    },
    Freeze,
    Install,
    /// Begins a new feed, as after payloads have moved.
    Restart,
    /// Opens the store again after this kind of crash.
    Reopen {
        end: Crash,
        seed: u64,
    },
    /// The same, while a checkpoint's runs are written.
    CrashInWriting {
        calls: u64,
        end: Crash,
        seed: u64,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    let ahead =
        prop_oneof![6 => -3_i64..4, 4 => 0_i64..40, 2 => 0_i64..6_000, 2 => 0_i64..400_000, 1 => 0_i64..(1 << 22)];
    let end = prop::sample::select(vec![Crash::Kill, Crash::PowerCut, Crash::PowerCutLosesAll]);
    prop_oneof![
        30 => ahead.clone().prop_map(|ahead| Operation::Insert { ahead }),
        2 => Just(Operation::Skip),
        1 => Just(Operation::AtOnce),
        2 => prop::collection::vec(ahead.clone(), 1..400).prop_map(|ahead| Operation::Adopt { ahead }),
        4 => any::<usize>().prop_map(|which| Operation::Cancel { which }),
        6 => (any::<usize>(), ahead).prop_map(|(which, ahead)| Operation::Move { which, ahead }),
        8 => Just(Operation::Load),
        8 => (0_usize..8).prop_map(|limit| Operation::Take { limit }),
        6 => (0_usize..12).prop_map(|count| Operation::Apply { count }),
        6 => prop_oneof![8 => 0_u64..3, 3 => 0_u64..60, 1 => 0_u64..(1 << 21)].prop_map(|by| Operation::Pass { by }),
        2 => (0_usize..12).prop_map(|keep| Operation::Shed { keep }),
        4 => (1_usize..9).prop_map(|limit| Operation::List { limit }),
        2 => Just(Operation::Freeze),
        2 => Just(Operation::Install),
        1 => Just(Operation::Restart),
        1 => (end.clone(), any::<u64>()).prop_map(|(end, seed)| Operation::Reopen { end, seed }),
        1 => (0_u64..30, end, any::<u64>())
            .prop_map(|(calls, end, seed)| Operation::CrashInWriting { calls, end, seed }),
    ]
}

/// Merges any two neighbouring windows.
const MERGES: MergeLimits = MergeLimits { windows_min: 2, rows_max: 40, wasted_bytes_min: 1 };

fn merge(storage: &dyn Storage, plan: MergePlan, number: RunNumber) -> Result<(TwoBits, Option<Arc<Run>>)> {
    let bits = plan.bits();
    if plan.pending() == 0 {
        return Ok((bits, None));
    }
    let mut writer = plan.into_writer(number, STREAM, FAR);
    loop {
        match writer.write_piece(storage, 300)? {
            MergeProgress::More => {}
            MergeProgress::Written(run) => return Ok((bits, Some(run))),
            MergeProgress::GivenUp { error, .. } => return Err(error),
        }
    }
}

/// A fact of the message log.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Insert(Entry),
    Skip,
    AtOnce,
    Adopted(RunNumber),
    Became(DueKey, SubjectNumber, u32, EntryState),
    Moved(DueKey, DueKey),
}

fn nothing_ended(below: Minute) -> SavedEnded {
    SavedEnded::none(below)
}

/// A window as a checkpoint saves it.
#[derive(Clone, Debug)]
struct SavedWindow {
    first: Sequence,
    length: u64,
    words: Vec<u64>,
    run: Option<RunNumber>,
    ended: SavedEnded,
}

/// The schedule's part of a checkpoint.
#[derive(Clone, Debug)]
struct Checkpoint {
    /// The number of facts that it covers.
    facts: usize,
    windows: Vec<SavedWindow>,
    next: Sequence,
    feed_from: DueKey,
    /// The runs that it names.
    runs: BTreeSet<RunNumber>,
}

/// A list of pending entries, read page by page while other operations run.
struct Listing {
    from: DueKey,
    to: DueKey,
    /// Entries that have been pending since the list began.
    stayed: BTreeSet<DueKey>,
    shown: Vec<DueKey>,
}

/// A checkpoint that is being written.
struct UnderWay {
    parts: Vec<(RunNumber, FrozenPart)>,
    merge: Option<(RunNumber, MergePlan)>,
    checkpoint: Checkpoint,
}

/// The schedule and the feed, with a sorted map to compare them with.
struct Pair {
    storage: MemoryStorage,
    schedule: Schedule,
    feed: Feed,
    now: u64,
    window_ms: u64,
    entries_max: usize,
    pending: BTreeMap<DueKey, Entry>,
    states: BTreeMap<u64, EntryState>,
    /// The original message of each moved one.
    roots: BTreeMap<u64, u64>,
    /// Runs that were adopted, with their first sequences.
    adopted: BTreeMap<RunNumber, (StagedRun, Sequence)>,
    /// Entries that were taken and are not applied yet.
    taken: Vec<Entry>,
    facts: Vec<Fact>,
    saved: Checkpoint,
    under_way: Option<UnderWay>,
    runs: u32,
    listing: Option<Listing>,
}

impl Pair {
    fn new(window_ms: u64, entries_max: usize) -> Self {
        let storage = MemoryStorage::new(1);
        storage.create_folder(RUN_FOLDER).unwrap();
        storage.create_folder(LOAD_FOLDER).unwrap();
        storage.sync_folder("").unwrap();
        let saved = Checkpoint {
            facts: 0,
            windows: Vec::new(),
            next: Sequence(1),
            feed_from: DueKey::START,
            runs: BTreeSet::new(),
        };
        Self {
            storage,
            schedule: Schedule::new(Sequence(1), Millis(100)),
            feed: Feed::new(DueKey::START, Millis(100)),
            now: 100,
            window_ms,
            entries_max,
            pending: BTreeMap::new(),
            states: BTreeMap::new(),
            roots: BTreeMap::new(),
            adopted: BTreeMap::new(),
            taken: Vec::new(),
            facts: Vec::new(),
            saved,
            under_way: None,
            runs: 0,
            listing: None,
        }
    }

    fn load(&mut self) -> Loaded {
        self.feed.load(&mut self.schedule, Millis(self.now), self.window_ms, self.entries_max).unwrap()
    }

    fn take(&mut self, limit: usize) -> Vec<Entry> {
        let mut taken = Vec::new();
        self.feed.take_due(Millis(self.now), Room { all: limit, floods: limit }, &mut taken);
        assert!(taken.len() <= limit);
        assert!(taken.iter().all(|entry| entry.due().0 <= self.now), "early");
        // A moved entry keeps the payload that it came with.
        assert!(taken.iter().all(|entry| self.is_in_its_place(entry)));
        for subject in 1..=SUBJECTS {
            let of_subject: Vec<_> = taken.iter().filter(|entry| entry.subject().0 == subject).collect();
            assert!(of_subject.windows(2).all(|pair| pair[0].key() < pair[1].key()), "out of order");
        }
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
                let size = entry.size().unwrap();
                self.note(Fact::Became(entry.key(), entry.subject(), size, EntryState::Dispatched));
            }
        }
    }

    /// Adds a fact to the log, to the schedule and to the map.
    fn note(&mut self, fact: Fact) {
        let sequence = self.schedule.next_sequence();
        match fact {
            Fact::Insert(new) => {
                self.pending.insert(new.key(), new);
                self.states.insert(sequence.0, EntryState::Pending);
            }
            // `adopt` has noted each of its rows.
            Fact::Skip | Fact::Adopted(_) => {}
            Fact::AtOnce => {
                self.states.insert(sequence.0, EntryState::Dispatched);
            }
            Fact::Became(key, _, _, state) => {
                self.states.insert(key.sequence.0, state);
            }
            Fact::Moved(target, key) => {
                let entry = self.pending.remove(&target).unwrap();
                self.pending.insert(key, entry.moved_to(key));
                self.roots.insert(key.sequence.0, entry.payload_sequence().0);
                self.states.insert(target.sequence.0, EntryState::Nothing);
                self.states.insert(sequence.0, EntryState::Pending);
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
            Fact::Adopted(number) => self.take_in(number),
            Fact::AtOnce => self.schedule.note_dispatched_at_once(next),
            Fact::Became(key, subject, size, state) => {
                assert_eq!(self.schedule.set(key.sequence, state), EntryState::Pending);
                self.schedule.note_ended(key, subject, size);
            }
            Fact::Moved(target, key) => {
                let root = self.roots[&key.sequence.0];
                let (subject, size) = (subject_of(root), (root % 7) as u32);
                let entry = self.schedule.moved(target, key, subject, Some(size));
                self.schedule.note_ended(target, subject, size);
                assert_eq!(self.schedule.set(target.sequence, EntryState::Nothing), EntryState::Pending);
                self.schedule.insert(entry);
                self.feed.arrive(entry);
            }
        }
    }

    fn freeze(&mut self) {
        let needed = self.schedule.windows().iter().filter(|window| self.schedule.is_needed(window));
        let mut runs: BTreeSet<RunNumber> = needed.filter_map(|window| window.run()).map(|run| run.number()).collect();
        let feed_from = self.feed.resume_from(self.taken.iter().map(Entry::key).min());
        self.schedule.prune_ended(feed_from);
        let parts: Vec<(RunNumber, FrozenPart)> =
            self.schedule.freeze(Millis(self.now)).into_iter().map(|part| (self.next_run(), part)).collect();
        let planned: BTreeMap<Sequence, RunNumber> = parts.iter().map(|(run, part)| (part.first(), *run)).collect();
        runs.extend(planned.values());
        let saved = |window: &Window| SavedWindow {
            first: window.first(),
            length: window.bits().len(),
            words: window.bits().words().collect(),
            run: window
                .run()
                .map(|run| run.number())
                .filter(|run| runs.contains(run))
                .or_else(|| planned.get(&window.first()).copied()),
            ended: if window.run().is_some() { window.ended() } else { nothing_ended(window.ended().below) },
        };
        let checkpoint = Checkpoint {
            facts: self.facts.len(),
            windows: self.schedule.windows().iter().map(saved).collect(),
            next: self.schedule.next_sequence(),
            feed_from,
            runs: runs.clone(),
        };
        let plan = self.schedule.plan_merge(MERGES, &RunHoles::default(), BTreeSet::new);
        let merge = plan.map(|plan| (self.next_run(), plan));
        self.under_way = Some(UnderWay { parts, merge, checkpoint });
    }

    fn next_run(&mut self) -> RunNumber {
        self.runs += 1;
        RunNumber(self.runs)
    }

    fn install(&mut self) {
        let Some(UnderWay { parts, merge: plan, mut checkpoint }) = self.under_way.take() else { return };
        for (number, part) in parts {
            let first = part.first();
            let run = write(&self.storage, part, number).unwrap();
            self.schedule.install(first, run).unwrap();
        }
        if let Some((number, plan)) = plan {
            let inputs: BTreeSet<RunNumber> = plan.runs().collect();
            let (bits, run) = merge(&self.storage, plan, number).unwrap();
            let saved = SavedWindow {
                first: bits.first(),
                length: bits.len(),
                words: bits.words().collect(),
                run: run.as_ref().map(|run| run.number()),
                ended: nothing_ended(Minute(0)),
            };
            let windows = &mut checkpoint.windows;
            let from = windows.partition_point(|window| window.first < bits.first());
            let to = windows.partition_point(|window| window.first < bits.end());
            windows.splice(from..to, [saved]);
            checkpoint.runs.retain(|run| !inputs.contains(run));
            checkpoint.runs.extend(run.as_ref().map(|run| run.number()));
            self.schedule.install_merged(&bits, run);
        }
        let joined = |window: &mut SavedWindow| Some((window.first, window.ended.join()?));
        let joined: Vec<_> = checkpoint.windows.iter_mut().filter_map(joined).collect();
        self.schedule.take_joined_ended(&joined);
        let before = std::mem::replace(&mut self.saved, checkpoint);
        for number in list_runs(&self.storage).unwrap() {
            if !before.runs.contains(&number) && !self.saved.runs.contains(&number) {
                // No pending entry leads to the run any more, even if it was moved.
                self.schedule.release(number);
                self.storage.remove(&run_path(number)).unwrap();
            }
        }
    }

    /// Restores what a new process finds: the last saved checkpoint, and the facts after it.
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
            let open = |number| self.open(number);
            Window::restored(bits, window.run.map(open).map(Arc::new), window.ended.clone())
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
            Operation::Adopt { ahead } => self.adopt(ahead),
            Operation::Cancel { which } => {
                let keys: Vec<DueKey> = self.pending.keys().copied().collect();
                if let Some(key) = keys.get(which % keys.len().max(1)) {
                    let gone = self.pending.remove(key).unwrap();
                    let (subject, size) = (gone.subject(), gone.size().unwrap());
                    self.note(Fact::Became(*key, subject, size, EntryState::Cancelled));
                }
            }
            Operation::Move { which, ahead } => {
                let keys: Vec<DueKey> = self.pending.keys().copied().collect();
                if let Some(target) = keys.get(which % keys.len().max(1)) {
                    let due = Millis(self.now.saturating_add_signed(*ahead));
                    self.note(Fact::Moved(*target, DueKey { due, sequence: next }));
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
                assert!(self.feed.len() <= (*keep).max(2 * self.feed.lane_count()));
            }
            Operation::List { limit } => self.list(*limit),
            Operation::Freeze => self.freeze(),
            Operation::Install => self.install(),
            Operation::Restart => {
                let taken = std::mem::take(&mut self.taken);
                let least = taken.iter().map(Entry::key).min();
                self.feed = Feed::new(self.feed.resume_from(least), Millis(self.now));
            }
            Operation::Reopen { end, seed } => self.reopen(*end, *seed),
            Operation::CrashInWriting { calls, end, seed } => {
                let Some(UnderWay { parts, merge: plan, .. }) = self.under_way.take() else { return };
                self.storage.stop_after_calls(*calls);
                for (number, part) in parts {
                    // No checkpoint names the run, whether it is whole or not.
                    drop(write(&self.storage, part, number));
                }
                drop(plan.map(|(number, plan)| merge(&self.storage, plan, number)));
                self.reopen(*end, *seed);
            }
        }
    }

    /// Takes all remaining entries without a restart, which would repair a skipped entry.
    fn drain(&mut self) {
        let mut rounds = 0;
        let all: BTreeSet<DueKey> = self.pending.keys().copied().collect();
        let in_flight: BTreeSet<DueKey> = self.taken.iter().map(Entry::key).collect();
        let mut came = in_flight;
        self.apply(usize::MAX);
        while !self.pending.is_empty() {
            let next =
                [self.feed.next_due(Room { all: 1, floods: 1 }), self.feed.next_load(self.window_ms, self.entries_max)];
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
                // No entry is near. Jump to the next one, instead of going window by window.
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
        for (at, operation) in operations.iter().enumerate() {
            pair.run(operation);
            if at % 8 == 0 {
                pair.check_horizon();
            }
        }
        pair.check();
        // Half of the histories end without a restart, which would repair a skipped entry.
        if operations.len() % 2 == 0 {
            pair.reopen(Crash::PowerCutLosesAll, 1);
            pair.check();
        }
        pair.drain();
        pair.check();
    }
}
