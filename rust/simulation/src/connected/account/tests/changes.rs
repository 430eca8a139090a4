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
    account.move_asked(SEQUENCE, LATER, Millis(500));
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
fn what_may_have_been_moved_comes_at_either_time_and_at_no_other() {
    for (due, is_fine) in [(100, true), (500, true), (501, false), (499, false), (99, false)] {
        let mut account = stored();
        account.move_asked(SEQUENCE, LATER, Millis(500));
        comes_due(&mut account, 1, 600, false, due);
        assert_eq!(account.violations().is_empty(), is_fine, "due at {due}: {:?}", account.violations());
    }
}

#[test]
fn what_has_come_was_not_moved_to_another_time() {
    let delayed = DueTime::After(400);
    for (due, is_fine) in [(500, true), (520, false)] {
        let mut account = stored();
        account.now = Millis(130);
        account.move_asked(SEQUENCE, delayed, Millis(500));
        comes_due(&mut account, 1, 600, false, 500);
        // The answer was on its way longer than the message.
        account.move_told(SEQUENCE, delayed, &done(MOVED, due));
        assert_eq!(account.violations().is_empty(), is_fine, "moved to {due}: {:?}", account.violations());
    }
}

#[test]
fn a_move_has_its_message_come_when_it_was_asked_to() {
    for (asked, due, is_fine) in [
        (LATER, 499, false),
        (LATER, 500, true),
        (LATER, 501, false),
        // Asked for at 100, when a clock may have been behind, and told at 130.
        (DueTime::After(400), 499, false),
        (DueTime::After(400), 500, true),
        (DueTime::After(400), 530, true),
        (DueTime::After(400), 531, false),
    ] {
        let mut account = stored();
        account.now = Millis(130);
        account.move_asked(SEQUENCE, asked, Millis(500));
        account.move_told(SEQUENCE, asked, &done(MOVED, due));
        assert_eq!(account.violations().is_empty(), is_fine, "{asked:?} gave {due}: {:?}", account.violations());
    }
}

#[test]
fn one_receipt_is_moved_to_one_other_by_one_command() {
    let mut account = moved();
    account.move_asked(SEQUENCE, LATER, Millis(500));
    account.move_told(SEQUENCE, LATER, &done(MOVED, 500));
    assert_eq!(account.violations(), Vec::<String>::new(), "the same command is answered as the first time");
    let other = DueTime::At(Millis(700));
    for (to, due) in [(Sequence(61), 700), (MOVED, 700), (MOVED, 500)] {
        let mut account = moved();
        account.move_asked(SEQUENCE, other, Millis(700));
        account.move_told(SEQUENCE, other, &done(to, due));
        blamed_for(&account, "move of 40 to At(Millis(700))");
    }
}

#[test]
fn a_move_that_comes_again_is_known_whatever_became_of_the_message() {
    let again = |account: &mut Account, due| {
        account.move_asked(SEQUENCE, due, Millis(500));
        account.move_told(SEQUENCE, due, &Moved::NotFound);
    };
    let mut account = moved();
    again(&mut account, DueTime::At(Millis(900)));
    assert_eq!(account.violations(), Vec::<String>::new(), "another command finds nothing under the old receipt");
    let since: [fn(&mut Account); 4] = [
        |_| {},
        |account| account.now = Millis(500),
        |account| account.move_asked(MOVED, DueTime::At(Millis(900)), Millis(900)),
        |account| account.cancel_asked(MOVED),
    ];
    for become_of in since {
        let mut account = moved();
        become_of(&mut account);
        again(&mut account, LATER);
        blamed_for(&account, "done before: true");
    }
}

#[test]
fn what_waits_and_was_asked_for_nothing_else_is_moved() {
    let refused = |account: &mut Account| account.move_told(SEQUENCE, LATER, &Moved::NotFound);
    let mut account = stored();
    account.now = Millis(99);
    account.move_asked(SEQUENCE, LATER, Millis(500));
    refused(&mut account);
    blamed_for(&account, "done before: false");
    let reasons: [fn(&mut Account); 3] = [
        |account| account.now = Millis(100),
        |account| account.move_asked(SEQUENCE, DueTime::At(Millis(900)), Millis(900)),
        |account| account.cancel_asked(SEQUENCE),
    ];
    for reason in reasons {
        let mut account = stored();
        account.move_asked(SEQUENCE, LATER, Millis(500));
        reason(&mut account);
        refused(&mut account);
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
    account.judge_the_end(&groups(), Millis(1_000));
    assert_eq!(account.violations(), Vec::<String>::new());
    comes_due(&mut account, 1, 600, false, 500);
    blamed_for(&account, "cancelled");
}

#[test]
fn what_was_moved_is_lost_where_it_does_not_come() {
    let mut account = moved();
    account.judge_the_end(&groups(), Millis(1_000));
    blamed_for(&account, "lost: message 7");
}

#[test]
fn a_move_that_nobody_heard_of_is_no_reason_not_to_come() {
    let mut account = stored();
    account.move_asked(SEQUENCE, LATER, Millis(500));
    account.judge_the_end(&groups(), Millis(1_000));
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
    blamed_for(&account, "2 copies of message 7");
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
fn what_one_group_had_another_has_too_though_its_answer_was_lost() {
    let mut account = Account::default();
    account.publish_asked(NUMBER, || Sent::new("orders".to_owned(), BODY.to_vec(), Millis(100)));
    account.publish_lost([NUMBER].into_iter());
    comes(&mut account, 1, 200, false);
    account.acknowledge_asked(1, "billing", SEQUENCE);
    account.judge_the_end(&groups(), Millis(1_000));
    assert_eq!(account.violations(), Vec::<String>::new());
    account.judge_the_end(&[("orders".to_owned(), "shipping".to_owned())], Millis(1_000));
    blamed_for(&account, "lost: message 7");
}

#[test]
fn a_cancel_of_a_receipt_that_was_moved_is_no_reason_not_to_come() {
    let mut account = moved();
    account.cancel_asked(SEQUENCE);
    account.cancel_lost(SEQUENCE);
    account.judge_the_end(&groups(), Millis(1_000));
    blamed_for(&account, "lost: message 7");
}
