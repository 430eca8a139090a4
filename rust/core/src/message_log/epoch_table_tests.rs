use proptest::prelude::*;

use super::*;
use crate::message_log::tests::fixture::{Log, STREAM, shared};
use crate::message_log::{BatchReader, ScanStart};

/// A batch as its header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Written {
    epoch: Epoch,
    first: Sequence,
    end: HistoryEnd,
    chain_before: u32,
}

#[derive(Clone, Debug, Default)]
struct History {
    batches: Vec<Written>,
    /// The epoch that it writes, unless it is a copy.
    writes: Option<Epoch>,
}

impl History {
    fn end(&self) -> HistoryEnd {
        self.batches.last().map_or_else(HistoryEnd::default, |batch| batch.end)
    }

    fn write(&mut self, epoch: Epoch, counts: &[u8]) {
        for count in counts {
            let before = self.end();
            let content = [before.chain, epoch.0, u32::from(*count)].map(u32::to_le_bytes).concat();
            let (first, count) = (before.sequence.next(), u64::from(*count));
            let end = HistoryEnd { sequence: before.sequence.plus(count), chain: crc32fast::hash(&content) };
            self.batches.push(Written { epoch, first, end, chain_before: before.chain });
        }
    }

    fn table(&self) -> Vec<EpochEntry> {
        let mut table: Vec<EpochEntry> = Vec::new();
        for batch in &self.batches {
            if table.last().is_none_or(|last| last.epoch < batch.epoch) {
                let (epoch, first_sequence, chain_before) = (batch.epoch, batch.first, batch.chain_before);
                table.push(EpochEntry { epoch, first_sequence, chain_before });
            }
        }
        table
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// One history becomes the beginning of another.
    Copy { from: usize, to: usize, part: u8 },
    /// The same, and it begins an epoch there.
    Begin { from: usize, to: usize, part: u8, counts: Vec<u8> },
    /// The writer of an epoch goes on.
    Write { to: usize, counts: Vec<u8> },
}

const HISTORIES: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    let place = || 0..HISTORIES;
    let counts = || prop::collection::vec(1..9_u8, 1..6);
    prop_oneof![
        (place(), place(), any::<u8>()).prop_map(|(from, to, part)| Step::Copy { from, to, part }),
        (place(), place(), any::<u8>(), counts()).prop_map(|(from, to, part, counts)| Step::Begin {
            from,
            to,
            part,
            counts
        }),
        (place(), counts()).prop_map(|(to, counts)| Step::Write { to, counts }),
    ]
}

fn run(steps: &[Step]) -> Vec<History> {
    let mut all = vec![History::default(); HISTORIES];
    let mut newest = Epoch(0);
    let beginning = |history: &History, part: u8| {
        let kept = history.batches.len() * usize::from(part) / usize::from(u8::MAX);
        History { batches: history.batches[..kept].to_vec(), writes: None }
    };
    for step in steps {
        match step {
            Step::Copy { from, to, part } => all[*to] = beginning(&all[*from], *part),
            Step::Begin { from, to, part, counts } => {
                newest = newest.next();
                let mut begun = beginning(&all[*from], *part);
                begun.write(newest, counts);
                all[*to] = History { writes: Some(newest), ..begun };
            }
            Step::Write { to, counts } => {
                if let Some(epoch) = all[*to].writes {
                    all[*to].write(epoch, counts);
                }
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_histories_agree_as_far_as_their_batches_do(steps in prop::collection::vec(step(), 0..40)) {
        let all = run(&steps);
        for ours in &all {
            for theirs in &all {
                let same = ours.batches.iter().zip(&theirs.batches).take_while(|(our, their)| our == their).count();
                let last = same.checked_sub(1).map(|last| ours.batches[last]);
                let (epoch, end) = last.map_or_else(Default::default, |batch| (batch.epoch, batch.end));
                let found = agreement(&ours.table(), ours.end(), &theirs.table(), theirs.end());
                let Agreement::UpTo { epoch: found_epoch, sequence, ours: our_chain, theirs: their_chain } = found else {
                    return Err(TestCaseError::fail(format!("{found:?}")));
                };
                prop_assert_eq!((found_epoch, sequence), (epoch, end.sequence));
                prop_assert!(our_chain.or(their_chain).is_some());
                prop_assert!(our_chain.is_none_or(|chain| chain == end.chain));
                prop_assert!(their_chain.is_none_or(|chain| chain == end.chain));
            }
        }
    }

    #[test]
    fn an_epoch_with_two_beginnings_is_named(steps in prop::collection::vec(step(), 0..40), which in any::<usize>()) {
        let all = run(&steps);
        for (ours, theirs) in all.iter().zip(all.iter().skip(1)) {
            let (table, mut other) = (ours.table(), theirs.table());
            let same = table.iter().zip(&other).take_while(|(our, their)| our == their).count();
            if same == 0 {
                continue;
            }
            let changed = &mut other[which % same];
            let expected = Agreement::Diverged { epoch: changed.epoch };
            changed.chain_before ^= 1;
            prop_assert_eq!(agreement(&table, ours.end(), &other, theirs.end()), expected);
            let changed = &mut other[which % same];
            changed.chain_before ^= 1;
            changed.first_sequence = changed.first_sequence.next();
            prop_assert_eq!(agreement(&table, ours.end(), &other, theirs.end()), expected);
        }
    }
}

#[test]
fn two_ends_of_one_epoch_with_other_content_are_told_apart() {
    let mut history = History::default();
    history.write(Epoch(1), &[1, 1]);
    let (table, end) = (history.table(), history.end());
    let other = HistoryEnd { chain: !end.chain, ..end };
    assert_eq!(agreement(&table, end, &table, other), Agreement::Diverged { epoch: Epoch(1) });
}

#[test]
fn the_table_of_a_log_is_read_from_its_headers() {
    let mut log = Log::new(64 << 10);
    let mut expected = vec![EpochEntry { epoch: Epoch(1), first_sequence: Sequence(1), chain_before: 0 }];
    log.commit(&[b"a", b"b"]);
    log.commit(&[b"c"]);
    for epoch in [Epoch(3), Epoch(4)] {
        let (chain_before, first_sequence) = (log.appender.chain(), log.appender.written().sequence);
        expected.push(EpochEntry { epoch, first_sequence, chain_before });
        log.appender.begin_epoch(epoch).unwrap();
        log.commit(&[b"d"]);
        log.witness();
    }
    let end = log.appender.written().location;
    let mut reader = BatchReader::new(shared(&log.storage), STREAM, ScanStart::BEGINNING.location, end);
    let mut table = Vec::new();
    while let Some((_, header)) = reader.next_header().unwrap() {
        note_epoch(&mut table, &header);
    }
    assert_eq!(table, expected);
}
