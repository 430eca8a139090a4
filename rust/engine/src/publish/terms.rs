//! The terms of a publish, a key or an id, as the log has them.

use std::collections::HashMap;
use std::sync::OnceLock;

use delaymq_core::error::Result;
use delaymq_core::record::limits::check_name;
use delaymq_core::record::meta::MetaView;
use delaymq_core::record::terms::{MessageTerms, NameHash, TermsLimits};
use delaymq_core::store::name_hash;

use crate::commit::submissions::Expected;
use crate::invalid;
use crate::options::{IfExists, PublishTerms};
use crate::publish::receipts::Receipts;

/// The terms of a batch that is being filled.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchConditions {
    pub(crate) rows: Vec<MessageTerms>,
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
    /// Fails with `InvalidArgument` naming `key` or `message_id`.
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
            let expected = "no key twice in a batch where one must not exist";
            return Err(invalid("key", expected, terms.key.unwrap_or_default()));
        }
        let message_id = MetaView::read(meta).map(|meta| meta.message_id()).unwrap_or_default();
        if terms.deduplicates && message_id.is_empty() {
            return Err(invalid("message_id", "an id to tell a repetition by", "none"));
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
/// Fails with `InvalidArgument` naming `subject` or `key`.
pub(crate) fn key_of(subject: &str, key: &str) -> Result<NameHash> {
    check_name("subject", subject)?;
    check_name("key", key)?;
    Ok(name_hash(subject, key))
}

/// The outcomes of a batch with terms, and the receipts once they are known.
pub(crate) struct AwaitedOutcomes {
    pub(crate) expected: Expected,
    /// How many facts stand before the messages. The last of these facts has the terms.
    pub(crate) facts: usize,
    pub(crate) found: OnceLock<Result<Receipts>>,
}

/// Ids that come with a key, which clients add by themselves, may take three quarters of all ids. However many of these
/// come, callers that ask for an id have the rest.
pub(crate) const fn with_a_key(limits: TermsLimits) -> TermsLimits {
    TermsLimits { ids_max: limits.ids_max - limits.ids_max / 4, ..limits }
}
