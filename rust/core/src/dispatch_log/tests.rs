//! Compares the dispatch log with a sorted map. Freezing, installing, reopening and crashes are ordinary
//! operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::run::{RUN_FOLDER, Run, RunHead, RunKind, RunWriter, list_runs, run_path};
use crate::storage::{Crash, MemoryStorage, Storage};
use crate::units::{DueKey, Location, Millis, SegmentNumber, Sequence};

const STREAM: [u8; 16] = [9; 16];
/// These are not neighbours, so that the subjects in between are never admitted themselves.
const SUBJECTS: [u32; 3] = [1, 2, 6];

#[derive(Clone, Debug)]
enum Operation {
    /// Messages become ready.
    Push { subject: usize, count: u64 },
    /// All messages below a percentage of the ready ones are finished.
    Finish { subject: usize, percent: u64 },
    /// A group reads again from a percentage of the finished messages on.
    ReadAgain { subject: usize, percent: u64 },
    /// A checkpoint begins. An unfinished one is abandoned.
    Freeze,
    /// The checkpoint is completed.
    Install { entries_max: usize },
    /// Finished runs are removed.
    Forget,
    /// Entries replace rows of runs.
    Patch { subject: usize, percent: u64 },
    /// The store is opened again after this kind of crash.
    Reopen { end: Crash, seed: u64 },
    /// The same, while the checkpoint is written.
    CrashInWriting { calls: u64, end: Crash, seed: u64 },
}

fn operation() -> impl Strategy<Value = Operation> {
    let subject = 0..SUBJECTS.len();
    let end = prop::sample::select(vec![Crash::Kill, Crash::PowerCut, Crash::PowerCutLosesAll]);
    prop_oneof![
        8 => (subject.clone(), prop_oneof![4 => 1_u64..4, 1 => 60_u64..200])
            .prop_map(|(subject, count)| Operation::Push { subject, count }),
        5 => (subject.clone(), 0_u64..130).prop_map(|(subject, percent)| Operation::Finish { subject, percent }),
        2 => (subject.clone(), 0_u64..130).prop_map(|(subject, percent)| Operation::ReadAgain { subject, percent }),
        3 => Just(Operation::Freeze),
        3 => prop::sample::select(vec![0_usize, 5, 1_000]).prop_map(|entries_max| Operation::Install { entries_max }),
        1 => Just(Operation::Forget),
        1 => (subject, 0_u64..100).prop_map(|(subject, percent)| Operation::Patch { subject, percent }),
        1 => (end.clone(), any::<u64>()).prop_map(|(end, seed)| Operation::Reopen { end, seed }),
        1 => (0_u64..12, end, any::<u64>())
            .prop_map(|(calls, end, seed)| Operation::CrashInWriting { calls, end, seed }),
    ]
}

/// A fact of the message log.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Ready(Entry),
    FinishedBelow(SubjectNumber, ReadyNumber),
    ReadAgain(SubjectNumber, ReadyNumber),
}

/// The dispatch log's part of a checkpoint.
#[derive(Clone, Debug, Default)]
struct Checkpoint {
    /// The number of facts that it covers.
    facts: usize,
    queues: Vec<(SubjectNumber, ReadyNumber, (ReadyNumber, ReadyNumber))>,
    runs: Vec<RunNumber>,
}

/// A dispatch log, and a sorted map of the ready messages that were never finished, to compare it with.
struct Pair {
    storage: MemoryStorage,
    log: DispatchLog,
    facts: Vec<Fact>,
    saved: Checkpoint,
    under_way: Option<(Vec<FrozenReady>, Checkpoint)>,
    next_run: u32,
    ready: BTreeMap<(SubjectNumber, ReadyNumber), Entry>,
    next: BTreeMap<SubjectNumber, ReadyNumber>,
    finished: BTreeMap<SubjectNumber, ReadyNumber>,
    /// Up to where the messages were finished once.
    listed: BTreeMap<SubjectNumber, ReadyNumber>,
    /// The number of facts at the last freeze. A replay repeats the later ones.
    frozen_at: usize,
    has_patches: bool,
}

fn entry(subject: SubjectNumber, sequence: u64) -> Entry {
    let key = DueKey { due: Millis(sequence % 97), sequence: Sequence(sequence) };
    let location = Location::in_segment(SegmentNumber(1 + (sequence % 5) as u32), (sequence * 8) as u32);
    Entry::new(key, 1 + (sequence % 3) as u16, Sequence(sequence / 2), location, subject)
}

