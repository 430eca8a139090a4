//! What was loaded stands in every table as what was published one by one.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use delaymq_core::message_log::Identity;
use delaymq_core::record::terms::NameHash;
use delaymq_core::run::LoadName;
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::store::Outcome;
use delaymq_core::store::StartAt;
use delaymq_core::units::Millis;
use delaymq_simulation::chance::Chance;
use delaymq_simulation::clock::SimulatedClock;
use delaymq_simulation::node::{Due, NewMessage, NewRow, Node, NodeOptions, stage};
use delaymq_tables::{Asked, Choice, Filter, OnDamage, Range, Table, TableSnapshot, open_ranges, plan, verify};

const START: Millis = Millis(1_700_000_000_000);
const JOB: NameHash = NameHash { low: 1, high: 2 };

fn settle(node: &mut Node) {
    node.send().unwrap();
    node.commit().unwrap();
    node.sync().unwrap();
    node.apply(usize::MAX).unwrap();
}

/// Two published messages with a load of seven between them, of which three are due and were dispatched; the same job came twice.
fn store(checkpoints: usize) -> (Arc<dyn Storage>, Identity) {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1));
    let mut clock = SimulatedClock::new(START);
    let mut node = Node::open(Arc::clone(&storage), NodeOptions::default(), clock.read(), &mut Chance::new(1)).unwrap();
    let identity = *node.identity();
    let publish = |node: &mut Node, subject: &str| {
        let message = NewMessage { subject, due: Due::After(60_000), body: b"published", meta: &[], expires: None };
        node.publish(&[message]).unwrap().unwrap();
        settle(node);
    };
    publish(&mut node, "orders");
    node.subscribe("orders", "billing", StartAt::Unfinished).unwrap().unwrap();
    settle(&mut node);
    let row = |at: u64| NewRow {
        subject: if at % 3 == 2 { "β" } else { "orders" }.to_owned(),
        due: Millis(if at < 3 { START.0 - 5 + at } else { START.0 + at * 1_000 }),
        body: format!("loaded {at}").into_bytes(),
    };
    let rows: Vec<NewRow> = (0..7).map(row).collect();
    for again in 0..2_u8 {
        let name = LoadName { staged: START, nonce: [again; 16] };
        let runs = stage(storage.as_ref(), &rows, name, 4).unwrap();
        let fact = node.load(JOB, &runs).unwrap().unwrap();
        settle(&mut node);
        let outcome = node.take_outcome(fact).unwrap();
        assert_eq!(matches!(outcome, Outcome::Loaded(_, 7)), again == 0, "{outcome:?}");
    }
    publish(&mut node, "orders");
    clock.advance(2);
    node.look(clock.read());
    node.step(100).unwrap();
    settle(&mut node);
    for _ in 0..checkpoints {
        node.checkpoint().unwrap();
        publish(&mut node, "later");
    }
    node.close().unwrap();
    (storage, identity)
}

fn read(storage: &Arc<dyn Storage>, identity: &Identity, table: Table, asked: &Asked) -> Vec<RecordBatch> {
    let snapshot = TableSnapshot::take(storage, identity).unwrap();
    let ranges = plan(&snapshot, storage, table, asked).unwrap();
    let ranges: Vec<Range> = ranges.iter().map(|range| Range::from_token(&range.to_token()).unwrap()).collect();
    for range in &ranges {
        assert_eq!(verify(storage, range).unwrap().damages, []);
    }
    let reading = open_ranges(Arc::clone(storage), table, ranges, Choice::all(table), OnDamage::Raise);
    reading.collect::<Result<Vec<_>, _>>().unwrap()
}

fn all() -> Asked {
    Asked { split_bytes: 1 << 20, ..Asked::default() }
}

fn texts(batches: &[RecordBatch], column: &str) -> Vec<String> {
    let of = |batch: &RecordBatch| {
        let array = batch.column_by_name(column).unwrap();
        match array.as_string_opt::<i32>() {
            Some(texts) => texts.iter().map(|text| text.unwrap_or_default().to_owned()).collect::<Vec<_>>(),
            None => array
                .as_binary::<i32>()
                .iter()
                .map(|bytes| String::from_utf8(bytes.unwrap().to_vec()).unwrap())
                .collect(),
        }
    };
    batches.iter().flat_map(of).collect()
}

fn numbers(batches: &[RecordBatch], column: &str) -> Vec<i64> {
    let of = |batch: &RecordBatch| batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().values().to_vec();
    batches.iter().flat_map(of).collect()
}

#[test]
fn messages_of_a_load_stand_behind_its_fact_once() {
    for checkpoints in [0, 1, 3] {
        let (storage, identity) = store(checkpoints);
        let found = read(&storage, &identity, Table::Message, &all());
        let bodies = texts(&found, "body");
        // Run by run: four rows, then three, each by due time.
        let expected: Vec<String> = (0..7).map(|at| format!("loaded {at}")).collect();
        assert_eq!(bodies[1..8], expected, "{checkpoints}");
        assert_eq!((bodies[0].as_str(), bodies[8].as_str()), ("published", "published"));
        let sequences = numbers(&found, "sequence");
        assert!(sequences.windows(2).all(|pair| pair[0] < pair[1]), "{sequences:?}");
        assert!(sequences[1..8].windows(2).all(|pair| pair[0] + 1 == pair[1]));
        assert_eq!(texts(&found, "subject")[1..5], ["orders", "orders", "β", "orders"]);
        assert!(texts(&found, "segment")[1].starts_with("loads/"));
        let filter = Filter { due_from: Some(START), ..Filter::default() };
        let asked = Asked { subjects: Some(vec!["β".to_owned()]), filter, ..all() };
        assert_eq!(texts(&read(&storage, &identity, Table::Message, &asked), "body"), ["loaded 5"]);
    }
}

#[test]
fn what_is_pending_of_a_load_is_read_where_it_lies() {
    for checkpoints in [0, 1, 3] {
        let (storage, identity) = store(checkpoints);
        let found = read(&storage, &identity, Table::Pending, &all());
        let mut bodies = texts(&found, "body");
        bodies.retain(|body| body != "published");
        assert_eq!(bodies, ["loaded 3", "loaded 4", "loaded 5", "loaded 6"], "{checkpoints}");
    }
}

#[test]
fn what_became_of_each_message_of_a_load_is_told() {
    for checkpoints in [0, 1, 3] {
        let (storage, identity) = store(checkpoints);
        let messages = numbers(&read(&storage, &identity, Table::Message, &all()), "sequence");
        let found = read(&storage, &identity, Table::Deliveries, &all());
        assert_eq!(numbers(&found, "sequence"), messages, "{checkpoints}");
        let outcomes = texts(&found, "outcome");
        assert_eq!(outcomes[1..3], ["ready", "ready"], "{outcomes:?}");
        assert_eq!(outcomes[4..8], ["pending", "pending", "pending", "pending"]);
        let facts = read(&storage, &identity, Table::Action, &all());
        let kinds = texts(&facts, "kind");
        let counts =
            facts.iter().flat_map(|batch| batch.column_by_name("count").unwrap().as_primitive::<Int64Type>().iter());
        let adopted: Vec<_> =
            kinds.iter().zip(counts).filter(|(kind, _)| *kind == "adopt").map(|(_, count)| count).collect();
        assert_eq!(adopted, [Some(7), Some(7)]);
        let paths = texts(&read(&storage, &identity, Table::Segments, &all()), "path");
        assert_eq!(paths.iter().filter(|path| path.starts_with("loads/")).count(), 2);
    }
}
