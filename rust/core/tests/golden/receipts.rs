//! The golden receipt.

use delaymq_core::store::Receipt;
use delaymq_core::units::{DueKey, Epoch, Millis, Sequence, SubjectNumber};

use crate::batches::STREAM;
use crate::files::{Outcome, compare};

#[test]
fn receipt() -> Outcome {
    let key = DueKey { due: Millis(1_700_000_600_000), sequence: Sequence(7) };
    let nonce = [0xA1; 16];
    let receipt = Receipt::new(STREAM, Epoch(3), key, SubjectNumber(3), 42, &nonce);
    assert!(receipt.is_genuine(&nonce));
    let facts = [("nonce", "a1".repeat(16)), ("text", receipt.to_text())];
    compare("receipt", &facts, &receipt.to_bytes())
}