fn write(storage: &MemoryStorage, number: RunNumber, frozen: &[FrozenReady]) -> Result<Option<Arc<Run>>> {
    let row_count: usize = frozen.iter().map(|part| part.entries.len()).sum();
    if row_count == 0 {
        return Ok(None);
    }
    let head = RunHead { number, stream: STREAM, row_count: row_count as u64 };
    let mut writer = RunWriter::create(storage, head)?;
    for part in frozen {
        for (place, entry) in (0_u64..).zip(part.entries.iter()) {
            writer.push_row(&row_of(part.first.plus(place), entry))?;
        }
        writer.sync()?;
    }
    writer.finish(storage).map(|run| Some(Arc::new(run)))
}

impl Pair {
    fn new() -> Self {
        let storage = MemoryStorage::new(1);
        storage.create_folder(RUN_FOLDER).unwrap();
        storage.sync_folder("").unwrap();
        let mut log = DispatchLog::default();
        for subject in SUBJECTS {
            log.admit(SubjectNumber(subject)).unwrap();
        }
        let none: BTreeMap<SubjectNumber, ReadyNumber> =
            SUBJECTS.iter().map(|subject| (SubjectNumber(*subject), ReadyNumber(0))).collect();
        Self {
            storage,
            log,
            facts: Vec::new(),
            saved: Checkpoint::default(),
            under_way: None,
            next_run: 0,
            ready: BTreeMap::new(),
            next: none.clone(),
            finished: none.clone(),
            listed: none,
            frozen_at: 0,
            has_patches: false,
        }
    }

    fn apply(&mut self, fact: Fact) {
        match fact {
            Fact::Ready(entry) => {
                let number = self.log.push(entry).unwrap();
                assert_eq!(Some(&number), self.next.get(&entry.subject()));
                self.ready.insert((entry.subject(), number), entry);
                self.next.insert(entry.subject(), number.next());
            }
            Fact::FinishedBelow(subject, number) => {
                self.log.finish_below(subject, number);
                let below = number.min(self.next[&subject]).max(self.finished[&subject]);
                self.finished.insert(subject, below);
                self.listed.insert(subject, below.max(self.listed[&subject]));
                self.ready.retain(|(of, number), _| *of != subject || *number >= below);
            }
            Fact::ReadAgain(subject, number) => {
                self.log.reopen(subject, number);
                self.finished.insert(subject, number.min(self.finished[&subject]));
            }
        }
    }

    fn note(&mut self, fact: Fact) {
        self.facts.push(fact);
        self.apply(fact);
    }

    /// A number among the unfinished ones of a subject. It is after the last one if `percent` is over 100.
    fn place(&self, subject: SubjectNumber, percent: u64) -> ReadyNumber {
        let (from, to) = (self.finished[&subject], self.next[&subject]);
        from.plus(to.since(from) * percent / 100)
    }

    fn freeze(&mut self) {
        let frozen = self.log.freeze();
        let queue = |(subject, next): (&SubjectNumber, &ReadyNumber)| {
            (*subject, *next, (self.finished[subject], self.listed[subject]))
        };
        let queues = self.next.iter().map(queue).collect();
        self.frozen_at = self.facts.len();
        self.under_way = Some((frozen, Checkpoint { facts: self.facts.len(), queues, runs: Vec::new() }));
    }

    fn next_run(&mut self) -> RunNumber {
        self.next_run += 1;
        RunNumber(self.next_run)
    }

    fn install(&mut self, entries_max: usize) {
        let Some((frozen, mut checkpoint)) = self.under_way.take() else { return };
        let number = self.next_run();
        let run = write(&self.storage, number, &frozen).unwrap();
        self.log.install(run, entries_max);
        checkpoint.runs = self.log.runs().iter().map(|run| run.run().number()).collect();
        self.saved = checkpoint;
        let since = self.facts.iter().skip(self.saved.facts).filter(|fact| matches!(fact, Fact::Ready(_))).count();
        assert!(self.log.entries_in_memory() <= entries_max.max(since), "memory keeps what a run holds");
    }

    fn forget(&mut self) {
        let finished = |run: &DispatchRun| run.ranges().iter().all(|range| self.listed[&range.subject] > range.last);
        let gone: Vec<RunNumber> =
            self.log.runs().iter().filter(|run| finished(run)).map(|run| run.run().number()).collect();
        for run in self.log.runs() {
            assert_eq!(self.log.is_run_finished(run), gone.contains(&run.run().number()));
        }
        self.log.forget_runs(&|number| gone.contains(&number));
    }

