//! Histories of groups that start at a time, or at a message.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

use crate::rig::keyed::tried;
use crate::rig::{Rig, START, sees, small};
use delaymq_core::error::Error;
use delaymq_core::planted::Planted;
use delaymq_core::record::name::GroupStart;
use delaymq_core::store::{Outcome, Receipt, Since, StartAt, StartPlan};
use delaymq_core::units::{Millis, ReadyNumber, SubjectNumber};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::NodeOptions;

struct Sent {
    receipt: Receipt,
    published: Millis,
    due: Millis,
    body: String,
}

/// Finished messages in several segments, and all bodies in the order in which they became ready.
fn filled() -> (Rig, Vec<Sent>, Vec<String>) {
    let mut rig = Rig::new(small());
    let first = rig.earliest("s", "first");
    rig.publish("other", 0, "of another subject");
    let mut published = Vec::new();
    for number in 0..90_u64 {
        let (body, delay_ms) = (format!("{number:->200}"), number * 7 % 40);
        let receipt = rig.publish("s", delay_ms, &body);
        published.push(Sent { receipt, published: receipt_time(&rig), due: receipt.key.due, body });
        rig.pass(2);
        rig.take_all(first);
        if number % 30 == 29 {
            rig.checkpoint();
        }
    }
    for _ in 0..50 {
        rig.pass(2);
        rig.take_all(first);
    }
    rig.reopen(End::PowerCutLosesAll);
    assert!(rig.node().owner().state().segments.len() > 3);
    let everything = started(&mut rig, "everything", StartAt::Earliest);
    assert_eq!(everything.len(), 90);
    (rig, published, everything)
}

fn receipt_time(rig: &Rig) -> Millis {
    rig.clock.read().wall
}

fn started(rig: &mut Rig, group: &str, start: StartAt) -> Vec<String> {
    let fact = tried(rig, |node| node.subscribe("s", group, start).unwrap());
    rig.settle();
    let Some(Outcome::Group(group)) = rig.node().take_outcome(fact) else { panic!("no group") };
    let consumer = rig.consumer(group, "c");
    let mut found = Vec::new();
    // A pull returns nothing where the segment is full.
    for _ in 0..20 {
        found.extend(rig.take_all((group, consumer)));
        rig.node().commit().unwrap();
        rig.node().prepare().unwrap();
    }
    found
}

/// The messages before those of a group, which must be the last ones.
fn left_out<'a>(everything: &'a [String], found: &[String]) -> &'a [String] {
    let short = |bodies: &[String]| bodies.iter().map(|body| body.trim_matches('-').to_owned()).collect::<Vec<_>>();
    assert!(everything.ends_with(found), "{:?} of {:?}", short(found), short(everything));
    &everything[..everything.len() - found.len()]
}

fn of<'a>(published: &'a [Sent], body: &str) -> &'a Sent {
    published.iter().find(|one| one.body == body).unwrap()
}

#[test]
fn a_group_starts_with_the_first_message_that_was_due_since_a_time() {
    let (mut rig, published, everything) = filled();
    for after_ms in (0..220).step_by(11) {
        let since = START.plus(after_ms);
        let found = started(&mut rig, &format!("due {after_ms}"), StartAt::Due(Since::At(since)));
        assert!(left_out(&everything, &found).iter().all(|body| of(&published, body).due < since));
        // A message becomes ready within the two milliseconds that the clock goes on at once.
        assert!(found.first().is_none_or(|body| of(&published, body).due.plus(4) >= since), "{after_ms}");
    }
    let ago = receipt_time(&rig).since(START.plus(55));
    let found = started(&mut rig, "ago", StartAt::Due(Since::Ago(ago)));
    assert!(left_out(&everything, &found).iter().all(|body| of(&published, body).due < START.plus(56)));
    assert_eq!(started(&mut rig, "future", StartAt::Due(Since::At(START.plus(1_000_000)))), [""; 0]);
    assert_eq!(started(&mut rig, "past", StartAt::Due(Since::At(Millis(1)))), everything);
}

#[test]
fn a_group_starts_with_the_first_message_that_was_published_since_a_time() {
    let (mut rig, published, everything) = filled();
    for after_ms in (0..220).step_by(11) {
        let since = START.plus(after_ms);
        let found = started(&mut rig, &format!("published {after_ms}"), StartAt::Published(Since::At(since)));
        assert!(left_out(&everything, &found).iter().all(|body| of(&published, body).published < since));
        assert!(found.first().is_none_or(|body| of(&published, body).published >= since), "{after_ms}");
    }
}

