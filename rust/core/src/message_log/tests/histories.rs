//! Random histories: appends, rolls, faults, kills and power cuts at any point, and reopening, again and
//! again, checked against what was promised.

use proptest::prelude::*;

use super::fixture::{KIND_FACT, STREAM, empty_storage, encode, scan_from, shared, start};
use crate::Error;
use crate::error::StorageFault;
use crate::message_log::*;
use crate::message_log::{Class, Submission, Submitted};
use crate::record::message::KIND_MESSAGE;
use crate::storage::{Crash, MemoryStorage, Storage};
use crate::units::{Epoch, Location, Millis, Sequence, Version};

const SEGMENT: u32 = 12 << 10;

#[derive(Clone, Debug)]
enum Step {
    Submit { records: u8, bytes: u16, finishing: bool, must_sync: bool },
    Commit,
    Witness,
    Prepare { zero: bool },
    Checkpoint,
    Close,
    Crash { kind: Crash, seed: u64 },
    Fail { calls: u8, fault: StorageFault },
}

fn step() -> impl Strategy<Value = Step> {
    let fault = prop_oneof![Just(StorageFault::Stopped), Just(StorageFault::Io), Just(StorageFault::NoSpace)];
    prop_oneof![
        6 => (1..5_u8, 0..1500_u16, any::<bool>(), prop::bool::weighted(0.2)).prop_map(
            |(records, bytes, finishing, must_sync)| Step::Submit { records, bytes, finishing, must_sync }),
        6 => Just(Step::Commit),
        1 => Just(Step::Witness),
        3 => any::<bool>().prop_map(|zero| Step::Prepare { zero }),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Close),
        2 => (crash(), any::<u64>()).prop_map(|(kind, seed)| Step::Crash { kind, seed }),
        2 => (0..40_u8, fault).prop_map(|(calls, fault)| Step::Fail { calls, fault }),
    ]
}

fn crash() -> impl Strategy<Value = Crash> {
    prop_oneof![1 => Just(Crash::Kill), 1 => Just(Crash::PowerCutLosesAll), 2 => Just(Crash::PowerCut)]
}

/// The promises that a scan must find kept after a crash.
struct Promise {
    /// The payload of each sequence from 1 on, as last submitted.
    submitted: Vec<Vec<u8>>,
    /// Where submissions end.
    ends: Vec<usize>,
    /// The number of payloads that survive a power cut.
    durable: usize,
    /// The number of payloads that survive a kill.
    visible: usize,
    /// A durable position that scans may start from.
    checkpoint: Option<ScanStart>,
}

impl Promise {
    /// Compares with what a scan found, and forgets what is lost.
    fn check(&mut self, payloads: &[Vec<u8>], killed: bool) {
        let least = if killed { self.visible } else { self.durable };
        assert!(payloads.len() >= least, "found {} of {least} that were promised", payloads.len());
        assert!(payloads.len() <= self.submitted.len(), "more than was ever submitted");
        for (number, (found, sent)) in payloads.iter().zip(&self.submitted).enumerate() {
            assert!(found == sent, "sequence {} is not what was submitted", number + 1);
        }
        assert!(payloads.is_empty() || self.ends.contains(&payloads.len()), "part of a submission");
    }

    fn cut_to(&mut self, found: usize) {
        self.submitted.truncate(found);
        self.ends.retain(|end| *end <= found);
        self.durable = found;
        self.visible = found;
    }
}

struct Session {
    appender: SegmentAppender,
    group: GroupCommit,
}

impl Session {
    fn submit(&mut self, promise: &mut Promise, records: &[Vec<u8>], class: Class, must_sync: bool) {
        let bytes: Vec<u8> = records.iter().flat_map(|payload| encode(kind(payload), payload)).collect();
        let submission =
            Submission { records: &bytes, record_count: records.len() as u32, adopts: 0, class, must_sync };
        if let Ok(Submitted::Accepted(range)) = self.group.submit(submission) {
            assert_eq!(range.start, Sequence(promise.submitted.len() as u64 + 1));
            promise.submitted.extend(records.iter().cloned());
            promise.ends.push(promise.submitted.len());
        }
    }

    /// Commits what is queued, as a committer does.
    fn commit(&mut self, promise: &mut Promise, durability: Durability) -> crate::Result<()> {
        while let Some(mut commit) = self.group.take() {
            let marks = AppendMarks {
                record_count: commit.record_count,
                trusted: Millis(1000),
                held: false,
                committed: commit.committed,
                durability,
            };
            let done = self.write(&mut commit, &marks);
            if let Err(error) = &done {
                self.group.failed(&error.to_string());
            }
            promise.visible = promise.visible.max(self.group.visible().sequence.0 as usize - 1);
            promise.durable = promise.durable.max(self.group.synced_mark().sequence.0 as usize - 1);
            if durability == Durability::Disk {
                promise.durable = promise.visible;
            }
            done?;
            self.group.recycle(commit.bytes);
            self.tell_room();
        }
        Ok(())
    }

