//! Keys and ids in a real store: messages that are replaced, kept or refused, repetitions, and all of it after a
//! restart.

#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use crate::support::{bodies, collect, open, options, publish, subscribe};
use delaymq_core::error::{Error, Result};
use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_core::units::Millis;
use delaymq_engine::{
    CancelOutcome, Due, Durability, Fate, IfExists, LookedUpKey, ManualClock, MoveOutcome, Options, PublishTerms,
    Receipt, Store, TermsLimits,
};

const HOUR_MS: u64 = 3_600_000;
const FAR: Due = Due::After(HOUR_MS);

/// One message: its key, what becomes of it where that is taken, its id.
type One<'a> = (Option<&'a str>, IfExists, Option<&'a str>);

fn put(store: &Store, due: Due, messages: &[(One<'_>, &[u8])]) -> Result<Vec<Receipt>> {
    let mut batch = store.batch();
    for ((key, if_exists, id), body) in messages {
        let meta = Meta { message_id: id.unwrap_or_default().to_owned(), ..Meta::default() };
        let meta = encode_meta(&meta).unwrap();
        let terms = PublishTerms { key: *key, if_exists: *if_exists, deduplicates: id.is_some(), expires: None };
        batch.push_on_terms("orders", due, (&meta, body), &terms)?;
    }
    store.publish(&mut batch).map(|receipts| receipts.iter().collect())
}

fn keyed(store: &Store, key: &str, if_exists: IfExists, body: &[u8]) -> Result<Receipt> {
    put(store, FAR, &[((Some(key), if_exists, None), body)]).map(|receipts| receipts[0])
}

fn fate(store: &Store, receipt: &Receipt) -> Fate {
    store.look_up(receipt).unwrap().fate
}

fn of_key(store: &Store, key: &str) -> LookedUpKey {
    store.look_up_key("orders", key).unwrap()
}

fn reopened(store: Arc<Store>, path: &std::path::Path, options: Options) -> Arc<Store> {
    drop(store);
    open(path, options)
}

#[test]
fn one_pending_message_of_a_subject_has_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path(), options(Durability::Disk));
    let first = keyed(&store, "17", IfExists::Refuse, b"first").unwrap();
    let refused = keyed(&store, "17", IfExists::Refuse, b"no").unwrap_err();
    assert!(
        matches!(&refused, Error::KeyTaken { index: 0, receipt } if Receipt::parse(receipt).unwrap().key == first.key)
    );
    assert_eq!(keyed(&store, "17", IfExists::Keep, b"no").unwrap(), first);
    let second = keyed(&store, "17", IfExists::Replace, b"second").unwrap();
    assert_eq!((fate(&store, &first), fate(&store, &second)), (Fate::Cancelled, Fate::Pending));
    for round in 0..3 {
        assert_eq!(of_key(&store, "17"), LookedUpKey::Pending(second), "{round}");
        assert_eq!(store.look_up_key("mail", "17").unwrap(), LookedUpKey::NotFound);
        assert_eq!(store.status().unwrap().pending, 1);
        if round == 1 {
            store.checkpoint().unwrap();
        }
        store = reopened(store, folder.path(), options(Durability::Disk));
    }
    let third = keyed(&store, "17", IfExists::Replace, b"third").unwrap();
    assert_eq!(fate(&store, &second), Fate::Cancelled);
    assert_eq!(store.cancel(&third).unwrap(), CancelOutcome::Done);
    assert_eq!(of_key(&store, "17"), LookedUpKey::NotFound);
    keyed(&store, "17", IfExists::Refuse, b"free again").unwrap();
    store.close().unwrap();
}

