//! Keys and ids: at most one pending message for a key and one message for an id, whatever else happens around them and
//! wherever the machine ends.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use crate::rig::keyed::{asked, tried};
use crate::rig::orders::orders;
use crate::rig::{Rig, lean, sees, small};
use delaymq_core::planted::Planted;
use delaymq_core::record::terms::{IfExists, TermsLimits};
use delaymq_core::store::{Outcome, name_hash};
use delaymq_core::units::{DueKey, Sequence};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NewMessage, NewTerms};

const FIRST_MS: u64 = 5_000;
const LIMITS: TermsLimits = TermsLimits { keys_max: 10, ids_max: 10, id_window_ms: 600_000 };

/// Publishes one message, and tells what was found of the terms and of itself.
fn put(rig: &mut Rig, body: &str, key: Option<&str>, if_exists: IfExists, id: Option<&str>) -> (Outcome, Outcome) {
    let terms = NewTerms { key: key.map(str::to_owned), if_exists, id: id.map(str::to_owned) };
    let message =
        NewMessage { subject: "s", due: Due::After(FIRST_MS), body: body.as_bytes(), expires: None, meta: b"" };
    let published = tried(rig, |node| node.publish_on_terms(&[(message, terms.clone())], LIMITS).unwrap());
    let sequence = published.receipts[0].key.sequence;
    let whole = rig.node().take_outcome(published.terms).unwrap();
    (whole, rig.node().take_outcome(sequence).unwrap_or(whole))
}

fn keyed(rig: &mut Rig, body: &str, if_exists: IfExists) -> Outcome {
    put(rig, body, Some("k"), if_exists, None).1
}

fn cancel(rig: &mut Rig) -> Outcome {
    asked(rig, |node| node.cancel_key("s", "k", None).unwrap())
}

/// As its producer sends it again.
fn cancel_as(rig: &mut Rig, id: &str) -> Outcome {
    asked(rig, |node| node.cancel_key("s", "k", Some((id, LIMITS))).unwrap())
}

fn move_as(rig: &mut Rig, due: Due, id: &str) -> Outcome {
    asked(rig, |node| node.move_key("s", "k", due, Some((id, LIMITS))).unwrap().map(|asked| asked.key.sequence))
}

fn move_to(rig: &mut Rig, due: Due) -> Outcome {
    asked(rig, |node| node.move_key("s", "k", due, None).unwrap().map(|asked| asked.key.sequence))
}

/// The entry that has the key.
fn holder(rig: &mut Rig) -> Option<DueKey> {
    rig.node().owner().state().keys.get(name_hash("s", "k")).map(|named| named.key)
}

/// What happens around one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Replace,
    Keep,
    Cancel,
    /// Time passes, and all that waits becomes ready.
    Tick,
    /// A checkpoint begins.
    Freeze,
    /// It comes to its end.
    Install,
}

const STEPS: [Step; 6] = [Step::Replace, Step::Keep, Step::Cancel, Step::Tick, Step::Freeze, Step::Install];

