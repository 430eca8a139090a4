//! Which node serves, and how that changes.

use delaymq_node::NodeError;

use crate::support::Group;

#[test]
fn a_new_group_serves_and_empty_nodes_join_the_set() {
    let mut group = Group::new(3, 2);
    group.start(0);
    group.serves_with(1);
    assert_eq!(group.status(0)["accepts_publishes"], false, "two copies are demanded");
    group.start(1);
    group.start(2);
    let primary = group.serves_with(3);
    assert_eq!(primary, 0);
    group.wait("accepting publishes", |group| group.status(0)["accepts_publishes"] == true);
    group.wait("equal", |group| {
        let end = &group.status(0)["end"];
        (1..3).all(|place| group.status(place)["durable"] == *end)
    });
    let named = group.status(1)["primary"].clone();
    assert_eq!(named["address"].as_str().unwrap(), group.node(0).address().to_string());
}

#[test]
fn a_node_that_stops_hands_over_and_joins_again() {
    let mut group = Group::new(3, 2);
    group.start_all();
    let first = group.serves_with(3);
    let epoch = group.status(first)["epoch"].as_u64().unwrap();
    group.stop(first);
    let second = group.serves_with(2);
    assert_ne!(first, second);
    assert!(group.status(second)["epoch"].as_u64().unwrap() > epoch);
    group.start(first);
    assert_eq!(group.serves_with(3), second);
}

#[test]
fn a_switchover_goes_to_the_node_that_was_named_and_others_are_refused() {
    let mut group = Group::new(3, 2);
    group.start_all();
    let first = group.serves_with(3);
    let to = (first + 1) % 3;
    let id = group.id(to);
    assert!(matches!(group.node(to).switch_over(id), Err(NodeError::Refused(_))), "it is no primary");
    assert!(matches!(group.node(first).switch_over(group.id(first)), Err(NodeError::Refused(_))));
    group.node(first).switch_over(id).unwrap();
    group.wait("handed over", |group| group.primary() == Some(to));
    assert_eq!(group.serves_with(3), to);
}

#[test]
fn the_only_node_of_a_group_begins_a_new_epoch_at_each_start() {
    let mut group = Group::new(1, 1);
    let mut last = 0;
    for _ in 0..3 {
        group.start(0);
        group.serves_with(1);
        let epoch = group.status(0)["epoch"].as_u64().unwrap();
        assert!(epoch > last);
        last = epoch;
        group.stop(0);
    }
}
