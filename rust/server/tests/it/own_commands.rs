//! delaymq's own commands over a real connection.

#![cfg(test)]

use crate::support::qmq::Qmq;
use crate::support::{Client, eventually, options, serve, serve_with, subscribing};
use delaymq_core::queues::tags::{Filter, TagRule};
use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_core::store::StartAt;
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::administration::{
    Expire, GroupAt, GroupName, Listed, Listing, Redrive, read_number,
};
use delaymq_core::wire::extension::consume::{Credit, Subscribed};
use delaymq_core::wire::extension::dead_letters::{DeadLetters, Letters};
use delaymq_core::wire::extension::errors::{Attribute, ErrorCode, Value};
use delaymq_core::wire::extension::hello::{Hello, Welcome, put_ping};
use delaymq_core::wire::extension::moves::{Moved, put_moves, read_moved};
use delaymq_core::wire::extension::publish::{Cancelled, DueTime, PublishWriter, put_receipts, read_outcomes};
use delaymq_core::wire::extension::settle::{GiveBack, GivenBack, PutAway};
use delaymq_core::wire::extension::status::StatusTold;
use delaymq_core::wire::extension::{
    CANCEL, CREDIT, DEAD_LETTERS, EXPIRE, FLUSH, GIVE_BACK, GROUPS, HELLO, MOVE, PING, PUBLISH, PUT_AWAY, REDRIVE,
    REMOVE_GROUP, RESET_GROUP, START_GROUP, STATUS, SUBJECTS, SUBSCRIBE, UNSUBSCRIBE,
};
use delaymq_core::wire::frame::FLAG_ONE_WAY;
use delaymq_core::wire::qmq::message::{MessageParts, put_message, put_opaque_body};
use delaymq_engine::{Durability, GroupListed, Receipt, SubjectListed};

fn status(client: &mut Client) -> StatusTold {
    StatusTold::read(&client.done(STATUS, |_| Ok(()))).unwrap()
}

#[test]
fn a_hello_is_answered_with_limits_and_a_ping_with_itself() {
    let served = serve();
    let mut client = served.connect();
    let hello = |version_min, version_max| Hello { version_min, version_max, client: "test", token: b"" };
    let welcome = Welcome::read(&client.done(HELLO, |out| hello(1, 7).put(out))).unwrap();
    assert_eq!((welcome.version, welcome.messages_max, welcome.body_bytes_max), (1, 10_000, 4 << 20));
    assert_eq!((welcome.stream, welcome.frame_bytes_max), (served.store.stream(), 8 << 20));
    assert!(welcome.now <= served.store.now());
    client.refused(HELLO, ErrorCode::UnknownVersion, |out| hello(2, 7).put(out));
    assert_eq!(client.done(PING, |out| put_ping(out, b"ping")), b"ping");
    client.send_version(STATUS, 9, 0, |_| Ok(()));
    assert_eq!(client.answer().1, ErrorCode::UnknownVersion.number());
    assert_eq!(client.ask(299, |_| Ok(())).0, 3, "nobody knows it");
}

#[test]
fn what_is_published_becomes_due_is_delivered_and_acknowledged() {
    for durability in [Durability::Disk, Durability::Os] {
        let served = serve_with(options(), durability);
        let (mut producer, mut consumer) = (served.connect(), served.connect());
        assert!(consumer.subscribe(7, "order", "billing", 100).is_new);
        let receipts = producer.publish("order", &[b"later"], 150);
        assert_eq!(producer.publish("order", &[b"1", b"2"], 0).len(), 2);
        let messages = consumer.messages(3);
        let bodies: Vec<_> = messages.iter().map(|message| message.body.as_slice()).collect();
        assert_eq!(bodies, [&b"1"[..], b"2", b"later"]);
        assert!(messages.iter().all(|one| one.attempt == 1 && !one.redelivered && !one.is_qmq && one.queue == 0));
        assert_eq!((messages[2].due, messages[2].subject.as_str()), (receipts[0].key.due.0, "order"));
        assert!(served.store.now() >= receipts[0].key.due, "none is early");
        consumer.acknowledge(&messages);
        let told = status(&mut producer);
        assert_eq!((told.pending, told.ready, told.durability), (0, 0, durability));
        // The group is there, and what it acknowledged does not come again.
        drop(consumer);
        let mut next = served.connect();
        assert!(!next.subscribe(1, "order", "billing", 100).is_new);
        producer.publish("order", &[b"3"], 0);
        assert_eq!(next.messages(1)[0].body, b"3");
    }
}

