//! Subscriptions of many subjects over a real connection.

#![cfg(test)]

use std::collections::BTreeMap;

use crate::support::{Client, Message, eventually, serve, subscribing};
use delaymq_core::wire::extension::consume::{Subscribe, Subscribed};
use delaymq_core::wire::extension::errors::ErrorCode;
use delaymq_core::wire::extension::settle::{GiveBack, GivenBack, PutAway};
use delaymq_core::wire::extension::{GIVE_BACK, PUT_AWAY, SUBSCRIBE, UNSUBSCRIBE};

fn wanted<'a>(number: u32, subjects: &[&'a str], credit: u32) -> Subscribe<'a> {
    Subscribe { subjects: subjects.to_vec(), ..subscribing(number, "", "billing", credit) }
}

fn subscribe(client: &mut Client, number: u32, subjects: &[&str], credit: u32) -> Subscribed {
    Subscribed::read(&client.done(SUBSCRIBE, |out| wanted(number, subjects, credit).put(out))).unwrap()
}

fn by_subject(messages: &[Message]) -> BTreeMap<&str, Vec<&[u8]>> {
    let mut found: BTreeMap<&str, Vec<&[u8]>> = BTreeMap::new();
    for message in messages {
        found.entry(&message.subject).or_default().push(&message.body);
    }
    found
}

#[test]
fn each_delivery_names_its_subject_and_is_settled_there() {
    let served = serve();
    let mut client = served.connect();
    assert!(subscribe(&mut client, 1, &["a", "b", "c"], 100).is_new);
    for subject in ["a", "b", "c"] {
        client.publish(subject, &[b"1", b"2"], 0);
    }
    let messages = client.messages(6);
    assert_eq!(by_subject(&messages), ["a", "b", "c"].map(|name| (name, vec![&b"1"[..], b"2"])).into());
    let key = |subject: &str, place: usize| {
        let one = messages.iter().filter(|one| one.subject == subject).nth(place).unwrap();
        (one.queue, one.offset)
    };
    assert_eq!([key("a", 0).0, key("b", 0).0, key("c", 0).0], [0, 2, 4]);
    let (queue, offset) = key("b", 1);
    let back = GiveBack { subscription: 1, messages: vec![GivenBack { queue, offset, delay_ms: 0 }] };
    client.done(GIVE_BACK, |out| back.put(out));
    let away = PutAway { subscription: 1, reason: "broken", keys: vec![key("c", 0)] };
    client.done(PUT_AWAY, |out| away.put(out));
    let again = client.messages(1);
    assert_eq!((again[0].subject.as_str(), again[0].queue, again[0].attempt), ("b", 3, 2));
    let left: Vec<Message> =
        messages.into_iter().filter(|one| one.subject == "a" || (one.subject == "c" && one.body == b"2")).collect();
    client.acknowledge(&left);
    client.acknowledge(&again);
    client.done(UNSUBSCRIBE, |out| {
        out.extend_from_slice(&1_u32.to_be_bytes());
        Ok(())
    });
    let lags: BTreeMap<String, u64> =
        served.store.groups().unwrap().into_iter().map(|group| (group.subject, group.lag)).collect();
    assert_eq!(lags, [("a", 0), ("b", 1), ("c", 0)].map(|(name, lag)| (name.to_owned(), lag)).into());
    assert_eq!(served.store.dead_letters("c", "billing", 10).unwrap().len(), 1);
}

#[test]
fn a_prefix_brings_subjects_that_are_made_later_without_a_further_request() {
    let served = serve();
    let (mut client, mut other) = (served.connect(), served.connect());
    other.publish("order.made", &[b"1"], 0);
    subscribe(&mut client, 9, &["order.*"], 100);
    assert_eq!(client.messages(1)[0].subject, "order.made");
    for number in 0..20 {
        other.publish(&format!("order.{number}"), &[b"later"], 0);
        other.publish(&format!("refund.{number}"), &[b"later"], 0);
    }
    let messages = client.messages(20);
    assert_eq!(by_subject(&messages).len(), 20);
    assert!(messages.iter().all(|message| message.subject.starts_with("order.") && message.attempt == 1));
}

#[test]
fn what_is_no_list_of_subjects_is_refused_and_the_connection_is_kept() {
    let served = serve();
    let mut client = served.connect();
    let wrong: [&[&str]; 6] = [&[], &["a", "a"], &["a", "b*"], &["a", "b c"], &["%RETRY%a%g"], &["a b*"]];
    for subjects in wrong {
        client.refused(SUBSCRIBE, ErrorCode::InvalidArgument, |out| wanted(1, subjects, 1).put(out));
    }
    // One more than a list may have, which our own writer would refuse.
    client.refused(SUBSCRIBE, ErrorCode::Malformed, |out| {
        out.extend_from_slice(&1_u32.to_be_bytes());
        out.extend_from_slice(&10_001_u32.to_be_bytes());
        (0..10_001).for_each(|_| out.extend_from_slice(&[0, 1, b'a']));
        Ok(())
    });
    assert!(served.store.groups().unwrap().is_empty());
    subscribe(&mut client, 1, &["a", "b"], 10);
    client.publish("b", &[b"1"], 0);
    assert_eq!(client.messages(1)[0].subject, "b");
}

#[test]
fn the_subjects_of_a_connection_take_of_its_memory() {
    let served = serve();
    let mut client = served.connect();
    let names: Vec<String> = (0..10_000).map(|number| format!("s.{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // 6.4 of 16 MB each.
    subscribe(&mut client, 1, &names, 0);
    subscribe(&mut client, 2, &["s.*"], 0);
    client.refused(SUBSCRIBE, ErrorCode::Busy, |out| wanted(3, &names, 0).put(out));
    subscribe(&mut client, 3, &["s.1"], 0);
    client.done(UNSUBSCRIBE, |out| {
        out.extend_from_slice(&1_u32.to_be_bytes());
        Ok(())
    });
    eventually("room again", || client.ask(SUBSCRIBE, |out| wanted(4, &names, 0).put(out)).0 == 0);
}