#[test]
fn what_is_asked_by_key_is_asked_of_the_message_that_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let messages = subscribe(&store, "orders", "billing");
    assert_eq!(store.cancel_key("orders", "17", None).unwrap(), CancelOutcome::NotFound);
    assert_eq!(store.move_key("orders", "17", FAR, None).unwrap(), MoveOutcome::NotFound);
    let first = keyed(&store, "17", IfExists::Replace, b"a").unwrap();
    let MoveOutcome::Done(moved) = store.move_key("orders", "17", Due::After(2 * HOUR_MS), None).unwrap() else {
        panic!("it is pending")
    };
    assert_eq!((fate(&store, &first), fate(&store, &moved)), (Fate::NotFound, Fate::Pending));
    store.checkpoint().unwrap();
    let store = reopened(store, folder.path(), options(Durability::Disk));
    assert_eq!(of_key(&store, "17"), LookedUpKey::Pending(moved));
    assert_eq!(store.cancel_key("orders", "17", None).unwrap(), CancelOutcome::Done);
    assert_eq!(store.cancel_key("orders", "17", None).unwrap(), CancelOutcome::NotFound);
    assert_eq!(fate(&store, &moved), Fate::Cancelled);
    drop(messages);
    let messages = subscribe(&store, "orders", "billing");
    keyed(&store, "18", IfExists::Replace, b"b").unwrap();
    let MoveOutcome::Done(at_once) = store.move_key("orders", "18", Due::After(0), None).unwrap() else {
        panic!("it is pending")
    };
    assert_eq!(bodies(&collect(&messages, 1)), ["b"]);
    assert_eq!(of_key(&store, "18"), LookedUpKey::Dispatched(at_once));
    keyed(&store, "18", IfExists::Refuse, b"c").unwrap();
    for (subject, key) in [("or ders", "18"), ("orders", ""), ("orders", "a/b")] {
        assert!(matches!(store.cancel_key(subject, key, None), Err(Error::InvalidArgument { .. })), "{subject} {key}");
    }
}

/// The last message with a key became ready: commands say so, one by one and many at once, also when they come again.
#[test]
fn what_comes_too_late_by_a_key_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path(), options(Durability::Disk));
    let receipt = put(&store, Due::After(0), &[((Some("17"), IfExists::Refuse, None), b"a")]).unwrap()[0];
    for round in 0..3 {
        for id in [None, Some("one"), Some("one")] {
            let cancelled = store.cancel_keys("orders", &["17", "gone", "17"], id).unwrap();
            let (late, none) = (CancelOutcome::AlreadyDispatched, CancelOutcome::NotFound);
            assert_eq!(cancelled, [late, none, late], "{round} {id:?}");
            assert_eq!(store.cancel_key("orders", "17", id).unwrap(), late, "{round} {id:?}");
            let moved = store.move_keys("orders", &[("gone", FAR), ("17", FAR)], id).unwrap();
            assert_eq!(moved, [MoveOutcome::NotFound, MoveOutcome::AlreadyDispatched], "{round} {id:?}");
        }
        assert_eq!(of_key(&store, "17"), LookedUpKey::Dispatched(receipt), "{round}");
        if round == 1 {
            store.checkpoint().unwrap();
        }
        store = reopened(store, folder.path(), options(Durability::Disk));
    }
    keyed(&store, "17", IfExists::Refuse, b"b").unwrap();
    assert_eq!(store.cancel_key("orders", "17", Some("one")).unwrap(), CancelOutcome::AlreadyDispatched);
    assert_eq!(store.move_key("orders", "17", FAR, Some("one")).unwrap(), MoveOutcome::AlreadyDispatched);
    assert_eq!(store.cancel_key("orders", "17", None).unwrap(), CancelOutcome::Done);
    assert_eq!(store.cancel_key("orders", "17", None).unwrap(), CancelOutcome::NotFound);
}

