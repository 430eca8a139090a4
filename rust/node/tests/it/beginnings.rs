//! How a group and its copies begin, and what is refused.

use std::fs;

use delaymq_core::error::Error;
use delaymq_engine::{Due, Durability, Options, Store};
use delaymq_node::{CoordinatorOptions, NodeError, create_group, read_register};

use crate::support::{Group, SEGMENT_BYTES, refusal};

fn names(path: &std::path::Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_node_without_a_group_is_refused_and_touches_nothing() {
    let group = Group::new(2, 1);
    let mut options = group.options(1);
    options.cluster.coordinator = CoordinatorOptions::File(group.folder.path().join("other"));
    assert!(matches!(refusal(options), NodeError::NoGroup { .. }));
    assert!(names(&group.path(1)).is_empty());
}

#[test]
fn a_copy_of_another_group_is_refused_and_stays_as_it_is() {
    let (group, other) = (Group::new(1, 1), Group::new(1, 1));
    let before = names(&group.path(0));
    let mut options = group.options(0);
    options.cluster.coordinator = other.register();
    let NodeError::OtherGroup { expected, found, .. } = refusal(options) else { panic!("another error") };
    assert_ne!(expected, found);
    assert_eq!(names(&group.path(0)), before);
}

#[test]
fn a_store_that_stands_alone_and_a_folder_of_something_else_are_no_copies() {
    let group = Group::new(2, 1);
    let alone = group.folder.path().join("alone");
    drop(Store::open(&alone, Options::default(), &mut |_| {}).unwrap());
    let mut options = group.options(1);
    options.path = alone;
    let NodeError::Store(Error::InvalidArgument { argument, .. }) = refusal(options) else { panic!("another error") };
    assert_eq!(argument, "path");
    let strange = group.folder.path().join("strange");
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("notes.txt"), "mine").unwrap();
    let mut options = group.options(1);
    options.path = strange.clone();
    assert!(matches!(refusal(options), NodeError::Store(Error::NotAStore { .. })));
    assert_eq!(names(&strange), ["notes.txt"]);
}

#[test]
fn a_copy_is_not_opened_as_a_store_and_not_with_weaker_durability() {
    let group = Group::new(1, 1);
    let Err(error) = Store::open(&group.path(0), Options::default(), &mut |_| {}) else { panic!("it was opened") };
    assert!(error.to_string().contains("a copy in a cluster"), "{error}");
    let mut options = group.options(0);
    options.store.durability = Durability::Os;
    let NodeError::Store(Error::InvalidArgument { argument, .. }) = refusal(options) else { panic!("another error") };
    assert_eq!(argument, "durability");
}

#[test]
fn a_group_is_made_once_and_an_interrupted_call_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let (path, register) = (folder.path().join("a"), CoordinatorOptions::File(folder.path().join("register")));
    assert!(read_register(&register).unwrap().is_none());
    // The call ended before it marked the store.
    let created = create_group(&path, SEGMENT_BYTES, &register, 2).unwrap();
    let storage = delaymq_engine::FileStorage::open(&path, false).unwrap();
    let identity = delaymq_core::message_log::Identity::read(&storage).unwrap().unwrap();
    delaymq_core::message_log::Identity { clustered: false, ..identity }.write(&storage).unwrap();
    assert_eq!(create_group(&path, SEGMENT_BYTES, &register, 2).unwrap(), created);
    for again in [&path, &folder.path().join("b")] {
        let refused = create_group(again, SEGMENT_BYTES, &register, 2);
        assert!(matches!(refused, Err(NodeError::GroupExists { .. })), "{refused:?}");
    }
    let value: serde_json::Value = serde_json::from_str(&read_register(&register).unwrap().unwrap()).unwrap();
    assert_eq!((value["min_copies"].as_u64(), value["version"].as_u64()), (Some(2), Some(2)));
    assert_eq!(value["made_for"], value["coordinator"]);
}

#[test]
fn a_closed_store_becomes_the_first_copy_with_its_messages() {
    let mut group = Group::new(1, 1);
    let (path, register) = (group.folder.path().join("old"), group.folder.path().join("old register"));
    let store =
        Store::open(&path, Options { segment_bytes: SEGMENT_BYTES, ..Options::default() }, &mut |_| {}).unwrap();
    let coordinator = CoordinatorOptions::File(register);
    let refused = create_group(&path, SEGMENT_BYTES, &coordinator, 1);
    assert!(matches!(refused, Err(NodeError::Store(Error::Locked { .. }))), "{refused:?}");
    let mut batch = store.batch();
    batch.push("orders", Due::After(3_600_000), b"", b"body").unwrap();
    store.publish(&mut batch).unwrap();
    store.close().unwrap();
    create_group(&path, SEGMENT_BYTES, &coordinator, 1).unwrap();
    let mut options = group.options(0);
    (options.path, options.cluster.coordinator) = (path, coordinator);
    group.start_with(0, options);
    group.serves_with(1);
    assert!(group.status(0)["end"].as_u64().unwrap() > 2);
}
