//! Readers without the lock show nothing of a copy's log that is behind what is committed, whether it is sealed or not.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::sync::Arc;

use delaymq_core::error::Error;
use delaymq_core::message_log::{
    AppenderStart, BatchReader, Identity, Mark, SEGMENT_BYTES_MIN, ScanStart, ScannedBatch, Scanner, SegmentAppender,
};
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::store::{
    KeepFinished, NewStore, inspect, inspect_damaged, open_identity, visible_state, visible_state_at,
};
use delaymq_core::units::{Epoch, Millis, SegmentNumber, Sequence, Version};
use delaymq_simulation::chance::Chance;
use delaymq_simulation::clock::SimulatedClock;
use delaymq_simulation::node::{Due, NewMessage, Node, NodeOptions};
use delaymq_tables::{Asked, Choice, OnDamage, Table, TableSnapshot, open_ranges, plan};

const START: Millis = Millis(1_700_000_000_000);
const SEEN: (u64, Version) = (7, Version(12));

/// How the log of the copy ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ends {
    Open,
    Witnessed,
    Sealed,
}

/// The batches of a primary's log.
fn primary() -> (Identity, Vec<ScannedBatch>) {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1));
    let clock = SimulatedClock::new(START);
    let options = NodeOptions { segment_bytes: 1 << 20, opening_bytes: 1 << 20, ..NodeOptions::default() };
    let mut node = Node::open(Arc::clone(&storage), options, clock.read(), &mut Chance::new(1)).unwrap();
    let identity = *node.identity();
    for number in 0..6_u8 {
        let body = vec![b'0' + number; 1_500];
        let message = NewMessage { subject: "orders", due: Due::After(60_000), body: &body, meta: &[], expires: None };
        node.publish(&[message]).unwrap().unwrap();
        node.send().unwrap();
        node.commit().unwrap();
        node.sync().unwrap();
        node.apply(usize::MAX).unwrap();
    }
    node.close().unwrap();
    let end = Scanner::new(Arc::clone(&storage), identity.stream, &ScanStart::BEGINNING).unwrap().ending().end;
    let mut reader = BatchReader::new(storage, identity.stream, ScanStart::BEGINNING.location, end);
    (identity, std::iter::from_fn(|| reader.next_batch().unwrap()).collect())
}

/// A copy of all batches, of which the first `committed` are committed. Returns the end of what its headers call committed.
fn copy(of: &Identity, batches: &[ScannedBatch], committed: usize, ends: Ends) -> (Arc<dyn Storage>, Identity, Mark) {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(2));
    let new = NewStore { stream: of.stream.id, node: [9; 16], segment_bytes: SEGMENT_BYTES_MIN };
    let alone = open_identity(storage.as_ref(), Some(new)).unwrap();
    let identity = Identity { clustered: true, seen: SEEN, ..alone };
    identity.write(storage.as_ref()).unwrap();
    let start = AppenderStart {
        stream: of.stream,
        epoch: Epoch(0),
        number: SegmentNumber(1),
        chain: 0,
        next_sequence: Sequence(1),
        trusted: Millis(0),
        segment_bytes: SEGMENT_BYTES_MIN,
        opening_bytes: SEGMENT_BYTES_MIN,
        given_bytes: 0,
    };
    let mut appender = SegmentAppender::open(Arc::clone(&storage), &start).unwrap();
    let mut marks = vec![appender.written()];
    let mut known = marks[0];
    for batch in batches {
        known = marks[committed.min(marks.len() - 1)];
        appender.append_foreign(&mut batch.bytes.clone(), known.location).unwrap();
        marks.push(appender.written());
    }
    appender.sync().unwrap();
    let all = marks[committed];
    match ends {
        Ends::Open => return (storage, identity, known),
        Ends::Witnessed => assert!(appender.append_witness(Millis(0), false, all.location).unwrap()),
        Ends::Sealed => appender.seal_and_close(all.location).unwrap(),
    }
    (storage, identity, all)
}

fn messages(storage: &Arc<dyn Storage>, snapshot: &TableSnapshot) -> usize {
    let asked = Asked { split_bytes: 1 << 20, ..Asked::default() };
    let ranges = plan(snapshot, storage, Table::Message, &asked).unwrap();
    let reading =
        open_ranges(Arc::clone(storage), Table::Message, ranges, Choice::all(Table::Message), OnDamage::Raise);
    reading.map(|batch| batch.unwrap().num_rows()).sum()
}

#[test]
fn of_a_copy_all_that_is_committed_is_shown_and_nothing_else() {
    let (of, batches) = primary();
    let end = batches.last().map(|last| last.header.base_sequence.get() + u64::from(last.header.count.get())).unwrap();
    let mut rolled = 0;
    for ends in [Ends::Open, Ends::Witnessed, Ends::Sealed] {
        for committed in 0..=batches.len() {
            let (storage, identity, visible) = copy(&of, &batches, committed, ends);
            let what = format!("{committed} batches committed, {ends:?}");
            let whole = batches.iter().filter(|batch| batch.header.base_sequence.get() < visible.sequence.0);
            let bodies = whole.filter(|batch| batch.bytes.len() > 1_500).count();

            let seen = inspect(&storage, &identity, &[], &KeepFinished::default()).unwrap();
            assert_eq!((seen.next_sequence, seen.register), (visible.sequence, Some(SEEN)), "{what}");
            assert_eq!((seen.pending, seen.facts_unconfirmed), (bodies as u64, end - visible.sequence.0), "{what}");
            assert_eq!(seen.sealed, ends == Ends::Sealed, "{what}");
            let refused = Error::corrupt("runs", 0, "a run", "none");
            let damaged = inspect_damaged(&storage, refused, &[], &KeepFinished::default()).unwrap();
            assert_eq!((damaged.next_sequence, damaged.pending), (visible.sequence, bodies as u64), "{what}");

            let snapshot = TableSnapshot::take(&storage, &identity).unwrap();
            assert_eq!((snapshot.end_sequence, messages(&storage, &snapshot)), (visible.sequence, bodies), "{what}");
            let again = TableSnapshot::take_again(&storage, &identity, &snapshot.name()).unwrap();
            assert_eq!((again.end_sequence, messages(&storage, &again)), (visible.sequence, bodies), "{what}");
            rolled = rolled.max(visible.location.segment().unwrap().0);
        }
    }
    assert!(rolled > 1, "what is committed ends in a later segment too");
}

#[test]
fn the_visible_log_of_a_copy_ends_with_a_seal_only_where_all_of_it_is_committed() {
    let (of, batches) = primary();
    for committed in [batches.len() - 1, batches.len()] {
        let (storage, identity, _) = copy(&of, &batches, committed, Ends::Sealed);
        let visible = visible_state(&storage, &identity).unwrap();
        assert_eq!((visible.is_sealed(), visible.moment().sealed), (committed == batches.len(), visible.is_sealed()));
        let again = visible_state_at(&storage, &identity, &visible.moment()).unwrap();
        assert_eq!((again.is_sealed(), again.moment()), (visible.is_sealed(), visible.moment()));
    }
}

#[test]
fn a_sealed_store_alone_is_shown_to_its_end() {
    let (of, batches) = primary();
    let (storage, identity, _) = copy(&of, &batches, 0, Ends::Sealed);
    let alone = Identity { clustered: false, ..identity };
    let seen = inspect(&storage, &alone, &[], &KeepFinished::default()).unwrap();
    assert_eq!((seen.pending, seen.facts_unconfirmed, seen.register), (6, 0, None));
    assert_eq!(messages(&storage, &TableSnapshot::take(&storage, &alone).unwrap()), 6);
}