/// At every moment a message is pending under the key, or the last one was dispatched: no move says that there is none.
#[test]
fn a_move_by_a_key_while_others_replace_and_dispatch_it_is_done_or_too_late() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let publish = |due, body: &[u8]| put(&store, due, &[((Some("17"), IfExists::Replace, None), body)]).unwrap();
    publish(Due::After(0), b"first");
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| {
            for round in 0..100_u8 {
                publish(FAR, &[round]);
                publish(Due::After(0), &[round]);
            }
        });
        for round in 0..100 {
            let id = format!("m-{round}");
            let id = (round % 2 == 0).then_some(id.as_str());
            let moved = store.move_key("orders", "17", Due::After(2 * HOUR_MS), id).unwrap();
            assert_ne!(moved, MoveOutcome::NotFound, "{round}");
            if id.is_some() {
                assert_eq!(store.move_key("orders", "17", Due::After(2 * HOUR_MS), id).unwrap(), moved);
            }
        }
        publishing.join().unwrap();
    });
    store.close().unwrap();
}

/// Another message is put under the key again and again while one is moved: what `move_key` answers is remembered.
#[test]
fn a_command_by_a_key_with_an_id_is_answered_as_the_first_time_whatever_others_do() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    keyed(&store, "17", IfExists::Refuse, b"first").unwrap();
    std::thread::scope(|scope| {
        let replacing = scope.spawn(|| {
            for round in 0..200_u8 {
                keyed(&store, "17", IfExists::Replace, &[round]).unwrap();
            }
        });
        for round in 0..50 {
            let id = format!("m-{round}");
            let again = || store.move_key("orders", "17", Due::After(2 * HOUR_MS), Some(&id)).unwrap();
            let first = again();
            assert!(matches!(first, MoveOutcome::Done(_)), "{first:?}");
            assert_eq!(again(), first);
        }
        replacing.join().unwrap();
    });
    assert_eq!(store.cancel_key("orders", "17", Some("c")).unwrap(), CancelOutcome::Done);
    keyed(&store, "17", IfExists::Refuse, b"last").unwrap();
    assert_eq!(store.cancel_key("orders", "17", Some("c")).unwrap(), CancelOutcome::Done);
    assert_eq!(store.status().unwrap().pending, 1);
    store.close().unwrap();
}

#[test]
fn ids_that_come_with_keys_leave_a_quarter_to_those_that_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let terms = TermsLimits { ids_max: 4, ..TermsLimits::default() };
    let store = open(folder.path(), Options { terms, ..options(Durability::Os) });
    for id in ["a", "b", "c"] {
        assert_eq!(store.cancel_key("orders", "17", Some(id)).unwrap(), CancelOutcome::NotFound);
    }
    let refused = store.cancel_key("orders", "17", Some("d")).unwrap_err();
    assert!(matches!(refused, Error::NamesFull { argument: "command_id", limit: 3 }), "{refused}");
    assert_eq!(store.cancel_key("orders", "17", Some("a")).unwrap(), CancelOutcome::NotFound, "it is known");
    let with_a_key = put(&store, FAR, &[((Some("17"), IfExists::Replace, Some("e")), b"x")]).unwrap_err();
    assert!(matches!(with_a_key, Error::NamesFull { argument: "message_id", limit: 3 }), "{with_a_key}");
    put(&store, FAR, &[((None, IfExists::Refuse, Some("f")), b"x")]).unwrap();
    let full = put(&store, FAR, &[((None, IfExists::Refuse, Some("g")), b"x")]).unwrap_err();
    assert!(matches!(full, Error::NamesFull { argument: "message_id", limit: 4 }), "{full}");
    store.close().unwrap();
}

#[test]
fn a_message_that_becomes_ready_gives_its_key_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    let messages = subscribe(&store, "orders", "billing");
    let soon = Due::After(100);
    put(&store, soon, &[((Some("17"), IfExists::Refuse, None), b"a")]).unwrap();
    let now = put(&store, Due::After(0), &[((Some("18"), IfExists::Refuse, None), b"now")]).unwrap();
    assert_eq!(of_key(&store, "18"), LookedUpKey::Dispatched(now[0]), "it was never pending");
    assert_eq!(bodies(&collect(&messages, 2)), ["now", "a"]);
    put(&store, soon, &[((Some("17"), IfExists::Refuse, None), b"b")]).unwrap();
    assert_eq!(bodies(&collect(&messages, 1)), ["b"]);
}

