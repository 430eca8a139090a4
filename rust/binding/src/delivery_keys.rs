//! The key of a message that a server delivered: its queue, its offset there, and which subscription
//! of the client it was delivered to.
//!
//! | bits | what |
//! |---|---|
//! | 0 to 43 | the offset |
//! | 44 | the retry subject |
//! | 45 to 63 | the lower bits of the subscription's number |
//!
//! Offsets begin anew with each connection, but no two subscriptions of a client have one number, those
//! that are made again after a connection was lost included. So the key of a message that an older
//! connection delivered is none of the newer one's.

use delaymq_core::wire::extension::consume::Delivered;

const OFFSET_BITS: u32 = 44;
const RETRY_BIT: u64 = 1 << OFFSET_BITS;
const NUMBER_SHIFT: u32 = OFFSET_BITS + 1;
const NUMBER_MASK: u32 = (1 << (u64::BITS - NUMBER_SHIFT)) - 1;

/// The key of a message; `None` where its offset is larger than any that a server gives.
pub(crate) const fn key(number: u32, message: &Delivered<'_>) -> Option<u64> {
    if message.offset >= RETRY_BIT {
        return None;
    }
    let retry = if message.queue == 0 { 0 } else { RETRY_BIT };
    Some(message.offset | retry | (((number & NUMBER_MASK) as u64) << NUMBER_SHIFT))
}

/// Queue and offset of a key.
pub(crate) const fn parts(key: u64) -> (u8, u64) {
    ((key & RETRY_BIT != 0) as u8, key & (RETRY_BIT - 1))
}

/// True where the subscription of this number was handed the message of this key.
pub(crate) const fn is_of(key: u64, number: u32) -> bool {
    (key >> NUMBER_SHIFT) as u32 == number & NUMBER_MASK
}
