use super::*;
use crate::storage::{read_upto, write_atomically};

fn with_log() -> MemoryStorage {
    let storage = MemoryStorage::new(1);
    storage.create_folder("log").unwrap();
    storage.sync_folder("").unwrap();
    storage
}

/// A file with a durable name and the synced content `bytes`.
fn durable(storage: &MemoryStorage, path: &str, bytes: &[u8]) -> Arc<dyn StorageFile> {
    let file = storage.create(path).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync_data().unwrap();
    storage.sync_folder("log").unwrap();
    file
}

fn bytes_of(storage: &MemoryStorage, path: &str) -> Option<Vec<u8>> {
    storage.image().get(path).cloned()
}

fn fault_of<T: std::fmt::Debug>(result: Result<T>) -> StorageFault {
    match result {
        Err(Error::Storage { fault, .. }) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_read_and_write_at_offsets() {
    let storage = with_log();
    let file = storage.create("log/a").unwrap();
    file.write_at(4, b"later").unwrap();
    file.write_at(0, b"now").unwrap();
    assert_eq!(file.length().unwrap(), 9);
    assert_eq!(read_upto(&*file, 0, 100).unwrap(), b"now\0later");
    assert_eq!(read_upto(&*file, 7, 100).unwrap(), b"er");
    assert_eq!(read_upto(&*file, 9, 1).unwrap(), b"");
    file.allocate(12).unwrap();
    file.allocate(3).unwrap();
    assert_eq!(file.length().unwrap(), 12);
    assert_eq!(file.path(), "log/a");
}

#[test]
fn names_behave_as_in_a_file_system() {
    let storage = with_log();
    storage.create("log/b").unwrap().write_at(0, b"b").unwrap();
    storage.create("log/a").unwrap().write_at(0, b"a").unwrap();
    assert_eq!(storage.list("log").unwrap(), ["a", "b"]);
    assert_eq!(fault_of(storage.create("log/a").map(drop)), StorageFault::AlreadyExists);
    assert_eq!(fault_of(storage.open("log/c").map(drop)), StorageFault::NotFound);
    assert_eq!(fault_of(storage.create("none/c").map(drop)), StorageFault::NotFound);
    assert_eq!(fault_of(storage.list("none")), StorageFault::NotFound);
    let old = storage.open("log/a").unwrap();
    storage.rename("log/b", "log/a").unwrap();
    assert_eq!(bytes_of(&storage, "log/a").unwrap(), b"b");
    assert_eq!(read_upto(&*old, 0, 9).unwrap(), b"a", "who holds it open reads on");
    storage.remove("log/a").unwrap();
    assert!(storage.remove("log/a").unwrap_err().is_not_found());
    assert!(storage.list("log").unwrap().is_empty());
}

#[test]
fn a_kill_loses_nothing_and_syncs_nothing() {
    let storage = with_log();
    let file = storage.create("log/a").unwrap();
    file.write_at(0, b"abc").unwrap();
    let killed = storage.crash(Crash::Kill, 1);
    assert_eq!(bytes_of(&killed, "log/a").unwrap(), b"abc");
    let cut = killed.crash(Crash::PowerCutLosesAll, 1);
    assert_eq!(bytes_of(&cut, "log/a"), None);
    assert_eq!(bytes_of(&storage, "log/a").unwrap(), b"abc", "the first one goes on");
}

#[test]
fn only_a_synced_file_in_a_synced_folder_is_sure_to_survive() {
    for seed in 0..50 {
        let storage = with_log();
        durable(&storage, "log/a", b"sure");
        let cut = storage.crash(Crash::PowerCut, seed);
        assert_eq!(bytes_of(&cut, "log/a").unwrap(), b"sure");
    }
    let storage = with_log();
    storage.create("log/b").unwrap().sync_data().unwrap();
    assert_eq!(bytes_of(&storage.crash(Crash::PowerCutLosesAll, 1), "log/b"), None, "its name is not durable");
}

#[test]
fn an_unsynced_folder_takes_its_files_with_it() {
    let storage = MemoryStorage::new(1);
    storage.create_folder("log").unwrap();
    durable(&storage, "log/a", b"a");
    let cut = storage.crash(Crash::PowerCutLosesAll, 1);
    assert!(cut.list("log").is_err());
    assert!(cut.image().is_empty());
}

#[test]
fn unsynced_sectors_survive_each_for_itself() {
    let storage = with_log();
    let file = durable(&storage, "log/a", &[0; 2048]);
    file.write_at(0, &[1; 2048]).unwrap();
    file.write_at(512, &[2; 512]).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..2000 {
        let bytes = bytes_of(&storage.crash(Crash::PowerCut, seed), "log/a").unwrap();
        let sectors: Vec<u8> = bytes.chunks(512).map(|sector| sector[0]).collect();
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])), "no sector is torn");
        seen.insert(sectors);
    }
    assert_eq!(seen.len(), 2 * 3 * 2 * 2, "each sector at each moment of its history, in every combination");
}

