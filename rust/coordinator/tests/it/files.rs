//! A register in a file.

use delaymq_coordinator::{Coordinator, CoordinatorError, FileCoordinator};
use delaymq_core::replication::Version;

use crate::samples::{one_swap_wins_each_version, register, swaps_from_the_version_that_it_read};

#[test]
fn a_file_swaps_from_the_version_that_was_read() {
    let folder = tempfile::tempdir().unwrap();
    swaps_from_the_version_that_it_read(&FileCoordinator::new(&folder.path().join("register"), 5));
}

#[test]
fn one_of_several_users_of_a_file_wins_each_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("register");
    let each = |_| Box::new(FileCoordinator::new(&path, 5)) as Box<dyn Coordinator>;
    one_swap_wins_each_version(&(0..4).map(each).collect::<Vec<_>>(), 25);
}

#[test]
fn a_file_that_is_something_else_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("register");
    std::fs::write(&path, "a diary").unwrap();
    let file = FileCoordinator::new(&path, 5);
    assert!(matches!(file.read(), Err(CoordinatorError::Malformed { .. })));
    assert!(matches!(file.swap(Version(1), &register(1)), Err(CoordinatorError::Malformed { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a diary");
}

#[test]
fn a_file_that_is_gone_is_not_made_again_by_a_swap() {
    let folder = tempfile::tempdir().unwrap();
    let file = FileCoordinator::new(&folder.path().join("register"), 5);
    assert!(matches!(file.swap(Version(3), &register(1)), Err(CoordinatorError::Missing { .. })));
    assert!(file.read().unwrap().is_none());
}