/// Lives these steps around a message that has the key; the machine ends behind so many of them.
fn live(steps: &[Step], ends_behind: Option<(usize, End)>) {
    let mut rig = Rig::new(lean());
    let place = rig.earliest("s", "g");
    assert_eq!(keyed(&mut rig, "first", IfExists::Refuse), Outcome::Done);
    let (mut held, mut ready): (Option<&str>, Vec<&str>) = (Some("first"), Vec::new());
    let mut is_dispatched = false;
    for (number, step) in steps.iter().enumerate() {
        let before = holder(&mut rig);
        assert_eq!(before.is_some(), held.is_some(), "{steps:?} before {number}");
        match step {
            Step::Replace => {
                let expected = before.map_or(Outcome::Done, Outcome::Replaced);
                assert_eq!(keyed(&mut rig, "second", IfExists::Replace), expected);
                held = Some("second");
            }
            Step::Keep => {
                let size = held.map_or(0, str::len) as u32;
                let expected = before.map_or(Outcome::Done, |there| Outcome::There(there, size));
                assert_eq!(keyed(&mut rig, "third", IfExists::Keep), expected);
                held = held.or(Some("third"));
            }
            Step::Cancel => {
                let late = if is_dispatched { Outcome::AlreadyDispatched } else { Outcome::NotFound };
                assert_eq!(cancel(&mut rig), if held.is_some() { Outcome::Done } else { late });
                held = None;
            }
            Step::Tick => {
                rig.pass(FIRST_MS);
                is_dispatched |= held.is_some();
                ready.extend(held.take());
            }
            Step::Freeze => assert!(rig.node().begin_checkpoint()),
            Step::Install => while !rig.node().checkpoint_piece(40).unwrap() {},
        }
        is_dispatched &= held.is_none();
        if let Some((behind, end)) = ends_behind
            && behind == number
        {
            rig.reopen(end);
        }
        rig.step();
    }
    rig.compare_with_log();
    rig.checkpoint();
    rig.pass(1_000_000);
    ready.extend(held);
    let consumer = rig.consumer(place.0, "again");
    assert_eq!(rig.take_all((place.0, consumer)), ready, "{steps:?} {ends_behind:?}");
    assert_eq!(holder(&mut rig), None);
}

#[test]
fn every_order_of_what_is_asked_of_a_key_leaves_one_message() {
    let mut count = 0;
    orders(&STEPS, [Step::Freeze, Step::Install], &mut |steps| {
        count += 1;
        live(steps, None);
        let begins = steps.iter().position(|step| *step == Step::Freeze).unwrap();
        let installs = steps.iter().position(|step| *step == Step::Install).unwrap();
        // Behind another step of each order.
        let behind = count % steps.len();
        if !(begins..installs).contains(&behind) {
            live(steps, Some((behind, End::PowerCutLosesAll)));
        }
    });
    assert_eq!(count, 360);
}

fn what_is_replaced_never_comes() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    assert_eq!(keyed(&mut rig, "first", IfExists::Replace), Outcome::Done);
    rig.checkpoint();
    assert!(matches!(keyed(&mut rig, "second", IfExists::Replace), Outcome::Replaced(_)));
    rig.reopen(End::PowerCutLosesAll);
    rig.pass(2 * FIRST_MS);
    let consumer = rig.consumer(place.0, "again");
    assert_eq!(rig.take_all((place.0, consumer)), ["second"]);
}

#[test]
fn what_stays_although_it_is_replaced_is_seen() {
    what_is_replaced_never_comes();
    sees(Planted::ReplacedStays, what_is_replaced_never_comes);
}

fn a_repetition_is_stored_once_over_checkpoints_and_restarts() {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    assert_eq!(put(&mut rig, "one", None, IfExists::Replace, Some("i")), (Outcome::Done, Outcome::Done));
    let mut first = None;
    for end in [End::Kill, End::PowerCutLosesAll] {
        rig.checkpoint();
        rig.reopen(end);
        let (_, again) = put(&mut rig, "one", None, IfExists::Replace, Some("i"));
        assert!(matches!(again, Outcome::There(..)) && first.is_none_or(|first| first == again), "{again:?}");
        first = Some(again);
    }
    rig.compare_with_log();
    rig.pass(2 * FIRST_MS);
    let consumer = rig.consumer(place.0, "again");
    assert_eq!(rig.take_all((place.0, consumer)), ["one"]);
}

#[test]
fn ids_that_a_checkpoint_forgets_are_seen() {
    a_repetition_is_stored_once_over_checkpoints_and_restarts();
    sees(Planted::IdsNotSaved, a_repetition_is_stored_once_over_checkpoints_and_restarts);
}

