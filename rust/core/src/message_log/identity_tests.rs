use super::*;
use crate::record::FORMAT_VERSION;
use crate::storage::{Crash, MemoryStorage};

fn identity() -> Identity {
    Identity {
        stream: Stream { id: [1; 16], timeline: 3 },
        node: [2; 16],
        promised_epoch: Epoch(0),
        seen: (0, Version(0)),
        clustered: false,
        segment_bytes: 1 << 20,
    }
}

#[test]
fn an_identity_reads_back() {
    let storage = MemoryStorage::default();
    assert_eq!(Identity::read(&storage), Ok(None));
    for clustered in [false, true] {
        let seen = if clustered { (u64::MAX - 1, Version(1 << 40)) } else { (0, Version(0)) };
        let written = Identity { seen, clustered, ..identity() };
        written.write(&storage).unwrap();
        assert_eq!(Identity::read(&storage), Ok(Some(written)));
    }
}

#[test]
fn another_file_is_no_store() {
    assert!(matches!(Identity::decode(b"hello"), Err(Error::NotAStore { .. })));
    assert!(matches!(Identity::decode(b""), Err(Error::NotAStore { .. })));
}

#[test]
fn each_flipped_bit_and_each_wrong_length_is_found() {
    let storage = MemoryStorage::default();
    identity().write(&storage).unwrap();
    let whole = storage.image()[IDENTITY_PATH].clone();
    for bit in 0..whole.len() * 8 {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Identity::decode(&damaged).is_err(), "bit {bit}");
    }
    assert!(matches!(Identity::decode(&whole[..79]), Err(Error::Corrupt { .. })));
    assert!(matches!(Identity::decode(&[&whole[..], &[0]].concat()), Err(Error::Corrupt { .. })));
}

#[test]
fn a_newer_format_is_named() {
    let storage = MemoryStorage::default();
    identity().write(&storage).unwrap();
    let mut raw = RawIdentity::read_from_bytes(&storage.image()[IDENTITY_PATH]).unwrap();
    raw.format_version = U32::new(FORMAT_VERSION + 1);
    raw.check = U32::new(raw.expected_check());
    assert!(
        matches!(Identity::decode(raw.as_bytes()), Err(Error::NewerFormat { found, .. }) if found == FORMAT_VERSION + 1)
    );
}

#[test]
fn no_epoch_is_given_twice_whenever_the_power_fails() {
    for calls in 0..8 {
        for seed in 0..20 {
            let storage = MemoryStorage::default();
            identity().write(&storage).unwrap();
            storage.stop_after_calls(calls);
            let mut source = FileEpochSource::new(Arc::new(storage.clone()), identity());
            let mut given = Vec::new();
            while let Ok(epoch) = source.raise() {
                given.push(epoch);
            }
            let after = storage.crash(Crash::PowerCut, seed);
            let found = Identity::read(&after).unwrap().unwrap();
            let again = FileEpochSource::new(Arc::new(after), found).raise().unwrap();
            assert!(given.iter().all(|epoch| *epoch < again), "{calls} {seed}");
        }
    }
}

fn promise(epoch: u32, coordinator: u64, version: u64) -> Promise {
    Promise { epoch: Epoch(epoch), seen: (coordinator, Version(version)) }
}

#[test]
fn a_promise_is_kept_whole_or_not_at_all_whenever_the_power_fails() {
    let earlier = Identity { clustered: true, ..identity() };
    let (before, after) = (promise(3, 7, 20), promise(4, 8, 5));
    let mut outcomes = [false; 2];
    for calls in 0.. {
        let mut kept = false;
        for (kind, seed) in [Crash::PowerCut, Crash::Kill].into_iter().flat_map(|kind| (0..20).map(move |s| (kind, s)))
        {
            let storage = MemoryStorage::default();
            let first = earlier.keep_promise(&storage, before).unwrap();
            assert_eq!(
                (first.promise(), first),
                (before, Identity { promised_epoch: Epoch(3), seen: before.seen, ..earlier })
            );
            storage.stop_after_calls(calls);
            kept = first.keep_promise(&storage, after).is_ok();
            let found = Identity::read(&storage.crash(kind, seed)).unwrap().unwrap();
            let is_later = found.promise() == after;
            assert_eq!(found, Identity { promised_epoch: found.promised_epoch, seen: found.seen, ..earlier });
            assert!(is_later || (found.promise() == before && !kept), "{calls} {seed} {found:?}");
            outcomes[usize::from(is_later)] = true;
        }
        if kept {
            break;
        }
    }
    assert_eq!(outcomes, [true, true]);
}

#[test]
fn no_promise_goes_back() {
    let storage = MemoryStorage::default();
    let kept = identity().keep_promise(&storage, promise(3, 7, 20)).unwrap();
    let image = storage.image();
    assert_eq!(kept.keep_promise(&storage, promise(2, 7, 21)), Err(Error::Fenced { newest: 3, found: 2 }));
    let older = kept.keep_promise(&storage, promise(3, 7, 19));
    assert!(matches!(older, Err(Error::InvalidArgument { argument: "seen", .. })));
    assert_eq!(storage.image(), image);
    for next in [promise(3, 7, 20), promise(3, 7, 21), promise(3, 8, 1), promise(4, 7, 1)] {
        let kept = kept.keep_promise(&storage, next).unwrap();
        assert_eq!((kept.promise(), Identity::read(&storage)), (next, Ok(Some(kept))));
    }
}

#[test]
fn an_epoch_that_is_raised_leaves_what_was_seen() {
    let storage = MemoryStorage::default();
    let kept = identity().keep_promise(&storage, promise(3, 7, 20)).unwrap();
    FileEpochSource::new(Arc::new(storage.clone()), kept).raise().unwrap();
    assert_eq!(Identity::read(&storage).unwrap().unwrap().promise(), promise(4, 7, 20));
}