#[test]
fn what_a_killed_connection_held_comes_again_marked() {
    let served = serve();
    let (mut producer, mut first) = (served.connect(), served.connect());
    first.subscribe(1, "order", "billing", 10);
    producer.publish("order", &[b"1", b"2", b"3"], 0);
    let held = first.messages(3);
    first.acknowledge(&held[1..2]);
    let mut second = served.connect();
    second.subscribe(1, "order", "billing", 10);
    drop(first);
    let again = second.messages(2);
    let seen: Vec<_> = again.iter().map(|message| (message.body.as_slice(), message.redelivered)).collect();
    assert_eq!(seen, [(&b"1"[..], true), (b"3", true)]);
    second.acknowledge(&again);
    assert_eq!(status(&mut producer).ready, 0);
}

#[test]
fn a_subscription_is_sent_no_more_than_it_has_credit_for() {
    let served = serve();
    let (mut producer, mut consumer) = (served.connect(), served.connect());
    consumer.subscribe(1, "order", "billing", 3);
    producer.publish("order", &[&b"x"[..]; 10], 0);
    assert_eq!(consumer.messages(3).len(), 3);
    // The answer to a later request would come behind a message that was sent too much.
    consumer.flush(1);
    consumer.credit(1, 2);
    assert_eq!(consumer.messages(2).len(), 2);
    consumer.flush(1);
    assert_eq!(consumer.unseen(), 0);
}

#[test]
fn a_credit_that_wants_an_answer_has_it_behind_what_is_ready() {
    let served = serve();
    let (mut producer, mut consumer) = (served.connect(), served.connect());
    let credit = |credit| {
        move |out: &mut Vec<u8>| {
            Credit { subscription: 7, credit }.put(out);
            Ok(())
        }
    };
    consumer.subscribe(7, "order", "billing", 0);
    for round in 0..50 {
        producer.publish("order", &[b"1", b"2", b"3"], 0);
        consumer.done(CREDIT, credit(2));
        assert_eq!(consumer.unseen(), 2, "{round}");
        let held = consumer.messages(2);
        consumer.done(CREDIT, credit(0));
        assert_eq!(consumer.unseen(), 0, "no more than there is credit for");
        consumer.done(CREDIT, credit(1));
        assert_eq!(consumer.unseen(), 1, "{round}");
        let last = consumer.messages(1);
        consumer.acknowledge(&held);
        consumer.acknowledge(&last);
    }
    consumer.refused(CREDIT, ErrorCode::UnknownSubscription, |out| {
        Credit { subscription: 8, credit: 1 }.put(out);
        Ok(())
    });
}

#[test]
fn two_subscriptions_of_one_connection_do_not_wait_for_each_other() {
    let served = serve();
    let mut client = served.connect();
    client.subscribe(1, "a", "g", 0);
    client.subscribe(2, "b", "g", 10);
    client.publish("a", &[b"a"], 0);
    client.publish("b", &[b"b"], 0);
    assert_eq!(client.messages(1)[0].subscription, 2);
    client.credit(1, 1);
    assert_eq!(client.messages(1)[0].subscription, 1);
    let number = |number: u32| {
        move |out: &mut Vec<u8>| {
            out.extend_from_slice(&number.to_be_bytes());
            Ok(())
        }
    };
    client.done(UNSUBSCRIBE, number(1));
    client.refused(UNSUBSCRIBE, ErrorCode::UnknownSubscription, number(1));
    client.refused(FLUSH, ErrorCode::UnknownSubscription, number(3));
    client.refused(SUBSCRIBE, ErrorCode::UnknownSubscription, |out| subscribing(2, "c", "g", 1).put(out));
    // What it held went back to the group when its end was answered.
    client.subscribe(1, "a", "g", 10);
    assert!(client.messages(1)[0].redelivered);
}

#[test]
fn filters_pass_over_what_a_group_does_not_want() {
    let served = serve();
    let mut client = served.connect();
    let filter = Filter::Tags { rule: TagRule::Any, tags: vec!["red".to_owned()] };
    let mut subscribe = subscribing(1, "order", "billing", 2);
    subscribe.filters.push(filter);
    Subscribed::read(&client.done(SUBSCRIBE, |out| subscribe.put(out))).unwrap();
    let mut writer = PublishWriter::default();
    for (tag, body) in [("blue", b"1"), ("red", b"2"), ("green", b"3"), ("red", b"4")] {
        let meta = Meta { tags: vec![tag.to_owned()], ..Meta::default() };
        writer.push("order", DueTime::After(0), &encode_meta(&meta).unwrap(), body).unwrap();
    }
    assert_eq!(client.done(PUBLISH, |out| writer.put(out, false)), [0; 4], "no receipts");
    let messages = client.messages(2);
    assert_eq!([&messages[0].body, &messages[1].body], [b"2", b"4"]);
    client.acknowledge(&messages);
    assert_eq!(status(&mut client).ready, 0, "the others count as done");
}

