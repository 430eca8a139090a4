//! The receipts of a publish. Each is computed when it is asked for, from a few numbers that are kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use delaymq_core::store::Receipt;
use delaymq_core::units::{DueKey, Epoch, Millis, Sequence, SubjectNumber};

/// The fields of a receipt, except the sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReceiptFields {
    pub(crate) due: Millis,
    pub(crate) subject: SubjectNumber,
    pub(crate) size: u32,
}

/// The fields that all receipts of this epoch share.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) stream: [u8; 16],
    pub(crate) epoch: Epoch,
    pub(crate) nonce: [u8; 16],
}

#[derive(Clone, Debug)]
pub(crate) enum ReceiptRows {
    One(ReceiptFields),
    Many(Arc<Vec<ReceiptFields>>),
}

impl ReceiptRows {
    pub(crate) fn none() -> Self {
        Self::Many(Arc::new(Vec::new()))
    }

    pub(crate) fn as_slice(&self) -> &[ReceiptFields] {
        match self {
            Self::One(note) => std::slice::from_ref(note),
            Self::Many(notes) => notes,
        }
    }
}

/// The receipts of one publish, in the order of its messages. Each is computed when asked for.
#[derive(Clone, Debug)]
pub struct Receipts {
    pub(crate) issuer: Arc<Issuer>,
    pub(crate) first: Sequence,
    pub(crate) notes: ReceiptRows,
    /// Receipts of messages that were stored before, by their places in the batch.
    pub(crate) there: Option<Arc<BTreeMap<usize, Receipt>>>,
}

impl Receipts {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.notes.as_slice().len()
    }

    /// True for the publish of an empty batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sequence of the first message. The others follow densely, except those that were stored before.
    pub fn first_sequence(&self) -> Sequence {
        self.first
    }

    /// The receipt of one message.
    pub fn get(&self, index: usize) -> Option<Receipt> {
        self.notes.as_slice().get(index).map(|note| self.receipt(index, note))
    }

    /// All receipts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Receipt> + '_ {
        self.some(0, self.len())
    }

    /// The receipts of `count` messages from the one at `first` on, in order; fewer if there are not so many.
    pub fn some(&self, first: usize, count: usize) -> impl ExactSizeIterator<Item = Receipt> + '_ {
        let notes = self.notes.as_slice().iter().enumerate().skip(first).take(count);
        notes.map(|(index, note)| self.receipt(index, note))
    }

    fn receipt(&self, index: usize, note: &ReceiptFields) -> Receipt {
        if let Some(there) = self.there.as_ref().and_then(|there| there.get(&index)) {
            return *there;
        }
        let key = DueKey { due: note.due, sequence: self.first.plus(index as u64) };
        let issuer = &self.issuer;
        Receipt::new(issuer.stream, issuer.epoch, key, note.subject, note.size, &issuer.nonce)
    }
}
