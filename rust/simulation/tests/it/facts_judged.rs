//! Facts that name things that do not exist, or that their sender does not hold, change nothing, also when the log is
//! read again. A proposal may be outdated when it is applied, so `apply` alone judges.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use crate::rig::{Place, Rig, START, small};
use delaymq_core::error::Error;
use delaymq_core::message_log::Class;
use delaymq_core::record::attach::{Attach, encode_attach};
use delaymq_core::record::command::{Cancel, Move, Void, encode_cancel, encode_move, encode_void};
use delaymq_core::record::encode_record;
use delaymq_core::record::expire::{ExpiredBy, encode_expire};
use delaymq_core::record::message::{Message, encode_message};
use delaymq_core::record::name::{
    GroupEnd, GroupStart, encode_consumer, encode_consumer_end, encode_group, encode_group_end, encode_group_reset,
    encode_subject,
};
use delaymq_core::record::queue::{
    NumberRange, Reserve, encode_acknowledge, encode_assign, encode_pass_over, encode_reserve,
};
use delaymq_core::record::ready::encode_ready;
use delaymq_core::record::retry::{Destination, Redrive, Retry, encode_redrive, encode_retry};
use delaymq_core::store::{InspectedGroup, InspectedSubject, KeepFinished, Outcome, inspect};
use delaymq_core::units::{
    ConsumerNumber, DueKey, GroupNumber, Millis, PullOffset, ReadyNumber, Sequence, SubjectNumber,
};
use delaymq_simulation::disk::End;
use delaymq_simulation::replica::Replica;

/// Writes one record.
type Encode<'a> = &'a dyn Fn(&mut Vec<u8>);

const NOBODY: GroupNumber = GroupNumber(999);
const NO_CONSUMER: ConsumerNumber = ConsumerNumber(999);
const NOWHERE: SubjectNumber = SubjectNumber(999);

/// A group of which a consumer holds four of six ready messages, the first one acknowledged, and a message that
/// waits.
fn filled() -> (Rig, Place, SubjectNumber) {
    let mut rig = Rig::new(small());
    let place = rig.earliest("s", "g");
    for number in 0..6 {
        rig.publish("s", 0, &format!("ready {number}"));
    }
    rig.publish("s", 60_000, "waits");
    rig.in_flight_max = 4;
    let handed = rig.pull(place);
    assert_eq!(handed.len(), 4);
    rig.acknowledge(place, &[handed[0].delivery.offset.0]);
    let subject = rig.node().subject_number("s").unwrap();
    (rig, place, subject)
}

/// All that a fact may change.
fn seen(rig: &mut Rig) -> (Vec<InspectedSubject>, Vec<InspectedGroup>, [u64; 3]) {
    rig.node().witness().unwrap();
    let identity = *rig.node().identity();
    let found = inspect(&rig.disk.copy(), &identity, &[], &KeepFinished::default()).unwrap();
    (found.subjects, found.groups, [found.pending, found.ready, found.voided])
}

/// Submits one fact and returns what became of it.
fn submit(rig: &mut Rig, encode: Encode<'_>) -> Option<Outcome> {
    let mut records = Vec::new();
    encode(&mut records);
    let at = rig.node().submit(&records, 1, Class::Finishing, true).unwrap().unwrap().start;
    rig.settle();
    rig.node().take_outcome(at)
}

/// The fact changes nothing, and neither does reading it again.
fn changes_nothing(rig: &mut Rig, outcome: Option<Outcome>, what: &str, encode: Encode<'_>) {
    let before = seen(rig);
    assert_eq!(submit(rig, encode), outcome, "{what}");
    assert_eq!(seen(rig), before, "{what}");
    rig.compare_with_log();
}

fn retry(place: Place, offset: u64, number: u64, target: SubjectNumber) -> Retry<'static> {
    Retry {
        group: place.0,
        consumer: place.1,
        offset: PullOffset(offset),
        number: ReadyNumber(number),
        due: START.plus(5_000),
        target,
        attempt: 2,
        payload_sequence: Sequence(1),
        size: Some(120),
        destination: Destination::Again,
    }
}

