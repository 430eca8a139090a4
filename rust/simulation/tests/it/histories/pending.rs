//! Histories of lists and counts of pending messages: lists continue at a cursor, and counts are kept, not computed.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::BTreeMap;

use crate::rig::{Rig, START, proves, small};
use delaymq_core::planted::Planted;
use delaymq_core::schedule_log::{Entry, EntryState};
use delaymq_core::store::{Outcome, PendingCursor, PendingOf, PendingQuery, PendingScan, Receipt, SIZE_UNKNOWN};
use delaymq_core::units::{Millis, Sequence};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::Due;

fn query(of: PendingOf) -> PendingQuery {
    PendingQuery { of, ..PendingQuery::default() }
}

/// One page from behind a cursor, with a scan of its own, as one who comes back makes it.
fn page(rig: &mut Rig, query: &PendingQuery, limit: usize) -> (Vec<Sequence>, Option<PendingCursor>) {
    let mut scan = PendingScan::new(rig.node().identity().stream.id, query).unwrap();
    let page = rig.node().list_page(&mut scan, limit).unwrap();
    let shown = page.map(|page| page.entries.iter().map(Entry::sequence).collect());
    (shown.unwrap_or_default(), (!scan.is_done()).then(|| scan.cursor()))
}

fn all(rig: &mut Rig, query: &PendingQuery) -> Vec<Sequence> {
    let (mut shown, mut query) = (Vec::new(), query.clone());
    loop {
        let (more, cursor) = page(rig, &query, 3);
        shown.extend(more);
        match cursor {
            Some(cursor) => query.after = Some(PendingCursor::parse(&cursor.to_text()).unwrap()),
            None => return shown,
        }
    }
}

fn counts(rig: &mut Rig, of: &PendingOf) -> BTreeMap<String, u64> {
    rig.node().owner().state().list_pending_counts(of).into_iter().collect()
}

fn a_list_goes_on() -> bool {
    let mut rig = Rig::new(small());
    // All of one millisecond, so that only the sequence says how far a page has come.
    let receipts: Vec<Receipt> = (0..12).map(|at| rig.submit("s", 5_000, &format!("{at}"))).collect();
    rig.settle();
    let mut query = query(PendingOf::default());
    let mut shown = Vec::new();
    let mut came = Vec::new();
    for round in 0..20 {
        let (more, cursor) = page(&mut rig, &query, 2);
        shown.extend(more);
        let Some(cursor) = cursor else { break };
        query.after = Some(PendingCursor::parse(&cursor.to_text()).unwrap());
        match round {
            0 | 4 => rig.checkpoint(),
            1 => drop(rig.cancel(&receipts[11])),
            2 => rig.reopen(End::Kill),
            3 => came.push(rig.publish("s", 5_000, "later").key.sequence),
            _ => {}
        }
    }
    let expected: Vec<Sequence> = receipts[..11].iter().map(|receipt| receipt.key.sequence).collect();
    shown.retain(|sequence| !came.contains(sequence));
    shown == expected
}

#[test]
fn a_list_goes_on_behind_its_cursor_whatever_happened_between_two_pages() {
    proves(Planted::ListGoesOnByTime, a_list_goes_on);
}

fn counts_are_kept() -> bool {
    let mut rig = Rig::new(small());
    let receipts: Vec<Receipt> =
        (0..9_u64).map(|at| rig.publish(["a", "b", "ab"][at as usize % 3], 1_000 + at, "")).collect();
    let mut held = true;
    let mut check = |rig: &mut Rig, expected: [u64; 3]| {
        let state = rig.node().owner().state();
        held &= state.count_pending().0 == state.pending_counts();
        let [a, ab, b] = expected;
        let named = BTreeMap::from([("a".to_owned(), a), ("ab".to_owned(), ab), ("b".to_owned(), b)]);
        held &= counts(rig, &PendingOf::Users) == named;
        let prefixed = counts(rig, &PendingOf::Prefix("a".to_owned()));
        held &= prefixed == BTreeMap::from([("a".to_owned(), a), ("ab".to_owned(), ab)]);
        held &= counts(rig, &PendingOf::Subject("b".to_owned())) == BTreeMap::from([("b".to_owned(), b)]);
        held &= counts(rig, &PendingOf::Subject("none".to_owned())).is_empty();
    };
    check(&mut rig, [3, 3, 3]);
    rig.cancel(&receipts[0]);
    rig.cancel(&receipts[0]);
    check(&mut rig, [2, 3, 3]);
    rig.checkpoint();
    // In a run now.
    rig.cancel(&receipts[1]);
    check(&mut rig, [2, 3, 2]);
    rig.reopen(End::PowerCutLosesAll);
    check(&mut rig, [2, 3, 2]);
    rig.pass(1_004);
    check(&mut rig, [1, 2, 1]);
    rig.checkpoint();
    rig.reopen(End::Kill);
    check(&mut rig, [1, 2, 1]);
    rig.pass(1_004);
    check(&mut rig, [0, 0, 0]);
    rig.checkpoint();
    let identity = *rig.node().identity();
    rig.close();
    held && delaymq_core::store::verify(&rig.disk.copy(), &identity).unwrap().findings.is_empty()
}

