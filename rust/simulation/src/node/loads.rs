//! Bulk loads: runs that are staged next to the store, and adopted by one fact.

use delaymq_core::error::Result;
use delaymq_core::message_log::Class;
use delaymq_core::record::adopt::{AdoptedRun, encode_adopt};
use delaymq_core::record::terms::NameHash;
use delaymq_core::run::{LoadName, StagedMessage, StagedRun, Stager, StagingLimits, check_staged};
use delaymq_core::storage::Storage;
use delaymq_core::units::{Millis, Sequence};

use super::Node;
use super::draft::Draft;

/// A message that is to be loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewRow {
    /// The name of its subject.
    pub subject: String,
    /// Its due time.
    pub due: Millis,
    /// Its body.
    pub body: Vec<u8>,
}

/// Stages messages in files of at most `rows_max` rows. `name` is the name of the first file. After an error, the files
/// that were written stay.
pub fn stage(storage: &dyn Storage, rows: &[NewRow], name: LoadName, rows_max: u32) -> Result<Vec<StagedRun>> {
    let mut nonce = u128::from_le_bytes(name.nonce);
    let next_name = move || {
        nonce = nonce.wrapping_add(1);
        LoadName { nonce: nonce.to_le_bytes(), ..name }
    };
    let limits = StagingLimits { rows_max, ..StagingLimits::until(Millis(u64::MAX)) };
    let mut stager = Stager::new(storage, limits, next_name);
    for row in rows {
        let message = StagedMessage { due: row.due, subject: &row.subject, meta: b"", body: &row.body, expiry: None };
        stager.push(&message)?.map_err(|refused| refused.error)?;
    }
    stager.finish()
}

impl Node {
    /// Checks staged runs whole and submits their adoption. `MissingFile` or `Corrupt` if a run is not as it was
    /// staged.
    pub fn load(&mut self, job: NameHash, runs: &[StagedRun]) -> Result<Option<Sequence>> {
        let mut draft = Draft::default();
        for named in runs {
            let staged = check_staged(self.storage.as_ref(), named)?;
            for name in staged.subjects() {
                self.subject_in(&mut draft, name)?;
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
        draft.adopts = adopted.iter().fold(0, |rows, run| rows.saturating_add(run.rows));
        draft.add(|records| encode_adopt(records, job, &adopted));
        let range = self.submit_draft(&draft, Class::Growing, false)?;
        Ok(range.map(|range| Sequence(range.end.0.saturating_sub(u64::from(draft.adopts)))))
    }
}