#[test]
fn what_is_done_for_a_group_that_is_not_there_changes_nothing() {
    let (mut rig, place, subject) = filled();
    let ranges = [NumberRange { first: 0, count: 2 }];
    let rig = &mut rig;
    for (group, consumer) in [(NOBODY, place.1), (place.0, NO_CONSUMER)] {
        let reserve = Reserve { group, consumer, offset_end: PullOffset(100), number_end: ReadyNumber(50) };
        changes_nothing(rig, None, "reserve", &|out| encode_reserve(out, reserve));
        changes_nothing(rig, None, "assign", &|out| encode_assign(out, group, consumer, PullOffset(4), &ranges));
        changes_nothing(rig, None, "acknowledge", &|out| encode_acknowledge(out, group, consumer, &ranges));
        changes_nothing(rig, None, "pass over", &|out| {
            encode_pass_over(out, group, consumer, &[NumberRange { first: 4, count: 2 }]);
        });
        changes_nothing(rig, None, "end", &|out| encode_consumer_end(out, group, consumer));
        changes_nothing(rig, None, "retry", &|out| encode_retry(out, &retry((group, consumer), 1, 1, subject)));
    }
    let gone = Some(Outcome::NotFound);
    changes_nothing(rig, gone, "consumer", &|out| encode_consumer(out, NOBODY, "c"));
    changes_nothing(rig, gone, "reset", &|out| encode_group_reset(out, NOBODY, GroupStart::Unfinished));
    for end in [GroupEnd::Alone, GroupEnd::WithItsRetries] {
        changes_nothing(rig, gone, "group end", &|out| encode_group_end(out, NOBODY, end));
    }
    let redrive = |group, number, target| Redrive {
        group,
        number: ReadyNumber(number),
        due: START,
        target,
        payload_sequence: Sequence(1),
    };
    changes_nothing(rig, gone, "redrive", &|out| encode_redrive(out, &redrive(NOBODY, 5, subject)));
    changes_nothing(rig, gone, "redrive to nowhere", &|out| encode_redrive(out, &redrive(place.0, 5, NOWHERE)));
    changes_nothing(rig, gone, "redrive of none", &|out| encode_redrive(out, &redrive(place.0, 77, subject)));
    changes_nothing(rig, gone, "redrive twice", &|out| encode_redrive(out, &redrive(place.0, 0, subject)));
}

#[test]
fn what_is_done_to_a_subject_that_is_not_there_changes_nothing() {
    let (mut rig, _, subject) = filled();
    let rig = &mut rig;
    let gone = Some(Outcome::NotFound);
    changes_nothing(rig, gone, "group", &|out| encode_group(out, NOWHERE, GroupStart::Unfinished, "other"));
    let (start, group, consumer) = (GroupStart::Latest, "other", "c");
    let attach = Attach { subject: NOWHERE, start, block: 8, is_broadcast: false, group, consumer };
    changes_nothing(rig, gone, "attach", &|out| encode_attach(out, &attach));
    let all = [NumberRange { first: 0, count: u64::MAX }];
    let none = Some(Outcome::Expired(0));
    changes_nothing(rig, none, "expire", &|out| {
        encode_expire(out, NOWHERE, ExpiredBy::Operator { due_before: START }, &all);
    });
    let beyond = [NumberRange { first: 6, count: 5 }, NumberRange { first: 0, count: 0 }];
    let by = [
        ExpiredBy::Operator { due_before: Millis(0) },
        ExpiredBy::Themselves { group: GroupNumber(1), received: false },
        ExpiredBy::Themselves { group: GroupNumber(99), received: true },
    ];
    for by in by {
        changes_nothing(rig, none, "expire of none", &|out| encode_expire(out, subject, by, &beyond));
    }
    for (subject, number) in [(NOWHERE, 0), (subject, 6), (subject, 0)] {
        let void = Void::Ready { subject, number: ReadyNumber(number) };
        changes_nothing(rig, None, "void", &|out| encode_void(out, void));
    }
}