#[test]
fn unsynced_lengths_survive_or_not() {
    let storage = with_log();
    let file = durable(&storage, "log/a", b"12345678");
    file.write_at(8, b"9").unwrap();
    file.allocate(20).unwrap();
    let length = |seed| bytes_of(&storage.crash(Crash::PowerCut, seed), "log/a").unwrap().len();
    let seen: std::collections::BTreeSet<_> = (0..200).map(length).collect();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [8, 9, 20]);
}

#[test]
fn unsynced_names_survive_each_for_itself_but_in_order_on_one_name() {
    let storage = with_log();
    for path in ["log/a", "log/b", "log/c"] {
        durable(&storage, path, path.as_bytes());
    }
    storage.remove("log/a").unwrap();
    storage.remove("log/b").unwrap();
    storage.rename("log/c", "log/a").unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..500 {
        let image = storage.crash(Crash::PowerCut, seed).image();
        assert!(!(image.contains_key("log/a") && image["log/a"] == b"log/c" && image.contains_key("log/c")));
        seen.insert(image);
    }
    assert_eq!(seen.len(), 3 * 2, "a: there, gone, replaced; b: there or gone");
}

#[test]
fn a_rename_between_folders_waits_for_both() {
    let storage = with_log();
    storage.create_folder("aside").unwrap();
    storage.sync_folder("").unwrap();
    durable(&storage, "log/a", b"a");
    storage.rename("log/a", "aside/a").unwrap();
    storage.sync_folder("log").unwrap();
    assert!(storage.crash(Crash::PowerCutLosesAll, 1).image().contains_key("log/a"));
    storage.sync_folder("aside").unwrap();
    assert_eq!(storage.crash(Crash::PowerCutLosesAll, 1).image().into_keys().collect::<Vec<_>>(), ["aside/a"]);
}

#[test]
fn a_failed_sync_leaves_bytes_that_read_well_and_never_become_durable() {
    let mut lost = 0;
    for seed in 0..40 {
        let storage = MemoryStorage::new(seed);
        storage.create_folder("log").unwrap();
        storage.sync_folder("").unwrap();
        let file = durable(&storage, "log/a", &[0; 512]);
        file.write_at(0, &[1; 512]).unwrap();
        storage.fail_call_of(Call::Sync, 0, StorageFault::Io);
        assert_eq!(fault_of(file.sync_data()), StorageFault::Io);
        file.sync_data().unwrap();
        assert_eq!(bytes_of(&storage, "log/a").unwrap(), [1; 512]);
        lost += u32::from(bytes_of(&storage.crash(Crash::PowerCut, seed), "log/a").unwrap() == [0; 512]);
    }
    assert!((5..35).contains(&lost), "{lost}");
}

#[test]
fn the_chosen_call_fails_once() {
    let storage = with_log();
    storage.fail_call(1, StorageFault::Io);
    storage.create("log/a").unwrap();
    assert_eq!(fault_of(storage.rename("log/a", "log/b")), StorageFault::Io);
    assert_eq!(storage.list("log").unwrap(), ["a"]);
    storage.rename("log/a", "log/b").unwrap();
}

