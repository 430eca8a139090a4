//! Adoption of staged runs: adopt (kind 16). One fact stores all messages of a load, and names the runs that
//! contain them. The fact is the last record of its batch. It takes one sequence for each message, run after run;
//! the first sequence is its own.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawRecord, encode_record};
use super::read_struct;
use super::terms::NameHash;
use crate::units::Millis;

/// The kind byte of an adoption.
pub const KIND_ADOPT: u8 = 16;
/// The most runs of one load: its fact is one record.
pub const LOAD_RUNS_MAX: usize = 4_096;
/// The most messages of one load: the state of each takes two bits of memory.
pub const LOAD_ROWS_MAX: u64 = 1 << 28;

/// Fixed part of an adoption.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | `job_low` |
/// | 8 | 8 | `job_high` |
/// | 16 | 4 | `rows`: messages of all runs, and sequences that the fact takes |
/// | 28 | 4 | `runs`: the number of runs |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AdoptFixed {
    job_low: U64,
    job_high: U64,
    rows: U32,
    runs: U32,
}
const _: () = assert!(size_of::<AdoptFixed>() == 24);

/// One run in the payload.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 8 | `staged_ms`: when its staging began, by the clock of the process that staged it |
/// | 8 | 16 | `nonce`: the run's name, together with `staged_ms` |
/// | 24 | 8 | `length`: bytes of the file |
/// | 32 | 4 | `digest`: the check of the file's footer |
/// | 36 | 4 | `rows` |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AdoptRow {
    staged_ms: U64,
    nonce: [u8; 16],
    length: U64,
    digest: U32,
    rows: U32,
}

/// Bytes of one run.
pub const ADOPT_ROW_BYTES: usize = 40;
const _: () = assert!(size_of::<AdoptRow>() == ADOPT_ROW_BYTES);

/// A run as the fact names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the table above describes every field")]
pub struct AdoptedRun {
    pub staged: Millis,
    pub nonce: [u8; 16],
    pub length: u64,
    pub digest: u32,
    pub rows: u32,
}

/// Stores all messages of these runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Adopt<'a> {
    /// The job: a load that repeats it gets the answer of the first.
    pub job: NameHash,
    /// Messages of all runs.
    pub rows: u32,
    runs: &'a [u8],
}

impl Adopt<'_> {
    /// The runs, in the order of their sequences.
    pub fn runs(&self) -> impl Iterator<Item = AdoptedRun> + '_ {
        self.runs.chunks_exact(ADOPT_ROW_BYTES).filter_map(run_of)
    }
}

fn run_of(bytes: &[u8]) -> Option<AdoptedRun> {
    let row: AdoptRow = read_struct(bytes)?;
    Some(AdoptedRun {
        staged: Millis(row.staged_ms.get()),
        nonce: row.nonce,
        length: row.length.get(),
        digest: row.digest.get(),
        rows: row.rows.get(),
    })
}

/// Appends an adoption. The runs have together at most as many messages as a load may have.
pub fn encode_adopt(out: &mut Vec<u8>, job: NameHash, runs: &[AdoptedRun]) {
    let rows = runs.iter().fold(0_u32, |rows, run| rows.saturating_add(run.rows));
    let fixed = AdoptFixed {
        job_low: U64::new(job.low),
        job_high: U64::new(job.high),
        rows: U32::new(rows),
        runs: U32::new(u32::try_from(runs.len()).unwrap_or(u32::MAX)),
    };
    let mut payload = Vec::with_capacity(runs.len().saturating_mul(ADOPT_ROW_BYTES));
    for run in runs {
        let row = AdoptRow {
            staged_ms: U64::new(run.staged.0),
            nonce: run.nonce,
            length: U64::new(run.length),
            digest: U32::new(run.digest),
            rows: U32::new(run.rows),
        };
        payload.extend_from_slice(row.as_bytes());
    }
    encode_record(out, KIND_ADOPT, 0, fixed.as_bytes(), &[&payload]);
}