#[test]
fn filters_see_the_environment_of_a_qmq_message_with_an_opaque_body() {
    let served = serve();
    let mut client = served.connect();
    let mut subscribe = subscribing(1, "order", "billing", 2);
    subscribe.filters.push(Filter::SubEnvironment { environment: "beta".to_owned(), part: "one".to_owned() });
    Subscribed::read(&client.done(SUBSCRIBE, |out| subscribe.put(out))).unwrap();
    let labelled = |environment: &str| {
        let mut body = Vec::new();
        let labels: [(&str, &[u8]); 2] = [("qmq_env", environment.as_bytes()), ("qmq_subEnv", b"one")];
        put_opaque_body(&mut body, &labels, &[0xff]).unwrap();
        let parts = MessageParts {
            created: Millis(1_700_000_000_000),
            due: None,
            subject: "order",
            message_id: environment,
            tags: &[],
            is_opaque: true,
            body: &body,
        };
        let mut out = Vec::new();
        put_message(&mut out, &parts).unwrap();
        out
    };
    Qmq::to(served.server.address()).store(&[labelled("alpha"), labelled("beta")]);
    let messages = client.messages(1);
    assert_eq!((messages[0].is_qmq, messages[0].offset), (true, 1), "the first one is of another environment");
    client.acknowledge(&messages);
    assert_eq!(status(&mut client).ready, 0, "the other one counts as done");
}

#[test]
fn a_cancelled_message_is_not_delivered() {
    let served = serve();
    let mut client = served.connect();
    let receipts = client.publish("order", &[b"1", b"2"], 60_000);
    let ready = client.publish("order", &[b"3"], 0);
    eventually("the third", || served.store.status().unwrap().ready == 1);
    let asked = [receipts[0], ready[0], receipts[0]];
    let body = client.done(CANCEL, |out| put_receipts(out, asked.into_iter()));
    let outcomes = read_outcomes(&body).unwrap();
    assert_eq!(outcomes, [Cancelled::Done, Cancelled::AlreadyDispatched, Cancelled::Done]);
    assert_eq!(status(&mut client).pending, 1);
}

#[test]
fn a_moved_message_has_another_receipt_and_the_same_move_the_same_answer() {
    let served = serve();
    let mut client = served.connect();
    let receipts = client.publish("order", &[b"1", b"2"], 60_000);
    let ready = client.publish("order", &[b"3"], 0);
    eventually("the third", || served.store.status().unwrap().ready == 1);
    let hour = DueTime::After(3_600_000);
    let asked = [(receipts[0], hour), (ready[0], hour), (receipts[0], hour), (receipts[0], DueTime::After(1))];
    let moved = |client: &mut Client, asked: &[(Receipt, DueTime)]| {
        read_moved(&client.done(MOVE, |out| put_moves(out, asked))).unwrap()
    };
    let found = moved(&mut client, &asked);
    let Moved::Done(receipt) = found[0] else { panic!("{found:?}") };
    assert_eq!(found[1..], [Moved::AlreadyDispatched, Moved::Done(receipt), Moved::NotFound]);
    assert!(receipt.key.due > receipts[0].key.due && receipt.size == receipts[0].size);
    assert_eq!(moved(&mut served.connect(), &asked[..1]), [Moved::Done(receipt)], "asked again on another connection");
    let far = [(receipt, hour), (receipts[1], DueTime::After(u64::MAX))];
    let refused = client.refused(MOVE, ErrorCode::InvalidArgument, |out| put_moves(out, &far));
    assert_eq!(refused.detail(Attribute::Index), Some(&Value::from(1_u64)));
    assert_eq!(status(&mut client).pending, 2);
    assert_eq!(moved(&mut client, &[(receipt, DueTime::After(0))]).len(), 1);
    eventually("the first", || served.store.status().unwrap().ready == 2);
}

#[test]
fn messages_come_again_or_are_put_away_and_brought_back() {
    let served = serve();
    let mut client = served.connect();
    client.subscribe(1, "order", "billing", 10);
    client.publish("order", &[b"again", b"away"], 0);
    let messages = client.messages(2);
    let given = GivenBack { queue: 0, offset: messages[0].offset, delay_ms: 20 };
    let give_back = GiveBack { subscription: 1, messages: vec![given] };
    client.done(GIVE_BACK, |out| give_back.put(out));
    let put_away = PutAway { subscription: 1, reason: "no such customer", keys: vec![(0, messages[1].offset)] };
    client.send(PUT_AWAY, FLAG_ONE_WAY, |out| put_away.put(out));
    client.flush(1);
    let again = client.messages(1);
    assert_eq!((again[0].body.as_slice(), again[0].attempt, again[0].queue), (&b"again"[..], 2, 1));
    let too_far = GivenBack { delay_ms: u64::MAX, ..given };
    let refused = GiveBack { subscription: 1, messages: vec![too_far] };
    let error = client.refused(GIVE_BACK, ErrorCode::InvalidArgument, |out| refused.put(out));
    assert_eq!(error.detail(Attribute::Argument), Some(&Value::from("delay")));

    let name = GroupName { subject: "order", group: "billing" };
    let asked = DeadLetters { name, listing: Listing { after: 0, count_max: 10 } };
    let body = client.done(DEAD_LETTERS, |out| asked.put(out));
    let letters = Letters::read(&body).unwrap();
    assert_eq!((letters.next, letters.letters.len()), (0, 1));
    assert_eq!(
        (letters.letters[0].reason, letters.letters[0].payload.unwrap().bytes),
        ("no such customer", &b"away"[..])
    );
    let redrive = Redrive { name, count_max: u64::MAX };
    assert_eq!(read_number(&client.done(REDRIVE, |out| redrive.put(out))), Ok(1));
    assert_eq!(client.messages(1)[0].body, b"away");
}