#[test]
fn a_stopped_machine_answers_nothing_until_it_crashed() {
    let storage = with_log();
    durable(&storage, "log/a", b"a");
    storage.stop_after_calls(1);
    let file = storage.open("log/a").unwrap();
    assert_eq!(fault_of(file.write_at(0, b"b")), StorageFault::Stopped);
    assert_eq!(fault_of(file.sync_data()), StorageFault::Stopped);
    assert_eq!(fault_of(storage.list("log")), StorageFault::Stopped);
    assert!(storage.is_stopped());
    let after = storage.crash(Crash::PowerCut, 3);
    assert!(!after.is_stopped());
    assert!(after.list("log").is_ok());
}

#[test]
fn a_stop_may_come_before_or_after_the_work() {
    let done = |seed| {
        let storage = MemoryStorage::new(seed);
        storage.stop_after_calls(0);
        storage.create("a").map(drop).unwrap_err();
        storage.crash(Crash::Kill, 1).image().contains_key("a")
    };
    let done = (0..40).filter(|seed| done(*seed)).count();
    assert!((5..35).contains(&done), "{done}");
}

#[test]
fn a_full_disk_refuses_growth_only() {
    let storage = with_log();
    let file = durable(&storage, "log/a", &[0; 100]);
    storage.set_capacity(100);
    assert!(file.write_at(90, &[1; 11]).unwrap_err().is_no_space());
    assert!(file.allocate(101).unwrap_err().is_no_space());
    file.write_at(90, &[1; 10]).unwrap();
    storage.remove("log/a").unwrap();
    storage.create("log/b").unwrap().allocate(100).unwrap();
}

#[test]
fn calls_are_counted() {
    let storage = with_log();
    durable(&storage, "log/a", b"a");
    let counts = storage.counts();
    assert_eq!((counts.of(Call::Write), counts.of(Call::SyncFolder), counts.of(Call::Read)), (1, 2, 0));
    assert_eq!((counts.all(), counts.changing(), counts.bytes_read()), (6, 6, 0));
    storage.open("log/a").unwrap().read_at(0, &mut [0; 9]).unwrap();
    assert_eq!((storage.counts().of(Call::Read), storage.counts().bytes_read()), (1, 1));
}

#[test]
fn a_power_cut_can_be_told_which_names_it_leaves_changed() {
    let storage = with_log();
    for path in ["log/a", "log/b", "log/c"] {
        durable(&storage, path, b"old");
    }
    storage.remove("log/a").unwrap();
    storage.remove("log/b").unwrap();
    storage.open("log/c").unwrap().write_at(0, b"new").unwrap();
    let after = storage.power_cut_but(&|path| path == "log/b");
    assert_eq!(after.list("log").unwrap(), ["a", "c"]);
    assert_eq!(bytes_of(&after, "log/c").unwrap(), b"old", "bytes that were not synced are lost");
    assert_eq!(storage.power_cut_but(&|_| true).list("log").unwrap(), ["c"]);
}

#[test]
fn damage_is_durable() {
    let storage = with_log();
    durable(&storage, "log/a", b"abc");
    assert!(storage.damage("log/a", 1, 1));
    assert!(!storage.damage("log/a", 3, 1));
    assert!(!storage.damage("log/b", 0, 1));
    assert_eq!(bytes_of(&storage.crash(Crash::PowerCutLosesAll, 1), "log/a").unwrap(), b"acc");
}

#[test]
fn a_file_replaced_atomically_is_the_old_or_the_new_one() {
    for calls in 0..8 {
        for seed in 0..30 {
            let storage = with_log();
            durable(&storage, "log/a", b"old");
            storage.stop_after_calls(calls);
            let written = write_atomically(&storage, "log", "log/a", b"new");
            let bytes = bytes_of(&storage.crash(Crash::PowerCut, seed), "log/a").unwrap();
            assert!(bytes == b"new" || (bytes == b"old" && written.is_err()), "{calls} {seed}");
        }
    }
}

#[test]
fn equal_seeds_give_equal_disks() {
    let storage = with_log();
    let file = durable(&storage, "log/a", &[0; 4096]);
    file.write_at(100, &[1; 3000]).unwrap();
    storage.remove("log/a").unwrap();
    for seed in 0..20 {
        assert_eq!(storage.crash(Crash::PowerCut, seed).image(), storage.crash(Crash::PowerCut, seed).image());
    }
}