/// Reads an adoption. It has at least one run, each run has a message, and their sum is the count in the fact.
pub fn decode_adopt<'a>(record: &RawRecord<'a>) -> Option<Adopt<'a>> {
    let fixed: AdoptFixed = read_struct(record.fixed)?;
    let count = fixed.runs.get() as usize;
    let adopt = Adopt {
        job: NameHash { low: fixed.job_low.get(), high: fixed.job_high.get() },
        rows: fixed.rows.get(),
        runs: record.payload,
    };
    let rows =
        adopt.runs().try_fold(0_u64, |rows, run| (run.rows > 0).then(|| rows.saturating_add(u64::from(run.rows))));
    let fits = (1..=LOAD_RUNS_MAX).contains(&count)
        && record.payload.len() == count * ADOPT_ROW_BYTES
        && rows == Some(u64::from(adopt.rows))
        && u64::from(adopt.rows) <= LOAD_ROWS_MAX;
    fits.then_some(adopt)
}

/// The number of sequences that a record takes, by its header and fixed part: one, or those of an adoption.
pub fn sequences_of(record: &RawRecord<'_>) -> u64 {
    if record.header.kind != KIND_ADOPT {
        return 1;
    }
    let fixed: Option<AdoptFixed> = read_struct(record.fixed);
    fixed.map_or(1, |fixed| u64::from(fixed.rows.get()).clamp(1, LOAD_ROWS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{header::read_record, seal_record};
    use crate::units::Sequence;

    const JOB: NameHash = NameHash { low: 3, high: 9 };

    fn run(rows: u32) -> AdoptedRun {
        AdoptedRun { staged: Millis(5), nonce: [rows as u8; 16], length: 9_000, digest: 77, rows }
    }

    fn sealed(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        seal_record(&mut bytes, Sequence(5)).unwrap();
        bytes
    }

    #[test]
    fn an_adoption_reads_back_and_takes_a_sequence_for_each_message() {
        let runs = [run(3), run(1)];
        let bytes = sealed(|out| encode_adopt(out, JOB, &runs));
        let record = read_record(&bytes, Sequence(5)).unwrap();
        let adopt = decode_adopt(&record).unwrap();
        assert_eq!((adopt.job, adopt.rows, adopt.runs().collect::<Vec<_>>()), (JOB, 4, runs.to_vec()));
        assert_eq!(sequences_of(&record), 4);
    }

    #[test]
    fn one_whose_parts_do_not_fit_is_none() {
        let whole = sealed(|out| encode_adopt(out, JOB, &[run(3), run(1)]));
        let whole = read_record(&whole, Sequence(5)).unwrap();
        let is_one = |change: &dyn Fn(&mut Vec<u8>, &mut Vec<u8>)| {
            let (mut fixed, mut payload) = (whole.fixed.to_vec(), whole.payload.to_vec());
            change(&mut fixed, &mut payload);
            let bytes = sealed(|out| encode_record(out, KIND_ADOPT, 0, &fixed, &[&payload]));
            decode_adopt(&read_record(&bytes, Sequence(5)).unwrap()).is_some()
        };
        assert!(is_one(&|_, _| {}));
        assert!(!is_one(&|fixed, _| fixed[16] = 5), "other rows than its runs have");
        assert!(!is_one(&|fixed, _| fixed[20] = 1), "another number of runs");
        assert!(!is_one(&|fixed, _| fixed.truncate(20)));
        assert!(!is_one(&|_, payload| payload.truncate(ADOPT_ROW_BYTES + 1)));
        assert!(!is_one(&|fixed, payload| (fixed[16], payload[36]) = (1, 0)), "a run without messages");
        assert!(!is_one(&|fixed, payload| {
            (fixed[16], fixed[20]) = (0, 0);
            payload.clear();
        }));
        let rows = |fixed: &mut Vec<u8>, payload: &mut Vec<u8>, rows: u32| {
            fixed[20] = 1;
            payload.truncate(ADOPT_ROW_BYTES);
            fixed[16..20].copy_from_slice(&rows.to_le_bytes());
            payload[36..40].copy_from_slice(&rows.to_le_bytes());
        };
        assert!(is_one(&|fixed, payload| rows(fixed, payload, LOAD_ROWS_MAX as u32)));
        assert!(!is_one(&|fixed, payload| rows(fixed, payload, LOAD_ROWS_MAX as u32 + 1)));
    }
}
