//! The answers to registering clients, and the switched-off consumers.

use super::*;

const MINUTE: u64 = 60_000;

fn registry() -> Registry {
    let options = RegistryOptions::new("127.0.0.1:20801").unwrap();
    Registry::new(options, BTreeSet::new(), Millis(1_000))
}

fn consumer<'a>(subject: &'a str, group: &'a str, client_id: &'a str) -> RegisterRequest<'a> {
    RegisterRequest {
        subject,
        client_type: ClientType::Consumer,
        app_code: "app",
        client_id,
        group,
        is_new: true,
        room: "",
    }
}

#[test]
fn every_type_is_sent_to_this_server() {
    let mut registry = registry();
    for client_type in [ClientType::Producer, ClientType::Consumer, ClientType::Other, ClientType::DelayProducer] {
        // The real delay server sends neither client id nor application.
        let request = RegisterRequest { client_type, client_id: "", app_code: "", ..consumer("s", "", "") };
        let answer = registry.register(&request, Millis(2_000));
        assert_eq!((answer.client_type, answer.is_online, answer.timestamp_ms), (client_type, true, 2_000));
        let told: Vec<_> = answer.groups.iter().map(|group| (group.address.as_str(), group.access)).collect();
        assert_eq!(told, [("127.0.0.1:20801", Access::ReadWrite)]);
        assert_eq!(registry.count(client_type), 1);
    }
    let retry = registry.register(&consumer("%RETRY%s%g", "g", "c"), Millis(2_000));
    assert_eq!((retry.subject.as_str(), retry.groups.len()), ("%RETRY%s%g", 1));
}

#[test]
fn bad_names_are_refused_as_the_metaserver_does() {
    let mut registry = registry();
    for request in
        [consumer("", "g", "c"), consumer("a/b", "g", "c"), consumer("s", "a%b", "c"), consumer("s", "g", "a b")]
    {
        let answer = registry.register(&request, Millis(2_000));
        assert_eq!((answer.timestamp_ms, answer.is_online), (REFUSED_TIMESTAMP, false));
        assert_eq!((answer.groups.len(), answer.subject.as_str()), (0, request.subject));
    }
    assert!(registry.is_empty());
}

#[test]
fn the_time_that_clients_are_told_never_goes_back() {
    let mut registry = registry();
    let mut told = Vec::new();
    for now in [5_000, 4_000, 0, 6_000] {
        told.push(registry.register(&consumer("s", "g", "c"), Millis(now)).timestamp_ms);
    }
    assert_eq!(told, [5_000, 5_000, 5_000, 6_000]);
}

#[test]
fn who_is_silent_for_too_long_is_forgotten() {
    let mut registry = registry();
    registry.register(&consumer("s", "g", "old"), Millis(0));
    registry.register(&consumer("s", "g", "new"), Millis(0));
    registry.register(&consumer("s", "g", "new"), Millis(2 * MINUTE));
    assert_eq!(registry.expire(Millis(3 * MINUTE - 1)), 0);
    assert_eq!(registry.expire(Millis(3 * MINUTE)), 1);
    let consumers = registry.consumers("s");
    assert_eq!(consumers, [Registered { group: "g", client_id: "new", app_code: "app", room: "" }]);
    assert!(registry.consumers("other").is_empty());
}

#[test]
fn no_more_clients_are_kept_than_may_be_and_all_are_answered() {
    let options = RegistryOptions { clients_max: 2, ..RegistryOptions::new("h:1").unwrap() };
    let mut registry = Registry::new(options, BTreeSet::new(), Millis(0));
    for client_id in ["a", "b", "c", "a"] {
        assert_eq!(registry.register(&consumer("s", "g", client_id), Millis(0)).groups.len(), 1);
    }
    assert_eq!((registry.len(), registry.unrecorded()), (2, 1));
}

#[test]
fn a_consumer_is_off_by_itself_with_its_group_or_with_its_client() {
    let mut registry = registry();
    let online =
        |registry: &mut Registry, subject: &str| registry.register(&consumer(subject, "g", "c"), Millis(0)).is_online;
    for (client_id, subject, group) in [("c", "s", "g"), ("*", "s", "g"), ("c", "*", "*")] {
        assert!(online(&mut registry, "s"));
        assert!(registry.switch(client_id, subject, group, false).unwrap());
        assert!(!registry.switch(client_id, subject, group, false).unwrap());
        assert!(!online(&mut registry, "s") && !online(&mut registry, "%RETRY%s%g"));
        assert_eq!(registry.is_switched_off("c", "other", "g"), subject == EVERYBODY);
        assert_eq!(registry.is_switched_off("other", "s", "g"), client_id == EVERYBODY);
        let kept = registry.switched_off().clone();
        let again = Registry::new(RegistryOptions::new("h:1").unwrap(), kept, Millis(0));
        assert!(again.is_switched_off("c", "s", "g"));
        // It may not pull from its group's own retry subject either.
        assert!(again.may_not_pull("c", "s", "g") && again.may_not_pull("c", "%RETRY%s%g", "g"));
        assert_eq!(again.may_not_pull("c", "%RETRY%other%g", "g"), subject == EVERYBODY);
        assert!(registry.switch(client_id, subject, group, true).unwrap());
    }
    for (client_id, subject, group) in
        [("*", "*", "*"), ("c", "*", "g"), ("c", "s", "*"), ("", "s", "g"), ("c", "a/b", "g")]
    {
        assert!(registry.switch(client_id, subject, group, false).is_err(), "{client_id} {subject} {group}");
    }
}

#[test]
fn an_address_that_clients_could_not_split_is_refused() {
    for address in ["", "host", "host:", ":1", "host:0", "host:65536", "::1:20801", "[::1]:1", "a b:1", "a/b:1"] {
        assert!(RegistryOptions::new(address).is_err(), "{address}");
    }
    assert_eq!(RegistryOptions::new("queue.example-1.org:20801").unwrap().address, "queue.example-1.org:20801");
}
