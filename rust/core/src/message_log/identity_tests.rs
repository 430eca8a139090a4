use super::*;
use crate::record::FORMAT_VERSION;
use crate::storage::{Crash, MemoryStorage};

fn identity() -> Identity {
    Identity {
        stream: Stream { id: [1; 16], timeline: 3 },
        node: [2; 16],
        promised_epoch: Epoch(0),
        clustered: false,
        segment_bytes: 1 << 20,
    }
}

#[test]
fn an_identity_reads_back() {
    let storage = MemoryStorage::default();
    assert_eq!(Identity::read(&storage), Ok(None));
    for clustered in [false, true] {
        let written = Identity { clustered, ..identity() };
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
    assert!(matches!(Identity::decode(&whole[..63]), Err(Error::Corrupt { .. })));
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