    fn write(&mut self, commit: &mut Commit, marks: &AppendMarks) -> crate::Result<()> {
        let before = self.appender.written();
        let stock = self.appender.stock_rooms().count() as u64;
        let appended = self.appender.append(&mut commit.bytes, marks)?;
        assert_eq!(before.sequence, commit.base);
        let segment = |location: Location| u64::from(location.segment().unwrap().0);
        let rolls = segment(appended.start) - segment(before.location);
        assert!(rolls <= stock, "what was accepted needed a segment that was not prepared");
        self.group.written(appended.end);
        self.group.synced(appended.synced);
        if commit.must_sync {
            self.group.synced(self.appender.sync()?);
            assert_eq!(self.group.visible(), appended.end);
        }
        Ok(())
    }

    fn tell_room(&mut self) {
        self.group.room(self.appender.tail_room(), self.appender.stock_rooms());
    }
}

fn kind(payload: &[u8]) -> u8 {
    if payload.first().is_some_and(|byte| byte % 3 == 0) { KIND_FACT } else { KIND_MESSAGE }
}

/// Opens the log as a store does: epoch, folders, scan, repair, a new segment, and the first fact of the
/// epoch.
fn open(
    storage: &MemoryStorage,
    promise: &mut Promise,
    durability: Durability,
    killed: bool,
) -> crate::Result<Session> {
    let identity = Identity::read(storage)?.expect("the store is there");
    let epoch = FileEpochSource::new(shared(storage), identity).raise()?;
    storage.sync_folder(LOG_FOLDER)?;
    storage.sync_folder("")?;
    let before = (storage.image(), storage.counts().changing());
    let (payloads, ending) = scan_from(storage, &ScanStart::BEGINNING)?;
    assert_eq!(ending.damaged_payloads, 0);
    promise.check(&payloads, killed);
    if let Some(checkpoint) = &promise.checkpoint {
        let (rest, rest_ending) = scan_from(storage, checkpoint)?;
        assert!(rest == payloads[checkpoint.next_sequence.0 as usize - 1..]);
        assert_eq!((rest_ending.end, rest_ending.chain), (ending.end, ending.chain));
    }
    assert_eq!(before, (storage.image(), storage.counts().changing()), "a scan changes nothing");
    let repaired = repair(storage, STREAM, &ending, epoch)?;
    let next = AppenderStart {
        epoch,
        number: repaired.next_segment,
        chain: ending.chain,
        next_sequence: ending.next_sequence,
        trusted: ending.trusted,
        ..start(SEGMENT)
    };
    let appender = SegmentAppender::open(shared(storage), &next)?;
    promise.cut_to(payloads.len());
    let options = GroupCommitOptions {
        batch_bytes_max: 4000,
        ..GroupCommitOptions::new(durability, appender.written(), SEGMENT)
    };
    let mut session = Session { appender, group: GroupCommit::new(options) };
    session.tell_room();
    let first = format!("epoch {epoch}").into_bytes();
    session.submit(promise, &[first], Class::Finishing, true);
    session.commit(promise, durability)?;
    Ok(session)
}

struct World {
    storage: MemoryStorage,
    session: Option<Session>,
    promise: Promise,
    durability: Durability,
    killed: bool,
}

impl World {
    fn new(durability: Durability) -> Self {
        let storage = empty_storage();
        drop(SegmentAppender::open(shared(&storage), &start(SEGMENT)).unwrap());
        let identity = Identity {
            stream: STREAM,
            node: [1; 16],
            promised_epoch: Epoch(0),
            seen: (0, Version(0)),
            clustered: false,
            segment_bytes: SEGMENT,
        };
        identity.write(&storage).unwrap();
        let promise = Promise { submitted: vec![], ends: vec![], durable: 0, visible: 0, checkpoint: None };
        Self { storage, session: None, promise, durability, killed: false }
    }

    fn crash(&mut self, kind: Crash, seed: u64) {
        self.session = None;
        self.storage = self.storage.crash(kind, seed);
        self.killed = kind == Crash::Kill;
        if !self.killed {
            self.promise.visible = self.promise.durable;
        }
    }

