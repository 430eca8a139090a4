//! Publishing with terms, a key or an id: what is checked before the log, and the outcomes that apply finds.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Class, Submission};
use delaymq_core::record::limits::{at_most, check_name};
use delaymq_core::record::meta::MetaView;
use delaymq_core::record::name::encode_subject;
use delaymq_core::record::terms::{MessageTerms, NameHash, TERMS_ROW_BYTES, TermsLimits, encode_terms};
use delaymq_core::store::{Outcome, Receipt, ReceiptBook, SIZE_UNKNOWN, name_hash};
use delaymq_core::units::Sequence;

use crate::commit::inbox::CommitUrgency;
use crate::options::{IfExists, PublishTerms};
use crate::publish::batch::{PublishBatch, Ticket};
use crate::publish::receipts::{ReceiptFields, ReceiptRows, Receipts};

/// The terms of a batch that is being filled.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchConditions {
    rows: Vec<MessageTerms>,
    /// The keys in the batch. True if the message is to be refused when its key is taken.
    keys: HashMap<NameHash, bool>,
}

impl BatchConditions {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.keys.clear();
    }

    /// The terms of the message at this place. Checks what can be checked before it is stored.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key` or `message_id`.
    pub(crate) fn row(
        &self,
        place: usize,
        subject: &str,
        meta: &[u8],
        terms: &PublishTerms<'_>,
    ) -> Result<MessageTerms> {
        let key = terms.key.map(|key| key_of(subject, key)).transpose()?;
        let refuses = terms.if_exists == IfExists::Refuse;
        if let Some(before) = key.and_then(|key| self.keys.get(&key))
            && (refuses || *before)
        {
            return Err(Error::InvalidArgument {
                argument: "key",
                expected: "no key twice in a batch where one must not exist".to_owned(),
                found: terms.key.unwrap_or_default().to_owned(),
            });
        }
        let message_id = MetaView::read(meta).map(|meta| meta.message_id()).unwrap_or_default();
        if terms.deduplicates && message_id.is_empty() {
            return Err(Error::InvalidArgument {
                argument: "message_id",
                expected: "an id to tell a repetition by".to_owned(),
                found: "none".to_owned(),
            });
        }
        let id = terms.deduplicates.then(|| name_hash(subject, message_id));
        Ok(MessageTerms { place: u32::try_from(place).unwrap_or(u32::MAX), key, if_exists: terms.if_exists, id })
    }

    pub(crate) fn add(&mut self, row: MessageTerms) {
        if row.key.is_none() && row.id.is_none() {
            return;
        }
        if let Some(key) = row.key {
            self.keys.insert(key, row.if_exists == IfExists::Refuse);
        }
        self.rows.push(row);
    }
}

/// The hash that stands for a key in facts.
///
/// # Errors
/// `InvalidArgument` naming `subject` or `key`.
pub(crate) fn key_of(subject: &str, key: &str) -> Result<NameHash> {
    check_name("subject", subject)?;
    check_name("key", key)?;
    Ok(name_hash(subject, key))
}

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
        let record_count = messages.saturating_add(u32::try_from(facts).unwrap_or(u32::MAX));
        let submission =
            Submission { records: &records, record_count, adopts: 0, class: Class::Growing, must_sync: false };
        let urgency = CommitUrgency { urgent: false, earliest_due: self.earliest_due };
        let Some(range) = shared.outcomes.expect(|| shared.try_submit(submission, urgency))? else { return Ok(None) };
        shared.names.submitted(&self.new_subjects);
        let first = range.start.plus(facts as u64);
        let notes = ReceiptRows::Many(Arc::new(std::mem::take(&mut self.notes)));
        self.is_submitted();
        let receipts = Receipts { issuer: Arc::clone(&shared.issuer), first, notes, there: None };
        let end = range.end;
        let awaited = Some(Box::new(AwaitedOutcomes { range, facts, found: OnceLock::new() }));
        Ok(Some(Ticket { shared, end, receipts, awaited }))
    }
}

/// The outcomes of a batch with terms, and the receipts once they are known.
pub(crate) struct AwaitedOutcomes {
    range: Range<Sequence>,
    /// How many facts stand before the messages. The last of these facts has the terms.
    facts: usize,
    found: OnceLock<Result<Receipts>>,
}

impl Ticket {
    pub(crate) fn receipts_found(&self, awaited: &AwaitedOutcomes) -> Result<Receipts> {
        awaited.found.get_or_init(|| self.find(awaited)).clone()
    }

    fn find(&self, awaited: &AwaitedOutcomes) -> Result<Receipts> {
        let found = self.shared.answers(awaited.range.clone())?;
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

impl Drop for Ticket {
    /// Drops outcomes that no caller asked for.
    fn drop(&mut self) {
        if let Some(awaited) = self.awaited.as_ref().filter(|awaited| awaited.found.get().is_none()) {
            for sequence in awaited.range.start.0..awaited.range.end.0 {
                let _ = self.shared.outcomes.take(Sequence(sequence));
            }
        }
    }
}

/// Ids that come with a key, which clients add by themselves, may take three quarters of all ids. However many of these
/// come, callers that ask for an id have the rest.
pub(crate) const fn with_a_key(limits: TermsLimits) -> TermsLimits {
    TermsLimits { ids_max: limits.ids_max - limits.ids_max / 4, ..limits }
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
