//! MOVE (212): gives messages another due time, each independently of the others.
//!
//! The request is `count u32`, then for each message:
//!
//! | bytes | field |
//! |---|---|
//! | 1 | `due_kind`: 0 a delay after the server received the command, 1 a time |
//! | 8 | `due_ms` |
//! | 48 | `receipt` |
//!
//! The answer is `count u32`, then for each in order `outcome u8` (0 done, 1 dispatched already, 2 not found) and,
//! if it is done, the new receipt (48 bytes).

use bytes::BufMut;

use super::publish::{DueTime, read_receipt};
use crate::error::Result;
use crate::record::limits::BATCH_MESSAGES_MAX;
use crate::store::{RECEIPT_BYTES, Receipt};
use crate::units::Millis;
use crate::wire::fields::put_count;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// Bytes of one message in a request.
const MOVE_BYTES: usize = 9 + RECEIPT_BYTES;

/// The outcome of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// The message was pending. This is its new receipt, from this command or from an earlier equal one.
    Done(Receipt),
    /// It was already dispatched.
    AlreadyDispatched,
    /// There is no such message.
    NotFound,
}

/// Appends a request.
///
/// # Errors
/// `TooLarge` naming `receipts`.
pub fn put_moves(out: &mut Vec<u8>, moves: &[(Receipt, DueTime)]) -> Result<()> {
    put_count(out, "receipts", BATCH_MESSAGES_MAX, moves.len())?;
    for (receipt, due) in moves {
        let (kind, due_ms) = match due {
            DueTime::After(delay_ms) => (0, *delay_ms),
            DueTime::At(time) => (1, time.0),
        };
        out.put_u8(kind);
        out.put_u64(due_ms);
        out.put_slice(&receipt.to_bytes());
    }
    Ok(())
}

/// Reads a request.
///
/// # Errors
/// `Malformed` naming `receipts` or `due`.
pub fn read_moves(reader: &mut Reader<'_>) -> Read<Vec<(Receipt, DueTime)>> {
    let count = reader.count("receipts", BATCH_MESSAGES_MAX, MOVE_BYTES)?;
    let mut moves = Vec::with_capacity(count);
    for _ in 0..count {
        let (kind, due_ms) = (reader.u8("due")?, reader.u64("due")?);
        let due = match kind {
            0 => DueTime::After(due_ms),
            1 => DueTime::At(Millis(due_ms)),
            found => return Err(Malformed::Value { field: "due", expected: "0 or 1", found: i64::from(found) }),
        };
        moves.push((read_receipt(reader, "receipts")?, due));
    }
    Ok(moves)
}

/// Appends the answer.
///
/// # Errors
/// `TooLarge` naming `outcomes`.
pub fn put_moved(out: &mut Vec<u8>, moved: &[Moved]) -> Result<()> {
    put_count(out, "outcomes", BATCH_MESSAGES_MAX, moved.len())?;
    for one in moved {
        match one {
            Moved::Done(receipt) => {
                out.put_u8(0);
                out.put_slice(&receipt.to_bytes());
            }
            Moved::AlreadyDispatched => out.put_u8(1),
            Moved::NotFound => out.put_u8(2),
        }
    }
    Ok(())
}

/// Reads the answer.
///
/// # Errors
/// `Malformed` naming `outcomes` or `receipts`.
pub fn read_moved(body: &[u8]) -> Read<Vec<Moved>> {
    let mut reader = Reader::new(body);
    let count = reader.count("outcomes", BATCH_MESSAGES_MAX, 1)?;
    let mut moved = Vec::with_capacity(count);
    for _ in 0..count {
        moved.push(match reader.u8("outcomes")? {
            0 => Moved::Done(read_receipt(&mut reader, "receipts")?),
            1 => Moved::AlreadyDispatched,
            2 => Moved::NotFound,
            found => {
                return Err(Malformed::Value { field: "outcomes", expected: "0, 1 or 2", found: i64::from(found) });
            }
        });
    }
    reader.finish("outcomes").map(|()| moved)
}