#[test]
fn an_id_is_forgotten_when_its_time_is_over_and_then_makes_room() {
    let mut rig = Rig::new(small());
    for number in 0..10 {
        let id = number.to_string();
        assert_eq!(put(&mut rig, "x", None, IfExists::Replace, Some(&id)).1, Outcome::Done);
    }
    let full = Outcome::IdsFull(LIMITS.ids_max);
    assert_eq!(put(&mut rig, "x", None, IfExists::Replace, Some("more")), (full, full));
    rig.pass(LIMITS.id_window_ms);
    for id in ["more", "0"] {
        assert_eq!(put(&mut rig, "x", None, IfExists::Replace, Some(id)).1, Outcome::Done);
    }
    assert_eq!(rig.node().owner().state().ids.len(), 2);
    rig.compare_with_log();
}

#[test]
fn a_key_goes_along_with_what_is_moved_and_is_free_where_that_is_ready() {
    let mut rig = Rig::new(small());
    assert_eq!(keyed(&mut rig, "one", IfExists::Refuse), Outcome::Done);
    rig.checkpoint();
    let Outcome::Moved(far) = move_to(&mut rig, Due::After(50_000)) else { panic!("it is pending") };
    assert_eq!(holder(&mut rig), Some(far));
    assert_eq!(keyed(&mut rig, "two", IfExists::Refuse), Outcome::KeyTaken(0, far));
    rig.reopen(End::PowerCutLosesAll);
    rig.checkpoint();
    rig.reopen(End::Kill);
    assert_eq!(holder(&mut rig), Some(far));
    assert!(matches!(move_to(&mut rig, Due::After(0)), Outcome::Moved(_)));
    assert_eq!((holder(&mut rig), move_to(&mut rig, Due::After(0))), (None, Outcome::AlreadyDispatched));
    assert_eq!(keyed(&mut rig, "two", IfExists::Refuse), Outcome::Done);
    rig.compare_with_log();
    assert_eq!(rig.drain("s", "g"), ["one", "two"]);
}

/// A command by a key with an id, sent again behind an end of the machine, a checkpoint, and somebody else's message under
/// that key: it is answered as the first time, and changes nothing.
#[test]
fn a_command_by_a_key_that_comes_again_is_answered_as_the_first_time() {
    for end in [None, Some(End::Kill), Some(End::PowerCutLosesAll)] {
        for frozen in [false, true] {
            let mut rig = Rig::new(lean());
            let again = |rig: &mut Rig| {
                if frozen {
                    rig.checkpoint();
                }
                if let Some(end) = end {
                    rig.settle();
                    rig.reopen(end);
                }
            };
            assert_eq!(move_as(&mut rig, Due::After(FIRST_MS), "early"), Outcome::NotFound);
            assert_eq!(keyed(&mut rig, "first", IfExists::Refuse), Outcome::Done);
            again(&mut rig);
            assert_eq!(move_as(&mut rig, Due::After(FIRST_MS), "early"), Outcome::NotFound);
            let Outcome::Moved(moved) = move_as(&mut rig, Due::After(2 * FIRST_MS), "m") else {
                panic!("it is pending")
            };
            again(&mut rig);
            assert_eq!(move_as(&mut rig, Due::After(2 * FIRST_MS), "m"), Outcome::There(moved, 5));
            assert_eq!(holder(&mut rig), Some(moved));
            assert_eq!(cancel_as(&mut rig, "c"), Outcome::Done);
            assert_eq!(keyed(&mut rig, "second", IfExists::Refuse), Outcome::Done);
            let second = holder(&mut rig);
            again(&mut rig);
            assert_eq!(cancel_as(&mut rig, "c"), Outcome::Done);
            assert_eq!(move_as(&mut rig, Due::After(2 * FIRST_MS), "m"), Outcome::There(moved, 5));
            assert_eq!((holder(&mut rig), second.is_some()), (second, true));
            // What lies before a checkpoint is not kept here.
            if !frozen {
                rig.compare_with_log();
            }
        }
    }
}

/// The receipt's key of the message that is known to be dispatched under the key.
fn dispatched(rig: &mut Rig) -> Option<DueKey> {
    let now = rig.clock.read().wall;
    rig.node().owner().state().dispatched_keys.get(name_hash("s", "k"), now).map(|named| named.key)
}