#[test]
fn names_that_are_taken_are_not_given_again() {
    let (mut rig, place, subject) = filled();
    let rig = &mut rig;
    let free = SubjectNumber(50);
    changes_nothing(rig, None, "number 0", &|out| encode_subject(out, SubjectNumber(0), "none"));
    changes_nothing(rig, None, "taken number", &|out| encode_subject(out, subject, "another name"));
    changes_nothing(rig, None, "taken name", &|out| encode_subject(out, free, "s"));
    let there = Some(Outcome::GroupThere(place.0));
    changes_nothing(rig, there, "taken group", &|out| encode_group(out, subject, GroupStart::Latest, "g"));
}

#[test]
fn what_a_consumer_does_not_hold_is_not_moved_for_it() {
    let (mut rig, place, subject) = filled();
    let rig = &mut rig;
    // It holds number 1 under offset 1: not another, not under another, and not what it has finished.
    for (offset, number, target) in [(1, 2, subject), (2, 1, subject), (0, 0, subject), (1, 1, NOWHERE)] {
        changes_nothing(rig, None, "retry", &|out| encode_retry(out, &retry(place, offset, number, target)));
    }
    let finished = [NumberRange { first: 0, count: 1 }, NumberRange { first: 90, count: u64::MAX }];
    changes_nothing(rig, None, "acknowledge", &|out| encode_acknowledge(out, place.0, place.1, &finished));
    let again = [NumberRange { first: 4, count: 1 }];
    changes_nothing(rig, None, "assign", &|out| encode_assign(out, place.0, place.1, PullOffset(3), &again));
    let far = u64::MAX;
    for (offset_end, number_end) in [(far, 4), (5, far)] {
        let (offset_end, number_end) = (PullOffset(offset_end), ReadyNumber(number_end));
        let reserve = Reserve { group: place.0, consumer: place.1, offset_end, number_end };
        changes_nothing(rig, None, "reserve", &|out| encode_reserve(out, reserve));
    }
    // More numbers than there are, which the ledger would count one by one.
    let many = [NumberRange { first: 4, count: u64::MAX }, NumberRange { first: 4, count: u64::MAX }];
    let before = seen(rig);
    for numbers in [&many[..], &many[..1]] {
        assert_eq!(submit(rig, &|out| encode_assign(out, place.0, place.1, PullOffset(4), numbers)), None);
        assert_eq!(seen(rig), before);
    }
}

fn move_of(target: DueKey) -> Move {
    Move { target, due: START.plus(90_000), delay_ms: None, subject: SubjectNumber(1), size: 5 }
}

fn cancel_of(target: DueKey) -> Cancel {
    Cancel { target, subject: SubjectNumber(1), size: 5 }
}

#[test]
fn what_is_decided_of_an_entry_is_decided_once() {
    let (mut rig, _, subject) = filled();
    let waits = rig.publish("s", 60_000, "given up");
    let ready = rig.publish("s", 0, "ready at once");
    let rig = &mut rig;
    let unknown = DueKey { due: START, sequence: Sequence(1) };
    changes_nothing(rig, Some(Outcome::NotFound), "cancel", &|out| encode_cancel(out, cancel_of(unknown)));
    let dispatched = Some(Outcome::AlreadyDispatched);
    changes_nothing(rig, dispatched, "cancel", &|out| encode_cancel(out, cancel_of(ready.key)));
    changes_nothing(rig, None, "ready", &|out| {
        encode_ready(out, [(ready.key, subject), (unknown, subject)].into_iter());
    });
    let void = |sequence| Void::Pending { subject, sequence };
    changes_nothing(rig, None, "void", &|out| encode_void(out, void(ready.key.sequence)));
    let moves =
        |rig: &mut Rig, found, moved: Move| changes_nothing(rig, found, "move", &|out| encode_move(out, &moved));
    moves(rig, Some(Outcome::NotFound), move_of(unknown));
    moves(rig, dispatched, move_of(ready.key));
    let not_found = Some(Outcome::NotFound);
    moves(rig, not_found, Move { subject: NOWHERE, ..move_of(waits.key) });
    moves(rig, not_found, Move { due: Millis(u64::MAX), ..move_of(waits.key) });
    let before = seen(rig).2;
    submit(rig, &|out| encode_void(out, void(waits.key.sequence)));
    assert_eq!(seen(rig).2, [before[0] - 1, before[1], before[2] + 1]);
    changes_nothing(rig, None, "void twice", &|out| encode_void(out, void(waits.key.sequence)));
    changes_nothing(rig, None, "ready of what is void", &|out| encode_ready(out, [(waits.key, subject)].into_iter()));
    changes_nothing(rig, Some(Outcome::Done), "cancel", &|out| encode_cancel(out, cancel_of(waits.key)));
    moves(rig, Some(Outcome::NotFound), move_of(waits.key));
    let one = Void::Ready { subject, number: ReadyNumber(5) };
    submit(rig, &|out| encode_void(out, one));
    assert_eq!(seen(rig).2[2], before[2] + 2);
    changes_nothing(rig, None, "void twice", &|out| encode_void(out, one));
}

