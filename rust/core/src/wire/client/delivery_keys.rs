//! The key of a delivered message: its queue, its offset there, and the client's subscription that it was delivered
//! to.
//!
//! | bits | what |
//! |---|---|
//! | 0 to 43 | the offset |
//! | 44 | the retry subject |
//! | 45 to 63 | the lower bits of the subscription's number |
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
pub const fn key(number: u32, message: &Delivered<'_>) -> Option<u64> {
    if message.offset >= RETRY_BIT {
        return None;
    }
    let retry = if message.queue == 0 { 0 } else { RETRY_BIT };
    Some(message.offset | retry | (((number & NUMBER_MASK) as u64) << NUMBER_SHIFT))
}

/// Queue and offset of a key.
pub const fn parts(key: u64) -> (u8, u64) {
    ((key & RETRY_BIT != 0) as u8, key & (RETRY_BIT - 1))
}

/// True if the message with this key was delivered to the subscription of this number.
pub const fn is_of(key: u64, number: u32) -> bool {
    (key >> NUMBER_SHIFT) as u32 == number & NUMBER_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Epoch, Millis, Sequence, SubjectNumber};
    use crate::wire::extension::consume::PayloadForm;
    use crate::wire::extension::proof::Proof;

    fn delivered(queue: u8, offset: u64) -> Delivered<'static> {
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
        for (number, queue, offset) in [(1, 0, 0), (1, 1, 0), (7, 0, RETRY_BIT - 1), (NUMBER_MASK, 1, 5)] {
            let key = key(number, &delivered(queue, offset)).unwrap();
            assert_eq!(parts(key), (queue, offset));
            assert!(is_of(key, number) && !is_of(key, number + 1) && !is_of(key, number - 1));
            assert!(key < 1 << 63 || number > NUMBER_MASK / 2);
        }
        assert_eq!(key(1, &delivered(0, RETRY_BIT)), None);
    }
}
