//! Which node serves, and how that changes.

use delaymq_core::error::Error;
use delaymq_core::replication::NodeId;
use delaymq_node::{NodeError, continue_group};

use crate::support::{Group, refusal};

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

fn must_refuse(outcome: Result<(), NodeError>, words: &str) {
    match outcome {
        Err(NodeError::Refused(reason)) => assert!(reason.contains(words), "{reason}"),
        other => panic!("{other:?} where {words:?} was expected"),
    }
}

#[test]
fn a_removed_node_is_forgotten_by_all_and_joins_again_when_it_is_back() {
    let mut group = Group::new(3, 2);
    group.start_all();
    let primary = group.serves_with(3);
    let (gone, other) = ((primary + 1) % 3, (primary + 2) % 3);
    let id = group.id(gone);
    let remove = |place: usize, id, group: &Group| group.node(place).remove(id, false);
    must_refuse(remove(primary, id, &group), "stop it first");
    must_refuse(remove(primary, group.id(primary), &group), "hand over");
    must_refuse(remove(primary, NodeId([9; 16]), &group), "has no node");
    let address = group.node(primary).address().to_string();
    let names_primary = |refused| matches!(refused, Err(NodeError::Refused(reason)) if reason.contains(&address));
    group.wait("refused by the replica", |group| names_primary(remove(other, id, group)));
    group.stop(gone);
    group.wait("noticed", |group| group.node(primary).remove(id, false).is_ok());
    let names = |group: &Group, place: usize| group.status(place).to_string().contains(&id.to_string());
    group.wait("forgotten", |group| !names(group, primary) && !names(group, other));
    assert_eq!(group.serves_with(2), primary);
    group.start(gone);
    group.serves_with(3);
}

#[test]
fn the_last_other_holder_of_answered_messages_is_removed_only_if_the_loss_is_accepted() {
    let mut group = Group::new(2, 2);
    group.start_all();
    let primary = group.serves_with(2);
    let id = group.id(1 - primary);
    group.stop(1 - primary);
    group.serves_with(1);
    group.wait("noticed", |group| !group.status(primary)["nodes"][0]["is_connected"].as_bool().unwrap());
    must_refuse(group.node(primary).remove(id, false), "accept the loss");
    group.node(primary).remove(id, true).unwrap();
    group.wait("removed", |group| group.status(primary)["register"]["complete"].as_array().unwrap().len() == 1);
}

#[test]
fn a_complete_node_leads_after_the_set_is_lost_and_an_operator_asks_it_to() {
    let mut group = Group::new(2, 2);
    group.start_all();
    let lost = group.serves_with(2);
    let left = 1 - lost;
    must_refuse(group.node(lost).promote(group.id(lost)), "leads the group already");
    must_refuse(group.node(lost).promote(group.id(left)), "itself");
    group.stop(left);
    group.wait("alone", |group| {
        let register = &group.status(lost)["register"];
        register["sync"].as_array().unwrap().len() == 1 && register["state"] == "serving"
    });
    let former = group.id(lost);
    group.stop(lost);
    std::fs::remove_dir_all(group.path(lost)).unwrap();
    group.start(left);
    group.wait("read", |group| group.status(left)["register"]["primary"] == former.to_string());
    group.node(left).promote(group.id(left)).unwrap();
    assert_eq!(group.serves_with(1), left);
    group.start(lost);
    assert_eq!(group.serves_with(2), left);
    assert_ne!(group.id(lost), former);
}

