//! The key of a delivered message: its queue, its offset there, and the client's subscription that it was delivered
//! to.
//!
//! | bits | what |
//! |---|---|
//! | 0 to 43 | the offset |
//! | 44 | the retry subject |
//! | 45 to 63 | the lower bits of the subscription's number |
//! | 64 to 95 | the place of the subject in its subscription |
//!
//! Offsets restart with each connection. But all subscriptions of a client have different numbers, including those
//! that are opened again after a lost connection. So the key of a message from an older connection is never a key
//! of the newer one.

use crate::wire::extension::consume::Delivered;

const OFFSET_BITS: u32 = 44;
const RETRY_BIT: u64 = 1 << OFFSET_BITS;
const NUMBER_SHIFT: u32 = OFFSET_BITS + 1;
const NUMBER_MASK: u32 = (1 << (u64::BITS - NUMBER_SHIFT)) - 1;

/// The key of a message; `None` if its offset is larger than any that a server uses.
pub const fn key(number: u32, message: &Delivered<'_>) -> Option<u128> {
    if message.offset >= RETRY_BIT {
        return None;
    }
    let retry = if message.queue & 1 == 0 { 0 } else { RETRY_BIT };
    let low = message.offset | retry | (((number & NUMBER_MASK) as u64) << NUMBER_SHIFT);
    Some(((message.queue >> 1) as u128) << u64::BITS | low as u128)
}

/// Queue and offset of a key.
#[expect(clippy::cast_possible_truncation, reason = "the halves of the key are meant")]
pub const fn parts(key: u128) -> (u32, u64) {
    let (place, low) = ((key >> u64::BITS) as u32, key as u64);
    (place << 1 | (low & RETRY_BIT != 0) as u32, low & (RETRY_BIT - 1))
}

/// True if the message with this key was delivered to the subscription of this number.
#[expect(clippy::cast_possible_truncation, reason = "the lower half of the key is meant")]
pub const fn is_of(key: u128, number: u32) -> bool {
    (key as u64 >> NUMBER_SHIFT) as u32 == number & NUMBER_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Epoch, Millis, Sequence, SubjectNumber};
    use crate::wire::extension::consume::PayloadForm;
    use crate::wire::extension::proof::Proof;

    fn delivered(queue: u32, offset: u64) -> Delivered<'static> {
        Delivered {
            queue,
            offset,
            form: PayloadForm::Opaque,
            redelivered: false,
            attempt: 1,
            sequence: Sequence(1),
            due: Millis(0),
            first_due: Millis(0),
            published: Millis(0),
            proof: Proof { epoch: Epoch(1), subject: SubjectNumber(1), check: 0 },
            subject: "a",
            meta_length: 0,
            check: 0,
            payload: b"",
        }
    }

    #[test]
    fn a_key_says_whose_it_is_and_where() {
        let keys =
            [(1, 0, 0), (1, 1, 0), (7, 0, RETRY_BIT - 1), (NUMBER_MASK, 1, 5), (7, 2, 9), (NUMBER_MASK, 19_999, 5)];
        for (number, queue, offset) in keys {
            let key = key(number, &delivered(queue, offset)).unwrap();
            assert_eq!(parts(key), (queue, offset));
            assert!(is_of(key, number) && !is_of(key, number + 1) && !is_of(key, number - 1));
            assert!(key < 1 << 63 || number > NUMBER_MASK / 2 || queue > 1);
        }
        assert_eq!(key(1, &delivered(0, RETRY_BIT)), None);
    }
}