#[test]
fn a_group_starts_with_the_message_of_a_receipt() {
    let (mut rig, published, everything) = filled();
    for number in (0..90).step_by(7) {
        let one = &published[number];
        let found = started(&mut rig, &format!("receipt {number}"), StartAt::Message(one.receipt));
        assert_eq!(found.first(), Some(&one.body));
        left_out(&everything, &found);
    }
    let withdrawn = rig.publish("s", 0, "withdrawn");
    let (subject, now) = (rig.node().subject_number("s").unwrap(), receipt_time(&rig));
    rig.node().expire(subject, now.plus(1)).unwrap().unwrap();
    rig.settle();
    let pending = rig.publish("s", 50, "pending");
    let refused = rig.publish("s", 50, "cancelled");
    rig.cancel(&refused);
    let moved = rig.publish("s", 50, "moved");
    let again = rig.moved(&moved, delaymq_simulation::node::Due::After(60));
    let elsewhere = rig.publish("other", 0, "elsewhere");
    for receipt in [refused, moved, elsewhere, withdrawn] {
        let start = rig.node().subscribe("s", "no group", StartAt::Message(receipt));
        assert!(matches!(start, Err(Error::InvalidArgument { argument: "start", .. })), "{start:?}");
    }
    let forged = Receipt { check: pending.check ^ 1, ..pending };
    let start = rig.node().subscribe("s", "no group", StartAt::Message(forged));
    assert!(matches!(start, Err(Error::InvalidArgument { argument: "receipt", .. })), "{start:?}");
    assert_eq!(started(&mut rig, "pending", StartAt::Message(pending)), [""; 0]);
    rig.pass(100);
    for (group, receipt, expected) in
        [("no longer pending", pending, &["pending", "moved"][..]), ("moved", again, &["moved"])]
    {
        assert_eq!(started(&mut rig, group, StartAt::Message(receipt)), expected);
    }
}

/// The starts of these subjects, and how many pieces of the log were read for them.
fn planned(rig: &mut Rig, subjects: &[SubjectNumber], start: StartAt) -> (Vec<GroupStart>, usize) {
    let now = receipt_time(rig);
    let owner = rig.node().owner();
    let (mut plan, mut pieces) = (owner.plan_starts(subjects, start, now).unwrap(), 0);
    loop {
        plan = match plan {
            StartPlan::Found(starts) => return (subjects.iter().map(|subject| starts.of(*subject)).collect(), pieces),
            StartPlan::Read(search) => owner.go_on_with_start(search.read().unwrap()).unwrap(),
        };
        pieces += 1;
    }
}

#[test]
fn subjects_that_start_together_share_one_reading_and_start_where_each_alone_would() {
    const SUBJECTS: u64 = 12;
    let mut rig = Rig::new(small());
    let names: Vec<String> = (0..SUBJECTS).map(|number| format!("s{number}")).collect();
    let first: Vec<_> = names.iter().map(|name| rig.earliest(name, "first")).collect();
    let take_each = |rig: &mut Rig, places: &[_]| {
        for place in places {
            rig.take_all(*place);
        }
    };
    for round in 0..25_u64 {
        for (number, name) in (0..).zip(&names) {
            // One has no message, some begin late, some end early, and some have gaps.
            let has = number > 0 && round >= number && round < 30 - number && (number % 3 > 0 || round % 8 < 2);
            if has {
                rig.publish(name, (round + number) * 7 % 40, &format!("{round:->80}"));
            }
        }
        rig.pass(9);
        take_each(&mut rig, &first);
        if round % 10 == 9 {
            rig.checkpoint();
        }
    }
    rig.pass(100);
    take_each(&mut rig, &first);
    rig.reopen(End::PowerCutLosesAll);
    assert!(rig.node().owner().state().segments.len() > 3);
    let subjects: Vec<_> = names.iter().map(|name| rig.node().subject_number(name).unwrap()).collect();
    let mut starts_seen = std::collections::BTreeSet::new();
    for after_ms in (0..300).step_by(13) {
        for start in [StartAt::Due, StartAt::Published].map(|kind| kind(Since::At(START.plus(after_ms)))) {
            let (together, pieces) = planned(&mut rig, &subjects, start);
            let alone: Vec<_> = subjects.iter().map(|subject| planned(&mut rig, &[*subject], start)).collect();
            let starts: Vec<_> = alone.iter().map(|(start, _)| start[0]).collect();
            assert_eq!(together, starts, "{start:?}");
            let most = alone.iter().map(|(_, pieces)| *pieces).max().unwrap();
            assert!(pieces <= most + 1, "{start:?}: {pieces} pieces, where one alone has {most}");
            starts_seen.extend(together.iter().map(|start| format!("{start:?}")));
        }
    }
    assert!(starts_seen.len() > 10, "{starts_seen:?}");
}

