//! Bulk loads: staged next to the store, and adopted by one fact that the node submits.

use delaymq_core::error::Result;
use delaymq_core::message_log::{Class, Submission, Submitted};
use delaymq_core::record::adopt::{AdoptedRun, encode_adopt};
use delaymq_core::record::name::encode_subject;
use delaymq_core::record::terms::NameHash;
use delaymq_core::run::{LoadName, StagedMessage, StagedRun, Stager, StagingLimits, check_staged};
use delaymq_core::storage::Storage;
use delaymq_core::units::{Millis, Sequence};

use super::Node;

/// A message that is to be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewRow {
    /// The name of its subject.
    pub subject: String,
    /// When it is due.
    pub due: Millis,
    /// Its body.
    pub body: Vec<u8>,
}

/// Stages messages in files of so many rows. `name` is that of the first one.
///
/// # Errors
/// Those of the storage; what was written by then lies there.
pub fn stage(storage: &dyn Storage, rows: &[NewRow], name: LoadName, rows_max: u32) -> Result<Vec<StagedRun>> {
    let mut nonce = u128::from_le_bytes(name.nonce);
    let next_name = move || {
        nonce = nonce.wrapping_add(1);
        LoadName { nonce: nonce.to_le_bytes(), ..name }
    };
    let limits = StagingLimits { rows_max, ..StagingLimits::until(Millis(u64::MAX)) };
    let mut stager = Stager::new(storage, limits, next_name);
    for row in rows {
        let message = StagedMessage { due: row.due, subject: &row.subject, meta: b"", body: &row.body };
        stager.push(&message)?.map_err(|refused| refused.error)?;
    }
    stager.finish()
}

impl Node {
    /// Checks staged runs whole and asks for their adoption. The sequence is that of the fact, under which its answer is
    /// found; `None` where it must wait for room.
    ///
    /// # Errors
    /// `MissingFile`, `Corrupt` where a run is not as it was staged; as [`Self::submit`].
    pub fn load(&mut self, job: NameHash, runs: &[StagedRun]) -> Result<Option<Sequence>> {
        let mut new: Vec<String> = Vec::new();
        let (mut records, mut count) = (Vec::new(), 1);
        for named in runs {
            let staged = check_staged(self.storage.as_ref(), named)?;
            for name in staged.subjects() {
                let subject = self.names.assign(name)?;
                if subject.needs_fact && !new.contains(name) {
                    encode_subject(&mut records, subject.number, name);
                    new.push(name.clone());
                    count += 1;
                }
            }
        }
        let adopted = runs.iter().map(|run| AdoptedRun {
            staged: run.name.staged,
            nonce: run.name.nonce,
            length: run.length,
            digest: run.digest,
            rows: u32::try_from(run.rows).unwrap_or(u32::MAX),
        });
        let adopted: Vec<AdoptedRun> = adopted.collect();
        let adopts = adopted.iter().fold(0_u32, |rows, run| rows.saturating_add(run.rows));
        encode_adopt(&mut records, job, &adopted);
        let submission =
            Submission { records: &records, record_count: count, adopts, class: Class::Growing, must_sync: false };
        match self.commits.submit(submission)? {
            Submitted::Accepted(range) => {
                for name in &new {
                    self.names.confirm(name);
                }
                Ok(Some(Sequence(range.end.0.saturating_sub(u64::from(adopts)))))
            }
            Submitted::NeedRoom | Submitted::QueueFull => {
                self.awaited_bytes = records.len() as u64;
                Ok(None)
            }
        }
    }
}
