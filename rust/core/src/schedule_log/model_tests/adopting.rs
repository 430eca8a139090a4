//! Loaded runs that are adopted at any time.

use super::*;
use crate::run::{LoadName, RowScan, ScheduleRow, StagedMessage, Stager, StagingLimits};

/// Staged runs with more rows than a block has fences are also tested.
const ROWS_MAX: u32 = 400;

impl Pair {
    /// Stages messages that are due this far ahead, and adopts them by one fact.
    pub(super) fn adopt(&mut self, ahead: &[i64]) {
        let first = self.schedule.next_sequence();
        let number = self.next_run();
        let named = self.stage(number, first, ahead);
        self.adopted.insert(number, (named, first));
        let run = self.open(number);
        let mut buffer = ScanBuffer::default();
        let mut scan = RowScan::<ScheduleRow>::from_block(&run, 0, None, &mut buffer);
        while let Some(row) = scan.next_row().unwrap() {
            let entry = Entry::new(row.key, row.attempt, row.payload_sequence, row.location, row.subject);
            self.pending.insert(row.key, entry.with_size(row.size));
            self.states.insert(row.key.sequence.0, EntryState::Pending);
        }
        self.note(Fact::Adopted(number));
        assert_eq!(self.schedule.next_sequence(), first.plus(ahead.len() as u64));
    }

    fn stage(&self, number: RunNumber, first: Sequence, ahead: &[i64]) -> StagedRun {
        let mut due: Vec<u64> = ahead.iter().map(|ahead| self.now.saturating_add_signed(*ahead)).collect();
        due.sort_unstable();
        let name = LoadName { staged: Millis(self.now), nonce: u128::from(number.0).to_le_bytes() };
        let limits = StagingLimits { rows_max: ROWS_MAX, ..StagingLimits::until(DUE_MAX) };
        let mut stager = Stager::new(&self.storage, limits, || name);
        for (due, sequence) in due.into_iter().zip(first.0..) {
            let subject = subject_of(sequence).0.to_string();
            let body = vec![7; (sequence % 7) as usize];
            let message = StagedMessage { due: Millis(due), subject: &subject, meta: b"", body: &body, expiry: None };
            stager.push(&message).unwrap().unwrap();
        }
        let written = stager.finish().unwrap();
        assert_eq!(written.len(), 1);
        written[0]
    }

    /// Applies the fact to the schedule and the feed.
    pub(super) fn take_in(&mut self, number: RunNumber) {
        let run = Arc::new(self.open(number));
        let first = run.first_key().unwrap().due_key();
        self.schedule.adopt(run, Millis(self.now)).unwrap();
        self.feed.go_back_before(first);
    }

    /// Opens a run of the store's own, or one that was adopted.
    pub(super) fn open(&self, number: RunNumber) -> Run {
        let Some((named, base)) = self.adopted.get(&number) else {
            return Run::open(&self.storage, number, RunKind::Schedule, &STREAM).unwrap();
        };
        let number_of = |name: &str| name.parse().ok().map(SubjectNumber);
        Run::open_adopted(&self.storage, named, (number, &STREAM), (*base, Millis(1)), &number_of).unwrap()
    }

    /// True if the payload is at its original location, even if the entry was moved.
    pub(super) fn is_in_its_place(&self, entry: &Entry) -> bool {
        let sequence = entry.payload_sequence();
        let within = |(_, (named, base)): &(&RunNumber, &(StagedRun, Sequence))| {
            (*base..base.plus(named.rows)).contains(&sequence)
        };
        match self.adopted.iter().find(within) {
            Some((number, _)) => {
                let mut bytes = Vec::new();
                let (run, offset) = (self.open(*number), u64::from(entry.location().offset()));
                entry.location().file() == crate::units::LocationFile::Run(*number)
                    && run.read_payload(offset, sequence, None, &mut bytes).is_ok()
            }
            None => u64::from(entry.location().offset()) == 8 * sequence.0,
        }
    }
}

#[test]
fn what_does_not_follow_the_last_sequence_is_not_adopted() {
    let mut pair = Pair::new(60, 16);
    pair.adopt(&[5, 7]);
    let number = *pair.adopted.keys().next().unwrap();
    let again = Arc::new(pair.open(number));
    assert!(pair.schedule.adopt(again, Millis(100)).is_err());
    pair.check();
    pair.drain();
}

/// Entries in hand are given back if an adopted entry comes before them, and come once.
#[test]
fn what_is_adopted_below_the_feed_comes_in_its_turn() {
    let mut pair = Pair::new(5_000, 1_000);
    for ahead in [10, 20, 30] {
        pair.note(Fact::Insert(entry(pair.now + ahead, pair.schedule.next_sequence().0)));
    }
    pair.load();
    assert_eq!(pair.feed.len(), 3);
    pair.adopt(&[-50, 15, 25, 4_000]);
    pair.now += 30;
    while pair.load() == Loaded::More {}
    let due: Vec<u64> = pair.take(100).iter().map(|entry| entry.due().0).collect();
    assert_eq!(due, [50, 110, 115, 120, 125, 130]);
}

/// A flooding subject has its own lane, which also goes back.
#[test]
fn what_is_adopted_of_a_subject_that_floods_comes_in_its_turn() {
    let mut pair = Pair::new(5_000, 16);
    for ahead in 0..60 {
        pair.note(Fact::Insert(entry(pair.now + 100 + ahead, pair.schedule.next_sequence().0)));
    }
    while pair.load() == Loaded::More {}
    assert!(pair.feed.lane_count() > 1);
    pair.adopt(&[40; 9]);
    pair.now += 40;
    let mut due = Vec::new();
    while pair.load() == Loaded::More || due.is_empty() {
        due.extend(pair.take(100).iter().map(|entry| entry.due().0));
    }
    assert_eq!(due, [140; 9]);
}
