//! Damaged bytes and batches of another history: a check finds damage, and a batch that does not continue the log is no
//! part of it. Each test must fail if its check is left out.

use crate::rig::{Rig, proves, small};
use delaymq_core::message_log::segment_path;
use delaymq_core::planted::Planted;
use delaymq_core::record::header::read_record;
use delaymq_core::record::{encode_record, seal_record};
use delaymq_core::storage::Storage;
use delaymq_core::units::Sequence;
use delaymq_simulation::disk::End;

#[test]
fn each_flipped_bit_of_a_record_is_found() {
    proves(Planted::RecordUnchecked, || {
        let mut whole = Vec::new();
        encode_record(&mut whole, 1, 0, &[7; 24], &[b"payload!"]);
        seal_record(&mut whole, Sequence(3)).unwrap();
        assert!(read_record(&whole, Sequence(3)).unwrap().payload_is_whole());
        (0..whole.len() * 8).all(|bit| {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            read_record(&damaged, Sequence(3)).map_or(true, |record| !record.payload_is_whole())
        })
    });
}

#[test]
fn zeros_are_no_record() {
    proves(Planted::ZerosAccepted, || read_record(&[0; 64], Sequence(0)).is_err());
}

/// Two lives of one store differ in one message, and the sector behind it is one of the other life.
#[test]
fn a_batch_of_another_life_does_not_go_on_from_this_one() {
    proves(Planted::ChainNotCompared, || {
        let mut rig = Rig::new(small());
        rig.publish("s", 0, "shared");
        let (mut one, mut other) = (rig.fork(End::Kill, 1), rig.fork(End::Kill, 1));
        for (life, body) in [(&mut one, "one"), (&mut other, "two")] {
            life.try_open().unwrap();
            life.publish("s", 0, body);
        }
        let start = other.node().appender().written().location;
        assert_eq!(one.node().appender().written().location, start);
        other.publish("s", 0, "more of the second");
        let end = other.node().appender().written().location;
        let path = segment_path(start.segment().unwrap());
        let batch = other.disk.storage().image()[&path][start.offset() as usize..end.offset() as usize].to_vec();
        one.end(End::Kill);
        let file = one.disk.storage().open(&path).unwrap();
        file.write_at(u64::from(start.offset()), &batch).unwrap();
        file.sync_data().unwrap();
        one.try_open().is_ok() && one.drain("s", "g") == ["shared", "one"]
    });
}
