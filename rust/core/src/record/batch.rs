//! The batch: one commit on disk.
//!
//! | offset | bytes | field | covered by `chain` |
//! |---|---|---|---|
//! | 0 | 8 | `magic`: `DMQBATCH` | |
//! | 8 | 4 | `length`: header and records, a multiple of 8 | yes |
//! | 12 | 4 | `epoch` | yes |
//! | 16 | 8 | `base_sequence` | yes |
//! | 24 | 4 | `count`: sequences taken; equals the records, except for an adoption, which is the last | yes |
//! | 28 | 4 | `record_count` | yes |
//! | 32 | 8 | `trusted_ms`: the trusted clock at the write | yes |
//! | 40 | 4 | `flags`: bit 0 dispatch is held | yes |
//! | 44 | 4 | `chain_before`: `chain` of the batch before | yes |
//! | 48 | 4 | `chain` | |
//! | 52 | 4 | `durability`: 0 disk, 1 os | |
//! | 56 | 8 | `synced`: log position known to be fdatasync'ed | |
//! | 64 | 8 | `committed`: log position visible when this was written | |
//! | 72 | 4 | `segment`: the segment's number | |
//! | 76 | 4 | `local_flags`: bit 0 witness, bit 1 seal | |
//! | 80 | 4 | `reserved`: zero | |
//! | 84 | 4 | `header_check`: CRC-32 of bytes 0..84 | |
//!
//! `chain` is the CRC-32 of the stream's 16 bytes, bytes 8..48 of the header and the header check of each record in
//! order. It proves the logical content and its place in the history; fields outside it belong to this copy alone.
//! A witness and a seal are batches without records: they take no sequence, and their `chain` equals
//! `chain_before`.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::record::adopt::{KIND_ADOPT, sequences_of};
use crate::record::header::{read_record, seal_record};
use crate::units::{Epoch, Location, Millis, SegmentNumber, Sequence};

/// The first eight bytes of every batch.
pub const BATCH_MAGIC: [u8; 8] = *b"DMQBATCH";
/// Bytes of a batch header.
pub const BATCH_HEADER_BYTES: usize = 88;
/// Where the logical part that the chain covers starts and ends.
const LOGICAL_START: usize = 8;
const LOGICAL_END: usize = 48;
const HEADER_CHECK_OFFSET: usize = 84;

/// Offset of the kind in a record.
const KIND_OFFSET: usize = 4;

/// Flag: dispatch was held while this was written.
pub const FLAG_HELD: u32 = 1;
/// Local flag: an empty batch that says how far the log is synced.
pub const LOCAL_WITNESS: u32 = 1;
/// Local flag: the last batch of its segment.
pub const LOCAL_SEAL: u32 = 2;

/// The start of each batch; see the module's table.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[expect(missing_docs, reason = "the module's table describes every field")]
pub struct BatchHeader {
    pub magic: [u8; 8],
    pub length: U32,
    pub epoch: U32,
    pub base_sequence: U64,
    pub count: U32,
    pub record_count: U32,
    pub trusted_ms: U64,
    pub flags: U32,
    pub chain_before: U32,
    pub chain: U32,
    pub durability: U32,
    pub synced: U64,
    pub committed: U64,
    pub segment: U32,
    pub local_flags: U32,
    pub reserved: U32,
    pub header_check: U32,
}
const _: () = assert!(size_of::<BatchHeader>() == BATCH_HEADER_BYTES);

/// The fields of a commit; [`seal_batch`] turns them into a header.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the module's table describes every field")]
pub struct BatchFields {
    pub stream: [u8; 16],
    pub epoch: Epoch,
    pub base_sequence: Sequence,
    pub record_count: u32,
    pub trusted: Millis,
    pub held: bool,
    pub chain_before: u32,
    pub durability: u32,
    pub synced: Location,
    pub committed: Location,
    pub segment: SegmentNumber,
    pub local_flags: u32,
}