    /// Opens the log, and crashes again if a fault hits the opening.
    fn reopen(&mut self, mut seed: u64) {
        for _ in 0..50 {
            if self.session.is_some() {
                return;
            }
            match open(&self.storage, &mut self.promise, self.durability, self.killed) {
                Ok(session) => self.session = Some(session),
                Err(Error::Storage { .. } | Error::Poisoned { .. }) => {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let kind = if seed >> 63 == 0 { Crash::Kill } else { Crash::PowerCut };
                    self.crash(kind, seed);
                }
                Err(error) => panic!("the log was refused: {error}"),
            }
        }
        panic!("it never opened");
    }

    fn run(&mut self, number: usize, step: &Step) {
        self.reopen(number as u64);
        let Some(session) = &mut self.session else { return };
        let promise = &mut self.promise;
        let poisoned = session.group.poison().is_some();
        let done = match step {
            Step::Submit { records, bytes, finishing, must_sync } => {
                let class = if *finishing { Class::Finishing } else { Class::Growing };
                let of = |record: u8| vec![(number as u8).wrapping_mul(7).wrapping_add(record); usize::from(*bytes)];
                session.submit(promise, &(0..*records).map(of).collect::<Vec<_>>(), class, *must_sync);
                Ok(())
            }
            Step::Commit => session.commit(promise, self.durability),
            Step::Witness => {
                let written = session.appender.append_witness(Millis(1000), false, Location(0));
                session.tell_room();
                written.map(drop)
            }
            Step::Prepare { zero } => {
                let begun = Preparing::begin(shared(&self.storage), session.appender.plan_next(0), *zero);
                let adopted = begun.and_then(Preparing::finish).and_then(|ready| session.appender.adopt(ready));
                session.tell_room();
                // A failed preparation does not poison the log, unless the machine has stopped.
                adopted.or_else(|error| if self.storage.is_stopped() { Err(error) } else { Ok(()) })
            }
            Step::Checkpoint => session.appender.sync().map(|mark| {
                promise.durable = promise.durable.max(mark.sequence.0 as usize - 1);
                promise.visible = promise.visible.max(promise.durable);
                promise.checkpoint = Some(ScanStart {
                    location: mark.location,
                    chain: session.appender.chain(),
                    next_sequence: mark.sequence,
                    epoch: Epoch(0),
                    trusted: Millis(1000),
                    vouched: mark.location,
                });
            }),
            Step::Close => {
                let closed = session
                    .commit(promise, self.durability)
                    .and_then(|()| session.appender.seal_and_close(session.group.visible().location));
                if closed.is_ok() {
                    promise.durable = promise.submitted.len();
                    promise.visible = promise.durable;
                    self.session = None;
                }
                closed
            }
            Step::Crash { kind, seed } => {
                self.crash(*kind, *seed);
                Ok(())
            }
            Step::Fail { calls, fault } => {
                self.storage.fail_call(u64::from(*calls), *fault);
                Ok(())
            }
        };
        if done.is_err() || poisoned {
            let kind = if number.is_multiple_of(2) { Crash::Kill } else { Crash::PowerCut };
            self.crash(kind, number as u64);
        }
    }
}

fn run_history(durability: Durability, steps: &[Step]) {
    let mut world = World::new(durability);
    for (number, step) in steps.iter().enumerate() {
        world.run(number, step);
    }
    for seed in 0..4 {
        world.crash(if seed == 0 { Crash::Kill } else { Crash::PowerCut }, seed);
        world.reopen(seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_promised_is_found_and_nothing_else(
        steps in prop::collection::vec(step(), 1..120),
        disk in any::<bool>(),
    ) {
        run_history(if disk { Durability::Disk } else { Durability::Os }, &steps);
    }
}

/// Runs histories until the planted fault is noticed.
#[cfg(feature = "planted")]
fn notices(fault: crate::planted::Planted) -> bool {
    use proptest::test_runner::{Config, TestRng, TestRunner};
    let config = Config { cases: 300, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config.clone(), TestRng::deterministic_rng(config.rng_algorithm));
    crate::planted::plant(Some(fault));
    let found = runner.run(&prop::collection::vec(step(), 1..120), |steps| {
        run_history(Durability::Disk, &steps);
        Ok(())
    });
    crate::planted::plant(None);
    found.is_err()
}

#[cfg(feature = "planted")]
#[test]
fn the_histories_notice_an_early_answer() {
    assert!(notices(crate::planted::Planted::AckBeforeSync));
}

#[cfg(feature = "planted")]
#[test]
fn the_histories_notice_an_accepted_torn_tail() {
    assert!(notices(crate::planted::Planted::TornTailAccepted));
}