#[test]
fn a_group_goes_on_from_a_copy_that_lacks_messages_only_as_another_timeline() {
    let mut group = Group::new(2, 1);
    group.start_all();
    let primary = group.serves_with(2);
    let left = 1 - primary;
    let id = group.id(left);
    let go_on = |group: &Group, id| continue_group(&group.path(left), &group.register(), id);
    assert!(matches!(go_on(&group, id), Err(NodeError::Store(Error::Locked { .. }))));
    group.stop(left);
    group.serves_with(1);
    assert!(matches!(go_on(&group, NodeId([9; 16])), Err(NodeError::Refused(_))), "another node");
    group.stop(primary);
    group.start(left);
    group.wait("read", |group| !group.status(left)["register"].is_null());
    must_refuse(group.node(left).promote(id), "lacks messages");
    group.stop(left);
    group.start(primary);
    group.serves_with(1);
    let continued = go_on(&group, id).unwrap();
    assert_eq!(continued.timeline, 1);
    assert!(matches!(group.ends(primary), NodeError::Superseded { timeline: 1, .. }), "it leads no more");
    assert!(matches!(refusal(group.options(primary)), NodeError::Superseded { timeline: 1, .. }));
    match go_on(&group, id) {
        Err(NodeError::Refused(reason)) => assert!(reason.contains("without a loss"), "{reason}"),
        other => panic!("{other:?}, although it lacks nothing now"),
    }
    group.start(left);
    assert_eq!(group.serves_with(1), left);
    std::fs::remove_dir_all(group.path(primary)).unwrap();
    group.start(primary);
    assert_eq!(group.serves_with(2), left);
    group.stop(left);
    assert_eq!(group.serves_with(1), primary, "a copy of the later timeline leads as any");
}

#[test]
fn a_promotion_with_a_loss_that_was_interrupted_is_finished() {
    let mut group = Group::new(2, 1);
    group.start_all();
    let primary = group.serves_with(2);
    let left = 1 - primary;
    let id = group.id(left);
    group.stop(left);
    group.serves_with(1);
    group.stop(primary);
    let storage = delaymq_engine::FileStorage::open(&group.path(left), false).unwrap();
    let before = delaymq_core::message_log::Identity::read(&storage).unwrap().unwrap();
    let continued = continue_group(&group.path(left), &group.register(), id).unwrap();
    // The call ended when the register was written.
    before.write(&storage).unwrap();
    match refusal(group.options(left)) {
        NodeError::Refused(reason) => assert!(reason.contains("was interrupted"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(continue_group(&group.path(left), &group.register(), id).unwrap(), continued);
    group.start(left);
    assert_eq!(group.serves_with(1), left);
}

#[test]
fn a_node_that_names_one_other_is_found_by_all_and_one_that_names_none_is_added() {
    let mut group = Group::new(4, 2);
    for place in 0..2 {
        let mut options = group.options(place);
        options.cluster.peers.truncate(1);
        options.cluster.peers[0].address = group.address(1 - place);
        group.start_with(place, options);
    }
    assert_eq!(group.serves_with(2), 0);
    // The replica tells it where the primary is.
    let mut options = group.options(2);
    options.cluster.peers.retain(|peer| peer.address == group.address(1));
    group.start_with(2, options);
    group.serves_with(3);
    let mut options = group.options(3);
    options.cluster.peers.clear();
    group.start_with(3, options);
    must_refuse(group.node(1).add("nowhere"), "is no host:port");
    must_refuse(group.node(1).add("192.0.2.1:1"), "192.0.2.1");
    group.node(1).add(&group.address(1)).unwrap();
    let link = |group: &Group, address: &str| {
        let links = group.status(1)["nodes"].as_array().unwrap().clone();
        links.into_iter().find(|link| link["address"] == address)
    };
    let is_refused = |group: &Group| link(group, &group.address(1)).is_some_and(|link| link["is_refused"] == true);
    group.wait("refused", is_refused);
    group.node(1).add(&group.address(3)).unwrap();
    assert_eq!(group.serves_with(4), 0);
    group.stop(0);
    assert_ne!(group.serves_with(3), 0, "each knows all");
}

#[test]
fn a_node_that_lacks_answered_messages_is_not_promoted() {
    let mut group = Group::new(2, 1);
    group.start_all();
    let primary = group.serves_with(2);
    let left = 1 - primary;
    group.stop(left);
    group.serves_with(1);
    group.stop(primary);
    group.start(left);
    group.wait("read", |group| !group.status(left)["register"].is_null());
    must_refuse(group.node(left).promote(group.id(left)), "lacks messages");
}