#[test]
fn a_repetition_is_told_as_the_first_and_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path(), options(Durability::Disk));
    let batch: [(One<'_>, &[u8]); 2] =
        [((None, IfExists::Replace, Some("a")), b"1"), ((Some("k"), IfExists::Refuse, Some("b")), b"2")];
    let first = put(&store, FAR, &batch).unwrap();
    for round in 0..3 {
        assert_eq!(put(&store, Due::After(2 * HOUR_MS), &batch).unwrap(), first, "{round}");
        assert_eq!(store.status().unwrap().pending, 2);
        if round == 1 {
            store.checkpoint().unwrap();
        }
        store = reopened(store, folder.path(), options(Durability::Disk));
    }
    store.cancel(&first[0]).unwrap();
    assert_eq!(put(&store, FAR, &batch).unwrap(), first, "cancelled, and published all the same");
    let kept = put(&store, FAR, &[((Some("k"), IfExists::Keep, Some("c")), b"3")]).unwrap();
    assert_eq!(kept[0], first[1]);
    store.cancel(&first[1]).unwrap();
    let again = put(&store, FAR, &[((Some("k"), IfExists::Keep, Some("c")), b"3")]).unwrap();
    assert_eq!(again, kept, "it was answered with this receipt before");
    assert_eq!(store.status().unwrap().pending, 0);
    let twice: [(One<'_>, &[u8]); 2] =
        [((None, IfExists::Replace, Some("d")), b"1"), ((None, IfExists::Replace, Some("d")), b"1")];
    let receipts = put(&store, FAR, &twice).unwrap();
    assert_eq!((receipts[0], store.status().unwrap().pending), (receipts[1], 1));
}

#[test]
fn an_id_is_known_for_its_window_and_no_longer() {
    let folder = tempfile::tempdir().unwrap();
    let terms = TermsLimits { id_window_ms: 300, ..TermsLimits::default() };
    let clock = Arc::new(ManualClock::new(Millis(1_900_000_000_000)).unwrap());
    let store = open(folder.path(), Options { terms, clock: Arc::clone(&clock) as _, ..options(Durability::Disk) });
    let message: [(One<'_>, &[u8]); 1] = [((None, IfExists::Replace, Some("a")), b"1")];
    let first = put(&store, FAR, &message).unwrap();
    assert_eq!(put(&store, FAR, &message).unwrap(), first);
    clock.advance(350, Duration::from_secs(20), &mut || true).unwrap();
    assert_ne!(put(&store, FAR, &message).unwrap(), first);
    assert_eq!(store.status().unwrap().pending, 2);
}

#[test]
fn a_batch_with_a_key_that_is_taken_is_stored_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Disk));
    keyed(&store, "17", IfExists::Replace, b"a").unwrap();
    let batch: [(One<'_>, &[u8]); 3] = [
        ((None, IfExists::Replace, None), b"plain"),
        ((Some("18"), IfExists::Replace, None), b"other"),
        ((Some("17"), IfExists::Refuse, None), b"taken"),
    ];
    assert!(matches!(put(&store, FAR, &batch), Err(Error::KeyTaken { index: 2, .. })));
    assert_eq!(store.status().unwrap().pending, 1);
    assert_eq!(of_key(&store, "18"), LookedUpKey::NotFound);
    publish(&store, "orders", FAR, b"what comes behind is stored");
    let twice: [(One<'_>, &[u8]); 2] =
        [((Some("9"), IfExists::Keep, None), b"1"), ((Some("9"), IfExists::Refuse, None), b"2")];
    assert!(matches!(put(&store, FAR, &twice), Err(Error::InvalidArgument { argument: "key", .. })));
    let twice: [(One<'_>, &[u8]); 2] =
        [((Some("9"), IfExists::Keep, None), b"1"), ((Some("9"), IfExists::Replace, None), b"2")];
    let receipts = put(&store, FAR, &twice).unwrap();
    assert_eq!((fate(&store, &receipts[0]), fate(&store, &receipts[1])), (Fate::Cancelled, Fate::Pending));
    assert_eq!(store.status().unwrap().pending, 3);
    let nameless = put(&store, FAR, &[((None, IfExists::Replace, Some("")), b"1")]);
    assert!(matches!(nameless, Err(Error::InvalidArgument { argument: "message_id", .. })), "{nameless:?}");
}

#[test]
fn where_there_is_no_room_for_a_name_nothing_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let terms = TermsLimits { keys_max: 2, ids_max: 2, ..TermsLimits::default() };
    let store = open(folder.path(), Options { terms, ..options(Durability::Disk) });
    keyed(&store, "1", IfExists::Replace, b"a").unwrap();
    let batch: [(One<'_>, &[u8]); 2] =
        [((Some("2"), IfExists::Keep, None), b"b"), ((Some("3"), IfExists::Keep, None), b"c")];
    assert!(matches!(put(&store, FAR, &batch), Err(Error::NamesFull { argument: "key", limit: 2 })));
    assert_eq!(store.status().unwrap().pending, 1);
    let second = keyed(&store, "2", IfExists::Keep, b"b").unwrap();
    assert!(matches!(keyed(&store, "3", IfExists::Keep, b"c"), Err(Error::NamesFull { argument: "key", limit: 2 })));
    keyed(&store, "2", IfExists::Replace, b"what has one keeps it").unwrap();
    assert_eq!(fate(&store, &second), Fate::Cancelled);
    let id = |id| put(&store, FAR, &[((None, IfExists::Replace, Some(id)), b"x")]);
    let first = id("a").unwrap();
    id("b").unwrap();
    assert!(matches!(id("c"), Err(Error::NamesFull { argument: "message_id", limit: 2 })));
    assert_eq!(id("a").unwrap(), first, "a repetition needs no room");
}

#[test]
fn many_threads_with_one_key_leave_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..50 {
                    let if_exists = [IfExists::Replace, IfExists::Keep, IfExists::Refuse][(thread + round) % 3];
                    match keyed(store, "17", if_exists, b"x") {
                        Ok(_) | Err(Error::KeyTaken { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(store.status().unwrap().pending, 1);
}

/// Each move by a key finds the message that has it, whatever is done to that meanwhile.
#[test]
fn what_is_moved_by_its_key_while_others_replace_it_is_moved() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    keyed(&store, "17", IfExists::Replace, b"first").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..200 {
                    keyed(&store, "17", IfExists::Replace, b"again").unwrap();
                }
            });
        }
        for _ in 0..200 {
            let moved = store.move_key("orders", "17", Due::After(2 * HOUR_MS), None).unwrap();
            assert!(matches!(moved, MoveOutcome::Done(_)), "{moved:?}");
        }
    });
    assert_eq!(store.status().unwrap().pending, 1);
}

/// So many messages of a subject, each with its number for a key.
fn numbered(store: &Store, count: usize) -> (Vec<String>, Vec<Receipt>) {
    let keys: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    let messages: Vec<(One<'_>, &[u8])> =
        keys.iter().map(|key| ((Some(key.as_str()), IfExists::Refuse, None), &b"x"[..])).collect();
    let receipts = put(store, FAR, &messages).unwrap();
    (keys, receipts)
}

fn fates(store: &Store, receipts: &[Receipt]) -> Vec<Fate> {
    receipts.iter().map(|receipt| fate(store, receipt)).collect()
}

#[test]
fn many_keys_are_answered_one_by_one_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path(), options(Durability::Disk));
    let (_, receipts) = numbered(&store, 4);
    let (done, none) = (CancelOutcome::Done, CancelOutcome::NotFound);
    let before = store.status().unwrap().visible;
    let outcomes = store.cancel_keys("orders", &["2", "gone", "0", "2"], None).unwrap();
    assert_eq!(outcomes, [done, none, done, done], "named twice it has one outcome");
    assert_eq!(store.status().unwrap().visible.since(before), 3, "and is asked once");
    assert_eq!(store.cancel_keys("orders", &["2", "0"], None).unwrap(), [none, none]);
    assert_eq!(fates(&store, &receipts), [Fate::Cancelled, Fate::Pending, Fate::Cancelled, Fate::Pending]);
    let moves = [("3", Due::After(2 * HOUR_MS)), ("2", FAR), ("1", FAR), ("3", Due::After(2 * HOUR_MS))];
    let outcomes = store.move_keys("orders", &moves, None).unwrap();
    let [MoveOutcome::Done(third), MoveOutcome::NotFound, MoveOutcome::Done(first), again] = outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!((again, third.key.due > first.key.due), (MoveOutcome::Done(third), true));
    assert_eq!(fates(&store, &receipts[1..]), [Fate::NotFound, Fate::Cancelled, Fate::NotFound]);
    assert!(store.cancel_keys::<&str>("orders", &[], None).unwrap().is_empty());
    assert!(store.move_keys::<&str>("orders", &[], Some("id")).unwrap().is_empty());
    for round in 0..3 {
        for (key, held) in [("0", None), ("1", Some(first)), ("2", None), ("3", Some(third))] {
            let expected = held.map_or(LookedUpKey::NotFound, LookedUpKey::Pending);
            assert_eq!(of_key(&store, key), expected, "{round} {key}");
        }
        if round == 1 {
            store.checkpoint().unwrap();
        }
        store = reopened(store, folder.path(), options(Durability::Disk));
    }
}

#[test]
fn where_one_of_many_is_refused_nothing_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let (_, receipts) = numbered(&store, 2);
    let refused = |argument, error: Error| {
        assert!(matches!(error, Error::InvalidArgument { argument: found, .. } if found == argument), "{error}");
    };
    refused("key", store.cancel_keys("orders", &["0", "a/b"], None).unwrap_err());
    refused("subject", store.cancel_keys("or ders", &["0", "1"], None).unwrap_err());
    refused("subject", store.cancel_keys::<&str>("", &[], None).unwrap_err());
    refused("command_id", store.cancel_keys("orders", &["0"], Some("")).unwrap_err());
    refused("key", store.move_keys("orders", &[("0", FAR), ("1", FAR), ("0", Due::After(1))], None).unwrap_err());
    refused("due", store.move_keys("orders", &[("0", FAR), ("1", Due::After(u64::MAX / 2))], None).unwrap_err());
    assert_eq!(fates(&store, &receipts), [Fate::Pending; 2]);
}

#[test]
fn many_keys_under_an_id_are_answered_as_the_first_time_key_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path(), options(Durability::Disk));
    numbered(&store, 3);
    let moves = [("0", FAR), ("gone", FAR), ("1", FAR)];
    let moved = store.move_keys("orders", &moves, Some("m")).unwrap();
    let cancelled = store.cancel_keys("orders", &["0", "gone", "1"], Some("c")).unwrap();
    let (newer, _) =
        (keyed(&store, "0", IfExists::Refuse, b"newer").unwrap(), keyed(&store, "gone", IfExists::Refuse, b""));
    for round in 0..3 {
        assert_eq!(store.move_keys("orders", &moves, Some("m")).unwrap(), moved, "{round}");
        assert_eq!(store.cancel_keys("orders", &["0", "gone", "1"], Some("c")).unwrap(), cancelled, "{round}");
        assert_eq!(store.cancel_key("orders", "gone", Some("c")).unwrap(), CancelOutcome::NotFound, "as one of many");
        assert_eq!(store.move_key("orders", "1", FAR, Some("m")).unwrap(), moved[2], "as one of many");
        assert_eq!((fate(&store, &newer), store.status().unwrap().pending), (Fate::Pending, 3), "{round}");
        if round == 1 {
            store.checkpoint().unwrap();
        }
        store = reopened(store, folder.path(), options(Durability::Disk));
    }
    let outcomes = store.cancel_keys("orders", &["2", "0", "gone"], Some("c")).unwrap();
    assert_eq!(outcomes, [CancelOutcome::Done, CancelOutcome::Done, CancelOutcome::NotFound], "some of them are known");
    assert_eq!((fate(&store, &newer), store.status().unwrap().pending), (Fate::Pending, 2));
}

#[test]
fn where_there_is_no_room_for_all_ids_of_many_keys_none_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let terms = TermsLimits { ids_max: 4, ..TermsLimits::default() };
    let store = open(folder.path(), Options { terms, ..options(Durability::Os) });
    let (keys, receipts) = numbered(&store, 4);
    for _ in 0..2 {
        assert_eq!(store.cancel_keys("orders", &keys[..2], Some("a")).unwrap(), [CancelOutcome::Done; 2]);
        let refused = store.cancel_keys("orders", &keys, Some("a")).unwrap_err();
        assert!(matches!(refused, Error::NamesFull { argument: "command_id", limit: 3 }), "{refused}");
    }
    let moves = [("2", FAR), ("3", FAR)];
    assert!(matches!(store.move_keys("orders", &moves, Some("a")), Err(Error::NamesFull { .. })));
    assert_eq!(fates(&store, &receipts[2..]), [Fate::Pending; 2]);
    assert_eq!(store.cancel_keys("orders", &keys[..3], Some("a")).unwrap(), [CancelOutcome::Done; 3]);
    assert_eq!(store.cancel_keys("orders", &keys, None).unwrap()[3], CancelOutcome::Done);
}

