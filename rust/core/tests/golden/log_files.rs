//! The golden identity and a golden segment: written by the library on the disk in memory.

use std::sync::Arc;

use delaymq_core::message_log::{
    AppendMarks, AppenderStart, Durability, IDENTITY_PATH, Identity, Promise, SEGMENT_BYTES_MIN, SegmentAppender,
    Stream, segment_path,
};
use delaymq_core::record::batch::BATCH_HEADER_BYTES;
use delaymq_core::storage::{MemoryStorage, Storage};
use delaymq_core::units::{Epoch, Location, Millis, SegmentNumber, Sequence, Version};

use crate::batches::STREAM;
use crate::files::{Outcome, compare_file};
use crate::records;

const TRUSTED: Millis = Millis(1_700_000_000_000);

fn stream() -> Stream {
    Stream { id: STREAM, timeline: 1 }
}

#[test]
fn identity() -> Outcome {
    let storage = MemoryStorage::new(1);
    let identity = Identity {
        stream: stream(),
        node: *b"golden node 0001",
        promised_epoch: Epoch(3),
        seen: (0, Version(0)),
        clustered: false,
        segment_bytes: 128 << 20,
    };
    identity.write(&storage)?;
    compare_file(&storage, IDENTITY_PATH, "identity")?;
    let copy = Identity { clustered: true, ..identity };
    copy.keep_promise(&storage, Promise { epoch: Epoch(4), seen: (0x0123_4567_89AB_CDEF, Version(9_000)) })?;
    compare_file(&storage, IDENTITY_PATH, "identity_clustered")
}

/// One commit, a witness behind it, one more commit, the seal of a clean close.
#[test]
fn segment() -> Outcome {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new(1));
    storage.create_folder("log")?;
    let start = AppenderStart {
        stream: stream(),
        epoch: Epoch(1),
        number: SegmentNumber(1),
        chain: 0,
        next_sequence: Sequence(1),
        trusted: TRUSTED,
        segment_bytes: SEGMENT_BYTES_MIN,
        opening_bytes: SEGMENT_BYTES_MIN,
        given_bytes: 0,
    };
    let mut appender = SegmentAppender::open(Arc::clone(&storage), &start)?;
    let marks = |record_count, committed: Location| AppendMarks {
        record_count,
        trusted: TRUSTED.plus(u64::from(record_count)),
        held: false,
        committed,
        durability: Durability::Disk,
    };
    let mut bytes = vec![0; BATCH_HEADER_BYTES];
    records::epoch_start(&mut bytes);
    appender.append(&mut bytes, &marks(1, appender.synced().location))?;
    assert!(appender.append_witness(TRUSTED.plus(2), false, appender.written().location)?);
    let mut bytes = vec![0; BATCH_HEADER_BYTES];
    records::message(&mut bytes);
    records::message(&mut bytes);
    appender.append(&mut bytes, &marks(2, appender.synced().location))?;
    appender.seal_and_close(appender.written().location)?;
    compare_file(&*storage, &segment_path(SegmentNumber(1)), "segment")
}