#[test]
fn a_fact_that_cannot_be_is_refused_with_its_place_and_so_is_the_store() {
    let nowhere = Message {
        due: START,
        published: START,
        subject: NOWHERE,
        opaque: true,
        expiry: None,
        meta: b"",
        body: b"lost",
    };
    let cases: [(&str, Encode<'_>); 3] = [
        ("a subject named before", &|out| encode_message(out, &nowhere)),
        ("a record of a known kind", &|out| encode_record(out, 99, 0, &[1; 8], &[b"of a later release"])),
        ("a record of a known kind", &|out| encode_record(out, 1, 0, &[1; 3], &[])),
    ];
    for (expected, encode) in cases {
        let (mut rig, _, _) = filled();
        let mut records = Vec::new();
        encode(&mut records);
        rig.node().submit(&records, 1, Class::Finishing, true).unwrap().unwrap();
        let place = rig.node().appender().written().location;
        let refused = |result: Result<(), Error>| match result {
            Err(Error::Corrupt { path, offset, expected: words, .. }) => {
                assert_eq!(words, expected);
                assert!(path.starts_with("log/") && offset >= u64::from(place.offset()), "{path} {offset}");
            }
            other => assert_eq!(other, Ok(()), "{expected} was not refused as damage"),
        };
        let result = rig.try_settle();
        assert!(result.is_err());
        refused(result);
        rig.end(End::Kill);
        let result = rig.try_open();
        assert!(result.is_err());
        refused(result);
    }
}

#[test]
fn a_batch_is_applied_once_in_its_place_and_whole() {
    let (mut rig, _, _) = filled();
    rig.node().take_applied();
    rig.publish("s", 0, "one more");
    let copy = rig.disk.copy();
    let identity = *rig.node().identity();
    let end = rig.node().appender().written().location;
    let mut replica = Replica::new(identity).unwrap();
    let batches = replica.catch_up(&copy, end).unwrap();
    let last = batches.last().unwrap();
    let refused =
        |result: Result<(), Error>| matches!(result, Err(Error::Corrupt { path, .. }) if path.starts_with("log/"));
    assert!(refused(replica.apply(last)), "twice");
    let mut early = Replica::new(identity).unwrap();
    assert!(refused(early.apply(last)), "before those that it follows");
    let mut counted = Replica::new(identity).unwrap();
    let mut first = batches[0].clone();
    first.header.count = (first.header.count.get() + 1).into();
    assert!(refused(counted.apply(&first)), "with fewer records than it says");
    let mut chained = Replica::new(identity).unwrap();
    let mut first = batches[0].clone();
    first.header.chain_before = 1.into();
    assert!(refused(chained.apply(&first)), "behind another batch than the one before");
    let mut cut = Replica::new(identity).unwrap();
    let mut first = batches[0].clone();
    first.bytes.pop();
    assert!(refused(cut.apply(&first)), "with a record that is cut off");
}