#[test]
fn counts_are_what_is_pending_through_cancels_checkpoints_and_restarts() {
    proves(Planted::CountNotLowered, counts_are_kept);
}

#[test]
fn a_list_has_the_subjects_and_the_time_that_were_asked_for() {
    let mut rig = Rig::new(small());
    let one = rig.publish("orders", 100, "").key.sequence;
    let two = rig.publish("orders.eu", 200, "").key.sequence;
    let place = rig.earliest("mail", "g");
    rig.publish("mail", 0, "again");
    let handed = rig.pull(place);
    rig.give_back(("mail", "g"), place, &handed[0], 300);
    rig.checkpoint();
    let last = rig.publish("orders", 300, "").key.sequence;
    let prefix = |text: &str| query(PendingOf::Prefix(text.to_owned()));
    assert_eq!(all(&mut rig, &query(PendingOf::Users)), [one, two, last]);
    assert_eq!(all(&mut rig, &query(PendingOf::Subject("orders".to_owned()))), [one, last]);
    assert_eq!(all(&mut rig, &prefix("orders")), [one, two, last]);
    assert_eq!(all(&mut rig, &prefix("orders.")), [two]);
    assert_eq!(all(&mut rig, &prefix("")).len(), 4);
    let retried = all(&mut rig, &prefix("%RETRY%"));
    assert_eq!(retried.len(), 1);
    assert_eq!(all(&mut rig, &query(PendingOf::Subject("%RETRY%mail%g".to_owned()))), retried);
    assert_eq!(all(&mut rig, &query(PendingOf::Subject("none".to_owned()))), []);
    assert_eq!(counts(&mut rig, &PendingOf::Prefix("%RETRY%".to_owned())).values().sum::<u64>(), 1);
    let due = |from: Option<u64>, before: Option<u64>| PendingQuery {
        due_from: from.map(|ms| START.plus(ms)),
        due_before: before.map(|ms| START.plus(ms)),
        ..PendingQuery::default()
    };
    assert_eq!(all(&mut rig, &due(Some(200), None)), [two, last]);
    assert_eq!(all(&mut rig, &due(None, Some(200))), [one]);
    assert_eq!(all(&mut rig, &due(Some(101), Some(300))), [two]);
    assert_eq!(all(&mut rig, &due(Some(200), Some(200))), []);
    assert_eq!(all(&mut rig, &PendingQuery { due_before: Some(Millis(0)), ..PendingQuery::default() }), []);
    let stream = rig.node().identity().stream.id;
    let upside_down = PendingScan::new(stream, &due(Some(2), Some(1))).unwrap_err();
    assert!(upside_down.to_string().contains("due_before"), "{upside_down}");
    let foreign = PendingScan::new([9; 16], &query(PendingOf::Users)).unwrap().cursor();
    let foreign = PendingScan::new(stream, &PendingQuery { after: Some(foreign), ..PendingQuery::default() });
    assert!(foreign.unwrap_err().to_string().contains("after"));
    assert!(PendingScan::new(stream, &query(PendingOf::Subject(String::new()))).is_err());
}

