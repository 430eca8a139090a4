//! A submission that is being built: its records, and the subjects that it names for the first time.

use std::ops::Range;

use delaymq_core::error::Result;
use delaymq_core::message_log::{Class, Submission};
use delaymq_core::record::name::encode_subject;
use delaymq_core::units::{Sequence, SubjectNumber};

use super::Node;

/// See the module.
#[derive(Default)]
pub(super) struct Draft {
    records: Vec<u8>,
    /// Records so far.
    pub(super) count: u32,
    /// Sequences that the last record takes in addition to its own.
    pub(super) adopts: u32,
    names: Vec<String>,
}

impl Draft {
    /// Adds one record.
    pub(super) fn add(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.records);
        self.count = self.count.saturating_add(1);
    }
}

impl Node {
    /// The number of a subject. Adds its fact to the draft if no visible fact names it yet.
    pub(super) fn subject_in(&mut self, draft: &mut Draft, name: &str) -> Result<SubjectNumber> {
        let named = self.names.assign(name)?;
        if named.needs_fact && !draft.names.iter().any(|known| known == name) {
            draft.add(|records| encode_subject(records, named.number, name));
            draft.names.push(name.to_owned());
        }
        Ok(named.number)
    }

    /// Queues a draft. `None` if it must wait for room.
    pub(super) fn submit_draft(
        &mut self,
        draft: &Draft,
        class: Class,
        must_sync: bool,
    ) -> Result<Option<Range<Sequence>>> {
        let Draft { records, count, adopts, names } = draft;
        let submission = Submission { records, record_count: *count, adopts: *adopts, class, must_sync };
        let Some(range) = self.queue(submission)? else { return Ok(None) };
        for name in names {
            self.names.confirm(name);
        }
        Ok(Some(range))
    }

    /// Queues one record, and returns its sequence. `None` if it must wait for room.
    pub(super) fn submit_one(
        &mut self,
        class: Class,
        must_sync: bool,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Option<Sequence>> {
        let mut draft = Draft::default();
        draft.add(encode);
        Ok(self.submit_draft(&draft, class, must_sync)?.map(|range| range.start))
    }
}

/// The sequence of the last record of a submission.
pub(super) fn last_of(range: Range<Sequence>) -> Sequence {
    Sequence(range.end.0.saturating_sub(1))
}