fn both(rig: &mut Rig) -> (Outcome, Outcome) {
    (cancel(rig), move_to(rig, Due::After(FIRST_MS)))
}

/// Cancels and moves that come too late are told so while the key is remembered, whatever ended the machine; and not of a
/// message that was cancelled, nor where another one has the key since.
fn a_key_whose_message_is_ready_is_known_as_dispatched(ends: &[End]) {
    const LATE: (Outcome, Outcome) = (Outcome::AlreadyDispatched, Outcome::AlreadyDispatched);
    const NONE: (Outcome, Outcome) = (Outcome::NotFound, Outcome::NotFound);
    let mut rig = Rig::new(lean());
    assert_eq!(both(&mut rig), NONE);
    assert_eq!(keyed(&mut rig, "first", IfExists::Refuse), Outcome::Done);
    let first = holder(&mut rig);
    rig.pass(FIRST_MS);
    assert_eq!((both(&mut rig), dispatched(&mut rig)), (LATE, first));
    for end in ends {
        rig.checkpoint();
        rig.reopen(*end);
        assert_eq!((both(&mut rig), dispatched(&mut rig)), (LATE, first));
    }
    assert_eq!(keyed(&mut rig, "second", IfExists::Keep), Outcome::Done, "the key is free");
    assert_eq!((cancel(&mut rig), dispatched(&mut rig)), (Outcome::Done, None));
    assert_eq!(both(&mut rig), NONE, "it was cancelled");
    assert_eq!(keyed(&mut rig, "third", IfExists::Refuse), Outcome::Done);
    let moved = move_to(&mut rig, Due::After(0));
    assert_eq!(both(&mut rig), LATE);
    assert_eq!(dispatched(&mut rig).map(Outcome::Moved), Some(moved));
    let fourth = due_at_once(&mut rig);
    assert_eq!((both(&mut rig), dispatched(&mut rig)), (LATE, Some(fourth)));
    rig.pass(LIMITS.id_window_ms);
    assert_eq!(both(&mut rig), NONE, "it is forgotten");
    assert_eq!(rig.drain("s", "g"), ["first", "third", "at once"]);
}

/// Publishes a message with the key that never waits.
fn due_at_once(rig: &mut Rig) -> DueKey {
    let terms = NewTerms { key: Some("k".to_owned()), if_exists: IfExists::Refuse, id: None };
    let message = NewMessage { subject: "s", due: Due::After(0), body: b"at once", expires: None, meta: b"" };
    let published = tried(rig, |node| node.publish_on_terms(&[(message, terms.clone())], LIMITS).unwrap());
    assert_eq!(holder(rig), None);
    published.receipts[0].key
}

#[test]
fn what_a_command_by_a_key_is_told_that_comes_too_late() {
    for ends in [&[][..], &[End::Kill], &[End::PowerCutLosesAll, End::Kill, End::PowerCutLosesAll]] {
        a_key_whose_message_is_ready_is_known_as_dispatched(ends);
    }
}

/// As many dispatched keys are remembered as there may be keys; then the first one is forgotten early, and nothing is held
/// back.
#[test]
fn the_dispatched_keys_that_are_remembered_are_no_more_than_keys_may_be() {
    let mut rig = Rig::new(lean());
    let key = |number: u32| format!("k{number}");
    for number in 0..LIMITS.keys_max + 2 {
        assert_eq!(put(&mut rig, "x", Some(&key(number)), IfExists::Refuse, None).1, Outcome::Done);
        rig.pass(FIRST_MS);
        if number % 4 == 0 {
            rig.compare_with_log();
            rig.checkpoint();
            rig.reopen(End::PowerCutLosesAll);
        }
    }
    assert_eq!(rig.node().owner().state().dispatched_keys.len(), LIMITS.keys_max as usize);
    for number in 0..LIMITS.keys_max + 2 {
        let told = asked(&mut rig, |node| node.cancel_key("s", &key(number), None).unwrap());
        let is_known = number > 1;
        assert_eq!(told, if is_known { Outcome::AlreadyDispatched } else { Outcome::NotFound }, "{number}");
    }
}

