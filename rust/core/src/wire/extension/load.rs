//! `LOAD` (218): adopts staged runs, all or none, once for each job.
//!
//! The request:
//!
//! | bytes | field |
//! |---|---|
//! | str | `job`: identifies a repetition of the load |
//! | 4 | `count` of runs, at most 4,096 |
//!
//! and for each run, a file in the store's folder `loads`:
//!
//! | bytes | field |
//! |---|---|
//! | 8 | `staged_ms`: when its staging began; the first part of its name |
//! | 16 | `nonce`: the second part of its name |
//! | 8 | `bytes` of the file |
//! | 4 | `digest`: the check of the file's footer |
//! | 8 | `rows` |
//!
//! The answer is `first u64 | count u64 | again u8`: the sequence of the first message, the number of messages, and
//! 1 if an earlier load of the job had stored them.

use bytes::BufMut;

use crate::error::Result;
use crate::record::adopt::LOAD_RUNS_MAX;
use crate::record::limits::check_name;
use crate::run::{LoadName, StagedRun};
use crate::units::{Millis, Sequence};
use crate::wire::fields::{put_count, put_text};
use crate::wire::malformed::Read;
use crate::wire::reader::Reader;

/// Bytes of one run.
const RUN_BYTES: usize = 44;

/// A request to load staged runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadAsked<'a> {
    /// Identifies a repetition of the load.
    pub job: &'a str,
    /// The runs to adopt.
    pub runs: Vec<StagedRun>,
}

impl<'a> LoadAsked<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let job = reader.text("job")?;
        let count = reader.count("runs", LOAD_RUNS_MAX, RUN_BYTES)?;
        let mut runs = Vec::with_capacity(count);
        for _ in 0..count {
            let name = LoadName { staged: Millis(reader.u64("runs")?), nonce: reader.array("runs")? };
            let (length, digest, rows) = (reader.u64("runs")?, reader.u32("runs")?, reader.u64("runs")?);
            runs.push(StagedRun { name, length, digest, rows });
        }
        Ok(Self { job, runs })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `InvalidArgument` naming `job`; `TooLarge` naming `runs`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        check_name("job", self.job)?;
        put_text(out, "job", self.job)?;
        put_count(out, "runs", LOAD_RUNS_MAX, self.runs.len())?;
        for run in &self.runs {
            out.put_u64(run.name.staged.0);
            out.put_slice(&run.name.nonce);
            out.put_u64(run.length);
            out.put_u32(run.digest);
            out.put_u64(run.rows);
        }
        Ok(())
    }
}

/// The result of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadTold {
    /// The sequence of its first message.
    pub first: Sequence,
    /// The number of messages.
    pub count: u64,
    /// True if an earlier load of the job had stored them.
    pub again: bool,
}

impl LoadTold {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &[u8]) -> Read<Self> {
        let reader = &mut Reader::new(body);
        let (first, count) = (Sequence(reader.u64("first")?), reader.u64("count")?);
        let told = Self { first, count, again: reader.flag("again")? };
        reader.finish("load").map(|()| told)
    }

    /// Appends the answer.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.first.0);
        out.put_u64(self.count);
        out.put_u8(u8::from(self.again));
    }
}