/// A receipt that a list makes, of a run or of memory, of a message or of what was given back, cancels it.
#[test]
fn a_receipt_without_a_size_is_as_good_as_any() {
    let mut rig = Rig::new(small());
    rig.publish("s", 5_000, "in a run");
    let place = rig.earliest("s", "g");
    rig.publish("s", 0, "again");
    let handed = rig.pull(place);
    rig.give_back(("s", "g"), place, &handed[0], 6_000);
    rig.checkpoint();
    rig.reopen(End::Kill);
    rig.publish("s", 7_000, "in memory");
    let mut scan = PendingScan::new(rig.node().identity().stream.id, &query(PendingOf::Prefix(String::new()))).unwrap();
    let page = rig.node().list_page(&mut scan, 100).unwrap().unwrap();
    assert_eq!(page.entries.len(), 3);
    for entry in &page.entries {
        let receipt = rig.node().receipt_of(entry.key(), entry.subject(), SIZE_UNKNOWN).unwrap();
        let receipt = Receipt::parse(&receipt.to_text()).unwrap();
        assert_eq!(receipt.known_size(), None);
        assert_eq!(rig.cancel(&receipt), Outcome::Done);
        assert_eq!(rig.node().owner().state().schedule.state(entry.sequence()), EntryState::Cancelled);
    }
    assert!(rig.node().owner().state().pending_counts().is_empty());
    rig.compare_with_log();
}

/// The rows of a damaged block come from the log, and are counted as they leave.
#[test]
fn what_was_found_again_of_a_damaged_block_is_counted_as_it_leaves() {
    let mut rig = Rig::new(small());
    for _ in 0..100 {
        rig.submit("s", 50_000, "far");
    }
    let other = rig.publish("t", 50_000, "far");
    rig.checkpoint();
    let run = rig.newest("runs/");
    rig.disk.storage().damage(&run, 4_096 + 100, 1);
    rig.reopen(End::Kill);
    assert!(!rig.node().list_pending(7).unwrap().1, "what cannot be read is told");
    assert_eq!(rig.cancel(&other), Outcome::Done);
    assert_eq!(counts(&mut rig, &PendingOf::Users), BTreeMap::from([("s".to_owned(), 100), ("t".to_owned(), 0)]));
    rig.pass(50_000);
    assert_eq!(counts(&mut rig, &PendingOf::Users), BTreeMap::from([("s".to_owned(), 0), ("t".to_owned(), 0)]));
}

/// What was moved away from a run is listed and counted before anybody has looked up where its payload is.
#[test]
fn what_was_moved_is_listed_under_its_new_time_and_counted_once() {
    let mut rig = Rig::new(small());
    let far = rig.publish("s", 50_000, "in a run");
    let place = rig.earliest("s", "g");
    rig.publish("s", 0, "again");
    let handed = rig.pull(place);
    rig.give_back(("s", "g"), place, &handed[0], 60_000);
    rig.checkpoint();
    rig.reopen(End::Kill);
    let everything = query(PendingOf::Prefix(String::new()));
    let mut scan = PendingScan::new(rig.node().identity().stream.id, &everything).unwrap();
    let retried = rig.node().list_page(&mut scan, 9).unwrap().unwrap().entries[1];
    let retried_receipt = rig.node().receipt_of(retried.key(), retried.subject(), SIZE_UNKNOWN).unwrap();
    let moved = [rig.move_to(&far, Due::After(2_000)), rig.move_to(&retried_receipt, Due::After(1_000))];
    assert!(moved.iter().all(|outcome| matches!(outcome, Outcome::Moved(_))), "{moved:?}");
    let mut scan = PendingScan::new(rig.node().identity().stream.id, &everything).unwrap();
    let shown = rig.node().list_page(&mut scan, 9).unwrap().unwrap().entries;
    let told: Vec<_> = shown.iter().map(|entry| (entry.attempt(), entry.payload_sequence(), entry.subject())).collect();
    let again = (2, retried.payload_sequence(), retried.subject());
    assert_eq!(told, [again, (1, far.key.sequence, far.subject)]);
    assert_eq!(rig.node().owner().state().schedule.state(far.key.sequence), EntryState::Nothing);
    assert_eq!(counts(&mut rig, &PendingOf::Prefix(String::new())).values().copied().collect::<Vec<_>>(), [1, 1]);
    for end in [End::Kill, End::PowerCutLosesAll] {
        rig.reopen(end);
        let state = rig.node().owner().state();
        assert_eq!(state.count_pending().0, state.pending_counts());
        rig.checkpoint();
    }
    rig.pass(2_000);
    assert!(rig.node().owner().state().pending_counts().is_empty());
    rig.compare_with_log();
}