/// Counted from the end of the segment, or from its beginning.
#[test]
fn a_start_at_a_time_reads_less_than_half_of_a_segment_of_large_batches() {
    const ROUNDS: u64 = 60;
    let mut rig = Rig::new(NodeOptions { segment_bytes: 16 << 20, ..small() });
    rig.group("s", "first", StartAt::Unfinished);
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        times.push(receipt_time(&rig));
        for number in 0..400 {
            rig.submit(if number % 4 == 3 { "other" } else { "s" }, 0, &format!("{round} {number}"));
        }
        rig.settle();
        rig.clock.advance(10);
    }
    let subject = rig.node().subject_number("s").unwrap();
    for (round, time) in (0..).zip(times) {
        let (starts, pieces) = planned(&mut rig, &[subject], StartAt::Due(Since::At(time)));
        assert_eq!(starts, [GroupStart::Number(ReadyNumber(round * 300))], "{round}");
        assert!(pieces <= 4, "{round}: {pieces} pieces of 4,096 messages, and there are 18,000");
    }
    let now = receipt_time(&rig);
    let (future, _) = planned(&mut rig, &[subject], StartAt::Due(Since::At(now)));
    assert_eq!(future, [GroupStart::Number(ReadyNumber(ROUNDS * 300))]);
}

#[test]
fn a_group_begins_with_what_is_unfinished_where_nothing_could_be_found_again() {
    let mut rig = Rig::new(NodeOptions { segment_bytes: 4 << 20, ..small() });
    let first = rig.earliest("s", "first");
    rig.publish("s", 0, "finished");
    rig.take_all(first);
    let start = |rig: &mut Rig| {
        let subject = rig.node().subject_number("s").unwrap();
        planned(rig, &[subject], StartAt::Earliest).0[0]
    };
    assert_eq!(start(&mut rig), GroupStart::Number(ReadyNumber(0)));
    // The segment has too many subjects to say a number of each. Another group may finish what is unfinished now.
    for number in 0..4_096 {
        rig.submit(&format!("other {number}"), 0, "");
    }
    rig.settle();
    rig.publish("s", 0, "unfinished");
    rig.step();
    assert_eq!(start(&mut rig), GroupStart::Unfinished);
    assert_eq!(started(&mut rig, "second", StartAt::Earliest), ["unfinished"]);
}

#[test]
fn a_start_behind_damage_is_too_early_and_never_too_late() {
    let (rig, published, everything) = filled();
    for number in 1..4 {
        let path = format!("log/{number:010}.segment");
        for offset in [4_200, 5_600, 7_000] {
            let mut rig = rig.fork(End::Kill, 1);
            rig.disk.storage().damage(&path, offset, 0xFF);
            if rig.try_open().is_err() {
                continue;
            }
            for after_ms in (0..220).step_by(20) {
                let since = START.plus(after_ms);
                for (group, start) in
                    [("due", StartAt::Due(Since::At(since))), ("published", StartAt::Published(Since::At(since)))]
                {
                    let group = format!("{group} {after_ms}");
                    let all = started(&mut rig, &format!("all {group}"), StartAt::Earliest);
                    let found = started(&mut rig, &group, start);
                    let left_out = all.iter().filter(|body| !found.contains(body)).map(|body| of(&published, body));
                    let time = |one: &Sent| if group.starts_with("due") { one.due } else { one.published };
                    for one in left_out {
                        assert!(time(one) < since, "{group}: {}", one.body);
                    }
                    assert!(all.len() <= everything.len());
                }
            }
        }
    }
}

#[test]
fn a_start_that_skips_the_first_message_is_seen() {
    sees(Planted::StartSkipsOne, a_group_starts_with_the_first_message_that_was_due_since_a_time);
    sees(Planted::StartSkipsOne, a_group_starts_with_the_first_message_that_was_published_since_a_time);
    sees(Planted::StartSkipsOne, a_group_starts_with_the_message_of_a_receipt);
}
