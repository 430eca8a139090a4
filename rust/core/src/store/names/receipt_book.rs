//! Decides which receipts this stream issued.

use super::receipt::Receipt;
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::store::owner::Owner;
use crate::store::state::EpochInfo;
use crate::units::{DueKey, SubjectNumber};

/// The data that judging a receipt needs, without the state. It does not change during an epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiptBook {
    /// The stream.
    pub stream: [u8; 16],
    /// Its epochs, in order.
    pub epochs: Vec<EpochInfo>,
}

impl ReceiptBook {
    /// The receipt of the message with this sequence; `None` before the first epoch.
    pub fn receipt_of(&self, key: DueKey, subject: SubjectNumber, size: u32) -> Option<Receipt> {
        let after = self.epochs.partition_point(|info| info.first_sequence <= key.sequence);
        let info = self.epochs.get(after.checked_sub(1)?)?;
        Some(Receipt::new(self.stream, info.epoch, key, subject, size, &info.nonce))
    }

    /// True if the receipt may name a message of this stream. False if the message belongs to another stream, or was
    /// lost at the end of its epoch.
    ///
    /// # Errors
    /// `InvalidArgument` if the check shows that this stream never issued the receipt.
    pub fn may_be_here(&self, receipt: &Receipt) -> Result<bool> {
        if receipt.stream != self.stream {
            return Ok(false);
        }
        let Some(index) = self.epochs.iter().position(|info| info.epoch == receipt.epoch) else { return Ok(false) };
        let (Some(info), next) = (self.epochs.get(index), self.epochs.get(index + 1)) else { return Ok(false) };
        if !receipt.is_genuine(&info.nonce) {
            return Err(Error::InvalidArgument {
                argument: "receipt",
                expected: "a receipt that this store gave out".to_owned(),
                found: receipt.to_text(),
            });
        }
        let sequence = receipt.key.sequence;
        let was_lost = next.is_some_and(|next| sequence >= next.first_sequence) && !is_on(Planted::LostReceiptTaken);
        Ok(sequence >= info.first_sequence && !was_lost)
    }
}

impl Owner {
    /// The current receipt book of this stream.
    pub fn receipt_book(&self) -> ReceiptBook {
        ReceiptBook { stream: self.state.stream.id, epochs: self.state.epochs.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Epoch, Millis, Sequence};

    #[test]
    fn a_message_has_the_receipt_of_the_epoch_that_stored_it() {
        let epoch = |epoch, first| EpochInfo {
            epoch: Epoch(epoch),
            nonce: [epoch as u8; 16],
            first_sequence: Sequence(first),
            previous_chain: 0,
        };
        let book = ReceiptBook { stream: [1; 16], epochs: vec![epoch(1, 5), epoch(2, 10)] };
        for (sequence, of) in [(5, 1), (9, 1), (10, 2), (99, 2)] {
            let key = DueKey { due: Millis(7), sequence: Sequence(sequence) };
            let receipt = book.receipt_of(key, SubjectNumber(3), 8).unwrap();
            assert_eq!(receipt, Receipt::new([1; 16], Epoch(of), key, SubjectNumber(3), 8, &[of as u8; 16]));
            assert_eq!(book.may_be_here(&receipt), Ok(true));
        }
        let before = DueKey { due: Millis(7), sequence: Sequence(4) };
        assert_eq!(book.receipt_of(before, SubjectNumber(3), 8), None);
    }

    #[test]
    fn a_receipt_from_before_a_loss_is_refused_and_cancels_no_stranger() {
        let epoch = |epoch, first| EpochInfo {
            epoch: Epoch(epoch),
            nonce: [epoch as u8; 16],
            first_sequence: Sequence(first),
            previous_chain: 0,
        };
        let book = ReceiptBook { stream: [1; 16], epochs: vec![epoch(1, 1), epoch(2, 10)] };
        let receipt = |of, sequence| {
            let key = DueKey { due: Millis(5), sequence: Sequence(sequence) };
            Receipt::new([1; 16], Epoch(of), key, SubjectNumber(1), 0, &[of as u8; 16])
        };
        assert_eq!(book.may_be_here(&receipt(1, 9)), Ok(true));
        assert_eq!(book.may_be_here(&receipt(1, 10)), Ok(false));
        assert_eq!(book.may_be_here(&receipt(2, 10)), Ok(true));
        assert_eq!(book.may_be_here(&receipt(3, 10)), Ok(false));
        let mut forged = receipt(2, 10);
        forged.key.sequence = Sequence(11);
        assert!(book.may_be_here(&forged).is_err());
    }
}