    /// Restores what a new process finds: the last saved checkpoint, and the facts after it.
    fn reopen(&mut self, end: Crash, seed: u64) {
        self.storage = self.storage.crash(end, seed);
        for number in list_runs(&self.storage).unwrap() {
            if !self.saved.runs.contains(&number) {
                self.storage.remove(&run_path(number)).unwrap();
            }
        }
        let mut log = DispatchLog::default();
        for subject in SUBJECTS {
            log.admit(SubjectNumber(subject)).unwrap();
        }
        (self.next, self.finished, self.listed, self.ready) = Default::default();
        for subject in SUBJECTS {
            self.next.insert(SubjectNumber(subject), ReadyNumber(0));
            self.finished.insert(SubjectNumber(subject), ReadyNumber(0));
            self.listed.insert(SubjectNumber(subject), ReadyNumber(0));
        }
        for (subject, next, below) in self.saved.queues.clone() {
            log.restore_queue(subject, next, below).unwrap();
        }
        for number in &self.saved.runs {
            log.restore_run(Arc::new(Run::open(&self.storage, *number, RunKind::Dispatch, &STREAM).unwrap()));
        }
        // The map is rebuilt from the first fact on, the log from its checkpoint on.
        let facts = std::mem::take(&mut self.facts);
        self.log = DispatchLog::default();
        for subject in SUBJECTS {
            self.log.admit(SubjectNumber(subject)).unwrap();
        }
        for (place, fact) in facts.iter().enumerate() {
            if place == self.saved.facts {
                self.log = std::mem::take(&mut log);
            }
            self.apply(*fact);
        }
        if facts.len() == self.saved.facts {
            self.log = log;
        }
        self.facts = facts;
        self.frozen_at = self.saved.facts;
        (self.under_way, self.has_patches) = (None, false);
    }

    fn run(&mut self, operation: &Operation) {
        match operation {
            Operation::Push { subject, count } => {
                for _ in 0..*count {
                    self.note(Fact::Ready(entry(SubjectNumber(SUBJECTS[*subject]), self.facts.len() as u64 + 1)));
                }
            }
            Operation::Finish { subject, percent } => {
                let subject = SubjectNumber(SUBJECTS[*subject]);
                self.note(Fact::FinishedBelow(subject, self.place(subject, *percent)));
            }
            Operation::ReadAgain { subject, percent } => {
                let subject = SubjectNumber(SUBJECTS[*subject]);
                self.note(Fact::ReadAgain(subject, ReadyNumber(self.finished[&subject].0 * percent / 100)));
            }
            Operation::Freeze => self.freeze(),
            Operation::Install { entries_max } => self.install(*entries_max),
            Operation::Forget => self.forget(),
            Operation::Patch { subject, percent } => {
                let subject = SubjectNumber(SUBJECTS[*subject]);
                let number = self.place(subject, *percent);
                if let Posting::InRun { .. } = self.log.posting(subject, number) {
                    let found = self.ready[&(subject, number)].with_location(Location::NOWHERE);
                    self.log.patch(subject, &[(number, found)]);
                    self.ready.insert((subject, number), found);
                    self.has_patches = true;
                }
            }
            Operation::Reopen { end, seed } => self.reopen(*end, *seed),
            Operation::CrashInWriting { calls, end, seed } => {
                let Some((frozen, _)) = self.under_way.take() else { return };
                let number = self.next_run();
                self.storage.stop_after_calls(*calls);
                // No checkpoint names the run, whether it is whole or not.
                drop(write(&self.storage, number, &frozen));
                self.reopen(*end, *seed);
            }
        }
    }

    /// Checks that every number of every subject agrees with the map, and that nothing else is there.
    fn check(&self) {
        let (mut in_memory, mut again) = (0, 0);
        for (subject, next) in &self.next {
            assert_eq!(self.log.next_number(*subject), *next);
            let (finished, listed) = (self.finished[subject], self.listed[subject]);
            assert_eq!((self.log.finished_below(*subject), self.log.listed_from(*subject)), (finished, listed));
            for number in (0..next.0 + 2).map(ReadyNumber) {
                let expected = self.ready.get(&(*subject, number)).copied();
                assert_eq!(self.log.find(*subject, number).unwrap(), expected, "{number} of {subject}");
                match self.log.posting(*subject, number) {
                    Posting::Entry(_) => in_memory += 1,
                    Posting::InRun { run, count } => self.check_run(*subject, number, &run, count),
                    Posting::InLog => assert!((finished..listed).contains(&number)),
                    Posting::Gone => assert!(!(finished..*next).contains(&number)),
                }
            }
            again += listed.since(finished);
        }
        assert!(matches!(self.log.posting(SubjectNumber(5), ReadyNumber(0)), Posting::Gone));
        assert_eq!(self.log.unfinished(), self.ready.len() as u64 + again);
        if !self.has_patches {
            assert_eq!(self.log.entries_in_memory(), in_memory);
        }
        let since = self.facts.iter().skip(self.frozen_at).filter(|fact| matches!(fact, Fact::Ready(_))).count();
        assert_eq!(self.log.entries_since_freeze(), since as u64);
    }