/// A command with an id that came too late is told so again, even where another message has the key by then.
#[test]
fn a_command_that_came_too_late_is_answered_so_when_it_comes_again() {
    for end in [End::Kill, End::PowerCutLosesAll] {
        let mut rig = Rig::new(lean());
        keyed(&mut rig, "first", IfExists::Refuse);
        rig.pass(FIRST_MS);
        let both = |rig: &mut Rig| (cancel_as(rig, "c"), move_as(rig, Due::After(FIRST_MS), "m"));
        let late = (Outcome::AlreadyDispatched, Outcome::AlreadyDispatched);
        assert_eq!(both(&mut rig), late);
        keyed(&mut rig, "second", IfExists::Refuse);
        let second = holder(&mut rig);
        assert_eq!((both(&mut rig), holder(&mut rig)), (late, second));
        rig.checkpoint();
        rig.reopen(end);
        assert_eq!((both(&mut rig), holder(&mut rig), second.is_some()), (late, second, true));
        assert_eq!(cancel_as(&mut rig, "other"), Outcome::Done);
    }
}

/// Another message has the key since: the move is not judged, and its id is free for whoever asks again.
#[test]
fn a_move_that_another_one_had_the_key_of_is_judged_when_it_is_asked_again() {
    let mut rig = Rig::new(lean());
    keyed(&mut rig, "first", IfExists::Refuse);
    let terms = NewTerms { key: Some("k".to_owned()), if_exists: IfExists::Replace, id: None };
    let message = NewMessage { subject: "s", due: Due::After(FIRST_MS), body: b"second", expires: None, meta: b"" };
    let asked = tried(&mut rig, |node| {
        node.publish_on_terms(&[(message, terms.clone())], LIMITS).unwrap()?;
        node.move_key("s", "k", Due::After(9_000), Some(("m", LIMITS))).unwrap()
    });
    assert_eq!(rig.node().take_outcome(asked.key.sequence), Some(Outcome::NotFound));
    assert!(matches!(move_as(&mut rig, Due::After(9_000), "m"), Outcome::Moved(_)));
    rig.compare_with_log();
}

#[test]
fn a_command_for_whose_id_there_is_no_room_is_not_done() {
    let mut rig = Rig::new(lean());
    keyed(&mut rig, "first", IfExists::Refuse);
    let none = TermsLimits { ids_max: 0, ..LIMITS };
    let asked = tried(&mut rig, |node| node.cancel_key("s", "k", Some(("c", none))).unwrap());
    assert_eq!(rig.node().take_outcome(asked), None);
    assert_eq!(rig.node().take_outcome(asked_before(asked)), Some(Outcome::IdsFull(0)));
    assert!(holder(&mut rig).is_some());
    rig.compare_with_log();
}

/// The terms stand before what they are of.
fn asked_before(sequence: Sequence) -> Sequence {
    Sequence(sequence.0 - 1)
}

