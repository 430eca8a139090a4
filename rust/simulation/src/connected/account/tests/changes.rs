//! What a move may do to a message, and what an id must.

use delaymq_core::store::Receipt;
use delaymq_core::units::{DueKey, Epoch, SubjectNumber};
use delaymq_core::wire::extension::moves::Moved;
use delaymq_core::wire::extension::publish::DueTime;

use super::*;

const LATER: DueTime = DueTime::At(Millis(500));
/// The receipt after the first move.
const MOVED: Sequence = Sequence(60);

fn done(to: Sequence, due: u64) -> Moved {
    let key = DueKey { due: Millis(due), sequence: to };
    Moved::Done(Receipt::new([0; 16], Epoch(1), key, SubjectNumber(1), 8, &[0; 16]))
}

/// One message that was stored, and was moved to 500.
fn moved() -> Account {
    let mut account = stored();
    account.move_asked(SEQUENCE, Millis(500));
    account.move_told(SEQUENCE, LATER, &done(MOVED, 500));
    assert_eq!(account.violations(), Vec::<String>::new());
    account
}

fn blamed_for(account: &Account, words: &str) {
    assert!(account.violations().iter().any(|blame| blame.contains(words)), "{:?}", account.violations());
}

fn groups() -> [(String, String); 1] {
    [("orders".to_owned(), "billing".to_owned())]
}

#[test]
fn what_was_moved_comes_when_its_new_receipt_says() {
    let mut account = moved();
    comes_due(&mut account, 1, 600, false, 500);
    assert_eq!(account.violations(), Vec::<String>::new());
    let mut account = moved();
    comes_due(&mut account, 1, 600, false, 100);
    blamed_for(&account, "another time");
}

#[test]
fn what_may_have_been_moved_comes_at_either_time_and_not_before_both() {
    for (due, is_fine) in [(100, true), (500, true), (501, true), (499, false), (99, false)] {
        let mut account = stored();
        account.move_asked(SEQUENCE, Millis(500));
        comes_due(&mut account, 1, 600, false, due);
        assert_eq!(account.violations().is_empty(), is_fine, "due at {due}: {:?}", account.violations());
    }
}

#[test]
fn what_has_come_was_not_moved_to_another_time() {
    for (due, is_fine) in [(500, true), (520, false)] {
        let mut account = stored();
        account.move_asked(SEQUENCE, Millis(500));
        comes_due(&mut account, 1, 600, false, 500);
        // The answer was on its way longer than the message.
        account.move_told(SEQUENCE, LATER, &done(MOVED, due));
        assert_eq!(account.violations().is_empty(), is_fine, "moved to {due}: {:?}", account.violations());
    }
}

#[test]
fn a_move_does_not_come_before_what_was_asked() {
    let mut account = stored();
    account.move_asked(SEQUENCE, Millis(500));
    account.move_told(SEQUENCE, LATER, &done(MOVED, 499));
    blamed_for(&account, "move of 40 to 60");
}

#[test]
fn one_receipt_is_moved_to_one_other() {
    let mut account = moved();
    account.move_asked(SEQUENCE, Millis(500));
    account.move_told(SEQUENCE, LATER, &done(MOVED, 500));
    assert_eq!(account.violations(), Vec::<String>::new(), "the same command is answered as the first time");
    account.move_asked(SEQUENCE, Millis(700));
    account.move_told(SEQUENCE, DueTime::At(Millis(700)), &done(Sequence(61), 700));
    blamed_for(&account, "move of 40 to 61");
}

#[test]
fn a_move_that_comes_again_is_known_until_something_became_of_the_message() {
    let again = |account: &mut Account, due| {
        account.move_asked(SEQUENCE, Millis(500));
        account.move_told(SEQUENCE, due, &Moved::NotFound);
    };
    let mut account = moved();
    account.now = Millis(499);
    again(&mut account, DueTime::At(Millis(900)));
    assert_eq!(account.violations(), Vec::<String>::new(), "another command finds nothing under the old receipt");
    again(&mut account, LATER);
    blamed_for(&account, "asked for once more");
    let over: [fn(&mut Account); 3] = [
        |account| account.now = Millis(500),
        |account| account.move_asked(MOVED, Millis(900)),
        |account| account.cancel_asked(MOVED),
    ];
    for become_of in over {
        let mut account = moved();
        become_of(&mut account);
        again(&mut account, LATER);
        assert_eq!(account.violations(), Vec::<String>::new());
    }
}

#[test]
fn a_receipt_names_nothing_once_its_message_was_moved() {
    let mut account = moved();
    account.cancel_asked(SEQUENCE);
    account.cancel_told(SEQUENCE, true);
    blamed_for(&account, "cancel of 40");
}

#[test]
fn what_was_moved_and_cancelled_does_not_come() {
    let mut account = moved();
    account.cancel_asked(MOVED);
    account.cancel_told(MOVED, true);
    account.judge_the_end(&groups());
    assert_eq!(account.violations(), Vec::<String>::new());
    comes_due(&mut account, 1, 600, false, 500);
    blamed_for(&account, "cancelled");
}

#[test]
fn what_was_moved_is_lost_where_it_does_not_come() {
    let mut account = moved();
    account.judge_the_end(&groups());
    blamed_for(&account, "lost: message 7");
}

#[test]
fn a_move_that_nobody_heard_of_is_no_reason_not_to_come() {
    let mut account = stored();
    account.move_asked(SEQUENCE, Millis(500));
    account.judge_the_end(&groups());
    blamed_for(&account, "lost: message 7");
}

/// One message with an id, which was asked to be stored twice.
fn asked_twice() -> Account {
    let mut account = Account::default();
    for _ in 0..2 {
        account.publish_asked(NUMBER, || Sent::once("orders".to_owned(), BODY.to_vec(), Millis(100)));
    }
    account.published(NUMBER, SEQUENCE, Millis(100));
    account
}

#[test]
fn what_has_an_id_is_answered_with_one_sequence() {
    let mut account = asked_twice();
    account.published(NUMBER, SEQUENCE, Millis(100));
    assert_eq!((account.counts.told_again, account.violations()), (1, [].as_slice()));
    account.published(NUMBER, Sequence(41), Millis(100));
    blamed_for(&account, "answered with sequence 41");
}

#[test]
fn what_has_an_id_does_not_come_under_two_sequences() {
    let mut account = asked_twice();
    account.found_copy(NUMBER, Sequence(41));
    blamed_for(&account, "2 copies of message 7");
}

#[test]
fn what_has_no_id_is_stored_as_often_as_it_was_asked_and_answered() {
    let mut account = stored();
    account.published(NUMBER, SEQUENCE, Millis(100));
    blamed_for(&account, "answered with sequence 40");
}

#[test]
fn of_two_copies_a_group_has_both_where_both_were_answered() {
    let mut account = stored();
    account.publish_asked(NUMBER, || Sent::new("orders".to_owned(), BODY.to_vec(), Millis(100)));
    account.published(NUMBER, Sequence(41), Millis(100));
    comes(&mut account, 1, 200, false);
    account.acknowledge_asked(1, "billing", SEQUENCE);
    account.judge_the_end(&groups());
    blamed_for(&account, "billing had 1 copies of message 7, and 2 to 2 are right");
}
