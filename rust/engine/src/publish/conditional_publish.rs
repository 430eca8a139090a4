//! Publishing with terms, a key or an id: what is checked before the log, and the outcomes that apply finds.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::limits::at_most;
use delaymq_core::record::name::encode_subject;
use delaymq_core::record::terms::{TERMS_ROW_BYTES, encode_terms};
use delaymq_core::store::{Outcome, Receipt, ReceiptBook, SIZE_UNKNOWN};

use crate::commit::inbox::CommitUrgency;
use crate::commit::submissions::{Expected, submission};
use crate::publish::batch::{PublishBatch, Ticket};
use crate::publish::receipts::{ReceiptFields, ReceiptRows, Receipts};
use crate::publish::terms::{AwaitedOutcomes, with_a_key};

impl PublishBatch {
    /// True if a message has terms, so that the receipts are known only once the batch is applied.
    pub fn is_on_terms(&self) -> bool {
        !self.terms.is_empty()
    }

    /// As `try_submit`, with the terms ahead of the messages. Batches take effect in the order of their submission.
    pub(crate) fn try_submit_conditional(&mut self) -> Result<Option<Ticket>> {
        let shared = Arc::clone(&self.shared);
        let messages = u32::try_from(self.notes.len()).unwrap_or(u32::MAX);
        let ahead = self.terms.rows.len().saturating_mul(TERMS_ROW_BYTES).saturating_add(AHEAD_BYTES);
        let mut records = Vec::with_capacity(self.records.len().saturating_add(ahead));
        for subject in &self.new_subjects {
            encode_subject(&mut records, subject.number, &subject.name);
        }
        let is_keyed = self.terms.rows.iter().any(|row| row.key.is_some() && row.id.is_some());
        let limits = if is_keyed { with_a_key(shared.options.terms) } else { shared.options.terms };
        encode_terms(&mut records, messages, limits, &self.terms.rows);
        records.extend_from_slice(&self.records);
        at_most("messages", shared.submission_bytes_max(), records.len())?;
        let facts = self.new_subjects.len().saturating_add(1);
        let submission = submission(&records, self.notes.len().saturating_add(facts), Class::Growing);
        let urgency = CommitUrgency { urgent: false, earliest_due: self.earliest_due };
        let Some(range) = shared.try_submit_expected(submission, urgency)? else { return Ok(None) };
        shared.names.submitted(&self.new_subjects);
        let first = range.start.plus(facts as u64);
        let notes = ReceiptRows::Many(Arc::new(std::mem::take(&mut self.notes)));
        self.is_submitted();
        let receipts = Receipts { issuer: Arc::clone(&shared.issuer), first, notes, there: None };
        let end = range.end;
        let expected = Expected { shared: Arc::clone(&shared), range };
        let awaited = Some(Box::new(AwaitedOutcomes { expected, facts, found: OnceLock::new() }));
        Ok(Some(Ticket { shared, end, receipts, awaited }))
    }
}

impl Ticket {
    pub(crate) fn receipts_found(&self, awaited: &AwaitedOutcomes) -> Result<Receipts> {
        awaited.found.get_or_init(|| self.find(awaited)).clone()
    }

    fn find(&self, awaited: &AwaitedOutcomes) -> Result<Receipts> {
        let found = self.shared.kept_answers(awaited.expected.range.clone())?;
        let (book, notes) = (self.shared.receipts.get().ok_or(Error::Closed)?, self.receipts.notes.as_slice());
        match found.get(awaited.facts - 1) {
            Some(Some(Outcome::Done)) => {}
            refused => return Err(refusal(book, notes, refused.copied().flatten())),
        }
        let mut there = BTreeMap::new();
        for (place, (found, note)) in found.iter().skip(awaited.facts).zip(notes).enumerate() {
            if let Some(Outcome::There(key, size)) = found
                && let Some(receipt) = book.receipt_of(*key, note.subject, *size)
            {
                there.insert(place, receipt);
            }
        }
        self.shared.metrics.published.add(notes.len().saturating_sub(there.len()) as u64);
        let there = (!there.is_empty()).then(|| Arc::new(there));
        Ok(Receipts { there, ..self.receipts.clone() })
    }
}

/// The bytes of subjects and terms without the rows, roughly.
const AHEAD_BYTES: usize = 256;

fn refusal(book: &ReceiptBook, notes: &[ReceiptFields], found: Option<Outcome>) -> Error {
    match found {
        Some(Outcome::KeyTaken(place, key)) => {
            let subject = notes.get(place as usize).map(|note| note.subject).unwrap_or_default();
            let receipt = book.receipt_of(key, subject, SIZE_UNKNOWN).as_ref().map(Receipt::to_text);
            Error::KeyTaken { receipt: receipt.unwrap_or_default(), index: u64::from(place) }
        }
        Some(Outcome::KeysFull(limit)) => Error::NamesFull { argument: "key", limit: u64::from(limit) },
        Some(Outcome::IdsFull(limit)) => Error::NamesFull { argument: "message_id", limit: u64::from(limit) },
        _ => Error::Closed,
    }
}