#[test]
fn groups_and_subjects_are_listed_and_changed() {
    let served = serve();
    let mut client = served.connect();
    for (subject, group) in [("a", "one"), ("a", "two"), ("b", "one")] {
        let at = GroupAt { name: GroupName { subject, group }, start: StartAt::Latest };
        client.done(START_GROUP, |out| at.put(out));
        client.refused(START_GROUP, ErrorCode::InvalidArgument, |out| at.put(out));
    }
    let mut names = Vec::new();
    let mut after = 0;
    loop {
        let body = client.done(GROUPS, |out| {
            Listing { after, count_max: 2 }.put(out);
            Ok(())
        });
        let listed = Listed::<GroupListed>::read(&body).unwrap();
        names.extend(listed.rows.iter().map(|group| format!("{}/{}", group.subject, group.name)));
        after = listed.next;
        if after == 0 {
            break;
        }
    }
    assert_eq!(names, ["a/one", "a/two", "b/one"]);
    client.publish("a", &[b"1", b"2"], 0);
    eventually("both", || served.store.status().unwrap().ready == 2);
    let at = GroupAt { name: GroupName { subject: "a", group: "two" }, start: StartAt::Latest };
    client.done(RESET_GROUP, |out| at.put(out));
    client.done(REMOVE_GROUP, |out| at.name.put(out));
    client.refused(REMOVE_GROUP, ErrorCode::InvalidArgument, |out| at.name.put(out));
    let body = client.done(SUBJECTS, |out| {
        Listing { after: 0, count_max: 10 }.put(out);
        Ok(())
    });
    let subjects = Listed::<SubjectListed>::read(&body).unwrap();
    assert_eq!((subjects.rows[0].name.as_str(), subjects.rows[0].groups.as_slice()), ("a", &["one".to_owned()][..]));
    let expire = Expire { subject: "a", older_than_ms: 0 };
    let mut expired = 0;
    eventually("their millisecond to pass", || {
        expired += read_number(&client.done(EXPIRE, |out| expire.put(out))).unwrap();
        expired == 2
    });
}

#[test]
fn what_is_refused_says_why_and_stores_nothing() {
    let served = serve();
    let mut client = served.connect();
    let mut writer = PublishWriter::default();
    writer.push("order", DueTime::After(0), &[], b"good").unwrap();
    writer.push("order", DueTime::After(u64::MAX), &[], b"bad").unwrap();
    let error = client.refused(PUBLISH, ErrorCode::InvalidArgument, |out| writer.put(out, true));
    assert_eq!(error.detail(Attribute::Index), Some(&Value::from(1_u64)));
    assert_eq!(error.detail(Attribute::Argument), Some(&Value::from("due")));
    // A bit that the network turned: the last byte of the body of the first message.
    writer.clear();
    writer.push("order", DueTime::After(0), &[], b"good").unwrap();
    let error = client.refused(PUBLISH, ErrorCode::InvalidArgument, |out| {
        writer.put(out, true)?;
        *out.last_mut().unwrap() ^= 1;
        Ok(())
    });
    assert_eq!(error.detail(Attribute::Argument), Some(&Value::from("check")));
    client.refused(PUBLISH, ErrorCode::Malformed, |out| {
        out.push(7);
        Ok(())
    });
    client.refused(SUBSCRIBE, ErrorCode::InvalidArgument, |out| subscribing(1, "a/b", "g", 1).put(out));
    let mut broadcast = subscribing(1, "a", "g", 1);
    broadcast.is_broadcast = true;
    client.refused(SUBSCRIBE, ErrorCode::InvalidArgument, |out| broadcast.put(out));
    // The number is free again, and the connection goes on.
    assert_eq!(status(&mut client).ready, 0);
    client.subscribe(1, "order", "g", 1);
    served.store.close().unwrap();
    client.refused(PUBLISH, ErrorCode::Closed, |out| writer.put(out, true));
}