/// Completes a batch in place: `bytes` starts with [`BATCH_HEADER_BYTES`] of room, followed by freshly encoded
/// records. Gives each record its sequence, writes the header, and returns the batch's chain. `None` if the records
/// do not fill the bytes exactly.
pub fn seal_batch(bytes: &mut [u8], fields: &BatchFields) -> Option<u32> {
    let length = u32::try_from(bytes.len()).ok()?;
    let mut header = BatchHeader {
        magic: BATCH_MAGIC,
        length: U32::new(length),
        epoch: U32::new(fields.epoch.0),
        base_sequence: U64::new(fields.base_sequence.0),
        count: U32::new(fields.record_count),
        record_count: U32::new(fields.record_count),
        trusted_ms: U64::new(fields.trusted.0),
        flags: U32::new(if fields.held { FLAG_HELD } else { 0 }),
        chain_before: U32::new(fields.chain_before),
        chain: U32::new(fields.chain_before),
        durability: U32::new(fields.durability),
        synced: U64::new(fields.synced.0),
        committed: U64::new(fields.committed.0),
        segment: U32::new(fields.segment.0),
        local_flags: U32::new(fields.local_flags),
        reserved: U32::ZERO,
        header_check: U32::ZERO,
    };
    let mut checks = Vec::with_capacity(fields.record_count as usize * 4);
    let mut at = BATCH_HEADER_BYTES;
    let mut sequence = fields.base_sequence;
    let mut last = at;
    while at < bytes.len() {
        let (taken, check) = seal_record(bytes.get_mut(at..)?, sequence)?;
        checks.extend_from_slice(&check.to_le_bytes());
        sequence = sequence.next();
        last = at;
        at = at.checked_add(taken)?;
    }
    if bytes.get(last.saturating_add(KIND_OFFSET)) == Some(&KIND_ADOPT) {
        let adopt = read_record(bytes.get(last..)?, Sequence(sequence.0.checked_sub(1)?)).ok()?;
        let count = u64::from(fields.record_count).checked_add(sequences_of(&adopt))?.checked_sub(1)?;
        header.count = U32::new(u32::try_from(count).ok()?);
    }
    if at != bytes.len() || checks.len() != fields.record_count as usize * 4 {
        return None;
    }
    if fields.record_count > 0 {
        header.chain = U32::new(chain_of(&fields.stream, &header, &checks));
    }
    header.header_check = U32::new(header.expected_check());
    header.write_to_prefix(bytes).ok()?;
    Some(header.chain.get())
}

/// Rewrites the fields of a whole batch that belong to one copy alone: `durability`, `synced`, `committed`, `segment` and
/// `local_flags`. The logical content, and so the chain, stays. `None` if the bytes start with no whole header.
pub fn rewrite_local(bytes: &mut [u8], fields: &BatchFields) -> Option<BatchHeader> {
    let mut header = BatchHeader::read(bytes)?;
    header.durability = U32::new(fields.durability);
    header.synced = U64::new(fields.synced.0);
    header.committed = U64::new(fields.committed.0);
    header.segment = U32::new(fields.segment.0);
    header.local_flags = U32::new(fields.local_flags);
    header.header_check = U32::new(header.expected_check());
    header.write_to_prefix(bytes).ok()?;
    Some(header)
}

/// The chained check over stream, logical header fields and record header checks (each 4 bytes,
/// little-endian, in order).
pub fn chain_of(stream: &[u8; 16], header: &BatchHeader, record_checks: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(stream);
    hasher.update(header.as_bytes().get(LOGICAL_START..LOGICAL_END).unwrap_or_default());
    hasher.update(record_checks);
    hasher.finalize()
}

impl BatchHeader {
    /// The check computed from the header's other bytes.
    pub fn expected_check(&self) -> u32 {
        crc32fast::hash(self.as_bytes().get(..HEADER_CHECK_OFFSET).unwrap_or_default())
    }