    /// Checks that one read returns every number that the run claims to have from `number` on.
    fn check_run(&self, subject: SubjectNumber, number: ReadyNumber, run: &Run, count: u64) {
        let read = read_postings(run, subject, number, count).unwrap();
        assert!(read.damaged.is_empty() && read.error.is_none(), "{read:?}");
        let numbers: Vec<u64> = read.entries.iter().map(|(number, _)| number.0).collect();
        assert_eq!(numbers, (number.0..number.0 + count).collect::<Vec<_>>());
        if !self.has_patches {
            for (number, entry) in read.entries {
                assert_eq!(self.ready.get(&(subject, number)), Some(&entry));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_dispatch_log_agrees_with_a_sorted_map(operations in prop::collection::vec(operation(), 1..60)) {
        let mut pair = Pair::new();
        for operation in &operations {
            pair.run(operation);
        }
        pair.check();
        pair.reopen(Crash::PowerCutLosesAll, 1);
        pair.check();
    }
}

#[test]
fn a_part_whose_writing_failed_comes_with_the_next_freeze() {
    let mut pair = Pair::new();
    let push = Operation::Push { subject: 0, count: 3 };
    for operation in [&push, &Operation::Freeze, &push, &Operation::Freeze, &Operation::Install { entries_max: 0 }] {
        pair.run(operation);
    }
    assert_eq!(pair.log.runs()[0].run().row_count(), 6);
    pair.check();
    pair.reopen(Crash::PowerCutLosesAll, 1);
    assert_eq!((pair.log.entries_in_memory(), pair.log.unfinished()), (0, 6));
    pair.check();
}

#[test]
fn what_is_finished_while_a_part_is_written_stays_finished() {
    let mut pair = Pair::new();
    for operation in [
        Operation::Push { subject: 1, count: 100 },
        Operation::Freeze,
        Operation::Finish { subject: 1, percent: 50 },
        Operation::Install { entries_max: 0 },
    ] {
        pair.run(&operation);
    }
    assert_eq!(pair.log.runs()[0].ranges()[0].rows, 100, "the run holds what was ready at the freeze");
    pair.check();
    pair.reopen(Crash::Kill, 1);
    assert_eq!(pair.log.unfinished(), 50);
    pair.check();
}

#[test]
fn a_number_beyond_what_any_store_gives_out_is_refused() {
    let mut log = DispatchLog::default();
    let refused = log.admit(SubjectNumber(SUBJECT_NUMBER_MAX + 1));
    assert!(matches!(refused, Err(Error::InvalidArgument { argument: "subject", .. })), "{refused:?}");
    assert_eq!(log.push(entry(SubjectNumber(3), 1)), None, "a subject never admitted keeps nothing");
}

#[test]
fn a_run_is_read_from_the_very_block_in_which_a_number_stands() {
    let mut pair = Pair::new();
    for (subject, count) in [(0, 200), (1, 1), (2, 900)] {
        pair.run(&Operation::Push { subject, count });
    }
    pair.run(&Operation::Freeze);
    pair.run(&Operation::Install { entries_max: 0 });
    let run = Arc::clone(pair.log.runs()[0].run());
    let (last, blocks) = (SubjectNumber(SUBJECTS[2]), |first, count| {
        postings::blocks_of(&run, SubjectNumber(SUBJECTS[2]), ReadyNumber(first), count)
    });
    // A block has 85 rows, and 201 rows come before the subject's first one.
    assert_eq!([blocks(0, 1), blocks(53, 1), blocks(54, 1)], [Some((2, 1)), Some((2, 1)), Some((3, 1))]);
    assert_eq!([blocks(53, 2), blocks(54, 846)], [Some((2, 2)), Some((3, 10))]);
    assert_eq!([blocks(900, 1), blocks(0, 0)], [None, None]);
    assert_eq!(postings::blocks_of(&run, SubjectNumber(5), ReadyNumber(0), 1), None);
    for first in 0..900 {
        pair.check_run(last, ReadyNumber(first), &run, (900 - first).min(90));
    }
}

#[test]
fn a_flood_leaves_no_room_behind_once_it_is_in_a_run() {
    let mut pair = Pair::new();
    pair.run(&Operation::Push { subject: 0, count: 1_000 });
    pair.run(&Operation::Freeze);
    pair.run(&Operation::Install { entries_max: 0 });
    let room = pair.log.queue(SubjectNumber(SUBJECTS[0])).unwrap().room();
    assert!(room <= 16, "{room}");
    pair.run(&Operation::Push { subject: 0, count: 3 });
    pair.check();
}