#[test]
fn more_keys_than_fit_into_one_batch_of_facts_take_several() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Options { segment_bytes: 64 << 10, ..options(Durability::Os) });
    let (mut keys, mut moved) = (Vec::new(), Vec::new());
    for part in 0..10 {
        let names: Vec<String> = (0..100).map(|number| format!("{part}-{number}")).collect();
        let messages: Vec<(One<'_>, &[u8])> =
            names.iter().map(|key| ((Some(key.as_str()), IfExists::Refuse, None), &b""[..])).collect();
        put(&store, FAR, &messages).unwrap();
        keys.extend(names);
    }
    for id in [None, Some("m"), Some("m")] {
        let moves: Vec<(&String, Due)> = keys.iter().map(|key| (key, FAR)).collect();
        moved.push(store.move_keys("orders", &moves, id).unwrap());
    }
    assert!(moved.iter().flatten().all(|outcome| matches!(outcome, MoveOutcome::Done(_))));
    assert!(moved[1] == moved[2] && moved[0] != moved[1]);
    for _ in 0..2 {
        assert_eq!(store.cancel_keys("orders", &keys, Some("c")).unwrap(), vec![CancelOutcome::Done; 1_000]);
    }
    assert_eq!(store.status().unwrap().pending, 0);
}

/// Each of many moves by keys finds the message that has its key, whatever is done to that meanwhile.
#[test]
fn what_is_moved_by_many_keys_while_others_replace_it_is_moved() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), options(Durability::Os));
    let (keys, _) = numbered(&store, 8);
    std::thread::scope(|scope| {
        let replacing = scope.spawn(|| {
            for round in 0..200 {
                keyed(&store, &keys[round % 8], IfExists::Replace, b"again").unwrap();
            }
        });
        for round in 0..100 {
            let moves: Vec<(&String, Due)> = keys.iter().map(|key| (key, Due::After(2 * HOUR_MS))).collect();
            let id = format!("m-{round}");
            let id = (round % 2 == 0).then_some(id.as_str());
            let moved = store.move_keys("orders", &moves, id).unwrap();
            assert!(moved.iter().all(|moved| matches!(moved, MoveOutcome::Done(_))), "{moved:?}");
            if id.is_some() {
                assert_eq!(store.move_keys("orders", &moves, id).unwrap(), moved);
            }
        }
        replacing.join().unwrap();
    });
    assert_eq!(store.status().unwrap().pending, 8);
}