    /// Reads a header if `bytes` starts with a whole one whose check is right.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (header, _) = Self::read_from_prefix(bytes).ok()?;
        let whole = header.magic == BATCH_MAGIC
            && header.header_check.get() == header.expected_check()
            && header.length.get() as usize >= BATCH_HEADER_BYTES
            && header.length.get() % 8 == 0;
        whole.then_some(header)
    }

    /// The sequence after its last fact.
    pub fn next_sequence(&self) -> Sequence {
        Sequence(self.base_sequence.get()).plus(u64::from(self.count.get()))
    }

    /// True if dispatch was held while this was written.
    pub fn is_held(&self) -> bool {
        self.flags.get() & FLAG_HELD != 0
    }

    /// True for an empty batch that only says how far the log is synced.
    pub fn is_witness(&self) -> bool {
        self.local_flags.get() & LOCAL_WITNESS != 0
    }

    /// True for the last batch of a segment.
    pub fn is_seal(&self) -> bool {
        self.local_flags.get() & LOCAL_SEAL != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::adopt::{AdoptedRun, encode_adopt};
    use crate::record::header::{Records, encode_record};
    use crate::record::terms::NameHash;

    fn fields(record_count: u32) -> BatchFields {
        BatchFields {
            stream: [9; 16],
            epoch: Epoch(3),
            base_sequence: Sequence(100),
            record_count,
            trusted: Millis(1_700_000_000_000),
            held: false,
            chain_before: 0xABCD,
            durability: 0,
            synced: Location::in_segment(SegmentNumber(1), 4096),
            committed: Location::in_segment(SegmentNumber(1), 4096),
            segment: SegmentNumber(1),
            local_flags: 0,
        }
    }

    #[test]
    fn a_batch_reads_back_with_its_records() {
        let mut bytes = vec![0; BATCH_HEADER_BYTES];
        encode_record(&mut bytes, 1, 0, &[1; 24], &[b"a"]);
        encode_record(&mut bytes, 1, 0, &[2; 24], &[b"bb"]);
        let chain = seal_batch(&mut bytes, &fields(2)).unwrap();
        let header = BatchHeader::read(&bytes).unwrap();
        assert_eq!(header.chain.get(), chain);
        let records: Vec<_> = Records::new(&bytes[BATCH_HEADER_BYTES..], Sequence(100)).map(Result::unwrap).collect();
        assert_eq!(records.len(), 2);
        assert_eq!(records[1].1.payload, b"bb");
        let checks: Vec<u8> =
            records.iter().flat_map(|(_, record)| record.header.header_check.get().to_le_bytes()).collect();
        assert_eq!(chain_of(&[9; 16], &header, &checks), chain);
    }

    #[test]
    fn a_witness_does_not_move_the_chain() {
        let mut bytes = vec![0; BATCH_HEADER_BYTES];
        let witness = BatchFields { local_flags: LOCAL_WITNESS, ..fields(0) };
        assert_eq!(seal_batch(&mut bytes, &witness), Some(0xABCD));
        assert!(BatchHeader::read(&bytes).unwrap().is_witness());
    }

    #[test]
    fn an_adoption_at_the_end_takes_a_sequence_for_each_message() {
        let run = AdoptedRun { staged: Millis(1), nonce: [1; 16], length: 1, digest: 1, rows: 7 };
        let mut bytes = vec![0; BATCH_HEADER_BYTES];
        encode_record(&mut bytes, 1, 0, &[1; 24], &[b"a"]);
        encode_adopt(&mut bytes, NameHash::default(), &[run, AdoptedRun { rows: 3, ..run }]);
        seal_batch(&mut bytes, &fields(2)).unwrap();
        let header = BatchHeader::read(&bytes).unwrap();
        assert_eq!((header.record_count.get(), header.count.get()), (2, 11));
    }

    #[test]
    fn a_wrong_record_count_is_refused() {
        let mut bytes = vec![0; BATCH_HEADER_BYTES];
        encode_record(&mut bytes, 1, 0, &[1; 24], &[b"a"]);
        assert_eq!(seal_batch(&mut bytes, &fields(2)), None);
    }
}