/// Commands by many keys in one submission, behind one fact of terms: each is told by its own id, alone or among others, whatever
/// ended the machine and whoever has its key since.
#[test]
fn many_commands_by_keys_in_one_submission_are_judged_one_by_one() {
    for end in [None, Some(End::Kill), Some(End::PowerCutLosesAll)] {
        for frozen in [false, true] {
            let mut rig = Rig::new(lean());
            for key in ["k", "l", "m"] {
                assert_eq!(put(&mut rig, "first", Some(key), IfExists::Refuse, None).1, Outcome::Done);
            }
            let later = Some(Due::After(2 * FIRST_MS));
            let moved = many(&mut rig, &[("k", later), ("gone", later), ("l", later)], "one", LIMITS);
            let [Some(Outcome::Moved(first)), Some(Outcome::NotFound), Some(Outcome::Moved(second))] = moved[..] else {
                panic!("{moved:?}")
            };
            let mixed = many(&mut rig, &[("l", None), ("gone", None), ("m", later)], "two", LIMITS);
            assert!(matches!(mixed[..], [Some(Outcome::Done), Some(Outcome::NotFound), Some(Outcome::Moved(_))]));
            for key in ["l", "gone"] {
                assert_eq!(put(&mut rig, "newer", Some(key), IfExists::Refuse, None).1, Outcome::Done);
            }
            if frozen {
                rig.checkpoint();
            }
            if let Some(end) = end {
                rig.settle();
                rig.reopen(end);
            }
            let told = |key| Some(Outcome::There(key, 5));
            let again = many(&mut rig, &[("l", later), ("gone", later), ("k", later)], "one", LIMITS);
            assert_eq!(again, [told(second), Some(Outcome::NotFound), told(first)]);
            let again = many(&mut rig, &[("gone", None), ("l", None), ("k", None)], "two", LIMITS);
            assert_eq!(again, [Some(Outcome::NotFound), Some(Outcome::Done), Some(Outcome::Done)], "the last is new");
            assert_eq!(rig.node().owner().state().keys.len(), 3, "l and gone, which are newer, and m");
            if !frozen {
                rig.compare_with_log();
            }
        }
    }
}

#[test]
fn where_there_is_no_room_for_all_ids_of_many_commands_none_is_done() {
    let mut rig = Rig::new(lean());
    for key in ["k", "l"] {
        put(&mut rig, "first", Some(key), IfExists::Refuse, None);
    }
    let few = TermsLimits { ids_max: 2, ..LIMITS };
    assert_eq!(many(&mut rig, &[("k", None)], "one", few), [Some(Outcome::Done)]);
    assert_eq!(many(&mut rig, &[("k", None), ("l", None), ("gone", None)], "one", few), [None, None, None]);
    assert_eq!(rig.node().owner().state().keys.len(), 1);
    assert_eq!(many(&mut rig, &[("k", None), ("l", None)], "one", few), [Some(Outcome::Done); 2]);
    rig.compare_with_log();
}

#[test]
fn what_is_done_wrong_with_a_key_is_seen() {
    use Step::{Cancel, Freeze, Install, Keep, Replace, Tick};
    sees(Planted::ReadyKeepsKey, || live(&[Tick, Replace, Keep, Cancel, Freeze, Install], None));
    sees(Planted::KeysNotSaved, || {
        live(&[Freeze, Install, Replace, Keep, Cancel, Tick], Some((1, End::PowerCutLosesAll)));
    });
    sees(Planted::DispatchedKeyForgotten, || a_key_whose_message_is_ready_is_known_as_dispatched(&[]));
    sees(Planted::DispatchedKeysNotSaved, || a_key_whose_message_is_ready_is_known_as_dispatched(&[End::Kill]));
    sees(Planted::MovedByKeyUnjudged, a_move_that_another_one_had_the_key_of_is_judged_when_it_is_asked_again);
    sees(Planted::CommandByKeyForgotten, a_command_by_a_key_that_comes_again_is_answered_as_the_first_time);
    sees(Planted::FirstTermsForAll, many_commands_by_keys_in_one_submission_are_judged_one_by_one);
    sees(Planted::DoneWithoutRoomForIds, a_command_for_whose_id_there_is_no_room_is_not_done);
    sees(Planted::DoneWithoutRoomForIds, where_there_is_no_room_for_all_ids_of_many_commands_none_is_done);
}

/// What each of many commands by keys is answered; a time is a move, none a cancel.
fn many(rig: &mut Rig, commands: &[(&str, Option<Due>)], id: &str, limits: TermsLimits) -> Vec<Option<Outcome>> {
    let asked = tried(rig, |node| node.ask_by_keys("s", commands, Some((id, limits))).unwrap());
    asked.commands.iter().map(|command| rig.node().take_outcome(command.sequence)).collect()
}
